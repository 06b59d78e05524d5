//! Represents the databases of a server, each with its state and its request handlers.

use std::sync::{Arc, RwLock};

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::executor::Executor;
use crate::http::CountKnown;
use crate::http::IntoProblem as _;
use vctx_base::metric;
use vctx_base::socket::PeerActor;
use vctx_core::error::{Code, Error, Result};

/// One of the server's databases.
pub struct Database {
    name: String,
    takes_new: bool,
    state: RwLock<DatabaseState>,
}

enum DatabaseState {
    /// The server has not reached the database yet; the text says why.
    Waiting(String),
    /// The server has reached the database; the text says why the last probe failed, if it did.
    Open(OpenDatabase, Option<String>),
}

/// The handlers that answer requests in one database.
#[derive(Clone)]
pub(super) struct OpenDatabase {
    pub(super) executor: Arc<Executor>,
    router: Router,
}

impl Database {
    /// Creates the value for a database that the server has not reached yet.
    pub fn waiting(name: &str, takes_new: bool) -> Self {
        let state = RwLock::new(DatabaseState::Waiting("the database was not reached yet".into()));
        Self { name: name.to_owned(), takes_new, state }
    }

    /// Returns the database's name, as in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the reason why the database has not been reached.
    pub fn because(&self, reason: String) {
        self.show_state(false);
        *self.state.write().expect("no holder panics") = DatabaseState::Waiting(reason);
    }

    /// Marks the database as reached, and stores its handlers.
    pub fn open(&self, executor: Arc<Executor>, router: Router) {
        self.show_state(true);
        let opened = OpenDatabase { executor, router };
        *self.state.write().expect("no holder panics") = DatabaseState::Open(opened, None);
    }

    /// Records the result of the last probe of the database. A failed probe does not stop requests
    /// to the database.
    pub fn heard(&self, silent: Option<String>) {
        self.show_state(silent.is_none());
        if let DatabaseState::Open(_, known) = &mut *self.state.write().expect("no holder panics") {
            *known = silent;
        }
    }

    fn show_state(&self, up: bool) {
        let up = if up { 1.0 } else { 0.0 };
        metrics::gauge!(metric::PLACE_UP, "place" => self.name.clone()).set(up);
    }

    /// Returns the handlers of the database, or an error that says why the database has not been
    /// reached.
    pub(super) fn opened(&self) -> Result<OpenDatabase> {
        match &*self.state.read().expect("no holder panics") {
            DatabaseState::Open(opened, _) => Ok(opened.clone()),
            DatabaseState::Waiting(reason) => {
                let text = format!("the database {} is not ready: {reason}", self.name);
                Err(Error::new(Code::NotReady, text).with("place", self.name.as_str()))
            }
        }
    }

    /// Answers a request in this database. Removes the request extensions of the outer router, such
    /// as its path parameters, since the database's own router sets them again. Keeps only the
    /// extensions that the routes read.
    pub(super) async fn answer(&self, mut request: Request) -> Response {
        let beside = std::mem::take(request.extensions_mut());
        if let Some(peer) = beside.get::<PeerActor>() {
            request.extensions_mut().insert(*peer);
        }
        if let Some(asked) = beside.get::<CountKnown>() {
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

    fn state_value(&self, home: bool) -> Value {
        let mut told = json!({"name": self.name, "home": home, "takes_new": self.takes_new});
        match &*self.state.read().expect("no holder panics") {
            DatabaseState::Open(_, None) => told["state"] = "open".into(),
            DatabaseState::Open(_, Some(reason)) => {
                told["state"] = "silent".into();
                told["reason"] = reason.as_str().into();
            }
            DatabaseState::Waiting(reason) => {
                told["state"] = "waiting".into();
                told["reason"] = reason.as_str().into();
            }
        }
        told
    }
}

/// All databases of the server. The first is the home database, which has the directory of all
/// agents.
pub struct Databases(Vec<Arc<Database>>);

impl Databases {
    /// Makes the list of databases from the home database and the other databases.
    pub fn new(home: Arc<Database>, further: Vec<Arc<Database>>) -> Self {
        let mut all = vec![home];
        all.extend(further);
        Self(all)
    }

    pub(super) fn home(&self) -> &Arc<Database> {
        &self.0[0]
    }

    pub(super) fn all(&self) -> &[Arc<Database>] {
        &self.0
    }

    /// Returns the database with the given name.
    pub(super) fn by_name(&self, name: &str) -> Result<&Arc<Database>> {
        self.0.iter().find(|place| place.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.0.iter().map(|place| place.name()).collect();
            let text =
                format!("no database {name} is configured here; there are {}", known.join(", "));
            Error::new(Code::NotReady, text).with("place", name)
        })
    }

    /// Returns the names of the databases that accept new agents.
    pub(super) fn taking(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|place| place.takes_new).map(|place| place.name())
    }

    pub(super) fn state_value(&self) -> Value {
        let one = |(at, place): (usize, &Arc<Database>)| place.state_value(at == 0);
        json!({"places": self.0.iter().enumerate().map(one).collect::<Vec<Value>>()})
    }
}
