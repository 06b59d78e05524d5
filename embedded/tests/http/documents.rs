//! HTTP calls for single documents and lists of documents (HTTP API manual of 3.12).

use super::wire::Server;

#[test]
fn single_documents_answer_as_recorded() {
    let server = Server::start();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    let made = root.post("/_api/document/c", r#"{"_key":"k","n":1}"#);
    assert_eq!((made.status, made.text_at("/_id").as_str()), (202, "c/k"));
    let rev = made.text_at("/_rev");
    assert_eq!(made.headers["etag"], format!("\"{rev}\""));
    assert_eq!(made.headers["location"], "/_db/_system/_api/document/c/k");
    let read = root.get("/_api/document/c/k");
    assert_eq!((read.at("/n"), &read.headers["etag"]), (1.into(), &format!("\"{rev}\"")));
    assert_eq!(root.call("HEAD", "/_api/document/c/k", "").status, 200);
    root.script(
        r#"
        GET /_api/document/c/none -> 404/1202
        GET /_api/document/none/k -> 404/1203
        HEAD /_api/document/c/none -> 404
        POST /_api/document/c {"_key":"k"} -> 409/1210
        POST /_api/document/c {"_key":7} -> 400/1221
        POST /_api/document/c {"_key":"a/b"} -> 400/1221
        POST /_api/document/c { 1: "World" } -> 400/600
        POST /_api/document/c "text" -> 400/1227
        POST /_api/document/c?waitForSync=true {} -> 201
        PATCH /_api/document/c/k?waitForSync=true {"m":2} -> 201
        PUT /_api/document/c/none {} -> 404/1202
        PATCH /_api/document/c/none {} -> 404/1202
        DELETE /_api/document/c/none -> 404/1202
        POST /_api/document/c?overwriteMode=sometimes {} -> 400/10
        "#,
    );
    let patched = root.call(
        "PATCH",
        "/_api/document/c/k?returnOld=true&returnNew=true",
        r#"{"n":null,"o":{"a":1}}"#,
    );
    assert_eq!((patched.at("/old/n"), patched.at("/new/m")), (1.into(), 2.into()));
    assert!(
        patched.at("/new/n").is_null() && patched.json()["new"].get("n").is_some(),
        "null stays"
    );
    let patched = root.call(
        "PATCH",
        "/_api/document/c/k?keepNull=false&returnNew=true",
        r#"{"n":null,"o":{"b":2}}"#,
    );
    assert!(patched.json()["new"].get("n").is_none(), "null goes");
    assert_eq!(patched.at("/new/o"), serde_json::json!({"a": 1, "b": 2}));
    let patched = root.call(
        "PATCH",
        "/_api/document/c/k?mergeObjects=false&returnNew=true",
        r#"{"o":{"c":3}}"#,
    );
    assert_eq!(patched.at("/new/o"), serde_json::json!({"c": 3}));
    assert_eq!(root.put("/_api/document/c/k?silent=true", r#"{"x":1}"#).text, "{}");
    let removed = root.delete("/_api/document/c/k?returnOld=true");
    assert_eq!((removed.status, removed.at("/old/x")), (202, 1.into()));
    assert!(removed.json().get("_oldRev").is_none());
}

/// A failed precondition has the status 412, any other conflict the status 409. The error number is
/// 1200 or 1210 in both cases (project notes on ArangoDB 3.12, §3 and §4).
#[test]
fn preconditions_fail_with_412_and_the_current_revision() {
    let server = Server::start();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    let old = root.post("/_api/document/c", r#"{"_key":"k"}"#).text_at("/_rev");
    let now = root.put("/_api/document/c/k", r#"{"n":1}"#).text_at("/_rev");
    let mut stale = server.root().with("if-match", &format!("\"{old}\""));
    for method in ["GET", "PUT", "PATCH", "DELETE"] {
        let body = if method == "PUT" || method == "PATCH" { "{}" } else { "" };
        let answer = stale.call(method, "/_api/document/c/k", body);
        assert_eq!(answer.verdict(), "412/1200", "{method}");
        assert_eq!(answer.text_at("/_rev"), now, "{method}");
        assert_eq!(answer.text_at("/_key"), "k", "{method}");
        assert_eq!(answer.headers["etag"], format!("\"{now}\""), "{method}");
    }
    root.script(&format!(
        r#"
        PUT /_api/document/c/k?ignoreRevs=false {{"_rev":"{old}"}} -> 412/1200
        PUT /_api/document/c/k {{"_rev":"{old}","n":2}} -> 202
        "#
    ));
    let rev = root.get("/_api/document/c/k").text_at("/_rev");
    let unchanged =
        server.root().with("if-none-match", &format!("\"{rev}\"")).get("/_api/document/c/k");
    assert_eq!((unchanged.status, unchanged.text.as_str()), (304, ""));
    let mut fresh = server.root().with("if-match", &rev);
    fresh.script("DELETE /_api/document/c/k -> 202");
}

#[test]
fn overwrite_modes_do_what_they_say() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/document/c {"_key":"k","a":1} -> 202
        POST /_api/document/c?overwriteMode=conflict {"_key":"k"} -> 409/1210
        "#,
    );
    let ignored =
        root.post("/_api/document/c?overwriteMode=ignore&returnNew=true", r#"{"_key":"k","a":2}"#);
    assert_eq!((ignored.status, ignored.at("/new")), (202, serde_json::Value::Null));
    let updated =
        root.post("/_api/document/c?overwriteMode=update&returnNew=true", r#"{"_key":"k","b":2}"#);
    assert_eq!((updated.at("/new/a"), updated.at("/new/b")), (1.into(), 2.into()));
    assert!(updated.at("/_oldRev").is_string());
    let replaced =
        root.post("/_api/document/c?overwriteMode=replace&returnNew=true", r#"{"_key":"k","c":3}"#);
    assert!(replaced.json()["new"].get("a").is_none());
    root.script(
        r#"
        POST /_api/document/c {"_key":"v","version":5} -> 202
        PATCH /_api/document/c/v?versionAttribute=version {"version":4,"x":1} -> 202
        "#,
    );
    assert!(
        root.get("/_api/document/c/v").json().get("x").is_none(),
        "an older version is skipped"
    );
}

/// The status of a list request does not depend on its elements; a header counts the errors of the
/// elements (project notes on ArangoDB 3.12, §5.7).
#[test]
fn lists_fail_element_by_element() {
    let server = Server::start();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    let made = root.post("/_api/document/c", r#"[{"_key":111},{"_key":"abc"},{"_key":"abc"},7]"#);
    assert_eq!(
        (made.status, made.at("/0/errorNum"), made.at("/2/errorNum")),
        (202, 1221.into(), 1210.into())
    );
    assert_eq!(made.text_at("/1/_id"), "c/abc");
    assert_eq!(made.at("/3/errorNum"), 1227);
    assert_eq!(made.headers["x-arango-error-codes"], r#"{"1210":1,"1221":1,"1227":1}"#);
    let all_failed = root.call("DELETE", "/_api/document/c", r#"["1","other/2"]"#);
    assert_eq!(
        (all_failed.status, all_failed.headers["x-arango-error-codes"].as_str()),
        (202, r#"{"1202":2}"#)
    );
    let read = root.put("/_api/document/c?onlyget=true", r#"["abc",{"_key":"none"},"c/abc"]"#);
    assert_eq!((read.status, read.at("/1/errorNum")), (200, 1202.into()));
    assert_eq!((read.text_at("/0/_key"), read.text_at("/2/_key")), ("abc".into(), "abc".into()));
    let patched = root.call("PATCH", "/_api/document/c", r#"[{"_key":"abc","n":1},{"n":2}]"#);
    assert!(patched.at("/0/_oldRev").is_string());
    assert_eq!(patched.at("/1/errorNum"), 1205);
    let silent = root.post("/_api/document/c?silent=true", r#"[{"_key":"x"},{"_key":"abc"}]"#);
    assert_eq!(silent.json().as_array().map(Vec::len), Some(1));
    assert_eq!(root.post("/_api/document/c?silent=true", "[{},{}]").text, "{}");
    let removed = root.call(
        "DELETE",
        "/_api/document/c?ignoreRevs=false",
        r#"[{"_key":"abc","_rev":"x"},{"_key":"x"}]"#,
    );
    assert_eq!(removed.headers["x-arango-error-codes"], r#"{"1200":1}"#);
    root.script(
        r#"
        PUT /_api/document/c {"_key":"x"} -> 400/1227
        DELETE /_api/document/c {"_key":"x"} -> 400/400
        POST /_api/document/none [{}] -> 404/1203
        "#,
    );
    assert_eq!(root.get("/_api/collection/c/count").at("/count"), 3);
}

#[test]
fn edges_need_both_ends() {
    let server = Server::start();
    server.root().script(
        r#"
        POST /_api/collection {"name":"e","type":3} -> 200
        POST /_api/document/e {"_from":"a/1"} -> 400/1233
        POST /_api/document/e {"_from":"a/1","_to":"nowhere"} -> 400/1233
        POST /_api/document/e {"_from":"a/1","_to":"b/2"} -> 202
        GET /_api/edges/e?vertex=a/1&direction=out -> 200
        "#,
    );
}

#[test]
fn keys_and_collections_are_decoded_once() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"Bücher"} -> 200
        POST /_api/document/B%C3%BCcher {"_key":"a:b+c%"} -> 202
        GET /_api/document/B%C3%BCcher/a%3Ab%2Bc%25 -> 200
        GET /_api/document/B%C3%BCcher/a:b+c%25/? -> 200
        "#,
    );
}
