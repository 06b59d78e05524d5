//! Routes: bytes to calls, replies to bytes. Each call runs on a task of its own, so that a client that leaves cuts nothing in half.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, RawQuery, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Router};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tower_http::catch_panic::CatchPanicLayer;
use url::form_urlencoded;

use super::openai;
use super::problem::IntoProblem as _;
use super::schema::{openapi, tool_schemas};
use crate::agent_loop::Processor;
use crate::executor::{CallRequest, Executor, Guard, Span};
use vctx_base::metric;
use vctx_base::socket::PeerActor;
use vctx_core::dialect::{Dialect, Format, Translated, check_tool, understood};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    BODY_BYTES_MAX, BODY_DRAINED_BYTES_MAX, BODY_MS_MAX, CALLS_IN_FLIGHT_MAX, NAME_BYTES_MAX,
    TRACE_AROUND, TRACE_DEPTH, TRACE_LIMIT,
};
use vctx_core::memory::archive::Metric;
use vctx_core::memory::capture::Capture;
use vctx_core::memory::plain::Plain;
use vctx_core::openai::DropinSettings;
use vctx_core::policy::{Actor, Follow, Principal, TraceQuery};
use vctx_core::tools::{
    Call, NewAgent, PatchAgent, PostEvent, PutSchedule, ReleaseTainted, Tool, decode_as,
};

/// What the routes share.
pub(super) struct Front {
    pub(super) executor: Arc<Executor>,
    pub(super) processor: Arc<Processor>,
    pub(super) dropin: DropinSettings,
    tenant: String,
    in_flight: Arc<Semaphore>,
    /// Places of the tasks that calls run on; they outlive a client that leaves.
    pub(super) tasks: Arc<Semaphore>,
}

pub(super) type Shared = State<Arc<Front>>;

/// The names in a path; one that is no text is refused like every other bad name.
pub(super) struct Named<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &S,
    ) -> std::result::Result<Self, Response> {
        let names = Path::<T>::from_request_parts(parts, state).await;
        names.map(|Path(names)| Self(names)).map_err(|_| {
            Error::new(Code::InvalidName, "a name in the path is not UTF-8: use A-Z a-z 0-9 _ . -")
                .with("field", "agent")
                .into_problem()
        })
    }
}

/// The routes of one listener; all its callers belong to one tenant.
pub fn router(
    executor: Arc<Executor>,
    processor: Arc<Processor>,
    tenant: String,
    dropin: DropinSettings,
) -> Router {
    let front = Arc::new(Front {
        executor,
        processor,
        dropin,
        tenant,
        in_flight: Arc::new(Semaphore::new(CALLS_IN_FLIGHT_MAX)),
        tasks: Arc::new(Semaphore::new(CALLS_IN_FLIGHT_MAX)),
    });
    let v1 = Router::new()
        .route("/v1/agents", get(agents))
        .route("/v1/agents/{agent}", put(create).get(state).patch(change))
        .route("/v1/agents/{agent}/tools/{tool}", post(tool))
        .route("/v1/agents/{agent}/archive/{doc_id}", delete(remove))
        .route("/v1/agents/{agent}/schedules", get(schedules))
        .route(
            "/v1/agents/{agent}/schedules/{name}",
            put(put_schedule).get(schedule).delete(remove_schedule),
        )
        .route("/v1/agents/{agent}/events", post(event).get(events))
        .route("/v1/agents/{agent}/forget", post(super::forget::forget).get(super::forget::list))
        .route("/v1/agents/{agent}/context", get(context))
        .route("/v1/agents/{agent}/runs", post(super::runs::run))
        .route("/v1/agents/{agent}/messages", get(messages))
        .route("/v1/agents/{agent}/history", get(history))
        .route("/v1/agents/{agent}/quarantine", get(quarantine).post(release))
        .route("/v1/agents/{agent}/trace", get(trace))
        .route("/v1/agents/{agent}/conveyance", get(conveyance))
        .merge(super::prompts::routes())
        .merge(super::exports::routes())
        .route("/v1/agents/{agent}/chat/completions", post(openai::agent_chat))
        .route("/v1/agents/{agent}/responses", post(openai::agent_responses))
        .route("/v1/chat/completions", post(openai::chat))
        .route("/v1/responses", post(openai::responses))
        .route("/v1/models", get(openai::models))
        .route("/v1/reindex", get(reindex_status).post(reindex))
        .route("/v1/places", get(places))
        .route("/v1/agents/{agent}/move", post(move_agent))
        .route_layer(from_fn_with_state(Arc::clone(&front), shed));
    Router::new()
        .merge(v1)
        .route("/v1/tools", get(tools))
        .route("/v1/openapi.json", get(|| async { json_answer(StatusCode::OK, &openapi()) }))
        .route("/healthz", get(|| async { json_answer(StatusCode::OK, &json!({"status": "ok"})) }))
        .route("/readyz", get(ready))
        .fallback(|| async {
            Error::new(Code::RouteNotFound, "no such path: see GET /v1/openapi.json").into_problem()
        })
        .method_not_allowed_fallback(|| async {
            Error::new(
                Code::MethodNotAllowed,
                "this path has no such method: see GET /v1/openapi.json",
            )
            .into_problem()
        })
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| {
            Error::new(Code::Internal, "the server made a mistake; the memory is as it was")
                .into_problem()
        }))
        .with_state(front)
}

