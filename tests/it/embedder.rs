//! Tests external embedders. The test's own endpoint, on a real Unix socket, answers correctly,
//! late, wrongly or never.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use vctx::error::Code;
use vctx::models::{EmbedderKind, EmbedderSettings, Embedders, Kind};
use vctx::trust::TaintMode;

/// How the endpoint answers a request. A test lists one `Answer` for each of its requests; the last
/// one in the list also applies to all later requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Well,
    Backwards,
    Late,
    Status(u16),
    HalfABody,
    Nothing,
    Components(usize),
    Component(&'static str),
    OneTooFew,
    TheSameTwice,
    NotJson,
    TooLong,
}

struct Server {
    socket: PathBuf,
    asked: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    _directory: tempfile::TempDir,
}

impl Server {
    fn start(answers: &[Answer]) -> Self {
        let directory = tempfile::Builder::new().prefix("e").tempdir().unwrap();
        let socket = directory.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let (asked, answers) = (Arc::<AtomicUsize>::default(), answers.to_vec());
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let (count, seen) = (Arc::clone(&asked), Arc::clone(&heads));
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (count, seen, answers) =
                    (Arc::clone(&count), Arc::clone(&seen), answers.clone());
                tokio::spawn(async move { serve(stream, &count, &seen, &answers).await });
            }
        });
        Self { socket, asked, heads, _directory: directory }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Returns the vector of a text in this test: the text's length, its first byte, and 1.
fn vector(text: &str) -> Vec<f64> {
    vec![text.len() as f64, f64::from(text.bytes().next().unwrap_or(0)), 1.0]
}

async fn serve(
    mut stream: UnixStream,
    asked: &AtomicUsize,
    heads: &Mutex<Vec<String>>,
    answers: &[Answer],
) {
    loop {
        let Some((head, body)) = request(&mut stream).await else { return };
        heads.lock().unwrap().push(head);
        let at = asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        if !answer(&mut stream, answers[at], &body).await {
            return;
        }
    }
}

async fn request(stream: &mut UnixStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
            let length = head.lines().find_map(|l| l.strip_prefix("content-length: "))?;
            let length: usize = length.parse().ok()?;
            while bytes.len() < end + 4 + length {
                let read = stream.read_buf(&mut bytes).await.ok()?;
                (read > 0).then_some(())?;
            }
            return Some((head, serde_json::from_slice(&bytes[end + 4..]).ok()?));
        }
        let read = stream.read_buf(&mut bytes).await.ok()?;
        (read > 0).then_some(())?;
    }
}

