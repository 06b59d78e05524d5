//! Reads MCP messages as lines of JSON, and answers a line that is not JSON or is too long.
//!
//! Reads no further line of a client that has many unanswered requests.
//!
//! The transport of the library rmcp drops such a line without an answer, so the client would wait
//! forever.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use rmcp::model::{
    ClientNotification, ErrorCode, ErrorData, GetExtensions as _, JsonRpcMessage, RequestId,
};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::{AsyncRwTransport, JsonRpcMessageCodec, JsonRpcMessageCodecError};
use serde_json::error::Category;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader, Empty};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio_util::bytes::{Bytes, BytesMut};
use tokio_util::codec::Decoder as _;
use tokio_util::sync::CancellationToken;

use super::listen::CROWDED;
use vctx_base::room::{Room, SharedRoom};
use vctx_core::limits::{
    BODY_VALUES_MAX, MCP_LINE_BYTES_MAX, MCP_MESSAGE_BYTES_SMALL, MCP_MESSAGES_BYTES_MAX,
    MCP_REQUESTS_MAX, MCP_REQUESTS_PER_CLIENT_MAX,
};
use vctx_core::memory::json_weight::JsonWeight;

/// Step by which the room of a line grows, in bytes.
const ROOM_STEP_BYTES: usize = 256 * 1024;
/// Maximum memory that the values of one message count for, in bytes: half of all, so that a line
/// of maximum length has room while no other is there.
const VALUES_BYTES_MAX: u64 = MCP_MESSAGES_BYTES_MAX / 2;
/// Memory of the values of a small message, in bytes, by this program's estimate.
const VALUES_BYTES_SMALL: u64 = 512 * 1024;

/// The room for the large messages of all clients.
static MESSAGES: LazyLock<SharedRoom> = LazyLock::new(|| SharedRoom::new(MCP_MESSAGES_BYTES_MAX));
/// The places for unanswered requests that all clients share.
static REQUESTS: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(MCP_REQUESTS_MAX)));

/// The permits of one request: its own, and one that all clients share.
type Permits = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

/// The place of a request until its answer is written and its handler has ended.
#[derive(Debug)]
struct RequestPlace {
    _permits: Permits,
    _room: Room,
}

/// The places of one client: one is its own, the others are shared with all clients.
struct RequestPlaces {
    own: Arc<Semaphore>,
    further: Arc<Semaphore>,
}

impl RequestPlaces {
    fn new() -> Self {
        Self {
            own: Arc::new(Semaphore::new(1)),
            further: Arc::new(Semaphore::new(MCP_REQUESTS_PER_CLIENT_MAX - 1)),
        }
    }

    /// Waits until the client may make one more request. `None` means that a semaphore is closed,
    /// which never happens.
    async fn free(&self) -> Option<Permits> {
        let further = async {
            let permit = Arc::clone(&self.further).acquire_owned().await.ok()?;
            Some((permit, Some(Arc::clone(&REQUESTS).acquire_owned().await.ok()?)))
        };
        tokio::select! {
            biased;
            own = Arc::clone(&self.own).acquire_owned() => Some((own.ok()?, None)),
            further = further => further,
        }
    }
}

/// The order of the answers, and whether the client has failed to take one.
#[derive(Clone)]
struct Turns {
    turn: Arc<Mutex<()>>,
    lost: CancellationToken,
}

impl Turns {
    /// Writes an answer after those before it. After a failed write, every other write fails at
    /// once, since each would wait until the client has stalled for the whole time limit.
    async fn write(self, answer: impl Future<Output = io::Result<()>>) -> io::Result<()> {
        let _turn = self.turn.lock().await;
        if self.lost.is_cancelled() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        answer.await.inspect_err(|_| self.lost.cancel())
    }
}

/// Why the rest of a line is being skipped.
#[derive(Clone, Copy)]
enum SkipReason {
    TooLong,
    NoRoom,
}

impl SkipReason {
    fn answer(self) -> ErrorData {
        match self {
            Self::TooLong => {
                let text = format!("a message may have {MCP_LINE_BYTES_MAX} bytes at most");
                ErrorData::parse_error(text, None)
            }
            Self::NoRoom => {
                let text = "too many large messages at once: send the message again later";
                ErrorData::new(ErrorCode(CROWDED), text, None)
            }
        }
    }
}

