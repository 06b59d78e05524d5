//! Parses a system call trace of `strace -f -y`: each call, its file, and the lines where it began
//! and ended.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Maximum time until the tracer ends after the program has ended.
const END_MAX: Duration = Duration::from_secs(20);

/// One system call of the trace.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// The file of the first argument, as `-y` prints it (`/path`, `socket:[1]`).
    pub(crate) file: String,
    /// The arguments as strace prints them.
    pub(crate) arguments: String,
    /// Result of the call; `None` if the trace does not contain its end.
    pub(crate) result: Option<i64>,
    /// Line on which the call began.
    pub(crate) begun: usize,
    /// Line on which the call ended.
    pub(crate) ended: usize,
}

/// Whether this machine allows the tracing of processes.
pub(crate) fn can_trace() -> bool {
    let tried = Command::new("strace").args(["-f", "-e", "trace=none", "true"]).output();
    tried.is_ok_and(|output| output.status.success())
}

/// Returns the command line that traces a program's system calls into a file.
pub(crate) fn under(calls: &str, into: &Path) -> Vec<String> {
    let file = into.to_str().expect("a plain path");
    // With `-D` the program is the direct child of the test, so a kill of the program also ends the
    // tracer. `-s` is so large that a request or the data of one commit is printed completely.
    let line =
        ["strace", "-D", "-f", "-y", "-s", "262144", "--seccomp-bpf", "-e", calls, "-o", file];
    line.map(str::to_owned).to_vec()
}

/// Waits until the tracer has written that the killed program has ended.
pub(crate) async fn finished(file: &Path, program: u32) {
    let until = Instant::now() + END_MAX;
    let program = program.to_string();
    // The line is `123 +++ killed by SIGKILL +++`, in which short process ids are padded with
    // blanks.
    let end = |line: &str| line.split_whitespace().take(2).eq([program.as_str(), "+++"]);
    while !std::fs::read_to_string(file).is_ok_and(|text| text.lines().any(end)) {
        assert!(Instant::now() < until, "the tracer never ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Reads the calls of a trace, in the order in which they began.
pub(crate) fn read(file: &Path) -> Vec<Call> {
    let text = std::fs::read(file).expect("a trace");
    let text = String::from_utf8_lossy(&text);
    let mut calls: Vec<Call> = Vec::new();
    let mut waiting: HashMap<(String, String), usize> = HashMap::new();
    for (at, line) in text.lines().enumerate() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some((name, tail)) = resumed.split_once(" resumed>") else { continue };
            if let Some(begun) = waiting.remove(&(thread.to_owned(), name.to_owned())) {
                calls[begun].ended = at;
                calls[begun].result = result(tail);
                calls[begun].arguments.push_str(tail);
            }
            continue;
        }
        let Some((name, arguments)) = rest.split_once('(') else { continue };
        if name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            continue;
        }
        let file = arguments.split_once('<').and_then(|(_, tail)| tail.split_once('>'));
        let file = file.map(|(file, _)| file.to_owned()).unwrap_or_default();
        let unfinished = arguments.ends_with("<unfinished ...>");
        if unfinished {
            waiting.insert((thread.to_owned(), name.to_owned()), calls.len());
        }
        calls.push(Call {
            name: name.to_owned(),
            file,
            arguments: arguments.to_owned(),
            result: if unfinished { None } else { result(arguments) },
            begun: at,
            ended: at,
        });
    }
    calls
}

fn result(text: &str) -> Option<i64> {
    let (_, tail) = text.rsplit_once(" = ")?;
    tail.split_whitespace().next()?.parse().ok()
}
