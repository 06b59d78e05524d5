//! The scripted model's socket: `POST …/chat/completions`, whole or streamed, each request told to a file if that is wanted.

use std::fs::File;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::rude::overflow_text;
use super::said::Said;
use super::script::Script;
use super::seen::Seen;

/// Longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 64 << 20;
/// Pieces of a stream that wait to be read.
const PIECES_WAITING: usize = 16;

/// A model as it stands behind its socket.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) script: Script,
    /// Tokens of its context; a request that needs more is refused. 0: whatever comes.
    pub(super) window: u64,
    /// What it counts for each thousand tokens.
    pub(super) permille: u64,
    /// Where each request is told, one JSON line each.
    pub(super) log: Option<Mutex<File>>,
    pub(super) asked: AtomicU64,
}

/// The routes.
pub(super) fn router(model: Arc<Model>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/chat/completions", post(complete))
        .route("/v1/models", get(|| async { json_answer(StatusCode::OK, &models()) }))
        .route("/healthz", get(|| async { "ok" }))
        .with_state(model)
}

fn models() -> Value {
    json!({"object": "list", "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "vctx"}]})
}

fn json_answer(status: StatusCode, body: &Value) -> Response {
    text_answer(status, body.to_string())
}

fn text_answer(status: StatusCode, body: String) -> Response {
    let mut response = (status, body).into_response();
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn wrong(message: &str) -> Response {
    let body = json!({"error": {"message": message, "type": "invalid_request_error"}});
    json_answer(StatusCode::BAD_REQUEST, &body)
}

async fn complete(State(model): State<Arc<Model>>, body: Body) -> Response {
    let limited = http_body_util::Limited::new(body, REQUEST_BYTES_MAX);
    let Ok(bytes) = limited.collect().await else { return wrong("the body cannot be read") };
    let Ok(Value::Object(body)) = serde_json::from_slice::<Value>(&bytes.to_bytes()) else {
        return wrong("the body is no JSON object");
    };
    let before = model.asked.fetch_add(1, Ordering::SeqCst);
    let seen = Seen::new(body.clone(), before);
    let said = model.answer(&seen);
    if let Err(error) = model.tell(&seen, &said, body) {
        eprintln!("scripted-model: cannot write its log: {error}");
    }
    model.respond(&seen, said).await
}

impl Model {
    fn answer(&self, seen: &Seen) -> Said {
        let needs = (seen.tokens() + seen.max_tokens()) * self.permille / 1000;
        if self.window > 0 && needs > self.window {
            return Said::instead(400, overflow_text(self.window));
        }
        self.script.answer(seen)
    }

    fn tell(&self, seen: &Seen, said: &Said, body: Map<String, Value>) -> io::Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let status = said.manners.instead.as_ref().map_or(200, |(status, _)| *status);
        let line = json!({"n": seen.before, "status": status, "prompt_tokens": seen.tokens(),
            "max_tokens": seen.max_tokens(), "request": body});
        let mut file = log.lock().expect("no holder panics");
        writeln!(file, "{line}")
    }

    async fn respond(&self, seen: &Seen, said: Said) -> Response {
        let pause = Duration::from_millis(said.manners.pause_ms);
        if let Some((status, body)) = &said.manners.instead {
            tokio::time::sleep(pause).await;
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::OK);
            let mut response = text_answer(status, body.clone());
            if let Some(seconds) = said.manners.retry_after_s {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            return response;
        }
        if seen.streams() {
            let pieces = said.pieces(seen, self.permille).into_iter();
            let pieces = pieces.map(|piece| format!("data: {piece}\n\n")).collect();
            return streamed(pieces, pause, said.manners.cut_after, "text/event-stream");
        }
        let whole = said.whole(seen, self.permille).to_string();
        match said.manners.cut_after {
            // Half of it, then nothing.
            Some(_) => {
                let half: String = whole.chars().take(whole.chars().count() / 2).collect();
                streamed(vec![half, String::new()], pause, Some(1), "application/json")
            }
            None => {
                waited(pause).await;
                text_answer(StatusCode::OK, whole)
            }
        }
    }
}

/// A pause; none at all where none is asked for, since the shortest sleep takes a millisecond.
async fn waited(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}

/// A body in pieces, with a pause before each, cut after so many.
fn streamed(
    pieces: Vec<String>,
    pause: Duration,
    cut_after: Option<usize>,
    kind: &'static str,
) -> Response {
    let (give, take) = mpsc::channel(PIECES_WAITING);
    tokio::spawn(async move {
        for (at, piece) in pieces.into_iter().enumerate() {
            if cut_after == Some(at) {
                let cut = io::Error::new(io::ErrorKind::ConnectionAborted, "cut on purpose");
                // The reader is gone as it was meant to be.
                drop(give.send(Err(cut)).await);
                return;
            }
            waited(pause).await;
            if give.send(Ok(Bytes::from(piece))).await.is_err() {
                return;
            }
        }
    });
    let mut response = Response::new(Body::new(Pieces(take)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A body that comes piece by piece.
struct Pieces(mpsc::Receiver<io::Result<Bytes>>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
