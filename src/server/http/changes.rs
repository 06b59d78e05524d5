//! Sends the changes of an agent's memory as server-sent events, until the client leaves or the
//! feed ends with a message that says why.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, interval_at, sleep, timeout};

use super::agents::{flag, head};
use super::caller::{Caller, overloaded};
use super::problem;
use super::query::number;
use super::reply::{answer, noted};
use super::runs::event_stream;
use crate::executor::{After, Executor, Feed, FeedLook};
use crate::limits::{FEED_ALIVE_MS, FEED_LOOK_MS, FEED_MS_MAX, FEED_RETRY_MS, FEEDS_MAX};
use crate::store::FollowedEntry;
use vctx_core::error::{Code, Error, Result};
use vctx_core::ledger::note::Head;

/// The header with which a client of server-sent events continues.
pub(super) const LAST_EVENT_ID: &str = "last-event-id";

/// A comment, which shows that the connection works.
const ALIVE: &[u8] = b":\n\n";

/// The feeds of all listeners.
static FEEDS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(FEEDS_MAX)));

/// The times of a feed.
#[derive(Clone, Copy)]
struct FeedTimes {
    /// Pause between two looks.
    look: Duration,
    /// Pause between two comments.
    alive: Duration,
    /// Time after which the feed ends.
    most: Duration,
}

const TIMES: FeedTimes = FeedTimes {
    look: Duration::from_millis(FEED_LOOK_MS),
    alive: Duration::from_millis(FEED_ALIVE_MS),
    most: Duration::from_millis(FEED_MS_MAX),
};

/// Where a feed's changes come from.
trait Source: Send {
    /// Returns the next changes.
    fn look(&mut self) -> impl Future<Output = Result<FeedLook>> + Send;
}

/// The changes of an agent in the database.
struct InDatabase {
    executor: Arc<Executor>,
    feed: Feed,
}

impl Source for InDatabase {
    async fn look(&mut self) -> Result<FeedLook> {
        self.executor.look(&mut self.feed).await
    }
}

/// The reason why a feed ends.
#[derive(Debug)]
enum FeedEnd {
    /// The caller asked not to wait, and there is no further change.
    CaughtUp,
    /// The feed has lasted as long as a feed may.
    Time,
    /// The server stops.
    Stopping,
    Forgotten,
    Moved,
    Gap,
    /// The database did not answer.
    Failed(Error),
}

impl FeedEnd {
    fn told(&self) -> Value {
        let (reason, detail) = match self {
            Self::CaughtUp => ("caught_up", "there is no further change"),
            Self::Time => ("time", "the feed has lasted as long as it may: continue it"),
            Self::Stopping => ("stopping", "the server stops: continue the feed in a moment"),
            Self::Forgotten => ("forgotten", "the agent was forgotten"),
            Self::Moved => (
                "moved",
                "the agent is not in this database any more: continue the feed, and its new database answers",
            ),
            Self::Gap => (
                "gap",
                "the ledger does not continue the last change of this feed: read the memory again, and follow its changes without `after`",
            ),
            Self::Failed(error) => ("failed", error.message.as_str()),
        };
        let mut told = json!({"feed": "end", "reason": reason, "detail": detail});
        if let Self::Failed(error) = self {
            told["problem"] = problem::body(error);
        }
        told
    }
}

/// Returns the JSON schema of one message of a feed, with its fields as attributes.
pub(super) fn message_schema() -> Value {
    json!({"type": "object", "required": ["event", "data"], "properties": {
        "event": {"enum": ["start", "change", "end"]},
        "data": {"type": "string", "description": "an object in JSON (docs/reference/changes.md)"},
        "id": {"type": "string"}, "retry": {"type": "integer"}}})
}

