//! Answers requests until the database is ready: says that the server is not ready, and why.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, RwLock};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Version, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use tracing::Instrument as _;

use super::problem::IntoProblem as _;
use vctx_base::responder::Responder;
use vctx_base::trace_context::{TRACEPARENT, TRACESTATE, TraceContext};
use vctx_core::error::{Code, Error, Result};

/// The gate before the HTTP routes. A closed gate answers every request with the reason why the
/// server is not ready; an open gate passes requests to the routes.
#[derive(Clone)]
pub struct Gate {
    state: Arc<RwLock<State>>,
}

enum State {
    Waiting(String),
    Open(Router),
}

impl Gate {
    /// Makes a closed gate; `reason` says why the server is not ready.
    pub fn closed(reason: &str) -> Self {
        Self { state: Arc::new(RwLock::new(State::Waiting(reason.to_owned()))) }
    }

    /// Changes the reason why the server is not ready.
    pub fn because(&self, reason: String) {
        *self.state.write().expect("no holder panics") = State::Waiting(reason);
    }

    /// Opens the gate, so that the given routes answer all requests.
    pub fn open(&self, router: Router) {
        *self.state.write().expect("no holder panics") = State::Open(router);
    }
}

impl Responder for Gate {
    async fn respond(&self, request: Request) -> Response {
        if let Err(error) = one_host(&request) {
            return error.into_problem();
        }
        let router = match &*self.state.read().expect("no holder panics") {
            State::Open(router) => router.clone(),
            State::Waiting(_) if request.uri().path() == "/healthz" => {
                return (StatusCode::OK, r#"{"status":"ok"}"#).into_response();
            }
            State::Waiting(reason) => {
                return Error::new(Code::NotReady, reason.clone()).into_problem();
            }
        };
        // The log lines of a request have the ids of the trace that the request names.
        let context = trace_of(request.headers());
        let answer = AssertUnwindSafe(router.respond(request)).catch_unwind();
        let answer = match context {
            Some(context) => answer.instrument(context.span()).await,
            None => answer.await,
        };
        answer.unwrap_or_else(|_| {
            tracing::error!("a request ended in a panic");
            let text = "the server has an internal error; the memory is unchanged";
            Error::new(Code::Internal, text).into_problem()
        })
    }
}

fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    TraceContext::of(text(TRACEPARENT), text(TRACESTATE))
}

/// Refuses a request without `Host`, or with several (RFC 9112 §3.2), because two programs could
/// read such a request differently. HTTP/1.0 requires no `Host`.
fn one_host(request: &Request) -> Result<()> {
    match request.headers().get_all(header::HOST).iter().count() {
        1 => Ok(()),
        0 if request.version() < Version::HTTP_11 => Ok(()),
        _ => Err(Error::argument("host", "send the header exactly once")),
    }
}
