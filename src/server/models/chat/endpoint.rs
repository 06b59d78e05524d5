//! Asks a chat model at a model's server, in the form of the server's API.
//!
//! An answer comes in one body or as a stream, within byte and time limits. A failed request is
//! repeated as long as no part of an answer has arrived.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::timeout_at;

use super::super::wire::{Way, Wire, WireFault, advice};
use super::assemble::{Assembly, NO_QUOTA, fault_class, is_overflow, overflow, rubbish};
use super::fault::{ChatClass, ChatFault};
use super::model::{ChatModel, ChatRequest, Completion, Delta, Finish};
use vctx_base::clock;
use vctx_base::sse::Events;
use vctx_core::memory::model_api::ModelApi;

/// Maximum length of a chat model's answer, including the frames of its stream, in bytes.
const CHAT_ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum number of attempts for one request to a chat model; after the first part of an answer,
/// there are no more attempts.
const CHAT_ATTEMPTS_MAX: u32 = 4;
/// Base of the pause before an attempt is repeated, in milliseconds. The first pause is about twice
/// this value, and each further pause doubles; a pause given by `Retry-After` replaces it.
const CHAT_PAUSE_MS: u64 = 50;
/// Longest pause, in milliseconds, that this server makes at the request of a model server. If a
/// model server requests a longer pause, this server reports it to the caller instead of waiting.
const CHAT_WAIT_MS_MAX: u64 = 20_000;

/// Fault of a web page in place of an answer, as login pages and wrong paths give it.
const WEB_PAGE: &str = "the model's server answered with a web page: check url";

/// A chat model at an endpoint.
pub(super) struct EndpointChat {
    wire: Wire,
    api: ModelApi,
    path: String,
    model: String,
    /// Time limit for one answer, including all attempts.
    limit: Duration,
    stream: bool,
}

type Deltas<'a> = &'a mut (dyn FnMut(Delta) -> ControlFlow<()> + Send);

impl EndpointChat {
    /// Makes a client for a model's server, which is asked in the form of `api` at the path and
    /// query `path`. Each answer may take at most `limit`. An error begins with the setting that is
    /// wrong.
    pub(super) fn new(
        way: &Way,
        api: ModelApi,
        path: String,
        model: String,
        limit: Duration,
        stream: bool,
    ) -> Result<Self, String> {
        Ok(Self { wire: Wire::new(way, api)?, api, path, model, limit, stream })
    }

    async fn attempt(
        &self,
        bytes: Bytes,
        until: Instant,
        deltas: Deltas<'_>,
    ) -> Result<Completion, ChatFault> {
        let opened = timeout_at(until.into(), self.wire.open(&self.path, bytes)).await;
        let opened = opened.map_err(|late| self.late().caused_by(late))?;
        let (head, body) = opened.map_err(unreachable)?.into_parts();
        if !head.status.is_success() {
            return Err(self.refused(head.status, &head.headers, body, until).await);
        }
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if kind.is_some_and(|kind| kind.starts_with("text/html")) {
            return Err(ChatFault::new(ChatClass::Refused, WEB_PAGE));
        }
        if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            self.streamed(body, until, deltas).await
        } else {
            self.whole(body, until, deltas).await
        }
    }

    /// Reads an answer that comes in one body.
    async fn whole(
        &self,
        body: Incoming,
        until: Instant,
        deltas: Deltas<'_>,
    ) -> Result<Completion, ChatFault> {
        let bytes = self.collected(body, until).await?;
        let mut assembly = Assembly::new(self.api);
        assembly.whole(&bytes)?;
        let text = assembly.content().to_owned();
        if !text.is_empty() && deltas(Delta::Text(text)).is_break() {
            let mut cut = assembly.close(Finish::Length);
            cut.finish = Finish::Length;
            return Ok(cut);
        }
        Ok(assembly.close(Finish::Stop))
    }

    /// Reads a streamed answer. If the stream fails, the error contains the text that was received
    /// before the failure.
    async fn streamed(
        &self,
        body: Incoming,
        until: Instant,
        deltas: Deltas<'_>,
    ) -> Result<Completion, ChatFault> {
        let mut assembly = Assembly::new(self.api);
        match self.pieces(body, until, &mut assembly, deltas).await {
            Ok(ControlFlow::Continue(())) => Ok(assembly.close(Finish::Stop)),
            Ok(ControlFlow::Break(())) => {
                let mut cut = assembly.close(Finish::Length);
                // The calls of a truncated answer are dropped, since an incomplete call cannot be
                // executed.
                cut.finish = Finish::Length;
                cut.tool_calls.clear();
                Ok(cut)
            }
            Err(fault) => Err(ChatFault { partial: assembly.content().to_owned(), ..fault }),
        }
    }

    async fn pieces(
        &self,
        mut body: Incoming,
        until: Instant,
        assembly: &mut Assembly,
        deltas: Deltas<'_>,
    ) -> Result<ControlFlow<()>, ChatFault> {
        let (mut events, mut length) = (Events::default(), 0);
        loop {
            let frame = timeout_at(until.into(), body.frame()).await;
            let frame = frame.map_err(|late| self.late().caused_by(late))?;
            let (found, ended) = match frame {
                Some(frame) => {
                    let frame = frame.map_err(|e| cut().caused_by(e))?;
                    let Ok(bytes) = frame.into_data() else { continue };
                    length += bytes.len();
                    if length > CHAT_ANSWER_BYTES_MAX {
                        return Ok(ControlFlow::Break(()));
                    }
                    (events.push(&bytes), false)
                }
                None => (events.end().into_iter().collect(), true),
            };
            for data in found {
                let text = assembly.piece(&data)?;
                if assembly.is_over {
                    return finished(assembly);
                }
                if !text.is_empty() && deltas(Delta::Text(text)).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if ended {
                return if assembly.finish.is_some() { finished(assembly) } else { Err(cut()) };
            }
        }
    }

    async fn collected(&self, mut body: Incoming, until: Instant) -> Result<Vec<u8>, ChatFault> {
        let mut bytes = Vec::new();
        loop {
            let frame = timeout_at(until.into(), body.frame()).await;
            let frame = frame.map_err(|late| self.late().caused_by(late))?;
            let Some(frame) = frame else { return Ok(bytes) };
            let Ok(data) = frame.map_err(|e| cut().caused_by(e))?.into_data() else { continue };
            if bytes.len() + data.len() > CHAT_ANSWER_BYTES_MAX {
                let text =
                    format!("the model's answer has more than {CHAT_ANSWER_BYTES_MAX} bytes");
                return Err(ChatFault::new(ChatClass::Refused, text));
            }
            bytes.extend_from_slice(&data);
        }
    }

    /// Returns the fault for a refused request, classified by the response's status and body.
    async fn refused(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: Incoming,
        until: Instant,
    ) -> ChatFault {
        let said = self.collected(body, until).await.unwrap_or_default();
        let said: Value = serde_json::from_slice(&said).unwrap_or(Value::Null);
        let error = said.get("error").unwrap_or(&said);
        let class = match status {
            StatusCode::TOO_MANY_REQUESTS if error["code"] == NO_QUOTA => {
                return fault_class(error);
            }
            StatusCode::TOO_MANY_REQUESTS => ChatClass::RateLimited,
            StatusCode::PAYLOAD_TOO_LARGE => return overflow(),
            _ if status.is_client_error() && is_overflow(error) => return overflow(),
            StatusCode::REQUEST_TIMEOUT => ChatClass::Unavailable,
            _ if status.is_server_error() => ChatClass::Unavailable,
            _ => ChatClass::Refused,
        };
        let text = format!("the model's server answered {status}{}", advice(status));
        let mut fault = ChatFault::new(class, text);
        fault.retry_after_ms = retry_after_ms(headers, Timestamp::now());
        fault
    }

    fn late(&self) -> ChatFault {
        let ms = self.limit.as_millis();
        ChatFault::new(ChatClass::Late, format!("the model did not answer within {ms} ms"))
    }
}

