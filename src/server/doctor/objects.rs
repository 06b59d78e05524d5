//! Checks collections, indexes, a schema and a view in scratch, the doctor's temporary database
//! objects.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::report::Rows;
use super::scratch::Ground;
use super::visit::{NO_GROUND, Visit};
use crate::checks::{self, Step};
use crate::limits::RECALL_TAIL_MS;
use crate::store::probe::{self, BATCH_PROBE_ROWS};
use crate::store::{self, Answer, Result};
use vctx_base::clock;

/// Longest time until a view shows a write, in milliseconds. A search reads rows of this last
/// period from the collection, and only older rows from the view.
const VIEW_MS_MAX: u64 = RECALL_TAIL_MS;
/// Pause between two searches of the view, in milliseconds.
const LOOK_MS: u64 = 20;
/// A document key with every special character that a key may have, and some letters and digits
/// (manual, naming of keys).
const KEY: &str = "_-:.@()+,=;$!*'%az09AZ";
/// A text, with the tokens into which a real ArangoDB server splits it.
const TEXT: (&str, [&str; 4]) =
    ("Crazy fast NoSQL-database!", ["crazi", "fast", "nosql", "databas"]);

/// Runs the doctor's checks of collections, indexes and views.
pub(super) async fn look(visit: &Visit<'_>, rows: &mut Rows) -> Result<()> {
    let Some(ground) = visit.ground else {
        rows.skip_rest(Step::Objects, NO_GROUND);
        return Ok(());
    };
    set_up(visit, ground, rows).await?;
    collections(ground, rows).await?;
    indexes(ground, rows).await?;
    view(ground, rows).await?;
    reads(ground, rows).await
}

async fn set_up(visit: &Visit<'_>, ground: &Ground, rows: &mut Rows) -> Result<()> {
    if !rows.wants_check(checks::SETUP) {
        return Ok(());
    }
    if !ground.is_database {
        rows.skip(
            checks::SETUP,
            "needs a database of its own: run `vctx doctor` as administrator (ARANGO_USER=root)",
        );
        return Ok(());
    }
    let order = visit.order;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let run =
            store::set_up(order.endpoint(), order.who(), ground.name.text(), &order.layout, None);
        match run.await {
            Ok(reports) => runs.push(reports.iter().filter(|report| report.made).count()),
            Err(fault) => {
                rows.see(checks::SETUP, false, fault.to_string());
                return Ok(());
            }
        }
    }
    rows.see(
        checks::SETUP,
        runs[0] > 0 && runs[1] == 0,
        format!("{} made, then {}", runs[0], runs[1]),
    );
    Ok(())
}

