//! Tests the client library on a real socket: which calls it repeats, and with which key.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Mutex;
use vctx::client::{Client, Fault, Settings, Write};

/// What the fake server does after it has read a request.
enum Reply {
    Cut,
    Silence,
    Bytes(String),
}

struct Peer {
    _dir: tempfile::TempDir,
    client: Client,
    /// Every request that was read, with head and body.
    seen: Arc<Mutex<Vec<String>>>,
}

fn json_answer(status: u16, body: &Value) -> Reply {
    let body = body.to_string();
    Reply::Bytes(format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
}

fn peer(replies: Vec<Reply>) -> Peer {
    peer_within(Duration::from_secs(30), replies)
}

/// Returns a server with the given answers, and a client that waits at most `deadline` for each.
fn peer_within(deadline: Duration, replies: Vec<Reply>) -> Peer {
    peer_patient(deadline, Duration::from_secs(60), replies)
}

/// Returns a server like `peer_within`, whose client waits at most `patience` for each call.
fn peer_patient(deadline: Duration, patience: Duration, replies: Vec<Reply>) -> Peer {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let replies = Arc::new(Mutex::new(VecDeque::from(replies)));
    let (seen_here, replies_here) = (seen.clone(), replies.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, seen_here.clone(), replies_here.clone()));
        }
    });
    let settings = Settings {
        deadline,
        patience,
        attempts_max: 3,
        answer_bytes_max: 1000,
        ..Settings::new(socket)
    };
    Peer { _dir: dir, client: Client::new(settings), seen }
}

async fn converse(
    mut stream: UnixStream,
    seen: Arc<Mutex<Vec<String>>>,
    replies: Arc<Mutex<VecDeque<Reply>>>,
) {
    loop {
        let mut bytes = vec![0; 65536];
        // Requests of these tests are small and arrive in one piece.
        let Ok(length @ 1..) = stream.read(&mut bytes).await else { return };
        seen.lock().await.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        match replies.lock().await.pop_front() {
            Some(Reply::Bytes(text)) => stream.write_all(text.as_bytes()).await.unwrap(),
            Some(Reply::Silence) => tokio::time::sleep(Duration::from_secs(5)).await,
            Some(Reply::Cut) | None => return,
        }
    }
}

fn receipt() -> Value {
    json!({"receipt": {"seq": 3}, "replayed": true})
}

#[tokio::test]
async fn a_cut_call_is_repeated_with_the_same_key_and_revision() {
    let peer = peer(vec![Reply::Cut, Reply::Cut, json_answer(200, &receipt())]);
    let write = Write { key: "k-1".into(), revision: Some("*".into()) };
    let appended = peer.client.append("a", "user", &json!("hi"), &write).await.unwrap();
    assert_eq!((appended.seq, appended.replayed), (3, true));
    let seen = peer.seen.lock().await;
    assert_eq!(seen.len(), 3);
    for request in seen.iter() {
        assert!(
            request.starts_with("POST /v1/agents/a/tools/append_fifo HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(
            request.contains("idempotency-key: k-1\r\n") && request.contains("if-match: *\r\n"),
            "{request}"
        );
        assert!(request.ends_with(r#"{"message":"hi","role":"user"}"#), "{request}");
    }
}

#[tokio::test]
async fn attempts_have_an_end_and_silence_a_deadline() {
    let replies = vec![Reply::Cut, Reply::Silence, Reply::Cut, json_answer(200, &json!({}))];
    let peer = peer_within(Duration::from_millis(300), replies);
    let problem = peer.client.state("a").await.unwrap_err();
    assert_eq!(problem.fault, Fault::Unanswered);
    assert_eq!(peer.seen.lock().await.len(), 3);
}

#[tokio::test]
async fn a_call_ends_at_its_own_time_limit_although_attempts_are_left() {
    let replies = vec![Reply::Cut, Reply::Silence, Reply::Silence];
    let limit = Duration::from_millis(300);
    let peer = peer_patient(limit, limit, replies);
    let problem = peer.client.state("a").await.unwrap_err();
    assert_eq!(problem.fault, Fault::Unanswered);
    assert_eq!(peer.seen.lock().await.len(), 2, "no attempt after the limit");
}

#[tokio::test]
async fn an_answered_refusal_is_not_repeated() {
    let peer = peer(vec![
        json_answer(503, &json!({"error": "OVERLOADED", "detail": "d"})),
        json_answer(200, &json!({})),
    ]);
    let problem = peer.client.state("a").await.unwrap_err();
    assert_eq!((problem.status(), problem.code.as_str()), (Some(503), "OVERLOADED"));
    assert_eq!(peer.seen.lock().await.len(), 1);
}

#[tokio::test]
async fn one_connection_serves_many_calls() {
    let peer = peer(vec![json_answer(200, &json!({"n": 1})), json_answer(200, &json!({"n": 2}))]);
    assert_eq!(peer.client.state("a").await.unwrap()["n"], 1);
    assert_eq!(peer.client.state("a").await.unwrap()["n"], 2);
}

#[tokio::test]
async fn answers_too_long_or_not_json_are_garbled() {
    let long = json!({"text": "x".repeat(2000)});
    let peer = peer(vec![
        json_answer(200, &long),
        Reply::Bytes("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{{".into()),
    ]);
    assert_eq!(peer.client.state("a").await.unwrap_err().fault, Fault::Garbled);
    assert_eq!(peer.client.state("a").await.unwrap_err().fault, Fault::Garbled);
}

#[tokio::test]
async fn a_missing_socket_names_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let client = Client::new(Settings::new(dir.path().join("none")));
    let problem = client.agents().await.unwrap_err();
    assert_eq!(problem.fault, Fault::Unreachable);
    assert!(problem.to_string().contains("vctx serve"), "{problem}");
}

#[tokio::test]
async fn a_page_that_does_not_advance_is_refused() {
    let peer = peer(vec![json_answer(200, &json!({"messages": [], "next_seq": 5}))]);
    assert_eq!(peer.client.messages("a", 5, 10).await.unwrap_err().fault, Fault::Garbled);
}

#[tokio::test]
async fn names_are_one_segment_of_a_path() {
    let peer = peer(vec![json_answer(200, &json!({})), json_answer(200, &json!({}))]);
    for (name, segment) in [("a-b_c.d~e", "a-b_c.d~e"), ("a/b?c ä", "a%2Fb%3Fc%20%C3%A4")] {
        peer.client.state(name).await.unwrap();
        let line = format!("GET /v1/agents/{segment} HTTP/1.1\r\n");
        assert!(peer.seen.lock().await.last().unwrap().starts_with(&line), "{name}");
    }
}
