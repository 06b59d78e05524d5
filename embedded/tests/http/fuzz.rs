//! Mutated inputs: texts, JSON and requests of a small corpus, mutated in the same way in every
//! run. No input may cause a panic, a hang or an internal error. `src/encode/bent.rs` and
//! `src/storage/journal/bent.rs` test stored bytes.

#[path = "../fuzz/mutator.rs"]
mod mutator;
#[allow(dead_code, reason = "the other tests of the front use more of it")]
use crate::wire;

use std::io::{Read, Write};
use std::net::Shutdown;

use arango_embedded::error::Code;
use arango_embedded::query::{Query, QueryOptions, prepare};
use arango_embedded::txn::Declared;
use arango_embedded::value::parse;
use mutator::{bend, corpus};

/// Stack size of a query thread, as in the server.
const STACK_BYTES: usize = 16 << 20;

#[test]
fn bent_json_is_refused_or_comes_back_as_it_was_read() {
    bend(&corpus(include_str!("../fuzz/json.txt")), |input| {
        if let Ok(value) = parse(input) {
            let text = value.to_json();
            let again = parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(again.to_json(), text);
        }
    });
}

fn run_queries() {
    let server = wire::Server::start();
    server.root().script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/collection {"name":"e","type":3} -> 200
        POST /_api/view {"name":"v","type":"arangosearch","links":{"c":{"includeAllFields":true}}} -> 201
        POST /_api/document/c [{"_key":"k","n":1,"w":"word","v":[1,2]},{"_key":"l","n":2}] -> 202
        POST /_api/document/e {"_from":"c/k","_to":"c/l"} -> 202
        "#,
    );
    let engine = &server.engine;
    let database = engine.database("_system").expect("the database");
    let declared = Declared {
        write: vec!["c".into(), "e".into()],
        allow_implicit: true,
        ..Declared::default()
    };
    bend(&corpus(include_str!("../fuzz/queries.txt")), |input| {
        let text = String::from_utf8_lossy(input).into_owned();
        let options =
            QueryOptions { max_runtime_s: 0.05, memory_limit: 4 << 20, ..QueryOptions::default() };
        let query = Query { text, options, ..Query::default() };
        let transaction = engine.begin("_system", &declared, false).expect("a transaction");
        let ran =
            prepare(&database, &query).and_then(|prepared| prepared.run(&database, &transaction));
        if let Err(error) = ran {
            assert!(error.code != Code::Internal, "{error}");
        }
        transaction.abort();
    });
}

#[test]
fn bent_queries_are_answered_or_refused_within_their_limits() {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run_queries);
    thread.expect("a thread").join().expect("no panic");
}

#[test]
fn bent_requests_are_answered_or_cut_off_and_hurt_nobody_else() {
    let server = wire::Server::start();
    server.root().script(r#"POST /_api/collection {"name":"c"} -> 200"#);
    let entries: Vec<Vec<u8>> = corpus(include_str!("../fuzz/requests.txt"))
        .iter()
        .map(|entry| String::from_utf8_lossy(entry).replace('\n', "\r\n").into_bytes())
        .collect();
    bend(&entries, |input| {
        let mut client = server.client("rw");
        let stream = client.stream().get_mut();
        // The server may close the connection at the first invalid byte.
        let _ = stream.write_all(input);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1."), "{answer}");
        assert!(!answer.contains("\"errorNum\":4,"), "{answer}");
    });
    assert_eq!(server.root().get("/_api/version").status, 200);
}
