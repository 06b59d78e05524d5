//! Recall of the vector index: what a search finds at each nProbe against all that is there, with and without a filter.

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

/// Cells looked into; none stands for as many as the server measured to be needed.
const PROBES: [Option<u32>; 8] =
    [Some(1), Some(2), Some(4), Some(8), Some(16), Some(32), Some(64), None];
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
    /// Cells looked into, as the last answer says.
    n_probe: Option<u64>,
}

/// Fills an archive of its own server and measures it, with an index that is trained so many times.
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

/// Largest share of the vectors that may be looked at (row 13 of the goals).
const SCANNED_MAX: f64 = 0.12;

/// What the goals speak of: the best recall for which few enough vectors were looked at, and the share of lists under a filter that were full.
fn goals(name: &str, measured: &[Measured]) -> Vec<(String, f64)> {
    let within = measured.iter().filter(|one| one.scanned.is_some_and(|s| s <= SCANNED_MAX));
    let best = within.map(|one| mean(&one.found.recalls)).reduce(f64::max);
    let filtered = measured.iter().filter(|one| one.is_filtered);
    let (short, asked) = filtered.fold((0, 0), |(short, asked), one| {
        (short + one.found.short, asked + one.found.recalls.len())
    });
    let full = 1.0 - short as f64 / asked.max(1) as f64;
    let mut reached = vec![(format!("vectors {name} full"), full * 100.0)];
    reached.extend(best.map(|best| (format!("vectors {name} within 12 %"), best * 100.0)));
    reached
}

/// What was found at one number of cells.
struct Measured {
    is_filtered: bool,
    probe: Option<u32>,
    found: Found,
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
            let mut found = Found::default();
            for (at, (vector, truth)) in vectors.asked.iter().zip(truths).enumerate() {
                let source = is_filtered.then_some(at % SOURCES);
                ask(caller, vector, (probe, source), truth, &mut found).await?;
                progress.add(1);
            }
            let scanned = match found.n_probe.filter(|_| !is_filtered) {
                Some(cells) => trained::scanned(host, index, vectors, cells).await?,
                None => None,
            };
            rows.push(Measured { is_filtered, probe, found, scanned });
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
    for Measured { is_filtered, probe, found, scanned } in measured {
        let kind = if is_filtered { "one source of 100" } else { "all" };
        let (mean, low) = (mean(&found.recalls), low_end(&found.recalls));
        let short = found.short as f64 / found.recalls.len().max(1) as f64;
        let probe = probe.map_or_else(|| "as measured".to_owned(), |n| n.to_string());
        if training == 0 {
            reached.push((format!("vectors {name} {kind} nProbe {probe}"), mean * 100.0));
            reached.push((format!("vectors {name} {kind} short {probe}"), short * 100.0));
            if let Some(scanned) = scanned {
                reached.push((format!("vectors {name} {kind} scanned {probe}"), scanned * 100.0));
            }
        }
        let mut plans: Vec<String> =
            found.plans.iter().map(|(plan, times)| format!("{plan} {times}")).collect();
        plans.sort();
        let cells = found.n_probe.map_or_else(String::new, |cells| match probe.as_str() {
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
            index.told()
        ),
        "short: queries with fewer than ten results although ten match; scanned: share of the vectors in the cells looked into".to_owned(),
    ];
    let bars = reached.iter().filter(|(id, _)| id.contains("nProbe")).cloned().collect();
    let title = match training {
        0 => format!("vectors: recall of the index, {name}"),
        more => format!("vectors: recall of the index, {name}, trained anew ({})", more + 1),
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
    asked: (Option<u32>, Option<usize>),
    truth: &Truth,
    found: &mut Found,
) -> Result<(), Failure> {
    let walk = search(caller, vector, asked, WANTED).await?;
    found.n_probe = walk.n_probe.or(found.n_probe);
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
