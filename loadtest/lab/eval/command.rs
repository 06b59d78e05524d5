//! The `vctx eval` command: chooses benchmarks, data and server, and prints the figures.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::contexts::{Arm, Suite};
use super::host::Host;
use super::report::Report;
use super::saved_run::SavedRun;
use super::{benchmarks, chart, corpus, progress};
use crate::demo;
use vctx_base::clock;
use vctx_cli::exit::Failure;
use vctx_cli::output;
use vctx_cli::saved::save;

const EXAMPLES: &str = "\
Without --socket, the command starts a server on a temporary directory and stops it at the end. A benchmark without data is skipped,
and the report names it. docs/how-to/eval.md says what each number means.

Examples:
  vctx eval --data ./data
  vctx eval locomo beam --data ./data --limit 2
  vctx eval all --data ./data --save before.json --chart before.svg
  vctx eval locomo --data ./data --against before.json
  vctx eval context --data ./data --suite hotpotqa --suite month --arm bm25 --arm plain";

/// Default maximum number of conversations for each benchmark.
const TALKS_MAX: usize = 1_000;

/// Default maximum number of passages whose vectors are measured.
const PASSAGES_MAX: usize = 200_000;

/// Measure recall and archive on benchmarks that need no model
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Eval {
    /// Benchmarks to run [default: all]
    #[arg(value_enum)]
    benchmarks: Vec<Benchmark>,

    /// Directory of the data: `locomo`, `realtalk`, `beam`, `nq`, `nested-kv`, `context`
    /// below it
    #[arg(long, value_name = "DIR")]
    pub(super) data: PathBuf,

    /// Window size, in tokens, of each agent that stores a conversation
    #[arg(long, value_name = "TOKENS", default_value_t = 131_072)]
    pub(super) window: u64,

    /// Maximum number of conversations of each benchmark, and of key orderings of each nesting
    /// level
    #[arg(long, value_name = "N", default_value_t = TALKS_MAX)]
    pub(super) limit: usize,

    /// Maximum number of questions of each conversation or corpus, and of queries of each set of
    /// vectors [default: all questions, 300 queries]
    #[arg(long, value_name = "N")]
    pub(super) questions: Option<usize>,

    /// Search mode, as the tools name it [default: the default of each tool]
    #[arg(long, value_name = "MODE")]
    pub(super) mode: Option<String>,

    /// Repeat the measurement with renamed persons and renumbered messages
    #[arg(long)]
    pub(super) renamed: bool,

    /// First seed of generated stores and vectors
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// Number of generated key-value stores with 140 pairs. In addition, a tenth of this number of
    /// stores with 2 000 pairs is generated
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) seeds: usize,

    /// Number of generated vectors in clusters
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(super) vectors: usize,

    /// Maximum number of passages, evenly spread over all texts, that get vectors
    #[arg(long, value_name = "N", default_value_t = PASSAGES_MAX)]
    pub(super) passages: usize,

    /// Number of times that the index over each set of vectors is trained, each time from another
    /// seed. A value above 1 needs a server started by this command
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) trainings: usize,

    /// Run only this suite of the benchmark `context`; may be given several times
    #[arg(long = "suite", value_name = "NAME", value_enum)]
    pub(super) suites: Vec<Suite>,

    /// Also measure this usual method on the texts of the benchmark `context`; may be given several
    /// times
    #[arg(long = "arm", value_name = "NAME", value_enum)]
    pub(super) arms: Vec<Arm>,

    /// Directory in which the vectors of `--arm` are kept, by digest of text and model [default:
    /// computed in each run]
    #[arg(long, value_name = "DIR")]
    pub(super) cache: Option<PathBuf>,

    /// Socket of a running server [default: start a server]
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,

    /// Configuration file of the started server
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub(super) config: Option<PathBuf>,

    /// Write all results, with the measures of each question, to a file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Compare the figures with a saved run
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,

    /// Write a chart (SVG)
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// The benchmarks that the user can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Benchmark {
    /// Everything below
    All,
    /// Conversations of two people over months; questions with the turns that answer them
    Locomo,
    /// Conversations of real people, in the LoCoMo form
    Realtalk,
    /// Long chats with an assistant; questions by ability
    Beam,
    /// Questions about documents; the results are read page by page
    Nq,
    /// Chains of keys, each the value of the previous key; searches with heartbeats follow them
    Kv,
    /// Facts in the summary after evictions
    Survival,
    /// Recall of the vector index
    Vectors,
    /// Losslessness, accounting, pages
    Pages,
    /// False positives of the rules for tainted text
    Taint,
    /// Evidence in contexts that are built for a question
    Context,
}