/// Refuses at once what would only wait.
async fn shed(State(front): Shared, request: Request, next: Next) -> Response {
    let Ok(_permit) = Arc::clone(&front.in_flight).try_acquire_owned() else { return crowded() };
    next.run(request).await
}

pub(super) fn crowded() -> Response {
    metrics::counter!(metric::SHED).increment(1);
    let text =
        format!("more than {CALLS_IN_FLIGHT_MAX} calls at once: retry later with the same key");
    Error::new(Code::Overloaded, text).into_problem()
}

/// JSON as an answer.
pub fn json_answer(status: StatusCode, body: &Value) -> Response {
    let mut response = (status, body.to_string()).into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An answer with its revision as `ETag`.
fn with_etag(status: StatusCode, body: &Value) -> Response {
    let mut response = json_answer(status, body);
    if let Some(tag) =
        body["_rev"].as_str().and_then(|rev| HeaderValue::from_str(&format!("\"{rev}\"")).ok())
    {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

impl Front {
    pub(super) fn principal(&self, peer: PeerActor, headers: &HeaderMap) -> Principal {
        let label = headers.get("x-vctx-label").and_then(|v| v.to_str().ok());
        let label =
            label.map(|l| l.chars().filter(|c| !c.is_control()).take(NAME_BYTES_MAX).collect());
        Principal {
            actor: Actor { uid: peer.uid, pid: peer.pid, label },
            tenant: self.tenant.clone(),
        }
    }
}

/// Runs work on a task of its own and turns its outcome into an answer.
pub(super) async fn own_task(
    front: &Front,
    work: impl Future<Output = Result<Response>> + Send + 'static,
) -> Response {
    let Ok(place) = Arc::clone(&front.tasks).try_acquire_owned() else { return crowded() };
    let work = async move {
        let _place = place;
        work.await
    };
    match tokio::spawn(work).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => error.into_problem(),
        Err(error) => {
            tracing::error!(%error, "a call panicked");
            Error::new(Code::Internal, "the server made a mistake; retry with the same key")
                .into_problem()
        }
    }
}

/// Reads a body within its limits. The rest of one that is too long is read and thrown away, up to a bound: a connection
/// that is closed upon a sender takes the answer with it. Not left to `read_on`: who waited for `100 Continue` was told to send by the first read here.
async fn limited(mut body: Body, bytes_max: usize) -> Result<Vec<u8>> {
    let (mut bytes, mut length) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|e| Error::new(Code::InvalidJson, "the body was cut off").caused_by(e))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length <= bytes_max {
            bytes.extend_from_slice(&data);
        } else if length > BODY_DRAINED_BYTES_MAX {
            break;
        }
    }
    if length <= bytes_max {
        return Ok(bytes);
    }
    Err(Error::new(Code::BodyTooLarge, format!("at most {bytes_max} bytes: split the text"))
        .with("bytes_max", bytes_max))
}

/// Reads a body within its limits of length and time.
pub async fn bytes_within(body: Body, bytes_max: usize) -> Result<Vec<u8>> {
    let read = tokio::time::timeout(Duration::from_millis(BODY_MS_MAX), limited(body, bytes_max));
    let late =
        |_| Error::new(Code::Timeout, format!("the body did not come within {BODY_MS_MAX} ms"));
    read.await.map_err(late)?
}

