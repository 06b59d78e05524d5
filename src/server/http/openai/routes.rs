//! HTTP routes of the OpenAI API and of the messages API: a request in the chat, responses or
//! messages format is parsed, and answered in the same format.

use std::ops::Deref;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value, json};
use tracing::Instrument as _;

use super::converse::{Converse, StoredConversation, is_memory_tool};
use super::reply::{answer_of, head_of, known_answer, run_of};
use super::stream::{Pieces, streamed};
use crate::executor::AGENTS_PAGE;
use crate::http::body::object_within;
use crate::http::caller::{Caller, Front};
use crate::http::problem;
use crate::http::reply::json_answer;
use crate::http::runs::{begin_run, outcome_of};
use crate::limits::HISTORY_BYTES_MAX;
use vctx_base::room::Room;
use vctx_core::anthropic::{
    self, MessagesStream, estimated_tokens, messages_answer, parse_count, parse_messages,
};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::Encoding;
use vctx_core::openai::{
    self, Answer, ChatStream, Conversation, Head, RequestedAgent, ResponsesStream, chat_answer,
    parse_chat, parse_responses, responses_answer,
};
use vctx_core::trust::Principal;

/// Format of a request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Chat,
    Responses,
    Messages,
}

impl Form {
    fn parse(self, body: Map<String, Value>) -> Result<Conversation> {
        match self {
            Self::Chat => parse_chat(body, &is_memory_tool),
            Self::Responses => parse_responses(body, &is_memory_tool),
            Self::Messages => parse_messages(body, &is_memory_tool),
        }
    }

    fn whole(self, answer: &Answer) -> Value {
        match self {
            Self::Chat => chat_answer(answer),
            Self::Responses => responses_answer(answer),
            Self::Messages => messages_answer(answer),
        }
    }

    fn pieces(self, head: Head, usage: bool) -> Pieces {
        match self {
            Self::Chat => Pieces::Chat(ChatStream::new(head, usage)),
            Self::Responses => Pieces::Responses(Box::new(ResponsesStream::new(head))),
            Self::Messages => Pieces::Messages(Box::new(MessagesStream::new(head))),
        }
    }

    fn fault(self, error: &Error) -> Value {
        match self {
            Self::Chat | Self::Responses => openai::fault(error),
            Self::Messages => anthropic::fault(error),
        }
    }
}

/// The conversation of a request, with the room that its texts take.
pub(super) struct HeldConversation {
    conversation: Conversation,
    _room: Room,
}

impl Deref for HeldConversation {
    type Target = Conversation;

    fn deref(&self) -> &Conversation {
        &self.conversation
    }
}

/// The request and response header with the agent's name.
pub(in crate::http) const AGENT: &str = "x-vctx-agent";

pub(super) type Count = Option<Extension<CountKnown>>;

/// Answers a request in the chat format.
pub(in crate::http) async fn chat(caller: Caller, count: Count, body: Body) -> Response {
    respond(caller, count, body, Form::Chat).await
}

/// Answers a request in the responses format.
pub(in crate::http) async fn responses(caller: Caller, count: Count, body: Body) -> Response {
    respond(caller, count, body, Form::Responses).await
}

/// Answers a request in the messages format.
pub(in crate::http) async fn messages(caller: Caller, count: Count, body: Body) -> Response {
    respond(caller, count, body, Form::Messages).await
}

/// Request extension that asks only how many messages of the conversation this database knows.
#[derive(Clone, Copy, Debug)]
pub struct CountKnown;

/// Response extension that answers [`CountKnown`]: the number of known messages, counted from the
/// beginning of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KnownMessages(pub usize);

async fn respond(caller: Caller, count: Count, body: Body, form: Form) -> Response {
    let outcome = match count {
        Some(_) => counted(&caller, body, form).await,
        None => answered(caller, body, form).await,
    };
    outcome.unwrap_or_else(|error| refused(&error, form))
}

