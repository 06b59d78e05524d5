//! Tests the engine in the role of a coordinator with injected faults: its answers about shards,
//! and the errors that a changing cluster returns.

use arango_embedded::Options;
use arango_embedded::compat::Role;
use serde_json::{Value, json};

use super::wire::Server;

fn coordinator() -> Server {
    let options =
        Options { role: Role::Coordinator, vector_index: true, faults: true, ..Options::default() };
    Server::start_with(Options { sync: false, ..options })
}

#[test]
fn a_coordinator_says_so_wherever_it_is_asked() {
    let (cluster, single) = (coordinator(), Server::start());
    let (mut there, mut alone) = (cluster.root(), single.root());
    for (path, pointer, expected) in [
        ("/_admin/server/role", "/role", ["COORDINATOR", "SINGLE"]),
        ("/_admin/status", "/serverInfo/role", ["COORDINATOR", "SINGLE"]),
        ("/_api/version?details=true", "/details/role", ["COORDINATOR", "SINGLE"]),
    ] {
        assert_eq!(
            [there.get(path).text_at(pointer), alone.get(path).text_at(pointer)],
            expected,
            "{path}"
        );
    }
    there.script("GET /_api/cluster/endpoints -> 200");
    alone.script("GET /_api/cluster/endpoints -> 501/501");
    let current = there.get("/_api/database/current").at("/result");
    assert_eq!(
        [&current["sharding"], &current["replicationFactor"], &current["writeConcern"]],
        [&json!(""), &json!(1), &json!(1)]
    );
    assert_eq!(alone.get("/_api/database/current").at("/result/sharding"), json!(null));
}

#[test]
fn collections_have_the_shards_they_were_made_with() {
    let server = coordinator();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"plain"} -> 200
        POST /_api/collection {"name":"wide","numberOfShards":3,"shardKeys":["country","a.b"],"replicationFactor":2,"writeConcern":2} -> 200
        POST /_api/collection {"name":"follower","distributeShardsLike":"wide","shardKeys":["x","y"]} -> 200
        POST /_api/collection {"name":"bad","numberOfShards":0} -> 400/10
        POST /_api/collection {"name":"bad","shardKeys":[]} -> 400/10
        POST /_api/collection {"name":"bad","shardKeys":["_id"]} -> 400/10
        POST /_api/collection {"name":"bad","replicationFactor":1,"writeConcern":2} -> 400/10
        POST /_api/collection {"name":"bad","distributeShardsLike":"nobody"} -> 500/1486
        POST /_api/collection {"name":"bad","distributeShardsLike":"follower","shardKeys":["x","y"]} -> 500/1485
        POST /_api/collection {"name":"bad","distributeShardsLike":"wide"} -> 400/10
        PUT /_api/collection/plain/rename {"name":"other"} -> 501/1470
        POST /_api/view {"name":"v","type":"arangosearch"} -> 201
        PUT /_api/view/v/rename {"name":"w"} -> 501/1470
        PUT /_api/collection/wide/properties {"replicationFactor":3,"writeConcern":1} -> 200
        "#,
    );
    let shown = |properties: &Value| {
        [
            "numberOfShards",
            "shardKeys",
            "replicationFactor",
            "writeConcern",
            "distributeShardsLike",
            "shardingStrategy",
            "objectId",
        ]
        .map(|name| properties[name].clone())
    };
    for (name, expected) in [
        ("plain", json!([1, ["_key"], 1, 1, null, "hash", null])),
        ("wide", json!([3, ["country", "a.b"], 3, 1, null, "hash", null])),
        ("follower", json!([3, ["x", "y"], 2, 2, "wide", "hash", null])),
    ] {
        let properties = root.get(&format!("/_api/collection/{name}/properties")).at("");
        assert_eq!(json!(shown(&properties)), expected, "{name}");
    }
    let shards = root.get("/_api/collection/wide/shards").at("/shards");
    assert_eq!(shards.as_array().expect("shards").len(), 3);
}

