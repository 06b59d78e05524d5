//! `vctx export`: everything that an agent is, in one file that another server makes the same agent of.

use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::exit::Failure;
use crate::output;
use crate::portable::Passing;
use crate::saved::Saved;
use crate::target::Target;
use vctx_core::memory::export::Checked;

const EXAMPLES: &str = "\
Examples:
  vctx export --agent ada --out ada.jsonl
  vctx export --agent ada --out ada.jsonl.gz        packed, by its ending
  vctx export --agent ada | ssh there 'cat > ada.jsonl'
  vctx import ada.jsonl                             there: the same agent, with the same proofs
  tail -n 1 ada.jsonl | jq .state                   one hash for one state, wherever it lies

The file is of one moment, is checked on its way, and stands under its name only when it is whole. Two exports of one
state are the same bytes. What goes into it and what stays: docs/how-to/export.md";

/// Write everything that an agent is into one file
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// The agent
    #[arg(long)]
    agent: String,

    /// The file; packed if it ends in .gz [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    pub target: Target,
}

/// Where the bytes go.
enum Sink {
    Stdout(io::Stdout),
    Plain(Saved),
    Packed(GzEncoder<Saved>),
}

impl Sink {
    fn of(out: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = out else { return Ok(Self::Stdout(io::stdout())) };
        let file = Saved::begin(path).map_err(|error| Failure::writing(path.display(), &error))?;
        Ok(match path.extension().is_some_and(|ending| ending == "gz") {
            true => Self::Packed(GzEncoder::new(file, Compression::default())),
            false => Self::Plain(file),
        })
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.write_all(piece),
            Self::Plain(file) => file.write_all(piece),
            Self::Packed(packer) => packer.write_all(piece),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Stdout(mut out) => out.flush(),
            Self::Plain(file) => file.finish(),
            Self::Packed(packer) => packer.finish()?.finish(),
        }
    }
}

/// Tells how far something is, now and then, to a person who waits.
struct Progress {
    told: Instant,
}

impl Progress {
    const PAUSE: Duration = Duration::from_millis(500);

    fn tell(&mut self, rows: u64, bytes: u64) {
        if self.told.elapsed() < Self::PAUSE || !io::stderr().is_terminal() {
            return;
        }
        self.told = vctx_base::clock::now();
        // Nobody is told if stderr is gone.
        let _ = write!(io::stderr(), "\r\x1b[2K{rows} rows, {} MiB", bytes >> 20);
    }
}

/// Runs the command.
pub async fn run(asked: Export) -> Result<(), Failure> {
    let client = asked.target.client();
    let out = asked.out.as_deref();
    let mut sink = Sink::of(out)?;
    let (mut passing, mut bytes, mut broken) = (Passing::begin(), 0, None);
    let mut progress = Progress { told: vctx_base::clock::now() };
    let mut take = |piece: &[u8]| {
        bytes += piece.len() as u64;
        let taken = passing.take(piece).map_err(came_broken).and_then(|()| {
            let name = out.map_or("stdout".into(), |path| path.display().to_string());
            sink.write(piece).map_err(|error| Failure::writing(name, &error))
        });
        progress.tell(passing.rows(), bytes);
        broken = taken.err();
        broken.is_none()
    };
    client.export(&asked.agent, &mut take).await?;
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\x1b[2K");
    }
    if let Some(failure) = broken {
        return Err(failure);
    }
    let checked = passing.finish().map_err(came_broken)?;
    let name = out.map_or("stdout".into(), |path| path.display().to_string());
    sink.finish().map_err(|error| Failure::writing(&name, &error))?;
    told(&checked, out.map(|_| name.as_str()), bytes, asked.target.json)
}

fn came_broken(why: String) -> Failure {
    Failure::data(format!("the export came broken: {why}"))
        .next("try again; if it stays so, look with `vctx verify` at what is wrong with the agent")
}

fn told(checked: &Checked, name: Option<&str>, bytes: u64, as_json: bool) -> Result<(), Failure> {
    // The file itself went to stdout.
    let Some(name) = name else { return Ok(()) };
    let mut told = checked.told();
    told["file"] = name.into();
    told["bytes"] = bytes.into();
    if as_json {
        return output::value(&told);
    }
    output::line(&format!(
        "{} is in {name}: {} rows, {bytes} bytes",
        checked.header.agent, checked.rows
    ))?;
    table(checked)
}

/// What a file holds, as a table.
pub fn table(checked: &Checked) -> Result<(), Failure> {
    let counts = checked.counts.as_object().into_iter().flatten();
    let rows: Vec<Vec<String>> = counts
        .filter(|(_, count)| count.as_u64() != Some(0))
        .map(|(name, count): (&String, &Value)| vec![name.clone(), count.to_string()])
        .collect();
    output::line(&output::table(&["what", "rows"], &[1], &rows))?;
    output::line(&format!("state {}", checked.state))
}
