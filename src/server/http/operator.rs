//! HTTP routes about the whole server: readiness, tools, and operations on all agents.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::object;
use super::caller::{Caller, Front, check_operator};
use super::problem::IntoProblem as _;
use super::query::Query;
use super::reply::{answer, json_answer, noted};
use vctx_core::dialect::{Dialect, Format, Profile, offered};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::archive::Metric;
use vctx_core::tools::decode_as;

/// Body of a request that begins, stops or cancels a reindex of the archive, or that trains the
/// vector index again.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReindexCall {
    action: ReindexAction,
    /// Metric of the next vectors; by default the metric of the current vectors.
    #[serde(default)]
    metric: Option<Metric>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ReindexAction {
    Start,
    Stop,
    Cancel,
    Index,
}

/// Returns the tools as the answer to `GET /v1/tools?dialect=…&format=…&profile=…&strict=…`.
pub fn tool_schemas(dialect: Dialect, format: Format, profile: Profile, strict: bool) -> Value {
    json!({"dialect": dialect.text(), "format": format.text(), "profile": profile.text(),
        "strict": strict, "tools": offered(dialect, format, profile, strict)})
}

pub(super) async fn tools(RawQuery(query): RawQuery) -> Response {
    let read = || {
        let query = Query::parse(query.as_deref(), "dialect, format, profile and strict")?;
        let dialect = query.text("dialect").map(Dialect::by_name).transpose()?.unwrap_or_default();
        let format = query.text("format").map_or(Ok(Format::JsonSchema), Format::by_name)?;
        let profile = query.text("profile").map_or(Ok(format.usual_profile()), Profile::by_name)?;
        let strict = match query.text("strict") {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(Error::argument("strict", "use true or false")),
        };
        Ok(tool_schemas(dialect, format, profile, strict))
    };
    answer(noted(read()))
}

pub(super) async fn ready(State(front): State<Arc<Front>>) -> Response {
    match front.executor.ready().await {
        Ok(mut report) => {
            report["status"] = "ready".into();
            json_answer(StatusCode::OK, &report)
        }
        Err(error) => {
            Error::new(Code::NotReady, error.message.clone()).caused_by(error).into_problem()
        }
    }
}

pub(super) async fn reindex_status(caller: Caller) -> Result<Value> {
    check_operator(caller.peer)?;
    caller.executor().reindex().status().await
}

pub(super) async fn reindex(caller: Caller, body: Body) -> Result<Response> {
    check_operator(caller.peer)?;
    let (body, _room) = object(body).await?;
    let call: ReindexCall = decode_as(body)?;
    let report = match call.action {
        ReindexAction::Start => caller.executor().reindex().start(call.metric).await?,
        ReindexAction::Stop => caller.executor().reindex().stop().await?,
        ReindexAction::Cancel => caller.executor().reindex().cancel().await?,
        ReindexAction::Index => caller.executor().reindex().index().await?,
    };
    Ok(json_answer(StatusCode::OK, &report))
}

/// Lists the server's only database; for several databases, the module `databases` has its own
/// route.
pub(super) async fn databases(caller: Caller) -> Result<Value> {
    check_operator(caller.peer)?;
    let database =
        json!({"name": caller.executor().database_name(), "home": true, "state": "open"});
    Ok(json!({"places": [database]}))
}

/// Refuses to move an agent, since this server has only one database.
pub(super) async fn move_agent(caller: Caller, _body: Body) -> Result<Response> {
    check_operator(caller.peer)?;
    let text =
        "only one database is configured; add [[store.places]] (docs/how-to/several-databases.md)";
    Err(Error::argument("to", text))
}
