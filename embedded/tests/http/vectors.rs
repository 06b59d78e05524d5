//! Vector indexes over the socket: life cycle, allowed writes and searches, by the strictest
//! reading of the manuals (project notes on ArangoDB 3.12.10, §5.9.1 and §6.8).

use std::time::{Duration, Instant};

use arango_embedded::Options;
use serde_json::{Value, json};

use super::wire::{Client, Server};

/// Maximum time that the test waits for an index state; the engine has no such limit.
const PATIENCE: Duration = Duration::from_secs(60);

fn server() -> Server {
    Server::start_with(Options { sync: false, vector_index: true, ..Options::default() })
}

/// Returns the unit vector with the given angle. The tests use angles one degree apart, so that
/// documents with neighbouring numbers have the nearest vectors.
fn direction(degrees: usize) -> Value {
    let angle = (degrees as f64).to_radians();
    json!([angle.cos(), angle.sin()])
}

fn fill(root: &mut Client, collection: &str, degrees: std::ops::Range<usize>) {
    let documents: Vec<Value> = degrees
        .map(|at| json!({ "_key": format!("k{at}"), "n": at, "v": direction(at), "even": at % 2 == 0 }))
        .collect();
    let answer = root.post(&format!("/_api/document/{collection}"), &json!(documents).to_string());
    assert_eq!(answer.verdict(), "202", "{}", answer.text);
}

fn definition(metric: &str, lists: usize, more: &Value) -> String {
    let mut body = json!({
        "type": "vector", "name": "near", "fields": ["v"],
        "params": { "metric": metric, "dimension": 2, "nLists": lists },
    });
    let more = more.as_object().expect("an object");
    body.as_object_mut().expect("an object").extend(more.clone());
    body.to_string()
}

fn ask(root: &mut Client, query: &str, binds: &Value) -> super::wire::Answer {
    root.post("/_api/cursor", &json!({ "query": query, "bindVars": binds }).to_string())
}

