//! Defines the command line of the load test.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Maximum time of one measurement, in seconds.
const SECONDS_MAX: u64 = 600;
/// Maximum rate of calls that a timetable may have, in calls per second.
const RATE_MAX: f64 = 100_000.0;

const ABOUT: &str = "Measures vctx and its database engine, and what this machine can do at best";

const EXAMPLES: &str = "\
First build the measured programs: cargo build --release. Every report is Markdown on
stdout, and names the machine, its load and the commit.

Examples:
  vctx-loadtest bench --out bench.md
  vctx-loadtest bench --against older/vctx --only append_fifo
  vctx-loadtest slo --scenario recall --scale 0.1
  vctx-loadtest engine --only a,b";

#[derive(Debug, Parser)]
#[command(name = "vctx-loadtest", about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, PartialEq, Subcommand)]
pub(crate) enum Command {
    /// Measure calls of vctx, an HTTP echo and the disk alternately
    Bench(BenchOptions),
    /// Measure the overhead of a run around the model, with a scripted model
    Run(Options),
    /// Check the service levels with calls at a fixed rate; if a level is not met, the exit code is
    /// 70
    Slo(SloOptions),
    /// Measure the database engine next to other stores; tantivy and faiss need the feature
    /// `comparators`
    Engine(EngineOptions),
    /// Measure the overhead of `vctx proxy`, next to a relay that copies bytes
    Proxy(Options),
    /// Copy bytes between two sockets; this shows the minimum cost of a proxy
    Relay {
        /// Socket to listen on
        #[arg(long, value_name = "PATH")]
        socket: PathBuf,
        /// Socket to connect to
        #[arg(long, value_name = "PATH")]
        upstream: PathBuf,
    },
    /// Answer each POST with the JSON of its body; this shows the minimum cost of a request
    Echo {
        /// Socket to listen on
        #[arg(long, value_name = "PATH")]
        socket: PathBuf,
    },
}

/// Options common to all measurements.
#[derive(Debug, PartialEq, Args)]
pub(crate) struct Common {
    /// Time of each measure over all rounds, in seconds
    #[arg(long = "seconds", value_name = "N", default_value = "6", value_parser = seconds)]
    pub(crate) time: Duration,

    /// Directory for data, on the disk to measure [default: the temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Commit to name in the report [default: the commit of the working directory]
    #[arg(long, value_name = "ID")]
    pub(crate) commit: Option<String>,

    /// Write the report also to this file
    #[arg(long, value_name = "FILE.md")]
    pub(crate) out: Option<PathBuf>,
}

/// Options of the commands that measure the program `vctx`.
#[derive(Debug, PartialEq, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,

    /// Program of the server [default: vctx in the directory of this program]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) vctx: Option<PathBuf>,
}

#[derive(Debug, PartialEq, Args)]
pub(crate) struct BenchOptions {
    #[command(flatten)]
    pub(crate) options: Options,

    /// Another program of the server, such as that of an earlier commit, to measure in turn
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) against: Option<PathBuf>,

    /// Measure only rows whose name contains this text, such as "append_fifo`, durable"
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
}

/// Files with data that replace generated data.
#[derive(Debug, PartialEq, Args)]
pub(crate) struct Files {
    /// Texts to store, one per line: plain, or JSON with content, text or query
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: Option<PathBuf>,

    /// Questions, in the same forms as texts
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,

    /// Vectors to store: .fvecs, .npy, or JSON arrays, one per line
    #[arg(long, value_name = "FILE")]
    pub(crate) vectors: Option<PathBuf>,

    /// Vectors to search with, in the same forms as stored vectors
    #[arg(long, value_name = "FILE", requires = "vectors")]
    pub(crate) query_vectors: Option<PathBuf>,
}

impl Files {
    /// Returns the paths of the files that the user gave as options.
    pub(crate) fn names(&self) -> Vec<String> {
        let files = [&self.corpus, &self.queries, &self.vectors, &self.query_vectors];
        files.into_iter().flatten().map(|path| path.display().to_string()).collect()
    }
}

