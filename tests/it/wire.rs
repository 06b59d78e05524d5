//! A raw HTTP client over a Unix socket: it sends any method, header and body, uses one connection,
//! and does not retry.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Maximum time until an answer arrives; it is longer than the server's own limit for a call.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The error of a request without an answer; the text says why there is no answer.
#[derive(Debug)]
pub(crate) struct Lost(pub(crate) String);

/// An answer with any status.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// The body as JSON; null if it is not JSON.
    pub(crate) body: Value,
}

impl Answer {
    /// Returns the error code, or an empty text.
    pub(crate) fn code(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }

    /// Returns the body of a successful answer; any other answer fails the test.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "status {}: {}", self.status, self.text);
        self.body
    }

    /// Checks that the answer is the given refusal, in the format of problem details and with
    /// advice; returns the body.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.code()), (status, code), "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.body["status"], status);
        for name in ["type", "title", "detail", "system_message"] {
            assert!(
                self.body[name].as_str().is_some_and(|t| !t.is_empty()),
                "{name}: {}",
                self.text
            );
        }
        self.body
    }
}

/// A connection that opens when first needed and reopens after a failure.
pub(crate) struct Wire {
    socket: PathBuf,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl Wire {
    pub(crate) fn new(socket: &Path) -> Wire {
        Wire { socket: socket.to_owned(), sender: Mutex::default() }
    }

    /// Returns a client for another connection to the same socket.
    pub(crate) fn again(&self) -> Wire {
        Wire::new(&self.socket)
    }

    /// Sends a request once.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, Lost> {
        let mut slot = self.sender.lock().await;
        let exchange = async {
            let mut sender = match slot.take().filter(|sender| !sender.is_closed()) {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            let lost = |e: hyper::Error| Lost(e.to_string());
            sender.ready().await.map_err(lost)?;
            let (head, body) = sender.send_request(request).await.map_err(lost)?.into_parts();
            let bytes = body.collect().await.map_err(lost)?.to_bytes();
            // If the server announces that it will close the connection, the client drops the
            // connection, because the next request could arrive after the close.
            *slot = Some(sender)
                .filter(|_| head.headers.get("connection").is_none_or(|v| v != "close"));
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let body = serde_json::from_str(&text).unwrap_or(Value::Null);
            Ok(Answer { status: head.status.as_u16(), headers: head.headers, text, body })
        };
        match timeout(ANSWER_MAX, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(Lost(format!("no answer within {ANSWER_MAX:?}"))),
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Lost> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|e| Lost(e.to_string()))?;
        let (sender, driver) =
            handshake(TokioIo::new(stream)).await.map_err(|e| Lost(e.to_string()))?;
        tokio::spawn(async move { drop(driver.await) });
        Ok(sender)
    }

    /// Builds a request from its parts and sends it once.
    pub(crate) async fn try_call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, Lost> {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = Request::builder().method(method).uri(path).header("host", "vctx");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Full::new(body.into())).expect("a request")).await
    }

    /// Sends a request that must be answered, with any status.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        self.try_call(method, path, headers, body)
            .await
            .unwrap_or_else(|lost| panic!("{method} {path}: {}", lost.0))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, &[], "").await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.call("PUT", path, &[], body.to_string()).await
    }

    pub(crate) async fn is_ready(&self) -> bool {
        self.try_call("GET", "/readyz", &[], "").await.is_ok_and(|answer| answer.status == 200)
    }
}
