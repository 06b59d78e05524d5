//! Each hostile request ends at a limit that its error names, and other requests are still served.

use super::wire::{Client, Server};

/// Maximum numbers of cursors and open stream transactions of the HTTP server (`http/limits.rs`,
/// `limits.rs`).
const KEPT_MAX: usize = 1024;

fn head(client: &mut Client, lines: &str) -> u16 {
    client.send(&format!("GET /_admin/server/availability HTTP/1.1\r\nhost: x\r\n{lines}\r\n"));
    client.receive(false).status
}

#[test]
fn many_headers_and_long_ones_are_431() {
    let server = Server::start();
    let header = |number: usize| format!("x-{number}: y\r\n");
    let many: String = (0..90).map(header).collect();
    assert_eq!(head(&mut server.client("rw"), &many), 200);
    let too_many: String = (0..200).map(header).collect();
    assert_eq!(head(&mut server.client("rw"), &too_many), 431);
    let long = format!("x: {}\r\n", "y".repeat(900 << 10));
    assert_eq!(head(&mut server.client("rw"), &long), 200);
    // The HTTP library hyper checks the length of the head only between two reads, and one read may
    // be as long as the limit. A head is certain to be refused only if it is longer than twice the
    // limit.
    let too_long = format!("x: {}\r\n", "y".repeat(2200 << 10));
    let mut client = server.client("rw");
    // The server may close the connection before it has read the whole request.
    let text = format!("GET / HTTP/1.1\r\nhost: x\r\n{too_long}\r\n");
    let _ = std::io::Write::write_all(client.stream().get_mut(), text.as_bytes());
    assert_eq!(client.receive(false).status, 431);
    server.root().script("GET /_api/version -> 200");
}

#[test]
fn a_flood_of_pipelined_requests_is_answered_in_order_and_holds_nobody_up() {
    let server = Server::start();
    let mut flood = server.client("rw");
    let one = "GET /_admin/server/availability HTTP/1.1\r\nhost: x\r\n\r\n";
    flood.send(&one.repeat(500));
    server.root().script("GET /_api/version -> 200");
    for _ in 0..500 {
        assert_eq!(flood.receive(false).status, 200);
    }
}

#[test]
fn stream_transactions_are_bounded_and_places_come_back() {
    let server = Server::start();
    let mut root = server.root();
    let begin = r#"{"collections":{}}"#;
    let mut last = String::new();
    for _ in 0..KEPT_MAX {
        last = root.post("/_api/transaction/begin", begin).text_at("/result/id");
    }
    root.script(&format!(
        r#"
        POST /_api/transaction/begin {begin} -> 500/32
        DELETE /_api/transaction/{last} -> 200
        POST /_api/transaction/begin {begin} -> 201
        POST /_api/transaction/begin {begin} -> 500/32
        "#
    ));
}

#[test]
fn the_id_of_a_cursor_does_not_lead_to_the_next_one() {
    let server = Server::start();
    let mut root = server.root();
    let query = r#"{"query":"FOR i IN 1..10 RETURN i","batchSize":2}"#;
    let mut id =
        || root.post("/_api/cursor", query).text_at("/id").parse::<u64>().expect("a number");
    let (one, two, three) = (id(), id(), id());
    assert!(one.abs_diff(two) > 1 << 20 && two.abs_diff(three) > 1 << 20, "{one} {two} {three}");
}

#[test]
fn cursors_are_bounded_and_places_come_back() {
    let server = Server::start();
    let mut root = server.root();
    let query = r#"{"query":"FOR i IN 1..3 RETURN i","batchSize":1}"#;
    let mut last = String::new();
    for _ in 0..KEPT_MAX {
        last = root.post("/_api/cursor", query).text_at("/id");
    }
    root.script(&format!(
        r#"
        POST /_api/cursor {query} -> 500/32
        POST /_api/cursor {{"query":"RETURN 1"}} -> 201
        DELETE /_api/cursor/{last} -> 202
        POST /_api/cursor {query} -> 201
        "#
    ));
}

#[test]
fn giant_lists_deep_texts_and_wide_queries_end_at_a_limit() {
    let server = Server::start();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    let list = format!("[{}{{}}]", "{},".repeat(1_000_000));
    assert_eq!(root.post("/_api/document/c", &list).verdict(), "500/32");
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(root.post("/_api/document/c", &deep).status, 400);
    let query = |text: String| serde_json::json!({ "query": text }).to_string();
    let parens = query(format!("RETURN {}1{}", "(".repeat(100_000), ")".repeat(100_000)));
    assert!(root.post("/_api/cursor", &parens).status >= 400);
    let terms = query(format!("RETURN {}1", "1 + ".repeat(100_000)));
    assert!(root.post("/_api/cursor", &terms).status >= 400);
    let growing = query(
        "RETURN (FOR i IN 1..1000 FOR j IN 1..1000 FOR k IN 1..1000 RETURN [i, j, k])".into(),
    );
    assert_eq!(
        root.post("/_api/cursor", &growing.replace('}', r#","memoryLimit":10000000}"#)).verdict(),
        "500/32"
    );
    assert_eq!(root.get("/_api/collection/c/count").at("/count"), 0);
}
