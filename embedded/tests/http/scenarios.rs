//! Scenarios: requests of several clients with the answers that ArangoDB gives, as text in `tests/scenarios/*.http`.
//!
//! A file may begin with `options {"stream_idle_ms": 300}`: a server of its own, set so. Every `case TITLE` has a database and
//! connections of its own, and a `from WHERE` that names where the expected answers are known from. `#` begins a comment, a
//! line that begins with `|` goes on with the one before. Everything else is a step:
//!
//! ```text
//! POST /_api/collection {"name": "c"} -> 200
//! POST /_api/transaction/begin {"collections": {"write": "c"}} -> 201 result.id>$t result.status="running"
//! in $t: PATCH /_api/document/c/k {"n": 1} -> 202 @etag>$etag
//! in $t, later slow: POST /_api/cursor {"query": "RETURN SLEEP(1)"}
//! answer slow -> 201 result=[null]
//! with if-match=$etag: DELETE /_api/document/c/k -> 412/1200 _key="k" !old
//! until 50: GET /_api/document/c/k -> 404
//! sleep 250
//! ```
//!
//! - In front of a request, up to `: `: `in ID` is the header of a stream transaction, `with NAME=VALUE` any header,
//!   `as USER` another user (whose password is the name), `on NAME` another connection, `at DATABASE` another database,
//!   `later NAME` does not wait for the answer, which `answer NAME -> …` does, `until N` asks again, at most N times,
//!   100 ms apart, until the answer is as expected; `read only` asks the socket for reading.
//! - Behind `->`: status, or status and error number, then what must hold: `PATH=JSON`, `PATH<=JSON` (every attribute that
//!   is given is there), `PATH~TEXT` (contains it), `#PATH=N` (length), `!PATH` (is not there), `PATH>$NAME` (keeps it
//!   for later steps). A path is attribute names and places in lists with dots, `.` the whole body, `@NAME` a header.
//! - `restart` closes the engine and opens it again; open connections end.
//!
//! `SCENARIOS=name cargo test --test scenarios` runs the files whose names contain `name`.

#[allow(dead_code, reason = "the other tests of the front use more of it")]
use crate::wire;

#[path = "../scenarios/runner.rs"]
mod runner;

use std::path::{Path, PathBuf};

/// The files that are asked for, in the order of their names.
#[allow(clippy::disallowed_methods, reason = "a test reads its own settings from the environment")]
fn files() -> Vec<PathBuf> {
    let wanted = std::env::var("SCENARIOS").unwrap_or_default();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let entries = std::fs::read_dir(directory).expect("the scenarios");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "http"))
        .filter(|path| {
            path.file_stem().is_some_and(|stem| stem.to_string_lossy().contains(&wanted))
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no scenario is called {wanted}");
    files
}

#[test]
fn every_scenario_is_answered_as_arangodb_answers_it() {
    let faults: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> =
            files().into_iter().map(|file| scope.spawn(move || runner::run(&file))).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("ran to its end")).collect()
    });
    assert!(faults.is_empty(), "{} steps differ:\n\n{}", faults.len(), faults.join("\n\n"));
}
