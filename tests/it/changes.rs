//! Tests the change feed: a reader that continues after every break sees each change of its agent
//! exactly once and in order, and nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::chance::rounds;
use crate::forgotten::forgotten;
use crate::home::{Home, Process, Tuning, command};
use crate::outside::needs_an_engine_of_its_own;
use crate::talk::{Agent, key};

/// Maximum time until the next message of a feed, even on a busy machine; a feed sends a comment
/// every ten seconds.
const MESSAGE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of feeds of one agent, and of one server.
const FEEDS_MAX: (usize, usize) = (32, 256);
/// Number of callers of the long test; half of them use the second server.
const CALLERS: u64 = 4;

/// One message of a feed.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

/// An open feed.
pub(crate) struct Feed {
    _sender: SendRequest<Empty<Bytes>>,
    body: Incoming,
    pub(crate) headers: HeaderMap,
    rest: String,
    /// Everything that came, with comments.
    pub(crate) all: String,
}

impl Feed {
    /// Opens a feed; `Err` has status and body of a refusal, or 0 if there was no answer.
    pub(crate) async fn open(
        socket: &Path,
        agent: &str,
        query: &str,
        last_id: Option<&str>,
    ) -> Result<Feed, (u16, Value)> {
        let lost = |why: String| (0, Value::from(why));
        let stream = UnixStream::connect(socket).await.map_err(|e| lost(e.to_string()))?;
        let (mut sender, driver) =
            handshake(TokioIo::new(stream)).await.map_err(|e| lost(e.to_string()))?;
        tokio::spawn(async move { drop(driver.await) });
        let mut request = Request::builder()
            .uri(format!("/v1/agents/{agent}/changes{query}"))
            .header("host", "vctx")
            .header("accept", "text/event-stream");
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let request = request.body(Empty::new()).expect("a request");
        let answer = sender.send_request(request).await.map_err(|e| lost(e.to_string()))?;
        let (head, body) = answer.into_parts();
        if head.status != 200 {
            let bytes = body.collect().await.map_err(|e| lost(e.to_string()))?.to_bytes();
            return Err((head.status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default()));
        }
        assert_eq!(head.headers["content-type"], "text/event-stream");
        let (rest, all) = (String::new(), String::new());
        Ok(Feed { _sender: sender, body, headers: head.headers, rest, all })
    }

    /// Opens a feed, which must be possible, and returns it after its first message.
    pub(crate) async fn begun(socket: &Path, agent: &str, query: &str) -> (Feed, Message) {
        let opened = Feed::open(socket, agent, query, None).await;
        let mut feed = opened.unwrap_or_else(|refused| panic!("{refused:?}"));
        let start = feed.next().await.expect("a first message");
        assert_eq!(start.name, "start", "{start:?}");
        (feed, start)
    }

    /// Returns the next message; `None` at the end of the stream, or if the connection broke.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        loop {
            while let Some((text, rest)) = self.rest.split_once("\n\n") {
                let (text, rest) = (text.to_owned(), rest.to_owned());
                self.rest = rest;
                if let Some(message) = message(&text) {
                    return Some(message);
                }
            }
            let frame = timeout(MESSAGE_MAX, self.body.frame()).await.expect("a sign of life");
            let bytes = frame?.ok()?.into_data().ok()?;
            let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
            self.rest.push_str(&text);
            self.all.push_str(&text);
        }
    }

    /// Returns the next change.
    async fn change(&mut self) -> Message {
        let message = self.next().await.expect("a change");
        assert_eq!(message.name, "change", "{message:?}");
        message
    }

    /// Returns all messages until the end of the stream.
    async fn rest(mut self) -> Vec<Message> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }
}

/// Parses one message; a comment is none. Checks that the data has all that the other lines say.
fn message(text: &str) -> Option<Message> {
    let field = |name: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let found: Vec<&str> = lines.collect();
        assert!(found.len() <= 1, "{text}");
        found.first().map(|value| value.trim_start().to_owned())
    };
    let name = field("event:")?;
    let data: Value = serde_json::from_str(&field("data:").expect("data")).expect("JSON");
    let id = field("id:").unwrap_or_default();
    assert_eq!(data["feed"], name.as_str(), "{text}");
    assert_eq!(data["at"].as_str().unwrap_or_default(), id, "{text}");
    Some(Message { name, id, data })
}

