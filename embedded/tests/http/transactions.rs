//! Stream transactions (HTTP API manual of 3.12).

use std::time::Duration;

use arango_embedded::Options;

use super::wire::{Client, Server};

fn begin(client: &mut Client, body: &str) -> String {
    let answer = client.post("/_api/transaction/begin", body);
    assert_eq!((answer.status, answer.text_at("/result/status").as_str()), (201, "running"));
    answer.text_at("/result/id")
}

fn inside(server: &Server, id: &str) -> Client {
    server.root().with("x-arango-trx-id", id)
}

fn prepared() -> (Server, Client) {
    prepared_with(Options { sync: false, ..Options::default() })
}

fn prepared_with(options: Options) -> (Server, Client) {
    let server = Server::start_with(options);
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/collection {"name":"r"} -> 200
        POST /_api/document/c {"_key":"k","n":0} -> 202
        "#,
    );
    (server, root)
}

#[test]
fn writes_are_seen_inside_at_once_and_outside_after_the_commit() {
    let (server, mut root) = prepared();
    let id = begin(&mut root, r#"{"collections":{"write":["c"],"read":"r"}}"#);
    let mut within = inside(&server, &id);
    within.script(
        r#"
        POST /_api/document/c {"_key":"new"} -> 202
        GET /_api/document/c/new -> 200
        "#,
    );
    assert_eq!(within.get("/_api/collection/c/count").at("/count"), 2);
    assert_eq!(root.get("/_api/collection/c/count").at("/count"), 1);
    root.script("GET /_api/document/c/new -> 404/1202");
    let listed = root.get("/_api/transaction");
    assert_eq!(listed.at("/transactions/0"), serde_json::json!({"id": id, "state": "running"}));
    root.script(&format!("PUT /_api/transaction/{id} -> 200"));
    root.script("GET /_api/document/c/new -> 200");
    assert_eq!(root.get(&format!("/_api/transaction/{id}")).at("/result/status"), "committed");
    assert_eq!(root.get("/_api/transaction").at("/transactions"), serde_json::json!([]));
}

#[test]
fn every_wrong_use_has_its_own_error() {
    let (server, mut root) = prepared();
    root.script(
        r#"
        POST /_api/transaction/begin {} -> 400/10
        POST /_api/transaction/begin {"collections":{"write":7}} -> 400/10
        POST /_api/transaction/begin {"collections":{"write":"unknown"}} -> 404/1203
        POST /_api/transaction/begin {"collections":{},"lockTimeout":-1} -> 400/10
        GET /_api/transaction/12345678 -> 404/1655
        PUT /_api/transaction/12345678 -> 404/1655
        GET /_api/transaction/abc -> 400/10
        "#,
    );
    let id = begin(&mut root, r#"{"collections":{"write":"c","read":"r"},"allowImplicit":false}"#);
    let mut within = inside(&server, &id);
    within.script(
        r#"
        # Declared for reading, and not declared at all.
        POST /_api/document/r {} -> 400/1652
        GET /_api/document/r/none -> 404/1202
        GET /_api/document/_graphs/none -> 400/1652
        # A failed operation leaves the transaction as it was.
        POST /_api/document/c {"_key":"k"} -> 409/1210
        POST /_api/document/c {"_key":"two"} -> 202
        "#,
    );
    server
        .client("rw")
        .login("root", "top")
        .with("x-arango-trx-id", "999")
        .script("GET /_api/document/c/k -> 404/1655");
    server
        .client("rw")
        .login("root", "top")
        .with("x-arango-trx-id", "x1")
        .script("GET /_api/document/c/k -> 400/10");
    root.script(&format!(
        r#"
        DELETE /_api/transaction/{id} -> 200
        DELETE /_api/transaction/{id} -> 200
        PUT /_api/transaction/{id} -> 400/1653
        GET /_api/document/c/two -> 404/1202
        "#
    ));
    within.script("GET /_api/document/c/k -> 410/1654");
    let id = begin(&mut root, r#"{"collections":{"write":"c"}}"#);
    root.script(&format!(
        r#"
        PUT /_api/transaction/{id} -> 200
        PUT /_api/transaction/{id} -> 200
        DELETE /_api/transaction/{id} -> 400/1653
        "#
    ));
}

#[test]
fn the_first_writer_wins() {
    let (server, mut root) = prepared();
    let first = begin(&mut root, r#"{"collections":{"write":"c"}}"#);
    let second = begin(&mut root, r#"{"collections":{"write":"c"}}"#);
    inside(&server, &first).script(r#"PATCH /_api/document/c/k {"n":1} -> 202"#);
    inside(&server, &second).script(r#"PATCH /_api/document/c/k {"n":2} -> 409/1200"#);
    root.script(r#"PATCH /_api/document/c/k {"n":3} -> 409/1200"#);
    root.script(&format!("PUT /_api/transaction/{first} -> 200"));
    // The snapshot of the second transaction is outdated, so its write is still a conflict.
    inside(&server, &second).script(r#"PATCH /_api/document/c/k {"n":2} -> 409/1200"#);
    root.script(&format!("DELETE /_api/transaction/{second} -> 200"));
    assert_eq!(root.get("/_api/document/c/k").at("/n"), 1);
}

#[test]
fn another_user_or_database_knows_nothing_of_it() {
    let (server, mut root) = prepared();
    root.script(
        r#"
        POST /_api/database {"name":"d"} -> 201
        POST /_api/user {"user":"u","passwd":"p"} -> 201
        PUT /_api/user/u/database/_system {"grant":"rw"} -> 200
        "#,
    );
    let id = begin(&mut root, r#"{"collections":{"write":"c"}}"#);
    let mut other = server.client("rw").login("u", "p");
    other.script(&format!("GET /_api/transaction/{id} -> 404/1655"));
    other.script(&format!("PUT /_api/transaction/{id} -> 404/1655"));
    assert_eq!(other.get("/_api/transaction").at("/transactions"), serde_json::json!([]));
    root.script(&format!("PUT /_db/d/_api/transaction/{id} -> 404/1655"));
    root.script(&format!("DELETE /_api/transaction/{id} -> 200"));
}

#[test]
fn a_busy_transaction_is_locked_for_others() {
    let (server, mut root) =
        prepared_with(Options { sync: false, stream_lock_wait_ms: 50, ..Options::default() });
    let id = begin(&mut root, r#"{"collections":{"write":"c"}}"#);
    let number: u64 = id.parse().expect("a number");
    let held = server.engine.streams().lend(number, "_system", "root").expect("lent");
    inside(&server, &id).script("GET /_api/document/c/k -> 500/28");
    drop(held);
    inside(&server, &id).script("GET /_api/document/c/k -> 200");
    root.script(&format!("PUT /_api/transaction/{id} -> 200"));
}

#[test]
fn an_idle_transaction_is_aborted() {
    let (server, mut root) =
        prepared_with(Options { sync: false, stream_idle_ms: 2_000, ..Options::default() });
    let id = begin(&mut root, r#"{"collections":{"write":"c"}}"#);
    inside(&server, &id).script(r#"PATCH /_api/document/c/k {"n":1} -> 202"#);
    let mut state = String::new();
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(50));
        let answer = root.get(&format!("/_api/transaction/{id}"));
        // The server reports the expired transaction as aborted for a while, and then as unknown.
        state =
            if answer.status == 200 { answer.text_at("/result/status") } else { answer.verdict() };
        if state != "running" {
            break;
        }
    }
    assert!(["aborted", "404/1655"].contains(&state.as_str()), "{state}");
    assert_ne!(root.put(&format!("/_api/transaction/{id}"), "").status, 200);
    assert_eq!(root.get("/_api/document/c/k").at("/n"), 0);
}

#[test]
fn a_transaction_has_a_size() {
    let (server, mut root) = prepared();
    let id = begin(&mut root, r#"{"collections":{"write":"c"},"maxTransactionSize":2000}"#);
    let big = format!(r#"POST /_api/document/c {{"t":"{}"}} -> 500/32"#, "x".repeat(5000));
    inside(&server, &id).script(&big);
    root.script(&format!("DELETE /_api/transaction/{id} -> 200"));
}

#[test]
fn truncation_and_lists_belong_to_it() {
    let (server, mut root) = prepared();
    let id = begin(&mut root, r#"{"collections":{"exclusive":"c"}}"#);
    let mut within = inside(&server, &id);
    within.script(
        r#"
        POST /_api/document/c [{"_key":"a"},{"_key":"k"}] -> 202
        PUT /_api/collection/c/truncate -> 200
        "#,
    );
    assert_eq!(within.get("/_api/collection/c/count").at("/count"), 0);
    assert_eq!(root.get("/_api/collection/c/count").at("/count"), 1);
    root.script("DELETE /_api/transaction/write -> 200");
    assert_eq!(root.get("/_api/collection/c/count").at("/count"), 1);
    root.script(&format!("GET /_api/transaction/{id} -> 200"));
}