async fn collections(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let docs = ground.of("docs");
    let first = ground.collection("docs").await?;
    let again = ground.collection("docs").await?;
    // If scratch is in the configured database, this collection already exists. Its creation has
    // shown that the user may create collections.
    let made = first.status == 200 || (!ground.is_database && first.num() == 1207);
    rows.see(checks::COLLECTION, made && again.is(409, 1207), format!("{first}, then {again}"));
    let rule = json!({"schema": {"level": "strict", "message": "no document of the doctor",
        "rule": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
    let ruled =
        ground.ask(Method::PUT, &format!("_api/collection/{docs}/properties"), &rule).await?;
    let refused = insert(ground, "docs", &json!({"_key": "ruled", "n": "one"})).await?;
    rows.see(
        checks::SCHEMA_RULE,
        ruled.status == 200 && refused.is(400, 1620),
        format!("{ruled}, then {refused}"),
    );
    Ok(())
}

/// Inserts one document into a scratch collection of this run, by an AQL query.
pub(super) async fn insert(ground: &Ground, ending: &str, row: &Value) -> Result<Answer> {
    let binds = json!({"@docs": ground.of(ending), "row": row});
    probe::run(&ground.db, probe::INSERT, &binds).await
}

async fn indexes(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let path = format!("_api/index?collection={}", ground.of("docs"));
    let unique = json!({"type": "persistent", "name": "doctor_unique", "fields": ["place"], "unique": true, "sparse": true});
    let first = ground.ask(Method::POST, &path, &unique).await?;
    let again = ground.ask(Method::POST, &path, &unique).await?;
    let one = insert(ground, "docs", &json!({"_key": "place1", "place": 1})).await?;
    let taken = insert(ground, "docs", &json!({"_key": "place2", "place": 1})).await?;
    rows.see(
        checks::UNIQUE,
        first.status == 201 && again.status == 200 && one.is_ok() && taken.is(409, 1210),
        format!("{first}, {again}, {one}, {taken}"),
    );
    let ttl =
        json!({"type": "ttl", "name": "doctor_ttl", "fields": ["expires_at"], "expireAfter": 0});
    let made = ground.ask(Method::POST, &path, &ttl).await?;
    rows.see(
        checks::TTL,
        made.status == 201 && made.body["expireAfter"].as_f64() == Some(0.0),
        format!("{made}, expireAfter {}", made.body["expireAfter"]),
    );
    Ok(())
}

async fn view(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let (docs, view) = (ground.of("docs"), ground.of("view"));
    let links = json!({docs.as_str(): {"fields": {"text": {"analyzers": ["text_en"]}}}});
    let body = json!({"name": view, "type": "arangosearch", "links": links});
    let made = ground.ask(Method::POST, "_api/view", &body).await?;
    let shown =
        ground.ask(Method::GET, &format!("_api/view/{view}/properties"), &Value::Null).await?;
    let linked = &shown.body["links"][docs.as_str()]["fields"]["text"]["analyzers"];
    rows.see(
        checks::VIEW,
        made.status == 201 && *linked == json!(["text_en"]),
        format!("{made}, analyzers {linked}"),
    );
    let begun = clock::now();
    let written =
        insert(ground, "docs", &json!({"_key": "worded", "text": "Moored at the harbours"}))
            .await?;
    let mut seen = false;
    while written.is_ok() && !seen && begun.elapsed() < Duration::from_millis(VIEW_MS_MAX) {
        seen = matching_keys(ground, None, "harbour").await? == ["worded"];
        tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
    }
    let ms = begun.elapsed().as_millis();
    rows.see(
        checks::VIEW_LAG,
        seen,
        format!("{written}, {} after {ms} ms", if seen { "found" } else { "not found" }),
    );
    view_in_transaction(ground, rows).await
}

async fn view_in_transaction(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let begun = super::transactions::begin(ground, &[&ground.of("docs")]).await?;
    let Some(id) = begun.body["result"]["id"].as_str() else {
        rows.see(checks::VIEW_TRANSACTION, false, begun.to_string());
        return Ok(());
    };
    let binds =
        json!({"@docs": ground.of("docs"), "row": {"_key": "given_up", "text": "lighthouse"}});
    let written = probe::run_in(&ground.db, Some(id), probe::INSERT, &binds).await?;
    let outside = matching_keys(ground, None, "lighthouse").await?;
    let inside = matching_keys(ground, Some(id), "lighthouse").await?;
    ground.ask(Method::DELETE, &format!("_api/transaction/{id}"), &Value::Null).await?;
    rows.see(
        checks::VIEW_TRANSACTION,
        written.is_ok() && inside.is_empty() && outside.is_empty(),
        format!("{written}, found {inside:?} inside, {outside:?} outside"),
    );
    Ok(())
}

/// Returns the keys that a word search finds, or the database's refusal of the search.
async fn matching_keys(
    ground: &Ground,
    transaction: Option<&str>,
    text: &str,
) -> Result<Vec<String>> {
    let binds = json!({"@view": ground.of("view"), "text": text, "limit": 10});
    let answer = probe::run_in(&ground.db, transaction, probe::WORDED, &binds).await?;
    if !answer.is_ok() {
        return Ok(vec![answer.to_string()]);
    }
    Ok(texts(&answer.body["result"]))
}

/// Returns the strings in a JSON list.
pub(super) fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

async fn reads(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let answer = probe::run(&ground.db, probe::TOKENS, &json!({"text": TEXT.0})).await?;
    let tokens = texts(&answer.body["result"][0]);
    rows.see(checks::TOKENS, tokens == TEXT.1, format!("{answer} {}", tokens.join(", ")));
    let written = insert(ground, "docs", &json!({"_key": KEY})).await?;
    let binds = json!({"@docs": ground.of("docs"), "key": KEY});
    let read = probe::run(&ground.db, probe::READ, &binds).await?;
    let back = read.body["result"][0]["_key"].as_str().unwrap_or_default();
    rows.see(checks::KEYS, back == KEY, format!("{written}, then {back}"));
    pages(ground, rows).await?;
    let batches = batches(ground).await?;
    rows.see(checks::BATCHES, batches == [1, 2, 3, 4, 5], format!("{batches:?}"));
    Ok(())
}

async fn pages(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let mut keys = ["page-a", "page-B", "page-b", "page-A", "page-10", "page-9"];
    let docs = ground.of("docs");
    let documents: Vec<Value> = keys.iter().map(|key| json!({"_key": key})).collect();
    let binds = json!({"@docs": docs, "rows": documents});
    let written = probe::run(&ground.db, probe::INSERT_ALL, &binds).await?;
    let mut seen = Vec::new();
    let mut after = "page-".to_owned();
    // Also requests the page after the last page, to check that the listing ends.
    for _ in 0..=keys.len() {
        let binds = json!({"@docs": docs, "after": after, "limit": 1});
        let page = texts(&probe::run(&ground.db, probe::PAGE, &binds).await?.body["result"]);
        match page.into_iter().next().filter(|key| key.starts_with("page-")) {
            Some(key) => {
                after.clone_from(&key);
                seen.push(key);
            }
            None => break,
        }
    }
    keys.sort_unstable();
    rows.see(
        checks::PAGES,
        written.is_ok() && seen == keys,
        format!("{written}, {}", seen.join(" ")),
    );
    Ok(())
}

async fn batches(ground: &Ground) -> Result<Vec<u64>> {
    let binds = json!({"rows": 5});
    let mut answer =
        probe::run_batched(&ground.db, None, probe::NUMBERS, &binds, BATCH_PROBE_ROWS).await?;
    let mut seen = Vec::new();
    // The loop allows more batches than exist, to detect a cursor that never ends.
    for _ in 0..5 {
        seen.extend(
            answer.body["result"].as_array().into_iter().flatten().filter_map(Value::as_u64),
        );
        let (Some(id), true) = (answer.body["id"].as_str(), answer.body["hasMore"] == true) else {
            break;
        };
        let path = format!("_api/cursor/{id}");
        answer = ground.ask(Method::POST, &path, &Value::Null).await?;
    }
    Ok(seen)
}
