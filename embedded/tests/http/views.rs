//! Searches in views over the socket: writes become visible with the view's next commit, each agent
//! finds only its own texts, and permissions apply.

use super::wire::{Client, Server};
use arango_embedded::Options;

/// The views of the memory server, as its setup creates them.
const VIEWS: &str = include_str!("../../../arango-setup/view.json");
const SEARCH: &str = r#"FOR e IN recall_view
    SEARCH e._from == @from AND ANALYZER(e.payload.content IN TOKENS(@query, \"text_en\"), \"text_en\")
    SORT BM25(e) DESC, e.seq DESC LIMIT @limit RETURN {id: e._key, seq: e.seq, score: BM25(e)}"#;
const PHRASE: &str = r#"FOR e IN recall_view
    SEARCH e._from == @from AND PHRASE(e.payload.content, @query, \"text_en\") LIMIT @limit RETURN {id: e._key}"#;
/// Maximum number of polls of a view, 10 ms apart, until it shows the written documents.
const LOOKS_MAX: usize = 3000;

fn cursor(client: &mut Client, query: &str, from: &str, words: &str) -> Vec<String> {
    let query = query.replace('\n', " ");
    let answer = client.post(
        "/_api/cursor",
        &format!(
            r#"{{"query":"{query}","bindVars":{{"from":"agents/{from}","query":"{words}","limit":10}}}}"#
        ),
    );
    assert_eq!(answer.status, 201, "{}", answer.json());
    let rows = answer.at("/result");
    let rows = rows.as_array().expect("rows").iter();
    rows.map(|row| row["id"].as_str().expect("a key").to_owned()).collect()
}

fn set_up(server: &Server) -> Client {
    let mut root = server.root();
    root.script("POST /_api/collection {\"name\":\"recall_log\",\"type\":3} -> 200");
    root.script("POST /_api/collection {\"name\":\"archival_docs\"} -> 200");
    let views: serde_json::Value = serde_json::from_str(VIEWS).expect("the views are JSON");
    for view in views.as_array().expect("a list of views") {
        let made = root.post("/_api/view", &view.to_string());
        assert_eq!(made.status, 201, "{}", made.json());
    }
    for (key, from, seq, content) in [
        ("a1", "a", 1, "Our cat is called Whiskers and sleeps all day."),
        ("a2", "a", 2, "Cats! Two cats and a dog."),
        ("b1", "b", 1, "Our cat is called Whiskers and sleeps all day."),
    ] {
        let edge = format!(
            r#"{{"_key":"{key}","_from":"agents/{from}","_to":"messages/{key}","seq":{seq},"payload":{{"content":"{content}"}}}}"#
        );
        assert_eq!(root.post("/_api/document/recall_log", &edge).status, 202);
    }
    root
}

#[test]
fn writes_are_found_after_a_tick_and_every_agent_finds_its_own() {
    let server = Server::start_with(Options { view_commit_ms: 20, ..Options::default() });
    let mut root = set_up(&server);
    let mut found = Vec::new();
    for _ in 0..LOOKS_MAX {
        // Searches for the document that was written last: the commit that shows it also shows the
        // documents before it.
        found = cursor(&mut root, SEARCH, "b", "the CATS?");
        if !found.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(found, ["b1"]);
    assert_eq!(cursor(&mut root, SEARCH, "a", "the CATS?"), ["a2", "a1"]);
    assert_eq!(cursor(&mut root, SEARCH, "a", "").len(), 0);
    assert_eq!(cursor(&mut root, PHRASE, "a", "called whiskers"), ["a1"]);
    assert_eq!(cursor(&mut root, PHRASE, "a", "whiskers called").len(), 0);
    assert_eq!(cursor(&mut root, PHRASE, "c", "called whiskers").len(), 0);
}

#[test]
fn a_transaction_does_not_find_what_it_wrote() {
    let server = Server::start_with(Options { view_commit_ms: 20, ..Options::default() });
    let mut root = set_up(&server);
    let begun = root.post("/_api/transaction/begin", r#"{"collections":{"write":["recall_log"]}}"#);
    let id = begun.text_at("/result/id");
    let mut inside = server.root().with("x-arango-trx-id", &id);
    let edge =
        r#"{"_key":"c1","_from":"agents/c","_to":"messages/c1","payload":{"content":"A cat"}}"#;
    assert_eq!(inside.post("/_api/document/recall_log", edge).status, 202);
    let mut seen = Vec::new();
    for _ in 0..LOOKS_MAX {
        assert_eq!(cursor(&mut inside, SEARCH, "c", "cat").len(), 0);
        seen = cursor(&mut root, SEARCH, "a", "cat");
        if seen.len() == 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(seen.len(), 2);
    assert_eq!(root.put(&format!("/_api/transaction/{id}"), "").status, 200);
    for _ in 0..LOOKS_MAX {
        seen = cursor(&mut root, SEARCH, "c", "cat");
        if !seen.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(seen, ["c1"]);
}

#[test]
fn a_view_is_read_by_who_may_read_its_collections() {
    let server = Server::start();
    let mut root = set_up(&server);
    root.script(
        r#"
        POST /_api/user {"user":"some","passwd":"x"} -> 201
        PUT /_api/user/some/database/_system {"grant":"ro"} -> 200
        PUT /_api/user/some/database/_system/recall_log {"grant":"none"} -> 200
        "#,
    );
    let body = r#"{"query":"FOR e IN recall_view SEARCH e._from == 'agents/a' RETURN e"}"#;
    let mut some = server.root().login("some", "x");
    assert_eq!(some.post("/_api/cursor", body).verdict(), "403/11");
    root.script(r#"PUT /_api/user/some/database/_system/recall_log {"grant":"ro"} -> 200"#);
    assert_eq!(some.post("/_api/cursor", body).status, 201);
    let mut reader = server.reader();
    assert_eq!(reader.post("/_api/cursor", body).status, 201, "searching writes nothing");
}

#[test]
fn what_a_link_cannot_do_is_refused_when_it_is_made() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/analyzer {"name":"place","type":"geojson","properties":{"type":"centroid"}} -> 201
        POST /_api/view {"name":"v","type":"arangosearch","links":{"c":{"analyzers":["place"]}}} -> 501/9
        POST /_api/index?collection=c {"type":"inverted","fields":[{"name":"a","analyzer":"place"}]} -> 501/9
        POST /_api/view {"name":"v","type":"arangosearch","links":{"c":{"fields":{"a":{"nested":{"b":{}}}}}}} -> 501/9
        POST /_api/view {"name":"v","type":"arangosearch","links":{"c":{"storeValues":"all"}}} -> 400/10
        POST /_api/view {"name":"v","type":"arangosearch","links":{"c":{"fields":{"a":1}}}} -> 400/10
        POST /_api/view {"name":"v","type":"arangosearch","consolidationPolicy":{"type":"other"}} -> 400/10
        POST /_api/view {"name":"v","type":"arangosearch","primarySort":[{"field":"a"}]} -> 400/10
        POST /_api/view {"name":"v","type":"arangosearch","optimizeTopK":["d.a"]} -> 400/10
        POST /_api/cursor {"query":"FOR d IN nothing SEARCH d.t == 1 RETURN d"} -> 404/1203
        POST /_api/cursor {"query":"FOR d IN c SEARCH d.t == 1 RETURN d"} -> 400/1501
        "#,
    );
    let explained = set_up(&server).post(
        "/_api/explain",
        r#"{"query":"FOR e IN recall_view SEARCH e._from == 'a' SORT BM25(e) DESC LIMIT 3 RETURN e"}"#,
    );
    assert_eq!(explained.at("/plan/nodes/1/type"), "EnumerateViewNode");
    assert_eq!(explained.at("/plan/nodes/1/view"), "recall_view");
}

#[test]
fn aliases_hold_inverted_indexes_that_fit_together_and_follow_them() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/collection {"name":"d"} -> 200
        POST /_api/index?collection=c {"type":"inverted","fields":["t",{"name":"u","analyzer":"text_en"}],"name":"inv"} -> 201
        POST /_api/index?collection=c {"type":"inverted","fields":["t",{"name":"u","analyzer":"text_en"}],"name":"inv"} -> 200
        POST /_api/index?collection=c {"type":"inverted","fields":["t"],"name":"other"} -> 201
        POST /_api/index?collection=d {"type":"inverted","fields":[{"name":"t","analyzer":"text_en"}],"name":"inv"} -> 201
        POST /_api/index?collection=d {"type":"inverted","fields":["t"],"primarySort":{"fields":[{"field":"t","direction":"asc"}]},"name":"sorted"} -> 201
        POST /_api/index?collection=d {"type":"inverted","fields":["x","t"],"name":"fits"} -> 201
        POST /_api/index?collection=c {"type":"inverted","fields":["t","t[*]"]} -> 400/10
        POST /_api/index?collection=c {"type":"inverted","fields":["a[*].b[*]"]} -> 400/10
        POST /_api/index?collection=c {"type":"inverted","fields":[{"name":"a[*]","searchField":true}]} -> 400/10
        POST /_api/index?collection=c {"type":"inverted","fields":[{"name":"a","analyzer":"nobody"}]} -> 400/10
        POST /_api/view {"name":"s","type":"search-alias","indexes":[{"collection":"c","index":"inv"}]} -> 201
        PATCH /_api/view/s/properties {"indexes":[{"collection":"none","index":"inv"}]} -> 400/10
        PATCH /_api/view/s/properties {"indexes":[{"collection":"c","index":"other"}]} -> 400/10
        PATCH /_api/view/s/properties {"indexes":[{"collection":"d","index":"inv"}]} -> 400/10
        PATCH /_api/view/s/properties {"indexes":[{"collection":"d","index":"sorted"}]} -> 400/10
        PATCH /_api/view/s/properties {"indexes":[{"collection":"d","index":"fits","operation":"no"}]} -> 400/10
        PATCH /_api/view/s/properties {"indexes":[{"collection":"d","index":"fits","operation":"del"}]} -> 400/10
        PATCH /_api/view/s/properties {"indexes":[{"collection":"d","index":"fits"}]} -> 200
        POST /_api/document/c {"_key":"1","t":"a","u":"quick foxes"} -> 202
        POST /_api/document/d {"_key":"2","t":"a"} -> 202
        PUT /_api/collection/d/rename {"name":"e"} -> 200
        "#,
    );
    let indexes = |root: &mut Client| {
        root.get("/_api/view/s/properties").at("/indexes").as_array().map_or(0, Vec::len)
    };
    assert_eq!(indexes(&mut root), 2);
    let query = |root: &mut Client, condition: &str| {
        let text = format!(
            "FOR d IN s SEARCH {condition} OPTIONS {{ waitForSync: true }} SORT d._key RETURN d._key"
        );
        let body = serde_json::json!({ "query": text }).to_string();
        root.post("/_api/cursor", &body).at("/result")
    };
    assert_eq!(query(&mut root, "d.t == 'a'"), serde_json::json!(["1", "2"]));
    assert_eq!(query(&mut root, "PHRASE(d.u, 'quick fox')"), serde_json::json!(["1"]));
    assert_eq!(query(&mut root, "d.x == null"), serde_json::json!(["2"]));
    root.script("DELETE /_api/index/c/inv -> 200");
    assert_eq!(indexes(&mut root), 1);
    assert_eq!(query(&mut root, "d.t == 'a'"), serde_json::json!(["2"]));
    root.script("DELETE /_api/collection/e -> 200");
    assert_eq!(indexes(&mut root), 0);
    assert_eq!(query(&mut root, "d.t == 'a'"), serde_json::json!([]));
}

#[test]
fn properties_are_answered_as_the_server_keeps_them() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/analyzer {"name":"own","type":"identity"} -> 201
        POST /_api/view {"name":"v","type":"arangosearch","primarySort":[{"field":"a","direction":"desc"}],"storedValues":["b",["c","d"]],"links":{"c":{"analyzers":["identity","own","_system::own","identity"],"inBackground":true}}} -> 201
        PATCH /_api/view/v/properties {"primarySort":[],"commitIntervalMsec":7} -> 200
        "#,
    );
    let view = root.get("/_api/view/v/properties");
    assert_eq!(view.at("/primarySort"), serde_json::json!([{ "field": "a", "asc": false }]));
    assert_eq!(
        view.at("/storedValues"),
        serde_json::json!([
            { "fields": ["b"], "compression": "lz4" },
            { "fields": ["c", "d"], "compression": "lz4" }
        ])
    );
    assert_eq!(view.at("/commitIntervalMsec"), 7);
    assert_eq!(view.at("/links/c/analyzers"), serde_json::json!(["identity", "own"]));
    assert!(view.at("/links/c/inBackground").is_null());
    let hidden = root.get("/_api/index?collection=c&withHidden=true");
    assert_eq!(hidden.at("/indexes/1/type"), "arangosearch");
    let plain = root.get("/_api/index?collection=c");
    assert_eq!(plain.at("/indexes").as_array().map(Vec::len), Some(1));
}

#[test]
fn changes_of_a_view_at_once_are_all_kept() {
    const WRITERS: usize = 4;
    let server = Server::start();
    let mut root = server.root();
    for number in 0..WRITERS {
        let body = format!(r#"{{"name":"c{number}"}}"#);
        assert_eq!(root.post("/_api/collection", &body).status, 200);
    }
    root.script(r#"POST /_api/view {"name":"v","type":"arangosearch"} -> 201"#);
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let mut client = server.root();
            scope.spawn(move || {
                let body = format!(r#"{{"links":{{"c{number}":{{"includeAllFields":true}}}}}}"#);
                let changed = client.call("PATCH", "/_api/view/v/properties", &body);
                assert_eq!(changed.status, 200);
            });
        }
    });
    let links = root.get("/_api/view/v/properties").at("/links");
    assert_eq!(links.as_object().map(serde_json::Map::len), Some(WRITERS));
}