/// Answers with a feed of the agent's changes.
pub(super) async fn changes(caller: Caller) -> Response {
    let Ok(permit) = Arc::clone(&FEEDS).try_acquire_owned() else {
        return overloaded(&format!("more than {FEEDS_MAX} change feeds at once: retry later"));
    };
    match begun(&caller).await {
        Ok(((feed, news), waits)) => {
            let (give, take) = mpsc::channel(1);
            let start = message("start", Some(&feed.at), &json!({"last": feed.last}));
            let start = format!("retry: {FEED_RETRY_MS}\n{start}");
            let source = InDatabase { executor: Arc::clone(&caller.front.executor), feed };
            let stopping = caller.front.stopping.clone();
            tokio::spawn(async move {
                let _permit = permit;
                // The channel has room for the first message.
                drop(give.send(start.into()).await);
                follow(source, news, waits, give, stopping, TIMES).await;
            });
            event_stream(FeedBody(take))
        }
        Err(error) if error.code == Code::Overloaded => overloaded(&error.message),
        Err(error) => answer(caller.asker().explained(noted(Err(error))).await),
    }
}

async fn begun(caller: &Caller) -> Result<((Feed, watch::Receiver<()>), bool)> {
    let query = caller.query("after and wait")?;
    let waits = query.text("wait").is_none() || flag(&query, "wait")?;
    let asked = query.text("after").map(|text| after_of("after", text)).transpose()?;
    let seen = caller.headers.get(LAST_EVENT_ID).map(|text| text.to_str().unwrap_or("?"));
    let seen = seen.map(|text| after_of(LAST_EVENT_ID, text)).transpose()?;
    // A browser continues with the same URL, so that the header is newer.
    let after = seen.or(asked);
    let feed = caller.executor().feed(&caller.principal, &caller.agent, after).await?;
    Ok((feed, waits))
}

/// Reads the change after which a feed begins: its number, or its number and hash.
fn after_of(field: &str, text: &str) -> Result<After> {
    let wrong = || {
        let text = "give `at` of a change, the number of a change, or 0 for all changes";
        Error::argument(field, text)
    };
    match text.contains('.') {
        true => head(text).map(|Head { n, hash }| After { n, hash: Some(hash) }),
        false => number(field, text).map(|n| After { n, hash: None }),
    }
    .map_err(|_| wrong())
}

/// Sends the messages of a feed, the last of which says why the feed ends.
async fn follow(
    mut source: impl Source,
    mut news: watch::Receiver<()>,
    waits: bool,
    give: mpsc::Sender<Bytes>,
    mut stopping: watch::Receiver<bool>,
    times: FeedTimes,
) {
    let talk = async {
        loop {
            news.mark_unchanged();
            match noted(source.look().await) {
                Ok(FeedLook::Changes { entries, is_full }) => {
                    if !entries.is_empty() && give.send(page(&entries)).await.is_err() {
                        return None;
                    }
                    if is_full {
                        continue;
                    }
                }
                Ok(FeedLook::Forgotten) => return Some(FeedEnd::Forgotten),
                Ok(FeedLook::Moved) => return Some(FeedEnd::Moved),
                Ok(FeedLook::Gap) => return Some(FeedEnd::Gap),
                Err(error) => return Some(FeedEnd::Failed(error)),
            }
            if !waits {
                return Some(FeedEnd::CaughtUp);
            }
            // Without a signal, another server may have changed the memory.
            drop(timeout(times.look, news.changed()).await);
        }
    };
    let alive = async {
        let mut ticks = interval_at(Instant::now() + times.alive, times.alive);
        loop {
            ticks.tick().await;
            // A message that waits for the client is as good as a comment.
            drop(give.try_send(Bytes::from_static(ALIVE)));
        }
    };
    let end = tokio::select! {
        end = talk => end,
        () = alive => None,
        () = give.closed() => None,
        () = sleep(times.most) => Some(FeedEnd::Time),
        // If the sender of the stop signal is dropped, the program is ending.
        _ = stopping.wait_for(|stop| *stop) => Some(FeedEnd::Stopping),
    };
    let Some(end) = end else { return };
    let last = message("end", None, &end.told()).into();
    // A client that does not read learns nothing from the last message, and continues without it.
    drop(timeout(times.look, give.send(last)).await);
}

