//! An insert that stores the JSON text of a document directly has the same result as an insert that
//! decodes the document first.
//!
//! The engine decodes documents for a collection with a schema, even if the schema allows every
//! document. Each request is therefore sent to two collections that differ only in the schema.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::wire::{Answer, Client, Server};

/// The elements from which the test makes lists. Generated keys are equal in both collections,
/// because both use `autoincrement`.
const ELEMENTS: &[&str] = &[
    "{}",
    r#"{"a":1,"b":[1,2,[3]],"c":{"d":null}}"#,
    r#"{"a":2.50,"b":["x","x"],"t":"a\"\u00e9\n\\"}"#,
    r#"{"a":null,"v":[0.5,-1e300],"n":18446744073709551615}"#,
    r#"{"_id":"other/x","_rev":7,"a":3}"#,
    r#"{"_key":"k1","a":4}"#,
    r#"{"_key":"k1","a":5,"new":true}"#,
    r#"{"\u005fkey":"k2","a":6}"#,
    r#"{"a":6,"_key":"k\u0032"}"#,
    r#"{"_key":"7"}"#,
    r#"{"_key":"12"}"#,
    r#"{"_key":""}"#,
    r#"{"_key":"a/b"}"#,
    r#"{"_key":"k3","_key":"k4"}"#,
    r#"{"_key":5}"#,
    r#"{"_key":null}"#,
    r#"{"a":1,"a":2,"_key":"twice"}"#,
    "5",
    "null",
    "[{}]",
    r#""k1""#,
    "{\"0\":0,\"1\":1,\"2\":2,\"3\":3,\"4\":4,\"5\":5,\"6\":6,\"7\":7,\"8\":8,\"9\":9,\"10\":1,\"11\":1,\"12\":1,\"13\":1,\
     \"14\":1,\"15\":1,\"16\":1,\"17\":1,\"18\":1,\"19\":1,\"20\":1,\"21\":1,\"22\":1,\"23\":1,\"24\":1,\"25\":1,\"26\":1,\
     \"27\":1,\"28\":1,\"29\":1,\"30\":1,\"31\":1,\"32\":1,\"33\":1,\"_key\":\"wide\"}",
];
const PARAMETERS: &[&str] = &[
    "",
    "?silent=true",
    "?waitForSync=true",
    "?overwriteMode=ignore",
    "?overwriteMode=replace",
    "?overwriteMode=update&keepNull=false",
    "?overwriteMode=update&versionAttribute=a",
    "?returnNew=true",
    "?returnOld=true&overwrite=true",
];
/// Texts that follow a list in a request body: mostly empty, otherwise blank or invalid.
const ENDS: &[&str] = &["", "", "", "", "", "", "", " ", "]", ",", "x"];

#[derive(Clone, Debug)]
struct Request {
    elements: Vec<&'static str>,
    is_list: bool,
    parameters: &'static str,
    end: &'static str,
    within: bool,
}

fn any_request() -> impl Strategy<Value = Request> {
    let elements = prop::collection::vec(select(ELEMENTS), 0..12);
    (elements, prop::bool::weighted(0.8), select(PARAMETERS), select(ENDS), any::<bool>()).prop_map(
        |(elements, is_list, parameters, end, within)| Request {
            elements,
            is_list,
            parameters,
            end,
            within,
        },
    )
}

impl Request {
    fn body(&self) -> String {
        match self.elements.first() {
            Some(one) if !self.is_list => format!("{one}{}", self.end),
            _ => format!("[{}]{}", self.elements.join(" , "), self.end),
        }
    }
}

/// Returns an answer without its revisions and without the collection's name.
fn shown(answer: &Answer, collection: &str) -> (u16, Option<String>, Option<String>, Value) {
    let without_name = |text: &str| text.replace(&format!("{collection}/"), "C/");
    let mut body: Value = answer.json();
    let items = match &mut body {
        Value::Array(items) => items.iter_mut().collect(),
        one => vec![one],
    };
    for item in items {
        for name in ["_rev", "_oldRev"] {
            if let Some(rev) = item.get_mut(name) {
                *rev = json!(rev.as_str().is_some_and(|rev| rev.len() == 11));
            }
        }
        for name in ["old", "new"] {
            if let Some(document) = item.get_mut(name).and_then(Value::as_object_mut) {
                document.remove("_rev");
            }
        }
    }
    let body: Value = serde_json::from_str(&without_name(&body.to_string())).expect("still JSON");
    let header = |name: &str| answer.headers.get(name).map(|text| without_name(text));
    (answer.status, header("x-arango-error-codes"), header("location"), body)
}

/// Returns the documents of a collection in insertion order and in the order of its indexes, and
/// its count.
fn stored(client: &mut Client, collection: &str) -> Value {
    let rows = |client: &mut Client, query: &str| {
        let answer = client.query(&query.replace('@', collection));
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.at("/result")
    };
    json!([
        rows(client, "FOR d IN @ RETURN UNSET(d, '_rev', '_id')"),
        rows(client, "FOR d IN @ FILTER d.a >= 1 SORT d.a, d._key RETURN [d._key, d.a]"),
        rows(client, "FOR d IN @ FILTER 'x' IN d.b[*] OR 1 IN d.b[*] SORT d._key RETURN d._key"),
        rows(client, "FOR d IN @ SORT d._key RETURN DOCUMENT(d._id)._key"),
        client.get(&format!("/_api/collection/{collection}/count")).at("/count"),
    ])
}

