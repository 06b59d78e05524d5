//! HTTP routes of prompts, with which an external runtime records, ends, lists and replays prompts.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::body::object;
use super::caller::Caller;
use super::envelope::required_key;
use super::query::number;
use super::reply::json_answer;
use crate::executor::{Ask, CallRequest};
use vctx_core::error::{Error, Result};
use vctx_core::limits::LEASE_MS_BOUNDS;
use vctx_core::memory::Labels;
use vctx_core::memory::model_api::ModelApi;
use vctx_core::memory::run::{RunReason, ToolCall, Usage};
use vctx_core::tools::{EndRun, HoldRun, RecordAnswer, decode_as};

/// Default lease of a run, in milliseconds; long enough for the longest answer of a slow model.
const LEASE_MS: u64 = 120_000;

/// Body of a request to record a prompt, which a runtime is about to send to its model.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptBody {
    run: String,
    model: String,
    /// API in whose form the request is returned; by default chat completions. Tools and options
    /// are given in the format of chat completions.
    #[serde(default)]
    api: ModelApi,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    options: Map<String, Value>,
    /// Digest of a context pack (from `POST /v1/agents/{agent}/context`) that the prompt shows.
    #[serde(default)]
    pack: Option<String>,
    #[serde(default)]
    #[schemars(range(min = LEASE_MS_BOUNDS.0, max = LEASE_MS_BOUNDS.1))]
    lease_ms: Option<u64>,
}

/// Body of a request to record a model's answer.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerBody {
    run: String,
    finish: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
    #[serde(default)]
    usage: Option<Usage>,
    /// Reason why the run ends with this prompt; if absent, the run continues.
    #[serde(default)]
    end_run: Option<RunReason>,
}

/// Returns the owner of an external runtime's runs. The owner is the runtime's user, so that
/// another process of this user may continue the runs.
fn owner(caller: &Caller) -> String {
    format!("uid:{}", caller.principal.actor.uid)
}

pub(super) async fn record(caller: Caller, body: Body) -> Result<Response> {
    let (mut arguments, _room) = object(body).await?;
    let key = required_key(&caller.headers, &mut arguments)?;
    let body: PromptBody = decode_as(arguments)?;
    let lease_ms = body.lease_ms.unwrap_or(LEASE_MS);
    // A repeated call is answered without this check further below.
    let (shortest, longest) = LEASE_MS_BOUNDS;
    if lease_ms < shortest || lease_ms > longest {
        return Err(Error::argument("lease_ms", format!("use {shortest} to {longest}")));
    }
    let hold = HoldRun {
        run: body.run.clone(),
        owner: owner(&caller),
        lease_ms,
        reserve: None,
        labels: Labels::default(),
    };
    let PromptBody { model, api, tools, options, pack, .. } = body;
    let (executor, who, agent) = (caller.executor(), &caller.principal, &caller.agent);
    let context = match &pack {
        Some(digest) => Some(executor.stored_context(who, agent, digest).await?),
        None => None,
    };
    let ask = Ask { hold, model, api, tools, context, options };
    let made = executor.prompt(who, agent, &key, &ask).await?;
    let reply = json!({"turn": made.turn, "request": made.request, "token_estimate": made.token_estimate,
        "safe_estimate": made.safe_estimate, "factor_permille": made.factor_permille, "replayed": made.replayed,
        "end": made.end});
    Ok(json_answer(StatusCode::OK, &reply))
}

pub(super) async fn end(caller: Caller, body: Body) -> Result<Response> {
    let (mut arguments, _room) = object(body).await?;
    let key = required_key(&caller.headers, &mut arguments)?;
    let body: AnswerBody = decode_as(arguments)?;
    let (executor, owner) = (caller.executor(), owner(&caller));
    let answer = RecordAnswer {
        run: body.run.clone(),
        owner: owner.clone(),
        turn: number("turn", &caller.item)?,
        content: body.content,
        tool_calls: body.tool_calls,
        finish: body.finish,
        usage: body.usage,
    };
    let mut reply = executor.answered(&caller.principal, &caller.agent, &key, answer).await?.body;
    if let Some(reason) = body.end_run {
        let run = body.run;
        let call = EndRun { run: run.clone(), owner: Some(owner), reason, told: Map::new() };
        let whose = (caller.principal.clone(), caller.agent.clone());
        let request = CallRequest::internal(whose, call, [("run", run.into())]);
        let request = CallRequest { key: Some(format!("{key}/end")), ..request };
        reply["_rev"] = executor.call(&request).await?.body["_rev"].take();
        reply["run_ended"] = true.into();
    }
    Ok(json_answer(StatusCode::OK, &reply))
}

pub(super) async fn list(caller: Caller) -> Result<Value> {
    let (from, limit) = caller.page("from_turn")?;
    caller.executor().prompts(&caller.principal, &caller.agent, from, limit).await
}

pub(super) async fn replay(caller: Caller) -> Result<Value> {
    let turn = number("turn", &caller.item)?;
    caller.executor().replay_prompt(&caller.principal, &caller.agent, turn).await
}

pub(super) async fn why(caller: Caller) -> Result<Value> {
    let query = caller.query("text and from_turn, or turn")?;
    let (executor, principal, agent) = (caller.executor(), &caller.principal, &caller.agent);
    let (from_turn, begins) = (query.first("from_turn")?, query.text("from_turn").is_some());
    match (query.text("text"), query.number("turn")?, begins) {
        (Some(text), None, _) => executor.why(principal, agent, text, from_turn).await,
        (None, Some(turn), false) => executor.why_prompt(principal, agent, turn).await,
        _ => {
            Err(Error::argument("text", "give the text of a fact, or only the `turn` of a prompt"))
        }
    }
}
