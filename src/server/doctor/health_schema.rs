//! Checks that the collections, indexes and views of a running deployment exist, that vector
//! indexes are trained and that views are up to date.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::health::count_of;
use super::report::Rows;
use super::visit::Order;
use crate::checks;
use crate::limits::RECALL_TAIL_MS;
use crate::store::{Admin, Result, probe};
use vctx_base::clock;

/// Maximum number of missing names that the report lists.
const NAMED_MAX: usize = 8;
/// Pause between two readings of a view, in milliseconds.
const LOOK_MS: u64 = 200;
/// Views, each with the collection that it indexes.
const VIEWS: [(&str, &str); 2] =
    [("recall_view", "recall_log"), ("archival_view", "archival_docs")];

/// Checks whether every object in the files of `arango-setup/` exists.
pub(super) async fn objects(db: &Admin) -> Result<(bool, String)> {
    let wanted = probe::described()?;
    let mut missing = Vec::new();
    let collections = names_at(db, "_api/collection?excludeSystem=true").await?;
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
    let views = names_at(db, "_api/view").await?;
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

async fn names_at(db: &Admin, path: &str) -> Result<Vec<String>> {
    let answer = db.ask(Method::GET, path, None).await?;
    let entries = answer.body["result"].as_array().cloned().unwrap_or_default();
    Ok(entries.iter().filter_map(|entry| entry["name"].as_str().map(str::to_owned)).collect())
}

async fn rows_of(db: &Admin, collection: &str) -> Result<u64> {
    Ok(count_of(
        &db.ask(Method::GET, &format!("_api/collection/{collection}/count"), None).await?.body,
    ))
}

/// Checks whether vector indexes exist and are trained; a collection with few vectors needs no
/// index.
pub(super) async fn vectors(order: &Order, db: &Admin, rows: &mut Rows) -> Result<()> {
    let (mut seen, mut ready, mut lacking) = (Vec::new(), true, false);
    for collection in ["archival_docs", "recall_vectors"] {
        let there = rows_of(db, collection).await?;
        let listed =
            db.ask(Method::GET, &format!("_api/index?collection={collection}"), None).await?;
        let indexes = listed.body["indexes"].as_array().cloned().unwrap_or_default();
        let vector: Vec<&Value> =
            indexes.iter().filter(|index| index["type"] == "vector").collect();
        lacking |= vector.is_empty() && there >= order.index_rows_min;
        if vector.is_empty() {
            seen.push(format!(
                "{collection}: {there} rows, no index (created from {} rows on)",
                order.index_rows_min
            ));
        }
        for index in vector {
            // ArangoDB releases before 3.12.9 report no training state; they train an index while
            // creating it.
            let state = index["trainingState"].as_str().unwrap_or("ready");
            ready &= state == "ready";
            seen.push(format!("{collection}.{}: {state}", index["name"].as_str().unwrap_or("?")));
        }
    }
    let seen = seen.join("; ");
    match (ready, lacking) {
        (true, true) => rows.warn(checks::H_VECTORS, seen),
        (ready, _) => rows.see(checks::H_VECTORS, ready, seen),
    }
    Ok(())
}

/// Checks whether the views show the rows that the collections had when the check began.
pub(super) async fn views(db: &Admin, rows: &mut Rows) -> Result<()> {
    let begun = clock::now();
    let (mut seen, mut whole) = (Vec::new(), true);
    for (view, collection) in VIEWS {
        let first = rows_of(db, collection).await?;
        let (shown, told) = loop {
            let answer = probe::run(db, probe::VIEW_ROWS, &json!({"@view": view})).await?;
            let shown = answer.body["result"][0].as_u64().unwrap_or(0);
            // Rows removed during the check need not be in the view.
            let wanted = first.min(rows_of(db, collection).await?);
            let late = begun.elapsed() >= Duration::from_millis(RECALL_TAIL_MS);
            if !answer.is_ok() || shown >= wanted || late {
                whole &= answer.is_ok() && shown >= wanted;
                break (shown, answer);
            }
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        };
        let why = if told.is_ok() { String::new() } else { format!(" ({told})") };
        seen.push(format!("{view} {shown} of {first}{why}"));
    }
    let ms = begun.elapsed().as_millis();
    rows.see(checks::H_VIEWS, whole, format!("{} after {ms} ms", seen.join("; ")));
    Ok(())
}