/// Reads a body as the object it must be.
pub(super) async fn object(body: Body) -> Result<Map<String, Value>> {
    object_within(body, BODY_BYTES_MAX).await
}

/// The same for one of another length.
pub(super) async fn object_within(body: Body, bytes_max: usize) -> Result<Map<String, Value>> {
    object_of(&bytes_within(body, bytes_max).await?)
}

/// Bytes as the object that they must be.
pub fn object_of(bytes: &[u8]) -> Result<Map<String, Value>> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        Error::new(
            Code::InvalidJson,
            format!("the body is not UTF-8 at byte {}: send JSON in UTF-8", e.valid_up_to()),
        )
    })?;
    match serde_json::from_str(text) {
        Ok(Plain(Value::Object(map))) => Ok(map),
        Ok(_) => Err(Error::new(Code::InvalidJson, "the body is not a JSON object")),
        Err(e) => {
            let why = if e.is_data() { "names an attribute twice" } else { "is not JSON" };
            let text = format!("the body {why} at line {} column {}", e.line(), e.column());
            Err(Error::new(Code::InvalidJson, text))
        }
    }
}

/// Key and guard of a call, from its headers or its arguments; both at once must agree.
pub(super) fn envelope(
    headers: &HeaderMap,
    arguments: &mut Map<String, Value>,
) -> Result<(Option<String>, Option<Guard>)> {
    let key = either(headers, "idempotency-key", arguments, "idempotency_key")?;
    let guard = either(headers, "if-match", arguments, "_rev")?;
    Ok((key, guard.as_deref().map(Guard::parse).transpose()?))
}

fn either(
    headers: &HeaderMap,
    header: &str,
    arguments: &mut Map<String, Value>,
    argument: &str,
) -> Result<Option<String>> {
    let mut values = headers.get_all(header).iter();
    let from_header = match (values.next(), values.next()) {
        (None, _) => None,
        (Some(_), Some(_)) => return Err(Error::argument(header, "sent twice: send it once")),
        (Some(value), None) => {
            let text = value.to_str();
            let text = text.map_err(|_| Error::argument(header, "use visible ASCII characters"))?;
            Some(unquoted(text).to_owned())
        }
    };
    let from_arguments = match arguments.remove(argument) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(_) => return Err(Error::argument(argument, "must be a text")),
    };
    match (from_header, from_arguments) {
        (Some(a), Some(b)) if a != unquoted(&b) => Err(Error::argument(
            argument,
            format!("differs from the header {header}: send one of them"),
        )),
        (a, b) => Ok(a.or(b)),
    }
}

/// A header's text without the quotes that entity tags and keys may stand in (RFC 9110 §8.8.3, RFC 8941 §3.3.3), so that one key
/// is one key in either form.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text)
}