fn make(root: &mut Client, name: &str, schema: &str) {
    root.script(&format!(
        r#"
        POST /_api/collection {{"name":"{name}","keyOptions":{{"type":"autoincrement"}}{schema}}} -> 200
        POST /_api/index?collection={name} {{"type":"persistent","fields":["a"]}} -> 201
        POST /_api/index?collection={name} {{"type":"persistent","fields":["b[*]","a"],"sparse":true}} -> 201
        "#
    ));
}

#[test]
fn both_ways_answer_and_store_the_same() {
    let server = Server::start();
    let (root, number) = (RefCell::new(server.root()), Cell::new(0));
    let mut runner =
        TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    let requests = prop::collection::vec(any_request(), 1..6);
    let result = runner.run(&requests, |requests| {
        let mut root = root.borrow_mut();
        number.set(number.get() + 1);
        let names = ["text", "tree"].map(|kind| format!("{kind}{}", number.get()));
        make(&mut root, &names[0], "");
        make(&mut root, &names[1], r#","schema":{"rule":{},"level":"strict"}"#);
        for request in &requests {
            let both = names.each_ref().map(|name| {
                let target = format!("/_api/document/{name}{}", request.parameters);
                if !request.within {
                    return shown(&root.post(&target, &request.body()), name);
                }
                let begun = root.post(
                    "/_api/transaction/begin",
                    &json!({"collections": {"write": [name]}}).to_string(),
                );
                let id = begun.text_at("/result/id");
                let mut within = server.root().with("x-arango-trx-id", &id);
                // Earlier writes of the same transaction are visible, and their keys count as
                // existing.
                within.post(&format!("/_api/document/{name}"), r#"[{"_key":"k1"},{"_key":"k9"}]"#);
                let answer = shown(&within.post(&target, &request.body()), name);
                let seen = stored(&mut within, name);
                root.script(&format!("PUT /_api/transaction/{id} -> 200"));
                (answer.0, answer.1, answer.2, json!([answer.3, seen]))
            });
            // The documents are compared as texts, because the order of attributes counts.
            let [text, tree] = both.map(|one| format!("{one:?}"));
            prop_assert_eq!(text, tree, "{}{}", request.body(), request.parameters);
        }
        let both = names.each_ref().map(|name| stored(&mut root, name));
        prop_assert_eq!(both[0].to_string(), both[1].to_string());
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_list_of_keys_that_are_there_and_are_not_finds_each() {
    let server = Server::start();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    let list = |keys: &[u32]| {
        let items: Vec<String> = keys.iter().map(|key| format!("{{\"_key\":\"{key}\"}}")).collect();
        format!("[{}]", items.join(","))
    };
    let all: Vec<u32> = (1000..1400).collect();
    let (thirds, others): (Vec<u32>, Vec<u32>) = all.iter().partition(|key| *key % 3 == 0);
    assert!(!root.post("/_api/document/c", &list(&thirds)).text.contains("error"));
    // The list mixes neighbouring and distant keys, in ascending and descending order.
    let mixed: Vec<u32> = all.iter().rev().step_by(50).chain(&all[..90]).copied().collect();
    let mut first = true;
    for keys in [&mixed[..], &others] {
        let answers = root.post("/_api/document/c", &list(keys)).json();
        for (key, answer) in keys.iter().zip(answers.as_array().expect("a list")) {
            let is_there = key % 3 == 0 || (!first && mixed.contains(key));
            let is_again = first && mixed.iter().filter(|one| *one == key).count() > 1;
            assert!(is_again || (answer["errorNum"] == 1210) == is_there, "{key}: {answer}");
        }
        first = false;
    }
    assert_eq!(root.get("/_api/collection/c/count").at("/count"), 400);
}

#[test]
fn keys_that_another_transaction_writes_are_a_conflict_and_the_others_are_written() {
    let server = Server::start();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    let begun = root.post("/_api/transaction/begin", r#"{"collections":{"write":["c"]}}"#);
    let id = begun.text_at("/result/id");
    let mut within = server.root().with("x-arango-trx-id", &id);
    within.script(r#"POST /_api/document/c [{"_key":"b"}] -> 202"#);
    let answers = root.post("/_api/document/c", r#"[{"_key":"a"},{"_key":"b"},{"_key":"c"}]"#);
    assert_eq!((answers.at("/0/_key"), answers.at("/2/_key")), ("a".into(), "c".into()));
    assert_eq!(answers.at("/1/errorNum"), 1200);
    // A document that another caller commits meanwhile is a conflict for a transaction whose
    // snapshot does not contain it.
    let late = within.post("/_api/document/c", r#"[{"_key":"c"},{"_key":"d"}]"#);
    assert_eq!((late.at("/0/errorNum"), late.at("/1/_key")), (1200.into(), "d".into()));
    root.script(&format!("PUT /_api/transaction/{id} -> 200"));
    assert_eq!(
        root.query("FOR d IN c SORT d._key RETURN d._key").at("/result"),
        json!(["a", "b", "c", "d"])
    );
}
