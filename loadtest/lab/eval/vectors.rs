//! Measures the recall of the vector index at each `nProbe` against an exact search, with and
//! without a filter.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::archive::{self, Walk};
use super::caller::Caller;
use super::clusters::Vectors;
use super::corpus::text_of;
use super::host::Host;
use super::progress::Progress;
use super::report::{Report, Section, percent};
use super::trained::{self, Index};
use vctx_cli::exit::Failure;
use vctx_core::memory::Encoding;
use vctx_core::text::Tiktoken;

/// Values of `nProbe` to measure; with `None`, the server chooses the value.
const PROBES: [Option<u32>; 8] =
    [Some(1), Some(2), Some(4), Some(8), Some(16), Some(32), Some(64), None];
/// Number of results of a search.
const WANTED: usize = 10;
/// Tolerance for ties: a result counts as correct if its score is lower than the score of the last
/// exact neighbour by at most this difference.
const TIE: f64 = 1e-9;
/// Size of the agent's window in tokens, large enough for pages of results.
const WINDOW: u64 = 32_768;
/// Number of chunks of one document, small enough that a request with the chunks' vectors stays
/// below the maximum body size.
const CHUNKS_PER_DOCUMENT: usize = 256;
/// Number of sources over which the chunks are spread. A filter on one source leaves 1 % of the
/// chunks.
const SOURCES: usize = 100;
/// The reported quantile of the recall: 5 % of the queries have a recall below this quantile.
const LOW: f64 = 0.05;

/// Results of a set of vector searches.
#[derive(Debug, Default)]
struct SearchResults {
    /// Share of the exact nearest vectors that were found, for each query.
    recalls: Vec<f64>,
    /// Number of queries that returned fewer results than an exact search.
    short: usize,
    plans: HashMap<String, usize>,
    /// `nProbe` as reported in the last answer.
    n_probe: Option<u64>,
}

/// Fills the archive of a server, then trains and measures the vector index a given number of
/// times.
pub(super) async fn run(
    host: &Host,
    name: &str,
    vectors: Vectors,
    trainings: usize,
) -> Result<Report, Failure> {
    let caller =
        Caller::create(host.client(), host.agent(&format!("vectors-{name}")), WINDOW).await?;
    if let Err(failure) = fill(&caller, name, &vectors.stored).await {
        if failure.code == "VECTOR_SETTING_MISMATCH" {
            let why = format!(
                "vectors, {name}: the database of this server holds other vectors: {}",
                failure.message
            );
            return Ok(Report { skipped: vec![why], ..Report::default() });
        }
        return Err(failure);
    }
    let all = truths(&vectors, false).await?;
    let few = truths(&vectors, true).await?;
    let mut report = Report::default();
    for training in 0..trainings.max(1) {
        let index = match training {
            0 => trained::wait(host, vectors.stored.len()).await?,
            _ => match trained::anew(host, vectors.stored.len()).await? {
                Some(index) => index,
                None => break,
            },
        };
        let measured = measure(host, &caller, &vectors, &index, [&all, &few]).await?;
        report.extend(section(name, &vectors, training, &index, measured));
    }
    Ok(report)
}

/// Maximum share of the stored vectors that a search may compare with its query. The goal for the
/// index's recall covers only searches within this limit.
const SCANNED_MAX: f64 = 0.12;

/// Returns the two figures that have goals. One is the best recall of the searches that compare at
/// most the allowed share of the vectors. The other is the share of filtered searches that return
/// full result lists.
fn goals(name: &str, measured: &[Measured]) -> Vec<(String, f64)> {
    let within = measured.iter().filter(|one| one.scanned.is_some_and(|s| s <= SCANNED_MAX));
    let best = within.map(|one| mean(&one.results.recalls)).reduce(f64::max);
    let filtered = measured.iter().filter(|one| one.is_filtered);
    let (short, asked) = filtered.fold((0, 0), |(short, asked), one| {
        (short + one.results.short, asked + one.results.recalls.len())
    });
    let full = 1.0 - short as f64 / asked.max(1) as f64;
    let mut reached = vec![(format!("vectors {name} full"), full * 100.0)];
    reached.extend(best.map(|best| (format!("vectors {name} within 12 %"), best * 100.0)));
    reached
}

/// The result of the searches at one `nProbe`.
struct Measured {
    is_filtered: bool,
    probe: Option<u32>,
    results: SearchResults,
    scanned: Option<f64>,
}

