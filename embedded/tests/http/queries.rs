//! Queries, cursors and their batches, explain, parse, and permissions of queries (HTTP API manual
//! of 3.12).

use std::time::Duration;

use super::wire::{Client, Server};

/// The seven counters that the client arangors needs in every batch (HTTP API manual of 3.12), and
/// further counters of 3.12.10.
const STATS: [&str; 16] = [
    "writesExecuted",
    "writesIgnored",
    "documentLookups",
    "seeks",
    "scannedFull",
    "scannedIndex",
    "searchParallelism",
    "cursorsCreated",
    "cursorsRearmed",
    "cacheHits",
    "cacheMisses",
    "filtered",
    "httpRequests",
    "executionTime",
    "peakMemoryUsage",
    "intermediateCommits",
];

fn with_documents(server: &Server) -> Client {
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/collection {"name":"d"} -> 200
        POST /_api/document/c [{"n":1},{"n":2},{"n":3},{"n":4},{"n":5}] -> 202
        "#,
    );
    root
}

#[test]
fn batches_come_by_post_and_put_until_there_are_no_more() {
    let server = Server::start();
    let mut root = with_documents(&server);
    let first = root.post(
        "/_api/cursor",
        r#"{"query":"FOR x IN c SORT x.n RETURN x.n","count":true,"batchSize":2}"#,
    );
    assert_eq!((first.status, first.at("/result")), (201, serde_json::json!([1, 2])));
    assert_eq!(
        (first.at("/hasMore"), first.at("/count"), first.text_at("/nextBatchId")),
        (true.into(), 5.into(), "2".into())
    );
    let id = first.text_at("/id");
    let second = root.put(&format!("/_api/cursor/{id}"), "");
    assert_eq!(
        (second.status, second.at("/result"), second.at("/count")),
        (200, serde_json::json!([3, 4]), 5.into())
    );
    let last = root.post(&format!("/_api/cursor/{id}"), "");
    assert_eq!((last.at("/result"), last.at("/hasMore")), (serde_json::json!([5]), false.into()));
    assert!(last.json().get("id").is_none() && last.json().get("nextBatchId").is_none());
    for batch in [&first, &second, &last] {
        for name in STATS {
            assert!(batch.at(&format!("/extra/stats/{name}")).is_number(), "{name}");
        }
        assert_eq!(batch.at("/extra/warnings"), serde_json::json!([]));
    }
    root.script(&format!("POST /_api/cursor/{id} -> 404/1600"));
}

