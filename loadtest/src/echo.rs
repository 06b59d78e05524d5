//! The echo: an HTTP server (hyper on one thread) that parses a JSON body and serialises the value
//! again. It shows the minimum cost of a request.

use std::convert::Infallible;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixListener;

use crate::Fault;
use crate::child::Process;
use crate::client::Client;
use crate::load::Operation;

/// Maximum size of a body, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Starts the echo as a separate process.
pub(crate) fn start(folder: &Path) -> Result<Process, Fault> {
    let socket = folder.join("echo.sock");
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("echo").arg("--socket").arg(&socket);
    Process::start(command, folder, socket, |_| Ok(true))
}

/// Returns a function that sends a request with the given body to a running echo.
pub(crate) fn calls(socket: &Path, body: Vec<u8>) -> Result<Operation, Fault> {
    let mut client = Client::connect(socket)?;
    Ok(Box::new(move || {
        let begun = Instant::now();
        let answer = client.call("POST", "/echo", "", &body)?;
        let took = begun.elapsed();
        match (answer.status, answer.body.is_empty()) {
            (200, false) => Ok(took),
            (status, _) => Err(format!("the echo answered {status}").into()),
        }
    }))
}

/// Runs the echo on a socket until the process ends.
pub(crate) fn serve(socket: &Path) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = UnixListener::bind(socket)?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(echo));
                // An error means that the client disconnected. The error is ignored, so that the
                // connections of other clients continue.
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
