//! Handles one request: checks the request, waits for a permit, sends the request to the database,
//! and streams the answer.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONNECTION, HeaderName};
use http::request::Parts;
use http::{HeaderMap, Version};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::aql::{ReadOnlyTexts, WritingTexts};
use super::head::Head;
use super::query_body;
use super::refusal::{Broken, Reason, Refusal};
use super::rules::{CURSOR_PATH, Carries, Mode, Rule, rule_for};
use super::settings::Settings;
use super::target::Target;
use super::upstream::{Onward, RequestHead, Upstream};
use vctx_base::clock;
use vctx_base::metric;
use vctx_base::responder::Responder;
use vctx_base::socket::{Bounds, PeerActor};
use vctx_core::limits::{ANSWER_STALL_MS, DRAIN_MS_MAX};

/// Maximum number of connections of one proxy.
const PROXY_CONNECTIONS_MAX: usize = 1_024;
/// Maximum idle time of a connection, including the wait for a request's head, in milliseconds. It
/// is longer than [`POOL_IDLE_S`], because the proxy must not close a connection that a vctx server
/// is about to use.
const PROXY_HEAD_MS_MAX: u64 = 60_000;
/// Maximum size of a request head, in bytes.
const PROXY_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Maximum size in bytes of a body that the proxy forwards without a check; arangod accepts 1 GiB,
/// the engine 128 MiB.
const PROXY_BODY_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Maximum size in bytes of a body that the proxy buffers. A buffered body can be sent again and
/// can wait for the database; a longer body is streamed.
const PROXY_HELD_BYTES_MAX: usize = 1024 * 1024;
/// Maximum total size of all bodies longer than [`PROXY_HELD_BYTES_MAX`] that the proxy buffers at
/// one time because it must check them, in KiB.
const PROXY_LONG_BODIES_KIB_MAX: u32 = 512 * 1024;
/// Maximum time in milliseconds until a buffered body is complete, and until each further piece of
/// a streamed body arrives.
const PROXY_BODY_MS_MAX: u64 = 15_000;
/// Maximum size of an answer, in bytes.
const PROXY_ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Maximum time until each further piece of an answer arrives, in milliseconds.
const PROXY_ANSWER_PIECE_MS_MAX: u64 = 60_000;
/// Maximum time in milliseconds that the proxy waits for a vctx server that reads no byte of an
/// answer.
const PROXY_ANSWER_STALL_MS: u64 = ANSWER_STALL_MS;
/// Time that a stopping proxy gives running requests to end, in milliseconds; a stopping vctx
/// server gives running calls the same time.
const PROXY_DRAIN_MS_MAX: u64 = DRAIN_MS_MAX;

/// A proxy: mode, connection to the database, and queue of waiting requests.
struct Proxy {
    mode: Mode,
    settings: Settings,
    /// Names of the databases whose requests the proxy forwards.
    databases: Vec<String>,
    upstream: Upstream,
    read_only_texts: ReadOnlyTexts,
    writing_texts: WritingTexts,
    places: Arc<Semaphore>,
    /// Permits for the long bodies in memory, one for each KiB.
    long_bodies: Semaphore,
    waiting: AtomicUsize,
    /// Kinds of refusals that the proxy has already logged.
    told: Mutex<BTreeSet<&'static str>>,
}

/// Returns the limits of a proxy's listener.
pub fn bounds() -> Bounds {
    Bounds {
        connections: PROXY_CONNECTIONS_MAX,
        // All clients of a proxy are usually processes of one user.
        connections_per_user: PROXY_CONNECTIONS_MAX,
        head_ms: PROXY_HEAD_MS_MAX,
        head_bytes: Some(PROXY_HEAD_BYTES_MAX),
        stall_ms: PROXY_ANSWER_STALL_MS,
        drain_ms: PROXY_DRAIN_MS_MAX,
        gauge: metric::PROXY_CONNECTIONS,
    }
}

/// The handle of a proxy that answers every request to the proxy's listener.
#[derive(Clone)]
pub struct ProxyHandle(Arc<Proxy>);

impl ProxyHandle {
    /// Creates a proxy that forwards requests to the named databases of one database server.
    pub fn new(mode: Mode, settings: Settings, databases: Vec<String>, upstream: Upstream) -> Self {
        for reason in Reason::ALL {
            metrics::counter!(metric::PROXY_REFUSED, "reason" => reason.text()).increment(0);
        }
        Self(Arc::new(Proxy {
            mode,
            settings,
            databases,
            upstream,
            read_only_texts: ReadOnlyTexts::default(),
            writing_texts: WritingTexts::default(),
            places: Arc::new(Semaphore::new(settings.in_flight_max)),
            long_bodies: Semaphore::new(PROXY_LONG_BODIES_KIB_MAX as usize),
            waiting: AtomicUsize::new(0),
            told: Mutex::default(),
        }))
    }
}

impl Responder for ProxyHandle {
    async fn respond(&self, request: Request) -> Response {
        self.0.answer(request).await
    }
}