#[test]
fn a_cursor_ends_by_deletion_and_by_time_and_has_one_owner() {
    let server = Server::start();
    let mut root = with_documents(&server);
    let open = |root: &mut Client, ttl: &str| {
        let body = format!(r#"{{"query":"FOR x IN 1..5 RETURN x","batchSize":2,"ttl":{ttl}}}"#);
        root.post("/_api/cursor", &body).text_at("/id")
    };
    let id = open(&mut root, "30");
    root.script(&format!(
        r#"
        POST /_api/user {{"user":"u","passwd":"p"}} -> 201
        PUT /_api/user/u/database/_system {{"grant":"rw"}} -> 200
        POST /_api/database {{"name":"other"}} -> 201
        POST /_db/other/_api/cursor/{id} -> 404/1600
        "#
    ));
    server.client("rw").login("u", "p").script(&format!(
        "
        POST /_api/cursor/{id} -> 404/1600
        DELETE /_api/cursor/{id} -> 404/1600
        "
    ));
    root.script(&format!(
        "
        DELETE /_api/cursor/{id} -> 202
        DELETE /_api/cursor/{id} -> 404/1600
        POST /_api/cursor/abc -> 404/1600
        "
    ));
    let id = open(&mut root, "0.05");
    std::thread::sleep(Duration::from_millis(80));
    root.script(&format!("POST /_api/cursor/{id} -> 404/1600"));
}

#[test]
fn a_batch_can_be_fetched_again_if_that_was_asked_for() {
    let server = Server::start();
    let mut root = server.root();
    let body = r#"{"query":"FOR i IN 1..5 RETURN i","batchSize":2,"options":{"allowRetry":true}}"#;
    let id = root.post("/_api/cursor", body).text_at("/id");
    let second = root.post(&format!("/_api/cursor/{id}"), "");
    let again = root.post(&format!("/_api/cursor/{id}/2"), "");
    assert_eq!((again.status, &again.text), (200, &second.text));
    assert_eq!(again.text_at("/nextBatchId"), "3");
    let last = root.post(&format!("/_api/cursor/{id}/3"), "");
    assert_eq!(last.at("/result"), serde_json::json!([5]));
    assert_eq!(root.post(&format!("/_api/cursor/{id}/3"), "").text, last.text);
    root.script(&format!("DELETE /_api/cursor/{id} -> 202"));
}

#[test]
fn wrong_queries_have_their_numbers() {
    let server = Server::start();
    with_documents(&server).script(
        r#"
        POST /_api/cursor -> 400/1502
        POST /_api/cursor {} -> 400/1502
        POST /_api/cursor {"query":""} -> 400/1502
        POST /_api/cursor {"query":7} -> 400/10
        POST /_api/cursor {"query":"RETURN 1","batchSize":0} -> 400/10
        POST /_api/cursor {"query":"RETURN 1","bindVars":[]} -> 400/10
        POST /_api/cursor {"query":"FOR x IN RETURN"} -> 400/1501
        POST /_api/cursor {"query":"FOR x IN unknown RETURN x"} -> 404/1203
        POST /_api/cursor {"query":"RETURN @a"} -> 400/1551
        POST /_api/cursor {"query":"RETURN 1","bindVars":{"a":1}} -> 400/1552
        POST /_api/cursor {"query":"REMOVE 'none' IN c"} -> 404/1202
        POST /_api/query {"query":"FOR x IN RETURN"} -> 400/1501
        POST /_api/query {"query":"FOR x IN unknown RETURN x"} -> 200
        POST /_api/explain {"query":"FOR x IN unknown RETURN x"} -> 404/1203
        "#,
    );
}

#[test]
fn counters_and_the_full_count_tell_what_happened() {
    let server = Server::start();
    let mut root = with_documents(&server);
    let answer = root.post(
        "/_api/cursor",
        r#"{"query":"FOR i IN 1..1000 FILTER i > 500 LIMIT 10 RETURN i","count":true,"options":{"fullCount":true}}"#,
    );
    assert_eq!((answer.at("/count"), answer.at("/extra/stats/fullCount")), (10.into(), 500.into()));
    let answer = root.query("FOR x IN c FILTER x.n > 3 REMOVE x IN c");
    assert_eq!(answer.at("/extra/stats/writesExecuted"), 2);
    assert_eq!(root.get("/_api/collection/c/count").at("/count"), 3);
    let answer = root.query("REMOVE 'none' IN c OPTIONS { ignoreErrors: true }");
    assert_eq!(answer.at("/extra/stats/writesIgnored"), 1);
    root.script(
        r#"
        POST /_api/explain {"query":"RETURN [1,2][* RETURN 3]"} -> 200
        POST /_api/explain {"query":"RETURN [1,2][? 2 FILTER true]"} -> 200
        "#,
    );
    let plan = root.post("/_api/explain", r#"{"query":"FOR x IN c RETURN x"}"#);
    let nodes = plan.at("/plan/nodes");
    let types: Vec<_> =
        nodes.as_array().expect("nodes").iter().map(|n| n["type"].clone()).collect();
    assert_eq!(types, ["SingletonNode", "EnumerateCollectionNode", "ReturnNode"]);
}

#[test]
fn a_failed_query_changes_nothing_even_inside_a_stream_transaction() {
    let server = Server::start();
    let mut root = with_documents(&server);
    let failing = "FOR x IN [1, 2] INSERT { _key: x == 1 ? 'first' : 'first' } INTO d";
    assert_eq!(root.query(failing).verdict(), "409/1210");
    assert_eq!(root.get("/_api/collection/d/count").at("/count"), 0);
    let id = root
        .post("/_api/transaction/begin", r#"{"collections":{"write":["c","d"]}}"#)
        .text_at("/result/id");
    let mut within = server.root().with("x-arango-trx-id", &id);
    assert_eq!(within.query("INSERT { _key: 'kept' } INTO d").status, 201);
    assert_eq!(within.query(failing).verdict(), "409/1210");
    assert_eq!(within.query("FOR x IN d RETURN x._key").at("/result"), serde_json::json!(["kept"]));
    assert_eq!(within.query("FOR x IN c LIMIT 1 RETURN 1").at("/result"), serde_json::json!([1]));
    assert_eq!(root.query("FOR x IN d RETURN x._key").at("/result"), serde_json::json!([]));
    root.script(&format!("PUT /_api/transaction/{id} -> 200"));
    assert_eq!(root.query("FOR x IN d RETURN x._key").at("/result"), serde_json::json!(["kept"]));
}

#[test]
fn undeclared_collections_stay_closed_to_queries_in_a_stream_transaction() {
    let server = Server::start();
    let mut root = with_documents(&server);
    let body = r#"{"collections":{"write":"c"},"allowImplicit":false}"#;
    let id = root.post("/_api/transaction/begin", body).text_at("/result/id");
    let mut within = server.root().with("x-arango-trx-id", &id);
    assert_eq!(within.query("INSERT {} INTO d").verdict(), "400/1652");
    assert_eq!(within.query("FOR x IN d RETURN x").verdict(), "400/1652");
    root.script(&format!("DELETE /_api/transaction/{id} -> 200"));
}

#[test]
fn one_forbidden_collection_forbids_the_query() {
    let server = Server::start();
    let mut root = with_documents(&server);
    root.script(
        r#"
        POST /_api/document/d {"_key":"secret"} -> 202
        POST /_api/user {"user":"u","passwd":"p"} -> 201
        PUT /_api/user/u/database/_system {"grant":"ro"} -> 200
        PUT /_api/user/u/database/_system/c {"grant":"ro"} -> 200
        "#,
    );
    let mut ann = server.client("rw").login("u", "p");
    assert_eq!(ann.query("FOR x IN c RETURN x.n").status, 201);
    for query in [
        "FOR x IN c FOR y IN d RETURN y",
        "RETURN LENGTH(d)",
        "INSERT {} INTO c",
        "FOR x IN c REMOVE x IN c",
        "FOR x IN c LET y = (FOR z IN d RETURN z) RETURN y",
    ] {
        assert_eq!(ann.query(query).verdict(), "403/11", "{query}");
    }
    // A collection whose name is computed only while the query runs is refused too.
    let sneaked = ann.query("RETURN DOCUMENT(CONCAT('d', '/secret'))");
    assert!(!sneaked.text.contains("\"secret\""), "{}", sneaked.text);
    assert_eq!(ann.post("/_api/explain", r#"{"query":"FOR x IN d RETURN x"}"#).verdict(), "403/11");
}

#[test]
fn the_read_only_socket_runs_reading_queries_only() {
    let server = Server::start();
    with_documents(&server);
    let mut reader = server.reader();
    assert_eq!(reader.query("FOR x IN c RETURN x.n").status, 201);
    for query in
        ["INSERT {} INTO c", "FOR x IN c UPDATE x WITH { a: 1 } IN c", "FOR x IN c REMOVE x IN c"]
    {
        assert_eq!(reader.query(query).verdict(), "403/1004", "{query}");
    }
}
