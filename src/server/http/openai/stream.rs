//! Streams an answer to a client.
//!
//! If the client disconnects, the run is cancelled, but its written messages stay.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::converse::StoredConversation;
use super::reply::{answer_of, head_of, known_answer, run_of, visible_answer, visible_upto};
use super::routes::{HeldConversation, crowded};
use crate::agent_loop::{RunEnd, RunEvent};
use crate::http::caller::Front;
use crate::http::runs::{begin_run, event_stream, outcome_of};
use vctx_base::room::Room;
use vctx_core::anthropic::MessagesStream;
use vctx_core::error::{Code, Error, Result};
use vctx_core::openai::{Answer, BETWEEN_TURNS, ChatStream, Head, ResponsesStream, fault};
use vctx_core::trust::Principal;

/// Maximum number of pieces of an answer that wait to be read by the client.
const PIECES_WAITING: usize = 64;

/// Format in which an answer is streamed.
pub(super) enum Pieces {
    Chat(ChatStream),
    Responses(Box<ResponsesStream>),
    Messages(Box<MessagesStream>),
}

impl Pieces {
    fn begin(&mut self) -> String {
        match self {
            Self::Chat(form) => plain(&form.begin()),
            Self::Responses(form) => form.begin().iter().map(event_text).collect(),
            Self::Messages(form) => form.begin().iter().map(event_text).collect(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        match self {
            Self::Chat(form) => plain(&form.text(text)),
            Self::Responses(form) => form.text(text).iter().map(event_text).collect(),
            Self::Messages(form) => form.text(text).iter().map(event_text).collect(),
        }
    }

    fn end(&mut self, answer: &Answer) -> String {
        match self {
            Self::Chat(form) => {
                let pieces: String = form.end(answer).iter().map(plain).collect();
                format!("{pieces}data: [DONE]\n\n")
            }
            Self::Responses(form) => form.end(answer).iter().map(event_text).collect(),
            Self::Messages(form) => form.end(answer).iter().map(event_text).collect(),
        }
    }

    fn fault(&mut self, error: &Error) -> String {
        match self {
            Self::Chat(_) => plain(&fault(error)),
            Self::Responses(form) => event_text(&form.fault(error)),
            Self::Messages(form) => event_text(&form.fault(error)),
        }
    }
}

fn plain(piece: &Value) -> String {
    format!("data: {piece}\n\n")
}

fn event_text(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}

/// An answer while it is streamed.
struct AnswerStream {
    front: Arc<Front>,
    principal: Principal,
    stored: StoredConversation,
    conversation: Arc<HeldConversation>,
    head: Head,
    pieces: Pieces,
    /// The text that was sent so far.
    sent: String,
    /// Whether another inference began after the sent text.
    next_turn: bool,
}

/// Runs the agent and streams its answer. A fault before the answer's first piece becomes an HTTP
/// status.
pub(super) async fn streamed(
    front: Arc<Front>,
    principal: Principal,
    stored: StoredConversation,
    conversation: Arc<HeldConversation>,
    form: impl FnOnce(Head) -> Pieces,
) -> Result<Response> {
    let head = head_of(&principal, &stored, &conversation);
    let mut pieces = form(head.clone());
    if let Some(known) = stored.known.clone() {
        let answer = known_answer(head, known);
        return Ok(whole_response(whole(&mut pieces, &answer)));
    }
    let shown = visible_answer(&front.executor, &principal, &stored, &conversation).await?;
    let sent = shown.map(|shown| shown.seen.text).unwrap_or_default();
    let run = run_of(&principal, &stored, &conversation);
    let (mut events, work) = begin_run(&front, run, Room::default()).ok_or_else(crowded)?;
    let mut stream = AnswerStream {
        front,
        principal,
        stored,
        conversation,
        head,
        pieces,
        sent,
        next_turn: false,
    };
    let earlier = stream.sent.clone();
    let Some(first) = stream.next(&mut events).await else {
        let answer = stream.answer(&outcome_of(work.await)?).await?;
        return Ok(whole_response(whole(&mut stream.pieces, &answer)));
    };
    let (give, take) = mpsc::channel(PIECES_WAITING);
    let mut beginning = stream.pieces.begin();
    for text in [earlier, first].iter().filter(|text| !text.is_empty()) {
        beginning.push_str(&stream.pieces.text(text));
    }
    let send = async move {
        // If the client is gone, this task ends and drops the event receiver, which cancels the
        // run.
        if give.send(beginning).await.is_err() {
            return;
        }
        loop {
            let text = tokio::select! {
                text = stream.next(&mut events) => text,
                () = give.closed() => return,
            };
            let Some(text) = text else { break };
            if give.send(stream.pieces.text(&text)).await.is_err() {
                return;
            }
        }
        let last = stream.last(outcome_of(work.await)).await;
        drop(give.send(last).await);
    };
    tokio::spawn(send.in_current_span());
    Ok(event_stream(Stream(take)))
}

impl AnswerStream {
    /// Returns the next text to send, or `None` when the run is over.
    async fn next(&mut self, events: &mut mpsc::Receiver<RunEvent>) -> Option<String> {
        loop {
            match events.recv().await? {
                RunEvent::Text { text } => {
                    let apart = std::mem::take(&mut self.next_turn) && !self.sent.is_empty();
                    let text = if apart { format!("{BETWEEN_TURNS}{text}") } else { text };
                    self.sent.push_str(&text);
                    return Some(text);
                }
                RunEvent::Turn { last_seq, .. } => {
                    self.next_turn = true;
                    if let Some(text) = self.unsent_text(last_seq).await {
                        self.sent.push_str(&text);
                        return Some(text);
                    }
                }
                RunEvent::Called { .. } | RunEvent::Returned { .. } | RunEvent::Waiting { .. } => {}
            }
        }
    }

    /// Reads the texts that tool calls of earlier turns sent to the user, because no event reported
    /// these texts. `last_seq` is the position of the last answer before this turn. The answer of
    /// this turn may already be stored, but its text comes in events.
    async fn unsent_text(&self, last_seq: u64) -> Option<String> {
        if last_seq == 0 {
            return None;
        }
        let (executor, stored) = (&self.front.executor, &self.stored);
        let shown =
            visible_upto(executor, &self.principal, (stored, &self.conversation), last_seq).await;
        // If the read fails, the text is sent with the last piece of the answer.
        let text = shown.ok().flatten()?.seen.text;
        text.strip_prefix(&self.sent).filter(|rest| !rest.is_empty()).map(str::to_owned)
    }

    async fn answer(&self, end: &RunEnd) -> Result<Answer> {
        let (executor, head) = (&self.front.executor, self.head.clone());
        let sent = Some(self.sent.as_str());
        let of = (&self.stored, &**self.conversation);
        answer_of(executor, &self.principal, of, head, end, sent).await
    }

    /// Returns the answer's last pieces: the text not sent yet, and the end.
    async fn last(&mut self, outcome: Result<RunEnd>) -> String {
        let outcome = match outcome {
            Ok(end) => self.answer(&end).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(answer) => {
                let rest = answer.seen.text.strip_prefix(&self.sent).unwrap_or_default().to_owned();
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

/// Returns all pieces of a complete answer.
fn whole(pieces: &mut Pieces, answer: &Answer) -> String {
    let mut all = pieces.begin();
    if !answer.seen.text.is_empty() {
        all.push_str(&pieces.text(&answer.seen.text));
    }
    all.push_str(&pieces.end(answer));
    all
}

fn whole_response(text: String) -> Response {
    event_stream(http_body_util::Full::new(Bytes::from(text)))
}

/// A response body that consists of text pieces, and ends when their sender is dropped.
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
