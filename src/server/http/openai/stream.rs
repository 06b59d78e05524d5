//! An answer in pieces, as they come; a client that goes away cancels the run, and what is written stands.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::mpsc;

use super::converse::Settled;
use super::reply::{again, answer_of, head_of, run_of, standing};
use super::routes::crowded;
use crate::agent_loop::{RunEnd, RunEvent};
use crate::http::http::Front;
use crate::http::runs::{begun, ended, event_stream};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::PIECES_WAITING;
use vctx_core::openai::{Answer, BETWEEN_TURNS, ChatStream, Conversation, Head, ResponsesStream};
use vctx_core::policy::Principal;

/// A form of an answer in pieces.
pub(super) enum Pieces {
    Chat(ChatStream),
    Responses(Box<ResponsesStream>),
}

impl Pieces {
    fn begin(&mut self) -> String {
        match self {
            Self::Chat(form) => plain(&form.begin()),
            Self::Responses(form) => form.begin().iter().map(named).collect(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        match self {
            Self::Chat(form) => plain(&form.text(text)),
            Self::Responses(form) => form.text(text).iter().map(named).collect(),
        }
    }

    fn end(&mut self, answer: &Answer) -> String {
        match self {
            Self::Chat(form) => {
                let pieces: String = form.end(answer).iter().map(plain).collect();
                format!("{pieces}data: [DONE]\n\n")
            }
            Self::Responses(form) => form.end(answer).iter().map(named).collect(),
        }
    }

    fn fault(&mut self, error: &Error) -> String {
        match self {
            Self::Chat(_) => plain(&ChatStream::fault(error)),
            Self::Responses(form) => named(&form.fault(error)),
        }
    }
}

fn plain(piece: &Value) -> String {
    format!("data: {piece}\n\n")
}

fn named(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}

/// An answer on its way to a client that reads it in pieces.
struct Telling {
    front: Arc<Front>,
    principal: Principal,
    settled: Settled,
    conversation: Arc<Conversation>,
    head: Head,
    pieces: Pieces,
    /// What the client was told so far.
    told: String,
    /// Whether a further inference began after what was told.
    next_turn: bool,
}

/// Runs, and answers in pieces. Until the first of them a fault is a status of its own.
pub(super) async fn streamed(
    front: Arc<Front>,
    principal: Principal,
    settled: Settled,
    conversation: Arc<Conversation>,
    form: impl FnOnce(Head) -> Pieces,
) -> Result<Response> {
    let head = head_of(&settled, &conversation);
    let mut pieces = form(head.clone());
    if let Some(known) = settled.known.clone() {
        let answer = again(head, known);
        return Ok(at_once(whole(&mut pieces, "", &answer)));
    }
    let stands = standing(&front.executor, &principal, &settled, &conversation).await?;
    let told = stands.map(|stands| stands.seen.text).unwrap_or_default();
    let run = run_of(&principal, &settled, &conversation);
    let (mut events, work) = begun(&front, run).ok_or_else(crowded)?;
    let mut telling =
        Telling { front, principal, settled, conversation, head, pieces, told, next_turn: false };
    let earlier = telling.told.clone();
    let Some(first) = telling.next(&mut events).await else {
        let answer = telling.answer(&ended(work.await)?).await?;
        return Ok(at_once(whole(&mut telling.pieces, "", &answer)));
    };
    let (give, take) = mpsc::channel(PIECES_WAITING);
    let mut beginning = telling.pieces.begin();
    for text in [earlier, first].iter().filter(|text| !text.is_empty()) {
        beginning.push_str(&telling.pieces.text(text));
    }
    tokio::spawn(async move {
        // A client that is gone takes nothing; the receiver of events goes with this task, and that cancels the run.
        if give.send(beginning).await.is_err() {
            return;
        }
        loop {
            let text = tokio::select! {
                text = telling.next(&mut events) => text,
                () = give.closed() => return,
            };
            let Some(text) = text else { break };
            if give.send(telling.pieces.text(&text)).await.is_err() {
                return;
            }
        }
        let last = telling.last(ended(work.await)).await;
        drop(give.send(last).await);
    });
    Ok(event_stream(Stream(take)))
}

impl Telling {
    /// The next text to be told; none when the run is over.
    async fn next(&mut self, events: &mut mpsc::Receiver<RunEvent>) -> Option<String> {
        loop {
            match events.recv().await? {
                RunEvent::Text { text } => {
                    let parted = std::mem::take(&mut self.next_turn) && !self.told.is_empty();
                    let text = if parted { format!("{BETWEEN_TURNS}{text}") } else { text };
                    self.told.push_str(&text);
                    return Some(text);
                }
                RunEvent::Turn { .. } => {
                    self.next_turn = true;
                    if let Some(text) = self.said_meanwhile().await {
                        self.told.push_str(&text);
                        return Some(text);
                    }
                }
                RunEvent::Called { .. } | RunEvent::Returned { .. } | RunEvent::Waiting { .. } => {}
            }
        }
    }

    /// What calls of the turns before said to the user, which no piece of text told.
    async fn said_meanwhile(&self) -> Option<String> {
        let (executor, conversation) = (&self.front.executor, &*self.conversation);
        let stands = standing(executor, &self.principal, &self.settled, conversation).await;
        // What cannot be read now is told with the end.
        let text = stands.ok().flatten()?.seen.text;
        text.strip_prefix(&self.told).filter(|rest| !rest.is_empty()).map(str::to_owned)
    }

    async fn answer(&self, end: &RunEnd) -> Result<Answer> {
        let (executor, head) = (&self.front.executor, self.head.clone());
        let told = Some(self.told.as_str());
        let of = (&self.settled, &*self.conversation);
        answer_of(executor, &self.principal, of, head, end, told).await
    }

    /// The last pieces: what was not told yet, and the end.
    async fn last(&mut self, outcome: Result<RunEnd>) -> String {
        let outcome = match outcome {
            Ok(end) => self.answer(&end).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(answer) => {
                let rest = answer.seen.text.strip_prefix(&self.told).unwrap_or_default().to_owned();
                let rest = if rest.is_empty() { rest } else { self.pieces.text(&rest) };
                format!("{rest}{}", self.pieces.end(&answer))
            }
            Err(error) => {
                if error.code.status() >= 500 && error.code != Code::ModelUnavailable {
                    tracing::error!(
                        code = error.code.text(),
                        error = error.chain(),
                        "an answer was cut off"
                    );
                }
                self.pieces.fault(&error)
            }
        }
    }
}

/// All pieces of an answer of which `told` was told already.
fn whole(pieces: &mut Pieces, told: &str, answer: &Answer) -> String {
    let mut all = pieces.begin();
    let rest = answer.seen.text.strip_prefix(told).unwrap_or_default();
    if !rest.is_empty() {
        all.push_str(&pieces.text(rest));
    }
    all.push_str(&pieces.end(answer));
    all
}

fn at_once(text: String) -> Response {
    event_stream(http_body_util::Full::new(Bytes::from(text)))
}

/// A body that ends when nobody has anything more to tell.
struct Stream(mpsc::Receiver<String>);

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        let next = ready!(self.0.poll_recv(context));
        Poll::Ready(next.map(|text| Ok(Frame::data(Bytes::from(text)))))
    }
}
