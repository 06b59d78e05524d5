//! Until the database is ready the socket answers too: alive, not ready, and why.

use std::sync::{Arc, RwLock};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use tower::ServiceExt as _;

use super::problem::IntoProblem as _;
use vctx_core::error::{Code, Error};

/// What answers on the socket: nothing but the reason at first, then the real routes.
#[derive(Clone)]
pub struct Gate {
    state: Arc<RwLock<State>>,
}

enum State {
    Waiting(String),
    Open(Router),
}

impl Gate {
    /// A closed gate with its reason.
    pub fn closed(reason: &str) -> Self {
        Self { state: Arc::new(RwLock::new(State::Waiting(reason.to_owned()))) }
    }

    /// Changes the reason.
    pub fn because(&self, reason: String) {
        *self.state.write().expect("no holder panics") = State::Waiting(reason);
    }

    /// Opens it.
    pub fn open(&self, router: Router) {
        *self.state.write().expect("no holder panics") = State::Open(router);
    }

    /// The routes of the listener.
    pub fn router(&self) -> Router {
        let gate = self.clone();
        Router::new().fallback(move |request: Request| async move { gate.answer(request).await })
    }

    async fn answer(&self, request: Request) -> Response {
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
