//! Answers requests that concern all databases: the lists of agents and models, and readiness.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::{Extension, extract::FromRequestParts as _};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::database::Database;
use super::fleet::Fleet;
use crate::executor::{AGENTS_PAGE, Executor};
use crate::http::IntoProblem as _;
use crate::http::{Query, check_operator, json_answer};
use vctx_base::socket::PeerActor;
use vctx_core::error::{Code, Error, Result};
use vctx_core::trust::{Actor, Principal};

/// Sends a request to a database. Returns the answer, `None` if the database is unavailable, or an
/// error if the database refused the request.
async fn asked(place: &Database, request: Request) -> Result<Option<Value>> {
    let opened = place.opened().is_ok();
    let answer = place.answer(request).await;
    if !opened || answer.status().is_server_error() {
        return Ok(None);
    }
    if !answer.status().is_success() {
        let code = answer.extensions().get::<Code>().copied().unwrap_or(Code::Internal);
        return Err(Error::new(code, "a database refused the request"));
    }
    let broken = |e: axum::Error| {
        Error::new(Code::Internal, "the answer of a database was cut off").caused_by(e)
    };
    let bytes = answer.into_body().collect().await.map_err(broken)?.to_bytes();
    serde_json::from_slice(&bytes).map(Some).map_err(|e| {
        Error::new(Code::Internal, "the answer of a database is not JSON").caused_by(e)
    })
}

/// Sends a request without a body to all databases. Returns the answers of the available databases,
/// or an error if a database refused the request.
async fn of_all(fleet: &Fleet, request: Request) -> Result<Vec<Value>> {
    let (parts, _) = request.into_parts();
    let ask = |place: &Arc<Database>| {
        let place = Arc::clone(place);
        let request = Request::from_parts(parts.clone(), Body::empty());
        tokio::spawn(async move { asked(&place, request).await })
    };
    let running: Vec<_> = fleet.places.all().iter().map(ask).collect();
    let mut told = Vec::new();
    for task in running {
        let answer = task.await.map_err(|e| {
            Error::new(Code::Internal, "a request to a database panicked").caused_by(e)
        })?;
        told.extend(answer?);
    }
    Ok(told)
}

/// Lists the agents of all databases: first those of the home database by name, then those of the
/// next database.
pub(super) async fn agents(State(fleet): State<Arc<Fleet>>, request: Request) -> Response {
    match page_of_agents(&fleet, request).await {
        Ok(page) => json_answer(StatusCode::OK, &page),
        Err(error) => error.into_problem(),
    }
}

/// Returns a page of the list of agents. `next` in the answer names the database and the agent
/// after which the next page begins.
async fn page_of_agents(fleet: &Fleet, request: Request) -> Result<Value> {
    let (parts, _) = request.into_parts();
    let query = Query::parse(parts.uri.query(), "after and limit")?;
    let places = fleet.places.all();
    let unknown = || Error::argument("after", "use `next` of the page before");
    let (first, mut after) = match query.text("after").filter(|after| !after.is_empty()) {
        None => (0, ""),
        Some(given) => {
            let (place, agent) = given.split_once('/').ok_or_else(unknown)?;
            (places.iter().position(|one| one.name() == place).ok_or_else(unknown)?, agent)
        }
    };
    let mut left = query.number("limit")?.unwrap_or(AGENTS_PAGE.0);
    let (mut agents, mut away, mut next) = (Vec::new(), Vec::new(), Value::Null);
    for place in &places[first..] {
        let mut parts = parts.clone();
        parts.uri =
            format!("/v1/agents?after={after}&limit={left}").parse().map_err(|_| unknown())?;
        after = "";
        let Some(mut page) = asked(place, Request::from_parts(parts, Body::empty())).await? else {
            away.push(place.name());
            continue;
        };
        let Value::Array(some) = page["agents"].take() else { continue };
        left = left.saturating_sub(some.len() as u64);
        agents.extend(some.into_iter().map(|mut agent| {
            agent["place"] = place.name().into();
            agent
        }));
        if let Some(last) = page["next"].as_str() {
            next = format!("{}/{last}", place.name()).into();
            break;
        }
    }
    agents.sort_by(|a, b| a["agent"].as_str().cmp(&b["agent"].as_str()));
    Ok(json!({"agents": agents, "next": next, "places_away": away}))
}

/// Compares the agents of all databases with the checkpoints, which these databases share.
pub(super) async fn ledgers(
    State(fleet): State<Arc<Fleet>>,
    Extension(peer): Extension<PeerActor>,
) -> Response {
    let actor = Actor { uid: peer.uid, pid: peer.pid, label: None };
    let principal = Principal { actor, tenant: fleet.tenant.clone(), called: None };
    let told = async {
        let (mut open, mut away) = (vec![fleet.home()?], Vec::new());
        for place in &fleet.places.all()[1..] {
            match place.opened() {
                Ok(opened) => open.push(opened.executor),
                Err(_) => away.push(place.name().to_owned()),
            }
        }
        Executor::ledgers_of(&open, away, &principal).await
    };
    match told.await {
        Ok(told) => json_answer(StatusCode::OK, &told),
        Err(error) => error.into_problem(),
    }
}

/// Lists the models of all databases: the chat model, the embedder, and each agent as a model.
pub(super) async fn models(State(fleet): State<Arc<Fleet>>, request: Request) -> Response {
    let told = match of_all(&fleet, request).await {
        Ok(all) => all,
        Err(error) => return error.into_problem(),
    };
    let mut data: Vec<Value> = Vec::new();
    for mut value in told {
        let Value::Array(some) = value["data"].take() else { continue };
        data.extend(some.into_iter().filter(|one| one["id"].is_string()));
    }
    // Each database's list begins with the same chat model and embedder.
    let mut seen = std::collections::HashSet::new();
    data.retain(|one| seen.insert(one["id"].as_str().unwrap_or_default().to_owned()));
    json_answer(StatusCode::OK, &json!({"object": "list", "data": data}))
}

/// Lists the databases, and says for each database whether the server has reached it.
pub(super) async fn places(State(fleet): State<Arc<Fleet>>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let peer = Extension::<PeerActor>::from_request_parts(&mut parts, &()).await;
    let Ok(Extension(peer)) = peer else {
        return Error::new(Code::Internal, "the caller is not known").into_problem();
    };
    match check_operator(peer) {
        Ok(()) => json_answer(StatusCode::OK, &fleet.places.state_value()),
        Err(error) => error.into_problem(),
    }
}

/// Reports whether the home database is ready, and which of the other databases are ready.
pub(super) async fn ready(State(fleet): State<Arc<Fleet>>, request: Request) -> Response {
    let answer = fleet.places.home().answer(request).await;
    if !answer.status().is_success() {
        return answer;
    }
    let Ok(bytes) = answer.into_body().collect().await else {
        return Error::new(Code::NotReady, "the answer of the home database was cut off")
            .into_problem();
    };
    let Ok(mut told) = serde_json::from_slice::<Value>(&bytes.to_bytes()) else {
        return Error::new(Code::NotReady, "the answer of the home database is not JSON")
            .into_problem();
    };
    told["places"] = fleet.places.state_value()["places"].take();
    json_answer(StatusCode::OK, &told)
}