#[test]
fn what_a_sharded_collection_refuses_is_not_done() {
    let server = coordinator();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"one","shardKeys":["country"]} -> 200
        POST /_api/collection {"name":"c","numberOfShards":3,"shardKeys":["country"]} -> 200
        POST /_api/document/one {"_key":"own","country":"x"} -> 202
        POST /_api/document/c {"_key":"own","country":"x"} -> 400/1466
        POST /_api/document/c {"country":"x","n":1} -> 202
        POST /_api/cursor {"query":"INSERT {_key: 'own'} INTO c"} -> 400/1466
        POST /_api/cursor {"query":"FOR d IN c UPDATE d WITH {n: 2} IN c"} -> 201
        POST /_api/cursor {"query":"FOR d IN c UPDATE d WITH {country: 'x'} IN c"} -> 201
        POST /_api/cursor {"query":"FOR d IN c UPDATE d WITH {country: 'y'} IN c"} -> 400/1469
        POST /_api/cursor {"query":"FOR d IN c REPLACE d WITH {n: 3} IN c"} -> 400/1469
        POST /_api/cursor {"query":"FOR d IN c REPLACE d WITH {n: 3, country: 'x'} IN c"} -> 201
        POST /_api/index?collection=c {"type":"persistent","fields":["n"],"unique":true} -> 400/1470
        POST /_api/index?collection=c {"type":"persistent","fields":["n","country"],"unique":true} -> 201
        POST /_api/index?collection=c {"type":"persistent","fields":["n"]} -> 201
        POST /_api/index?collection=one {"type":"persistent","fields":["n"],"unique":true} -> 201
        "#,
    );
    let begun = root.post("/_api/transaction/begin", r#"{"collections":{"write":["c","one"]}}"#);
    assert_eq!(begun.status, 201, "{}", begun.text);
    let id = begun.text_at("/result/id");
    server
        .root()
        .with("x-arango-trx-id", &id)
        .script(r#"POST /_api/document/c {"country":"z"} -> 202"#);
    root.script(&format!("PUT /_api/transaction/{id} -> 200"));
}

#[test]
fn a_one_shard_database_keeps_its_collections_together() {
    let server = coordinator();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/database {"name":"odd","options":{"sharding":"some"}} -> 400/10
        POST /_api/database {"name":"one","options":{"sharding":"single","replicationFactor":2,"writeConcern":2}} -> 201
        POST /_db/one/_api/collection {"name":"c"} -> 200
        POST /_db/one/_api/collection {"name":"d","numberOfShards":2} -> 400/10
        POST /_db/one/_api/collection {"name":"d","distributeShardsLike":"c"} -> 400/10
        POST /_db/one/_api/document/c {"_key":"own"} -> 202
        "#,
    );
    let current = root.get("/_db/one/_api/database/current").at("/result");
    assert_eq!(
        [&current["sharding"], &current["replicationFactor"], &current["writeConcern"]],
        [&json!("single"), &json!(2), &json!(2)]
    );
    let made = root.get("/_db/one/_api/collection/c/properties").at("");
    assert_eq!(
        [&made["numberOfShards"], &made["distributeShardsLike"], &made["replicationFactor"]],
        [&json!(1), &json!("_graphs"), &json!(2)]
    );
}

#[test]
fn each_fault_is_given_as_often_as_it_was_asked_for() {
    let server = coordinator();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    for (name, verdict) in [
        ("moved-leader", "503/1496"),
        ("leadership-challenge", "503/1495"),
        ("backend-unavailable", "503/1478"),
        ("cluster-timeout", "500/1457"),
        ("write-concern", "503/1429"),
        ("shutting-down", "503/30"),
        ("starting-up", "503/38"),
        ("queue-full", "503/21003"),
        ("queue-time", "412/21004"),
        ("read-only", "403/1004"),
        ("lock-timeout", "500/18"),
        ("locked", "500/28"),
        ("deadlock", "500/29"),
        ("conflict", "409/1200"),
        ("resource-limit", "500/32"),
        ("cursor-gone", "404/1600"),
        ("transaction-gone", "404/1655"),
        ("nothing-known", "400/10"),
    ] {
        let mut asking = server.root().with("x-arango-embedded-fault", name);
        let answer = asking.post("/_api/document/c", "{}");
        assert_eq!(answer.verdict(), verdict, "{name}");
    }
    assert_eq!(root.get("/_api/collection/c/count").at("/count"), 0, "nothing was done");
    // With the fault after the write, the client gets an error although the document exists.
    let mut asking = server.root().with("x-arango-embedded-fault", "moved-leader;after");
    assert_eq!(asking.post("/_api/document/c", "{}").verdict(), "503/1496");
    assert_eq!(root.get("/_api/collection/c/count").at("/count"), 1);
    root.script(
        r#"
        PUT /_admin/embedded/faults {"fault":"moved-leader","times":2,"path":"/_api/document","method":"POST"} -> 200
        GET /_api/version -> 200
        POST /_api/document/c {} -> 503/1496
        POST /_api/document/c {} -> 503/1496
        POST /_api/document/c {} -> 202
        PUT /_admin/embedded/faults {"fault":"queue-full","times":9} -> 200
        GET /_admin/server/availability -> 503/21003
        DELETE /_admin/embedded/faults -> 200
        GET /_admin/server/availability -> 200
        PUT /_admin/embedded/faults {"fault":"queue-full","times":0} -> 400/10
        PUT /_admin/embedded/faults {"fault":"rain"} -> 400/10
        "#,
    );
    let without = Server::start();
    let mut asking = without.root().with("x-arango-embedded-fault", "moved-leader");
    asking.script("GET /_api/version -> 200");
    asking.script(r#"PUT /_admin/embedded/faults {"fault":"queue-full"} -> 501/9"#);
}
