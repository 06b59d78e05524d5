//! One keep-alive connection over a Unix socket: sends a request and reads the whole answer, within
//! a size limit and a deadline.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::paths::{default_data_dir, default_socket, user_id};
use super::problem::Problem;
use super::serving::link_of;

/// Limits and timeouts of a client.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server's socket.
    pub socket: PathBuf,
    /// Time limit for one attempt, from connecting to the last byte of the answer.
    pub deadline: Duration,
    /// Time limit for a call with all its attempts. The last attempt ends at this limit.
    pub patience: Duration,
    /// Maximum number of attempts of one call when the connection fails; 1 means no retry.
    pub attempts_max: u32,
    /// Maximum size of an answer, in bytes.
    pub answer_bytes_max: usize,
}

impl Settings {
    /// Returns the default settings of a client: 30 s per attempt (an explicit eviction may wait
    /// for a model), 4 attempts within 150 s, and answers up to 64 MiB.
    pub fn new(socket: impl Into<PathBuf>) -> Settings {
        Settings {
            socket: socket.into(),
            deadline: Duration::from_secs(30),
            patience: Duration::from_secs(150),
            attempts_max: 4,
            answer_bytes_max: 64 << 20,
        }
    }
}

/// An answer with status, headers and complete body.
pub(super) type Answer = Response<Bytes>;

type Sender = SendRequest<Full<Bytes>>;

/// A connection to the server, which is opened at the first call and reopened after a failure.
/// Concurrent calls use the connection one after another.
pub(super) struct Connection {
    pub(super) settings: Settings,
    sender: Mutex<Option<Sender>>,
}

impl Connection {
    /// Creates the connection object without connecting yet.
    pub(super) fn new(settings: Settings) -> Connection {
        Connection { settings, sender: Mutex::new(None) }
    }

    /// Makes one attempt of a request within `deadline`. After an error or a missed deadline, drops
    /// the connection, so that the next call cannot receive the late answer to this request.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        deadline: Duration,
    ) -> Result<Answer, Problem> {
        let mut slot = self.sender.lock().await;
        let mut sender = match slot.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => timeout(deadline, connect(&self.settings)).await.map_err(|_| {
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
}

/// Opens a connection. A background task reads and writes on the connection, and ends when the
/// connection ends. A call that still waits for an answer then gets an error.
pub(super) async fn connect<B>(settings: &Settings) -> Result<SendRequest<B>, Problem>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let socket = settings.socket.display();
    let stream = UnixStream::connect(&settings.socket)
        .await
        .map_err(|error| Problem::unreachable(format!("cannot connect to {socket}: {error}")))?;
    check_server(&settings.socket, &stream)?;
    let (sender, driver) = handshake(TokioIo::new(stream))
        .await
        .map_err(|error| Problem::unreachable(format!("cannot speak HTTP on {socket}: {error}")))?;
    tokio::spawn(async move { drop(driver.await) });
    Ok(sender)
}

/// Returns an error if the server is a process of a user who is not trusted, because this user
/// could read all data that the client sends. Trusted are this process's user, root, and the owner
/// of the socket's directory. For the default paths of socket and link, the owner of the directory
/// is not trusted, because another user may have created that directory first.
fn check_server(socket: &Path, stream: &UnixStream) -> Result<(), Problem> {
    let unknown = |error: std::io::Error| {
        Problem::unreachable(format!(
            "cannot determine which user runs the server on {}: {error}",
            socket.display()
        ))
    };
    let peer = stream.peer_cred().map_err(unknown)?.uid();
    let directory = match socket.parent().filter(|path| !path.as_os_str().is_empty()) {
        Some(_) if socket == default_socket() => None,
        Some(_) if socket == link_of(&default_data_dir()) => None,
        directory => Some(directory.unwrap_or(Path::new("."))),
    };
    let owner = directory.map(std::fs::metadata).transpose().map_err(unknown)?;
    if is_trusted(peer, user_id(), owner.map(|found| found.uid())) {
        return Ok(());
    }
    Err(Problem::unreachable(format!(
        "{} is served by another user (id {peer}): nothing was sent; name your server's socket with --socket",
        socket.display()
    )))
}

/// Returns whether a client of the user `own` may talk to a server of the user `peer`. `owner` is
/// the owner of the socket's directory; `None` if the owner of the directory is not trusted.
fn is_trusted(peer: u32, own: u32, owner: Option<u32>) -> bool {
    peer == own || peer == 0 || owner == Some(peer)
}

async fn exchange(
    sender: &mut Sender,
    request: Request<Full<Bytes>>,
    bytes_max: usize,
) -> Result<Answer, Problem> {
    let lost = |error: hyper::Error| match error.is_canceled() {
        // The HTTP library hyper returns the request to the caller if the connection was closed
        // before the request was written.
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
                Problem::unanswered(format!("the connection broke during the answer: {error}"))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_trusted_by_its_user() {
        for (peer, own, owner, expected) in [
            (1000, 1000, None, true),
            (0, 1000, None, true),
            (1001, 1000, None, false),
            (1001, 0, None, false),
            (1001, 1000, Some(1001), true),
            (1001, 1000, Some(1000), false),
        ] {
            assert_eq!(is_trusted(peer, own, owner), expected, "{peer} for {own} in {owner:?}");
        }
    }
}