fn wait_for(root: &mut Client, state: &str) {
    let begin = Instant::now();
    loop {
        let answer = root.get("/_api/index/c/near");
        if answer.text_at("/trainingState") == state {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "never {state}: {}", answer.text);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_index_over_enough_vectors_is_ready_at_once_and_finds_the_nearest() {
    let server = server();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    fill(&mut root, "c", 0..180);
    let made = root.post("/_api/index?collection=c", &definition("cosine", 4, &json!({})));
    assert_eq!(
        (made.status, made.text_at("/trainingState").as_str()),
        (201, "ready"),
        "{}",
        made.text
    );
    assert_eq!(made.at("/errorMessage"), json!(null));
    let shown = json!({ "metric": "cosine", "dimension": 2, "nLists": 4, "defaultNProbe": 1, "trainingIterations": 25, "numberOfDocsPerCentroid": 100 });
    assert_eq!(made.at("/params"), shown);
    let again = root.post("/_api/index?collection=c", &definition("cosine", 4, &json!({})));
    assert_eq!((again.status, again.at("/id")), (200, made.at("/id")));
    let query = "FOR d IN c LET similarity = APPROX_NEAR_COSINE(d.v, @q, {nProbe: @n}) SORT similarity DESC LIMIT @k RETURN {n: d.n, id: d._id, similarity}";
    let answer = ask(&mut root, query, &json!({ "q": direction(90), "n": 4, "k": 3 }));
    assert_eq!(answer.status, 201, "{}", answer.text);
    let rows = answer.at("/result");
    let mut found: Vec<i64> =
        rows.as_array().unwrap().iter().map(|row| row["n"].as_i64().unwrap()).collect();
    assert_eq!(found.remove(0), 90);
    found.sort_unstable();
    assert_eq!(found, [89, 91]);
    assert_eq!(rows[0]["id"], "c/k90");
    assert!((rows[1]["similarity"].as_f64().unwrap() - 1_f64.to_radians().cos()).abs() < 1e-6);
    let explained = root.post(
        "/_api/explain",
        &json!({ "query": query, "bindVars": { "q": [1, 0], "n": 1, "k": 3 } }).to_string(),
    );
    let nodes: Vec<String> = explained
        .at("/plan/nodes")
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["type"].as_str().unwrap().to_owned())
        .collect();
    assert!(nodes.contains(&"EnumerateNearVectorNode".to_owned()), "{nodes:?}");
    let rules = explained.at("/plan/rules");
    assert!(rules.as_array().expect("rules").contains(&json!("use-vector-index")), "{rules}");
}

#[test]
fn an_index_without_enough_vectors_waits_and_trains_by_itself() {
    let server = server();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    let made = root.post("/_api/index?collection=c", &definition("l2", 8, &json!({})));
    assert_eq!((made.status, made.text_at("/trainingState").as_str()), (201, "unusable"));
    assert_eq!(made.text_at("/errorMessage"), "not enough training data for vector index");
    fill(&mut root, "c", 0..7);
    let query = "FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) LIMIT 2 RETURN d.n";
    let binds = json!({ "q": direction(3) });
    assert_eq!(ask(&mut root, query, &binds).verdict(), "500/1555");
    assert_eq!(root.get("/_api/index/c/near").text_at("/trainingState"), "unusable");
    fill(&mut root, "c", 7..60);
    wait_for(&mut root, "ready");
    assert_eq!(ask(&mut root, query, &binds).at("/result")[0], 3);
    // After the truncation the index is unusable until there are enough vectors again.
    root.script("PUT /_api/collection/c/truncate -> 200");
    assert_eq!(root.get("/_api/index/c/near").text_at("/trainingState"), "unusable");
    assert_eq!(ask(&mut root, query, &binds).verdict(), "500/1555");
    fill(&mut root, "c", 0..20);
    wait_for(&mut root, "ready");
    assert_eq!(ask(&mut root, query, &binds).at("/result")[0], 3);
}

#[test]
fn what_the_index_refuses_is_not_written() {
    let server = server();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"plain"} -> 200
        POST /_api/collection {"name":"sparse"} -> 200
        POST /_api/index?collection=plain {"type":"vector","fields":["a.v"],"params":{"metric":"cosine","dimension":2,"nLists":1}} -> 201
        POST /_api/index?collection=sparse {"type":"vector","fields":["a.v"],"sparse":true,"params":{"metric":"l2","dimension":2,"nLists":1}} -> 201
        "#,
    );
    // Value of `a` in a document, and the answers to the document's insert with a plain index and
    // with a sparse one.
    let table = [
        (json!({ "v": [1, 2] }), "202", "202"),
        (json!({ "v": [0.5, -2.5e3] }), "202", "202"),
        (json!({}), "400/10", "202"),
        (json!(null), "400/10", "202"),
        (json!(7), "400/10", "202"),
        (json!({ "v": null }), "400/17", "400/17"),
        (json!({ "v": "12" }), "400/17", "400/17"),
        (json!({ "v": [1] }), "400/17", "400/17"),
        (json!({ "v": [1, 2, 3] }), "400/17", "400/17"),
        (json!({ "v": [1, "2"] }), "400/17", "400/17"),
        (json!({ "v": [1, null] }), "400/17", "400/17"),
        (json!({ "v": [1e300, 1] }), "400/17", "400/17"),
        (json!({ "v": [0, 0] }), "202", "202"),
    ];
    for (at, (value, plain, sparse)) in table.iter().enumerate() {
        for (collection, verdict) in [("plain", plain), ("sparse", sparse)] {
            let document = json!({ "_key": format!("k{at}"), "a": value }).to_string();
            let answer = root.post(&format!("/_api/document/{collection}"), &document);
            assert_eq!(answer.verdict(), *verdict, "{collection} {document} {}", answer.text);
            let there = root.get(&format!("/_api/document/{collection}/k{at}"));
            assert_eq!(there.status == 200, *verdict == "202", "{collection} {document}");
        }
    }
    for (query, plain, sparse) in [
        (r#"UPDATE "k0" WITH { a: { v: [1] } } IN @@c"#, "400/17", "400/17"),
        (r#"UPDATE "k0" WITH { a: { v: null } } IN @@c"#, "400/17", "400/17"),
        (
            r#"UPDATE "k0" WITH { a: { v: null } } IN @@c OPTIONS { keepNull: false }"#,
            "400/10",
            "201",
        ),
        (r#"REPLACE "k0" WITH { b: 1 } IN @@c"#, "400/10", "201"),
        (r#"UPDATE "k1" WITH { b: 1 } IN @@c"#, "201", "201"),
        (r#"INSERT { a: { v: [9, 9] } } INTO @@c"#, "201", "201"),
    ] {
        for (collection, verdict) in [("plain", plain), ("sparse", sparse)] {
            let answer = ask(&mut root, query, &json!({ "@c": collection }));
            assert_eq!(answer.verdict(), verdict, "{collection} {query} {}", answer.text);
        }
    }
    // The creation of an index also checks the documents that already exist.
    root.script(
        r#"
        POST /_api/collection {"name":"late"} -> 200
        POST /_api/document/late {"b":1} -> 202
        POST /_api/index?collection=late {"type":"vector","fields":["v"],"params":{"metric":"l2","dimension":2,"nLists":1}} -> 400/10
        POST /_api/index?collection=late {"type":"vector","fields":["v"],"sparse":true,"params":{"metric":"l2","dimension":2,"nLists":1}} -> 201
        POST /_api/index?collection=late {"type":"vector","fields":["b"],"params":{"metric":"l2","dimension":2,"nLists":1}} -> 400/17
        "#,
    );
}

/// Tests pairs of a query and its result; every query form that differs from the manual's form
/// fails with 1554.
#[test]
fn only_the_shape_of_the_manual_is_answered() {
    let server = server();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    root.script(r#"POST /_api/collection {"name":"other"} -> 200"#);
    fill(&mut root, "c", 0..90);
    fill(&mut root, "other", 0..2);
    for (name, metric) in [("a", "cosine"), ("b", "l2"), ("p", "innerProduct")] {
        let body = definition(metric, 3, &json!({ "name": name }));
        assert_eq!(root.post("/_api/index?collection=c", &body).text_at("/trainingState"), "ready");
    }
    let cases = r#"
        FOR d IN c SORT APPROX_NEAR_COSINE(d.v, @q) DESC LIMIT 1 RETURN d.n -> [10]
        FOR d IN c SORT APPROX_NEAR_COSINE(@q, d.v) DESC LIMIT 1 RETURN d.n -> [10]
        FOR d IN c SORT APPROX_NEAR_INNER_PRODUCT(d.v, @q) DESC LIMIT 1 RETURN d.n -> [10]
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> [10]
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) ASC LIMIT 1 RETURN d.n -> [10]
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q, {nProbe: 3}) LIMIT 1, 2 RETURN ABS(d.n - 10) -> [1,1]
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q, {}) LIMIT 1 RETURN d.n -> [10]
        FOR d IN c LET s = APPROX_NEAR_L2(d.v, @q) SORT s LIMIT 1 RETURN s < 0.001 -> [true]
        FOR d IN c LET s = APPROX_NEAR_L2(d.v, @q) LET t = s SORT t LIMIT 1 RETURN t < 0.001 -> [true]
        FOR d IN c LET x = d.n LET y = d.n + 1 SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN [x, y] -> [[10,11]]
        FOR d IN c FILTER d.even SORT APPROX_NEAR_L2(d.v, @q, {nProbe: 3}) LIMIT 1 RETURN d.n -> [10]
        FOR d IN c FILTER d.n > 20 && d.n < 30 SORT APPROX_NEAR_L2(d.v, @q, {nProbe: 3}) LIMIT 3 RETURN d.n -> [21,22,23]
        FOR d IN c FILTER d.n IN [1, 30][* RETURN CURRENT] SORT APPROX_NEAR_L2(d.v, @q, {nProbe: 3}) LIMIT 9 RETURN d.n -> [1,30]
        FOR d IN c LET s = APPROX_NEAR_L2(d.v, @q, {nProbe: 9}) FILTER d.n > 40 SORT s LIMIT 1 RETURN d.n -> [41]
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 FILTER d.n > 20 RETURN d.n -> []
        FOR d IN c LET s = APPROX_NEAR_L2(d.v, @q) SORT s LIMIT 2 SORT d.n DESC LIMIT 1 RETURN d.n > 8 -> [true]
        LET q = @q FOR d IN c SORT APPROX_NEAR_L2(d.v, q) LIMIT 1 RETURN d.n -> [10]
        FOR d IN c LET q = SLICE(@q, 0) SORT APPROX_NEAR_L2(d.v, q) LIMIT 1 RETURN d.n -> [10]
        FOR o IN other SORT o.n RETURN FIRST(FOR d IN c SORT APPROX_NEAR_L2(d.v, o.v) LIMIT 1 RETURN d.n) -> [0,1]
        FOR o IN other FOR d IN c SORT APPROX_NEAR_L2(d.v, o.v, {nProbe: 3}) LIMIT 2 RETURN [o.n, d.n] -> [[0,0],[0,1]]
        RETURN [(FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n), (FOR d IN c SORT APPROX_NEAR_COSINE(d.v, @q) DESC LIMIT 1 RETURN d.n)] -> [[[10],[10]]]
        FOR d IN c OPTIONS {indexHint: "b", forceIndexHint: true} SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> [10]
        FOR d IN c OPTIONS {indexHint: "a"} SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> [10]
        FOR d IN c OPTIONS {indexHint: "a", forceIndexHint: true} SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> 500/1577
        FOR d IN c OPTIONS {disableIndex: true} SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) DESC LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c SORT APPROX_NEAR_COSINE(d.v, @q) LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c SORT APPROX_NEAR_INNER_PRODUCT(d.v, @q) ASC LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q), d.n LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q), 1 LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c SORT d.n, APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c SORT 1 - APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c LET s = APPROX_NEAR_L2(d.v, @q) SORT s * 1 LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c LET s = 2 * APPROX_NEAR_L2(d.v, @q) SORT s LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) RETURN d.n -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) FILTER d.even LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) LET x = 1 LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) LIMIT 0 RETURN d.n -> 500/1554
        FOR d IN c FILTER d.even FILTER d.n > 1 SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c LET s = APPROX_NEAR_L2(d.v, @q) FILTER s < 1 SORT s LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c LET x = d.n + 1 FILTER x > 1 SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c FILTER LENGTH(FOR e IN other RETURN 1) > 1 SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> 500/1554
        FOR o IN other FOR d IN c FILTER d.n > o.n SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> 500/1554
        FOR d IN c LET s = APPROX_NEAR_L2(d.v, @q) RETURN s -> 500/1554
        FOR d IN c SORT d.n LIMIT 1 RETURN APPROX_NEAR_L2(d.v, @q) -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN APPROX_NEAR_L2(d.v, @q) -> 500/1554
        FOR d IN c FILTER APPROX_NEAR_L2(d.v, @q) < 1 LIMIT 1 RETURN d -> 500/1554
        RETURN APPROX_NEAR_L2(@q, @q) -> 500/1554
        FOR d IN [{v: @q}] SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.v, d.v) LIMIT 1 RETURN d -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.v, [d.n, 1]) LIMIT 1 RETURN d -> 500/1554
        FOR d IN c LET q = [d.n, 1] SORT APPROX_NEAR_L2(d.v, q) LIMIT 1 RETURN d -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.w, @q) LIMIT 1 RETURN d -> 500/1554
        FOR d IN other SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q, {nProbe: d.n}) LIMIT 1 RETURN d -> 500/1554
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q, {nProbe: 0}) LIMIT 1 RETURN d -> 400/1501
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q, {nProbe: "2"}) LIMIT 1 RETURN d -> 400/1501
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q, {nprobe: 2}) LIMIT 1 RETURN d -> 400/1501
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q, 3) LIMIT 1 RETURN d.n -> [10]
        FOR d IN c SORT APPROX_NEAR_L2(d.v) LIMIT 1 RETURN d -> 400/1541
        FOR d IN c SORT APPROX_NEAR_L2(d.v, [1]) LIMIT 1 RETURN d -> 400/1542
        FOR d IN c SORT APPROX_NEAR_L2(d.v, [1, "2"]) LIMIT 1 RETURN d -> 400/1542
        FOR d IN c SORT APPROX_NEAR_L2(d.v, null) LIMIT 1 RETURN d -> 400/1542
        FOR d IN c LET s = APPROX_NEAR_COSINE(d.v, [0, 0]) SORT s DESC LIMIT 1 RETURN s -> [0]
        FOR d IN c UPDATE d WITH { v: [APPROX_NEAR_L2(d.v, @q), 1] } IN c -> 500/1554
    "#;
    for case in cases.lines().map(str::trim).filter(|case| !case.is_empty()) {
        let (query, expected) = case.rsplit_once(" -> ").expect("an arrow");
        let binds = if query.contains("@q") { json!({ "q": direction(10) }) } else { json!({}) };
        let answer = ask(&mut root, query, &binds);
        let found =
            if answer.status == 201 { answer.at("/result").to_string() } else { answer.verdict() };
        assert_eq!(found, expected, "{query}\n{}", answer.text);
    }
}

