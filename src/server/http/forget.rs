//! HTTP routes that start a forget operation and list the manifests of all forget operations.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value};

use super::body::object;
use super::caller::Caller;
use super::envelope::envelope;
use super::reply::json_answer;
use crate::executor::CallRequest;
use vctx_core::error::Result;
use vctx_core::tools::{Forget, decode_as};

pub(super) async fn forget(caller: Caller, body: Body) -> Result<Response> {
    let (arguments, _room) = object(body).await?;
    forgotten(&caller, arguments).await
}

/// Deletes an agent: forgets the whole agent.
pub(super) async fn delete(caller: Caller, _body: Body) -> Result<Response> {
    forgotten(&caller, Map::from_iter([("all".to_owned(), true.into())])).await
}

async fn forgotten(caller: &Caller, mut arguments: Map<String, Value>) -> Result<Response> {
    let (key, guard) = envelope(&caller.headers, &mut arguments)?;
    let forget = decode_as::<Forget>(arguments.clone())?.checked()?;
    let whose = (caller.principal.clone(), caller.agent.clone());
    let request = CallRequest::internal(whose, forget.clone(), []);
    let request = CallRequest { arguments, key, guard, ..request };
    let manifest = caller.executor().forget(&request, &forget).await?;
    let status = match manifest["state"] == "under_way" {
        true => StatusCode::ACCEPTED,
        false => StatusCode::OK,
    };
    Ok(json_answer(status, &manifest))
}

pub(super) async fn list(caller: Caller) -> Result<Value> {
    caller.executor().forgettings(&caller.principal, &caller.agent).await
}