async fn asked(body: Body, form: Form) -> Result<HeldConversation> {
    let (body, room) = object_within(body, HISTORY_BYTES_MAX).await?;
    Ok(HeldConversation { conversation: form.parse(body)?, _room: room })
}

async fn counted(caller: &Caller, body: Body, form: Form) -> Result<Response> {
    let conversation = asked(body, form).await?;
    let converse = Converse {
        executor: caller.executor(),
        principal: &caller.principal,
        requested: &RequestedAgent::of(None, &conversation.model, None)?,
        conversation: &conversation,
        window: caller.front.dropin.context_window,
    };
    let known = converse.count_known().await?;
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(KnownMessages(known));
    Ok(response)
}

/// Lists this server's chat model, its embedder, and the first [`AGENTS_PAGE`] agents as models,
/// because the OpenAI API has no further pages of this list.
pub(in crate::http) async fn models(caller: Caller) -> Response {
    let listed = caller.executor().agents(&caller.principal, None, "", Some(AGENTS_PAGE.1)).await;
    let listed = listed.map(|listed| {
        let agents = listed["agents"].as_array().cloned().unwrap_or_default();
        let agents = agents.iter().filter_map(|agent| agent["agent"].as_str());
        let model = caller.front.processor.model_name().map(str::to_owned);
        let embedder = caller.executor().embedder().model_id.clone();
        let ids = model.into_iter().chain([embedder]);
        let ids = ids.chain(agents.map(|agent| format!("vctx/{agent}")));
        let shown = |id| json!({"id": id, "object": "model", "created": 0, "owned_by": "vctx"});
        json!({"object": "list", "data": ids.map(shown).collect::<Vec<Value>>()})
    });
    match listed {
        Ok(listed) => json_answer(StatusCode::OK, &listed),
        Err(error) => refused(&error, Form::Chat),
    }
}

async fn answered(caller: Caller, body: Body, form: Form) -> Result<Response> {
    if caller.front.processor.model_name().is_none() {
        let text = "no chat model is configured: set [chat] in the configuration";
        return Err(Error::new(Code::ModelUnavailable, text));
    }
    let conversation = asked(body, form).await?;
    let (requested, principal) = requested(&caller, &conversation.model)?;
    let agent = requested.agent.clone().unwrap_or_default();
    let front = Arc::clone(&caller.front);
    let conversation = Arc::new(conversation);
    match answer(caller.front, principal.clone(), requested, conversation, form).await {
        Err(error) => Err(front.executor.explained(&principal, &agent, error).await),
        answered => answered,
    }
}

/// Returns the agent that a request names in its path, its model or its header, by its local key,
/// and the caller who calls it by that name.
pub(super) fn requested(caller: &Caller, model: &str) -> Result<(RequestedAgent, Principal)> {
    // If the path names an agent, the header is ignored.
    let agent = Some(caller.given.as_str()).filter(|agent| !agent.is_empty());
    let header = caller.headers.get(AGENT).map(HeaderValue::to_str).transpose();
    let header = header.map_err(|_| Error::argument(AGENT, "use visible ASCII characters"))?;
    let requested = RequestedAgent::of(agent, model, header)?;
    let mut principal = caller.principal.clone();
    let agent = requested.agent.map(|given| caller.executor().calling(&mut principal, &given));
    Ok((RequestedAgent { agent }, principal))
}

/// Estimates the tokens of a request in the messages format.
pub(in crate::http) async fn count_tokens(caller: Caller, body: Body) -> Response {
    match estimated(&caller, body).await {
        Ok(tokens) => {
            json_answer(StatusCode::OK, &json!({"input_tokens": tokens, "estimate": true}))
        }
        Err(error) => refused(&error, Form::Messages),
    }
}

