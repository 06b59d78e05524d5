//! One database among several, and all of them together.

use std::sync::{Arc, RwLock};

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::executor::Executor;
use crate::http::HowMuch;
use crate::http::IntoProblem as _;
use vctx_base::metric;
use vctx_base::socket::PeerActor;
use vctx_core::error::{Code, Error, Result};

/// A database that agents are in.
pub struct Place {
    name: String,
    takes_new: bool,
    state: RwLock<State>,
}

enum State {
    /// Not reached yet, and why.
    Waiting(String),
    /// Reached; why it did not answer when it was last asked, if it did not.
    Open(Opened, Option<String>),
}

/// What answers for a place.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) executor: Arc<Executor>,
    router: Router,
}

impl Place {
    /// A place that was not reached yet.
    pub fn waiting(name: &str, takes_new: bool) -> Self {
        let state = RwLock::new(State::Waiting("it was not reached yet".into()));
        Self { name: name.to_owned(), takes_new, state }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says why it is not reached.
    pub fn because(&self, reason: String) {
        self.shown(false);
        *self.state.write().expect("no holder panics") = State::Waiting(reason);
    }

    /// It is reached: these answer for it.
    pub fn open(&self, executor: Arc<Executor>, router: Router) {
        self.shown(true);
        let opened = Opened { executor, router };
        *self.state.write().expect("no holder panics") = State::Open(opened, None);
    }

    /// Whether it answered when it was asked again, or why not. Calls are sent there all the same.
    pub fn heard(&self, silent: Option<String>) {
        self.shown(silent.is_none());
        if let State::Open(_, known) = &mut *self.state.write().expect("no holder panics") {
            *known = silent;
        }
    }

    fn shown(&self, up: bool) {
        let up = if up { 1.0 } else { 0.0 };
        metrics::gauge!(metric::PLACE_UP, "place" => self.name.clone()).set(up);
    }

    /// What answers for it, or why nothing does.
    pub(super) fn opened(&self) -> Result<Opened> {
        match &*self.state.read().expect("no holder panics") {
            State::Open(opened, _) => Ok(opened.clone()),
            State::Waiting(reason) => {
                let text = format!("the place {} is not ready: {reason}", self.name);
                Err(Error::new(Code::NotReady, text).with("place", self.name.as_str()))
            }
        }
    }

    /// Answers a request there. Of what goes with it only what the place reads: the names in its path are found again.
    pub(super) async fn answer(&self, mut request: Request) -> Response {
        let beside = std::mem::take(request.extensions_mut());
        if let Some(peer) = beside.get::<PeerActor>() {
            request.extensions_mut().insert(*peer);
        }
        if let Some(asked) = beside.get::<HowMuch>() {
            request.extensions_mut().insert(*asked);
        }
        match self.opened() {
            Ok(opened) => match opened.router.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            Err(error) => error.into_problem(),
        }
    }

    fn told(&self, home: bool) -> Value {
        let mut told = json!({"name": self.name, "home": home, "takes_new": self.takes_new});
        match &*self.state.read().expect("no holder panics") {
            State::Open(_, None) => told["state"] = "open".into(),
            State::Open(_, Some(reason)) => {
                told["state"] = "silent".into();
                told["reason"] = reason.as_str().into();
            }
            State::Waiting(reason) => {
                told["state"] = "waiting".into();
                told["reason"] = reason.as_str().into();
            }
        }
        told
    }
}

/// All places; the first one is the home place, where the directory lies.
pub struct Places(Vec<Arc<Place>>);

impl Places {
    /// The home place and the further ones.
    pub fn new(home: Arc<Place>, further: Vec<Arc<Place>>) -> Self {
        let mut all = vec![home];
        all.extend(further);
        Self(all)
    }

    pub(super) fn home(&self) -> &Arc<Place> {
        &self.0[0]
    }

    pub(super) fn all(&self) -> &[Arc<Place>] {
        &self.0
    }

    /// The place of that name.
    pub(super) fn named(&self, name: &str) -> Result<&Arc<Place>> {
        self.0.iter().find(|place| place.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.0.iter().map(|place| place.name()).collect();
            let text =
                format!("the place {name} is not configured here; there are {}", known.join(", "));
            Error::new(Code::NotReady, text).with("place", name)
        })
    }

    /// Those that take new agents.
    pub(super) fn taking(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|place| place.takes_new).map(|place| place.name())
    }

    pub(super) fn told(&self) -> Value {
        let one = |(at, place): (usize, &Arc<Place>)| place.told(at == 0);
        json!({"places": self.0.iter().enumerate().map(one).collect::<Vec<Value>>()})
    }
}
