//! All queries of the server: each is explained, and runs once on seeded data.

use http::Method;
use serde_json::{Value, json};

use super::binds;
use super::check::{self, Step};
use super::report::Rows;
use super::scratch::Ground;
use super::vectors::{DIMENSION, VECTORS, definition, nodes, trained, vector};
use super::visit::Told;
use crate::store::{self, Admin, Answer, Fault, QUERIES, Query, probe};

/// Queries that are named where some fail; the others are counted.
const NAMED_MAX: usize = 5;
/// Where a text says that it reads a whole collection.
const SCANS: &str = "// Scans: ";

/// Looks at them.
pub(super) async fn look(told: &Told<'_>, rows: &mut Rows) -> Result<(), Fault> {
    let asked = told.asked;
    if let Some(ground) = told.ground.filter(|ground| ground.is_database) {
        store::set_up(asked.endpoint(), asked.who(), ground.name.text(), &asked.layout, None)
            .await?;
        let seeded = seed(told, ground).await?;
        let texts = texts(told, ground.name.seed(), true);
        explain(&ground.db, &texts, "", rows).await?;
        return run(&ground.db, &texts, &seeded, rows).await;
    }
    let database = &asked.store.database;
    let version = store::schema_version(asked.endpoint(), asked.who(), database).await?;
    if version != Some(store::SCHEMA) {
        rows.skip_rest(Step::Queries, "neither scratch nor a database that is set up: run `vctx setup`, or `vctx doctor` as administrator");
        return Ok(());
    }
    let db = Admin::connect(asked.endpoint(), asked.who(), database).await?;
    let texts = texts(told, 1, false);
    let left = QUERIES.len() - texts.len();
    let note = format!(
        "in {database}, which may have no vector index: {left} of {} left out",
        QUERIES.len()
    );
    explain(&db, &texts, &note, rows).await?;
    rows.skip(check::RUN, "would write: run `vctx doctor` as administrator (ARANGO_USER=root)");
    Ok(())
}

