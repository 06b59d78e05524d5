//! The command line, read by hand: a few commands and a few options.

use std::path::PathBuf;
use std::time::Duration;

/// What is printed for help and for a wrong command line.
pub(crate) const USAGE: &str = "\
Usage: vctx-loadtest bench [--seconds N] [--vctx PROGRAM] [--dir DIR] [--commit ID] [--out FILE.md]
       vctx-loadtest run [--seconds N] [--vctx PROGRAM] [--dir DIR] [--commit ID] [--out FILE.md]
       vctx-loadtest slo [--scenario NAME] [--scale F] [--rate R] [--seconds N] [--socket PATH] [--corpus FILE] [--queries FILE]
                         [--vectors FILE] [--query-vectors FILE] [--vctx PROGRAM] [--dir DIR] [--commit ID] [--out FILE.md]
       vctx-loadtest engine [--only a,b,...] [--scale F] [--seconds N] [--corpus FILE] [--queries FILE] [--vectors FILE]
                         [--query-vectors FILE] [--python PROGRAM] [--engine PROGRAM] [--dir DIR] [--commit ID] [--out FILE.md] [--json]
       vctx-loadtest proxy [--seconds N] [--vctx PROGRAM] [--dir DIR] [--commit ID] [--out FILE.md]
       vctx-loadtest echo --socket PATH
       vctx-loadtest relay --socket PATH --upstream PATH

bench   measures vctx and the floors of this machine side by side, and prints a report in Markdown
  --seconds N     time of each measure over all rounds [default: 6]
  --vctx PROGRAM  the server [default: vctx beside this program; build it first]
  --dir DIR       where data is written; the disk that is measured [default: the temporary directory]
  --commit ID     the commit in the report [default: that of the working directory]
  --out FILE.md   writes the report there too
run     measures what a run costs beside the model, for each turn and each tool call, with a scripted model; options as for bench
slo     holds the service levels against calls that arrive at a fixed rate, with writers beside; an unmet level ends with 70
  --scenario NAME recall, archival, core_write, all, or the path of a file like those in loadtest/scenarios [default: all]
  --scale F       share of the scenario's rows, above 0 to 1 [default: 0.01]
  --rate R        arrivals a second [default: the scenario's]
  --socket PATH   loads a running server instead of starting one
  --corpus FILE   texts to store, a line each: plain, or JSON with content, text or query
  --queries FILE  questions, in the same forms
  --vectors FILE, --query-vectors FILE
                  vectors to store and to ask for: .fvecs, or JSON lines of arrays
engine  measures the database engine side by side with what it is held against; tantivy and faiss with the feature `comparators`
  --only a,b,...  parts: a texts by BM25, b vectors, c durable inserts, d many writers, e small reads, f disk and crash [default: all]
  --scale F       share of a million messages and a million vectors, above 0 to 1 [default: 0.01]
  --python PROGRAM
                  a Python that has `faiss-cpu`; without it vectors are measured alone
  --engine PROGRAM
                  the engine [default: arango-embedded beside this program]
  --vectors FILE, --query-vectors FILE
                  .fvecs, .npy or JSON lines of arrays; given together
  --json          prints JSON instead of Markdown
proxy   measures what `vctx proxy` adds to reads and writes of the engine, beside a relay that copies bytes; options as for bench
relay   copies bytes between a socket and another one: the floor of a proxy
echo    answers each POST with its own JSON, parsed and written anew: the floor of a request";

/// Longest and default time of one measure, in seconds.
const SECONDS: (u64, u64) = (600, 6);

/// What to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    Echo { socket: PathBuf },
    Relay { socket: PathBuf, upstream: PathBuf },
    Proxy(Options),
    Bench(Options),
    Run(Options),
    Slo(Box<SloOptions>),
    Engine(Box<EngineOptions>),
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

/// Scale of a run that does not name one: a hundredth of what is promised for.
const SCALE: f64 = 0.01;

/// How service levels are measured.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SloOptions {
    /// Name or path of a scenario.
    pub(crate) scenario: String,
    /// Share of the scenario's rows.
    pub(crate) scale: f64,
    /// Arrivals a second; none: the scenario's.
    pub(crate) rate: Option<f64>,
    /// Time of each timetable.
    pub(crate) time: Duration,
    /// A running server; none: one is started.
    pub(crate) socket: Option<PathBuf>,
    /// Files instead of what is made.
    pub(crate) corpus: Option<PathBuf>,
    pub(crate) queries: Option<PathBuf>,
    pub(crate) vectors: Option<PathBuf>,
    pub(crate) query_vectors: Option<PathBuf>,
    /// As for the bench.
    pub(crate) vctx: Option<PathBuf>,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) commit: Option<String>,
    pub(crate) out: Option<PathBuf>,
}

impl SloOptions {
    /// The files that were given, by their names.
    pub(crate) fn external(&self) -> Vec<String> {
        let given = [&self.corpus, &self.queries, &self.vectors, &self.query_vectors];
        given.into_iter().flatten().map(|path| path.display().to_string()).collect()
    }
}

