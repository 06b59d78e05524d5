//! One keep-alive connection over a Unix socket: sends a request, takes the whole answer, both with a bound and a deadline.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::problem::Problem;

/// What a client keeps to.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server's socket.
    pub socket: PathBuf,
    /// Time for one attempt, from connecting to the last byte of the answer.
    pub deadline: Duration,
    /// Attempts of one call when the connection fails; 1 means none is repeated.
    pub attempts_max: u32,
    /// Longest answer taken, in bytes.
    pub answer_bytes_max: usize,
}

impl Settings {
    /// The everyday settings for a socket: 30 s per attempt (an explicit eviction may wait for a model), 4 attempts, 64 MiB.
    pub fn new(socket: impl Into<PathBuf>) -> Settings {
        Settings {
            socket: socket.into(),
            deadline: Duration::from_secs(30),
            attempts_max: 4,
            answer_bytes_max: 64 << 20,
        }
    }
}

/// Status, headers and the whole body of an answer.
pub(super) type Answer = Response<Bytes>;

type Sender = SendRequest<Full<Bytes>>;

/// The connection, made when first needed and made again when it broke. Calls take turns on it.
pub(super) struct Connection {
    pub(super) settings: Settings,
    sender: Mutex<Option<Sender>>,
}

impl Connection {
    /// No connection yet.
    pub(super) fn new(settings: Settings) -> Connection {
        Connection { settings, sender: Mutex::new(None) }
    }

    /// One attempt. After a failure or a deadline the connection is dropped, so that no late answer meets the next call.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, Problem> {
        let deadline = self.settings.deadline;
        let mut slot = self.sender.lock().await;
        let mut sender = match slot.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => timeout(deadline, self.connect()).await.map_err(|_| {
                Problem::unreachable(format!(
                    "no connection to {} within {deadline:?}",
                    self.settings.socket.display()
                ))
            })??,
        };
        let answer =
            timeout(deadline, exchange(&mut sender, request, self.settings.answer_bytes_max))
                .await
                .map_err(|_| Problem::unanswered(format!("no answer within {deadline:?}")))??;
        *slot = Some(sender);
        Ok(answer)
    }

    async fn connect(&self) -> Result<Sender, Problem> {
        let socket = self.settings.socket.display();
        let stream = UnixStream::connect(&self.settings.socket).await.map_err(|error| {
            Problem::unreachable(format!("cannot connect to {socket}: {error}"))
        })?;
        let (sender, driver) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Problem::unreachable(format!("no HTTP on {socket}: {error}")))?;
        // The driver ends with the connection; what broke it is told to the call that waits.
        tokio::spawn(async move { drop(driver.await) });
        Ok(sender)
    }
}

async fn exchange(
    sender: &mut Sender,
    request: Request<Full<Bytes>>,
    bytes_max: usize,
) -> Result<Answer, Problem> {
    let lost = |error: hyper::Error| match error.is_canceled() {
        // hyper gives a request back untouched when the connection closed before it was written.
        true => Problem::unreachable(format!(
            "the connection was closed before the call was sent: {error}"
        )),
        false => Problem::unanswered(format!("the connection broke before the answer: {error}")),
    };
    sender
        .ready()
        .await
        .map_err(|error| Problem::unreachable(format!("the connection was closed: {error}")))?;
    let (head, body) = sender.send_request(request).await.map_err(lost)?.into_parts();
    let body = whole_body(body, bytes_max).await?;
    Ok(Response::from_parts(head, body))
}

pub(super) async fn whole_body(body: Incoming, bytes_max: usize) -> Result<Bytes, Problem> {
    let collected = Limited::new(body, bytes_max).collect().await;
    collected.map(|collected| collected.to_bytes()).map_err(|error| {
        match error.is::<LengthLimitError>() {
            true => Problem::garbled(format!("the answer is longer than {bytes_max} bytes")),
            false => {
                Problem::unanswered(format!("the connection broke within the answer: {error}"))
            }
        }
    })
}
