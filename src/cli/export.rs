//! `vctx export`: writes an agent into one file, which another server can import.

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
use crate::whose::Whose;
use vctx_core::memory::export::ImportPlan;

const EXAMPLES: &str = "\
Examples:
  vctx export --agent ada --out ada.jsonl
  vctx export --agent ada --out ada.jsonl.gz        compressed, because the name ends in .gz
  vctx export --agent ada | ssh there 'cat > ada.jsonl'
  vctx import ada.jsonl                             on the other server: the same agent with the same digests
  tail -n 1 ada.jsonl | jq .state                   the digest of the agent's state

The file contains the agent's state at one moment. The command checks the file while it arrives, and gives the file its
name only when it is complete. Two exports of the same state are equal byte for byte. What the file contains and what
it leaves out: docs/how-to/export.md";

/// Write an agent with all its data into one file
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    #[command(flatten)]
    whose: Whose,

    /// The file; compressed if its name ends in .gz [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    pub target: Target,
}

/// The destination to which an export is written.
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

/// Prints the progress of an export from time to time, if stderr is a terminal.
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
        // If stderr is closed, the export continues without progress.
        let _ = write!(io::stderr(), "\r\x1b[2K{rows} rows, {} MiB", bytes >> 20);
    }
}

/// Runs `vctx export`.
pub async fn run(asked: Export) -> Result<(), Failure> {
    let (client, agent) = (asked.target.client(), asked.whose.agent()?);
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
    client.export(&agent, &mut take).await?;
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\x1b[2K");
    }
    if let Some(failure) = broken {
        return Err(failure);
    }
    let checked = passing.finish().map_err(came_broken)?;
    let name = out.map_or("stdout".into(), |path| path.display().to_string());
    sink.finish().map_err(|error| Failure::writing(&name, &error))?;
    print_outcome(&checked, out.map(|_| name.as_str()), bytes, asked.target.json)
}

fn came_broken(why: String) -> Failure {
    Failure::data(format!("the export arrived damaged: {why}"))
        .next("try again; if it fails again, check the agent with `vctx verify`")
}

fn print_outcome(
    checked: &ImportPlan,
    name: Option<&str>,
    bytes: u64,
    as_json: bool,
) -> Result<(), Failure> {
    // Without a file name, the export itself was written to stdout, so nothing else may be printed
    // there.
    let Some(name) = name else { return Ok(()) };
    let mut told = checked.answer();
    told["file"] = name.into();
    told["bytes"] = bytes.into();
    if as_json {
        return output::value(&told);
    }
    output::line(&format!(
        "agent {} exported to {name}: {} rows, {bytes} bytes",
        checked.header.agent, checked.rows
    ))?;
    table(checked)
}

/// Prints a table with the number of rows of each kind in an export file.
pub fn table(checked: &ImportPlan) -> Result<(), Failure> {
    let counts = checked.counts.as_object().into_iter().flatten();
    let rows: Vec<Vec<String>> = counts
        .filter(|(_, count)| count.as_u64() != Some(0))
        .map(|(name, count): (&String, &Value)| vec![name.clone(), count.to_string()])
        .collect();
    output::line(&output::table(&["what", "rows"], &[1], &rows))?;
    output::line(&format!("state {}", checked.state))
}