async fn estimated(caller: &Caller, body: Body) -> Result<u64> {
    let (body, room) = object_within(body, HISTORY_BYTES_MAX).await?;
    let conversation = parse_count(body, &is_memory_tool)?;
    let encoding = match &requested(caller, &conversation.model)?.0.agent {
        None => Encoding::default(),
        Some(agent) => match caller.executor().peek(&caller.principal, agent, "").await {
            Ok((core, _)) => core.encoding,
            // A new agent will have the default encoding.
            Err(error) if error.code == Code::AgentNotFound => Encoding::default(),
            Err(error) => return Err(error),
        },
    };
    let permit = Arc::clone(&caller.front.tasks).try_acquire_owned().map_err(|_| crowded())?;
    let counter = caller.executor().counter(encoding);
    let count = move || {
        let _held = (permit, room);
        estimated_tokens(&conversation, &*counter)
    };
    let failed = |error| Error::new(Code::Internal, "the tokens were not counted").caused_by(error);
    tokio::task::spawn_blocking(count).await.map_err(failed)
}

/// Finds a conversation's thread and appends its new messages. This happens on a separate task, so
/// that a disconnecting client does not interrupt a write.
async fn stored(
    front: &Arc<Front>,
    principal: &Principal,
    requested: RequestedAgent,
    conversation: &Arc<HeldConversation>,
) -> Result<StoredConversation> {
    let permit = Arc::clone(&front.tasks).try_acquire_owned().map_err(|_| crowded())?;
    let (front, principal) = (Arc::clone(front), principal.clone());
    let conversation = Arc::clone(conversation);
    let work = async move {
        let _permit = permit;
        let converse = Converse {
            executor: &front.executor,
            principal: &principal,
            requested: &requested,
            conversation: &conversation,
            window: front.dropin.context_window,
        };
        converse.store().await
    };
    tokio::spawn(work.in_current_span()).await.unwrap_or_else(|error| {
        tracing::error!(%error, "storing a conversation panicked");
        Err(Error::new(
            Code::Internal,
            "the server has an internal error; send the same request again",
        ))
    })
}

/// Returns the error for a request beyond the limit of concurrent calls.
pub(super) fn crowded() -> Error {
    Error::new(Code::Overloaded, "too many calls at once: retry later with the same request")
}

/// Appends a conversation's new messages, and answers its last message.
async fn answer(
    front: Arc<Front>,
    principal: Principal,
    requested: RequestedAgent,
    conversation: Arc<HeldConversation>,
    form: Form,
) -> Result<Response> {
    let stored = stored(&front, &principal, requested, &conversation).await?;
    let agent = HeaderValue::from_str(principal.name_of(&stored.agent))
        .map_err(|_| Error::new(Code::Internal, "the name of an agent does not fit in a header"))?;
    let mut response = if conversation.stream {
        let usage = conversation.usage;
        let pieces = |head| form.pieces(head, usage);
        streamed(Arc::clone(&front), principal, stored, Arc::clone(&conversation), pieces).await?
    } else {
        let head = head_of(&principal, &stored, &conversation);
        let whole = match stored.known.clone() {
            Some(known) => known_answer(head, known),
            None => {
                let run = run_of(&principal, &stored, &conversation);
                let (mut events, work) =
                    begin_run(&front, run, Room::default()).ok_or_else(crowded)?;
                while events.recv().await.is_some() {}
                let end = outcome_of(work.await)?;
                let of = (&stored, &**conversation);
                answer_of(&front.executor, &principal, of, head, &end, None).await?
            }
        };
        json_answer(StatusCode::OK, &form.whole(&whole))
    };
    response.headers_mut().insert(AGENT, agent);
    Ok(response)
}

/// Returns an error in OpenAI's format.
pub(super) fn refused_openai(error: &Error) -> Response {
    refused(error, Form::Responses)
}

/// Returns an error in the JSON format of the request's API.
fn refused(error: &Error, form: Form) -> Response {
    // A model failure is not logged again, since the run has logged it; a missing model is not a
    // server fault.
    if error.code.status() >= 500 && error.code != Code::ModelUnavailable {
        tracing::error!(code = error.code.text(), error = error.chain(), "request failed");
    }
    let status =
        StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_answer(status, &form.fault(error));
    response.extensions_mut().insert(error.code);
    if let Some(seconds) = problem::retry_after_s(error) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