/// The text without its comment.
fn spoken(query: Query) -> String {
    query.text.lines().filter(|line| !line.starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// What is explained: all but those that the release does not know, and, without indexes of our own, those that need them.
fn texts(told: &Told<'_>, seed: u64, is_indexed: bool) -> Vec<(Query, Value)> {
    let known = |(query, _): &(Query, Value)| {
        let near = spoken(*query).contains("APPROX_NEAR_");
        // Conditions before a search by nearness are there since 3.12.6; the server asks for them since 3.12.7 alone.
        let first = query.name.ends_with("_first");
        (!near || is_indexed) && (!first || told.server.since(7))
    };
    binds::all(seed).into_iter().filter(known).collect()
}

/// Documents with vectors and the indexes over them, as the server makes them. How that went.
async fn seed(told: &Told<'_>, ground: &Ground) -> Result<String, Fault> {
    let seed = ground.name.seed();
    let chunk = |at: usize| {
        json!({"_key": format!("doctor-{at}"), "agent_id": "doctor", "doc_id": "doctor", "chunk_id": at.to_string(), "index": at,
            "text": "seeded", "embedding": vector(seed, at), "dimension": DIMENSION, "metric": "cosine", "embedding_version": "1",
            "model_id": "doctor", "provenance": {"owner": "doctor"}, "chunk_links": {"previous": null, "next": null},
            "freshness_ts": "2026-01-01", "token_estimate": 1, "revision": "doctor"})
    };
    let passage = |at: usize| {
        json!({"_key": format!("doctor{at}-0"), "agent_id": "doctor", "id": format!("doctor{at}"), "seq": at + 1, "passage": 0,
            "start": 0, "end": 1, "embedding": vector(seed, at), "fingerprint": "doctor"})
    };
    let sparse = told.server.since(6);
    let mut seen = Vec::new();
    for (collection, documents, metrics) in [
        ("archival_docs", (0..VECTORS).map(chunk).collect::<Value>(), ["cosine", "l2"].as_slice()),
        ("recall_vectors", (0..VECTORS).map(passage).collect(), &["cosine"]),
    ] {
        let kept =
            ground.ask(Method::POST, &format!("_api/document/{collection}"), &documents).await?;
        if !kept.is_ok() {
            seen.push(format!("{collection}: {}", kept.told()));
        }
        for metric in metrics {
            let path = format!("_api/index?collection={collection}");
            let made = ground
                .ask(Method::POST, &path, &definition(&format!("doctor_{metric}"), metric, sparse))
                .await?;
            if !made.is_ok() {
                seen.push(format!("{collection} by {metric}: {}", made.told()));
            }
        }
        if let (true, Err(late)) = (seen.is_empty(), trained(told, ground, collection).await?) {
            seen.push(format!("{collection}: {late}"));
        }
    }
    for (collection, documents) in binds::seeds(seed) {
        let kept =
            ground.ask(Method::POST, &format!("_api/document/{collection}"), &documents).await?;
        let items = kept.body.as_array().cloned().unwrap_or_default();
        let refused = items.iter().find(|item| item["errorNum"].is_u64());
        if !kept.is_ok() || refused.is_some() {
            let num = refused.map_or(0, |item| item["errorNum"].as_u64().unwrap_or(0));
            seen.push(format!("{collection}: {}, {num}", kept.told()));
        }
    }
    Ok(seen.join("; "))
}

/// Texts that did not do as expected.
#[derive(Default)]
struct Odd(Vec<String>);

impl Odd {
    fn note(&mut self, query: Query, what: impl std::fmt::Display) {
        self.0.push(format!("{}: {what}", query.name));
    }

    fn see(&self, check: &'static check::Check, of: usize, note: &str, rows: &mut Rows) {
        let named = self.0.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
        let more = match self.0.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let seen = match (named.is_empty(), note.is_empty()) {
            (true, true) => format!("{of} of {of}"),
            (true, false) => format!("{of} of {of} ({note})"),
            (false, true) => format!("{} of {of} ({named}{more})", of - self.0.len().min(of)),
            (false, false) => {
                format!("{} of {of} ({named}{more}; {note})", of - self.0.len().min(of))
            }
        };
        rows.see(check, self.0.is_empty(), seen);
    }
}

async fn explain(
    db: &Admin,
    texts: &[(Query, Value)],
    note: &str,
    rows: &mut Rows,
) -> Result<(), Fault> {
    let (mut refused, mut misplanned, mut scanned) =
        (Odd::default(), Odd::default(), Odd::default());
    let mut planned = 0;
    for (query, binds) in texts {
        let plan = probe::explain(db, *query, binds).await?;
        if !plan.is_ok() {
            refused.note(*query, plan.told());
            continue;
        }
        planned += 1;
        for missing in missing_nodes(*query, &plan) {
            misplanned.note(*query, format!("no {missing}"));
        }
        for collection in scans(*query, &plan) {
            scanned.note(*query, format!("scans {collection}"));
        }
    }
    refused.see(check::EXPLAINED, texts.len(), note, rows);
    misplanned.see(check::NODES, planned, "", rows);
    scanned.see(check::INDEXED, planned, "", rows);
    Ok(())
}

/// What a plan should hold for the words of a text, and does not.
fn missing_nodes(query: Query, plan: &Answer) -> Vec<&'static str> {
    let (text, nodes) = (spoken(query), nodes(plan));
    [
        ("APPROX_NEAR_", "EnumerateNearVectorNode"),
        ("SEARCH ", "EnumerateViewNode"),
        ("OUTBOUND ", "TraversalNode"),
        ("INBOUND ", "TraversalNode"),
    ]
    .into_iter()
    .filter(|(word, node)| text.contains(word) && !nodes.iter().any(|found| found == node))
    .map(|(_, node)| node)
    .collect()
}

/// Collections that a plan reads whole, though its text does not say so.
fn scans(query: Query, plan: &Answer) -> Vec<String> {
    let said: Vec<&str> = query
        .text
        .lines()
        .filter_map(|line| line.strip_prefix(SCANS))
        .filter_map(|line| line.split_once(", because ").map(|(name, _)| name))
        .collect();
    let nodes = plan.body["plan"]["nodes"].as_array().into_iter().flatten();
    nodes
        .filter(|node| node["type"] == "EnumerateCollectionNode")
        .filter_map(|node| node["collection"].as_str())
        .filter(|collection| !said.contains(collection))
        .map(str::to_owned)
        .collect()
}

async fn run(
    db: &Admin,
    texts: &[(Query, Value)],
    seeded: &str,
    rows: &mut Rows,
) -> Result<(), Fault> {
    if !rows.wants_check(check::RUN) {
        return Ok(());
    }
    if !seeded.is_empty() {
        rows.see(check::RUN, false, format!("not everything could be seeded: {seeded}"));
        return Ok(());
    }
    let mut odd = Odd::default();
    for (query, binds) in texts {
        let answer = probe::run(db, *query, binds).await?;
        if !answer.is_ok() {
            odd.note(*query, answer.told());
        }
    }
    odd.see(check::RUN, texts.len(), "", rows);
    Ok(())
}
