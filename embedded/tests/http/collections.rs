//! HTTP calls for databases, collections, indexes, views and analyzers (HTTP API manual of 3.12).

use arango_embedded::Options;

use super::wire::Server;

#[test]
fn databases_come_and_go_from_system() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/database {"name":"d"} -> 201
        POST /_api/database {"name":"d"} -> 409/1207
        POST /_api/database {"name":"1d"} -> 400/1229
        POST /_api/database {} -> 400/1229
        POST /_db/d/_api/database {"name":"e"} -> 403/1230
        GET /_db/d/_api/database -> 403/1230
        GET /_db/d/_api/database/user -> 200
        DELETE /_api/database/_system -> 403/11
        DELETE /_api/database/unknown -> 404/1228
        "#,
    );
    let current = root.get("/_db/d/_api/database/current");
    assert_eq!(current.text_at("/result/name"), "d");
    assert_eq!(current.at("/result/isSystem"), false);
    assert!(current.at("/result/path").is_string(), "drivers need a path");
    root.script(
        r#"
        DELETE /_api/database/d -> 200
        GET /_db/d/_api/version -> 404/1228
        POST /_api/database {"name":"Bücher und mehr"} -> 201
        GET /_db/B%C3%BCcher%20und%20mehr/_api/version -> 200
        "#,
    );
    assert_eq!(root.get("/_api/database").at("/result").as_array().map(Vec::len), Some(2));
}

#[test]
fn a_database_can_bring_its_users() {
    let server = Server::start();
    server.root().script(
        r#"
        POST /_api/database {"name":"d","users":[{"username":"ann","passwd":"a"}]} -> 201
        GET /_api/user/ann -> 200
        "#,
    );
    server.client("rw").login("ann", "a").within("d").script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/document/c {} -> 202
        "#,
    );
    server.client("rw").login("ann", "a").script("GET /_api/version -> 401/11");
}

