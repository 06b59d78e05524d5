//! Checks the statuses and error numbers of the database's refusals on which the server relies, and
//! the sort order of values.

use http::Method;
use serde_json::{Value, json};

use super::objects::insert;
use super::report::Rows;
use super::scratch::Ground;
use super::visit::{NO_GROUND, Visit};
use crate::checks::{self, Step};
use crate::store::{DatabaseRequest, Result, probe};

/// An index id that does not exist.
const NO_INDEX: &str = "9007199254740001";

/// Runs the doctor's checks of the database's error numbers.
pub(super) async fn look(visit: &Visit<'_>, rows: &mut Rows) -> Result<()> {
    let Some(ground) = visit.ground else {
        rows.skip_rest(Step::Errors, NO_GROUND);
        return Ok(());
    };
    ground.collection("docs").await?;
    documents(ground, rows).await?;
    revisions(ground, rows).await?;
    texts(ground, rows).await?;
    values(ground, rows).await?;
    gone(ground, rows).await
}

async fn documents(ground: &Ground, rows: &mut Rows) -> Result<()> {
    insert(ground, "docs", &json!({"_key": "taken"})).await?;
    let taken = insert(ground, "docs", &json!({"_key": "taken"})).await?;
    rows.see(checks::DUPLICATE, taken.is(409, 1210), taken.to_string());
    let docs = ground.of("docs");
    let binds =
        json!({"@docs": docs, "row": {"_key": "absent"}, "patch": {"a": 1}, "keep_null": true});
    let missing = probe::run(&ground.db, probe::UPDATE, &binds).await?;
    let path = format!("_api/document/{}/a", ground.of("absent"));
    let collection = ground.ask(Method::GET, &path, &Value::Null).await?;
    rows.see(
        checks::MISSING,
        missing.is(404, 1202) && collection.is(404, 1203),
        format!("{missing}; {collection}"),
    );
    let items = json!([{"_key": "item"}, {"_key": "taken"}]);
    let answer = ground.ask(Method::POST, &format!("_api/document/{docs}"), &items).await?;
    let inside = answer.body[1]["errorNum"].as_u64();
    rows.see(
        checks::ITEMS,
        answer.is_ok() && inside == Some(1210) && answer.body[0]["_key"] == "item",
        format!("{}, the second {}", answer.status, inside.unwrap_or(0)),
    );
    let key = insert(ground, "docs", &json!({"_key": "a/b"})).await?;
    rows.see(checks::KEY, key.is(400, 1221), key.to_string());
    Ok(())
}

async fn revisions(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let docs = ground.of("docs");
    insert(ground, "docs", &json!({"_key": "revised"})).await?;
    let body = json!({"a": 1});
    let path = format!("_api/document/{docs}/revised");
    let headers = [("if-match", "\"_aaaaaaa---\"")];
    let request = DatabaseRequest {
        method: Method::PATCH,
        path: &path,
        headers: &headers,
        body: Some(&body),
    };
    let matched = ground.db.exchange(request).await?;
    let row = json!({"_key": "revised", "_rev": "_aaaaaaa---"});
    let binds = json!({"@docs": docs, "row": row, "patch": body, "keep_null": true});
    let guarded = probe::run(&ground.db, probe::UPDATE, &binds).await?;
    rows.see(
        checks::REVISION,
        matched.is(412, 1200) && guarded.is(409, 1200),
        format!("{matched}; {guarded}"),
    );
    let patched = async |patch: Value, keep_null: bool| {
        let row = json!({"_key": "revised"});
        let binds = json!({"@docs": docs, "row": row, "patch": patch, "keep_null": keep_null});
        probe::run(&ground.db, probe::UPDATE, &binds).await
    };
    let kept = patched(json!({"b": null}), true).await?;
    let removed = patched(json!({"b": null}), false).await?;
    let has =
        |answer: &Value| answer["result"][0].as_object().is_some_and(|row| row.contains_key("b"));
    rows.see(
        checks::NULLS,
        kept.is_ok() && has(&kept.body) && removed.is_ok() && !has(&removed.body),
        format!("null kept: {}; null removed: {}", has(&kept.body), !has(&removed.body)),
    );
    Ok(())
}

async fn texts(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let docs = ground.of("docs");
    let run = async |query, binds: Value| probe::run(&ground.db, query, &binds).await;
    let refused = run(probe::WRITE_THEN_READ, json!({"@docs": docs})).await?;
    rows.see(checks::AFTER_WRITE, refused.is(400, 1579), refused.to_string());
    let extra = run(probe::READ, json!({"@docs": docs, "key": "taken", "scope": "absent"})).await?;
    rows.see(checks::EXTRA_BIND, extra.is(400, 1552), extra.to_string());
    let missing = run(probe::READ, json!({"@docs": docs})).await?;
    rows.see(checks::MISSING_BIND, missing.is(400, 1551), missing.to_string());
    let no_list = run(probe::INSERT_ALL, json!({"@docs": docs, "rows": null})).await?;
    rows.see(checks::NO_LIST, no_list.is(400, 1563), no_list.to_string());
    let warned = run(probe::DIVIDE, json!({"divisor": 0})).await?;
    rows.see(checks::WARNINGS, warned.is(400, 1562), warned.to_string());
    Ok(())
}

async fn values(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let answer = probe::run(&ground.db, probe::VALUES, &json!({"row": {}})).await?;
    let row = &answer.body["result"][0];
    let holds = row["order"] == json!([true, true, true, true, true]) && row["equal"] == false;
    rows.see(checks::ORDER, holds, format!("{answer} {}, equal {}", row["order"], row["equal"]));
    Ok(())
}

async fn gone(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let index = format!("_api/index/{}/{NO_INDEX}", ground.of("docs"));
    let dropped = ground.ask(Method::DELETE, &index, &Value::Null).await?;
    rows.see(checks::INDEX_GONE, dropped.is(404, 1212), dropped.to_string());
    let cursor = format!("_api/cursor/{NO_INDEX}");
    let next = ground.ask(Method::POST, &cursor, &Value::Null).await?;
    rows.see(checks::CURSOR_GONE, next.is(404, 1600), next.to_string());
    Ok(())
}
