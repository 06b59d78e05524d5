//! HTTP client for arangors over a Unix socket, with a connection pool, limits, and a deadline for
//! each request; it classifies faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arangors::ClientError;
use arangors::client::ClientExt;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyperlocal::UnixConnector;
use tokio::sync::Semaphore;

use super::db::num_of;
use super::fault::{Fault, GARBAGE, LOST, UNREACHABLE};
use super::trips;
use crate::limits::{STORE_ANSWER_BYTES_MAX, STORE_ANSWER_MS_MAX, STORE_IN_FLIGHT_MAX};
use vctx_base::metric;
use vctx_core::limits::{POOL_IDLE_MAX, POOL_IDLE_S};

/// The HTTP client. Clones share the connection pool but have their own headers, since a
/// transaction adds a header.
#[derive(Clone)]
pub(super) struct UdsClient {
    headers: HeaderMap,
    shared: Arc<Shared>,
}

struct Shared {
    client: Client<UnixConnector, Full<Bytes>>,
    in_flight: Semaphore,
    /// Whether the database has refused a write for a reason that affects all writes, and has
    /// accepted none since.
    refused: AtomicBool,
}

impl UdsClient {
    /// Sends a request for which arangors has no method; the metrics count such requests
    /// separately.
    pub(super) async fn raw(
        &self,
        request: Request<String>,
    ) -> Result<Response<String>, ClientError> {
        self.send(request, "raw").await
    }

    /// Sends a query whose answer the caller parses; the metrics count such queries separately.
    pub(super) async fn query(
        &self,
        request: Request<String>,
    ) -> Result<Response<String>, ClientError> {
        self.send(request, "query").await
    }

    async fn send(
        &self,
        request: Request<String>,
        path: &'static str,
    ) -> Result<Response<String>, ClientError> {
        metrics::counter!(metric::STORE_REQUESTS, "path" => path).increment(1);
        let _permit = self.shared.in_flight.acquire().await.map_err(|e| fault(UNREACHABLE, &e))?;
        let limit = Duration::from_millis(STORE_ANSWER_MS_MAX);
        trips::count_request();
        let answer = match tokio::time::timeout(limit, self.exchange(request)).await {
            Ok(answer) => answer,
            Err(late) => Err(fault(LOST, &late)),
        };
        trips::ended(&answer);
        if answer.as_ref().is_ok_and(refuses_writes) {
            self.shared.refused.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// Returns whether the database has refused a write for a reason that affects all writes, and
    /// has accepted none since.
    pub(super) fn was_refused(&self) -> bool {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Records that the database has accepted a write.
    pub(super) fn is_accepted(&self) {
        self.shared.refused.store(false, Ordering::Relaxed);
    }

    async fn exchange(&self, request: Request<String>) -> Result<Response<String>, ClientError> {
        let (mut head, body) = request.into_parts();
        for (name, value) in &self.headers {
            if !head.headers.contains_key(name) {
                head.headers.insert(name, value.clone());
            }
        }
        head.headers.insert(HOST, HeaderValue::from_static("localhost"));
        if !body.is_empty() {
            head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let request = Request::from_parts(head, Full::new(Bytes::from(body)));
        let response = self.shared.client.request(request).await.map_err(|e| {
            let kind = if e.is_connect() { UNREACHABLE } else { LOST };
            fault(kind, &e)
        })?;
        let (head, body) = response.into_parts();
        let bytes = Limited::new(body, STORE_ANSWER_BYTES_MAX)
            .collect()
            .await
            .map_err(|e| ClientError::HttpClient(format!("{LOST}{e}")))?
            .to_bytes();
        let text = String::from_utf8(bytes.to_vec()).map_err(|e| fault(GARBAGE, &e))?;
        Ok(Response::from_parts(head, text))
    }
}

/// Returns whether an answer means that the database accepts no writes.
fn refuses_writes(answer: &Response<String>) -> bool {
    let status = answer.status().as_u16();
    matches!(status, 403 | 500)
        && serde_json::from_str(answer.body())
            .is_ok_and(|body| Fault::answered(status, num_of(&body), "").refuses_writes())
}

fn fault(kind: &str, error: &dyn std::error::Error) -> ClientError {
    let mut text = format!("{kind}{error}");
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    ClientError::HttpClient(text)
}

#[async_trait::async_trait]
impl ClientExt for UdsClient {
    fn new<U: Into<Option<HeaderMap>>>(headers: U) -> Result<Self, ClientError> {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(POOL_IDLE_S))
            .pool_max_idle_per_host(POOL_IDLE_MAX)
            .build(UnixConnector);
        let shared = Shared {
            client,
            in_flight: Semaphore::new(STORE_IN_FLIGHT_MAX),
            refused: AtomicBool::new(false),
        };
        Ok(Self { headers: headers.into().unwrap_or_default(), shared: Arc::new(shared) })
    }

    fn headers(&mut self) -> &mut HeaderMap {
        &mut self.headers
    }

    async fn request(&self, request: Request<String>) -> Result<Response<String>, ClientError> {
        self.send(request, "typed").await
    }
}
