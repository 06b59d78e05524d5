//! Collections, indexes and views of a running deployment: whether they are there, trained, and up to what is written.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::check;
use super::health::count_of;
use super::report::Rows;
use super::visit::Asked;
use crate::store::{Admin, Fault, probe};
use vctx_base::clock;
use vctx_core::limits::RECALL_TAIL_MS;

/// Names that are told where some are missing.
const NAMED_MAX: usize = 8;
/// Pause between two looks, in milliseconds.
const LOOK_MS: u64 = 200;
/// Views and what they show.
const VIEWS: [(&str, &str); 2] =
    [("recall_view", "recall_log"), ("archival_view", "archival_docs")];

/// Everything of `arango-setup/` by name.
pub(super) async fn objects(db: &Admin) -> Result<(bool, String), Fault> {
    let wanted = probe::described()?;
    let mut missing = Vec::new();
    let collections = named(db, "_api/collection?excludeSystem=true").await?;
    missing.extend(wanted.collections.iter().filter(|name| !collections.contains(name)).cloned());
    for collection in wanted.collections.iter().filter(|name| collections.contains(name)) {
        let listed =
            db.ask(Method::GET, &format!("_api/index?collection={collection}"), None).await?;
        let there = listed.body["indexes"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = there.iter().filter_map(|index| index["name"].as_str()).collect();
        let of = wanted
            .indexes
            .iter()
            .filter(|(of, name)| of == collection && !names.contains(&name.as_str()));
        missing.extend(of.map(|(of, name)| format!("{of}.{name}")));
    }
    let views = named(db, "_api/view").await?;
    missing.extend(wanted.views.iter().filter(|name| !views.contains(name)).cloned());
    let all = wanted.collections.len() + wanted.indexes.len() + wanted.views.len();
    Ok(match missing.as_slice() {
        [] => (true, format!("all {all}")),
        missing => {
            let told = missing.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
            (false, format!("{} of {all} missing: {told}; run `vctx setup`", missing.len()))
        }
    })
}

async fn named(db: &Admin, path: &str) -> Result<Vec<String>, Fault> {
    let answer = db.ask(Method::GET, path, None).await?;
    let entries = answer.body["result"].as_array().cloned().unwrap_or_default();
    Ok(entries.iter().filter_map(|entry| entry["name"].as_str().map(str::to_owned)).collect())
}

async fn rows_of(db: &Admin, collection: &str) -> Result<u64, Fault> {
    Ok(count_of(
        &db.ask(Method::GET, &format!("_api/collection/{collection}/count"), None).await?.body,
    ))
}

/// Vector indexes; a few vectors need none.
pub(super) async fn vectors(asked: &Asked, db: &Admin, rows: &mut Rows) -> Result<(), Fault> {
    let (mut seen, mut ready, mut lacking) = (Vec::new(), true, false);
    for collection in ["archival_docs", "recall_vectors"] {
        let there = rows_of(db, collection).await?;
        let listed =
            db.ask(Method::GET, &format!("_api/index?collection={collection}"), None).await?;
        let indexes = listed.body["indexes"].as_array().cloned().unwrap_or_default();
        let vector: Vec<&Value> =
            indexes.iter().filter(|index| index["type"] == "vector").collect();
        lacking |= vector.is_empty() && there >= asked.index_rows_min;
        if vector.is_empty() {
            seen.push(format!(
                "{collection}: {there} rows, no index (made from {} on)",
                asked.index_rows_min
            ));
        }
        for index in vector {
            // Releases before 3.12.9 know no states: an index is trained when it is made.
            let state = index["trainingState"].as_str().unwrap_or("ready");
            ready &= state == "ready";
            seen.push(format!("{collection}.{}: {state}", index["name"].as_str().unwrap_or("?")));
        }
    }
    let seen = seen.join("; ");
    match (ready, lacking) {
        (true, true) => rows.warn(check::H_VECTORS, seen),
        (ready, _) => rows.see(check::H_VECTORS, ready, seen),
    }
    Ok(())
}

/// Whether the views show as much as their collections held when the look began.
pub(super) async fn views(db: &Admin, rows: &mut Rows) -> Result<(), Fault> {
    let begun = clock::now();
    let (mut seen, mut whole) = (Vec::new(), true);
    for (view, collection) in VIEWS {
        let first = rows_of(db, collection).await?;
        let (shown, told) = loop {
            let answer = probe::run(db, probe::VIEW_ROWS, &json!({"@view": view})).await?;
            let shown = answer.body["result"][0].as_u64().unwrap_or(0);
            // What goes meanwhile need not be shown.
            let wanted = first.min(rows_of(db, collection).await?);
            let late = begun.elapsed() >= Duration::from_millis(RECALL_TAIL_MS);
            if !answer.is_ok() || shown >= wanted || late {
                whole &= answer.is_ok() && shown >= wanted;
                break (shown, answer);
            }
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        };
        let why = if told.is_ok() { String::new() } else { format!(" ({})", told.told()) };
        seen.push(format!("{view} {shown} of {first}{why}"));
    }
    let ms = begun.elapsed().as_millis();
    rows.see(check::H_VIEWS, whole, format!("{} after {ms} ms", seen.join("; ")));
    Ok(())
}
