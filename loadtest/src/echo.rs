//! The floor of a request: hyper on one thread, which parses a JSON body and writes it anew.

use std::convert::Infallible;
use std::path::Path;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixListener;

use crate::Fault;

/// Longest body taken, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Answers until the process is ended.
pub(crate) fn serve(socket: &Path) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = UnixListener::bind(socket)?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(echo));
                // A client that goes away in the middle is the end of its connection, no more.
                connection.await.ok();
            });
        }
    })
}

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
    let parsed = body.ok().and_then(|body| serde_json::from_slice::<Value>(&body.to_bytes()).ok());
    let (status, text) = match parsed {
        Some(value) => (StatusCode::OK, value.to_string()),
        None => (StatusCode::BAD_REQUEST, String::new()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    Ok(response)
}
