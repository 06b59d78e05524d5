//! Tests a server with the local model all-MiniLM-L6-v2; `.ci/full` runs this test.

#[path = "embed-bert/tiny.rs"]
mod tiny;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use vctx_base::embedder::Kind;

use self::tiny::{SENTENCES, write};

/// Maximum number of polls for a started server or for pending vectors, and the pause between two
/// polls.
const LOOKS_MAX: usize = 1_200;
const LOOK: Duration = Duration::from_millis(50);
/// Number in the next idempotency key that a test sends.
static KEYS: AtomicUsize = AtomicUsize::new(0);

/// A server process with its own data directory; dropping it kills the process.
struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    /// Starts a server with the model in the directory `model`, or with the installed one.
    fn start(directory: &Path, model: Option<&Path>) -> Server {
        let socket = directory.join("s");
        let mut serve = Command::new(env!("CARGO_BIN_EXE_vctx"));
        serve.args(["serve", "--socket"]).arg(&socket);
        serve.arg("--data-dir").arg(directory.join("data"));
        if let Some(model) = model {
            serve.env("VCTX_EMBEDDER__KIND", "local").env("VCTX_EMBEDDER__MODEL_DIR", model);
        }
        let process = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Server { process, socket };
        for _ in 0..LOOKS_MAX {
            if server.ask("GET", "/readyz", &Value::Null).is_some_and(|(status, _)| status == 200) {
                return server;
            }
            std::thread::sleep(LOOK);
        }
        panic!("the server is never ready");
    }

    /// Sends a request about the agent `ada`, and returns the answer.
    fn done(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) =
            self.ask(method, &format!("/v1/agents/ada{path}"), &body).expect("an answer");
        assert!(status < 300, "{path}: {answer}");
        answer
    }

    /// Creates the agent `ada`, with these texts in recall storage.
    fn told(&self, texts: &[&str]) {
        self.done("PUT", "", json!({"context_window": 4096, "system": "Be kind."}));
        let entries: Vec<Value> = texts.iter().map(|text| json!({"content": text})).collect();
        self.done("POST", "/tools/write_recall", json!({"entries": entries}));
    }

    /// Waits until each of `count` texts has a vector, and returns the text nearest to the query.
    fn nearest(&self, query: &str, count: usize) -> String {
        let asked = json!({"query": query, "mode": "vector", "similarity_min": 0, "limit": 5, "rehydrate": false});
        let mut found = Value::Null;
        for _ in 0..LOOKS_MAX {
            found = self.done("POST", "/tools/search_recall", asked.clone())["result"].clone();
            let results = found["results"].as_array().expect("results");
            if results.len() == count {
                return results[0]["content"].as_str().expect("a text").to_owned();
            }
            std::thread::sleep(LOOK);
        }
        panic!("not all texts are found: {found}");
    }

    /// Sends a request, and returns status and body of the answer; `None` while no server listens.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let key = KEYS.fetch_add(1, Ordering::Relaxed);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nif-match: *\r\nidempotency-key: k{key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // `kill` fails if the process has already ended, which is no error here.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn a_server_with_a_model_in_it_finds_what_was_said_and_what_was_taken_in() {
    let directory = tempfile::Builder::new().prefix("b").tempdir().unwrap();
    let model = write(directory.path(), json!({}));
    let server = Server::start(directory.path(), Some(&model));
    let environment = fs::read(format!("/proc/{}/environ", server.process.id())).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    let of_products = environment.split('\0').find(|one| one.starts_with("RAYON_NUM_THREADS="));
    assert_eq!(of_products, Some("RAYON_NUM_THREADS=1"));
    server.told(&SENTENCES);
    assert_eq!(server.nearest(SENTENCES[2], SENTENCES.len()), SENTENCES[2]);
    server.done("POST", "/tools/ingest_archival", json!({"doc_id": "log", "chunks": SENTENCES}));
    let asked = json!({"query_text": SENTENCES[1], "mode": "vector", "limit": 5});
    let found = server.done("POST", "/tools/search_archival", asked)["result"].clone();
    assert_eq!(found["results"].as_array().unwrap().len(), SENTENCES.len(), "{found}");
    assert_eq!(found["results"][0]["text"], SENTENCES[1], "{found}");
}

#[test]
fn an_installed_minilm_finds_a_fact_by_its_meaning_without_any_setting() {
    let files = std::env::var_os(MINILM).expect("VCTX_TEST_MINILM names its directory");
    let directory = tempfile::Builder::new().prefix("b").tempdir().unwrap();
    let vctx = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vctx"));
        let command = command.args(arguments).arg("--data-dir").arg(directory.path().join("data"));
        let answer = command.output().unwrap();
        let told = String::from_utf8_lossy(&answer.stdout).into_owned();
        assert!(answer.status.success(), "{told}{}", String::from_utf8_lossy(&answer.stderr));
        told
    };
    vctx(&["embedder", "install", "minilm", "--from", files.to_str().unwrap()]);
    assert!(vctx(&["embedder", "show"]).contains("minilm"));
    let server = Server::start(directory.path(), None);
    let said = [
        "My sister adopted a grey kitten.",
        "The invoice is due on Friday.",
        "We sail to Lisbon in March.",
        "The bakery closes at noon.",
    ];
    server.told(&said);
    for (question, fact) in [("What pet does she have?", 0), ("When must I pay the bill?", 1)] {
        assert_eq!(server.nearest(question, said.len()), said[fact], "{question}");
    }
}

/// Environment variable that names the directory with the published files of all-MiniLM-L6-v2;
/// `.ci/full` takes them from a package.
const MINILM: &str = "VCTX_TEST_MINILM";

#[tokio::test]
async fn minilm_is_met_where_it_is() {
    let directory = std::env::var_os(MINILM).expect("VCTX_TEST_MINILM names its directory");
    let limit = Duration::from_secs(60);
    let embedder = vctx_embed_bert::load(Path::new(&directory), "", limit).unwrap();
    for (text, wanted) in [
        (
            "Where does Ada rent a flat?",
            [0.017015, -0.054956, -0.042746, 0.081840, -0.025886, 0.023316],
        ),
        (
            "Ada moved to Lisbon in March and rents a flat near the river.",
            [0.040610, -0.048197, -0.003492, 0.047987, -0.005610, 0.028450],
        ),
        (
            "Naïve café 🦀 — überall 1999.",
            [-0.034499, 0.020500, 0.028053, 0.014707, -0.008487, 0.037268],
        ),
        ("", [-0.118838, 0.048299, -0.002548, -0.011011, 0.051951, 0.010292]),
    ] {
        let made = embedder.embed(&[text.to_owned()], Kind::Passage).await.unwrap().remove(0);
        for (made, wanted) in made.iter().zip(wanted) {
            assert!((made - wanted).abs() < 2e-6, "{text}: {made} {wanted}");
        }
    }
}
