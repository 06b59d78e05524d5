//! Kills a server process while a vector index is trained or filled.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::{
    DATABASE, PATIENCE, assert_all_found, assert_whole, fill, make_collection, open, state,
    wait_until_ready,
};

/// A server process that the test kills.
struct Server(Child);

impl Server {
    fn start(data: &Path, socket: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arango-embedded"));
        command.args(["serve", "--vector-index", "--socket"]).arg(socket);
        command.arg("--data-dir").arg(data).env("ARANGO_ROOT_PASSWORD", "");
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert!(line.contains("listens on"), "{line}");
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }
}

/// Definition of an index that is built in the background.
const NEAR: &str = r#"{"type":"vector","name":"near","fields":["v"],"sparse":true,"inBackground":true,"params":{"metric":"l2","dimension":16,"nLists":32}}"#;

/// Sends a request as `root` with an empty password, and returns the answer.
fn call(socket: &Path, method: &str, target: &str, body: &str) -> String {
    let mut answer = String::new();
    begin_call(socket, method, target, body).read_to_string(&mut answer).expect("an answer");
    answer
}

/// Sends a request and returns the connection, without waiting for the answer.
fn begin_call(socket: &Path, method: &str, target: &str, body: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("connects");
    let head = "host: x\r\nauthorization: Basic cm9vdDo=\r\nconnection: close\r\ncontent-length: ";
    write!(stream, "{method} {target} HTTP/1.1\r\n{head}{}\r\n\r\n{body}", body.len())
        .expect("writes");
    stream
}

/// Kills a server as soon as the index has the wanted state. Returns the state in which the next
/// server finds the index.
fn killed_while(home: &Path, wanted: &str) -> &'static str {
    let (data, socket) = (home.join("data"), home.join("s"));
    let server = Server::start(&data, &socket);
    let made = call(&socket, "POST", "/_api/index?collection=c", NEAR);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let answer = call(&socket, "GET", "/_api/index/c/near", "");
        let says = |state: &str| answer.contains(&format!(r#""trainingState":"{state}""#));
        if says(wanted) || says("ready") {
            break;
        }
    }
    server.kill();
    goes_on(&data)
}

/// Kills a server as soon as it knows the new index. Returns whether the server answered the
/// creation request before the kill.
fn killed_while_filling(home: &Path) -> bool {
    let (data, socket) = (home.join("data"), home.join("s"));
    let server = Server::start(&data, &socket);
    let mut creation = begin_call(&socket, "POST", "/_api/index?collection=c", NEAR);
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE
        && !call(&socket, "GET", "/_api/index/c/near", "").starts_with("HTTP/1.1 200")
    {}
    server.kill();
    let mut answer = String::new();
    let answered = creation.read_to_string(&mut answer).is_ok() && !answer.is_empty();
    goes_on(&data);
    answered
}

/// Checks that the next server completes the index, and drops the index at the end. Returns the
/// state in which that server found the index.
fn goes_on(data: &Path) -> &'static str {
    let engine = open(data);
    let found = state(&engine);
    assert_whole(&engine);
    wait_until_ready(&engine);
    assert_whole(&engine);
    assert_all_found(&engine, 16, 6000);
    let database = engine.database(DATABASE).unwrap();
    let index = database.collections["c"].indexes.last().expect("the index").id;
    engine.drop_index(DATABASE, "c", index).unwrap();
    found
}

/// Number of kills at each moment.
const ROUNDS: usize = 5;

#[test]
fn a_kill_leaves_an_index_that_is_trained_anew_or_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(&home.path().join("data"));
    make_collection(&engine);
    fill(&engine, 0..6000, 16);
    drop(engine);
    // In some rounds the kill may come too late, but not in all. With `VCTX_ROUNDS=full` all rounds
    // are played, otherwise the rounds until the kill came in time.
    let whole = std::env::var("VCTX_ROUNDS").is_ok_and(|rounds| rounds == "full");
    let hits = |round: &dyn Fn() -> bool| {
        (0..ROUNDS).filter(|_| round()).take(if whole { ROUNDS } else { 1 }).count()
    };
    let unanswered = hits(&|| !killed_while_filling(home.path()));
    assert!(unanswered > 0, "each creation was through before the kill came");
    let anew = hits(&|| killed_while(home.path(), "training") == "unusable");
    assert!(anew > 0, "each index was trained before the kill came");
    let goes_on = hits(&|| killed_while(home.path(), "ingesting") == "ingesting");
    assert!(goes_on > 0, "each index was filled before the kill came");
}
