//! The connection to the database: a pool of connections to one socket. The pool reconnects after a
//! restart of the database.
//!
//! Only requests that change no state are sent again.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::HeaderValue;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyperlocal::UnixConnector;

use super::refusal::Broken;
use super::settings::Settings;
use vctx_base::clock;
use vctx_base::endpoint::{Credentials, Endpoint};
use vctx_base::metric;
use vctx_core::limits::{POOL_IDLE_MAX, POOL_IDLE_S};

/// Maximum number of times that a request which changes no state is sent again after its answer was
/// lost.
const PROXY_RESENDS_MAX: u32 = 3;
/// First and maximum pause before the proxy tries to reconnect to the database, in milliseconds.
const PROXY_PAUSE_MS: (u64, u64) = (2, 200);

/// The connection to the database's socket, with the proxy's credentials.
pub struct Upstream {
    client: Client<UnixConnector, Body>,
    authority: Authority,
    authorization: HeaderValue,
    /// The credentials with which the proxy creates and drops indexes.
    definer: HeaderValue,
    /// Whether the database was listening at the last request, so that the proxy logs only changes.
    listens: AtomicBool,
}

/// The body of a request that is being forwarded.
pub(super) enum Onward {
    /// A buffered body, which may be sent as often as the request's rule allows, and which waits
    /// for an unavailable database.
    Held(Bytes),
    /// A streamed body, which is sent once, without waiting for an unavailable database.
    Passing(Body),
}

/// A forwarded request without its body.
pub(super) struct RequestHead<'a> {
    pub(super) method: &'a Method,
    pub(super) target: &'a Uri,
    pub(super) headers: HeaderMap,
    /// Whether the request's rule allows a repetition after a lost answer.
    pub(super) repeats: bool,
}

impl Upstream {
    /// Prepares the connection to a socket, without connecting yet. The user `definer`, if given,
    /// creates and drops indexes. An error says why the credentials cannot be put into a header.
    pub fn new(
        endpoint: &Endpoint,
        who: &Credentials,
        definer: Option<&Credentials>,
    ) -> Result<Self, String> {
        let authority = authority_of(endpoint.path())?;
        let (authorization, definer) = (basic(who)?, basic(definer.unwrap_or(who))?);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(POOL_IDLE_S))
            .pool_max_idle_per_host(POOL_IDLE_MAX)
            .build(UnixConnector);
        let listens = AtomicBool::new(true);
        Ok(Self { client, authority, authorization, definer, listens })
    }

    /// Returns the proxy's credentials for a request; `defines` says whether the request creates or
    /// drops an index.
    pub(super) fn authorization(&self, defines: bool) -> &HeaderValue {
        if defines { &self.definer } else { &self.authorization }
    }

    /// Sends a request. While the database does not listen, repeats the request until a time limit;
    /// after a lost answer, repeats it a few times if the request's rule allows this. A streamed
    /// body is sent only once.
    pub(super) async fn send(
        &self,
        head: &RequestHead<'_>,
        body: Onward,
        settings: &Settings,
    ) -> Result<Response<Incoming>, Broken> {
        let begun = clock::now();
        let bytes = match body {
            Onward::Held(bytes) => bytes,
            Onward::Passing(body) => return self.once(head, body, begun, settings).await,
        };
        let (first, longest) = PROXY_PAUSE_MS;
        let (mut pause, mut resent) = (Duration::from_millis(first), 0);
        let patience = Duration::from_millis(settings.upstream_ms);
        loop {
            let broken = match self.once(head, Body::from(bytes.clone()), begun, settings).await {
                Ok(answer) => return Ok(answer),
                Err(broken) => broken,
            };
            let again = match broken {
                Broken::Unreachable => begun.elapsed() + pause < patience,
                Broken::Lost => head.repeats && resent < PROXY_RESENDS_MAX,
                Broken::Busy | Broken::Late | Broken::BodyCut => false,
            };
            if !again {
                return Err(broken);
            }
            if broken == Broken::Lost {
                resent += 1;
                metrics::counter!(metric::PROXY_RESENT).increment(1);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(longest));
        }
    }

    async fn once(
        &self,
        head: &RequestHead<'_>,
        body: Body,
        begun: Instant,
        settings: &Settings,
    ) -> Result<Response<Incoming>, Broken> {
        let limit = Duration::from_millis(settings.answer_ms).saturating_sub(begun.elapsed());
        let answer = self.client.request(self.request(head, body));
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => {
                self.note(true);
                Ok(answer)
            }
            Ok(Err(error)) if error.is_connect() => {
                self.note(false);
                Err(Broken::Unreachable)
            }
            // Errors of the HTTP library hyper contain no text of the request, so they may be
            // logged.
            Ok(Err(error)) => {
                tracing::debug!(%error, "an answer was lost");
                Err(Broken::Lost)
            }
            Err(_) => Err(Broken::Late),
        }
    }

    fn note(&self, listens: bool) {
        metrics::gauge!(metric::PROXY_UPSTREAM_UP).set(if listens { 1.0 } else { 0.0 });
        match (self.listens.swap(listens, Ordering::Relaxed), listens) {
            (true, false) => tracing::warn!("the database does not answer on its socket"),
            (false, true) => tracing::info!("the database answers again"),
            (true, true) | (false, false) => {}
        }
    }

    fn request(&self, head: &RequestHead<'_>, body: Body) -> Request<Body> {
        let path = head.target.path_and_query().cloned();
        let mut parts = http::uri::Parts::default();
        parts.scheme = Scheme::try_from("unix").ok();
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        let mut request = Request::new(body);
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = Uri::from_parts(parts).expect("all three parts are present");
        *request.headers_mut() = head.headers.clone();
        request
    }
}

/// Returns the `Authorization` header for the given credentials (RFC 7617).
fn basic(who: &Credentials) -> Result<HeaderValue, String> {
    let basic = STANDARD.encode(format!("{}:{}", who.user, who.password));
    let mut header = HeaderValue::try_from(format!("Basic {basic}"))
        .map_err(|_| "the credentials cannot be put into a header".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

/// Returns the path of a socket in the form that the connector parses.
fn authority_of(socket: &Path) -> Result<Authority, String> {
    let uri: Uri = hyperlocal::Uri::new(socket, "/").into();
    uri.authority().cloned().ok_or_else(|| "the socket's path cannot be an address".to_owned())
}
