//! Tests that large bodies share a bounded amount of memory, and that small calls go on meanwhile.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::stage;
use crate::talk::{Agent, key};

/// Number of unfinished bodies, the announced length of each, and the length that is sent, in
/// bytes.
const BODIES: usize = 20;
const ANNOUNCED: usize = 31 << 20;
const SENT: usize = 30 << 20;
/// Most memory that the server may use for the bodies, in KiB; without a limit, they take 600 MiB.
const GROWTH_KIB_MAX: u64 = 320 * 1024;

/// Begins to send a large body, and returns the connection with the answer, if one came before the
/// end of the body.
fn begun(socket: &PathBuf) -> (UnixStream, String) {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: vctx\r\ncontent-length: {ANNOUNCED}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("a head");
    let piece = vec![b'a'; 1 << 20];
    for _ in 0..SENT / piece.len() {
        stream.write_all(&piece).expect("the server reads on");
    }
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a limit");
    let mut answer = vec![0; 4_096];
    let length = stream.read(&mut answer).unwrap_or(0);
    (stream, String::from_utf8_lossy(&answer[..length]).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_bodies_take_a_bounded_amount_of_memory() {
    let stage = stage(&["vctx.sock"], r#"{"when": "", "text": "Here.", "repeat": true}"#).await;
    let ada = Agent::create(stage.wire(), "ada", super::WINDOW, "").await;
    let server = &stage.servers[0];
    server.expect("too many large bodies at once");
    let (idle, socket) = (server.resident_kib(), stage.home.path("vctx.sock"));
    let sending: Vec<_> = (0..BODIES)
        .map(|_| {
            let socket = socket.clone();
            tokio::task::spawn_blocking(move || begun(&socket))
        })
        .collect();
    let mut held = Vec::new();
    for sent in sending {
        held.push(sent.await.expect("a task"));
    }
    let grown = server.resident_kib().saturating_sub(idle);
    assert!(grown < GROWTH_KIB_MAX, "the bodies take {} MiB", grown / 1_024);
    let refused = held.iter().filter(|(_, answer)| answer.starts_with("HTTP/1.1 503 ")).count();
    assert!(refused >= BODIES - 4, "{refused} of {BODIES} were refused");
    for (_, answer) in held.iter().filter(|(_, answer)| !answer.is_empty()) {
        assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
        assert!(answer.contains("too many large bodies at once"), "{answer}");
    }
    // The bodies that were not refused still wait for their rest.
    ada.append("user", "Still here?").await;
    drop(held);
    // The server notices the end of the connections soon, and a large body has room again.
    let long = serde_json::json!({"message": "a ".repeat(600 * 1_024), "role": "user"});
    for _ in 0..super::LOOKS {
        let answer = ada.attempt("append_fifo", &long, &key(), "*").await.expect("an answer");
        if answer.code() != "OVERLOADED" {
            // The whole body was read, since its text is too long.
            answer.refused(400, "INVALID_ARGUMENT");
            stage.home.assert_verified("vctx.sock", "ada");
            return;
        }
        tokio::time::sleep(super::LOOK).await;
    }
    panic!("there is no room after the end of the connections");
}