/// An accepted request: the rule that allows it, and the data from its headers.
struct Judged {
    rule: &'static Rule,
    head: Head,
}

/// The reason why a request gets no answer from the database.
enum End {
    Refused(Refusal),
    Broken(Broken),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Broken> for End {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl Proxy {
    async fn answer(&self, request: Request) -> Response {
        let begun = clock::now();
        let (head, body) = request.into_parts();
        let (outcome, response) = match self.pass(&head, body, begun).await {
            Ok(response) => ("passed", response),
            Err(End::Refused(refusal)) => {
                self.note(&head, &refusal);
                ("refused", refusal.into_response(self.mode, &head.method))
            }
            Err(End::Broken(broken)) => (broken.text(), broken.into_response()),
        };
        metrics::counter!(metric::PROXY_REQUESTS, "outcome" => outcome).increment(1);
        response
    }

    async fn pass(
        &self,
        head: &Parts,
        body: Body,
        begun: std::time::Instant,
    ) -> Result<Response, End> {
        let judged = self.judge(head)?;
        let place = InFlight::begin(self.permit().await?);
        let _long = self.long_body(&judged).await?;
        let body = self.body(&judged, body).await?;
        let request = RequestHead {
            method: &head.method,
            target: &head.uri,
            headers: judged.head.onward(self.upstream.authorization(judged.rule.defines())),
            repeats: self.repeats(judged.rule),
        };
        let asked = clock::now();
        let answer = self.upstream.send(&request, body, &self.settings).await?;
        let worked = asked.elapsed();
        let response = passed_on(answer, place);
        let total = begun.elapsed();
        metrics::histogram!(metric::PROXY_SECONDS).record(total.as_secs_f64());
        metrics::histogram!(metric::PROXY_ADDED_SECONDS)
            .record(total.saturating_sub(worked).as_secs_f64());
        Ok(response)
    }

    /// Checks all parts of a request except the body.
    fn judge(&self, head: &Parts) -> Result<Judged, Refusal> {
        if head.version != Version::HTTP_11 {
            return Err(Refusal::of(Reason::Header, "not HTTP/1.1"));
        }
        let target = Target::read(&head.uri)?;
        let read = Head::read(self.mode, &head.headers)?;
        let rule = rule_for(self.mode, &self.databases, &head.method, &target)?;
        let bytes_max = match rule.carries {
            Carries::Nothing if read.body_bytes > 0 => {
                return Err(Refusal::of(Reason::Body, "this request must not have a body"));
            }
            Carries::Query if self.mode == Mode::Ro => self.settings.query_bytes_max,
            Carries::Collections => PROXY_HELD_BYTES_MAX,
            Carries::Nothing | Carries::Query | Carries::Json => PROXY_BODY_BYTES_MAX,
        };
        if read.body_bytes > bytes_max as u64 {
            return Err(Refusal::too_long(bytes_max));
        }
        Ok(Judged { rule, head: read })
    }

    /// Whether the proxy may repeat a request whose answer was lost. A query may be repeated only
    /// in mode `ro`, where every query is known to only read.
    fn repeats(&self, rule: &Rule) -> bool {
        rule.repeats && (self.mode == Mode::Ro || rule.carries == Carries::Nothing)
    }

    /// Waits for a permit to send a request to the database. The number of waiting requests and
    /// their waiting time are limited.
    async fn permit(&self) -> Result<OwnedSemaphorePermit, Broken> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        let waits = Waits::begin(&self.waiting, self.settings.waiting_max).ok_or(Broken::Busy)?;
        let limit = Duration::from_millis(self.settings.wait_ms);
        let place = timeout(limit, Arc::clone(&self.places).acquire_owned()).await;
        drop(waits);
        // The semaphore is never closed, so a missing permit means that the waiting time is over.
        // The caller then gets the same error as for a full queue.
        place.ok().and_then(Result::ok).ok_or(Broken::Busy)
    }

    /// Waits for room in memory for a long body that must be checked, with the same time limit as
    /// for a permit. Returns nothing for any other body.
    async fn long_body(&self, judged: &Judged) -> Result<Option<SemaphorePermit<'_>>, Broken> {
        let bytes = judged.head.body_bytes;
        if judged.rule.carries != Carries::Query || bytes <= PROXY_HELD_BYTES_MAX as u64 {
            return Ok(None);
        }
        let kib = u32::try_from(bytes.div_ceil(1_024)).unwrap_or(u32::MAX);
        let limit = Duration::from_millis(self.settings.wait_ms);
        let room = timeout(limit, self.long_bodies.acquire_many(kib)).await;
        room.ok().and_then(Result::ok).map(Some).ok_or(Broken::Busy)
    }

