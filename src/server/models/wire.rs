//! JSON to a model's server and back: over a Unix socket, or over TCP to one configured address; bounded in bytes, never a listener.

use std::net::SocketAddr;
use std::path::PathBuf;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::TokioExecutor;
use hyperlocal::UnixConnector;
use serde_json::Value;

use vctx_core::error::{Code, Error};

/// Where a model's server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// A Unix socket.
    Unix(PathBuf),
    /// An address that the configuration names.
    Tcp(SocketAddr),
}

/// A client of one server.
pub(super) struct Wire {
    ends: Ends,
    /// Sent as a bearer token, if there is one; never logged.
    key: Option<String>,
}

enum Ends {
    Unix(PathBuf, Client<UnixConnector, Full<Bytes>>),
    Tcp(SocketAddr, Client<HttpConnector, Full<Bytes>>),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireFault {
    /// Nobody listens.
    #[error("the model's server is not reachable")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection broke, or the answer was longer than allowed.
    #[error("the answer of the model's server was not received whole")]
    Lost(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An answer that is no success.
    #[error("the model's server answered {0}")]
    Status(StatusCode),
    /// A request that cannot be made.
    #[error("the request to the model's server cannot be made")]
    Request(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl WireFault {
    /// As an error of the server's with a code of the caller's choice; the cause is for the log.
    pub(super) fn into_error(self, code: Code) -> Error {
        let error = Error::new(code, self.to_string());
        match self {
            Self::Unreachable(cause) | Self::Lost(cause) | Self::Request(cause) => {
                error.caused_by(cause)
            }
            Self::Status(_) => error,
        }
    }

    /// Whether the same request may succeed a moment later.
    pub(super) fn passing(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Lost(_) => true,
            Self::Status(status) => {
                *status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
            }
            Self::Request(_) => false,
        }
    }
}

impl Wire {
    /// A client; nothing is sent yet.
    pub(super) fn new(way: Way, key: Option<String>) -> Self {
        let builder = Client::builder(TokioExecutor::new());
        let ends = match way {
            Way::Unix(path) => Ends::Unix(path, builder.build(UnixConnector)),
            Way::Tcp(address) => Ends::Tcp(address, builder.build(HttpConnector::new())),
        };
        Self { ends, key }
    }

    /// Posts a body and gives the answer's bytes, at most `bytes_max` of them.
    pub(super) async fn post(
        &self,
        path: &str,
        body: &Value,
        bytes_max: usize,
    ) -> Result<Bytes, WireFault> {
        let answer = self.open(path, Bytes::from(body.to_string())).await?;
        let status = answer.status();
        let bytes = Limited::new(answer.into_body(), bytes_max).collect().await;
        let bytes = bytes.map_err(WireFault::Lost)?.to_bytes();
        if status.is_success() { Ok(bytes) } else { Err(WireFault::Status(status)) }
    }

    /// Posts a body and gives the answer as it begins, whatever its status; its bytes are for the caller to bound.
    pub(super) async fn open(
        &self,
        path: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>, WireFault> {
        self.send(path, body)?.await.map_err(|e| match e.is_connect() {
            true => WireFault::Unreachable(e.into()),
            false => WireFault::Lost(e.into()),
        })
    }

    fn send(&self, path: &str, body: Bytes) -> Result<ResponseFuture, WireFault> {
        let uri: hyper::Uri = match &self.ends {
            Ends::Unix(socket, _) => hyperlocal::Uri::new(socket, path).into(),
            Ends::Tcp(address, _) => format!("http://{address}{path}")
                .parse()
                .map_err(|e: http::uri::InvalidUri| WireFault::Request(e.into()))?,
        };
        let mut request = Request::post(uri).header("content-type", "application/json");
        if let Ends::Unix(..) = self.ends {
            request = request.header("host", "localhost");
        }
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.body(Full::new(body)).map_err(|e| WireFault::Request(e.into()))?;
        Ok(match &self.ends {
            Ends::Unix(_, client) => client.request(request),
            Ends::Tcp(_, client) => client.request(request),
        })
    }
}
