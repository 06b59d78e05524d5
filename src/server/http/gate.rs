//! Answers requests until the database is ready: says that the server is not ready, and why.

use std::sync::{Arc, RwLock};

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, Version, header};
use axum::response::{IntoResponse as _, Response};
use tower::ServiceExt as _;

use super::problem::IntoProblem as _;
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

    /// Returns the routes of the listener: all requests go through the gate.
    pub fn router(&self) -> Router {
        let gate = self.clone();
        Router::new().fallback(move |request: Request| async move { gate.answer(request).await })
    }

    async fn answer(&self, request: Request) -> Response {
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
        match router.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
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
