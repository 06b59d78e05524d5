//! Statuses and numbers of refusals, since the server decides by them, and how values compare.

use http::Method;
use serde_json::{Value, json};

use super::check::{self, Step};
use super::objects::insert;
use super::report::Rows;
use super::scratch::Ground;
use super::visit::{NO_GROUND, Told};
use crate::store::{Fault, Sent, probe};

/// A number that no index has.
const NO_INDEX: &str = "9007199254740001";

/// Looks at them.
pub(super) async fn look(told: &Told<'_>, rows: &mut Rows) -> Result<(), Fault> {
    let Some(ground) = told.ground else {
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

async fn documents(ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    insert(ground, "docs", &json!({"_key": "taken"})).await?;
    let taken = insert(ground, "docs", &json!({"_key": "taken"})).await?;
    rows.see(check::DUPLICATE, taken.is(409, 1210), taken.told());
    let docs = ground.of("docs");
    let binds =
        json!({"@docs": docs, "row": {"_key": "absent"}, "patch": {"a": 1}, "keep_null": true});
    let missing = probe::run(&ground.db, probe::UPDATE, &binds).await?;
    let path = format!("_api/document/{}/a", ground.of("absent"));
    let collection = ground.ask(Method::GET, &path, &Value::Null).await?;
    rows.see(
        check::MISSING,
        missing.is(404, 1202) && collection.is(404, 1203),
        format!("{}; {}", missing.told(), collection.told()),
    );
    let items = json!([{"_key": "item"}, {"_key": "taken"}]);
    let answer = ground.ask(Method::POST, &format!("_api/document/{docs}"), &items).await?;
    let inside = answer.body[1]["errorNum"].as_u64();
    rows.see(
        check::ITEMS,
        answer.is_ok() && inside == Some(1210) && answer.body[0]["_key"] == "item",
        format!("{}, the second {}", answer.status, inside.unwrap_or(0)),
    );
    let key = insert(ground, "docs", &json!({"_key": "a/b"})).await?;
    rows.see(check::KEY, key.is(400, 1221), key.told());
    Ok(())
}

async fn revisions(ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let docs = ground.of("docs");
    insert(ground, "docs", &json!({"_key": "revised"})).await?;
    let body = json!({"a": 1});
    let path = format!("_api/document/{docs}/revised");
    let headers = [("if-match", "\"_aaaaaaa---\"")];
    let sent = Sent { method: Method::PATCH, path: &path, headers: &headers, body: Some(&body) };
    let matched = ground.db.exchange(sent).await?;
    let row = json!({"_key": "revised", "_rev": "_aaaaaaa---"});
    let binds = json!({"@docs": docs, "row": row, "patch": body, "keep_null": true});
    let guarded = probe::run(&ground.db, probe::UPDATE, &binds).await?;
    rows.see(
        check::REVISION,
        matched.is(412, 1200) && guarded.is(409, 1200),
        format!("{}; {}", matched.told(), guarded.told()),
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
        check::NULLS,
        kept.is_ok() && has(&kept.body) && removed.is_ok() && !has(&removed.body),
        format!("kept {}, then removed {}", has(&kept.body), !has(&removed.body)),
    );
    Ok(())
}

async fn texts(ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let docs = ground.of("docs");
    let run = async |query, binds: Value| probe::run(&ground.db, query, &binds).await;
    let refused = run(probe::WRITE_THEN_READ, json!({"@docs": docs})).await?;
    rows.see(check::AFTER_WRITE, refused.is(400, 1579), refused.told());
    let extra = run(probe::READ, json!({"@docs": docs, "key": "taken", "scope": "nobody"})).await?;
    rows.see(check::EXTRA_BIND, extra.is(400, 1552), extra.told());
    let missing = run(probe::READ, json!({"@docs": docs})).await?;
    rows.see(check::MISSING_BIND, missing.is(400, 1551), missing.told());
    let no_list = run(probe::INSERT_ALL, json!({"@docs": docs, "rows": null})).await?;
    rows.see(check::NO_LIST, no_list.is(400, 1563), no_list.told());
    let warned = run(probe::DIVIDE, json!({"divisor": 0})).await?;
    rows.see(check::WARNINGS, warned.is(400, 1562), warned.told());
    Ok(())
}

async fn values(ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let answer = probe::run(&ground.db, probe::VALUES, &json!({"row": {}})).await?;
    let row = &answer.body["result"][0];
    let holds = row["order"] == json!([true, true, true, true, true]) && row["equal"] == false;
    rows.see(
        check::ORDER,
        holds,
        format!("{} {}, equal {}", answer.told(), row["order"], row["equal"]),
    );
    Ok(())
}

async fn gone(ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let index = format!("_api/index/{}/{NO_INDEX}", ground.of("docs"));
    let dropped = ground.ask(Method::DELETE, &index, &Value::Null).await?;
    rows.see(check::INDEX_GONE, dropped.is(404, 1212), dropped.told());
    let cursor = format!("_api/cursor/{NO_INDEX}");
    let next = ground.ask(Method::POST, &cursor, &Value::Null).await?;
    rows.see(check::CURSOR_GONE, next.is(404, 1600), next.told());
    Ok(())
}