/// The two halves of a connection with an MCP client.
pub(super) struct Lines<R, W: AsyncWrite> {
    read: BufReader<R>,
    /// The line that is being read; a cancelled call of `receive` leaves its beginning here.
    line: Vec<u8>,
    room: Room,
    /// Why the rest of the line is being skipped, if it is.
    skips: Option<SkipReason>,
    codec: JsonRpcMessageCodec<RxJsonRpcMessage<RoleServer>>,
    /// Writes the answers; its reading half is empty.
    write: AsyncRwTransport<RoleServer, Empty, W>,
    /// The answer to a wrong line, until it is written.
    answer: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send>>>,
    turns: Turns,
    places: RequestPlaces,
    /// The permits of the next request.
    next: Option<Permits>,
    /// The places of the requests whose answers were not passed to `send` yet.
    asked: HashMap<RequestId, Arc<RequestPlace>>,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new((read, write): (R, W)) -> Self {
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            room: Room::default(),
            skips: None,
            codec: JsonRpcMessageCodec::new(),
            write: AsyncRwTransport::new(tokio::io::empty(), write),
            answer: None,
            turns: Turns { turn: Arc::default(), lost: CancellationToken::new() },
            places: RequestPlaces::new(),
            next: None,
            asked: HashMap::new(),
        }
    }

    /// Reads the next line into `self.line`. Returns an error if the line was skipped, and `None`
    /// if the client has disconnected. If the call is cancelled, the next call continues the line.
    async fn next_line(&mut self) -> Option<Result<(), SkipReason>> {
        loop {
            let available = match self.read.fill_buf().await {
                Ok(available) => available,
                Err(error) => {
                    tracing::info!(%error, "a client broke off");
                    return None;
                }
            };
            if available.is_empty() {
                return None;
            }
            let end = available.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(available.len());
            let length = self.line.len() + taken;
            if length > MCP_LINE_BYTES_MAX {
                self.skips = Some(SkipReason::TooLong);
            } else if length > MCP_MESSAGE_BYTES_SMALL
                && !MESSAGES
                    .try_grow(&mut self.room, length.next_multiple_of(ROOM_STEP_BYTES) as u64)
            {
                self.skips = self.skips.or(Some(SkipReason::NoRoom));
            }
            if self.skips.is_some() {
                (self.line, self.room) = (Vec::new(), Room::default());
            } else {
                self.line.extend_from_slice(&available[..taken]);
            }
            self.read.consume(taken);
            if end.is_some() {
                return Some(self.skips.take().map_or(Ok(()), Err));
            }
        }
    }

    /// Parses the line. Returns `None` for a blank line, and for a notification that this version
    /// of the protocol does not know.
    fn parse(&mut self) -> Option<Result<RxJsonRpcMessage<RoleServer>, ErrorData>> {
        let line = std::mem::take(&mut self.line);
        if line.trim_ascii().is_empty() {
            return None;
        }
        let weight = JsonWeight::of(&line);
        if weight.values > BODY_VALUES_MAX {
            let text = format!("a message may have {BODY_VALUES_MAX} values at most: split it");
            return Some(Err(ErrorData::invalid_request(text, None)));
        }
        let mut values = Room::default();
        if line.len() > MCP_MESSAGE_BYTES_SMALL || weight.bytes > VALUES_BYTES_SMALL {
            let needed = (line.len() as u64 + weight.bytes).min(VALUES_BYTES_MAX);
            if !MESSAGES.try_grow(&mut values, needed) {
                return Some(Err(SkipReason::NoRoom.answer()));
            }
        }
        self.room.take(values);
        match self.codec.decode(&mut BytesMut::from(Bytes::from(line))) {
            Ok(message) => message.map(|message| Ok(self.placed(message))),
            Err(JsonRpcMessageCodecError::Serde(error)) if error.classify() == Category::Data => {
                Some(Err(ErrorData::invalid_request("this is no message of JSON-RPC 2.0", None)))
            }
            // The answer has a fixed text, because the error's own text may contain parts of the
            // message.
            Err(_) => {
                let text = "a message must be one line of JSON in UTF-8, at most 128 levels deep";
                Some(Err(ErrorData::parse_error(text, None)))
            }
        }
    }

    /// Gives a message its place and the room of its line. The message carries them to its handler.
    fn placed(
        &mut self,
        mut message: RxJsonRpcMessage<RoleServer>,
    ) -> RxJsonRpcMessage<RoleServer> {
        let room = std::mem::take(&mut self.room);
        match &mut message {
            JsonRpcMessage::Request(request) => {
                if let Some(permits) = self.next.take() {
                    let place = Arc::new(RequestPlace { _permits: permits, _room: room });
                    request.request.extensions_mut().insert(Arc::clone(&place));
                    // The library answers only the last of several requests with the same id.
                    self.asked.insert(request.id.clone(), place);
                }
            }
            JsonRpcMessage::Notification(told) => {
                // The library drops the answer to a cancelled request.
                if let ClientNotification::CancelledNotification(cancelled) = &told.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.asked.remove(id);
                }
                if let Some(permits) = self.next.take() {
                    let place = Arc::new(RequestPlace { _permits: permits, _room: room });
                    told.notification.extensions_mut().insert(place);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        message
    }

    /// Waits for a place, and then reads the next line like `next_line`.
    async fn next_placed(&mut self) -> Option<Result<(), SkipReason>> {
        if self.next.is_none() {
            self.next = self.places.free().await;
        }
        self.next_line().await
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let place = match &item {
            JsonRpcMessage::Response(answer) => self.asked.remove(&answer.id),
            JsonRpcMessage::Error(answer) => {
                answer.id.as_ref().and_then(|id| self.asked.remove(id))
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let written = self.turns.clone().write(self.write.send(item));
        async move {
            let _place = place;
            written.await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(answer) = &mut self.answer {
                let written = answer.await;
                self.answer = None;
                written.ok()?;
            }
            let lost = self.turns.lost.clone();
            let line = tokio::select! {
                line = self.next_placed() => line?,
                () = lost.cancelled() => return None,
            };
            let parsed = match line {
                Ok(()) => self.parse(),
                Err(skip) => Some(Err(skip.answer())),
            };
            self.room = Room::default();
            match parsed {
                None => {}
                Some(Ok(message)) => return Some(message),
                // JSON-RPC 2.0 §5: the id of a message that cannot be read is null.
                Some(Err(error)) => {
                    let answer = TxJsonRpcMessage::<RoleServer>::error(error, None);
                    let written = self.turns.clone().write(self.write.send(answer));
                    self.answer = Some(Box::pin(written));
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // The rest of an answer that the client did not take would wait for the client again.
        if self.turns.lost.is_cancelled() {
            return Ok(());
        }
        self.write.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns() -> Turns {
        Turns { turn: Arc::default(), lost: CancellationToken::new() }
    }

    #[tokio::test]
    async fn after_a_failed_write_no_other_write_waits() {
        let turns = turns();
        assert!(turns.clone().write(async { Ok(()) }).await.is_ok());
        assert!(turns.clone().write(async { Err(io::ErrorKind::TimedOut.into()) }).await.is_err());
        assert!(turns.lost.is_cancelled(), "the reader ends, too");
        assert!(turns.write(std::future::pending()).await.is_err());
    }

    #[tokio::test]
    async fn a_client_keeps_its_own_place_while_others_hold_all_shared_ones() {
        let shared = Arc::clone(&REQUESTS).acquire_many_owned(MCP_REQUESTS_MAX as u32).await;
        let places = RequestPlaces::new();
        let own = places.free().await.expect("its own place");
        tokio::select! {
            biased;
            _ = places.free() => panic!("a second place"),
            () = tokio::task::yield_now() => {}
        }
        drop(own);
        let _own = places.free().await.expect("its own place again");
        drop(shared);
        let mut further = Vec::new();
        for _ in 1..MCP_REQUESTS_PER_CLIENT_MAX {
            further.push(places.free().await.expect("a shared place"));
        }
        tokio::select! {
            biased;
            _ = places.free() => panic!("a place more than a client may have"),
            () = tokio::task::yield_now() => {}
        }
    }
}