/// Answers one request in the given way. Returns true if the connection stays open.
async fn answer(stream: &mut UnixStream, how: Answer, body: &Value) -> bool {
    let texts: Vec<&str> =
        body["input"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    let entry = |at: usize, vector: Vec<f64>| json!({"object": "embedding", "index": at, "embedding": vector});
    let mut data: Vec<Value> =
        texts.iter().enumerate().map(|(at, t)| entry(at, vector(t))).collect();
    let mut status = 200;
    match how {
        Answer::Well
        | Answer::HalfABody
        | Answer::NotJson
        | Answer::Component(_)
        | Answer::TooLong => {}
        Answer::Backwards => data.reverse(),
        Answer::Late => tokio::time::sleep(std::time::Duration::from_secs(30)).await,
        Answer::Status(code) => status = code,
        Answer::Nothing => return false,
        Answer::Components(count) => data[0]["embedding"] = json!(vec![1.0; count]),
        Answer::OneTooFew => drop(data.pop()),
        Answer::TheSameTwice => data[0]["index"] = json!(texts.len() - 1),
    }
    let mut text = json!({"object": "list", "data": data, "model": "m"}).to_string();
    match how {
        Answer::NotJson => text = "<html>".into(),
        Answer::Component(wrong) => text = text.replacen("1.0", wrong, 1),
        Answer::TooLong => text.push_str(&" ".repeat(17 * 1024 * 1024)),
        _ => {}
    }
    let length = text.len();
    if how == Answer::HalfABody {
        text.truncate(length / 2);
    }
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.is_ok()
        && stream.write_all(text.as_bytes()).await.is_ok()
        && how != Answer::HalfABody
}

fn settings(socket: &Path) -> EmbedderSettings {
    EmbedderSettings {
        kind: EmbedderKind::Endpoint,
        model: "m".into(),
        version: "1".into(),
        dimension: 3,
        socket: socket.to_owned(),
        timeout_ms: 60_000,
        ..EmbedderSettings::default()
    }
}

fn open(server: &Server) -> Embedders {
    settings(&server.socket).open(Some("a-key".into()), TaintMode::Off).unwrap()
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{}{}", char::from(b'a' + (n % 26) as u8), "x".repeat(n))).collect()
}

fn points_like(made: &[f32], wanted: &[f64]) -> bool {
    let length = wanted.iter().map(|c| c * c).sum::<f64>().sqrt();
    made.iter().zip(wanted).all(|(made, wanted)| (f64::from(*made) - wanted / length).abs() < 1e-6)
}

#[tokio::test]
async fn vectors_come_in_the_order_of_their_texts_in_bounded_batches() {
    for how in [Answer::Well, Answer::Backwards] {
        let server = Server::start(&[how]);
        let embedders = open(&server);
        assert!(embedders.has_model());
        let texts = texts(150);
        let made = embedders.configured().embed(&texts, Kind::Passage).await.unwrap();
        assert_eq!(made.len(), texts.len());
        for (made, text) in made.iter().zip(&texts) {
            assert!(points_like(made, &vector(text)), "{text}: {made:?}");
        }
        assert_eq!(server.asked(), 3, "64 texts at most in a batch");
        let head = server.heads.lock().unwrap()[0].clone();
        assert!(head.starts_with("POST /v1/embeddings HTTP/1.1"), "{head}");
        assert!(head.contains("authorization: Bearer a-key"), "{head}");
        // Vectors that were computed before are cached and not requested again.
        embedders.configured().embed(&texts[..10], Kind::Passage).await.unwrap();
        assert_eq!(server.asked(), 3);
    }
}

#[tokio::test]
async fn what_passes_is_tried_again_a_bounded_number_of_times() {
    for passing in [
        Answer::Status(429),
        Answer::Status(500),
        Answer::Status(503),
        Answer::Nothing,
        Answer::HalfABody,
    ] {
        let server = Server::start(&[passing, Answer::Well]);
        let made = open(&server).configured().embed(&texts(2), Kind::Query).await;
        assert!(made.is_ok(), "{passing:?}: {made:?}");
        assert_eq!(server.asked(), 2, "{passing:?}");
        let server = Server::start(&[passing]);
        let error = open(&server).configured().embed(&texts(2), Kind::Query).await.unwrap_err();
        assert_eq!(error.code, Code::EmbedderUnavailable, "{passing:?}");
        // The number of requests varies, because the client library reopens a pooled connection
        // that the endpoint closed.
        assert!((3..=6).contains(&server.asked()), "{passing:?}: {}", server.asked());
    }
}

#[tokio::test]
async fn what_does_not_pass_is_refused_at_once() {
    for (wrong, why) in [
        (Answer::Status(400), "400"),
        (Answer::Status(401), "401"),
        (Answer::Status(404), "404"),
        (Answer::Components(2), "2 components"),
        (Answer::Components(4), "4 components"),
        (Answer::Component("null"), "no vectors"),
        (Answer::Component("\"NaN\""), "no vectors"),
        (Answer::Component("1e999"), "no vectors"),
        (Answer::OneTooFew, "other texts"),
        (Answer::TheSameTwice, "other texts"),
        (Answer::NotJson, "no vectors"),
    ] {
        let server = Server::start(&[wrong]);
        let error = open(&server).configured().embed(&texts(2), Kind::Query).await.unwrap_err();
        assert_eq!(error.code, Code::EmbedderUnavailable, "{wrong:?}");
        assert!(error.message.contains(why), "{wrong:?}: {error}");
        assert_eq!(server.asked(), 1, "{wrong:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_late_or_away_or_talks_too_long_has_its_limit() {
    let server = Server::start(&[Answer::Late]);
    let hasty = EmbedderSettings { timeout_ms: 50, ..settings(&server.socket) };
    let error = hasty
        .open(None, TaintMode::Off)
        .unwrap()
        .configured()
        .embed(&texts(1), Kind::Query)
        .await
        .unwrap_err();
    assert!(error.message.contains("within 50 ms"), "{error}");

    let server = Server::start(&[Answer::TooLong]);
    let error = open(&server).configured().embed(&texts(1), Kind::Query).await.unwrap_err();
    assert!(error.message.contains("not received whole"), "{error}");

    let nobody = server.socket.with_file_name("nobody");
    let error = settings(&nobody)
        .open(None, TaintMode::Off)
        .unwrap()
        .configured()
        .embed(&texts(1), Kind::Query)
        .await
        .unwrap_err();
    assert!(error.message.contains("no model's server answers on"), "{error}");

    // Port 1 is closed, so the request fails; the request must not be sent to another address.
    let url = "http://127.0.0.1:1";
    let there = EmbedderSettings { socket: PathBuf::new(), url: url.into(), ..settings(&nobody) };
    let error = there
        .open(None, TaintMode::Off)
        .unwrap()
        .configured()
        .embed(&texts(1), Kind::Query)
        .await
        .unwrap_err();
    assert!(error.message.contains(&format!("answers at {url}")), "{error}");
}

#[tokio::test]
async fn chunks_of_an_endpoint_know_their_document() {
    let server = Server::start(&[Answer::Well]);
    let embedders = open(&server);
    let document = "aa bbbbbbbb aa ccc";
    let spans = [0..2, 3..11, 12..14, 15..18];
    let made = embedders.configured().embed_spans(document, &spans).await.unwrap();
    assert_ne!(made[0], made[2], "equal texts in two places");
    let near: f32 = made[0].iter().zip(&made[2]).map(|(a, b)| a * b).sum();
    assert!(near > 0.9);
    assert_eq!(server.asked(), 1);
}