fn finished(assembly: &Assembly) -> Result<ControlFlow<()>, ChatFault> {
    if assembly.is_begun { Ok(ControlFlow::Continue(())) } else { Err(rubbish()) }
}

fn cut() -> ChatFault {
    ChatFault::new(ChatClass::Cut, "the model's answer was cut off")
}

fn unreachable(fault: WireFault) -> ChatFault {
    let class = if fault.passing() { ChatClass::Unavailable } else { ChatClass::Refused };
    ChatFault::new(class, fault.to_string()).caused_by(fault)
}

/// Returns the pause that `Retry-After` (RFC 9110 §10.2.3) gives, in seconds or as a date, or that
/// OpenAI's `retry-after-ms` gives in milliseconds.
fn retry_after_ms(headers: &HeaderMap, now: Timestamp) -> Option<u64> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim());
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    let until = || {
        let date = jiff::fmt::rfc2822::parse(text("retry-after")?).ok()?;
        Some(date.timestamp().duration_since(now).as_millis_f64())
    };
    let ms = number("retry-after-ms").or_else(|| number("retry-after").map(|s| s * 1000.0));
    let ms = ms.or_else(until)?;
    (ms.is_finite() && ms >= 0.0).then_some(ms.min(1e12) as u64)
}

#[async_trait]
impl ChatModel for EndpointChat {
    fn model(&self) -> &str {
        &self.model
    }

    fn api(&self) -> ModelApi {
        self.api
    }

    fn options(&self) -> Map<String, Value> {
        let mut options = Map::new();
        options.insert("stream".into(), self.stream.into());
        if self.stream {
            options.insert("stream_options".into(), json!({"include_usage": true}));
        }
        options
    }

    async fn complete(
        &self,
        request: &ChatRequest,
        deltas: Deltas<'_>,
    ) -> Result<Completion, ChatFault> {
        let until = clock::now() + self.limit;
        let bytes = Bytes::from(request.body.clone());
        let mut attempt = 1;
        loop {
            let fault = match self.attempt(bytes.clone(), until, deltas).await {
                Ok(completion) => return Ok(completion),
                Err(fault) => fault,
            };
            let wait = fault.retry_after_ms.unwrap_or(CHAT_PAUSE_MS << attempt);
            let pause = Duration::from_millis(wait);
            let hopeless = attempt >= CHAT_ATTEMPTS_MAX
                || !fault.passing()
                || wait > CHAT_WAIT_MS_MAX
                || clock::now() + pause > until;
            if hopeless || deltas(Delta::Waiting { ms: wait, why: fault.class.text() }).is_break() {
                return Err(fault);
            }
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }
}
