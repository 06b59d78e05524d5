//! The routes: a request in one of the forms to its conversation, and the answer back in the same form.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::converse::{Converse, Settled, ours};
use super::reply::{again, answer_of, head_of, run_of};
use super::stream::{Pieces, streamed};
use crate::http::http::{Front, Named as InPath, Shared, json_answer, object_within};
use crate::http::problem;
use crate::http::runs::{begun, ended};
use vctx_base::socket::PeerActor;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::HISTORY_BYTES_MAX;
use vctx_core::openai::{
    Answer, ChatStream, Conversation, Head, Named, ResponsesStream, chat_answer, fault, parse_chat,
    parse_responses, responses_answer,
};
use vctx_core::policy::Principal;

/// A form of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Chat,
    Responses,
}

impl Form {
    fn parse(self, body: Map<String, Value>) -> Result<Conversation> {
        match self {
            Self::Chat => parse_chat(body, &ours),
            Self::Responses => parse_responses(body, &ours),
        }
    }

    fn whole(self, answer: &Answer) -> Value {
        match self {
            Self::Chat => chat_answer(answer),
            Self::Responses => responses_answer(answer),
        }
    }

    fn pieces(self, head: Head, usage: bool) -> Pieces {
        match self {
            Self::Chat => Pieces::Chat(ChatStream::new(head, usage)),
            Self::Responses => Pieces::Responses(Box::new(ResponsesStream::new(head))),
        }
    }
}

/// The header that names an agent.
const AGENT: &str = "x-vctx-agent";

/// Answers a request of the chat form.
pub(in crate::http) async fn chat(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    asked: Option<Extension<HowMuch>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match asked {
        Some(_) => counted(&front, peer, &headers, body, Form::Chat).await,
        None => answered(front, peer, &headers, body, None, Form::Chat).await,
    }
}

/// Answers a request of the responses form.
pub(in crate::http) async fn responses(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    asked: Option<Extension<HowMuch>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match asked {
        Some(_) => counted(&front, peer, &headers, body, Form::Responses).await,
        None => answered(front, peer, &headers, body, None, Form::Responses).await,
    }
}

/// Beside a request: it is not to be answered, but how much of its conversation is known here.
#[derive(Clone, Copy, Debug)]
pub struct HowMuch;

/// Beside the answer to that: messages of the conversation that are known, counted from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known(pub usize);

async fn counted(
    front: &Arc<Front>,
    peer: PeerActor,
    headers: &HeaderMap,
    body: Body,
    form: Form,
) -> Response {
    let count = async {
        let principal = front.principal(peer, headers);
        let conversation = form.parse(object_within(body, HISTORY_BYTES_MAX).await?)?;
        let converse = Converse {
            executor: &front.executor,
            principal: &principal,
            named: &Named::of(None, &conversation.model, None)?,
            conversation: &conversation,
            window: front.dropin.context_window,
        };
        converse.how_much().await
    };
    match count.await {
        Ok(known) => {
            let mut response = Response::new(Body::empty());
            response.extensions_mut().insert(Known(known));
            response
        }
        Err(error) => refused(&error),
    }
}

/// Answers a request of the chat form for an agent.
pub(in crate::http) async fn agent_chat(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    InPath(agent): InPath<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    answered(front, peer, &headers, body, Some(agent), Form::Chat).await
}

/// Answers a request of the responses form for an agent.
pub(in crate::http) async fn agent_responses(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    InPath(agent): InPath<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    answered(front, peer, &headers, body, Some(agent), Form::Responses).await
}

/// Lists the model behind this server, and each agent as a model of its own.
pub(in crate::http) async fn models(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    let listed = front.executor.agents(&principal).await.map(|listed| {
        let agents = listed["agents"].as_array().cloned().unwrap_or_default();
        let agents = agents.iter().filter_map(|agent| agent["agent"].as_str());
        let model = front.processor.model_name().map(str::to_owned);
        let ids = model.into_iter().chain(agents.map(|agent| format!("vctx/{agent}")));
        let shown = |id| json!({"id": id, "object": "model", "created": 0, "owned_by": "vctx"});
        json!({"object": "list", "data": ids.map(shown).collect::<Vec<Value>>()})
    });
    match listed {
        Ok(listed) => json_answer(StatusCode::OK, &listed),
        Err(error) => refused(&error),
    }
}