#[test]
fn collections_have_the_recorded_shape_and_errors() {
    let server = Server::start();
    let mut root = server.root();
    let made = root.post(
        "/_api/collection",
        r#"{"name":"c","keyOptions":{"type":"autoincrement","increment":5}}"#,
    );
    assert_eq!(made.status, 200);
    let recorded = [
        "error",
        "code",
        "writeConcern",
        "waitForSync",
        "usesRevisionsAsDocumentIds",
        "syncByRevision",
        "supportsRBAC",
        "statusString",
        "id",
        "isSmartChild",
        "schema",
        "name",
        "type",
        "status",
        "cacheEnabled",
        "isSystem",
        "internalValidatorType",
        "globallyUniqueId",
        "keyOptions",
        "computedValues",
        "objectId",
    ];
    for name in recorded {
        assert!(made.json().get(name).is_some(), "{name} is missing");
    }
    assert_eq!(made.at("/keyOptions/increment"), 5);
    let id = made.text_at("/id");
    root.script(&format!(
        r#"
        POST /_api/collection {{"name":"c"}} -> 409/1207
        POST /_api/collection {{"name":"_c"}} -> 400/1208
        POST /_api/collection {{"name":"e","type":3}} -> 200
        POST /_api/collection {{"name":"c -> 400/600
        GET /_api/collection/c -> 200
        GET /_api/collection/{id}/properties -> 200
        GET /_api/collection/unknown -> 404/1203
        GET /_api/collection/c/count -> 200
        GET /_api/collection/c/figures -> 200
        GET /_api/collection/c/revision -> 200
        GET /_api/collection/c/checksum?withData=true -> 200
        PUT /_api/collection/c/properties {{"waitForSync":true}} -> 200
        PUT /_api/collection/c/truncate -> 200
        PUT /_api/collection/c/recalculateCount -> 200
        PUT /_api/collection/c/loadIndexesIntoMemory -> 200
        PUT /_api/collection/c/rename {{"name":"e"}} -> 409/1207
        PUT /_api/collection/c/rename {{"name":"f"}} -> 200
        GET /_api/collection/c -> 404/1203
        DELETE /_api/collection/_graphs -> 403/11
        DELETE /_api/collection/f -> 200
        DELETE /_api/collection/f -> 404/1203
        "#
    ));
    let all = root.get("/_api/collection").at("/result");
    let own = root.get("/_api/collection?excludeSystem=true").at("/result");
    assert_eq!(own.as_array().map(Vec::len), Some(1));
    assert!(all.as_array().map(Vec::len) > Some(1), "system collections are listed");
}

#[test]
fn a_schema_is_enforced_with_its_message() {
    let server = Server::start();
    let mut root = server.root();
    let schema = r#"{"rule":{"properties":{"n":{"type":"number"}},"required":["n"]},"level":"strict","message":"n is a number"}"#;
    root.script(&format!(
        r#"
        POST /_api/collection {{"name":"c","schema":{schema}}} -> 200
        POST /_api/document/c {{"n":1}} -> 202
        POST /_api/document/c {{"n":"one"}} -> 400/1620
        PUT /_api/collection/c/properties {{"schema":null}} -> 200
        POST /_api/document/c {{"n":"one"}} -> 202
        "#
    ));
}

#[test]
fn indexes_are_made_once_and_named_once() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/collection {"name":"e","type":3} -> 200
        POST /_api/index?collection=c {"type":"persistent","fields":["a","b"],"name":"ab"} -> 201
        POST /_api/index?collection=c {"type":"persistent","fields":["a","b"],"name":"ab"} -> 200
        POST /_api/index?collection=c {"type":"persistent","fields":["b"],"name":"ab"} -> 400/1005
        POST /_api/index?collection=c {"type":"persistent","fields":["u"],"unique":true} -> 201
        POST /_api/index?collection=c {"type":"ttl","fields":["at"],"expireAfter":3600} -> 201
        POST /_api/index?collection=c {"type":"inverted","fields":["t"],"name":"inv"} -> 201
        POST /_api/index?collection=c {"type":"magic","fields":["t"]} -> 400/10
        POST /_api/index?collection=unknown {"type":"persistent","fields":["a"]} -> 404/1203
        POST /_api/index {"type":"persistent","fields":["a"]} -> 400/1204
        GET /_api/index/c/ab -> 200
        GET /_api/index/c/0 -> 200
        GET /_api/index/c/99 -> 404/1212
        DELETE /_api/index/c/99 -> 404/1212
        DELETE /_api/index/c/0 -> 400/10
        DELETE /_api/index/e/1 -> 400/10
        DELETE /_api/index/c/ab -> 200
        GET /_api/index/c/ab -> 404/1212
        # Building a unique index over duplicates: 400, not 409.
        POST /_api/document/c [{"d":1,"u":1},{"d":1,"u":2}] -> 202
        POST /_api/index?collection=c {"type":"persistent","fields":["d"],"unique":true} -> 400/1210
        POST /_api/document/c {"u":2} -> 409/1210
        "#,
    );
    let list = root.get("/_api/index?collection=c");
    assert_eq!(list.at("/indexes/0/type"), "primary");
    assert_eq!(list.at("/identifiers/c~10/name"), "primary");
    assert_eq!(root.get("/_api/index?collection=e").at("/indexes/1/fields/0"), "_from");
    let made = root
        .post("/_api/index?collection=c", r#"{"type":"persistent","fields":["z"],"sparse":true}"#);
    assert!(made.text_at("/id").starts_with("c/"));
    assert!(made.text_at("/name").starts_with("idx_"));
    for (name, value) in
        [("isNewlyCreated", true), ("sparse", true), ("unique", false), ("deduplicate", true)]
    {
        assert_eq!(made.json()[name], value, "{name}");
    }
}

/// The server checks first whether vector indexes are enabled, and then whether the definition is
/// valid (project notes on ArangoDB 3.12, §5.2).
#[test]
fn a_probe_tells_whether_vector_indexes_are_on() {
    let probe = r#"{"type":"vector","fields":["v"],"params":{"metric":"cosine","dimension":0}}"#;
    let good =
        r#"{"type":"vector","fields":["v"],"params":{"metric":"cosine","dimension":4,"nLists":1}}"#;
    for (vector_index, names_option) in [(false, true), (true, false)] {
        let server =
            Server::start_with(Options { sync: false, vector_index, ..Options::default() });
        let mut root = server.root();
        root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
        let answer = root.post("/_api/index?collection=c", probe);
        assert_eq!(answer.verdict(), "400/10");
        assert_eq!(answer.text_at("/errorMessage").contains("--vector-index"), names_option);
        let answer = root.post("/_api/index?collection=c", good);
        if vector_index {
            assert_eq!(
                (answer.status, answer.text_at("/trainingState").as_str()),
                (201, "unusable")
            );
            assert_eq!(root.post("/_api/index?collection=c", good).status, 200);
        } else {
            assert_eq!(answer.verdict(), "400/10");
        }
    }
}

#[test]
fn views_and_analyzers_are_kept_with_their_defaults() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/analyzer {"name":"a","type":"text","properties":{"locale":"en","stopwords":[]},"features":["frequency","position","norm"]} -> 201
        POST /_api/analyzer {"name":"a","type":"text","properties":{"locale":"en","stopwords":[]},"features":["frequency","position","norm"]} -> 200
        POST /_api/analyzer {"name":"a","type":"identity"} -> 400/10
        POST /_api/analyzer {"name":"b","type":"identity","features":["position"]} -> 400/10
        GET /_api/analyzer/a -> 200
        GET /_api/analyzer/_system::a -> 200
        GET /_api/analyzer/text_en -> 200
        GET /_api/analyzer/unknown -> 404/1202
        POST /_api/view {"name":"c","type":"arangosearch"} -> 409/1207
        POST /_api/view {"name":"v","type":"arangosearch","links":{"c":{"fields":{"t":{"analyzers":["a"]}}}}} -> 201
        POST /_api/view {"name":"v","type":"arangosearch"} -> 409/1207
        POST /_api/view {"name":"w","type":"arangosearch","links":{"unknown":{}}} -> 404/1203
        POST /_api/view {"name":"w","type":"arangosearch","links":{"c":{"analyzers":["unknown"]}}} -> 400/10
        POST /_api/view {"name":"w","type":"other"} -> 400/10
        POST /_api/collection {"name":"v"} -> 409/1207
        DELETE /_api/analyzer/a -> 409/1200
        GET /_api/view/v -> 200
        GET /_api/view/unknown -> 404/1203
        "#,
    );
    let view = root.get("/_api/view/v/properties");
    assert_eq!(view.at("/consolidationPolicy/segmentsBytesMax"), 8_589_934_592_u64);
    assert_eq!(view.at("/links/c/storeValues"), "none");
    assert_eq!(view.at("/links/c/fields/t/analyzers/0"), "a");
    let patched = root.call(
        "PATCH",
        "/_api/view/v/properties",
        r#"{"cleanupIntervalStep":12,"links":{"c":null}}"#,
    );
    assert_eq!(
        (patched.at("/cleanupIntervalStep"), patched.at("/links")),
        (12.into(), serde_json::json!({}))
    );
    let reset = root.put("/_api/view/v/properties", "{}");
    assert_eq!(reset.at("/cleanupIntervalStep"), 2);
    root.script(
        r#"
        PUT /_api/view/v/rename {"name":"w"} -> 200
        GET /_api/view/v -> 404/1203
        DELETE /_api/view/w -> 200
        DELETE /_api/analyzer/a -> 200
        POST /_api/index?collection=c {"type":"inverted","fields":["t"],"name":"inv"} -> 201
        POST /_api/view {"name":"s","type":"search-alias","indexes":[{"collection":"c","index":"inv"}]} -> 201
        POST /_api/view {"name":"t","type":"search-alias","indexes":[{"collection":"c","index":"primary"}]} -> 400/10
        POST /_api/view {"name":"t","type":"search-alias","indexes":[{"collection":"c","index":"none"}]} -> 400/10
        "#,
    );
}