    /// Reads a request body into memory if it must be checked or is short enough to be buffered;
    /// any other body is streamed.
    async fn body(&self, judged: &Judged, body: Body) -> Result<Onward, End> {
        let carries = judged.rule.carries;
        let is_long = judged.head.body_bytes > PROXY_HELD_BYTES_MAX as u64;
        if is_long && (self.mode == Mode::Rw || carries != Carries::Query) {
            let piece = Duration::from_millis(PROXY_BODY_MS_MAX);
            let passing = Passing::new(body, PROXY_BODY_BYTES_MAX as u64, piece, ());
            let passing = Body::new(passing);
            if carries != Carries::Query {
                return Ok(Onward::Passing(passing));
            }
            let bytes = passing.collect().await.map_err(|_| Broken::BodyCut)?.to_bytes();
            query_body::check_written(&bytes, &self.writing_texts)?;
            return Ok(Onward::Held(bytes));
        }
        let bytes_max = match (self.mode, carries) {
            (Mode::Ro, Carries::Query) => self.settings.query_bytes_max,
            _ => PROXY_HELD_BYTES_MAX,
        };
        let limit = Duration::from_millis(PROXY_BODY_MS_MAX);
        let bytes = match timeout(limit, Limited::new(body, bytes_max).collect()).await {
            Ok(Ok(collected)) => collected.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(Refusal::too_long(bytes_max).into());
            }
            Ok(Err(_)) | Err(_) => return Err(Broken::BodyCut.into()),
        };
        match (self.mode, carries) {
            (Mode::Ro, Carries::Query) => {
                query_body::check(&bytes, &self.read_only_texts)?;
                if judged.rule.path == CURSOR_PATH {
                    return Ok(Onward::Held(query_body::limited(&bytes, &self.settings)?));
                }
            }
            (Mode::Rw, Carries::Query) => {
                query_body::check_written(&bytes, &self.writing_texts)?;
            }
            (_, Carries::Collections) => query_body::check_collections(&bytes)?,
            (_, Carries::Nothing | Carries::Json) => {}
        }
        Ok(Onward::Held(bytes))
    }

    /// Counts a refusal, and logs the first one of each kind, without any text of the request.
    fn note(&self, head: &Parts, refusal: &Refusal) {
        let reason = refusal.reason.text();
        metrics::counter!(metric::PROXY_REFUSED, "reason" => reason).increment(1);
        if self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(reason) {
            let uid = head.extensions.get::<PeerActor>().map(|peer| peer.uid);
            tracing::info!(
                mode = self.mode.text(),
                reason,
                uid,
                "refused a request; further requests of this class are only counted"
            );
        }
    }
}

/// A waiting request, counted until this value is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn begin(count: &'a AtomicUsize, most: usize) -> Option<Self> {
        let waiting = Self(count);
        metrics::gauge!(metric::PROXY_WAITING).increment(1.0);
        // If the limit is exceeded, `waiting` is dropped, which subtracts this request from the
        // count.
        (count.fetch_add(1, Ordering::Relaxed) < most).then_some(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        metrics::gauge!(metric::PROXY_WAITING).decrement(1.0);
    }
}

/// The permit of a running request. A request counts as running until the last piece of its answer
/// is sent.
struct InFlight {
    _place: OwnedSemaphorePermit,
}

impl InFlight {
    fn begin(place: OwnedSemaphorePermit) -> Self {
        metrics::gauge!(metric::PROXY_IN_FLIGHT).increment(1.0);
        Self { _place: place }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        metrics::gauge!(metric::PROXY_IN_FLIGHT).decrement(1.0);
    }
}

/// Names of headers that belong to a connection and not to an answer, so they are not forwarded.
const NOT_PASSED: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "set-cookie",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Converts an answer of the database to an answer for the client; the body is streamed.
fn passed_on(answer: http::Response<hyper::body::Incoming>, place: InFlight) -> Response {
    let (mut head, body) = answer.into_parts();
    let named: Vec<HeaderName> = named_by_connection(&head.headers);
    for name in named.iter().map(HeaderName::as_str).chain(NOT_PASSED) {
        head.headers.remove(name);
    }
    let piece = Duration::from_millis(PROXY_ANSWER_PIECE_MS_MAX);
    let passing = Passing::new(Body::new(body), PROXY_ANSWER_BYTES_MAX, piece, place);
    Response::from_parts(head, Body::new(passing))
}

/// Returns the names of the headers that the header `Connection` lists; such headers belong to one
/// connection and are not forwarded.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|text| text.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

/// A streamed body with limits on its size and on the wait for each piece. The values that this
/// body keeps, such as a permit, are dropped when the body ends.
struct Passing<K> {
    body: Body,
    left: u64,
    piece: Duration,
    late: Pin<Box<Sleep>>,
    _kept: K,
}

impl<K> Passing<K> {
    fn new(body: Body, bytes_max: u64, piece: Duration, kept: K) -> Self {
        Self { body, left: bytes_max, piece, late: Box::pin(sleep(piece)), _kept: kept }
    }
}

impl<K: Unpin> hyper::body::Body for Passing<K> {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                let Some(left) = self.left.checked_sub(bytes) else {
                    return Poll::Ready(Some(Err("a body longer than the limit".into())));
                };
                self.left = left;
                let next = Instant::now() + self.piece;
                self.late.as_mut().reset(next);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => match self.late.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(Some(Err("a piece of a body came too late".into()))),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
