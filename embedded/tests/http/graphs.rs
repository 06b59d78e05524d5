//! HTTP calls for named graphs (HTTP API manual of 3.12).

use super::wire::{Client, Server};

const SOCIAL: &str = r#"{"name":"social","edgeDefinitions":[{"collection":"relation","from":["male","female"],"to":["female"]}],"orphanCollections":["city"]}"#;

#[test]
fn a_graph_makes_its_collections_and_guards_them() {
    let server = Server::start();
    let mut root = server.root();
    let made = root.post("/_api/gharial", SOCIAL);
    assert_eq!(made.status, 202);
    assert_eq!(made.at("/graph/edgeDefinitions/0/from"), serde_json::json!(["female", "male"]));
    assert_eq!(made.headers["etag"], made.text_at("/graph/_rev"));
    assert_eq!(root.get("/_api/collection/relation").at("/type"), 3);
    root.script(
        r#"
        POST /_api/gharial {"name":"social"} -> 409/1925
        POST /_api/gharial {} -> 400/1922
        POST /_api/gharial {"name":"g","edgeDefinitions":[{"collection":"relation","from":["male"],"to":["male"]}]} -> 400/1921
        POST /_api/gharial {"name":"g","edgeDefinitions":[{"collection":"x"}]} -> 400/1923
        POST /_api/gharial {"name":"g","edgeDefinitions":[{"collection":"x","from":["y"],"to":["y"]},{"collection":"x","from":["y"],"to":["y"]}]} -> 400/1920
        POST /_api/gharial {"name":"g","isSmart":true} -> 501/9
        GET /_api/gharial/none -> 404/1924
        DELETE /_api/gharial/none -> 404/1924
        GET /_api/gharial/social -> 200
        DELETE /_api/collection/male -> 500/1942
        DELETE /_api/gharial/social/vertex/male -> 400/1928
        DELETE /_api/gharial/social/vertex/none -> 404/1926
        DELETE /_api/gharial/social/vertex/city -> 202
        POST /_api/gharial/social/vertex {"collection":"male"} -> 400/1938
        POST /_api/gharial/social/vertex {"collection":"town"} -> 202
        POST /_api/gharial/social/edge {"collection":"lives","from":["male"],"to":["town"]} -> 202
        PUT /_api/gharial/social/edge/none {"from":["male"],"to":["town"]} -> 404/1930
        DELETE /_api/gharial/social/edge/lives -> 202
        "#,
    );
    assert_eq!(
        root.get("/_api/gharial/social").at("/graph/orphanCollections"),
        serde_json::json!(["town"])
    );
    assert_eq!(root.get("/_api/gharial").at("/graphs").as_array().map(Vec::len), Some(1));
    root.script(
        r#"
        DELETE /_api/gharial/social?dropCollections=true -> 202
        GET /_api/collection/male -> 404/1203
        GET /_api/collection/lives -> 200
        "#,
    );
}

#[test]
fn edges_end_in_vertices_and_go_with_them() {
    let server = Server::start();
    let mut root = server.root();
    assert_eq!(root.post("/_api/gharial", SOCIAL).status, 202);
    root.script(
        r#"
        POST /_api/gharial/social/vertex/male {"_key":"bob"} -> 202
        POST /_api/gharial/social/vertex/female {"_key":"alice"} -> 202
        POST /_api/gharial/social/vertex/none {} -> 404/1926
        GET /_api/gharial/social/vertex/male/bob -> 200
        PATCH /_api/gharial/social/vertex/male/bob {"age":40} -> 202
        POST /_api/gharial/social/edge/relation {"_key":"r","_from":"male/bob","_to":"female/alice"} -> 202
        POST /_api/gharial/social/edge/relation {"_from":"male/bob","_to":"female/none"} -> 404/1202
        POST /_api/gharial/social/edge/relation {"_from":"male/bob","_to":"male/bob"} -> 400/1947
        POST /_api/gharial/social/edge/relation {"_from":"male/bob"} -> 400/1233
        PUT /_api/gharial/social/edge/relation/r {"_from":"female/alice","_to":"female/alice"} -> 202
        GET /_api/gharial/social/edge/relation/r -> 200
        "#,
    );
    let edges = root.get("/_api/edges/relation?vertex=female/alice&direction=in");
    assert_eq!(edges.at("/edges").as_array().map(Vec::len), Some(1));
    let removed = root.delete("/_api/gharial/social/vertex/female/alice");
    assert_eq!((removed.status, removed.at("/removed")), (202, true.into()));
    root.script("GET /_api/document/relation/r -> 404/1202");
}