/// How the engine is measured.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct EngineOptions {
    /// Letters of the parts; empty: all.
    pub(crate) only: Vec<char>,
    /// Share of a million messages and vectors.
    pub(crate) scale: f64,
    /// Time of each closed loop over all rounds.
    pub(crate) time: Duration,
    /// Files instead of what is made.
    pub(crate) corpus: Option<PathBuf>,
    pub(crate) queries: Option<PathBuf>,
    pub(crate) vectors: Option<PathBuf>,
    pub(crate) query_vectors: Option<PathBuf>,
    /// A Python with faiss.
    pub(crate) python: Option<PathBuf>,
    /// The engine's program; none: the one beside this program.
    pub(crate) engine: Option<PathBuf>,
    /// Whether JSON is printed.
    pub(crate) json: bool,
    /// As for the bench.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) commit: Option<String>,
    pub(crate) out: Option<PathBuf>,
}

impl EngineOptions {
    /// Whether a part is to be measured.
    pub(crate) fn wants(&self, part: char) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// The files that were given, by their names.
    pub(crate) fn external(&self) -> Vec<String> {
        let given = [&self.corpus, &self.queries, &self.vectors, &self.query_vectors];
        given.into_iter().flatten().map(|path| path.display().to_string()).collect()
    }
}

/// Reads the words behind the program's name.
pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    match words.next().as_deref() {
        Some("bench") => bench(words).map(Command::Bench),
        Some("run") => bench(words).map(Command::Run),
        Some("proxy") => bench(words).map(Command::Proxy),
        Some("relay") => match [(); 5].map(|()| words.next()) {
            [Some(a), Some(socket), Some(b), Some(upstream), None]
                if a == "--socket" && b == "--upstream" =>
            {
                Ok(Command::Relay { socket: socket.into(), upstream: upstream.into() })
            }
            _ => Err("relay takes --socket PATH --upstream PATH".into()),
        },
        Some("slo") => slo(words).map(|options| Command::Slo(Box::new(options))),
        Some("engine") => engine(words).map(|options| Command::Engine(Box::new(options))),
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

fn slo(mut words: impl Iterator<Item = String>) -> Result<SloOptions, String> {
    let mut options = SloOptions {
        scenario: "all".into(),
        scale: SCALE,
        time: Duration::from_secs(SECONDS.1),
        ..SloOptions::default()
    };
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--scenario" => options.scenario = value,
            "--scale" => options.scale = number(&name, &value, 1.0)?,
            "--rate" => options.rate = Some(number(&name, &value, 100_000.0)?),
            "--seconds" => options.time = seconds(&value)?,
            "--socket" => options.socket = Some(value.into()),
            "--corpus" => options.corpus = Some(value.into()),
            "--queries" => options.queries = Some(value.into()),
            "--vectors" => options.vectors = Some(value.into()),
            "--query-vectors" => options.query_vectors = Some(value.into()),
            "--vctx" => options.vctx = Some(value.into()),
            "--dir" => options.dir = Some(value.into()),
            "--commit" => options.commit = Some(value),
            "--out" => options.out = Some(value.into()),
            other => return Err(format!("unknown option `{other}`")),
        }
    }
    Ok(options)
}

fn engine(mut words: impl Iterator<Item = String>) -> Result<EngineOptions, String> {
    let time = Duration::from_secs(SECONDS.1);
    let mut options = EngineOptions { scale: SCALE, time, ..EngineOptions::default() };
    while let Some(name) = words.next() {
        if name == "--json" {
            options.json = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--only" => options.only = parts(&value)?,
            "--scale" => options.scale = number(&name, &value, 1.0)?,
            "--seconds" => options.time = seconds(&value)?,
            "--corpus" => options.corpus = Some(value.into()),
            "--queries" => options.queries = Some(value.into()),
            "--vectors" => options.vectors = Some(value.into()),
            "--query-vectors" => options.query_vectors = Some(value.into()),
            "--python" => options.python = Some(value.into()),
            "--engine" => options.engine = Some(value.into()),
            "--dir" => options.dir = Some(value.into()),
            "--commit" => options.commit = Some(value),
            "--out" => options.out = Some(value.into()),
            other => return Err(format!("unknown option `{other}`")),
        }
    }
    match options.vectors.is_some() == options.query_vectors.is_some() {
        true => Ok(options),
        false => Err("--vectors and --query-vectors are given together".into()),
    }
}

fn parts(text: &str) -> Result<Vec<char>, String> {
    let part = |word: &str| match word.as_bytes() {
        [part @ b'a'..=b'f'] => Ok(char::from(*part)),
        _ => Err(format!("--only: `{word}` is none of a to f")),
    };
    text.split(',').map(part).collect()
}

fn number(name: &str, text: &str, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n > 0.0 && n <= most => Ok(n),
        _ => Err(format!("{name}: a number above 0, at most {most}")),
    }
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
            ("walk", "unknown command `walk`"),
            ("bench --seconds", "--seconds needs a value"),
            ("bench --seconds 0", "--seconds: a whole number from 1 to 600"),
            ("bench --speed 1", "unknown option `--speed`"),
            ("slo --scale 2", "--scale: a number above 0, at most 1"),
            ("slo --rate 0", "--rate: a number above 0, at most 100000"),
            ("slo --probe 1", "unknown option `--probe`"),
            ("engine --only a,g", "--only: `g` is none of a to f"),
            ("engine --vectors x", "--vectors and --query-vectors are given together"),
            ("echo", "echo takes --socket PATH"),
            ("relay --socket a", "relay takes --socket PATH --upstream PATH"),
            ("proxy --rate 1", "unknown option `--rate`"),
        ] {
            assert_eq!(read(line), Err(fault.to_owned()), "{line}");
        }
    }
}
