//! Sends JSON requests to a model's server, over a Unix socket or to the configured URL, and limits
//! the length of answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::{Client, Error as ClientError, ResponseFuture};
use hyper_util::rt::TokioExecutor;
use hyperlocal::UnixConnector;
use serde_json::Value;
use url::Url;

use super::address::Address;
use super::tls;
use vctx_core::error::{Code, Error};
use vctx_core::memory::model_api::ModelApi;

/// Longest wait for a connection to a model's server, in milliseconds.
const CONNECT_MS_MAX: u64 = 10_000;
/// Version of Anthropic's API, which each request to it names.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// How a model's server is reached.
#[derive(Clone, Debug)]
pub struct Way {
    /// Address of the server.
    pub address: Address,
    /// File with further certificates that are trusted (PEM), or empty.
    pub ca_file: PathBuf,
    /// URL of an HTTP proxy through which the server is reached, or empty.
    pub proxy: String,
    /// Key for the server, if any; it is never logged.
    pub key: Option<Key>,
}

impl Way {
    /// Returns the way to an address, without a key. An error begins with the setting that is
    /// wrong.
    pub(super) fn of(address: Address, ca_file: &Path, proxy: &str) -> Result<Self, String> {
        if !(ca_file.as_os_str().is_empty() || ca_file.is_absolute()) {
            return Err("ca_file: give the full path".into());
        }
        if !proxy.is_empty() {
            proxy_of(proxy)?;
        }
        Ok(Self { address, ca_file: ca_file.to_owned(), proxy: proxy.to_owned(), key: None })
    }

    /// Adds a key, which comes from the named variable.
    pub(super) fn with_key(self, secret: Option<String>, variable: &'static str) -> Self {
        Self { key: secret.map(|secret| Key { secret, variable }), ..self }
    }
}

/// A key for a model's server.
#[derive(Clone)]
pub struct Key {
    /// The key itself.
    pub secret: String,
    /// Name of the variable from which the key comes, for messages.
    pub variable: &'static str,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.variable)
    }
}

/// A client of one model's server.
pub(super) struct Wire {
    ends: Ends,
    address: Address,
    /// Headers of each request.
    headers: HeaderMap,
}

