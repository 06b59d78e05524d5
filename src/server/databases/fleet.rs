//! HTTP routes for several databases: sends a request for one agent to the agent's database, and
//! any other request to all databases.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{any, get, post};
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::database::{Database, Databases};
use super::lists::{agents, ledgers, models, places, ready};
use super::moving::move_agent;
use super::rendezvous::chosen;
use crate::executor::{AgentLocation, Executor, Located};
use crate::http::IntoProblem as _;
use crate::http::{CountKnown, KnownMessages, bytes_within, held_object_of};
use crate::limits::{BODY_BYTES_SMALL, CALLS_IN_FLIGHT_MAX, HISTORY_BYTES_MAX};
use vctx_base::clock;
use vctx_base::room::Room;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::receipt::sha256;
use vctx_core::openai::RequestedAgent;
use vctx_core::trust::{Actor, Principal, Scope, admit};

/// Maximum number of agents whose database a server remembers; a full cache is emptied.
const PLACES_KNOWN_MAX: usize = 100_000;
/// Maximum number of concurrent moves of one server; each move has an open file.
const MOVES_AT_ONCE: usize = 4;
/// Longest wait of a call until the move of its agent ends, in milliseconds.
const MOVE_WAIT_MS_MAX: u64 = 20_000;
/// First and longest pause between two attempts of a call that waits for a move, in milliseconds.
const MOVE_WAIT_PAUSE_MS: (u64, u64) = (5, 100);
/// Maximum number of times that one call is redirected to another database.
const HOPS_MAX: u32 = 8;

/// Several databases served at one socket.
pub struct Fleet {
    pub(super) places: Databases,
    pub(super) tenant: String,
    /// Last known database of each agent. If the named database turns out not to have the agent,
    /// the name is corrected.
    known: Mutex<HashMap<String, String>>,
    pub(super) moves: Arc<Semaphore>,
    /// Permits for requests whose body is held in memory.
    in_flight: Arc<Semaphore>,
}

/// The request header that names an agent.
const AGENT: &str = "x-vctx-agent";

impl Fleet {
    /// Makes a fleet of the given databases; the home database must already be open.
    pub fn new(places: Databases, tenant: String) -> Self {
        let moves = Arc::new(Semaphore::new(MOVES_AT_ONCE));
        let in_flight = Arc::new(Semaphore::new(CALLS_IN_FLIGHT_MAX));
        Self { places, tenant, known: Mutex::default(), moves, in_flight }
    }

