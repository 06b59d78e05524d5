//! The routes in front of several places: what names an agent goes to its place, what names none is found out or asked of all.

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
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::lists::{agents, models, places, ready};
use super::moving::move_agent;
use super::place::{Place, Places};
use super::rendezvous::chosen;
use crate::executor::{Executor, Found, Located};
use crate::http::IntoProblem as _;
use crate::http::{HowMuch, Known, bytes_within, object_of};
use vctx_base::clock;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    CALLS_IN_FLIGHT_MAX, HISTORY_BYTES_MAX, HOPS_MAX, MOVE_WAIT_MS_MAX, MOVE_WAIT_PAUSE_MS,
    MOVES_AT_ONCE, PLACES_KNOWN_MAX,
};
use vctx_core::memory::receipt::sha256;
use vctx_core::openai::Named;
use vctx_core::policy::{Actor, Principal, Scope, admit};

/// Several places behind one socket.
pub struct Fleet {
    pub(super) places: Places,
    tenant: String,
    /// Where agents were last: a guess that the place itself corrects.
    known: Mutex<HashMap<String, String>>,
    pub(super) moves: Arc<Semaphore>,
    /// Calls whose bodies are held.
    in_flight: Arc<Semaphore>,
}

/// The header that names an agent.
const AGENT: &str = "x-vctx-agent";

impl Fleet {
    /// All places; the home place is open.
    pub fn new(places: Places, tenant: String) -> Self {
        let moves = Arc::new(Semaphore::new(MOVES_AT_ONCE));
        let in_flight = Arc::new(Semaphore::new(CALLS_IN_FLIGHT_MAX));
        Self { places, tenant, known: Mutex::default(), moves, in_flight }
    }

