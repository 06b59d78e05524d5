//! What is asked of all places at once: their agents, their models, whether they are ready.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::{Extension, extract::FromRequestParts as _};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::fleet::Fleet;
use super::place::Place;
use crate::http::IntoProblem as _;
use crate::http::{check_operator, json_answer};
use vctx_base::socket::PeerActor;
use vctx_core::error::{Code, Error, Result};

/// What every place answers to a request without a body, or the refusal of one; with the names of those that are away.
async fn of_all(fleet: &Fleet, request: Request) -> Result<(Vec<(String, Value)>, Vec<String>)> {
    let (parts, _) = request.into_parts();
    let ask = |place: &Arc<Place>| {
        let place = Arc::clone(place);
        let request = Request::from_parts(parts.clone(), Body::empty());
        tokio::spawn(async move {
            let opened = place.opened().is_ok();
            (place.name().to_owned(), opened, place.answer(request).await)
        })
    };
    let asked: Vec<_> = fleet.places.all().iter().map(ask).collect();
    let (mut told, mut away) = (Vec::new(), Vec::new());
    for asked in asked {
        let (name, opened, answer) = asked.await.map_err(|e| {
            Error::new(Code::Internal, "a place was not asked to the end").caused_by(e)
        })?;
        let passing = answer.status().is_server_error();
        match (opened, answer.status().is_success()) {
            (true, true) => {
                let broken = |e: axum::Error| {
                    Error::new(Code::Internal, "the answer of a place was cut off").caused_by(e)
                };
                let bytes = answer.into_body().collect().await.map_err(broken)?.to_bytes();
                let value = serde_json::from_slice(&bytes).map_err(|e| {
                    Error::new(Code::Internal, "the answer of a place is no JSON").caused_by(e)
                })?;
                told.push((name, value));
            }
            (true, false) if !passing => {
                let code = answer.extensions().get::<Code>().copied().unwrap_or(Code::Internal);
                return Err(Error::new(code, "a place refused the request"));
            }
            _ => away.push(name),
        }
    }
    Ok((told, away))
}

/// The agents of all places.
pub(super) async fn agents(State(fleet): State<Arc<Fleet>>, request: Request) -> Response {
    let (told, away) = match of_all(&fleet, request).await {
        Ok(all) => all,
        Err(error) => return error.into_problem(),
    };
    let mut agents = Vec::new();
    for (name, mut value) in told {
        let Value::Array(some) = value["agents"].take() else { continue };
        agents.extend(some.into_iter().map(|mut agent| {
            agent["place"] = name.as_str().into();
            agent
        }));
    }
    agents.sort_by(|a, b| a["agent"].as_str().cmp(&b["agent"].as_str()));
    json_answer(StatusCode::OK, &json!({"agents": agents, "places_away": away}))
}

/// The models of all places: what answers, and each agent.
pub(super) async fn models(State(fleet): State<Arc<Fleet>>, request: Request) -> Response {
    let (told, _) = match of_all(&fleet, request).await {
        Ok(all) => all,
        Err(error) => return error.into_problem(),
    };
    let mut data: Vec<Value> = Vec::new();
    for (_, mut value) in told {
        let Value::Array(some) = value["data"].take() else { continue };
        data.extend(some.into_iter().filter(|one| one["id"].is_string()));
    }
    // The model itself stands at the head of each list.
    let mut seen = std::collections::HashSet::new();
    data.retain(|one| seen.insert(one["id"].as_str().unwrap_or_default().to_owned()));
    json_answer(StatusCode::OK, &json!({"object": "list", "data": data}))
}

/// The places, and whether they are reached.
pub(super) async fn places(State(fleet): State<Arc<Fleet>>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let peer = Extension::<PeerActor>::from_request_parts(&mut parts, &()).await;
    let Ok(Extension(peer)) = peer else {
        return Error::new(Code::Internal, "the caller is not known").into_problem();
    };
    match check_operator(peer) {
        Ok(()) => json_answer(StatusCode::OK, &fleet.places.told()),
        Err(error) => error.into_problem(),
    }
}

/// Whether the home place is ready, and which others are.
pub(super) async fn ready(State(fleet): State<Arc<Fleet>>, request: Request) -> Response {
    let answer = fleet.places.home().answer(request).await;
    if !answer.status().is_success() {
        return answer;
    }
    let Ok(bytes) = answer.into_body().collect().await else {
        return Error::new(Code::NotReady, "the answer of the home place was cut off")
            .into_problem();
    };
    let Ok(mut told) = serde_json::from_slice::<Value>(&bytes.to_bytes()) else {
        return Error::new(Code::NotReady, "the answer of the home place is no JSON")
            .into_problem();
    };
    told["places"] = fleet.places.told()["places"].take();
    json_answer(StatusCode::OK, &told)
}
