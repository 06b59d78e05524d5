//! Routes of prompts: on record before they are sent by a runtime of its own, ended by their answers, listed, and put together again.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::http::{
    Front, Named, Shared, answer, envelope, json_answer, number, object, own_task, part_of,
};
use crate::executor::{Ask, CallRequest};
use vctx_base::socket::PeerActor;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::run::{RunReason, ToolCall, Usage};
use vctx_core::policy::Principal;
use vctx_core::tools::{Call, EndRun, HoldRun, RecordAnswer, decode_as};

/// Lease of a run whose runtime names none, in milliseconds: a slow model's longest answer.
const LEASE_MS: u64 = 120_000;

/// The routes.
pub(super) fn routes() -> Router<Arc<Front>> {
    Router::new()
        .route("/v1/agents/{agent}/prompts", get(list).post(record))
        .route("/v1/agents/{agent}/prompts/{turn}", get(replay))
        .route("/v1/agents/{agent}/prompts/{turn}/answer", post(end))
        .route("/v1/agents/{agent}/why", get(why))
}

/// What a runtime is about to ask its model.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PromptBody {
    run: String,
    model: String,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    options: Map<String, Value>,
    #[serde(default)]
    lease_ms: Option<u64>,
}

/// What its model answered.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerBody {
    run: String,
    finish: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
    #[serde(default)]
    usage: Option<Usage>,
    /// Ends the run with this prompt.
    #[serde(default)]
    end_run: Option<RunReason>,
}

/// A runtime outside holds its runs by its user: another process of it may go on with them.
fn owner(principal: &Principal) -> String {
    format!("uid:{}", principal.actor.uid)
}

fn required(key: Option<String>) -> Result<String> {
    key.ok_or_else(|| {
        let text = "send a fresh Idempotency-Key header (or argument idempotency_key), and the same one when you retry";
        Error::new(Code::IdempotencyKeyRequired, text)
    })
}

fn turn_of(text: &str) -> Result<u64> {
    number("turn", text)
}

async fn record(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let principal = front.principal(peer, &headers);
    own_task(&Arc::clone(&front), async move {
        let mut arguments = object(body).await?;
        let key = required(envelope(&headers, &mut arguments)?.0)?;
        let body: PromptBody = decode_as(arguments)?;
        let hold = HoldRun {
            run: body.run,
            owner: owner(&principal),
            lease_ms: body.lease_ms.unwrap_or(LEASE_MS),
        };
        let ask = Ask { hold, model: body.model, tools: body.tools, options: body.options };
        let made = front.executor.prompt(&principal, &agent, &key, &ask).await?;
        let told = json!({"turn": made.turn, "request": made.request, "token_estimate": made.token_estimate,
            "safe_estimate": made.safe_estimate, "factor_permille": made.factor_permille, "replayed": made.replayed,
            "end": made.end});
        Ok(json_answer(StatusCode::OK, &told))
    })
    .await
}

async fn end(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named((agent, turn)): Named<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let principal = front.principal(peer, &headers);
    own_task(&Arc::clone(&front), async move {
        let mut arguments = object(body).await?;
        let key = required(envelope(&headers, &mut arguments)?.0)?;
        let body: AnswerBody = decode_as(arguments)?;
        let owner = owner(&principal);
        let given = RecordAnswer {
            run: body.run.clone(),
            owner: owner.clone(),
            turn: turn_of(&turn)?,
            content: body.content,
            tool_calls: body.tool_calls,
            finish: body.finish,
            usage: body.usage,
        };
        let mut told = front.executor.answered(&principal, &agent, &key, given).await?.body;
        if let Some(reason) = body.end_run {
            let call =
                EndRun { run: body.run.clone(), owner: Some(owner), reason, told: Map::new() };
            let request = CallRequest {
                principal,
                agent,
                call: Call::EndRun(Box::new(call)),
                arguments: Map::from_iter([("run".to_owned(), json!(body.run))]),
                key: Some(format!("{key}/end")),
                guard: None,
                capture: None,
                wording: None,
            };
            let ended = front.executor.call(&request).await?.body;
            told["_rev"] = ended["_rev"].clone();
            told["run_ended"] = true.into();
        }
        Ok(json_answer(StatusCode::OK, &told))
    })
    .await
}

async fn list(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    let read = async {
        let (from_turn, limit) = part_of(query.as_deref(), "from_turn")?;
        front.executor.prompts(&principal, &agent, from_turn, limit).await
    };
    answer(read.await)
}

async fn replay(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named((agent, turn)): Named<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    let read = async { front.executor.replay_prompt(&principal, &agent, turn_of(&turn)?).await };
    answer(read.await)
}

async fn why(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    let read = async {
        let (mut text, mut turn, mut from_turn) = (None, None, None);
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "text" => text = Some(value.into_owned()),
                "turn" => turn = Some(number(&name, &value)?),
                "from_turn" => from_turn = Some(number(&name, &value)?),
                other => {
                    return Err(Error::argument(other, "unknown: use text and from_turn, or turn"));
                }
            }
        }
        match (text, turn) {
            (Some(text), None) => {
                front.executor.why(&principal, &agent, &text, from_turn.unwrap_or(1)).await
            }
            (None, Some(turn)) if from_turn.is_none() => {
                front.executor.why_prompt(&principal, &agent, turn).await
            }
            _ => Err(Error::argument(
                "text",
                "say what is looked for, or the `turn` of a prompt alone",
            )),
        }
    };
    answer(read.await)
}
