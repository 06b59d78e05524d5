//! The way to the database: pooled connections to one socket, made again when it comes back; only what changes nothing is sent twice.

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
use vctx_core::limits::{POOL_IDLE_MAX, POOL_IDLE_S, PROXY_PAUSE_MS, PROXY_RESENDS_MAX};

/// The database's socket, and who the proxy is there.
pub struct Upstream {
    client: Client<UnixConnector, Body>,
    authority: Authority,
    authorization: HeaderValue,
    /// The same for making and dropping indexes.
    definer: HeaderValue,
    /// Whether the last request that asked found it listening; changes are told of in the log.
    listens: AtomicBool,
}

/// The body of a request on its way.
pub(super) enum Onward {
    /// Here whole: may be sent as often as its rule says, and waits for a database that is away.
    Held(Bytes),
    /// Passes as it comes: sent once, now or never.
    Passing(Body),
}

/// A request on its way, but for its body.
pub(super) struct Sent<'a> {
    pub(super) method: &'a Method,
    pub(super) target: &'a Uri,
    pub(super) headers: HeaderMap,
    /// Whether its rule says that it may be sent again after its answer was lost.
    pub(super) repeats: bool,
}

impl Upstream {
    /// The way to a socket; nothing is sent yet. `definer` makes and drops indexes, if that is another. The error says why the credentials
    /// make no header.
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

    /// The proxy's own credentials for a request that makes or drops an index, or any other.
    pub(super) fn authorization(&self, defines: bool) -> &HeaderValue {
        if defines { &self.definer } else { &self.authorization }
    }

    /// Sends a request until it is answered, or until it is known that it will not be.
    pub(super) async fn send(
        &self,
        sent: &Sent<'_>,
        body: Onward,
        settings: &Settings,
    ) -> Result<Response<Incoming>, Broken> {
        let begun = clock::now();
        let bytes = match body {
            Onward::Held(bytes) => bytes,
            Onward::Passing(body) => return self.once(sent, body, begun, settings).await,
        };
        let (first, longest) = PROXY_PAUSE_MS;
        let (mut pause, mut resent) = (Duration::from_millis(first), 0);
        let patience = Duration::from_millis(settings.upstream_ms);
        loop {
            let broken = match self.once(sent, Body::from(bytes.clone()), begun, settings).await {
                Ok(answer) => return Ok(answer),
                Err(broken) => broken,
            };
            let again = match broken {
                Broken::Unreachable => begun.elapsed() + pause < patience,
                Broken::Lost => sent.repeats && resent < PROXY_RESENDS_MAX,
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
        sent: &Sent<'_>,
        body: Body,
        begun: Instant,
        settings: &Settings,
    ) -> Result<Response<Incoming>, Broken> {
        let limit = Duration::from_millis(settings.answer_ms).saturating_sub(begun.elapsed());
        let answer = self.client.request(self.request(sent, body));
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => {
                self.note(true);
                Ok(answer)
            }
            Ok(Err(error)) if error.is_connect() => {
                self.note(false);
                Err(Broken::Unreachable)
            }
            // hyper names no request in its errors, so nothing of one comes into the log.
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

    fn request(&self, sent: &Sent<'_>, body: Body) -> Request<Body> {
        let path = sent.target.path_and_query().cloned();
        let mut parts = http::uri::Parts::default();
        parts.scheme = Scheme::try_from("unix").ok();
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        let mut request = Request::new(body);
        *request.method_mut() = sent.method.clone();
        *request.uri_mut() = Uri::from_parts(parts).expect("all three parts are there");
        *request.headers_mut() = sent.headers.clone();
        request
    }
}

/// The header `Authorization` of somebody (RFC 7617).
fn basic(who: &Credentials) -> Result<HeaderValue, String> {
    let basic = STANDARD.encode(format!("{}:{}", who.user, who.password));
    let mut header = HeaderValue::try_from(format!("Basic {basic}"))
        .map_err(|_| "the credentials make no header".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

/// The path of a socket in the form in which the connector reads it.
fn authority_of(socket: &Path) -> Result<Authority, String> {
    let uri: Uri = hyperlocal::Uri::new(socket, "/").into();
    uri.authority().cloned().ok_or_else(|| "the socket's path makes no address".to_owned())
}
