//! The route `/v1/embeddings`: vectors of the texts of a request, made by the server's embedder.
//! Nothing is stored.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::routes::{crowded, refused_openai};
use crate::http::body::{grow, object};
use crate::http::caller::Caller;
use crate::http::reply::json_answer;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::Encoding;
use vctx_core::openai::{embeddings_answer, parse_embeddings};

/// Memory of one component of a vector while an answer is made, in bytes: the component, its JSON
/// value and its text.
const COMPONENT_BYTES: u64 = 48;

/// Answers a request for the vectors of texts.
pub(in crate::http) async fn embeddings(caller: Caller, body: Body) -> Response {
    match answered(&caller, body).await {
        Ok(answer) => json_answer(StatusCode::OK, &answer),
        Err(error) => refused_openai(&error),
    }
}

async fn answered(caller: &Caller, body: Body) -> Result<Value> {
    let (body, mut room) = object(body).await?;
    let made = caller.executor().embedder();
    let request = parse_embeddings(body, made)?;
    let components = request.texts.len() as u64 * u64::from(made.dimension);
    grow(&mut room, components * COMPONENT_BYTES).await?;
    let permit = Arc::clone(&caller.front.tasks).try_acquire_owned().map_err(|_| crowded())?;
    let vectors = caller.executor().embed(&request.texts).await?;
    let (counter, model) = (caller.executor().counter(Encoding::default()), made.model_id.clone());
    let write = move || {
        let _held = (permit, room);
        let tokens = request.texts.iter().map(|text| counter.count(text)).sum();
        embeddings_answer(&vectors, request.format, &model, tokens)
    };
    let failed =
        |error| Error::new(Code::Internal, "the vectors were not written").caused_by(error);
    tokio::task::spawn_blocking(write).await.map_err(failed)
}