/// How a call wants its result in the queue: `true` appends call and result as one pair, `{"tool_call_id": …}` the result alone.
fn capture_of(
    given: Option<Value>,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Result<Option<Capture>> {
    let wrong = || Error::argument("capture", "use true, or an object with `tool_call_id`");
    match given {
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => {
            let arguments = Value::Object(arguments.clone()).to_string();
            Ok(Some(Capture::Pair { name: tool.to_owned(), arguments }))
        }
        Some(Value::Object(mut parts)) => match (parts.remove("tool_call_id"), parts.is_empty()) {
            (Some(Value::String(id)), true) => Ok(Some(Capture::answering(id))),
            _ => Err(wrong()),
        },
        Some(_) => Err(wrong()),
    }
}

async fn call(
    front: &Arc<Front>,
    principal: Principal,
    agent: String,
    headers: &HeaderMap,
    arguments: Map<String, Value>,
    decoded: impl FnOnce(Map<String, Value>) -> Result<Translated>,
) -> Result<Value> {
    let mut arguments = arguments;
    let (key, guard) = envelope(headers, &mut arguments)?;
    let captured = arguments.shift_remove("capture");
    let Translated { call, wording, any_revision } = decoded(arguments.clone())?;
    let guard = if any_revision { Some(Guard::Any) } else { guard };
    let named = wording.as_ref().map_or_else(|| call.name(), |wording| wording.name());
    let capture = capture_of(captured, named, &arguments)?;
    let request = CallRequest { principal, agent, call, arguments, key, guard, wording, capture };
    front.executor.call(&request).await.map(|reply| reply.body)
}

async fn tool(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named((agent, name)): Named<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let principal = front.principal(peer, &headers);
    own_task(&Arc::clone(&front), async move {
        check_tool(&name)?;
        let arguments = object(body).await?;
        let decoded = |map| understood(&name, map);
        let body = call(&front, principal, agent, &headers, arguments, decoded).await?;
        Ok(with_etag(StatusCode::OK, &body))
    })
    .await
}

/// Takes a document out of the archive: `ingest_archival` with `delete`.
async fn remove(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named((agent, doc_id)): Named<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    own_task(&Arc::clone(&front), async move {
        let arguments = Map::from_iter([
            ("doc_id".to_owned(), Value::from(doc_id)),
            ("delete".to_owned(), true.into()),
        ]);
        let decoded = |map| understood(Tool::IngestArchival.spec().name, map);
        let body = call(&front, principal, agent, &headers, arguments, decoded).await?;
        Ok(with_etag(StatusCode::OK, &body))
    })
    .await
}

async fn event(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let principal = front.principal(peer, &headers);
    own_task(&Arc::clone(&front), async move {
        let arguments = object(body).await?;
        let decoded = |map| Ok(Call::PostEvent(decode_as::<PostEvent>(map)?.checked()?).into());
        let body = call(&front, principal, agent, &headers, arguments, decoded).await?;
        Ok(with_etag(StatusCode::OK, &body))
    })
    .await
}

async fn quarantine(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    let read = async {
        let (mut id, mut after, mut limit) = (None, String::new(), None);
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "id" => id = Some(value.into_owned()),
                "after" => after = value.into_owned(),
                "limit" => limit = Some(number(&name, &value)?),
                other => {
                    return Err(Error::argument(other, "unknown: use id, or after and limit"));
                }
            }
        }
        match id {
            Some(id) => front.executor.quarantined(&principal, &agent, &id).await,
            None => front.executor.quarantine(&principal, &agent, &after, limit).await,
        }
    };
    answer(read.await)
}

async fn release(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let principal = front.principal(peer, &headers);
    own_task(&Arc::clone(&front), async move {
        let arguments = object(body).await?;
        let decoded = |map| Ok(Call::ReleaseTainted(decode_as::<ReleaseTainted>(map)?).into());
        let body = call(&front, principal, agent, &headers, arguments, decoded).await?;
        Ok(with_etag(StatusCode::OK, &body))
    })
    .await
}

async fn put_schedule(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named((agent, name)): Named<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let principal = front.principal(peer, &headers);
    own_task(&Arc::clone(&front), async move {
        let body: PutSchedule = decode_as(object(body).await?)?;
        let put = front.executor.put_schedule(&principal, &agent, &name, body).await;
        let (made, schedule) = noted(put)?;
        Ok(json_answer(if made { StatusCode::CREATED } else { StatusCode::OK }, &schedule))
    })
    .await
}

async fn schedules(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    answer(front.executor.schedules(&principal, &agent).await)
}

async fn schedule(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named((agent, name)): Named<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    answer(front.executor.schedule(&principal, &agent, &name).await)
}

async fn remove_schedule(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named((agent, name)): Named<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    own_task(&Arc::clone(&front), async move {
        let gone = noted(front.executor.remove_schedule(&principal, &agent, &name).await)?;
        Ok(json_answer(StatusCode::OK, &gone))
    })
    .await
}

async fn create(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let principal = front.principal(peer, &headers);
    own_task(&Arc::clone(&front), async move {
        let body: NewAgent = decode_as(object(body).await?)?;
        let (made, state) = noted(front.executor.create(&principal, &agent, body).await)?;
        Ok(with_etag(if made { StatusCode::CREATED } else { StatusCode::OK }, &state))
    })
    .await
}

