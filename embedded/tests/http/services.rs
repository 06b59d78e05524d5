//! Calls that the official drivers offer in addition to document calls: imports, jobs, access
//! tokens, running queries, computed values.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wire::{Client, Server};

#[test]
fn imports_take_lines_lists_and_tables_and_tell_what_they_refused() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/collection {"name":"e","type":3} -> 200
        POST /_api/import {} -> 400/1204
        POST /_api/import?collection=none&type=list [{}] -> 404/1203
        POST /_api/import?collection=c {"a":1} -> 400/400
        POST /_api/import?collection=c&type=list {"a":1} -> 400/400
        "#,
    );
    let mut import = |parameters: &str, body: &str| {
        let answer = root.post(&format!("/_api/import?details=true&{parameters}"), body).json();
        let counts = ["created", "errors", "empty", "updated", "ignored"];
        let counts = counts.map(|name| answer[name].as_u64().unwrap_or(99));
        (counts, answer["details"][0].as_str().unwrap_or_default().to_owned())
    };
    let lines = "{\"_key\":\"a\"}\n\n{\"_key\":\"a\"}\n[1]\nno";
    let (counts, first) = import("collection=c&type=documents", lines);
    assert_eq!(counts, [1, 3, 1, 0, 0]);
    assert!(first.starts_with("at position 4: invalid JSON type (expecting object), offending"));
    let (counts, _) = import("collection=c&type=auto", r#" [{"_key":"b"},{"_key":"a"}]"#);
    assert_eq!(counts, [1, 1, 0, 0, 0]);
    let table = "[\"_key\",\"n\"]\n[\"c\",1]\n[\"d\"]\n[\"a\",null]\n";
    let (counts, first) = import("collection=c&onDuplicate=update", table);
    assert_eq!(counts, [1, 1, 0, 1, 0]);
    assert_eq!(first, "at position 2: wrong number of JSON values (got 1, expected 2)");
    let (counts, _) = import("collection=c&type=list&onDuplicate=ignore", r#"[{"_key":"a"}]"#);
    assert_eq!(counts, [0, 0, 0, 0, 1]);
    let edges = r#"[{"_from":"x","_to":7},{"_from":"other/x","_to":"v/y"},{"_from":"x"}]"#;
    let (counts, first) = import("collection=e&type=list&fromPrefix=v&toPrefix=v/", edges);
    assert_eq!(counts, [2, 1, 0, 0, 0]);
    assert!(first.starts_with("at position 3: missing '_from' or '_to' attribute, offending"));
    let (counts, _) = import("collection=c&type=list&overwrite=true", "[{}]");
    assert_eq!(counts, [1, 0, 0, 0, 0]);
    assert_eq!(root.get("/_api/collection/c/count").at("/count"), 1);
}

#[test]
fn a_complete_import_is_all_or_nothing() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/import?collection=c&type=list&complete=true [{"_key":"a"},{"_key":"a"}] -> 409/1210
        POST /_api/import?collection=c&type=list&complete=true&overwrite=true [{"_key":"a"},1] -> 400/1227
        "#,
    );
    assert_eq!(root.get("/_api/collection/c/count").at("/count"), 0);
}

