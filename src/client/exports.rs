//! Exports and imports agents as files, in pieces, so that a whole file is never in main memory.

use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body, Frame, Incoming};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::api::{Client, agent_path, understood};
use super::connection::{connect, whole_body};
use super::problem::Problem;
use vctx_core::limits::{EXPORT_PIECE_BYTES, EXPORT_PIECES_WAITING};

/// Maximum time that the client waits for the end of an export or import, in milliseconds.
const EXPORT_CLIENT_MS_MAX: u64 = 6 * 3_600_000;

impl Client {
    /// Reads an agent's export piece by piece, and passes each piece to `take`, which returns false
    /// to stop the export. The first piece may arrive late, because the server reads all data of
    /// the agent before it sends the first piece.
    pub async fn export(
        &self,
        agent: &str,
        take: &mut (dyn FnMut(&[u8]) -> bool + Send),
    ) -> Result<(), Problem> {
        let mut sender = connect::<Empty<Bytes>>(self.settings()).await?;
        let request = Request::builder()
            .method(Method::GET)
            .uri(format!("{}/export", agent_path(agent)))
            .header(header::HOST, "vctx")
            .body(Empty::new())
            .map_err(|e| Problem::garbled(format!("the request cannot be made: {e}")))?;
        let mut body = self.answered(sender.send_request(request)).await?;
        loop {
            let frame = timeout(self.settings().deadline, body.frame()).await;
            let frame = frame.map_err(|_| Problem::unanswered("the file stopped coming".into()))?;
            let Some(frame) = frame else { return Ok(()) };
            let frame =
                frame.map_err(|e| Problem::unanswered(format!("the export broke off: {e}")))?;
            if let Ok(bytes) = frame.into_data()
                && !take(&bytes)
            {
                return Ok(());
            }
        }
    }

    /// Creates an agent from an export, and returns the server's report.
    pub async fn import(&self, agent: &str, file: Box<dyn Read + Send>) -> Result<Value, Problem> {
        let (give, pieces) = mpsc::channel(EXPORT_PIECES_WAITING);
        tokio::task::spawn_blocking(move || send(file, &give));
        let mut sender = connect::<Pieces>(self.settings()).await?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}/import", agent_path(agent)))
            .header(header::HOST, "vctx")
            .header(header::CONTENT_TYPE, "application/x-ndjson")
            .body(Pieces(pieces))
            .map_err(|e| Problem::garbled(format!("the request cannot be made: {e}")))?;
        let body = self.answered(sender.send_request(request)).await?;
        let bytes = whole_body(body, self.settings().answer_bytes_max).await?;
        serde_json::from_slice(&bytes)
            .map_err(|e| Problem::garbled(format!("the answer is not JSON: {e}")))
    }

    /// Waits for an answer. Returns the body if the status means success, and otherwise the problem
    /// that the answer describes.
    async fn answered(
        &self,
        answer: impl Future<Output = hyper::Result<http::Response<Incoming>>>,
    ) -> Result<Incoming, Problem> {
        let answer = timeout(Duration::from_millis(EXPORT_CLIENT_MS_MAX), answer).await;
        let answer = answer.map_err(|_| Problem::unanswered("no answer for hours".into()))?;
        let answer = answer.map_err(|e| {
            Problem::unanswered(format!("the connection broke before the answer: {e}"))
        })?;
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        let (head, body) = answer.into_parts();
        let body = whole_body(body, self.settings().answer_bytes_max).await?;
        Err(match understood(&http::Response::from_parts(head, body)) {
            Err(problem) => problem,
            Ok(_) => Problem::garbled("the server refused the call without a reason".into()),
        })
    }
}

type Piece = Result<Bytes, std::io::Error>;

/// Reads a file piece by piece and sends the pieces, until the file ends or the receiver is
/// dropped.
fn send(mut file: Box<dyn Read + Send>, give: &mpsc::Sender<Piece>) {
    loop {
        let mut piece = vec![0; EXPORT_PIECE_BYTES];
        let read = file.read(&mut piece).map(|bytes| {
            piece.truncate(bytes);
            Bytes::from(piece)
        });
        let last = read.as_ref().map_or(true, Bytes::is_empty);
        if read.as_ref().is_ok_and(Bytes::is_empty) || give.blocking_send(read).is_err() || last {
            return;
        }
    }
}

/// A request body whose pieces are read from a file.
struct Pieces(mpsc::Receiver<Piece>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
