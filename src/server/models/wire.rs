//! Sends JSON requests to a model server over a Unix socket or one configured TCP address, and
//! limits the length of answers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

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
use vctx_core::limits::SOCKET_PATH_BYTES_MAX;

/// Address of a model server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// A Unix socket.
    Unix(PathBuf),
    /// A configured network address.
    Tcp(SocketAddr),
}

impl Way {
    /// Returns the address from a configured socket path or network address; exactly one of them
    /// must be set.
    pub(super) fn of(socket: &Path, tcp: &str) -> Result<Self, String> {
        let length = socket.as_os_str().len();
        match (length, tcp) {
            (0, address) => address
                .parse::<SocketAddr>()
                .map(Self::Tcp)
                .map_err(|_| "tcp: use an address and a port, such as 127.0.0.1:8080".into()),
            (_, "") if !socket.is_absolute() || length > SOCKET_PATH_BYTES_MAX => {
                Err(format!("socket: use a full path of at most {SOCKET_PATH_BYTES_MAX} bytes"))
            }
            (_, "") => Ok(Self::Unix(socket.to_owned())),
            _ => Err("tcp: set either tcp or socket".into()),
        }
    }
}

/// A client of one model server.
pub(super) struct Wire {
    ends: Ends,
    /// Bearer token for the model server, if any; it is never logged.
    key: Option<String>,
}

enum Ends {
    Unix(PathBuf, Client<UnixConnector, Full<Bytes>>),
    Tcp(SocketAddr, Client<HttpConnector, Full<Bytes>>),
}

/// A fault in place of a model server's complete answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireFault {
    /// The model server cannot be reached.
    #[error("the model's server is not reachable")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection broke, or the answer was longer than allowed.
    #[error("the answer of the model's server was not received whole")]
    Lost(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The model server answered with an error status.
    #[error("the model's server answered {0}")]
    Status(StatusCode),
    /// The request to the model server could not be built.
    #[error("the request to the model's server cannot be made")]
    Request(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl WireFault {
    /// Returns an error for the caller, with the given code; the fault's cause is only logged.
    pub(super) fn into_error(self, code: Code) -> Error {
        let error = Error::new(code, self.to_string());
        match self {
            Self::Unreachable(cause) | Self::Lost(cause) | Self::Request(cause) => {
                error.caused_by(cause)
            }
            Self::Status(_) => error,
        }
    }

    /// Returns whether another attempt may succeed.
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
    /// Makes a client of a model server; sends no request yet.
    pub(super) fn new(way: Way, key: Option<String>) -> Self {
        let builder = Client::builder(TokioExecutor::new());
        let ends = match way {
            Way::Unix(path) => Ends::Unix(path, builder.build(UnixConnector)),
            Way::Tcp(address) => Ends::Tcp(address, builder.build(HttpConnector::new())),
        };
        Self { ends, key }
    }

    /// Posts a body, and returns the answer's body of at most `bytes_max` bytes.
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

    /// Posts a body, and returns the answer of any status as soon as its head has arrived; the
    /// caller must limit the answer's body.
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
