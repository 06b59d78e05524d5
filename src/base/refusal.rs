//! Refuses a connection whose user has too many connections.

use serde_json::json;
use tokio::net::UnixStream;

use crate::metric;
use vctx_core::error::Code;

/// Tells a client that its user has too many connections, and closes the connection.
pub(super) fn refuse(stream: &UnixStream) {
    metrics::counter!(metric::SHED).increment(1);
    let code = Code::Overloaded;
    let body = json!({
        "type": "urn:vctx:error:overloaded", "title": code.title(), "status": code.status(), "error": code.text(),
        "detail": "your user has too many open connections to this socket: close some of them, then try again",
    });
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // The buffer of a new connection has room for the answer. A client that has closed the
    // connection already needs none.
    let _ = stream.try_write((head + &body).as_bytes());
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use axum::Router;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::watch;

    use super::*;
    use crate::socket::{Bounds, bind, serve_within};

    #[tokio::test]
    async fn a_client_whose_user_has_too_many_connections_is_told_so() {
        let home = tempfile::tempdir().unwrap();
        let listening = bind(&home.path().join("s")).unwrap();
        let (socket, mut open) = (listening.path().to_owned(), listening.open_connections());
        let (_stop, stopping) = watch::channel(false);
        let bounds = Bounds {
            connections: 8,
            connections_per_user: 1,
            head_ms: 60_000,
            head_bytes: None,
            stall_ms: 60_000,
            drain_ms: 1,
            gauge: metric::CONNECTIONS,
        };
        let router = Router::new().fallback(pending::<()>);
        tokio::spawn(serve_within(listening, router, stopping, bounds));
        let mut first = UnixStream::connect(&socket).await.unwrap();
        first.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        // The time limit only prevents a hanging test.
        let reached = open.wait_for(|count| *count == 1);
        tokio::time::timeout(Duration::from_secs(30), reached).await.expect("in time").unwrap();
        let mut second = UnixStream::connect(&socket).await.unwrap();
        let mut answer = String::new();
        second.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("OVERLOADED"), "{answer}");
    }
}
