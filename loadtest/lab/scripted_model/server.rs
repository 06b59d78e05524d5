//! The scripted model's socket: answers `POST …/chat/completions`, whole or streamed, and can
//! record each request in a file.

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

use super::answer::ModelAnswer;
use super::request::ModelRequest;
use super::rude::overflow_text;
use super::script::Script;

/// Maximum size of a request, in bytes.
const REQUEST_BYTES_MAX: usize = 64 << 20;
/// Capacity of the channel between sender and reader of a stream, in pieces.
const PIECES_WAITING: usize = 16;

/// A scripted model that serves requests on a socket.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) script: Script,
    /// Size of the model's context in tokens. Larger requests are refused; 0 means no limit.
    pub(super) window: u64,
    /// Number of tokens that the model counts for each thousand actual tokens, which simulates a
    /// different tokenizer.
    pub(super) permille: u64,
    /// File that records each request as one JSON line.
    pub(super) log: Option<Mutex<File>>,
    pub(super) asked: AtomicU64,
}

/// Returns the router with the HTTP routes of the scripted model.
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
    let request = ModelRequest::new(body.clone(), before);
    let answer = model.answer(&request);
    if let Err(error) = model.tell(&request, &answer, body) {
        eprintln!("scripted-model: cannot write its log: {error}");
    }
    model.respond(&request, answer).await
}

impl Model {
    fn answer(&self, request: &ModelRequest) -> ModelAnswer {
        let needs = (request.tokens() + request.max_tokens()) * self.permille / 1000;
        if self.window > 0 && needs > self.window {
            return ModelAnswer::instead(400, overflow_text(self.window));
        }
        self.script.answer(request)
    }

    fn tell(
        &self,
        request: &ModelRequest,
        answer: &ModelAnswer,
        body: Map<String, Value>,
    ) -> io::Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let status = answer.manners.instead.as_ref().map_or(200, |(status, _)| *status);
        let line = json!({"n": request.before, "status": status, "prompt_tokens": request.tokens(),
            "max_tokens": request.max_tokens(), "request": body});
        let mut file = log.lock().expect("no holder panics");
        writeln!(file, "{line}")
    }

    async fn respond(&self, request: &ModelRequest, answer: ModelAnswer) -> Response {
        let pause = Duration::from_millis(answer.manners.pause_ms);
        if let Some((status, body)) = &answer.manners.instead {
            tokio::time::sleep(pause).await;
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::OK);
            let mut response = text_answer(status, body.clone());
            if let Some(seconds) = answer.manners.retry_after_s {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            return response;
        }
        if request.streams() {
            let pieces = answer.pieces(request, self.permille).into_iter();
            let pieces = pieces.map(|piece| format!("data: {piece}\n\n")).collect();
            return streamed(pieces, pause, answer.manners.cut_after, "text/event-stream");
        }
        let whole = answer.whole(request, self.permille).to_string();
        match answer.manners.cut_after {
            // Sends half of the answer's body, then closes the connection.
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

/// Sleeps for the given time. Does not sleep if the time is zero, because the shortest sleep takes
/// a millisecond.
async fn waited(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}

/// Streams a body in pieces, with a pause before each piece. Closes the connection after a given
/// number of pieces.
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
                // A send error is ignored, because the reader of the stream may already have
                // disconnected.
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

/// A body that is sent piece by piece.
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