/// Returns the messages of several changes.
fn page(entries: &[FollowedEntry]) -> Bytes {
    let messages = entries.iter().map(|entry| message("change", Some(&entry.head), &entry.event));
    messages.collect::<String>().into()
}

/// Returns the text of one message. Its data has all that the message's other fields say, because
/// some clients read only the data.
fn message(name: &str, at: Option<&Head>, data: &Value) -> String {
    let mut whole = json!({"feed": name});
    let mut id = String::new();
    if let Some(Head { n, hash }) = at {
        let at = if *n == 0 { "0".to_owned() } else { format!("{n}.{hash}") };
        id = format!("id: {at}\n");
        whole["at"] = at.into();
        whole["n"] = (*n).into();
    }
    if let (Some(whole), Some(data)) = (whole.as_object_mut(), data.as_object()) {
        whole.extend(data.clone());
    }
    format!("event: {name}\n{id}data: {whole}\n\n")
}

/// The body of a feed.
struct FeedBody(mpsc::Receiver<Bytes>);

impl hyper::body::Body for FeedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: FeedTimes = FeedTimes {
        look: Duration::from_millis(5),
        alive: Duration::from_millis(20),
        most: Duration::from_millis(100),
    };

    /// An agent whose memory never changes.
    struct Still;

    impl Source for Still {
        async fn look(&mut self) -> Result<FeedLook> {
            Ok(FeedLook::Changes { entries: Vec::new(), is_full: false })
        }
    }

    /// An agent whose memory always has another change; counts the looks.
    struct Endless(u64, watch::Sender<u64>);

    impl Source for Endless {
        async fn look(&mut self) -> Result<FeedLook> {
            self.0 += 1;
            self.1.send_replace(self.0);
            let head = Head { n: self.0, hash: "0".repeat(64) };
            let entries = vec![FollowedEntry { head, event: json!({"type": "audit"}) }];
            Ok(FeedLook::Changes { entries, is_full: true })
        }
    }

    /// Returns everything that a feed says.
    async fn said(source: impl Source + 'static, waits: bool, times: FeedTimes) -> String {
        let (give, mut take) = mpsc::channel(1);
        let ((_signal, news), (_stop, stopping)) = (watch::channel(()), watch::channel(false));
        tokio::spawn(follow(source, news, waits, give, stopping, times));
        let mut all = String::new();
        while let Some(bytes) = take.recv().await {
            all.push_str(std::str::from_utf8(&bytes).unwrap());
        }
        all
    }

    #[tokio::test]
    async fn a_feed_without_changes_shows_that_it_is_alive_and_ends_after_its_time() {
        let said = said(Still, true, SHORT).await;
        assert!(said.starts_with(":\n\n"), "{said}");
        assert!(said.contains("\"reason\":\"time\""), "{said}");
    }

    #[tokio::test]
    async fn a_feed_that_does_not_wait_ends_at_the_newest_change() {
        let said = said(Still, false, TIMES).await;
        assert!(said.contains("\"reason\":\"caught_up\""), "{said}");
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_holds_a_feed_for_its_time_only() {
        let (give, mut take) = mpsc::channel(1);
        let ((_signal, news), (_stop, stopping)) = (watch::channel(()), watch::channel(false));
        let (looks, looked) = watch::channel(0);
        let source = Endless(0, looks);
        follow(source, news, true, give, stopping, SHORT).await;
        assert!(*looked.borrow() <= 2, "a feed reads no further than its client");
        let waiting = take.recv().await.expect("one page waits for the client");
        assert!(waiting.len() < 256, "{waiting:?}");
        assert!(take.recv().await.is_none(), "nothing else waits, and the feed has ended");
    }

    #[test]
    fn a_message_is_one_line_of_data_with_the_place_of_the_change() {
        let head = Head { n: 7, hash: "ab".into() };
        let told = message("change", Some(&head), &json!({"type": "audit"}));
        let expected = "event: change\nid: 7.ab\ndata: {\"feed\":\"change\",\"at\":\"7.ab\",\"n\":7,\"type\":\"audit\"}\n\n";
        assert_eq!(told, expected);
    }
}
