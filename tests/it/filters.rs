//! Checks that a search for k chunks returns k chunks if at least k chunks meet the conditions of
//! the search. This must hold for any conditions, any number of probed lists and any k, no matter
//! whether the conditions are checked before or after the index is searched.

use serde_json::{Value, json};

use crate::archival::{eager, index_becomes, ingest, search, walk};
use crate::chance::{Chance, rounds, setting};
use crate::home::Home;
use crate::talk::Agent;

/// Number of chunks in one document, and number of documents in the archive: together more chunks
/// than the widest index search returns.
const CHUNKS: u64 = 125;
const DOCUMENTS: u64 = 12;
/// Dimension of the vectors, small enough that many neighbours are equally near.
const DIMENSION: usize = 4;
/// Number of searches with each server configuration.
const SEARCHES: u64 = 60;

/// A chunk of the test data, with the values that a search may filter by.
struct Known {
    doc_id: String,
    text: String,
    source: String,
    fresh: String,
    vector: Vec<f64>,
}

fn vector(chance: &mut Chance) -> Vec<f64> {
    // Each vector is near one of the axes, so that the lists of the index differ in size.
    let axis = usize::try_from(chance.below(DIMENSION as u64)).expect("an axis");
    let part = |chance: &mut Chance| chance.below(1_000) as f64 / 1_000.0 - 0.5;
    (0..DIMENSION).map(|at| part(chance) + if at == axis { 1.5 } else { 0.0 }).collect()
}

/// Generates the documents of one agent. Each chunk has one of several sources. The number of
/// chunks of a source ranges from one chunk up to half of all chunks.
fn corpus(chance: &mut Chance, name: &str) -> (Vec<Value>, Vec<Known>) {
    let (mut documents, mut known) = (Vec::new(), Vec::new());
    for number in 0..DOCUMENTS {
        let (mut chunks, mut vectors, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        let mut end = 0;
        for place in 0..CHUNKS {
            let text = format!("{name} {number}.{place} ");
            let source = format!("s{}", 63 - chance.below(1 << 12).leading_zeros().min(63));
            let fresh = format!("2026-{:02}-01T00:00:00.000Z", 1 + chance.below(12));
            let vector = vector(chance);
            let start = end;
            end += text.chars().count();
            spans.push(json!({"start": start, "end": end}));
            chunks.push(
                json!({"text": text, "freshness_ts": fresh, "provenance": {"source": source}}),
            );
            vectors.push(vector.clone());
            known.push(Known { doc_id: format!("{name}{number}"), text, source, fresh, vector });
        }
        documents.push(json!({"doc_id": format!("{name}{number}"), "chunks": chunks, "embeddings": vectors,
            "dimension": DIMENSION, "metric": "cosine", "embedding_version": "1", "model_id": "axes",
            "late_chunking": {"mode": "late", "pooling": "mean", "model": "axes", "document_chars": end, "spans": spans}}));
    }
    (documents, known)
}

fn filter(chance: &mut Chance) -> Value {
    let mut filter = json!({});
    if chance.below(2) == 0 {
        filter["source"] = format!("s{}", chance.below(14)).into();
    }
    if chance.below(3) == 0 {
        filter["doc_id"] = format!("ada{}", chance.below(DOCUMENTS + 1)).into();
    }
    if chance.below(3) == 0 {
        filter["freshness_after"] = format!("2026-{:02}-01", 1 + chance.below(12)).into();
    }
    filter
}

fn passes(known: &Known, filter: &Value) -> bool {
    let holds = |name: &str, is: &dyn Fn(&str) -> bool| filter[name].as_str().is_none_or(is);
    holds("source", &|wanted| known.source == wanted)
        && holds("doc_id", &|wanted| known.doc_id == wanted)
        && holds("freshness_after", &|wanted| known.fresh[..10] >= *wanted)
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

async fn try_arrangement(filters_first: bool, seed: u64) {
    let mut tuning = eager();
    let first = if filters_first { "true" } else { "false" };
    tuning.environment.push(("VCTX_ARCHIVE__FILTERS_FIRST".into(), first.into()));
    let home = Home::new();
    let _server = home.serve_with("vctx.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 32_768, "").await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 32_768, "").await;
    let mut chance = Chance::new(seed);
    let (documents, known) = corpus(&mut chance, "ada");
    let (others, _) = corpus(&mut chance, "bob");
    for (mine, theirs) in
        documents.iter().zip(others.iter().take(3).chain(std::iter::repeat(&Value::Null)))
    {
        ingest(&ada, mine, "*").await.ok();
        if !theirs.is_null() {
            ingest(&bob, theirs, "*").await.ok();
        }
    }
    index_becomes(&ada, "ready").await;
    let mut plans = std::collections::BTreeMap::<String, u64>::new();
    for number in 0..rounds("FILTERS_SEARCHES", SEARCHES) {
        let query = vector(&mut chance);
        let limit = 1 + chance.below(40);
        let mut asked =
            json!({"query_vector": query, "limit": limit, "filter": filter(&mut chance)});
        if chance.below(4) > 0 {
            asked["nProbe"] = (1 + chance.below(20)).into();
        }
        let case = format!("seed {seed}, filters first {filters_first}, search {number}: {asked}");
        let body = search(&ada, asked.clone()).await.ok();
        let result = &body["result"];
        let matching: Vec<&Known> =
            known.iter().filter(|known| passes(known, &asked["filter"])).collect();
        let wanted = limit.min(matching.len() as u64);
        assert_eq!(result["k_actual"], wanted, "{case}: {}", result["plan"]);
        let plan = result["plan"].as_str().expect("a plan").to_owned();
        let rate = result["drop_rate"].as_f64();
        assert!(rate.is_none_or(|rate| (0.0..=1.0).contains(&rate)), "{case}: {result}");
        let found = walk(&ada, asked.clone()).await;
        let texts: std::collections::BTreeSet<String> =
            found.iter().map(|r| r["text"].as_str().expect("a text").to_owned()).collect();
        assert_eq!(texts.len() as u64, wanted, "{case}: as many and none twice");
        assert!(
            matching.iter().filter(|known| texts.contains(&known.text)).count() == texts.len(),
            "{case}"
        );
        if plan == "exact" {
            let mut truth: Vec<f64> =
                matching.iter().map(|known| cosine(&query, &known.vector)).collect();
            truth.sort_by(|a, b| b.total_cmp(a));
            let scores = found.iter().map(|r| r["similarity"].as_f64().expect("a score"));
            for (score, truth) in scores.zip(truth) {
                assert!((score - truth).abs() < 1e-5, "{case}: {score} for {truth}");
            }
        }
        *plans.entry(plan).or_default() += 1;
    }
    let through = if filters_first { "vector_filters_first" } else { "vector" };
    for plan in [through, "exact"] {
        assert!(
            plans.contains_key(plan),
            "seed {seed}: no search was answered by {plan}: {plans:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_conditions_behind_the_index_as_many_come_as_there_are() {
    try_arrangement(false, setting("FILTERS_SEED", 11)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_conditions_first_as_many_come_as_there_are() {
    try_arrangement(true, setting("FILTERS_SEED", 12)).await;
}
