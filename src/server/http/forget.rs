//! `POST` and `GET /v1/agents/{agent}/forget`: what is to be forgotten, and the manifests of what was.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::http::{Named, Shared, answer, envelope, json_answer, object, own_task};
use crate::executor::CallRequest;
use vctx_base::socket::PeerActor;
use vctx_core::tools::{Call, Forget, decode_as};

pub(super) async fn forget(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let principal = front.principal(peer, &headers);
    own_task(&Arc::clone(&front), async move {
        let mut arguments = object(body).await?;
        let (key, guard) = envelope(&headers, &mut arguments)?;
        let forget = decode_as::<Forget>(arguments.clone())?.checked()?;
        let request = CallRequest {
            principal,
            agent,
            call: Call::Forget(Box::new(forget.clone())),
            arguments,
            key,
            guard,
            wording: None,
            capture: None,
        };
        let told = front.executor.forget(&request, &forget).await?;
        let under_way = told["state"] == "under_way";
        Ok(json_answer(if under_way { StatusCode::ACCEPTED } else { StatusCode::OK }, &told))
    })
    .await
}

pub(super) async fn list(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    answer(front.executor.forgettings(&principal, &agent).await)
}
