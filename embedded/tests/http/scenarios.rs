//! Runs scenarios from `tests/scenarios/*.http`: text files with requests of several clients and
//! the answers that ArangoDB gives.
//!
//! A file may begin with `options {"stream_idle_ms": 300}`, which sets options of its server. Every
//! `case TITLE` has its own database and connections, and a line `from SOURCE` that names the
//! source of the expected answers. `#` begins a comment; a line that begins with `|` continues the
//! previous line. Every other line is a step:
//!
//! ```text
//! POST /_api/collection {"name": "c"} -> 200
//! POST /_api/transaction/begin {"collections": {"write": "c"}} -> 201 result.id>$t
//! in $t: PATCH /_api/document/c/k {"n": 1} -> 202 @etag>$etag
//! in $t, later slow: POST /_api/cursor {"query": "RETURN SLEEP(1)"}
//! answer slow -> 201 result=[null]
//! with if-match=$etag: DELETE /_api/document/c/k -> 412/1200 _key="k" !old
//! until 50: GET /_api/document/c/k -> 404
//! sleep 250
//! ```
//!
//! - Prefixes of a request, up to `: `: `in ID` runs it in a stream transaction, `with NAME=VALUE`
//!   adds a header, `as USER` uses another user (whose password equals the name), `on NAME` another
//!   connection, `at DATABASE` another database. `later NAME` does not wait for the answer; a later
//!   step `answer NAME -> …` waits for it and checks it. `until N` repeats the request at most N
//!   times, 100 ms apart, until the answer is as expected. `read only` uses the read-only socket.
//! - After `->`: the status, or status and error number, then conditions: `PATH=JSON`, `PATH<=JSON`
//!   (all given attributes are present), `PATH~TEXT` (contains it), `#PATH=N` (length), `!PATH` (is
//!   missing), `PATH>$NAME` (stores it for later steps). A path consists of attribute names and
//!   list indexes, separated by dots. The path `.` is the whole body, and `@NAME` is a header.
//! - `restart` closes the engine and opens it again; open connections end.
//!
//! `SCENARIOS=name cargo test --test scenarios` runs the files with `name` in their names.

#[allow(dead_code, reason = "the other tests of the front use more of it")]
use crate::wire;

#[path = "../scenarios/runner.rs"]
mod runner;

use std::path::{Path, PathBuf};

/// Returns the selected scenario files, sorted by name.
#[allow(clippy::disallowed_methods, reason = "a test reads its own settings from the environment")]
fn files() -> Vec<PathBuf> {
    let wanted = std::env::var("SCENARIOS").unwrap_or_default();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut folders = vec![directory.clone()];
    if cfg!(feature = "conformance") {
        folders.push(directory.join("conformance"));
    }
    let entries = folders.iter().flat_map(|folder| folder.read_dir().expect("the scenarios"));
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