    /// Returns the HTTP routes of the listener for all databases.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/v1/agents", get(agents))
            .route("/v1/ledgers", get(ledgers))
            .route("/v1/models", get(models))
            .route("/v1/places", get(places))
            .route("/readyz", get(ready))
            .route("/v1/agents/{agent}/move", post(move_agent))
            .route("/v1/agents/{agent}/import", post(streamed))
            .route("/v1/agents/{agent}", any(of_agent))
            .route("/v1/agents/{agent}/{*rest}", any(below_agent))
            .route("/v1/chat/completions", post(conversation))
            .route("/v1/responses", post(conversation))
            .route("/v1/responses/compact", post(conversation))
            .route("/v1/messages", post(conversation))
            .fallback(at_home)
            .method_not_allowed_fallback(at_home)
            .with_state(Arc::clone(self))
    }

    /// Returns the executor of the home database, which has the directory.
    pub(super) fn home(&self) -> Result<Arc<Executor>> {
        Ok(self.places.home().opened()?.executor)
    }

    /// Returns the scope of the agent that a caller means by a name.
    pub(super) fn scope(&self, given: &str) -> Result<Scope> {
        let mut principal = self.principal();
        let agent = self.home()?.calling(&mut principal, given);
        admit(&principal, &agent)
    }

    /// Returns the scope of an agent by its local key.
    pub(super) fn scope_of_key(&self, agent: &str) -> Result<Scope> {
        admit(&self.principal(), agent)
    }

    fn principal(&self) -> Principal {
        let actor = Actor { uid: 0, pid: 0, label: None };
        Principal { actor, tenant: self.tenant.clone(), called: None }
    }

    fn guess(&self, scope: &Scope) -> Option<String> {
        self.known.lock().expect("no holder panics").get(scope.key()).cloned()
    }

    /// Remembers which database has the agent.
    pub(super) fn note(&self, scope: &Scope, place: &str) {
        let mut known = self.known.lock().expect("no holder panics");
        if known.get(scope.key()).is_some_and(|noted| noted == place) {
            return;
        }
        if known.len() >= PLACES_KNOWN_MAX {
            known.clear();
        }
        known.insert(scope.key().to_owned(), place.to_owned());
    }

    /// Returns the agent's database according to the directory; for a new agent, chooses a
    /// database.
    pub(super) async fn whereabouts(&self, scope: &Scope) -> Result<Whereabouts> {
        let AgentLocation { row, here } = self.home()?.transfers().located(scope).await?;
        Ok(match row {
            Some(Located { place, moving, .. }) => Whereabouts {
                place: place.unwrap_or_else(|| self.places.home().name().to_owned()),
                moving: moving.is_some(),
            },
            None if here => {
                Whereabouts { place: self.places.home().name().to_owned(), moving: false }
            }
            None => Whereabouts { place: self.fresh(scope.key())?, moving: false },
        })
    }

    /// Chooses the database for a new agent.
    fn fresh(&self, key: &str) -> Result<String> {
        chosen(self.places.taking(), key).map(str::to_owned).ok_or_else(|| {
            let text = "no database accepts new agents: set `takes_new` of one";
            Error::new(Code::NotReady, text)
        })
    }

    /// Sends a request to the agent's database, and to the next database if the agent has moved. A
    /// database without the agent refuses the request and changes nothing, so another database can
    /// answer the request.
    async fn to_agent(&self, parts: &Parts, body: &Bytes, scope: &Scope) -> Result<Response> {
        let begun = clock::now();
        let (first, longest) = MOVE_WAIT_PAUSE_MS;
        let (mut hops, mut pause) = (0, first);
        let mut at = match self.guess(scope) {
            Some(place) => place,
            None => self.whereabouts(scope).await?.place,
        };
        loop {
            let place = self.places.by_name(&at)?;
            let request = Request::from_parts(parts.clone(), Body::from(body.clone()));
            let response = place.answer(request).await;
            let code = response.extensions().get::<Code>().copied();
            let Some(Code::AgentNotFound | Code::AgentElsewhere | Code::AgentMoving) = code else {
                self.note(scope, &at);
                return Ok(response);
            };
            let found = self.whereabouts(scope).await?;
            if found.place != at && hops < HOPS_MAX {
                hops += 1;
                at = found.place;
                continue;
            }
            let moving = found.moving || code == Some(Code::AgentMoving);
            let waited = begun.elapsed() > Duration::from_millis(MOVE_WAIT_MS_MAX);
            if !moving || waited {
                return Ok(response);
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Sends a conversation whose request names no agent to the database that knows the most of the
    /// conversation's messages. If no database knows any, chooses a database that accepts new
    /// agents.
    async fn unnamed(&self, parts: &Parts, body: &Bytes) -> Result<Response> {
        let ask = |place: &Arc<Database>| {
            let (place, mut parts) = (Arc::clone(place), parts.clone());
            parts.extensions.insert(CountKnown);
            let request = Request::from_parts(parts, Body::from(body.clone()));
            tokio::spawn(async move {
                let answer = place.answer(request).await;
                (place, answer)
            })
        };
        let mut asked = Vec::new();
        for place in self.places.all() {
            let mut task = ask(place);
            // A large body goes to one database at a time, since each parses the body.
            let answer = match body.len() > BODY_BYTES_SMALL {
                true => Some((&mut task).await),
                false => None,
            };
            asked.push((task, answer));
        }
        let mut best: Option<(KnownMessages, Arc<Database>)> = None;
        let mut refused = None;
        for (task, answer) in asked {
            let answer = match answer {
                Some(answer) => answer,
                None => task.await,
            };
            let (place, answer) = answer.map_err(|e| {
                Error::new(Code::Internal, "a request to a database panicked").caused_by(e)
            })?;
            match answer.extensions().get::<KnownMessages>() {
                Some(known) if known.0 == 0 => {}
                Some(known) if best.as_ref().is_some_and(|(most, _)| most >= known) => {}
                Some(known) => best = Some((*known, place)),
                None => refused = Some(answer),
            }
        }
        let place = match (best, refused) {
            (Some((_, place)), _) => place,
            // While one database does not answer, no new conversation begins, since that database
            // may already have the conversation.
            (None, Some(refused)) => return Ok(refused),
            (None, None) => {
                let digest = sha256(&String::from_utf8_lossy(body));
                Arc::clone(self.places.by_name(&self.fresh(&digest)?)?)
            }
        };
        Ok(place.answer(Request::from_parts(parts.clone(), Body::from(body.clone()))).await)
    }
}

/// The database of an agent, and whether the agent is being moved.
pub(super) struct Whereabouts {
    pub(super) place: String,
    pub(super) moving: bool,
}

type Fleeted = State<Arc<Fleet>>;

async fn at_home(State(fleet): Fleeted, request: Request) -> Response {
    fleet.places.home().answer(request).await
}

async fn of_agent(State(fleet): Fleeted, Path(agent): Path<String>, request: Request) -> Response {
    held(&fleet, &agent, request).await
}

async fn below_agent(
    State(fleet): Fleeted,
    Path((agent, _)): Path<(String, String)>,
    request: Request,
) -> Response {
    held(&fleet, &agent, request).await
}

/// Answers a request whose body is held in memory, so that the request can be sent several times.
async fn held(fleet: &Fleet, agent: &str, request: Request) -> Response {
    let Ok(scope) = fleet.scope(agent) else {
        // The home database refuses a request with an invalid agent name.
        return fleet.places.home().answer(request).await;
    };
    let answered = async {
        let (parts, bytes, _permit) = body_of(fleet, request).await?;
        fleet.to_agent(&parts, &bytes, &scope).await
    };
    answered.await.unwrap_or_else(|error| error.into_problem())
}

/// The right to hold a body in memory.
type BodyPermits = (OwnedSemaphorePermit, Room);

/// Reads the body of a request, and takes one of the permits for bodies in memory.
async fn body_of(fleet: &Fleet, request: Request) -> Result<(Parts, Bytes, BodyPermits)> {
    let permit = Arc::clone(&fleet.in_flight).try_acquire_owned().map_err(|_| {
        let text =
            format!("more than {CALLS_IN_FLIGHT_MAX} calls at once: retry later with the same key");
        Error::new(Code::Overloaded, text)
    })?;
    let (parts, body) = request.into_parts();
    let (bytes, room) = bytes_within(body, HISTORY_BYTES_MAX).await?;
    Ok((parts, Bytes::from(bytes), (permit, room)))
}

/// Forwards a request whose body is too long for memory to the database that the directory names
/// for the agent.
async fn streamed(State(fleet): Fleeted, Path(agent): Path<String>, request: Request) -> Response {
    let Ok(scope) = fleet.scope(&agent) else {
        return fleet.places.home().answer(request).await;
    };
    let place = async {
        let found = fleet.whereabouts(&scope).await?;
        fleet.places.by_name(&found.place)
    };
    match place.await {
        Ok(place) => place.answer(request).await,
        Err(error) => error.into_problem(),
    }
}

async fn conversation(State(fleet): Fleeted, request: Request) -> Response {
    conversed(&fleet, request).await.unwrap_or_else(|error| error.into_problem())
}

async fn conversed(fleet: &Fleet, request: Request) -> Result<Response> {
    let (parts, bytes, _permit) = body_of(fleet, request).await?;
    // The room of the values is free again before the database reads the body.
    let model = match held_object_of(&bytes).await {
        Ok((object, _room)) => object.get("model").and_then(Value::as_str).map(str::to_owned),
        Err(error) if error.code == Code::Overloaded => return Err(error),
        Err(_) => None,
    };
    let named = || {
        let model = model?;
        let header = parts.headers.get(AGENT).and_then(|value| value.to_str().ok());
        let agent = RequestedAgent::of(None, &model, header).ok()?.agent?;
        fleet.scope(&agent).ok()
    };
    match named() {
        Some(scope) => fleet.to_agent(&parts, &bytes, &scope).await,
        None => fleet.unnamed(&parts, &bytes).await,
    }
}