async fn measure(
    host: &Host,
    caller: &Caller,
    vectors: &Vectors,
    index: &Index,
    [all, few]: [&[Truth]; 2],
) -> Result<Vec<Measured>, Failure> {
    let progress = Progress::new("vectors", vectors.asked.len() * PROBES.len() * 2);
    let mut rows = Vec::new();
    for (is_filtered, truths) in [(false, all), (true, few)] {
        for probe in PROBES {
            let mut results = SearchResults::default();
            for (at, (vector, truth)) in vectors.asked.iter().zip(truths).enumerate() {
                let source = is_filtered.then_some(at % SOURCES);
                ask(caller, vector, (probe, source), truth, &mut results).await?;
                progress.add(1);
            }
            let scanned = match results.n_probe.filter(|_| !is_filtered) {
                Some(cells) => trained::scanned(host, index, vectors, cells).await?,
                None => None,
            };
            rows.push(Measured { is_filtered, probe, results, scanned });
        }
    }
    progress.close();
    Ok(rows)
}

fn section(
    name: &str,
    vectors: &Vectors,
    training: usize,
    index: &Index,
    measured: Vec<Measured>,
) -> Report {
    let (mut rows, mut reached) = (Vec::new(), goals(name, &measured));
    for Measured { is_filtered, probe, results, scanned } in measured {
        let kind = if is_filtered { "one source of 100" } else { "all" };
        let (mean, low) = (mean(&results.recalls), low_end(&results.recalls));
        let short = results.short as f64 / results.recalls.len().max(1) as f64;
        let probe = probe.map_or_else(|| "as measured".to_owned(), |n| n.to_string());
        if training == 0 {
            reached.push((format!("vectors {name} {kind} nProbe {probe}"), mean * 100.0));
            reached.push((format!("vectors {name} {kind} short {probe}"), short * 100.0));
            if let Some(scanned) = scanned {
                reached.push((format!("vectors {name} {kind} scanned {probe}"), scanned * 100.0));
            }
        }
        let mut plans: Vec<String> =
            results.plans.iter().map(|(plan, times)| format!("{plan} {times}")).collect();
        plans.sort();
        let cells = results.n_probe.map_or_else(String::new, |cells| match probe.as_str() {
            "as measured" => format!("as measured: {cells}"),
            _ => cells.to_string(),
        });
        rows.push(vec![
            kind.to_owned(),
            if cells.is_empty() { probe } else { cells },
            scanned.map_or_else(String::new, percent),
            percent(mean),
            percent(low),
            percent(short),
            plans.join(", "),
        ]);
    }
    let heads = ["filter", "nProbe", "scanned", "recall@10", "5th percentile", "short", "plans"];
    let dimension = vectors.stored.first().map_or(0, Vec::len);
    let notes = vec![
        format!(
            "{} vectors of {dimension} components, {} queries that are not among them; {}",
            vectors.stored.len(),
            vectors.asked.len(),
            index.sentence()
        ),
        "short: queries with fewer than ten results although at least ten vectors match; scanned: share of the stored vectors in the lists that the search read".to_owned(),
    ];
    let bars = reached.iter().filter(|(id, _)| id.contains("nProbe")).cloned().collect();
    let title = match training {
        0 => format!("vectors: recall of the index, {name}"),
        more => format!("vectors: recall of the index, {name}, trained again ({})", more + 1),
    };
    let section = Section { title, heads: heads.map(str::to_owned).into(), rows, notes, bars };
    Report { sections: vec![section], reached, ..Report::default() }
}

fn source(at: usize) -> String {
    format!("source-{}", at % SOURCES)
}

fn chunk_id(at: usize) -> String {
    format!("v{at}")
}

async fn fill(caller: &Caller, name: &str, stored: &[Vec<f32>]) -> Result<(), Failure> {
    let progress = Progress::new(&format!("vectors, {name}: archive"), stored.len());
    let model = format!("eval-{name}");
    for (number, some) in stored.chunks(CHUNKS_PER_DOCUMENT).enumerate() {
        let first = number * CHUNKS_PER_DOCUMENT;
        let texts: Vec<String> = (first..first + some.len()).map(|at| format!("v{at}. ")).collect();
        let mut end = 0;
        let spans: Vec<Value> = texts
            .iter()
            .map(|text| {
                let start = end;
                end += text.chars().count();
                json!({"start": start, "end": end})
            })
            .collect();
        let chunks: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| json!({"text": text, "chunk_id": chunk_id(first + at), "provenance": {"source": source(first + at)}}))
            .collect();
        let arguments = json!({"doc_id": format!("vectors-{number}"), "chunks": chunks, "embeddings": some, "dimension": some.first().map(Vec::len),
            "metric": "cosine", "embedding_version": "1", "model_id": model,
            "late_chunking": {"mode": "late", "pooling": "mean", "model": model, "document_chars": end, "spans": spans}});
        caller.tool("ingest_archival", &arguments).await?;
        progress.add(some.len());
    }
    progress.close();
    Ok(())
}