async fn change(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let principal = front.principal(peer, &headers);
    own_task(&Arc::clone(&front), async move {
        let arguments = object(body).await?;
        let decoded = |map| Ok(Call::PatchAgent(decode_as::<PatchAgent>(map)?.checked()?).into());
        let who = principal.clone();
        match call(&front, principal, agent.clone(), &headers, arguments, decoded).await {
            Ok(done) => {
                let mut state = noted(front.executor.state(&who, &agent).await)?;
                state["replayed"] = done["replayed"].clone();
                Ok(with_etag(StatusCode::OK, &state))
            }
            Err(error) => {
                if matches!(error.code, Code::TokenBudgetExceeded | Code::PinLimitExceeded) {
                    front.executor.note_refusal(&who, &agent, &error).await?;
                }
                Err(error)
            }
        }
    })
    .await
}

async fn agents(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    answer(front.executor.agents(&principal).await)
}

async fn state(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    answer(front.executor.state(&principal, &agent).await)
}

async fn context(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    answer(front.executor.context(&principal, &agent).await)
}

async fn messages(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    let read = async {
        let (from_seq, limit) = part_of(query.as_deref(), "from_seq")?;
        front.executor.messages(&principal, &agent, from_seq, limit).await
    };
    answer(read.await)
}

async fn history(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    let read = async {
        let (from_version, limit) = part_of(query.as_deref(), "from_version")?;
        front.executor.history(&principal, &agent, from_version, limit).await
    };
    answer(read.await)
}

async fn trace(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    let read = async {
        let (mut from, mut follow) = (None, Vec::new());
        let (mut depth, mut around, mut limit) = (TRACE_DEPTH.0, TRACE_AROUND.0, TRACE_LIMIT.0);
        // An id has a slash, which many a client sends in percent form.
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "from" => from = Some(value.into_owned()),
                "follow" => {
                    let named = value.split(',').filter(|name| !name.is_empty());
                    follow = named.map(Follow::named).collect::<Result<_>>()?;
                }
                "depth" => depth = number(&name, &value)?,
                "around" => around = number(&name, &value)?,
                "limit" => limit = number(&name, &value)?,
                other => {
                    let known = "unknown: use from, follow, depth, around and limit";
                    return Err(Error::argument(other, known));
                }
            }
        }
        let missing = || Error::argument("from", "is missing: say where the trace begins");
        let from = from.ok_or_else(missing)?;
        let asked = |place| TraceQuery::checked(place, &follow, depth, around, limit);
        front.executor.traced(&principal, &agent, &from, asked).await
    };
    answer(read.await)
}

/// Where a list is to begin, 1 unless told, and how much of it is asked for at most.
pub(super) fn part_of(query: Option<&str>, from: &str) -> Result<(u64, Option<u64>)> {
    let (mut begin, mut limit) = (1, None);
    for (name, value) in pairs(query.unwrap_or_default()) {
        match name {
            "limit" => limit = Some(number(name, value)?),
            name if name == from => begin = number(name, value)?,
            other => return Err(Error::argument(other, format!("unknown: use {from} and limit"))),
        }
    }
    Ok((begin, limit))
}

pub(super) fn number(name: &str, value: &str) -> Result<u64> {
    value.parse().map_err(|_| Error::argument(name, "must be a whole number"))
}

async fn events(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    let read = async {
        let (mut from_ts, mut limit) = ("", None);
        for (name, value) in pairs(query.as_deref().unwrap_or_default()) {
            match name {
                "from_ts" if is_moment(value) => from_ts = value,
                "from_ts" => {
                    return Err(Error::argument(name, "use the `next_ts` of the page before"));
                }
                "limit" => {
                    let number = value.parse::<u64>();
                    limit =
                        Some(number.map_err(|_| Error::argument(name, "must be a whole number"))?);
                }
                other => return Err(Error::argument(other, "unknown: use from_ts and limit")),
            }
        }
        front.executor.events(&principal, &agent, from_ts, limit).await
    };
    answer(read.await)
}

/// A time as events carry it (`2026-01-31T12:00:00.000Z`), or the beginning of one.
fn is_moment(text: &str) -> bool {
    const MOMENT_BYTES_MAX: usize = 24;
    let known = |b: u8| b.is_ascii_digit() || b"-:.TZ".contains(&b);
    text.len() <= MOMENT_BYTES_MAX && text.bytes().all(known)
}

async fn conveyance(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    let read = async {
        let mut span = Span::Session;
        for (name, value) in pairs(query.as_deref().unwrap_or_default()) {
            span = match (name, value) {
                ("of", "session") => Span::Session,
                ("of", "life") => Span::Life,
                ("of", _) => return Err(Error::argument("of", "use session or life")),
                (other, _) => return Err(Error::argument(other, "unknown: use of")),
            };
        }
        front.executor.conveyance(&principal, &agent, span).await
    };
    answer(read.await)
}