/// The benchmarks that `all` runs.
const ALL: [Benchmark; 10] = [
    Benchmark::Locomo,
    Benchmark::Realtalk,
    Benchmark::Beam,
    Benchmark::Nq,
    Benchmark::Kv,
    Benchmark::Survival,
    Benchmark::Vectors,
    Benchmark::Pages,
    Benchmark::Taint,
    Benchmark::Context,
];

/// Runs `vctx eval`: runs the chosen benchmarks and prints the report.
pub async fn run(eval: Eval) -> Result<(), Failure> {
    if !eval.data.is_dir() {
        let message = format!("{} is no directory", eval.data.display());
        return Err(Failure::data(message).next(
            "give the directory of the data with --data; docs/how-to/eval.md says what belongs there",
        ));
    }
    let asked = eval.asked();
    let is_of_contexts = !eval.suites.is_empty() || !eval.arms.is_empty() || eval.cache.is_some();
    if is_of_contexts && !asked.contains(&Benchmark::Context) {
        let message = "--suite, --arm and --cache belong to the benchmark `context`";
        return Err(Failure::usage(message).next("give them with `vctx eval context`"));
    }
    let before = eval.against.as_deref().map(saved).transpose()?;
    let began = clock::now();
    let host = match &eval.socket {
        Some(socket) => Host::running(socket.clone()),
        None => Host::own(eval.config.as_deref()).await?,
    };
    let is_own = host.is_own();
    let ended = tokio::select! {
        ended = measure(&eval, &host, asked) => ended,
        interrupted = demo::interruption() => Err(interrupted),
    };
    let mut report = host.stop(ended).await?;
    if let Some(before) = before {
        let sections = before.sections("Against the saved run", &report);
        if sections.is_empty() {
            report.skipped.push("the saved run has no question of this run".into());
        }
        report.sections.extend(sections);
    }
    let about = json!({"window": eval.window, "limit": eval.limit, "questions": eval.questions, "mode": eval.mode, "seed": eval.seed,
        "seeds": eval.seeds, "vectors": eval.vectors, "passages": eval.passages, "trainings": eval.trainings, "own_server": is_own, "seconds": began.elapsed().as_secs(),
        "version": env!("CARGO_PKG_VERSION")});
    tell(&eval, &report, &about)
}

fn tell(eval: &Eval, report: &Report, about: &Value) -> Result<(), Failure> {
    let told = report.told(about);
    if let Some(path) = &eval.save {
        save(path, &format!("{told}\n"))?;
    }
    if let Some(path) = &eval.chart {
        save(path, &chart::draw(&report.sections))?;
    }
    match eval.json {
        true => output::value(&told),
        false => output::line(&report.text()),
    }
}

/// Reads a saved run from a file.
fn saved(path: &Path) -> Result<SavedRun, Failure> {
    let run = corpus::json(path)?;
    SavedRun::of(&run).ok_or_else(|| {
        let message = format!("{} is not a saved run with the current measures", path.display());
        Failure::data(message).next("make one with --save")
    })
}

impl Eval {
    /// Returns the benchmarks to run.
    fn asked(&self) -> BTreeSet<Benchmark> {
        match self.benchmarks.as_slice() {
            [] => ALL.into(),
            some if some.contains(&Benchmark::All) => ALL.into(),
            some => some.iter().copied().collect(),
        }
    }
}

async fn measure(eval: &Eval, host: &Host, asked: BTreeSet<Benchmark>) -> Result<Report, Failure> {
    let mut report = Report { has_model: host.has_model(), ..Report::default() };
    for benchmark in asked {
        let began = clock::now();
        let name = benchmark.to_possible_value().expect("no benchmark is hidden");
        let part = benchmarks::run(eval, host, benchmark).await?;
        progress::note(&format!("{}: {:.1} s", name.get_name(), began.elapsed().as_secs_f64()));
        report.extend(part);
    }
    Ok(report)
}
