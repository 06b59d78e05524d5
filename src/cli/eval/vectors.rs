//! Recall of the vector index: what a search finds at each nProbe against all that is there, with and without a filter.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::archive::{self, Walk};
use super::caller::Caller;
use super::clusters::{DIMENSION, Vectors};
use super::corpus::text_of;
use super::host::Host;
use super::progress::{Progress, note};
use super::report::{Report, Section, percent};
use crate::cli::exit::{Exit, Failure};
use crate::clock;
use crate::memory::Encoding;
use crate::models::Tiktoken;

/// Cells looked into.
const PROBES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Results wanted.
const WANTED: usize = 10;
/// How far below the last exact score a result still counts: ties are no misses.
const TIE: f64 = 1e-9;
/// Window of the agent: room for pages.
const WINDOW: u64 = 32_768;
/// Chunks of one document; its vectors stay below the longest body.
const CHUNKS_PER_DOCUMENT: usize = 256;
/// Sources that the chunks are spread over; a filter on one leaves this share.
const SOURCES: usize = 100;
/// Chunks up to which searches compare one by one (`exact_rows_max` unless configured): there is no index to wait for.
const EXACT_ROWS_MAX: usize = 20_000;
/// Longest wait for the index, and the pause between two looks.
const INDEX_WAIT_MAX: Duration = Duration::from_secs(600);
const INDEX_LOOK: Duration = Duration::from_millis(500);
/// Share of queries whose recall is told as the low end.
const LOW: f64 = 0.05;

/// What a set of searches found.
#[derive(Debug, Default)]
struct Found {
    /// Share of the true nearest, for each query.
    recalls: Vec<f64>,
    /// Queries with fewer results than there are.
    short: usize,
    plans: HashMap<String, usize>,
}

/// Fills an archive of its own server and measures it.
pub(super) async fn run(host: &Host, name: &str, vectors: Vectors) -> Result<Report, Failure> {
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
    let waited = wait_for_index(&caller, &vectors).await?;
    let mut rows = Vec::new();
    let mut reached = Vec::new();
    let progress =
        Progress::new(&format!("vectors, {name}"), vectors.asked.len() * PROBES.len() * 2);
    for filtered in [false, true] {
        let truths = truths(&vectors, filtered).await?;
        for n_probe in PROBES {
            let mut found = Found::default();
            for (at, (vector, truth)) in vectors.asked.iter().zip(&truths).enumerate() {
                let source = filtered.then_some(at % SOURCES);
                ask(&caller, vector, (n_probe, source), truth, &mut found).await?;
                progress.add(1);
            }
            let kind = if filtered { "one source of 100" } else { "all" };
            let (mean, low) = (mean(&found.recalls), low_end(&found.recalls));
            let short = found.short as f64 / found.recalls.len().max(1) as f64;
            reached.push((format!("vectors {name} {kind} nProbe {n_probe}"), mean * 100.0));
            reached.push((format!("vectors {name} {kind} short {n_probe}"), short * 100.0));
            let mut plans: Vec<String> =
                found.plans.iter().map(|(plan, times)| format!("{plan} {times}")).collect();
            plans.sort();
            rows.push(vec![
                kind.to_owned(),
                n_probe.to_string(),
                percent(mean),
                percent(low),
                percent(short),
                plans.join(", "),
            ]);
        }
    }
    progress.close();
    let heads = ["filter", "nProbe", "recall@10", "5th percentile", "short", "plans"];
    let notes = vec![
        format!(
            "{} vectors of {DIMENSION} components, {} queries that are not among them; {waited}",
            vectors.stored.len(),
            vectors.asked.len()
        ),
        "short: queries with fewer than ten results although ten match".to_owned(),
    ];
    let bars = reached.iter().filter(|(id, _)| id.contains("nProbe")).cloned().collect();
    let title = format!("vectors: recall of the index, {name}");
    let section = Section { title, heads: heads.map(str::to_owned).into(), rows, notes, bars };
    Ok(Report { sections: vec![section], reached, ..Report::default() })
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
        let arguments = json!({"doc_id": format!("vectors-{number}"), "chunks": chunks, "embeddings": some, "dimension": DIMENSION,
            "metric": "cosine", "embedding_version": "1", "model_id": model,
            "late_chunking": {"mode": "late", "pooling": "mean", "model": model, "document_chars": end, "spans": spans}});
        caller.tool("ingest_archival", &arguments).await?;
        progress.add(some.len());
    }
    progress.close();
    Ok(())
}

/// Waits until a search goes through the index; tells how long, or that it never did.
async fn wait_for_index(caller: &Caller, vectors: &Vectors) -> Result<String, Failure> {
    let Some(vector) = vectors.asked.first() else {
        return Err(Failure::data("there is no vector to ask with"));
    };
    let began = clock::now();
    let is_awaited = vectors.stored.len() > EXACT_ROWS_MAX;
    loop {
        // While the index is made, every vector is compared, which may take longer than an answer may.
        let plan = match search(caller, vector, PROBES[0], None, 1).await {
            Ok(walk) => walk.plan,
            Err(failure) if failure.exit == Exit::TryAgain && is_awaited => String::new(),
            Err(failure) => return Err(failure),
        };
        let waited = began.elapsed();
        if plan == "vector" {
            return Ok(format!("the index answered after {:.1} s", waited.as_secs_f64()));
        }
        if waited > INDEX_WAIT_MAX || !is_awaited {
            return Ok(format!("after {:.0} s searches go by plan {plan:?}", waited.as_secs_f64()));
        }
        if waited < INDEX_LOOK {
            note("waiting for the vector index");
        }
        tokio::time::sleep(INDEX_LOOK).await;
    }
}

async fn search(
    caller: &Caller,
    vector: &[f32],
    n_probe: u32,
    source: Option<usize>,
    limit: usize,
) -> Result<Walk, Failure> {
    let mut arguments = json!({"query_vector": vector, "limit": limit, "nProbe": n_probe});
    if let Some(of) = source {
        arguments["filter"] = json!({"source": self::source(of)});
    }
    let counter = Tiktoken::new(Encoding::O200kBase);
    archive::walk(caller, arguments, &counter, usize::MAX).await
}

/// The nearest of all vectors, or of those of one source, in 64-bit floats.
#[derive(Debug, Clone)]
struct Truth {
    /// Scores by place.
    scores: HashMap<usize, f64>,
    /// How many there can be.
    count: usize,
}

/// The truth of every query.
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
        // Answers of the server and signals are looked at in between.
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
    (n_probe, source): (u32, Option<usize>),
    truth: &Truth,
    found: &mut Found,
) -> Result<(), Failure> {
    let walk = search(caller, vector, n_probe, source, WANTED).await?;
    let results = walk.pages.iter().flat_map(|page| &page.results);
    let places: Vec<usize> = results
        .filter_map(|result| text_of(result, "chunk_id").strip_prefix('v')?.parse().ok())
        .collect();
    found.short += usize::from(places.len() < truth.count);
    let hits = places.iter().filter(|at| truth.scores.contains_key(at)).count().min(truth.count);
    found.recalls.push(hits as f64 / truth.count.max(1) as f64);
    *found.plans.entry(walk.plan).or_insert(0) += 1;
    Ok(())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The value that 5 % of the queries do not exceed.
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
        assert_eq!((all.count, all.scores.len()), (WANTED, 11), "eleven equals for ten places");
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
