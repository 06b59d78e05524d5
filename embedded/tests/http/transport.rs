//! HTTP connections, size limits, request paths and credentials (HTTP API manual of 3.12).

use std::io::Read;

use super::wire::{ROOT_PASSWORD, Server};

#[test]
fn one_connection_serves_many_requests_with_the_recorded_headers() {
    let server = Server::start();
    let mut root = server.root();
    let answer = root.get("/_api/version?details=true");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.text_at("/version"), "3.12.10");
    assert_eq!(answer.text_at("/details/embedded"), env!("CARGO_PKG_VERSION"));
    assert_eq!(answer.text_at("/license"), "embedded");
    assert_eq!(answer.headers["server"], "ArangoDB");
    assert_eq!(answer.headers["x-arango-queue-time-seconds"], "0.000000");
    assert_eq!(answer.headers["x-arango-embedded"], env!("CARGO_PKG_VERSION"));
    assert_eq!(answer.headers["content-type"], "application/json; charset=utf-8");
    root.script(
        "
        GET /_api/version/ -> 200
        GET /_api/version? -> 200
        GET /_arango/v0/_api/version -> 200
        GET /_db/_system/_api/version/?details=false -> 200
        GET /_api/engine -> 200
        GET /_admin/status -> 200
        GET /_admin/server/role -> 200
        GET /_admin/server/mode -> 200
        GET /_admin/time -> 200
        GET /_admin/license -> 200
        OPTIONS /_api/version -> 200
        GET /_api/nowhere -> 404/404
        PATCH /_api/version -> 200
        PATCH /_api/engine -> 405/405
        GET /_api/foxx -> 501/9
        GET /_api/foxx -> 501/9
        POST /_api/transaction {} -> 501/9
        GET /_api/%zz -> 400/400
        ",
    );
    assert_eq!(root.call("HEAD", "/_api/version", "").text, "");
    assert_eq!(root.get("/_admin/status").text_at("/serverInfo/role"), "SINGLE");
    let indexes = root.get("/_api/engine").at("/supports/indexes");
    assert!(!indexes.as_array().expect("a list").iter().any(|kind| kind == "vector"));
}

#[test]
fn requests_can_be_sent_before_the_answers_are_read() {
    let server = Server::start();
    let mut client = server.client("rw");
    let one = "GET /_admin/server/availability HTTP/1.1\r\nhost: x\r\n\r\n";
    client.send(&one.repeat(3));
    for _ in 0..3 {
        assert_eq!(client.receive(false).status, 200);
    }
}

#[test]
fn what_is_open_is_open_and_the_rest_wants_credentials() {
    let server = Server::start();
    let mut nobody = server.client("rw");
    let front = nobody.get("/");
    assert_eq!((front.status, front.headers["server"].as_str()), (301, "ArangoDB"));
    nobody.script(
        "
        GET /_admin/server/availability -> 200
        GET /_api/version -> 401/11
        GET /_db/unknown/_api/version -> 401/11
        GET /_api/nowhere -> 401/11
        ",
    );
    server.client("rw").login("root", "wrong").script("GET /_api/version -> 401/11");
    server.client("rw").login("nobody", "x").script("GET /_api/version -> 401/11");
    server.client("rw").login_unpadded("root", ROOT_PASSWORD).script("GET /_api/version -> 200");
    server.root().script("GET /_db/unknown/_api/version -> 404/1228");
}

#[test]
fn tokens_open_the_door_and_only_server_tokens_see_options() {
    let server = Server::start();
    let mut nobody = server.client("rw");
    nobody.script(r#"POST /_open/auth {"username":"root","password":"wrong"} -> 401/401"#);
    let answer = nobody.post("/_open/auth", r#"{"username":"root","password":"top"}"#);
    let token = answer.text_at("/jwt");
    let mut user = server.client("rw").with("authorization", &format!("bearer {token}"));
    user.script(
        "
        GET /_api/version -> 200
        GET /_admin/options -> 403/11
        ",
    );
    // {"alg":"HS256","typ":"JWT"}.{"iss":"arangodb","server_id":"x"}, signed with the secret of the
    // tests.
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhcmFuZ29kYiIsInNlcnZlcl9pZCI6IngifQ.iSr-OZwnP-qYHrvR2JnsF8jCGGpfFmnbgVoMT1eYIP4";
    let mut superuser = server.client("rw").with("authorization", &format!("bearer {token}"));
    superuser.script("GET /_admin/options -> 200");
    let mut forged = server.client("rw").with("authorization", &format!("bearer {token}x"));
    forged.script("GET /_api/version -> 401/11");
}

#[test]
fn oversized_and_chunked_requests_are_refused() {
    let server = Server::start();
    let mut client = server.root();
    let long = format!("/_api/version?x={}", "a".repeat(17_000));
    assert_eq!(client.get(&long).status, 414);

    let mut client = server.client("rw");
    client.send("POST /_api/cursor HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n");
    assert_eq!(client.receive(false).status, 411);

    let mut client = server.client("rw");
    client.send("POST /_api/cursor HTTP/1.1\r\nhost: x\r\ncontent-length: 9999999999\r\n\r\n{");
    assert_eq!(client.receive(false).status, 413);

    let mut root = server.root().with("content-type", "application/x-velocypack");
    root.script("POST /_api/cursor {} -> 501/9");
}

#[test]
fn a_stop_lets_idle_connections_go() {
    let server = Server::start();
    let mut client = server.root();
    client.script("GET /_api/version -> 200");
    let before = std::time::Instant::now();
    drop(server);
    assert!(before.elapsed().as_secs() < 5, "an idle connection held the drain up");
    let mut rest = Vec::new();
    client.stream().read_to_end(&mut rest).expect("closed in order");
    assert!(rest.is_empty());
}
