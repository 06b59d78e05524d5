//! The route `/v1/responses/compact`: an item that stands for a conversation which is already
//! stored. Nothing is written, and no model is asked.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::json;

use super::converse::Converse;
use super::routes::{AGENT, Count, KnownMessages, refused_openai, requested};
use crate::executor::{Executor, Placed};
use crate::http::body::object_within;
use crate::http::caller::Caller;
use crate::http::reply::json_answer;
use crate::limits::HISTORY_BYTES_MAX;
use vctx_base::clock::unix_ms_of;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::conversation::{ClientMessage, ThreadPosition};
use vctx_core::memory::message::{Message, Role};
use vctx_core::openai::{Compaction, compact_answer, parse_compact};
use vctx_core::trust::Principal;

/// Maximum length of the user's messages in a compaction, in bytes: an eighth of a request, so that
/// a client can send them with each of its next requests. Older ones are left out.
const COMPACT_BYTES_MAX: usize = HISTORY_BYTES_MAX / 8;
/// Maximum number of messages of the log that are read for the user's messages: as many as one
/// request can have.
const COMPACT_ROWS_MAX: u64 = 32_768;
/// Number of messages of the log that are read at once.
const COMPACT_PAGE: u64 = 256;

/// Answers a request for the compaction of a conversation.
pub(in crate::http) async fn compact(caller: Caller, count: Count, body: Body) -> Response {
    answered(&caller, count, body).await.unwrap_or_else(|error| refused_openai(&error))
}

async fn answered(caller: &Caller, count: Count, body: Body) -> Result<Response> {
    let (body, _room) = object_within(body, HISTORY_BYTES_MAX).await?;
    let conversation = parse_compact(body)?;
    let (requested, principal) = requested(caller, &conversation.model)?;
    let converse = Converse {
        executor: caller.executor(),
        principal: &principal,
        requested: &requested,
        conversation: &conversation,
        window: caller.front.dropin.context_window,
    };
    if count.is_some() {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(KnownMessages(converse.count_known().await?));
        return Ok(response);
    }
    let (last, found) = converse.last_known().await?;
    let kept = user_messages(caller.executor(), &principal, &last, &found).await?;
    let created_s = unix_ms_of(&found.row.created_at).map_or(0, |ms| ms / 1000);
    let compaction = Compaction::new(last.thread, &kept);
    let name = principal.name_of(&found.agent);
    let told = json!({"agent": name});
    let answer = compact_answer(&compaction, &kept, created_s, told);
    let mut response = json_answer(StatusCode::OK, &answer);
    let agent = HeaderValue::from_str(name)
        .map_err(|_| Error::new(Code::Internal, "the name of an agent does not fit in a header"))?;
    response.headers_mut().insert(AGENT, agent);
    Ok(response)
}

/// Returns the user's messages of a thread up to a position, oldest first. Messages whose text was
/// removed are left out.
async fn user_messages(
    executor: &Executor,
    principal: &Principal,
    last: &ThreadPosition,
    found: &Placed,
) -> Result<Vec<ClientMessage>> {
    let (mut kept, mut bytes, mut wanted) = (Vec::new(), 0, Some(last.thread.clone()));
    let (mut end, first) = (found.row.seq + 1, found.row.seq.saturating_sub(COMPACT_ROWS_MAX - 1));
    while end > first.max(1) && wanted.is_some() {
        let from = end.saturating_sub(COMPACT_PAGE).max(first).max(1);
        let page = executor.said_from(principal, &found.agent, from, end - from).await?;
        for message in page.into_iter().rev() {
            if wanted.is_none() || message.thread != wanted {
                continue;
            }
            wanted.clone_from(&message.follows);
            let Some(said) = said_by_user(message) else { continue };
            bytes += said.text.len();
            if bytes > COMPACT_BYTES_MAX {
                wanted = None;
                break;
            }
            kept.push(said);
        }
        end = from;
    }
    kept.reverse();
    Ok(kept)
}

fn said_by_user(message: Message) -> Option<ClientMessage> {
    let is_said = message.role == Role::User && message.expired_at.is_none();
    is_said.then(|| ClientMessage::text(Role::User, message.content))
}
