//! The command line, read by hand: two commands and a few options.

use std::path::PathBuf;
use std::time::Duration;

/// What is printed for help and for a wrong command line.
pub(crate) const USAGE: &str = "\
Usage: vctx-loadtest bench [--seconds N] [--vctx PROGRAM] [--dir DIR] [--commit ID] [--out FILE.md]
       vctx-loadtest echo --socket PATH

bench   measures vctx and the floors of this machine side by side, and prints a report in Markdown
  --seconds N     time of each measure over all rounds [default: 6]
  --vctx PROGRAM  the server [default: vctx beside this program; build it first]
  --dir DIR       where data is written; the disk that is measured [default: the temporary directory]
  --commit ID     the commit in the report [default: that of the working directory]
  --out FILE.md   writes the report there too
echo    answers each POST with its own JSON, parsed and written anew: the floor of a request";

/// Longest and default time of one measure, in seconds.
const SECONDS: (u64, u64) = (600, 6);

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Echo { socket: PathBuf },
    Bench(Options),
}

/// How to measure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Time of each measure over all rounds.
    pub(crate) time: Duration,
    /// The server's program; none: the one beside this program.
    pub(crate) vctx: Option<PathBuf>,
    /// Where data is written; none: the temporary directory.
    pub(crate) dir: Option<PathBuf>,
    /// The commit in the report; none: asked of git.
    pub(crate) commit: Option<String>,
    /// Where the report is written beside stdout.
    pub(crate) out: Option<PathBuf>,
}

/// Reads the words behind the program's name.
pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    match words.next().as_deref() {
        Some("bench") => bench(words).map(Command::Bench),
        Some("echo") => match (words.next().as_deref(), words.next(), words.next()) {
            (Some("--socket"), Some(path), None) => Ok(Command::Echo { socket: path.into() }),
            _ => Err("echo takes --socket PATH".into()),
        },
        Some("--help" | "-h" | "help") => Ok(Command::Help),
        Some(other) => Err(format!("unknown command `{other}`")),
        None => Err("no command".into()),
    }
}

fn bench(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let time = Duration::from_secs(SECONDS.1);
    let mut options = Options { time, vctx: None, dir: None, commit: None, out: None };
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--seconds" => options.time = seconds(&value)?,
            "--vctx" => options.vctx = Some(value.into()),
            "--dir" => options.dir = Some(value.into()),
            "--commit" => options.commit = Some(value),
            "--out" => options.out = Some(value.into()),
            other => return Err(format!("unknown option `{other}`")),
        }
    }
    Ok(options)
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(n) if (1..=SECONDS.0).contains(&n) => Ok(Duration::from_secs(n)),
        _ => Err(format!("--seconds: a whole number from 1 to {}", SECONDS.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_command_line_is_read_or_its_fault_is_named() {
        let bench = read("bench --seconds 2 --vctx a/vctx --out r.md").unwrap();
        let expected = Options {
            time: Duration::from_secs(2),
            vctx: Some("a/vctx".into()),
            dir: None,
            commit: None,
            out: Some("r.md".into()),
        };
        assert_eq!(bench, Command::Bench(expected));
        for (line, fault) in [
            ("", "no command"),
            ("run", "unknown command `run`"),
            ("bench --seconds", "--seconds needs a value"),
            ("bench --seconds 0", "--seconds: a whole number from 1 to 600"),
            ("bench --speed 1", "unknown option `--speed`"),
            ("echo", "echo takes --socket PATH"),
        ] {
            assert_eq!(read(line), Err(fault.to_owned()), "{line}");
        }
    }
}
