//! Runs over HTTP: one answer, or events as they happen; a client that leaves cancels.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::http::{Front, Named, Shared, crowded, envelope, json_answer, object};
use super::problem;
use super::problem::IntoProblem as _;
use crate::agent_loop::{Beat, NewMessage, RunEnd, RunEvent, RunRequest};
use vctx_base::socket::PeerActor;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::RUN_EVENTS_WAITING;
use vctx_core::memory::message::Role;
use vctx_core::policy::Principal;
use vctx_core::tools::decode_as;

/// Body of `POST /v1/agents/{agent}/runs`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRun {
    /// What it begins with: a text of the user, or messages; nothing after an event that is there already.
    #[serde(default)]
    pub(super) input: Input,
    /// Who asks for the next inference: the model (`asked`), or the server after every memory tool until there is text (`always`).
    #[serde(default)]
    pub(super) beat: BeatName,
    /// Memory tools that are offered, by name, or `all`; those of the configuration unless given.
    #[serde(default)]
    pub(super) tools: Option<Vec<String>>,
    /// Tools of the client, in the format of chat completions; the run ends where the model calls one.
    #[serde(default)]
    pub(super) client_tools: Vec<Value>,
    /// Fields of the request to the model beside messages and tools.
    #[serde(default)]
    pub(super) options: Map<String, Value>,
}

/// Who asks for the next inference.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BeatName {
    /// The model.
    #[default]
    Asked,
    /// The server.
    Always,
}

/// What a run begins with.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Input {
    /// A text of the user.
    Text(String),
    /// Messages.
    Messages(Vec<InputMessage>),
}

impl Default for Input {
    fn default() -> Self {
        Self::Messages(Vec::new())
    }
}

/// A message that a run begins with.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct InputMessage {
    /// Who speaks.
    pub(super) role: Role,
    /// The text.
    pub(super) content: String,
    /// `name`, `tool_call_id`, … as `append_fifo` takes them.
    #[serde(flatten)]
    pub(super) meta: Map<String, Value>,
}

impl Input {
    fn messages(self) -> Vec<NewMessage> {
        let message = |role, content, meta| NewMessage { role, content, meta, thread: None };
        match self {
            Self::Text(text) => vec![message(Role::User, text, Map::new())],
            Self::Messages(all) => {
                all.into_iter().map(|one| message(one.role, one.content, one.meta)).collect()
            }
        }
    }
}

impl NewRun {
    fn request(self, principal: Principal, agent: String, key: String) -> RunRequest {
        RunRequest {
            principal,
            agent,
            key,
            input: self.input.messages(),
            client_tools: self.client_tools,
            options: self.options,
            beat: match self.beat {
                BeatName::Asked => Beat::Asked,
                BeatName::Always => Beat::Always,
            },
            tools: self.tools,
        }
    }
}

/// Runs an agent.
pub(super) async fn run(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let principal = front.principal(peer, &headers);
    let request = match asked(principal, agent, &headers, body).await {
        Ok(request) => request,
        Err(error) => return error.into_problem(),
    };
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let streams = accept.is_some_and(|kinds| kinds.contains("text/event-stream"));
    let Some((mut events, work)) = begun(&front, request) else { return crowded() };
    if streams {
        return event_stream(RunBody { events, work: Some(work) });
    }
    while events.recv().await.is_some() {}
    match ended(work.await) {
        Ok(end) => json_answer(StatusCode::OK, &json!(end)),
        Err(error) => error.into_problem(),
    }
}

async fn asked(
    principal: Principal,
    agent: String,
    headers: &HeaderMap,
    body: Body,
) -> Result<RunRequest> {
    let mut arguments = object(body).await?;
    let (key, _) = envelope(headers, &mut arguments)?;
    let key = key.ok_or_else(|| {
        Error::new(
            Code::IdempotencyKeyRequired,
            "send a fresh Idempotency-Key header (or argument idempotency_key), and the same one when you retry",
        )
    })?;
    Ok(decode_as::<NewRun>(arguments)?.request(principal, agent, key))
}

type Work = JoinHandle<Result<RunEnd>>;

/// Begins a run on a task of its own, so that nothing is cut in half; whoever drops the receiver cancels it. None if there are too many.
pub(super) fn begun(
    front: &Arc<Front>,
    request: RunRequest,
) -> Option<(mpsc::Receiver<RunEvent>, Work)> {
    let place = Arc::clone(&front.tasks).try_acquire_owned().ok()?;
    let processor = Arc::clone(&front.processor);
    let (give, take) = mpsc::channel(RUN_EVENTS_WAITING);
    let work = tokio::spawn(async move {
        let _place = place;
        Box::pin(processor.run(request, give)).await
    });
    Some((take, work))
}

/// What a task came to.
pub(super) fn ended(
    outcome: std::result::Result<Result<RunEnd>, tokio::task::JoinError>,
) -> Result<RunEnd> {
    outcome.unwrap_or_else(|error| {
        tracing::error!(%error, "a run panicked");
        let text = "the server made a mistake; retry with the same key";
        Err(Error::new(Code::Internal, text))
    })
}

/// A body of server-sent events.
pub(super) fn event_stream(
    body: impl hyper::body::Body<Data = Bytes, Error = std::convert::Infallible> + Send + 'static,
) -> Response {
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The events of a run, then its end.
struct RunBody {
    events: mpsc::Receiver<RunEvent>,
    work: Option<Work>,
}

impl hyper::body::Body for RunBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        if let Some(event) = ready!(self.events.poll_recv(context)) {
            let event = json!(event);
            let name = event["type"].as_str().unwrap_or_default().to_owned();
            return Poll::Ready(Some(Ok(frame(&name, &event))));
        }
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        let outcome = ready!(Pin::new(work).poll(context));
        self.work = None;
        Poll::Ready(Some(Ok(match ended(outcome) {
            Ok(end) => frame("end", &json!({"type": "end", "end": end})),
            Err(error) => {
                frame("error", &json!({"type": "error", "problem": problem::body(&error)}))
            }
        })))
    }
}

/// One event.
fn frame(name: &str, data: &Value) -> Frame<Bytes> {
    Frame::data(Bytes::from(format!("event: {name}\ndata: {data}\n\n")))
}