/// Returns the numbers of changes.
fn numbers(changes: &[Message]) -> Vec<u64> {
    changes.iter().map(|change| change.data["n"].as_u64().expect("a number")).collect()
}

/// Reads all changes until now.
async fn so_far(socket: &Path, agent: &str, after: &str) -> Vec<Message> {
    let (feed, _) = Feed::begun(socket, agent, &format!("?after={after}&wait=false")).await;
    let mut all = feed.rest().await;
    let end = all.pop().expect("a last message");
    assert_eq!((end.name.as_str(), &end.data["reason"]), ("end", &json!("caught_up")), "{end:?}");
    all
}

/// Makes a call until it is answered with a status below 500; a refusal is an answer, too.
async fn insist(agent: &Agent, tool: &str, arguments: &Value) {
    let (key, until) = (key(), tokio::time::Instant::now() + MESSAGE_MAX);
    loop {
        if let Ok(answer) = agent.attempt(tool, arguments, &key, "*").await
            && answer.status < 500
            && answer.code() != "CONFLICT"
        {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "{tool} has no answer");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Makes one of several kinds of changes.
async fn mixed(agent: &Agent, caller: u64, n: u64) {
    let text = format!("quoxtext {caller} {n} of the harbour");
    match n % 8 {
        0 => {
            let block = json!({"block_id": format!("b{}", n % 3), "content": text});
            insist(agent, "store_core", &block).await;
        }
        1 => insist(agent, "write_recall", &json!({"entries": [{"content": text}]})).await,
        2 => {
            let document = json!({"doc_id": format!("d{}", n % 5), "chunks": [text]});
            insist(agent, "ingest_archival", &document).await;
        }
        3 => insist(agent, "evict_fifo", &json!({"target_tokens": 600})).await,
        // The call is refused, which is an entry of the ledger but no change of a text.
        4 => {
            let wide = json!({"block_id": "wide", "content": "quoxtext wide ".repeat(4_000)});
            insist(agent, "store_core", &wide).await;
        }
        5 => insist(agent, "search_recall", &json!({"query": "harbour", "limit": 2})).await,
        _ => insist(agent, "append_fifo", &json!({"message": text, "role": "user"})).await,
    }
}

/// Reads a feed, and continues it after each break, until the change with the number that `until`
/// receives.
async fn read_all(
    sockets: Vec<PathBuf>,
    mut until: tokio::sync::watch::Receiver<Option<u64>>,
) -> (Vec<Message>, u32) {
    let (mut all, mut last, mut breaks) = (Vec::<Message>::new(), "0".to_owned(), 0_u32);
    let is_done = |all: &[Message], until: Option<u64>| {
        until.is_some_and(|n| all.last().is_some_and(|change| change.data["n"] == n))
    };
    for socket in sockets.iter().cycle() {
        let Ok(mut feed) = Feed::open(socket, "ada", "?after=0", Some(&last)).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        loop {
            let message = tokio::select! {
                message = feed.next() => message,
                _ = until.wait_for(|until| is_done(&all, *until)) => return (all, breaks),
            };
            match message {
                Some(message) if message.name == "change" => {
                    last.clone_from(&message.id);
                    all.push(message);
                }
                Some(message) if message.name == "start" => assert_eq!(message.id, last),
                _ => break,
            }
            if is_done(&all, *until.borrow()) {
                return (all, breaks);
            }
        }
        breaks += 1;
    }
    unreachable!("the sockets have no end")
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_every_change_of_two_servers_once_and_in_order_over_a_kill() {
    let changes = rounds("CHANGES", 1_600);
    let home = Home::new();
    let _engine = home.engine().await;
    let serve = |socket: &'static str| {
        let home = &home;
        async move { home.server(socket, "engine.sock", "engine-ro.sock", &Tuning::default()).await }
    };
    let (first, _second) = (serve("vctx.sock").await, serve("second.sock").await);
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 2048, "Be brief.").await;
    let (tell, until) = tokio::sync::watch::channel(None);
    let of = |names: &[&str]| names.iter().map(|name| home.path(name)).collect::<Vec<_>>();
    // One reader follows the server that dies, another one follows the server that lives, and so
    // sees the changes of the other server only by its looks at the database.
    let mut readers = JoinSet::new();
    for sockets in [of(&["vctx.sock"]), of(&["second.sock"])] {
        readers.spawn(read_all(sockets, until.clone()));
    }
    let mut callers = JoinSet::new();
    let (count, mut counted) = tokio::sync::mpsc::unbounded_channel();
    for caller in 0..CALLERS {
        let socket = if caller % 2 == 0 { "vctx.sock" } else { "second.sock" };
        let (agent, count) = (Agent::at(home.wire(socket), "ada"), count.clone());
        callers.spawn(async move {
            for n in 0..changes / CALLERS {
                mixed(&agent, caller, n + caller).await;
                count.send(()).expect("the test counts");
            }
        });
    }
    for _ in 0..changes / 2 {
        counted.recv().await.expect("a change");
    }
    first.kill();
    let again = serve("vctx.sock").await;
    while let Some(done) = callers.join_next().await {
        done.expect("a caller");
    }
    let database = home.database();
    let stored = "FOR e IN memory_events FILTER e.agent_id == 'ada' AND e.n > 0 SORT e.n \
                  RETURN {n: e.n, hash: e.hash, id: e._key, type: e.type, ts: e.ts, version: e.details.version_after}";
    // No job writes to the agent any more when two looks find the same.
    let mut entries = database.rows(stored, json!({})).await;
    loop {
        let now = database.rows(stored, json!({})).await;
        if now.len() == entries.len() {
            break;
        }
        entries = now;
    }
    let last = entries.last().expect("entries")["n"].as_u64().expect("a number");
    tell.send_replace(Some(last));
    let mut breaks = Vec::new();
    while let Some(read) = readers.join_next().await {
        let (changes, broken) = read.expect("a reader");
        breaks.push(broken);
        assert_eq!(numbers(&changes), (1..=last).collect::<Vec<_>>(), "once, and in order");
        for (change, entry) in changes.iter().zip(&entries) {
            let hash = entry["hash"].as_str().expect("a hash");
            assert_eq!(change.id, format!("{}.{hash}", entry["n"]));
            for name in ["id", "type", "ts"] {
                assert_eq!(change.data[name], entry[name], "{name} of {change:?}");
            }
            assert_eq!(change.data["details"]["version_after"], entry["version"], "{change:?}");
            assert!(!change.data.to_string().contains("quoxtext"), "{change:?}");
        }
        // Every version of the memory has its change.
        let versions =
            changes.iter().filter_map(|change| change.data["details"]["version_after"].as_u64());
        let versions: BTreeSet<u64> = versions.collect();
        let newest = ada.again().state().await["version"].as_u64().expect("a version");
        let kept: Vec<u64> = (2..=newest).filter(|version| !versions.contains(version)).collect();
        assert_eq!(kept, Vec::<u64>::new(), "versions without a change");
    }
    assert!(last > changes * 3 / 4, "{last} changes");
    assert!(breaks.iter().any(|broken| *broken > 0), "the kill broke a feed: {breaks:?}");
    home.assert_verified("vctx.sock", "ada");
    drop(again);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_begins_where_its_reader_says() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    let socket = home.path("vctx.sock");
    for n in 0..3 {
        ada.append("user", format!("quoxtext {n}")).await;
    }
    let all = so_far(&socket, "ada", "0").await;
    assert_eq!(numbers(&all), [1, 2, 3, 4]);
    assert_eq!(all[3].data["details"]["tool"], "append_fifo", "{:?}", all[3]);
    for after in ["2", all[1].id.as_str()] {
        let rest = so_far(&socket, "ada", after).await;
        assert_eq!(numbers(&rest), [3, 4], "after {after}");
    }
    // By default, a feed has only new changes, and says after which one it begins.
    let (mut feed, start) = Feed::begun(&socket, "ada", "").await;
    assert_eq!(start.id, all[3].id);
    assert_eq!((&start.data["n"], &start.data["last"]), (&json!(4), &json!(4)));
    assert!(feed.all.starts_with("retry: "), "{}", feed.all);
    assert_eq!(feed.headers["cache-control"], "no-store");
    ada.append("user", "quoxtext new").await;
    assert_eq!(numbers(&[feed.change().await]), [5]);
    // A reader that continues sends the header in addition to the query of its first request.
    let continued = Feed::open(&socket, "ada", "?after=0&wait=false", Some(&all[2].id)).await;
    let continued = continued.unwrap_or_else(|refused| panic!("{refused:?}")).rest().await;
    assert_eq!(numbers(&continued[1..3]), [4, 5]);
    // The list of events shows the same events.
    let events = ada.wire.get(&format!("{}/events", ada.path())).await.ok();
    let listed = events["events"].as_array().expect("events");
    for change in &all {
        let same = listed.iter().find(|event| event["id"] == change.data["id"]);
        let same = same.unwrap_or_else(|| panic!("{change:?} is not in {events}"));
        for name in ["id", "type", "ts", "details"] {
            assert_eq!(same[name], change.data[name]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_the_agent_does_not_have_is_refused_with_what_to_do() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    ada.append("user", "One.").await;
    let path = format!("{}/changes", ada.path());
    let other = format!("2.{}", "0".repeat(64));
    for after in ["99", other.as_str(), "18446744073709551615"] {
        let told =
            ada.wire.get(&format!("{path}?after={after}")).await.refused(410, "CHANGE_UNKNOWN");
        assert_eq!((&told["field"], &told["last"]), (&json!("after"), &json!(2)), "{told}");
        let detail = told["detail"].as_str().expect("a text");
        assert!(detail.contains("read the memory again"), "{detail}");
    }
    for after in ["x", "-1", "2.", "2.abc", "1.5", "%00", "99999999999999999999"] {
        let told = ada.wire.get(&format!("{path}?after={after}")).await;
        let told = told.refused(400, "INVALID_ARGUMENT");
        assert_eq!(told["field"], "after", "{told}");
    }
    let header = [("last-event-id", "yesterday")];
    let told = ada.wire.call("GET", &path, &header, "").await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(told["field"], "last-event-id");
    let both = ada.wire.call("GET", &format!("{path}?after=x"), &header, "").await;
    assert_eq!(both.refused(400, "INVALID_ARGUMENT")["field"], "after");
    ada.wire.get(&format!("{path}?wait=no")).await.refused(400, "INVALID_ARGUMENT");
    ada.wire.get(&format!("{path}?since=1")).await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(so_far(&home.path("vctx.sock"), "ada", "0").await.len(), 2, "nothing changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_shows_nothing_of_another_agent_or_tenant() {
    let home = Home::new();
    let _engine = home.engine().await;
    let acme = Tuning::variable("VCTX_SERVER__TENANT", "acme");
    let mut servers = Vec::new();
    for (socket, tuning) in [("vctx.sock", &Tuning::default()), ("acme.sock", &acme)] {
        servers.push(home.server(socket, "engine.sock", "engine-ro.sock", tuning).await);
    }
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 4096, "Be brief.").await;
    let missing = home.wire("acme.sock").get("/v1/agents/nobody/changes").await;
    let foreign = home.wire("acme.sock").get("/v1/agents/ada/changes").await;
    assert_eq!(foreign.text, missing.text, "another tenant's agent is like a missing one");
    foreign.refused(404, "AGENT_NOT_FOUND");
    let (mut of_ada, _) = Feed::begun(&home.path("vctx.sock"), "ada", "").await;
    let theirs = Agent::create(home.wire("acme.sock"), "ada", 4096, "Be brief.").await;
    for agent in [&bob, &theirs, &bob, &ada] {
        agent.append("user", "quoxtext").await;
    }
    let change = of_ada.change().await;
    assert_eq!(numbers(&[change]), [2], "the first change that the feed shows is its own");
    assert!(!of_ada.all.contains("acme") && !of_ada.all.contains("bob"), "{}", of_ada.all);
    // Another tenant's place is no place of one's own agent of this name.
    let other = so_far(&home.path("acme.sock"), "ada", "0").await;
    let refused = Feed::open(&home.path("vctx.sock"), "ada", "", Some(&other[0].id)).await;
    assert_eq!(refused.err().map(|(status, _)| status), Some(410));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_delays_no_writer_and_misses_nothing() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    let (feed, start) = Feed::begun(&home.path("vctx.sock"), "ada", "").await;
    for n in 0..300 {
        ada.append("user", format!("quoxtext {n}")).await;
    }
    let (mut feed, first) = (feed, start.data["n"].as_u64().expect("a number"));
    let mut read = Vec::new();
    while read.len() < 300 {
        read.push(feed.change().await);
    }
    assert_eq!(numbers(&read), (first + 1..=first + 300).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn feeds_are_bounded_and_take_no_permit_of_a_call() {
    let home = Home::new();
    let _server = home.serve().await;
    let socket = home.path("vctx.sock");
    let (of_agent, of_server) = FEEDS_MAX;
    let mut feeds = Vec::new();
    for n in 0..of_server / of_agent {
        let name = format!("a{n}");
        let agent = Agent::create(home.wire("vctx.sock"), &name, 4096, "Be brief.").await;
        for _ in 0..of_agent {
            feeds.push(Feed::begun(&socket, &name, "").await.0);
        }
        let path = format!("{}/changes", agent.path());
        let told = agent.wire.get(&path).await;
        assert_eq!(told.headers["retry-after"], "1");
        let told = told.refused(503, "OVERLOADED");
        let detail = told["detail"].as_str().expect("a text");
        assert!(detail.contains("change feeds"), "{detail}");
    }
    let late = Agent::create(home.wire("vctx.sock"), "late", 4096, "Be brief.").await;
    let path = format!("{}/changes", late.path());
    let told = late.wire.get(&path).await.refused(503, "OVERLOADED");
    assert!(told["detail"].as_str().is_some_and(|text| text.contains("256")), "{told}");
    // Ordinary calls are answered, and every feed works.
    late.append("user", "Still here.").await;
    let last = Agent::at(home.wire("vctx.sock"), "a7");
    last.append("user", "Hello.").await;
    for feed in feeds.iter_mut().rev().take(of_agent) {
        assert_eq!(numbers(&[feed.change().await]), [2]);
    }
    // A client that leaves makes room.
    feeds.truncate(1);
    let until = tokio::time::Instant::now() + MESSAGE_MAX;
    while let Err((status, told)) = Feed::open(&socket, "late", "", None).await {
        assert_eq!(status, 503, "{told}");
        assert!(tokio::time::Instant::now() < until, "no room");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_of_a_forgotten_agent_ends_and_says_so() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    ada.append("user", "quoxtext").await;
    let (feed, _) = Feed::begun(&home.path("vctx.sock"), "ada", "").await;
    forgotten(&ada, &json!({"all": true})).await;
    let messages = feed.rest().await;
    let end = messages.last().expect("a last message");
    assert_eq!((end.name.as_str(), &end.data["reason"]), ("end", &json!("forgotten")), "{end:?}");
    assert_eq!(messages.len(), 1, "no row of the operation is a change: {messages:?}");
    ada.wire.get(&format!("{}/changes?after=0", ada.path())).await.refused(404, "AGENT_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_message_is_a_change_without_its_text() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    ada.append("user", "quoxtext").await;
    let (mut feed, _) = Feed::begun(&home.path("vctx.sock"), "ada", "").await;
    forgotten(&ada, &json!({"match": "quoxtext"})).await;
    let change = feed.change().await;
    assert_eq!(change.data["type"], "audit", "{change:?}");
    assert!(
        !so_far(&home.path("vctx.sock"), "ada", "0")
            .await
            .iter()
            .any(|change| { change.data.to_string().contains("quoxtext") })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_its_feeds_and_is_not_held_up() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    let (feed, _) = Feed::begun(&home.path("vctx.sock"), "ada", "").await;
    // This one is never read.
    let (_unread, _) = Feed::begun(&home.path("vctx.sock"), "ada", "?after=0").await;
    let stopping = tokio::spawn(async move {
        let status = server.stop().await;
        (server.said(), status)
    });
    let messages = feed.rest().await;
    let end = messages.last().expect("a last message");
    assert_eq!((end.name.as_str(), &end.data["reason"]), ("end", &json!("stopping")), "{end:?}");
    let (said, status) = stopping.await.expect("the server stops");
    assert!(status.success(), "{status}");
    assert!(!said.contains("drain limit"), "{said}");
    let _server = home.serve().await;
    ada.again().append("user", "After the restart.").await;
    assert_eq!(numbers(&so_far(&home.path("vctx.sock"), "ada", "1").await), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_does_not_continue_a_feed_ends_it_with_a_gap() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    let socket = home.path("vctx.sock");
    ada.append("user", "One.").await;
    let (feed, start) = Feed::begun(&socket, "ada", "").await;
    // As after a restore of an old backup.
    let remove =
        "FOR e IN memory_events FILTER e.agent_id == 'ada' AND e.n == 2 REMOVE e IN memory_events";
    home.database_inside().rows(remove, json!({})).await;
    let messages = feed.rest().await;
    let end = messages.last().expect("a last message");
    assert_eq!((end.name.as_str(), &end.data["reason"]), ("end", &json!("gap")), "{end:?}");
    let refused = Feed::open(&socket, "ada", "", Some(&start.id)).await.err();
    let (status, told) = refused.expect("a refusal");
    assert_eq!((status, &told["error"]), (410, &json!("CHANGE_UNKNOWN")), "{told}");
}

/// Runs `vctx changes` until its end.
fn listed(home: &Home, arguments: &[&str]) -> Output {
    let mut program = command(&Tuning::default());
    program.args(["changes", "ada", "--socket"]).arg(home.path("vctx.sock")).args(arguments);
    program.output().expect("it runs")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_follows_like_tail_and_continues_after_a_restart() {
    if needs_an_engine_of_its_own("the server is started again") {
        return;
    }
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    ada.append("user", "quoxtext").await;
    let told = listed(&home, &["--after", "0", "--no-wait"]);
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.status.success() && text.lines().count() == 2, "{told:?}");
    assert!(
        text.lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("2 ") && line.contains("append_fifo"))
    );
    assert_eq!(listed(&home, &["--after", "9", "--no-wait"]).status.code(), Some(67));

    // A program that a script starts in the background ignores SIGINT.
    let under = ["env", "--default-signal=INT"].map(str::to_owned).into();
    let mut program = command(&Tuning { under, ..Tuning::default() });
    program.args(["changes", "ada", "--json", "--after", "0", "--socket"]);
    program.arg(home.path("vctx.sock")).stdout(Stdio::piped());
    let mut following =
        tokio::process::Command::from(program).kill_on_drop(true).spawn().expect("it runs");
    let mut lines = BufReader::new(following.stdout.take().expect("its output")).lines();
    let mut next = async || {
        let line = timeout(MESSAGE_MAX, lines.next_line()).await.expect("in time").expect("a line");
        serde_json::from_str::<Value>(&line.expect("no end")).expect("JSON")
    };
    assert_eq!(next().await["feed"], "start");
    assert_eq!((next().await["n"].clone(), next().await["n"].clone()), (json!(1), json!(2)));
    server.stop().await;
    let _server: Process = home.serve().await;
    ada.again().append("user", "quoxtext again").await;
    assert_eq!(next().await["n"], 3);
    let id = following.id().expect("it runs").to_string();
    let sent = std::process::Command::new("kill").args(["-INT", &id]).status();
    assert!(sent.expect("kill runs").success());
    let status = timeout(MESSAGE_MAX, following.wait()).await.expect("in time").expect("it ends");
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(status.signal(), Some(2), "a shell shows 130: {status}");
}
