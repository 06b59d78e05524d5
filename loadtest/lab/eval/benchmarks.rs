//! Runs each benchmark on its data, or reports why the benchmark is skipped.

use std::path::{Path, PathBuf};

use super::clusters::Vectors;
use super::command::{Benchmark, Eval};
use super::contexts::{self, Arms, ContextSetting, Suite};
use super::corpus::{self, Talk};
use super::host::Host;
use super::recall::{self, Setting};
use super::renamed::renamed;
use super::report::Report;
use super::{
    beam, clusters, compare, kv, locomo, nq, pages, report, survival, tables, tainted, vectors,
};
use vctx_cli::exit::Failure;

/// Default maximum number of queries for each set of vectors.
const VECTOR_QUERIES: usize = 300;

/// Runs one benchmark.
pub(super) async fn run(eval: &Eval, host: &Host, which: Benchmark) -> Result<Report, Failure> {
    match which {
        Benchmark::All => Ok(Report::default()),
        Benchmark::Locomo => recall(eval, host, "locomo").await,
        Benchmark::Realtalk => recall(eval, host, "realtalk").await,
        Benchmark::Beam => recall(eval, host, "beam").await,
        Benchmark::Nq => match directory(eval, "nq") {
            Ok(path) => {
                let most = eval.questions.unwrap_or(usize::MAX);
                nq::run(host, &path, most, eval.mode.as_deref()).await
            }
            Err(skipped) => Ok(skipped),
        },
        Benchmark::Kv => {
            let setting = kv::Setting {
                mode: eval.mode.as_deref().unwrap_or(kv::MODE),
                orderings: eval.limit,
                seed: eval.seed,
                seeds: eval.seeds,
            };
            let (path, skipped) = match directory(eval, "nested-kv") {
                Ok(path) => (Some(path), Report::default()),
                Err(skipped) => (None, skipped),
            };
            let mut report = kv::run(host, path.as_deref(), setting).await?;
            report.extend(skipped);
            Ok(report)
        }
        Benchmark::Survival => match talks(eval, "locomo")? {
            Ok(talks) => survival::run(host, talks).await,
            Err(skipped) => Ok(skipped),
        },
        Benchmark::Vectors => indexes(eval, host).await,
        Benchmark::Pages => match some_talks(eval)? {
            Ok(talks) => pages::run(host, talks).await,
            Err(skipped) => Ok(skipped),
        },
        Benchmark::Context => contexts(eval, host).await,
        Benchmark::Taint => {
            let mut report = Report::default();
            for name in ["locomo", "realtalk", "beam"] {
                report.extend(match talks(eval, name)? {
                    Ok(talks) => tainted::run(name, &talks),
                    Err(skipped) => skipped,
                });
            }
            Ok(report)
        }
    }
}

/// Runs the suites of contexts. With a model and without names of suites, the suite `fusion` runs
/// too.
async fn contexts(eval: &Eval, host: &Host) -> Result<Report, Failure> {
    let is_fused = match eval.suites.as_slice() {
        [] => host.has_model() == Some(true),
        some => some.contains(&Suite::Fusion),
    };
    let cache = eval.cache.as_deref();
    let setting = ContextSetting {
        data: &eval.data,
        suites: &eval.suites,
        arms: Arms::open(host, &eval.arms, is_fused.then_some("fusion"), cache)?,
        most: eval.questions.unwrap_or(usize::MAX),
        seed: eval.seed,
    };
    contexts::run(host, &setting).await
}

/// Finds the data directory of a benchmark. If the directory is missing, returns a report that says
/// so.
fn directory(eval: &Eval, name: &str) -> Result<PathBuf, Report> {
    corpus::directory(&eval.data, name)
        .ok_or_else(|| skipped(format!("{name}: no directory {name} in {}", eval.data.display())))
}

fn skipped(why: String) -> Report {
    Report { skipped: vec![why], ..Report::default() }
}

/// Returns the conversations of a data set, within the limits of this run.
fn talks(eval: &Eval, name: &str) -> Result<Result<Vec<Talk>, Report>, Failure> {
    let path = match directory(eval, name) {
        Ok(path) => path,
        Err(skipped) => return Ok(Err(skipped)),
    };
    let mut talks = read(name, &path)?;
    talks.truncate(eval.limit);
    if talks.is_empty() {
        return Ok(Err(skipped(format!("{name}: no conversation in {}", path.display()))));
    }
    if let Some(most) = eval.questions {
        talks.iter_mut().for_each(|talk| talk.questions.truncate(most));
    }
    Ok(Ok(talks))
}