#[derive(Debug, PartialEq, Args)]
pub(crate) struct SloOptions {
    #[command(flatten)]
    pub(crate) options: Options,

    #[command(flatten)]
    pub(crate) files: Files,

    /// recall, recall_agents, archival, core_write, all, or a file like those in scenarios/
    #[arg(long, value_name = "NAME", default_value = "all")]
    pub(crate) scenario: String,

    /// Share of the scenario's rows to store: greater than 0, at most 1
    #[arg(long, value_name = "F", default_value = "0.01", value_parser = share)]
    pub(crate) scale: f64,

    /// Arrivals per second [default: the rate of the scenario]
    #[arg(long, value_name = "R", value_parser = rate)]
    pub(crate) rate: Option<f64>,

    /// Socket of a running server to load [default: start one]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

#[derive(Debug, PartialEq, Args)]
pub(crate) struct EngineOptions {
    #[command(flatten)]
    pub(crate) common: Common,

    #[command(flatten)]
    pub(crate) files: Files,

    /// Parts to measure: a texts by BM25, b vectors, c durable inserts, d many writers, e small
    /// reads, f disk and crash [default: all]
    #[arg(long, value_name = "a,b,...", value_delimiter = ',', value_parser = part)]
    pub(crate) only: Vec<char>,

    /// Share of a million messages and of a million vectors to store: greater than 0, at most 1
    #[arg(long, value_name = "F", default_value = "0.01", value_parser = share)]
    pub(crate) scale: f64,

    /// Python interpreter with faiss-cpu, for the comparison of vectors
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) python: Option<PathBuf>,

    /// Program of the engine [default: arango-embedded in the directory of this program]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) engine: Option<PathBuf>,

    /// Print JSON instead of Markdown
    #[arg(long)]
    pub(crate) json: bool,
}

impl EngineOptions {
    /// Whether to measure at least one of the given parts of the benchmark. If the user selected no
    /// part, all parts are measured.
    pub(crate) fn wants(&self, parts: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| parts.contains(*part))
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok().filter(|n| (1..=SECONDS_MAX).contains(n));
    number.map(Duration::from_secs).ok_or_else(|| format!("use a whole number, 1 to {SECONDS_MAX}"))
}

fn share(text: &str) -> Result<f64, String> {
    above_0(text, 1.0)
}

fn rate(text: &str) -> Result<f64, String> {
    above_0(text, RATE_MAX)
}

fn above_0(text: &str, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| *number > 0.0 && *number <= most);
    number.ok_or_else(|| format!("use a number above 0, at most {most}"))
}

fn part(text: &str) -> Result<char, String> {
    let letter = text.parse().ok().filter(|letter| ('a'..='f').contains(letter));
    letter.ok_or_else(|| "use letters from a to f".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        let words = std::iter::once("vctx-loadtest").chain(line.split_whitespace());
        CommandLine::try_parse_from(words).map(|line| line.command)
    }

    #[test]
    fn a_command_line_gives_its_options() {
        let Ok(Command::Bench(bench)) = parse("bench --seconds 2 --vctx a/vctx --out r.md") else {
            panic!("a bench")
        };
        let options = bench.options;
        assert_eq!(options.common.time, Duration::from_secs(2));
        assert_eq!(
            (options.vctx, options.common.out),
            (Some("a/vctx".into()), Some("r.md".into()))
        );
        assert_eq!((bench.against, bench.only), (None, None));
        let Ok(Command::Engine(engine)) = parse("engine --only a,f --scale 1") else {
            panic!("an engine")
        };
        assert!(engine.wants("bf") && !engine.wants("bcde"));
        assert_eq!(engine.common.time, Duration::from_secs(6));
    }

    #[test]
    fn a_wrong_command_line_is_refused() {
        for line in [
            "",
            "walk",
            "bench --seconds",
            "bench --seconds 0",
            "bench --speed 1",
            "slo --scale 2",
            "slo --rate 0",
            "slo --query-vectors x",
            "engine --only a,g",
            "echo",
            "relay --socket a",
            "proxy --rate 1",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