enum Ends {
    Unix(PathBuf, Client<UnixConnector, Full<Bytes>>),
    Web(Url, Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
    Proxied(Url, Client<HttpsConnector<Tunnel<HttpConnector>>, Full<Bytes>>),
}

/// A fault in place of a model's complete answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireFault {
    /// The server cannot be reached; the text says why.
    #[error("{0}")]
    Unreachable(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server's certificate is not trusted; another attempt does not help.
    #[error("{0}")]
    Untrusted(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection broke, or the answer was longer than allowed.
    #[error("the answer of the model's server was not received whole")]
    Lost(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server answered with an error status; the text says what to do.
    #[error("the model's server answered {0}{1}")]
    Status(StatusCode, &'static str),
    /// The request to the server could not be built.
    #[error("the request to the model's server cannot be made")]
    Request(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl WireFault {
    /// Returns an error for the caller, with the given code; the fault's cause is only logged.
    pub(super) fn into_error(self, code: Code) -> Error {
        let error = Error::new(code, self.to_string());
        match self {
            Self::Unreachable(_, cause)
            | Self::Untrusted(_, cause)
            | Self::Lost(cause)
            | Self::Request(cause) => error.caused_by(cause),
            Self::Status(..) => error,
        }
    }

    /// Returns whether another attempt may succeed.
    pub(super) fn passing(&self) -> bool {
        match self {
            Self::Unreachable(..) | Self::Lost(_) => true,
            Self::Status(status, _) => {
                *status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
            }
            Self::Untrusted(..) | Self::Request(_) => false,
        }
    }
}

/// Returns what to do about an error status, as the end of a sentence.
pub(super) fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": check the key",
        StatusCode::NOT_FOUND => ": check url and model",
        _ if status.is_redirection() => ": set url to the address to which it redirects",
        _ => "",
    }
}

impl Wire {
    /// Makes a client of a model's server; sends no request yet. An error begins with the setting
    /// that is wrong.
    pub(super) fn new(way: &Way, api: ModelApi) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        let json = header::HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        if api == ModelApi::Messages {
            let version = header::HeaderValue::from_static(ANTHROPIC_VERSION);
            headers.insert("anthropic-version", version);
        }
        if let Some(key) = &way.key {
            if way.address.is_open() {
                return Err(
                    "url: the key would go over the network in plain text: use https".into()
                );
            }
            let (name, text) = match api {
                ModelApi::Messages => ("x-api-key", key.secret.clone()),
                ModelApi::Chat | ModelApi::Responses => {
                    ("authorization", format!("Bearer {}", key.secret))
                }
            };
            let value = header::HeaderValue::try_from(text);
            let mut value = value.map_err(|_| {
                format!("{}: the key has a character that no key has", key.variable)
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Self { ends: ends(way)?, address: way.address.clone(), headers })
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
        if status.is_success() { Ok(bytes) } else { Err(WireFault::Status(status, advice(status))) }
    }

    /// Posts a body, and returns the answer of any status as soon as its head has arrived; the
    /// caller must limit the answer's body.
    pub(super) async fn open(
        &self,
        path: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>, WireFault> {
        self.sent(Method::POST, path, body).await
    }

    /// Asks for a file, and returns the answer of any status as soon as its head has arrived; the
    /// caller must limit the answer's body.
    pub(super) async fn get(&self, path: &str) -> Result<http::Response<Incoming>, WireFault> {
        self.sent(Method::GET, path, Bytes::new()).await
    }

    async fn sent(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>, WireFault> {
        self.send(method, path, body)?.await.map_err(|error| match error.is_connect() {
            true => self.unreachable(error),
            false => WireFault::Lost(error.into()),
        })
    }

    fn unreachable(&self, error: ClientError) -> WireFault {
        let host = self.address.host();
        if let Some(fault) = tls::certificate_fault(&error) {
            return WireFault::Untrusted(
                format!("the certificate of {host} {fault}"),
                error.into(),
            );
        }
        let text = match &self.address {
            Address::Unix(_) => format!("no model's server answers on {host}"),
            Address::Web(_) if is_unresolved(&error) => {
                format!("the name in {host} does not resolve: check url")
            }
            Address::Web(_) => format!("no model's server answers at {host}: check url"),
        };
        WireFault::Unreachable(text, error.into())
    }

    fn send(&self, method: Method, path: &str, body: Bytes) -> Result<ResponseFuture, WireFault> {
        let uri: hyper::Uri = match &self.ends {
            Ends::Unix(socket, _) => hyperlocal::Uri::new(socket, path).into(),
            Ends::Web(url, _) | Ends::Proxied(url, _) => {
                let uri = format!("{}{path}", url.origin().ascii_serialization());
                uri.parse().map_err(|e: http::uri::InvalidUri| WireFault::Request(e.into()))?
            }
        };
        let request = Request::builder().method(method).uri(uri).body(Full::new(body));
        let mut request = request.map_err(|e| WireFault::Request(e.into()))?;
        *request.headers_mut() = self.headers.clone();
        if let Ends::Unix(..) = self.ends {
            let host = header::HeaderValue::from_static("localhost");
            request.headers_mut().insert(header::HOST, host);
        }
        Ok(match &self.ends {
            Ends::Unix(_, client) => client.request(request),
            Ends::Web(_, client) => client.request(request),
            Ends::Proxied(_, client) => client.request(request),
        })
    }
}

/// Returns whether the name of a host was not found. The connector has no type for this error, only
/// this text.
fn is_unresolved(error: &ClientError) -> bool {
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        if error.to_string() == "dns error" {
            return true;
        }
        next = error.source();
    }
    false
}

fn ends(way: &Way) -> Result<Ends, String> {
    let builder = Client::builder(TokioExecutor::new());
    let url = match &way.address {
        Address::Unix(path) => return Ok(Ends::Unix(path.clone(), builder.build(UnixConnector))),
        Address::Web(url) => url.clone(),
    };
    let mut plain = HttpConnector::new();
    plain.enforce_http(false);
    plain.set_connect_timeout(Some(Duration::from_millis(CONNECT_MS_MAX)));
    let config = match url.scheme() {
        "https" => tls::config(&way.ca_file)?,
        _ => tls::no_roots(),
    };
    let secure = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config);
    let secure = secure.https_or_http().enable_http1();
    if way.proxy.is_empty() {
        return Ok(Ends::Web(url, builder.build(secure.wrap_connector(plain))));
    }
    let proxy = proxy_of(&way.proxy)?;
    let tunnel = Tunnel::new(proxy, plain);
    Ok(Ends::Proxied(url, builder.build(secure.wrap_connector(tunnel))))
}

/// Parses the URL of a proxy. An error begins with `proxy:`.
pub(super) fn proxy_of(text: &str) -> Result<hyper::Uri, String> {
    let is_plain = text.starts_with("http://");
    let uri = text.parse::<hyper::Uri>().ok().filter(|uri| is_plain && uri.host().is_some());
    let uri = uri.filter(|uri| uri.authority().is_none_or(|whole| !whole.as_str().contains('@')));
    uri.ok_or_else(|| "proxy: use an address such as http://proxy.example.com:3128".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_sent_in_plain_text_over_a_network() {
        let made = |url: &str, key: &str| {
            let address = Address::of_url(url).unwrap();
            let way = Way::of(address, Path::new(""), "").unwrap();
            let key = Some(key.to_owned()).filter(|key| !key.is_empty());
            Wire::new(&way.with_key(key, "VCTX_CHAT_KEY"), ModelApi::Chat).map(drop)
        };
        for (url, key, fault) in [
            ("http://models.example.com", "sk-1", Some("url: the key would go")),
            ("http://models.example.com", "", None),
            ("http://localhost:1", "sk-1", None),
            ("http://localhost:1", "sk\n1", Some("VCTX_CHAT_KEY: the key has a character")),
        ] {
            let told = made(url, key).err();
            let is_right = match (&told, fault) {
                (Some(told), Some(fault)) => told.starts_with(fault) && !told.contains("sk"),
                (None, None) => true,
                _ => false,
            };
            assert!(is_right, "{url}: {told:?}");
        }
    }

    #[test]
    fn a_proxy_is_named_without_encryption_and_password() {
        assert!(proxy_of("http://proxy.example.com:3128").is_ok());
        for text in ["proxy:3128", "https://proxy", "http://", "http://me:secret@proxy"] {
            let fault = proxy_of(text).unwrap_err();
            assert!(fault.starts_with("proxy: use") && !fault.contains("secret"), "{fault}");
        }
    }
}