fn read(name: &str, path: &Path) -> Result<Vec<Talk>, Failure> {
    match name {
        "beam" => beam::read(path),
        _ => locomo::read(path),
    }
}

/// Returns the conversations of the first data set that exists.
fn some_talks(eval: &Eval) -> Result<Result<Vec<Talk>, Report>, Failure> {
    for name in ["locomo", "realtalk"] {
        if let Ok(talks) = talks(eval, name)? {
            return Ok(Ok(talks));
        }
    }
    Ok(Err(skipped(format!("no conversation in {}", eval.data.display()))))
}

async fn recall(eval: &Eval, host: &Host, name: &str) -> Result<Report, Failure> {
    let talks = match talks(eval, name)? {
        Ok(talks) => talks,
        Err(skipped) => return Ok(skipped),
    };
    let setting = Setting { window: eval.window, mode: eval.mode.clone(), is_shifted: false };
    let about = tables::About::of(&talks);
    let others = eval.renamed.then(|| talks.iter().map(renamed).collect::<Vec<Talk>>());
    let played = recall::play(host, name, talks, &setting).await?;
    let mut report = tables::recall(name, &about, &played);
    if let Some(others) = others {
        let shifted = Setting { is_shifted: true, ..setting };
        let again = recall::play(host, &format!("{name}-renamed"), others, &shifted).await?;
        let title = format!("{name}: persons renamed, messages numbered otherwise");
        let now = report::questions(name, &again.questions);
        report.sections.extend(compare::section(&title, &report.questions, &now));
    }
    Ok(report)
}

/// Each set of vectors needs a separate database, because a database has one vector dimension and
/// model.
async fn indexes(eval: &Eval, host: &Host) -> Result<Report, Failure> {
    let mut report = Report::default();
    let queries = eval.questions.unwrap_or(VECTOR_QUERIES);
    let mut sets = Vec::new();
    if eval.vectors > 0 {
        sets.push(("clustered", clusters::clustered(eval.seed, eval.vectors, queries)));
    }
    let mut all = Vec::new();
    for name in ["locomo", "realtalk", "beam"] {
        all.extend(talks(eval, name)?.unwrap_or_default());
    }
    let further = match directory(eval, "nq") {
        Ok(path) => nq::passages(&path)?,
        Err(_) => Vec::new(),
    };
    let texts = clusters::texts(&all, &further, (eval.passages, queries));
    if texts.asked.is_empty() {
        report.skipped.push("vectors, lexical: no conversation as a source".into());
    } else {
        sets.push(("lexical", clusters::lexical(&texts)));
        if let Some(embedder) = host.embedder()? {
            sets.push(("model", clusters::by_model(&texts, &*embedder).await?));
        }
    }
    let mut sets: Vec<(String, Vectors)> =
        sets.into_iter().map(|(name, vectors)| (name.to_owned(), vectors)).collect();
    for (name, mut vectors) in vector_sets(eval)? {
        vectors.asked.truncate(queries);
        sets.push((name, vectors));
    }
    for (name, vectors) in sets {
        report.extend(match host.is_own() {
            false => vectors::run(host, &name, vectors, eval.trainings).await?,
            true => {
                let own = Host::own(eval.config.as_deref()).await?;
                let ended = vectors::run(&own, &name, vectors, eval.trainings).await;
                own.stop(ended).await?
            }
        });
    }
    // The goal of the vector benchmark applies to every set of vectors, so the smallest share of
    // all sets is compared with the goal.
    let full = report.reached.iter().filter(|(id, _)| id.ends_with(" full"));
    if let Some(least) = full.map(|(_, share)| *share).reduce(f64::min) {
        report.reached.push(("vectors full".into(), least));
    }
    Ok(report)
}

/// Reads sets of vectors from files; each set is named after its file.
fn vector_sets(eval: &Eval) -> Result<Vec<(String, Vectors)>, Failure> {
    let Some(path) = corpus::directory(&eval.data, "vectors") else { return Ok(Vec::new()) };
    let mut sets = Vec::new();
    for file in corpus::files(&path, ".json")? {
        sets.push((corpus::stem(&file), clusters::read(&file)?));
    }
    Ok(sets)
}