async fn answered(
    front: Arc<Front>,
    peer: PeerActor,
    headers: &HeaderMap,
    body: Body,
    path: Option<String>,
    form: Form,
) -> Response {
    let principal = front.principal(peer, headers);
    let asked = async {
        if front.processor.model_name().is_none() {
            let text = "no chat model is configured: set [chat] in the configuration";
            return Err(Error::new(Code::ModelUnavailable, text));
        }
        let conversation = form.parse(object_within(body, HISTORY_BYTES_MAX).await?)?;
        let header = headers.get(AGENT).map(HeaderValue::to_str).transpose();
        let header = header.map_err(|_| Error::argument(AGENT, "use visible ASCII characters"))?;
        let named = Named::of(path.as_deref(), &conversation.model, header)?;
        Ok((conversation, named))
    };
    let (conversation, named) = match asked.await {
        Ok(asked) => asked,
        Err(error) => return refused(&error),
    };
    let outcome = answer(front, principal, named, Arc::new(conversation), form).await;
    outcome.unwrap_or_else(|error| refused(&error))
}

/// Brings a conversation to its place, on a task of its own: a client that leaves cuts no write in half.
async fn settled(
    front: &Arc<Front>,
    principal: &Principal,
    named: Named,
    conversation: &Arc<Conversation>,
) -> Result<Settled> {
    let place = Arc::clone(&front.tasks).try_acquire_owned().map_err(|_| crowded())?;
    let (front, principal) = (Arc::clone(front), principal.clone());
    let conversation = Arc::clone(conversation);
    let work = async move {
        let _place = place;
        let converse = Converse {
            executor: &front.executor,
            principal: &principal,
            named: &named,
            conversation: &conversation,
            window: front.dropin.context_window,
        };
        converse.settle().await
    };
    tokio::spawn(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a conversation was not brought to its place");
        Err(Error::new(Code::Internal, "the server made a mistake; send the same request again"))
    })
}

/// There are too many calls.
pub(super) fn crowded() -> Error {
    Error::new(Code::Overloaded, "too many calls at once: retry later with the same request")
}

/// Brings a conversation to its place and answers it.
async fn answer(
    front: Arc<Front>,
    principal: Principal,
    named: Named,
    conversation: Arc<Conversation>,
    form: Form,
) -> Result<Response> {
    let settled = settled(&front, &principal, named, &conversation).await?;
    let agent = HeaderValue::from_str(&settled.agent)
        .map_err(|_| Error::new(Code::Internal, "the name of an agent is no text of a header"))?;
    let mut response = if conversation.stream {
        let usage = conversation.usage;
        let pieces = |head| form.pieces(head, usage);
        streamed(Arc::clone(&front), principal, settled, Arc::clone(&conversation), pieces).await?
    } else {
        let head = head_of(&settled, &conversation);
        let whole = match settled.known.clone() {
            Some(known) => again(head, known),
            None => {
                let run = run_of(&principal, &settled, &conversation);
                let (mut events, work) = begun(&front, run).ok_or_else(crowded)?;
                while events.recv().await.is_some() {}
                let end = ended(work.await)?;
                {
                    let of = (&settled, &*conversation);
                    answer_of(&front.executor, &principal, of, head, &end, None).await?
                }
            }
        };
        json_answer(StatusCode::OK, &form.whole(&whole))
    };
    response.headers_mut().insert(AGENT, agent);
    Ok(response)
}

/// A refusal in the form that clients of OpenAI read.
fn refused(error: &Error) -> Response {
    // Of a model that does not answer the run tells; that there is none is nobody's fault.
    if error.code.status() >= 500 && error.code != Code::ModelUnavailable {
        tracing::error!(code = error.code.text(), error = error.chain(), "request failed");
    }
    let status =
        StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_answer(status, &fault(error));
    response.extensions_mut().insert(error.code);
    if let Some(seconds) = problem::retry_after_s(error) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