#[test]
fn one_cell_and_a_selective_filter_find_less_than_asked_for() {
    let server = server();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    fill(&mut root, "c", 0..180);
    let more = json!({ "storedValues": ["n"] });
    let made = root.post("/_api/index?collection=c", &definition("cosine", 6, &more));
    assert_eq!(made.text_at("/trainingState"), "ready");
    let query = "FOR d IN c FILTER d.n >= 170 SORT APPROX_NEAR_COSINE(d.v, @q, {nProbe: @n}) DESC LIMIT 10 RETURN d.n";
    let mut rows = |probes: usize| {
        let answer = ask(&mut root, query, &json!({ "q": direction(0), "n": probes }));
        answer.at("/result").as_array().expect("rows").len()
    };
    assert_eq!((rows(1), rows(6), rows(1000)), (0, 10, 10));
    let exact = "FOR d IN c FILTER d.n >= 170 LET s = COSINE_SIMILARITY(d.v, @q) SORT s DESC LIMIT 10 RETURN d.n";
    let exact = ask(&mut root, exact, &json!({ "q": direction(0) })).at("/result");
    assert_eq!(ask(&mut root, query, &json!({ "q": direction(0), "n": 6 })).at("/result"), exact);
}

#[test]
fn a_transaction_sees_its_own_vectors_and_leaves_none_when_it_is_aborted() {
    let server = server();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    fill(&mut root, "c", 0..40);
    root.post("/_api/index?collection=c", &definition("l2", 2, &json!({})));
    let begun = root.post("/_api/transaction/begin", r#"{"collections":{"write":["c"]}}"#);
    let id = begun.text_at("/result/id");
    let mut inside = server.root().with("x-arango-trx-id", &id);
    let near = json!({ "q": direction(300) });
    let query = "FOR d IN c SORT APPROX_NEAR_L2(d.v, @q, {nProbe: 2}) LIMIT 1 RETURN d._key";
    inside.script(r#"POST /_api/document/c {"_key":"own","v":[0.5,-0.8660254]} -> 202"#);
    assert_eq!(ask(&mut inside, query, &near).at("/result"), json!(["own"]));
    inside.script("DELETE /_api/document/c/k0 -> 202");
    let first = "FOR d IN c SORT APPROX_NEAR_L2(d.v, [1, 0], {nProbe: 2}) LIMIT 1 RETURN d._key";
    assert_eq!(ask(&mut inside, first, &json!({})).at("/result"), json!(["k1"]));
    assert_eq!(ask(&mut root, first, &json!({})).at("/result"), json!(["k0"]));
    assert_eq!(ask(&mut root, query, &near).at("/result"), json!(["k0"]));
    root.script(&format!("DELETE /_api/transaction/{id} -> 200"));
    assert_eq!(ask(&mut root, query, &near).at("/result"), json!(["k0"]));
}

fn server_of(release: &str) -> Server {
    let release = release.parse().expect(release);
    Server::start_with(Options { sync: false, vector_index: true, release, ..Options::default() })
}

/// One column for each group of releases: the request, then the answers of 3.12.4, 3.12.6, 3.12.7,
/// 3.12.9 and 3.12.10.
#[test]
fn each_release_answers_as_it_does() {
    let rows = r#"
        FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> [10] [10] [10] [10] [10]
        FOR d IN c FILTER d.even SORT APPROX_NEAR_L2(d.v, @q, {nProbe: 3}) LIMIT 1 RETURN d.n -> 500/1554 [10] [10] [10] [10]
        FOR d IN c FILTER d.even FILTER d.n > 1 SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> 500/1554 500/1554 500/1554 500/1554 500/1554
        FOR o IN [1] FOR d IN c FILTER d.n > o SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> 500/1554 500/1554 500/1554 500/1554 500/1554
        FOR d IN c SORT APPROX_NEAR_INNER_PRODUCT(d.v, @q) DESC LIMIT 1 RETURN d.n -> 400/1540 [10] [10] [10] [10]
        FOR d IN c OPTIONS {indexHint: "no", forceIndexHint: true} SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> [10] [10] 500/1577 500/1577 500/1577
        FOR d IN few SORT APPROX_NEAR_L2(d.v, @q) LIMIT 1 RETURN d.n -> 500/1554 500/1554 500/1554 500/1555 500/1555
        RETURN VERSION() -> ["3.12.4"] ["3.12.6"] ["3.12.7"] ["3.12.9"] ["3.12.10"]
    "#;
    let rows: Vec<(&str, Vec<&str>)> = rows
        .lines()
        .filter_map(|row| row.trim().rsplit_once(" -> "))
        .map(|(query, answers)| (query, answers.split(' ').collect()))
        .collect();
    for (column, release) in ["3.12.4", "3.12.6", "3.12.7", "3.12.9", "3.12.10"].iter().enumerate()
    {
        let server = server_of(release);
        let mut root = server.root();
        root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
        root.script(r#"POST /_api/collection {"name":"few"} -> 200"#);
        assert_eq!(root.get("/_api/version").text_at("/version"), **release);
        fill(&mut root, "c", 0..90);
        fill(&mut root, "few", 0..2);
        // A new index over too few vectors, created in the foreground and then in the background.
        let few = root.post("/_api/index?collection=few", &definition("l2", 8, &json!({})));
        let verdict = ["400/9", "400/9", "400/9", "500/1555", "201"][column];
        assert_eq!(few.verdict(), verdict, "{release} {}", few.text);
        let later = json!({ "inBackground": true, "name": "later" });
        let few = root.post("/_api/index?collection=few", &definition("cosine", 8, &later));
        assert_eq!(few.verdict(), ["400/9", "400/9", "400/9", "201", "201"][column], "{release}");
        let listed = root.get("/_api/index?collection=few").at("/indexes");
        let there = listed.as_array().expect("indexes").len() - 1;
        assert_eq!(there, [0, 0, 0, 2, 2][column], "{release} {listed}");
        // A new index over a collection with enough vectors for the training.
        let ready = root.post("/_api/index?collection=c", &definition("l2", 3, &json!({})));
        assert_eq!(ready.status, 201, "{release} {}", ready.text);
        let state = if column >= 3 { json!("ready") } else { json!(null) };
        assert_eq!(ready.at("/trainingState"), state, "{release}");
        let params = &ready.at("/params");
        assert_eq!(params.get("numberOfDocsPerCentroid").is_some(), column == 4, "{release}");
        let product = json!({ "name": "product" });
        let product =
            root.post("/_api/index?collection=c", &definition("innerProduct", 3, &product));
        assert_eq!(product.verdict(), ["400/10", "201", "201", "201", "201"][column], "{release}");
        let stored = json!({ "name": "stored", "storedValues": ["n"], "sparse": true });
        let stored = root.post("/_api/index?collection=c", &definition("cosine", 3, &stored));
        assert_eq!(stored.verdict(), ["400/10", "201", "201", "201", "201"][column], "{release}");
        assert_eq!(stored.at("/storedValues").is_array(), column >= 2, "{release}");
        let shards = root.get("/_api/index?collection=c&withHidden=true").at("/indexes/1/shards");
        let shard = json!({ "c": { "trainingState": "ready", "error": "", "resolvedNLists": 3 } });
        assert_eq!(shards, if column == 4 { shard } else { json!(null) }, "{release}");
        for (query, answers) in &rows {
            let asks_near = query.contains("@q");
            let binds = if asks_near { json!({ "q": direction(10) }) } else { json!({}) };
            let answer = ask(&mut root, query, &binds);
            let found = if answer.status == 201 {
                answer.at("/result").to_string()
            } else {
                answer.verdict()
            };
            assert_eq!(found, answers[column], "{release} {query} {}", answer.text);
        }
        let views = root.post("/_api/view", r#"{"name":"v","type":"arangosearch"}"#);
        let interval = if column == 0 { 1000 } else { 5000 };
        assert_eq!(views.at("/consolidationIntervalMsec"), interval);
        let policy = ["/consolidationPolicy/segmentsMin", "/consolidationPolicy/maxSkewThreshold"];
        let policy = policy.map(|path| views.at(path));
        let expected = [json!([1, null]), json!([50, null]), json!([null, 0.4])];
        assert_eq!(json!(policy), expected[column.min(2)], "{release}");
        let public = root.get("/_admin/options-public").status;
        assert_eq!(public, if column >= 3 { 200 } else { 404 }, "{release}");
    }
}

#[test]
fn a_change_without_a_vector_fails_under_a_sparse_index_before_3_12_9() {
    for (release, verdict) in [("3.12.8", "400/10"), ("3.12.9", "202")] {
        let server = server_of(release);
        let mut root = server.root();
        root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
        fill(&mut root, "c", 0..9);
        let sparse = json!({ "sparse": true });
        let made = root.post("/_api/index?collection=c", &definition("l2", 2, &sparse));
        assert_eq!(made.status, 201, "{}", made.text);
        root.script(r#"POST /_api/document/c {"_key":"without"} -> 202"#);
        root.script(&format!(r#"PATCH /_api/document/c/without {{"a":1}} -> {verdict}"#));
        root.script(&format!(r#"PUT /_api/document/c/without {{"a":1}} -> {verdict}"#));
        root.script(r#"PATCH /_api/document/c/k1 {"a":1} -> 202"#);
        root.script("DELETE /_api/document/c/without -> 202");
    }
}

#[test]
fn a_number_of_lists_that_scales_is_found_at_the_training() {
    let server = server();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    let scaled = |multiplier: u32, least: u32, tiers: Value| json!({ "strategy": "autoSqrt", "multiplier": multiplier, "minNLists": least, "tiers": tiers });
    fill(&mut root, "c", 0..100);
    let table = [
        (json!(null), 40),
        (scaled(1, 15, json!([])), 15),
        (scaled(2, 1, json!([{ "threshold": 101, "fixedValue": 3 }])), 20),
        (
            scaled(
                2,
                1,
                json!([{ "threshold": 100, "fixedValue": 3 }, { "threshold": 9, "fixedValue": 7 }]),
            ),
            3,
        ),
    ];
    for (lists, resolved) in table {
        let params = json!({ "params": { "metric": "l2", "dimension": 2, "nLists": lists } });
        let made = root.post("/_api/index?collection=c", &definition("l2", 1, &params));
        assert_eq!(made.text_at("/trainingState"), "ready", "{}", made.text);
        let listed = root.get("/_api/index?collection=c&withHidden=true").at("/indexes/1");
        assert_eq!(listed["shards"]["c"]["resolvedNLists"], resolved, "{listed}");
        assert_eq!(listed["params"]["nLists"]["strategy"], "autoSqrt");
        let query = "FOR d IN c SORT APPROX_NEAR_L2(d.v, @q, {nProbe: 99}) LIMIT 3 RETURN d.n";
        assert_eq!(
            ask(&mut root, query, &json!({ "q": direction(0) })).at("/result"),
            json!([0, 1, 2])
        );
        root.script("DELETE /_api/index/c/near -> 200");
    }
    // The attribute `factory` must name the same number of lists that `nLists` results in, or leave
    // the number open.
    for (factory, state) in [
        ("IVF40,Flat", "ready"),
        ("IVF{},Flat", "ready"),
        ("IVF41,Flat", "unusable"),
        ("Flat", "unusable"),
    ] {
        let params = json!({ "params": { "metric": "l2", "dimension": 2, "factory": factory } });
        let made = root.post("/_api/index?collection=c", &definition("l2", 1, &params));
        assert_eq!(made.text_at("/trainingState"), state, "{}", made.text);
        assert_eq!(made.text_at("/params/factory"), factory);
        root.script("DELETE /_api/index/c/near -> 200");
    }
}

#[test]
fn conditions_that_stored_values_cover_are_told_in_the_plan() {
    let server = server();
    let mut root = server.root();
    root.script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    fill(&mut root, "c", 0..20);
    root.post("/_api/index?collection=c", &definition("l2", 2, &json!({ "name": "plain" })));
    let stored = json!({ "name": "storing", "storedValues": ["n", "a.b"], "params": { "metric": "l2", "dimension": 2, "nLists": 3 } });
    root.post("/_api/index?collection=c", &definition("l2", 3, &stored));
    for (filter, index, covered) in [
        ("FILTER d.n > 1", "storing", true),
        ("FILTER d.n > 1 && d.a.b == 2", "storing", true),
        ("FILTER d.n > 1 && d.even", "plain", false),
        ("FILTER d.a", "plain", false),
        ("FILTER HAS(d, 'n')", "plain", false),
        ("", "plain", false),
    ] {
        let query = format!(
            "FOR d IN c {filter} SORT APPROX_NEAR_L2(d.v, [1, 0], {{nProbe: 2}}) LIMIT 1, 4 RETURN d.n"
        );
        let plan = root.post("/_api/explain", &json!({ "query": query }).to_string()).at("/plan");
        let nodes = plan["nodes"].as_array().expect("nodes");
        let near = nodes.iter().find(|node| node["type"] == "EnumerateNearVectorNode");
        let near = near.unwrap_or_else(|| panic!("{query}: {plan}"));
        assert_eq!(near["index"]["name"], index, "{query}");
        assert_eq!(near["isCoveredByStoredValues"], covered, "{query}");
        assert_eq!((&near["offset"], &near["limit"]), (&json!(1), &json!(4)), "{query}");
        assert_eq!(near["searchParameters"], json!({ "nProbe": 2 }), "{query}");
        assert!(nodes.iter().all(|node| node["type"] != "FilterNode"), "{query}");
    }
}