/// A graph like that of an agent's memory: a core, its log of messages, their citations, and the
/// cited sources.
const MEMORY: &str = r#"{"name":"g","edgeDefinitions":[
    {"collection":"log","from":["core"],"to":["message"]},
    {"collection":"cites","from":["message"],"to":["archive"]}]}"#;

fn rows(client: &mut Client, text: &str) -> serde_json::Value {
    let body = serde_json::json!({"query": text}).to_string();
    let answer = client.post("/_api/cursor", &body);
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.at("/result")
}

const WALK: &str =
    "FOR v IN 1..2 OUTBOUND 'core/ann' GRAPH 'g' OPTIONS {order: 'bfs'} SORT v._id RETURN v._id";

#[test]
fn a_traversal_sees_its_own_transaction_and_only_that() {
    let server = Server::start();
    let mut root = server.root();
    assert_eq!(root.post("/_api/gharial", MEMORY).status, 202);
    root.script(
        r#"
        POST /_api/document/core {"_key":"ann"} -> 202
        POST /_api/document/message [{"_key":"1"},{"_key":"2"}] -> 202
        POST /_api/document/archive {"_key":"book"} -> 202
        POST /_api/document/log {"_from":"core/ann","_to":"message/1"} -> 202
        "#,
    );
    assert_eq!(rows(&mut root, WALK), serde_json::json!(["message/1"]));
    let begun =
        root.post("/_api/transaction/begin", r#"{"collections":{"write":["log","cites"]}}"#);
    let id = begun.text_at("/result/id");
    let mut within = server.root().with("x-arango-trx-id", &id);
    rows(&mut within, "INSERT {_from: 'core/ann', _to: 'message/2'} INTO log");
    rows(&mut within, "INSERT {_from: 'message/2', _to: 'archive/book'} INTO cites");
    rows(&mut within, "FOR l IN log FILTER l._to == 'message/1' REMOVE l IN log");
    assert_eq!(rows(&mut within, WALK), serde_json::json!(["archive/book", "message/2"]));
    assert_eq!(rows(&mut root, WALK), serde_json::json!(["message/1"]));
    root.script(&format!("PUT /_api/transaction/{id} -> 200"));
    assert_eq!(rows(&mut root, WALK), serde_json::json!(["archive/book", "message/2"]));
}

#[test]
fn a_kept_plan_notices_that_its_graph_has_changed() {
    let server = Server::start();
    let mut root = server.root();
    assert_eq!(root.post("/_api/gharial", MEMORY).status, 202);
    root.script(
        r#"
        POST /_api/document/core {"_key":"ann"} -> 202
        POST /_api/document/message {"_key":"1"} -> 202
        POST /_api/document/log {"_from":"core/ann","_to":"message/1"} -> 202
        POST /_api/collection {"name":"likes","type":3} -> 200
        POST /_api/document/likes {"_from":"message/1","_to":"core/ann"} -> 202
        "#,
    );
    assert_eq!(rows(&mut root, WALK), serde_json::json!(["message/1"]));
    root.script(
        r#"POST /_api/gharial/g/edge {"collection":"likes","from":["message"],"to":["core"]} -> 202"#,
    );
    assert_eq!(rows(&mut root, WALK), serde_json::json!(["core/ann", "message/1"]));
    root.script("DELETE /_api/gharial/g -> 202");
    let body = serde_json::json!({"query": WALK}).to_string();
    root.script(&format!("POST /_api/cursor {body} -> 404/1924"));
}

#[test]
fn a_traversal_needs_read_access_to_all_that_its_graph_names() {
    let server = Server::start();
    let mut root = server.root();
    assert_eq!(root.post("/_api/gharial", MEMORY).status, 202);
    root.script(
        r#"
        POST /_api/document/core {"_key":"ann"} -> 202
        POST /_api/document/message {"_key":"1"} -> 202
        POST /_api/document/log {"_from":"core/ann","_to":"message/1"} -> 202
        POST /_api/user {"user":"u","passwd":"p"} -> 201
        PUT /_api/user/u/database/_system {"grant":"ro"} -> 200
        PUT /_api/user/u/database/_system/* {"grant":"none"} -> 200
        PUT /_api/user/u/database/_system/core {"grant":"ro"} -> 200
        PUT /_api/user/u/database/_system/message {"grant":"ro"} -> 200
        PUT /_api/user/u/database/_system/log {"grant":"ro"} -> 200
        "#,
    );
    let mut ann = server.client("rw").login("u", "p");
    let listed = "FOR v IN OUTBOUND 'core/ann' log RETURN v._id";
    assert_eq!(rows(&mut ann, listed), serde_json::json!(["message/1"]));
    let body = serde_json::json!({"query": WALK}).to_string();
    ann.script(&format!("POST /_api/cursor {body} -> 403/11"));
}