/// Polls until the job has ended.
fn wait(client: &mut Client, job: &str) {
    let end = Instant::now() + Duration::from_secs(30);
    while client.get(&format!("/_api/job/{job}")).status == 204 {
        assert!(Instant::now() < end, "job {job} never ends");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn jobs_answer_once_and_only_those_who_asked() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/user {"user":"u","passwd":"p"} -> 201
        PUT /_api/user/u/database/_system {"grant":"ro"} -> 200
        PUT /_api/job -> 400/400
        PUT /_api/job/there -> 404/404
        GET /_api/job/none -> 400/400
        DELETE /_api/job/expired -> 400/400
        "#,
    );
    let mut later = server.root().with("x-arango-async", "store");
    let mut job = |method: &str, target: &str, body: &str| {
        let answer = later.call(method, target, body);
        assert_eq!((answer.status, answer.text.as_str()), (202, ""));
        answer.headers["x-arango-async-id"].clone()
    };
    let made = job("POST", "/_api/collection", r#"{"name":"c"}"#);
    wait(&mut root, &made);
    let mut other = server.client("rw").login("u", "p");
    assert_eq!(other.put(&format!("/_api/job/{made}"), "").verdict(), "404/404");
    assert_eq!(root.get("/_api/job/done").json(), json!([made]));
    let answer = root.put(&format!("/_api/job/{made}"), "");
    assert_eq!((answer.status, answer.at("/name")), (200, json!("c")));
    assert_eq!(answer.headers["x-arango-async-id"], made);
    assert_eq!(root.put(&format!("/_api/job/{made}"), "").verdict(), "404/404");

    let slow = job("POST", "/_api/cursor", r#"{"query":"RETURN SLEEP(600)"}"#);
    assert_eq!(root.put(&format!("/_api/job/{slow}"), "").status, 204);
    assert_eq!(root.get("/_api/job/pending").json(), json!([slow]));
    assert_eq!(root.put(&format!("/_api/job/{slow}/cancel"), "").at("/result"), true);
    wait(&mut root, &slow);
    assert_eq!(root.put(&format!("/_api/job/{slow}"), "").verdict(), "410/1500");
    let one = job("GET", "/_api/version", "");
    wait(&mut root, &one);
    assert_eq!(root.delete("/_api/job/expired?stamp=1").at("/result"), true);
    assert_eq!(root.get("/_api/job/done?count=1").json(), json!([one]));
    assert_eq!(root.delete("/_api/job/all").at("/result"), true);
    assert_eq!(root.get("/_api/job/done").json(), json!([]));

    // A caller with a wrong password gets an error immediately. With the header value `true` the
    // answer is not stored, so the request leaves no job.
    let mut stranger = server.client("rw").login("u", "wrong").with("x-arango-async", "store");
    assert_eq!(stranger.get("/_api/version").verdict(), "401/11");
    let mut forgotten = server.root().with("x-arango-async", "true");
    assert!(!forgotten.get("/_api/version").headers.contains_key("x-arango-async-id"));
    assert_eq!(root.get("/_api/job/pending").json(), json!([]));
}

#[test]
fn access_tokens_stand_for_the_password_until_they_are_taken_away() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/user {"user":"u","passwd":"p"} -> 201
        PUT /_api/user/u/database/_system {"grant":"ro"} -> 200
        POST /_api/token/u {} -> 400/10
        POST /_api/token/nobody {"name":"x"} -> 404/1703
        "#,
    );
    let mut user = server.client("rw").login("u", "p");
    assert_eq!(user.get("/_api/token/root").verdict(), "403/11");
    let made = user.post("/_api/token/u", r#"{"name":"job"}"#);
    let (token, id) = (made.text_at("/token"), made.at("/id"));
    assert_eq!(user.post("/_api/token/u", r#"{"name":"job"}"#).verdict(), "409/1207");
    let listed = user.get("/_api/token/u");
    assert_eq!(
        (listed.at("/tokens/0/name"), listed.at("/tokens/0/token")),
        (json!("job"), Value::Null)
    );
    let fingerprint = listed.text_at("/tokens/0/fingerprint");
    assert!(token.ends_with(fingerprint.trim_start_matches("v1...")), "{fingerprint}");
    for name in ["u", ""] {
        assert_eq!(server.client("rw").login(name, &token).get("/_api/version").status, 200);
    }
    assert_eq!(server.client("rw").login("root", &token).get("/_api/version").status, 401);
    assert_eq!(user.delete(&format!("/_api/token/u/{id}")).status, 200);
    assert_eq!(user.delete(&format!("/_api/token/u/{id}")).verdict(), "404/404");
    assert_eq!(server.client("rw").login("u", &token).get("/_api/version").status, 401);
    let over = user.post("/_api/token/u", r#"{"name":"over","valid_until":1}"#);
    assert_eq!(over.at("/active"), false);
    let token = over.text_at("/token");
    assert_eq!(server.client("rw").login("u", &token).get("/_api/version").status, 401);
}

#[test]
fn queries_at_work_are_listed_and_can_be_ended() {
    let server = Server::start();
    let mut root = server.root();
    root.script("DELETE /_api/query/1 -> 404/1591");
    let mut busy = server.root();
    let sleeper = std::thread::spawn(move || busy.query("RETURN SLEEP(600)").verdict());
    let end = Instant::now() + Duration::from_secs(30);
    let id = loop {
        assert!(Instant::now() < end, "the query is never listed");
        let listed = root.get("/_api/query/current");
        if let Some(id) = listed.at("/0/id").as_str() {
            assert_eq!(listed.at("/0/query"), "RETURN SLEEP(600)");
            break id.to_owned();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(root.delete(&format!("/_api/query/{id}")).status, 200);
    assert_eq!(sleeper.join().expect("ends"), "410/1500");
    let changed = root.put(
        "/_api/query/properties",
        r#"{"slowQueryThreshold":0,"maxSlowQueries":1,"maxQueryStringLength":8}"#,
    );
    assert_eq!(changed.at("/maxSlowQueries"), 1);
    root.query("RETURN 'first'");
    root.query("RETURN 'second'");
    let slow = root.get("/_api/query/slow").json();
    assert_eq!(slow.as_array().map(Vec::len), Some(1));
    assert_eq!(slow[0]["query"], "RETURN '... (15)");
    assert_eq!(root.delete("/_api/query/slow").status, 200);
    assert_eq!(root.get("/_api/query/slow").json(), json!([]));
}

#[test]
fn computed_values_come_with_every_way_to_write() {
    let server = Server::start();
    let mut root = server.root();
    let value = json!({ "name": "twice", "expression": "RETURN @doc.n * 2", "overwrite": true });
    let body = json!({ "name": "c", "computedValues": [value] });
    assert_eq!(root.post("/_api/collection", &body.to_string()).status, 200);
    let mut twice = |method: &str, target: &str, body: &str| {
        let answer = root.call(method, target, body);
        assert!(answer.status < 300, "{}", answer.text);
        root.get("/_api/document/c/k").at("/twice")
    };
    assert_eq!(twice("POST", "/_api/document/c", r#"{"_key":"k","n":1}"#), 2);
    assert_eq!(twice("PATCH", "/_api/document/c/k", r#"{"n":2}"#), 4);
    assert_eq!(twice("PUT", "/_api/document/c/k", r#"{"n":3,"twice":0}"#), 6);
    assert_eq!(twice("POST", "/_api/cursor", r#"{"query":"UPDATE 'k' WITH {n: 4} IN c"}"#), 8);
    let import = "/_api/import?collection=c&type=list&onDuplicate=replace";
    assert_eq!(twice("POST", import, r#"[{"_key":"k","n":5}]"#), 10);
    root.script(
        r#"
        PUT /_api/collection/c/properties {"computedValues":[{"name":"_key","expression":"RETURN 1","overwrite":true}]} -> 400/10
        PUT /_api/collection/c/properties {"computedValues":[]} -> 200
        "#,
    );
    assert_eq!(root.get("/_api/collection/c/properties").at("/computedValues"), Value::Null);
}