async fn reindex_status(State(front): Shared, Extension(peer): Extension<PeerActor>) -> Response {
    let read = async {
        check_operator(peer)?;
        front.executor.reindex_status().await
    };
    answer(read.await)
}

/// What is asked of a change of all vectors.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ReindexCall {
    action: ReindexAction,
    /// How the next vectors are compared; as those of now unless given.
    #[serde(default)]
    metric: Option<Metric>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReindexAction {
    Start,
    Stop,
    Cancel,
    Index,
}

async fn reindex(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    body: Body,
) -> Response {
    own_task(&Arc::clone(&front), async move {
        check_operator(peer)?;
        let asked: ReindexCall = decode_as(object(body).await?)?;
        let told = match asked.action {
            ReindexAction::Start => front.executor.reindex_start(asked.metric).await?,
            ReindexAction::Stop => front.executor.reindex_stop().await?,
            ReindexAction::Cancel => front.executor.reindex_cancel().await?,
            ReindexAction::Index => front.executor.reindex_index().await?,
        };
        Ok(json_answer(StatusCode::OK, &told))
    })
    .await
}

/// The places of this server: where it has several, `fleet` answers before this one does.
async fn places(State(front): Shared, Extension(peer): Extension<PeerActor>) -> Response {
    let told = || {
        check_operator(peer)?;
        let place = json!({"name": front.executor.place(), "home": true, "state": "open"});
        Ok(json!({"places": [place]}))
    };
    answer(told())
}

async fn move_agent(Extension(peer): Extension<PeerActor>, Named(_): Named<String>) -> Response {
    let alone = || {
        check_operator(peer)?;
        let text = "there is one place alone: name further ones in the configuration (docs/how-to/several-databases.md)";
        Err(Error::argument("to", text))
    };
    answer(alone())
}

/// What concerns all agents is for the server's own user and root alone.
pub fn check_operator(peer: PeerActor) -> Result<()> {
    if peer.uid == 0 || own_user().is_some_and(|own| own == peer.uid) {
        return Ok(());
    }
    Err(Error::new(
        Code::Forbidden,
        "this concerns all agents: only the server's own user may do it",
    ))
}

/// The user that this process runs as.
fn own_user() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|own| own.uid())
}

/// `a=b&c=d`; numbers and names need no percent-decoding here.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').filter(|p| !p.is_empty()).map(|p| p.split_once('=').unwrap_or((p, "")))
}

async fn tools(RawQuery(query): RawQuery) -> Response {
    let read = || {
        let (mut dialect, mut format, mut strict) = (Dialect::Vctx, Format::JsonSchema, false);
        for (name, value) in pairs(query.as_deref().unwrap_or_default()) {
            match (name, value) {
                ("dialect", name) => dialect = Dialect::named(name)?,
                ("format", name) => format = Format::named(name)?,
                ("strict", "true") => strict = true,
                ("strict", "false") => strict = false,
                ("strict", _) => return Err(Error::argument(name, "use true or false")),
                (other, _) => {
                    return Err(Error::argument(other, "unknown: use dialect, format and strict"));
                }
            }
        }
        Ok(tool_schemas(dialect, format, strict))
    };
    answer(async { read() }.await)
}

async fn ready(State(front): Shared) -> Response {
    match front.executor.ready().await {
        Ok(mut told) => {
            told["status"] = "ready".into();
            json_answer(StatusCode::OK, &told)
        }
        Err(error) => {
            Error::new(Code::NotReady, error.message.clone()).caused_by(error).into_problem()
        }
    }
}

pub(super) fn answer(outcome: Result<Value>) -> Response {
    match noted(outcome) {
        Ok(body) => with_etag(StatusCode::OK, &body),
        Err(error) => error.into_problem(),
    }
}

/// Logs a fault of ours that no tool call logs.
fn noted<T>(outcome: Result<T>) -> Result<T> {
    outcome.inspect_err(|error| {
        if error.code.status() >= 500 {
            tracing::error!(code = error.code.text(), error = error.chain(), "request failed");
        }
    })
}
