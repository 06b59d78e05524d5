//! Explains every query of the server, and runs each query once on test data.

use http::Method;
use serde_json::{Value, json};

use super::binds;
use super::report::Rows;
use super::scratch::Ground;
use super::vectors::{DIMENSION, VECTORS, definition, nodes, trained, vector};
use super::visit::Visit;
use crate::checks::{self, Step};
use crate::store::{self, Admin, Answer, QUERIES, Query, Result, probe};

/// Maximum number of failed queries that the report names; further failures are only counted.
const NAMED_MAX: usize = 5;
/// Prefix of the comment that marks a query as one that reads a whole collection on purpose.
const SCANS: &str = "// Scans: ";

/// Runs the doctor's checks of the server's queries.
pub(super) async fn look(visit: &Visit<'_>, rows: &mut Rows) -> Result<()> {
    let order = visit.order;
    if let Some(ground) = visit.ground.filter(|ground| ground.is_database) {
        store::set_up(order.endpoint(), order.who(), ground.name.text(), &order.layout, None)
            .await?;
        let seeded = seed(visit, ground).await?;
        let texts = texts(visit, ground.name.seed(), true);
        explain(&ground.db, &texts, "", rows).await?;
        return run(&ground.db, &texts, &seeded, rows).await;
    }
    let database = &order.store.database;
    let version = store::schema_version(order.endpoint(), order.who(), database).await?;
    if version != Some(store::SCHEMA) {
        rows.skip_rest(Step::Queries, "there is neither scratch nor a database that is set up: run `vctx setup`, or `vctx doctor` as administrator");
        return Ok(());
    }
    let db = Admin::connect(order.endpoint(), order.who(), database).await?;
    let texts = texts(visit, 1, false);
    let left = QUERIES.len() - texts.len();
    let note = format!(
        "in {database}, which may have no vector index: {left} of {} queries were left out",
        QUERIES.len()
    );
    explain(&db, &texts, &note, rows).await?;
    rows.skip(checks::RUN, "needs writes: run `vctx doctor` as administrator (ARANGO_USER=root)");
    Ok(())
}

/// Returns the queries to explain: those that the database's release supports. Queries that use a
/// vector index are included only if this run created such an index.
fn texts(visit: &Visit<'_>, seed: u64, is_indexed: bool) -> Vec<(Query, Value)> {
    let known = |(query, _): &(Query, Value)| {
        let near = query.statement().contains("APPROX_NEAR_");
        // A filter before a vector search is possible since 3.12.6; the server uses it since
        // 3.12.7.
        let first = query.name.ends_with("_first");
        (!near || is_indexed) && (!first || visit.server.since(7))
    };
    binds::all(seed).into_iter().filter(known).collect()
}

/// Writes documents with vectors, and creates the server's indexes over them. Returns a description
/// of the outcome.
async fn seed(visit: &Visit<'_>, ground: &Ground) -> Result<String> {
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
    let sparse = visit.server.since(6);
    let mut seen = Vec::new();
    for (collection, documents, metrics) in [
        ("archival_docs", (0..VECTORS).map(chunk).collect::<Value>(), ["cosine", "l2"].as_slice()),
        ("recall_vectors", (0..VECTORS).map(passage).collect(), &["cosine"]),
    ] {
        let kept =
            ground.ask(Method::POST, &format!("_api/document/{collection}"), &documents).await?;
        if !kept.is_ok() {
            seen.push(format!("{collection}: {kept}"));
        }
        for metric in metrics {
            let path = format!("_api/index?collection={collection}");
            let made = ground
                .ask(Method::POST, &path, &definition(&format!("doctor_{metric}"), metric, sparse))
                .await?;
            if !made.is_ok() {
                seen.push(format!("{collection} by {metric}: {made}"));
            }
        }
        if let (true, Err(late)) = (seen.is_empty(), trained(visit, ground, collection).await?) {
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
            seen.push(format!("{collection}: {kept}, {num}"));
        }
    }
    Ok(seen.join("; "))
}

/// The queries whose outcome was not as expected.
#[derive(Default)]
struct Odd(Vec<String>);

impl Odd {
    fn note(&mut self, query: Query, what: impl std::fmt::Display) {
        self.0.push(format!("{}: {what}", query.name));
    }

    fn see(&self, check: &'static checks::Check, of: usize, note: &str, rows: &mut Rows) {
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

async fn explain(db: &Admin, texts: &[(Query, Value)], note: &str, rows: &mut Rows) -> Result<()> {
    let (mut refused, mut misplanned, mut scanned) =
        (Odd::default(), Odd::default(), Odd::default());
    let mut planned = 0;
    for (query, binds) in texts {
        let plan = probe::explain(db, *query, binds).await?;
        if !plan.is_ok() {
            refused.note(*query, plan.to_string());
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
    refused.see(checks::EXPLAINED, texts.len(), note, rows);
    misplanned.see(checks::NODES, planned, "", rows);
    scanned.see(checks::INDEXED, planned, "", rows);
    Ok(())
}

/// Returns the types of plan nodes that a query's text requires but its plan lacks.
fn missing_nodes(query: Query, plan: &Answer) -> Vec<&'static str> {
    let (text, nodes) = (query.statement(), nodes(plan));
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

/// Returns the collections that a plan scans in full although the query's comment declares no scan.
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

async fn run(db: &Admin, texts: &[(Query, Value)], seeded: &str, rows: &mut Rows) -> Result<()> {
    if !rows.wants_check(checks::RUN) {
        return Ok(());
    }
    if !seeded.is_empty() {
        rows.see(checks::RUN, false, format!("not all test data could be written: {seeded}"));
        return Ok(());
    }
    let mut odd = Odd::default();
    for (query, binds) in texts {
        let answer = probe::run(db, *query, binds).await?;
        if !answer.is_ok() {
            odd.note(*query, answer.to_string());
        }
    }
    odd.see(checks::RUN, texts.len(), "", rows);
    Ok(())
}
