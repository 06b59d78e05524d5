//! The recorded examples of ArangoDB's manual against the engine: `ARANGO_RECORDED=FILE cargo test
//! -p arango-embedded --test recorded`.
//!
//! The file with the examples is not part of the repository. Without this file or without Node, the
//! test prints a note and ends.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Names of the examples that must pass: all that passed when this list was last written.
const PASSING: &str = include_str!("../recorded/passing.txt");
/// The secret that signs the engine's superuser tokens, which some examples need.
const SECRET: &str = "recorded examples";
/// Maximum time in seconds until the engine has started.
const START_WAIT_SECONDS: u64 = 60;

struct Engine(Child);

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(directory: &Path) -> Engine {
    let socket = directory.join("s.sock");
    std::fs::write(directory.join("secret"), SECRET).expect("the secret is written");
    let child = Command::new(env!("CARGO_BIN_EXE_arango-embedded"))
        .args(["serve", "--vector-index", "--view-commit-ms", "200", "--socket"])
        .arg(&socket)
        .arg("--data-dir")
        .arg(directory.join("data"))
        .arg("--jwt-secret-file")
        .arg(directory.join("secret"))
        .env("ARANGO_ROOT_PASSWORD", "")
        .stdout(Stdio::null())
        .spawn()
        .expect("the engine starts");
    let engine = Engine(child);
    let begin = Instant::now();
    while !socket.exists() {
        assert!(begin.elapsed() < Duration::from_secs(START_WAIT_SECONDS), "no socket");
        thread::sleep(Duration::from_millis(20));
    }
    engine
}

#[test]
fn recorded_examples_that_passed_still_pass() {
    let examples =
        std::env::var_os("ARANGO_RECORDED").expect("ARANGO_RECORDED names a file of recordings");
    let directory = tempfile::tempdir().expect("a directory");
    let _engine = start(directory.path());
    let names = directory.path().join("passing.txt");
    let run = Command::new("node")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/run.js"))
        .arg("--socket")
        .arg(directory.path().join("s.sock"))
        .arg("--examples")
        .arg(&examples)
        .arg("--secret")
        .arg(directory.path().join("secret"))
        .arg("--names")
        .arg(&names)
        .output()
        .expect("node runs");
    println!("{}", String::from_utf8_lossy(&run.stdout));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let passed = std::fs::read_to_string(&names).expect("a list of names");
    let passed: BTreeSet<&str> = passed.lines().collect();
    let lost: Vec<&str> = PASSING.lines().filter(|name| !passed.contains(name)).collect();
    assert!(lost.is_empty(), "passed before and fail now: {lost:?}");
}
