//! Runs agents over HTTP, with one answer or a stream of events.
//!
//! A client that disconnects cancels its run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::body::object;
use super::caller::{Caller, Front, crowded};
use super::envelope::required_key;
use super::problem::{self, IntoProblem as _};
use super::reply::json_answer;
use crate::agent_loop::{Beat, NewMessage, RunEnd, RunEvent, RunRequest};
use crate::limits::RUN_EVENTS_WAITING;
use vctx_base::room::Room;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::engineer::Engineer;
use vctx_core::memory::message::Role;
use vctx_core::memory::{LABELS, Labels};
use vctx_core::tools::{decode_as, optional_object};

/// Body of `POST /v1/agents/{agent}/runs`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRun {
    /// Input of the run: a text of the user, or messages; empty if the event is already in the
    /// queue.
    #[serde(default)]
    pub(super) input: Input,
    /// Labels of the input's messages that have none; the answers of the run get the labels of the
    /// user's newest message.
    #[serde(default, deserialize_with = "optional_object")]
    pub(super) labels: Option<Labels>,
    /// When the run makes its next inference: when the model requests it (`asked`), or after every
    /// call of a memory tool until the model answers with text (`always`).
    #[serde(default)]
    pub(super) beat: BeatName,
    /// Names of the memory tools that the model sees, or `all`; by default those of the
    /// configuration.
    #[serde(default)]
    pub(super) tools: Option<Vec<String>>,
    /// Tools of the client, in the format of chat completions; the run ends when the model calls
    /// one of them.
    #[serde(default)]
    pub(super) client_tools: Vec<Value>,
    /// Further fields of the request to the model.
    #[serde(default)]
    pub(super) options: Map<String, Value>,
    /// When the run's prompts get a context that is built for their question; by default as the
    /// agent or the configuration says.
    #[serde(default)]
    pub(super) engineer: Option<Engineer>,
}

/// Says when a run makes its next inference.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BeatName {
    /// The run makes the next inference when the model requests it.
    #[default]
    Asked,
    /// The run makes another inference after every call of a memory tool, until the model answers
    /// with text.
    Always,
}

/// The input of a run.
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

/// A message of a run's input.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct InputMessage {
    /// The role of the speaker.
    pub(super) role: Role,
    /// The text.
    pub(super) content: String,
    /// Further attributes of the message (`name`, `tool_call_id`, …), as in `append_fifo`.
    #[serde(flatten)]
    pub(super) meta: Map<String, Value>,
}

impl Input {
    fn messages(self, labels: Option<&Labels>) -> Vec<NewMessage> {
        let message = |role, content, mut meta: Map<String, Value>| {
            if let Some(labels) = labels {
                meta.entry(LABELS).or_insert_with(|| json!(labels));
            }
            NewMessage { role, content, meta, thread: None }
        };
        match self {
            Self::Text(text) => vec![message(Role::User, text, Map::new())],
            Self::Messages(all) => {
                all.into_iter().map(|one| message(one.role, one.content, one.meta)).collect()
            }
        }
    }
}

/// Runs an agent.
pub(super) async fn run(caller: Caller, body: Body) -> Response {
    let accept = caller.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let streams = accept.is_some_and(|kinds| kinds.contains("text/event-stream"));
    let front = Arc::clone(&caller.front);
    let (request, room) = match request(caller, body).await {
        Ok((request, room)) => (RunRequest { is_read: streams, ..request }, room),
        Err(error) => return error.into_problem(),
    };
    let Some((mut events, work)) = begin_run(&front, request, room) else { return crowded() };
    if streams {
        return event_stream(RunBody { events, work: Some(work) });
    }
    while events.recv().await.is_some() {}
    match outcome_of(work.await) {
        Ok(end) => json_answer(StatusCode::OK, &json!(end)),
        Err(error) => error.into_problem(),
    }
}

async fn request(caller: Caller, body: Body) -> Result<(RunRequest, Room)> {
    let (mut arguments, room) = object(body).await?;
    let key = required_key(&caller.headers, &mut arguments)?;
    let run: NewRun = decode_as(arguments)?;
    run.labels.as_ref().map_or(Ok(()), |labels| labels.check("labels"))?;
    let request = RunRequest {
        principal: caller.principal,
        agent: caller.agent,
        key,
        input: run.input.messages(run.labels.as_ref()),
        labels: Labels::default(),
        client_tools: run.client_tools,
        options: run.options,
        beat: match run.beat {
            BeatName::Asked => Beat::Asked,
            BeatName::Always => Beat::Always,
        },
        engineer: run.engineer,
        tools: run.tools,
        is_read: false,
    };
    Ok((request, room))
}

type Work = JoinHandle<Result<RunEnd>>;

/// Begins a run on a separate task, which keeps the room of the request's values. If the receiver
/// is dropped, the run is cancelled. Returns `None` if too many calls are running.
pub(super) fn begin_run(
    front: &Arc<Front>,
    request: RunRequest,
    room: Room,
) -> Option<(mpsc::Receiver<RunEvent>, Work)> {
    let permit = Arc::clone(&front.tasks).try_acquire_owned().ok()?;
    let processor = Arc::clone(&front.processor);
    let (give, take) = mpsc::channel(RUN_EVENTS_WAITING);
    let run = async move {
        let _held = (permit, room);
        Box::pin(processor.run(request, give)).await
    };
    let work = tokio::spawn(run.in_current_span());
    Some((take, work))
}

/// Returns the result of a run's task; a panic becomes an error.
pub(super) fn outcome_of(
    outcome: std::result::Result<Result<RunEnd>, tokio::task::JoinError>,
) -> Result<RunEnd> {
    outcome.unwrap_or_else(|error| {
        tracing::error!(%error, "a run panicked");
        let text = "the server has an internal error; retry with the same key";
        Err(Error::new(Code::Internal, text))
    })
}

/// Returns a response with server-sent events.
pub(super) fn event_stream(
    body: impl hyper::body::Body<Data = Bytes, Error = std::convert::Infallible> + Send + 'static,
) -> Response {
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A response body with the run's events, followed by its result.
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
        Poll::Ready(Some(Ok(match outcome_of(outcome) {
            Ok(end) => frame("end", &json!({"type": "end", "end": end})),
            Err(error) => {
                frame("error", &json!({"type": "error", "problem": problem::body(&error)}))
            }
        })))
    }
}

/// Returns the text of one server-sent event.
fn frame(name: &str, data: &Value) -> Frame<Bytes> {
    Frame::data(Bytes::from(format!("event: {name}\ndata: {data}\n\n")))
}
