//! The command itself: which benchmarks on which data against which server, and how the figures are told.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::host::Host;
use super::report::Report;
use super::{benchmarks, chart, compare, corpus, progress};
use crate::demo;
use vctx_base::clock;
use vctx_cli::exit::Failure;
use vctx_cli::output;
use vctx_cli::saved::save;

const EXAMPLES: &str = "\
Without --socket a server of its own is started on a temporary directory and is gone at the end. Benchmarks whose data are not there
are skipped and named. What each number means: docs/how-to/eval.md.

Examples:
  vctx eval --data ./data
  vctx eval locomo beam --data ./data --limit 2
  vctx eval all --data ./data --save before.json --chart before.svg
  vctx eval locomo --data ./data --against before.json";

/// Most conversations of one benchmark unless told otherwise.
const TALKS_MAX: usize = 1_000;

/// Most passages whose vectors are measured unless told otherwise.
const PASSAGES_MAX: usize = 200_000;

/// Measure recall and archive on benchmarks that need no model
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Eval {
    /// Benchmarks to run [default: all]
    #[arg(value_enum)]
    benchmarks: Vec<Benchmark>,

    /// Directory of the data: `locomo`, `realtalk`, `beam`, `nq`, `nested-kv` below it
    #[arg(long, value_name = "DIR")]
    pub(super) data: PathBuf,

    /// Tokens of the window of each agent that holds a conversation
    #[arg(long, value_name = "TOKENS", default_value_t = 131_072)]
    pub(super) window: u64,

    /// Conversations of each benchmark, and orderings of each level, at most
    #[arg(long, value_name = "N", default_value_t = TALKS_MAX)]
    pub(super) limit: usize,

    /// Questions of each conversation or corpus, and queries of each set of vectors, at most [default: all; 300]
    #[arg(long, value_name = "N")]
    pub(super) questions: Option<usize>,

    /// Way of searching, as the tools name it [default: theirs]
    #[arg(long, value_name = "MODE")]
    pub(super) mode: Option<String>,

    /// Measure once more with persons renamed and messages numbered otherwise
    #[arg(long)]
    pub(super) renamed: bool,

    /// First seed of stores and vectors that are made
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// Stores of 140 pairs made from seeds; a tenth as many of 2 000
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) seeds: usize,

    /// Vectors of the seeded clusters
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(super) vectors: usize,

    /// Passages of all texts of which vectors are made, at most, evenly spread
    #[arg(long, value_name = "N", default_value_t = PASSAGES_MAX)]
    pub(super) passages: usize,

    /// Times that the index over each set of vectors is trained, each time from another seed; on a server of our own
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) trainings: usize,

    /// Socket of a server that runs [default: one is started]
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,

    /// Configuration file of the server that is started
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub(super) config: Option<PathBuf>,

    /// Write everything, each question's measures too, to a file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Hold the figures against a run that was saved
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,

    /// Write a picture (SVG)
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Benchmark {
    /// Everything below
    All,
    /// Two people over months; questions with the turns that answer them
    Locomo,
    /// The same form, real people
    Realtalk,
    /// Long chats with an assistant; questions by ability
    Beam,
    /// Questions to documents, page by page
    Nq,
    /// Keys whose values are keys, followed by heartbeats
    Kv,
    /// Facts in the summary after evictions
    Survival,
    /// Recall of the vector index
    Vectors,
    /// Losslessness, accounting, pages
    Pages,
    /// False marks of the rules for tainted text
    Taint,
}

/// Those that are run for `all`.
const ALL: [Benchmark; 9] = [
    Benchmark::Locomo,
    Benchmark::Realtalk,
    Benchmark::Beam,
    Benchmark::Nq,
    Benchmark::Kv,
    Benchmark::Survival,
    Benchmark::Vectors,
    Benchmark::Pages,
    Benchmark::Taint,
];

/// Runs the command.
pub async fn run(eval: Eval) -> Result<(), Failure> {
    if !eval.data.is_dir() {
        let message = format!("{} is no directory", eval.data.display());
        return Err(Failure::data(message).next(
            "give the directory of the data with --data; docs/how-to/eval.md says what belongs there",
        ));
    }
    let before = eval.against.as_deref().map(saved).transpose()?;
    let began = clock::now();
    let host = match &eval.socket {
        Some(socket) => Host::given(socket.clone()),
        None => Host::own(eval.config.as_deref()).await?,
    };
    let is_own = host.is_own();
    let ended = tokio::select! {
        ended = measure(&eval, &host) => ended,
        interrupted = demo::interruption() => Err(interrupted),
    };
    let mut report = host.stop(ended).await?;
    if let Some(before) = before {
        match compare::section("Against the saved run", &before, &report.questions) {
            Some(section) => report.sections.push(section),
            None => report.skipped.push("no question of this run stands in the saved one".into()),
        }
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

/// The questions of a run that was saved.
fn saved(path: &Path) -> Result<Vec<Value>, Failure> {
    let run = corpus::json(path)?;
    compare::saved(&run).cloned().ok_or_else(|| {
        let message = format!("{} is no run with these measures", path.display());
        Failure::data(message).next("make one with --save")
    })
}

async fn measure(eval: &Eval, host: &Host) -> Result<Report, Failure> {
    let asked: BTreeSet<Benchmark> = match eval.benchmarks.as_slice() {
        [] => ALL.into(),
        some if some.contains(&Benchmark::All) => ALL.into(),
        some => some.iter().copied().collect(),
    };
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