    /// The routes of the listener.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/v1/agents", get(agents))
            .route("/v1/models", get(models))
            .route("/v1/places", get(places))
            .route("/readyz", get(ready))
            .route("/v1/agents/{agent}/move", post(move_agent))
            .route("/v1/agents/{agent}/import", post(streamed))
            .route("/v1/agents/{agent}", any(of_agent))
            .route("/v1/agents/{agent}/{*rest}", any(below_agent))
            .route("/v1/chat/completions", post(conversation))
            .route("/v1/responses", post(conversation))
            .fallback(at_home)
            .method_not_allowed_fallback(at_home)
            .with_state(Arc::clone(self))
    }

    /// Whoever knows where agents are.
    pub(super) fn home(&self) -> Result<Arc<Executor>> {
        Ok(self.places.home().opened()?.executor)
    }

    /// An agent of this server's tenant.
    pub(super) fn scope(&self, agent: &str) -> Result<Scope> {
        let actor = Actor { uid: 0, pid: 0, label: None };
        admit(&Principal { actor, tenant: self.tenant.clone() }, agent)
    }

    fn guess(&self, scope: &Scope) -> Option<String> {
        self.known.lock().expect("no holder panics").get(scope.key()).cloned()
    }

    /// Remembers where an agent was.
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

    /// Where an agent is by the directory, or would be made.
    pub(super) async fn whereabouts(&self, scope: &Scope) -> Result<Whereabouts> {
        let Found { row, here } = self.home()?.located(scope).await?;
        Ok(match row {
            Some(Located { place, moving }) => Whereabouts { place, moving: moving.is_some() },
            None if here => {
                Whereabouts { place: self.places.home().name().to_owned(), moving: false }
            }
            None => Whereabouts { place: self.fresh(scope.key())?, moving: false },
        })
    }

    /// Where something new goes.
    fn fresh(&self, key: &str) -> Result<String> {
        chosen(self.places.taking(), key).map(str::to_owned).ok_or_else(|| {
            let text = "no place takes new agents: set `takes_new` of one";
            Error::new(Code::NotReady, text)
        })
    }

    /// Sends a request with a body that is held to the place of its agent, and after it if the agent moves meanwhile. A place that
    /// does not have the agent has done nothing, so that the request can be sent on.
    async fn to_agent(&self, parts: &Parts, body: &Bytes, scope: &Scope) -> Response {
        let begun = clock::now();
        let (first, longest) = MOVE_WAIT_PAUSE_MS;
        let (mut hops, mut pause) = (0, first);
        let mut at = match self.guess(scope) {
            Some(place) => place,
            None => match self.whereabouts(scope).await {
                Ok(found) => found.place,
                Err(error) => return error.into_problem(),
            },
        };
        loop {
            let place = match self.places.named(&at) {
                Ok(place) => place,
                Err(error) => return error.into_problem(),
            };
            let request = Request::from_parts(parts.clone(), Body::from(body.clone()));
            let response = place.answer(request).await;
            let code = response.extensions().get::<Code>().copied();
            let Some(Code::AgentNotFound | Code::AgentElsewhere | Code::AgentMoving) = code else {
                self.note(scope, &at);
                return response;
            };
            let found = match self.whereabouts(scope).await {
                Ok(found) => found,
                Err(error) => return error.into_problem(),
            };
            if found.place != at && hops < HOPS_MAX {
                hops += 1;
                at = found.place;
                continue;
            }
            let moving = found.moving || code == Some(Code::AgentMoving);
            let waited = begun.elapsed() > Duration::from_millis(MOVE_WAIT_MS_MAX);
            if !moving || waited {
                return response;
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// A conversation that names no agent goes where most of it is known; a new one to a place that takes new agents.
    async fn unnamed(&self, parts: &Parts, body: &Bytes) -> Result<Response> {
        let ask = |place: &Arc<Place>| {
            let (place, mut parts) = (Arc::clone(place), parts.clone());
            parts.extensions.insert(HowMuch);
            let request = Request::from_parts(parts, Body::from(body.clone()));
            tokio::spawn(async move {
                let answer = place.answer(request).await;
                (place, answer)
            })
        };
        let asked: Vec<_> = self.places.all().iter().map(ask).collect();
        let mut best: Option<(Known, Arc<Place>)> = None;
        let mut refused = None;
        for asked in asked {
            let (place, answer) = asked.await.map_err(|e| {
                Error::new(Code::Internal, "a place was not asked to the end").caused_by(e)
            })?;
            match answer.extensions().get::<Known>() {
                Some(known) if known.0 == 0 => {}
                Some(known) if best.as_ref().is_some_and(|(most, _)| most >= known) => {}
                Some(known) => best = Some((*known, place)),
                None => refused = Some(answer),
            }
        }
        let place = match (best, refused) {
            (Some((_, place)), _) => place,
            // Where one place cannot say, nobody may begin anew what may stand there.
            (None, Some(refused)) => return Ok(refused),
            (None, None) => {
                let digest = sha256(&String::from_utf8_lossy(body));
                Arc::clone(self.places.named(&self.fresh(&digest)?)?)
            }
        };
        Ok(place.answer(Request::from_parts(parts.clone(), Body::from(body.clone()))).await)
    }
}

/// Where an agent is.
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

/// Holds the body, so that it can be sent on.
async fn held(fleet: &Fleet, agent: &str, request: Request) -> Response {
    let Ok(scope) = fleet.scope(agent) else {
        // A name that is none is refused as ever.
        return fleet.places.home().answer(request).await;
    };
    match body_of(fleet, request).await {
        Ok((parts, bytes, _place)) => fleet.to_agent(&parts, &bytes, &scope).await,
        Err(error) => error.into_problem(),
    }
}

/// Reads the body of a request, if there is room for one more.
async fn body_of(fleet: &Fleet, request: Request) -> Result<(Parts, Bytes, OwnedSemaphorePermit)> {
    let place = Arc::clone(&fleet.in_flight).try_acquire_owned().map_err(|_| {
        let text =
            format!("more than {CALLS_IN_FLIGHT_MAX} calls at once: retry later with the same key");
        Error::new(Code::Overloaded, text)
    })?;
    let (parts, body) = request.into_parts();
    Ok((parts, Bytes::from(bytes_within(body, HISTORY_BYTES_MAX).await?), place))
}

/// A body that is too long to be held goes to the place that the directory says.
async fn streamed(State(fleet): Fleeted, Path(agent): Path<String>, request: Request) -> Response {
    let Ok(scope) = fleet.scope(&agent) else {
        return fleet.places.home().answer(request).await;
    };
    let place = async {
        let found = fleet.whereabouts(&scope).await?;
        fleet.places.named(&found.place)
    };
    match place.await {
        Ok(place) => place.answer(request).await,
        Err(error) => error.into_problem(),
    }
}

async fn conversation(State(fleet): Fleeted, request: Request) -> Response {
    let (parts, bytes, _place) = match body_of(&fleet, request).await {
        Ok(read) => read,
        Err(error) => return error.into_problem(),
    };
    let named = || {
        let model = object_of(&bytes).ok()?.get("model")?.as_str()?.to_owned();
        let header = parts.headers.get(AGENT).and_then(|value| value.to_str().ok());
        let agent = Named::of(None, &model, header).ok()?.agent?;
        fleet.scope(&agent).ok()
    };
    if let Some(scope) = named() {
        return fleet.to_agent(&parts, &bytes, &scope).await;
    }
    fleet.unnamed(&parts, &bytes).await.unwrap_or_else(|error| error.into_problem())
}