async fn search(
    caller: &Caller,
    vector: &[f32],
    (n_probe, source): (Option<u32>, Option<usize>),
    limit: usize,
) -> Result<Walk, Failure> {
    let mut arguments = json!({"query_vector": vector, "limit": limit, "nProbe": n_probe});
    if let Some(of) = source {
        arguments["filter"] = json!({"source": self::source(of)});
    }
    let counter = Tiktoken::new(Encoding::O200kBase);
    archive::walk(caller, arguments, &counter, usize::MAX).await
}

/// The exact nearest neighbours of a query among all vectors or among the vectors of one source,
/// computed in 64-bit floats.
#[derive(Debug, Clone)]
struct Truth {
    /// Score of each nearest neighbour, by the index of its vector. Includes every vector whose
    /// score equals the score of the last neighbour.
    scores: HashMap<usize, f64>,
    /// Number of results of a search that compares the query with every vector.
    count: usize,
}

/// Computes the exact nearest neighbours of every query.
async fn truths(vectors: &Vectors, filtered: bool) -> Result<Vec<Truth>, Failure> {
    let lengths: Vec<f64> = vectors.stored.iter().map(|vector| length(vector)).collect();
    let mut truths = Vec::with_capacity(vectors.asked.len());
    for (number, asked) in vectors.asked.iter().enumerate() {
        let own = length(asked);
        let mut scored: Vec<(f64, usize)> = vectors
            .stored
            .iter()
            .enumerate()
            .filter(|(at, _)| !filtered || at % SOURCES == number % SOURCES)
            .map(|(at, vector)| (product(asked, vector) / (own * lengths[at]), at))
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let count = scored.len().min(WANTED);
        let least = scored.get(count.saturating_sub(1)).map_or(f64::MAX, |last| last.0);
        let close = scored.into_iter().take_while(|(score, _)| *score >= least - TIE);
        truths.push(Truth { scores: close.map(|(score, at)| (at, score)).collect(), count });
        // Lets the async runtime handle server answers and signals before the computation
        // continues.
        tokio::task::yield_now().await;
    }
    Ok(truths)
}

fn length(vector: &[f32]) -> f64 {
    product(vector, vector).sqrt().max(f64::MIN_POSITIVE)
}

fn product(one: &[f32], two: &[f32]) -> f64 {
    one.iter().zip(two).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

async fn ask(
    caller: &Caller,
    vector: &[f32],
    asked: (Option<u32>, Option<usize>),
    truth: &Truth,
    results: &mut SearchResults,
) -> Result<(), Failure> {
    let walk = search(caller, vector, asked, WANTED).await?;
    results.n_probe = walk.n_probe.or(results.n_probe);
    let ranked = walk.pages.iter().flat_map(|page| &page.results);
    let places: Vec<usize> = ranked
        .filter_map(|result| text_of(result, "chunk_id").strip_prefix('v')?.parse().ok())
        .collect();
    results.short += usize::from(places.len() < truth.count);
    let hits = places.iter().filter(|at| truth.scores.contains_key(at)).count().min(truth.count);
    results.recalls.push(hits as f64 / truth.count.max(1) as f64);
    *results.plans.entry(walk.plan).or_insert(0) += 1;
    Ok(())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the 5 % quantile of the queries' recall.
fn low_end(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((values.len() as f64 * LOW) as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_truth_counts_ties_and_keeps_to_the_filter() {
        let unit = |x: f32, y: f32| {
            let mut vector = vec![0.0; 4];
            (vector[0], vector[1]) = (x, y);
            vector
        };
        let mut stored = vec![unit(0.0, 1.0); SOURCES * 2];
        stored[..11].fill(unit(1.0, 0.0));
        let vectors = Vectors { stored, asked: vec![unit(2.0, 0.0)] };
        let all = &truths(&vectors, false).await.unwrap()[0];
        assert_eq!((all.count, all.scores.len()), (WANTED, 11), "eleven equal scores");
        assert!(all.scores.values().all(|score| (score - 1.0).abs() < 1e-12));
        let own = &truths(&vectors, true).await.unwrap()[0];
        let mut places: Vec<usize> = own.scores.keys().copied().collect();
        places.sort_unstable();
        assert_eq!((own.count, places), (2, vec![0, SOURCES]));
    }

    #[test]
    fn the_low_end_is_the_fifth_percentile() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!((low_end(&values), mean(&values)), (5.0, 49.5));
        assert_eq!(low_end(&[]), 0.0);
    }
}
