//! Runs the commands of the README and of the tour in one shell, and checks that they print the
//! documented output.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::home::{Home, PROGRAM, Process, Tuning, command, unconfigured};
use crate::needs::left_out;
use crate::outside::needs_an_engine_of_its_own;

/// Commands that this test skips: `(beginning of the command, reason)`.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo build", "the program under test is built"),
    ("export PATH=", "the program under test stands first on PATH"),
    ("vctx serve", "it stays; the test starts it"),
    ("pip install", "deploy/check-install.sh installs the packages"),
    ("vctx embedder install", "deploy/check-install.sh installs the model"),
    ("export VCTX_CHAT__", "deploy/check-install.sh has a stand-in for a model"),
    ("vctx chat", "deploy/check-install.sh has a stand-in for a model"),
    ("vctx search", "deploy/check-install.sh searches what the chat stored"),
];
/// The pages whose commands the test runs in sequence in one shell.
const PAGES: &[&str] = &["README.md", "docs/tutorial/tour.md"];
/// Programs that the scripts in `guards/` call.
const GUARD_TOOLS: &[&str] = &["awk", "curl", "lsof", "ss"];
/// The sign for omitted output.
const LEFT_OUT: &str = "…";
/// The line that the test prints before each command, so that it finds where the command's output
/// begins.
const MARK: &str = "@@@ command";
/// Timeout of curl, in seconds.
const CURL_S_MAX: u32 = 60;

/// A documented command and the answer that is shown below it.
#[derive(Debug, Default, PartialEq)]
struct Shown {
    command: String,
    answer: String,
}

/// Returns the commands of all pages, in order.
fn shown_on_all_pages() -> Vec<Shown> {
    let text = |page: &&str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        fs::read_to_string(path).expect(page)
    };
    PAGES.iter().map(text).flat_map(|page| shown(&page)).collect()
}

/// Returns the commands in the `sh` code blocks of a page. A comment that begins with a brace is an
/// answer; the comments after it continue the answer.
fn shown(readme: &str) -> Vec<Shown> {
    let blocks = readme.split("```sh\n").skip(1).map(|rest| rest.split("```").next());
    let mut all: Vec<Shown> = Vec::new();
    for line in blocks.flat_map(|block| block.expect("a block").lines()) {
        match (line.strip_prefix("# "), all.last_mut()) {
            (Some(answer), Some(last)) => last.answer.push_str(answer),
            _ if line.is_empty() => {}
            (_, Some(last)) if last.command.ends_with('\\') => {
                last.command.push('\n');
                last.command.push_str(line);
            }
            _ => all.push(Shown { command: line.to_owned(), answer: String::new() }),
        }
    }
    all
}

/// Parses a documented answer. The sign `…` for omissions becomes a string, an attribute, or a last
/// list item.
fn read(answer: &str) -> Value {
    let (mut json, mut open) = (String::new(), Vec::new());
    let (mut quoted, mut last) = (false, ' ');
    for c in answer.chars() {
        match c {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => open.push(c),
            '}' | ']' if !quoted => drop(open.pop()),
            _ => {}
        }
        match c {
            '…' if !quoted && last != ':' && open.last() == Some(&'{') => {
                json.push_str(r#""…": "…""#);
            }
            '…' if !quoted => json.push_str(r#""…""#),
            _ => json.push(c),
        }
        if !c.is_whitespace() {
            last = c;
        }
    }
    serde_json::from_str(&json).unwrap_or_else(|e| panic!("the README shows no JSON ({e}): {json}"))
}

/// Returns the first difference between an answer and the documented answer.
fn difference(shown: &Value, found: &Value, at: &str) -> Option<String> {
    let differs = || Some(format!("{at}: the README shows {shown}, found {found}"));
    match (shown, found) {
        (Value::String(text), _) if text == LEFT_OUT => None,
        (Value::Object(shown), Value::Object(found)) => {
            let mut extra = found.keys().filter(|name| !shown.contains_key(*name));
            match extra.next() {
                Some(name) if !shown.contains_key(LEFT_OUT) => {
                    Some(format!("{at}: the README does not show `{name}`"))
                }
                _ => {
                    shown.iter().filter(|(name, _)| *name != LEFT_OUT).find_map(|(name, value)| {
                        match found.get(name) {
                            Some(found) => difference(value, found, &format!("{at}/{name}")),
                            None => Some(format!("{at}: there is no `{name}`")),
                        }
                    })
                }
            }
        }
        (Value::Array(shown), Value::Array(found)) => {
            let open = shown.last().is_some_and(|last| last == LEFT_OUT) && shown.len() > 1;
            let told = &shown[..shown.len() - usize::from(open)];
            if found.len() < told.len() || (!open && found.len() > told.len()) {
                return differs();
            }
            let mut pairs = told.iter().zip(found).enumerate();
            pairs.find_map(|(i, (shown, found))| difference(shown, found, &format!("{at}/{i}")))
        }
        _ if shown == found => None,
        _ => differs(),
    }
}

#[test]
fn what_is_left_out_may_be_anything_and_nothing_else() {
    let found = json!({"a": 1, "b": {"c": "x", "d": null}, "e": [1, 2]});
    for (answer, at) in [
        (r#"{"a": 1, "b": {"c": "x", "d": null}, "e": [1, 2]}"#, None),
        (r#"{"a": …, "b": {"c": "…", …}, "e": [1, …]}"#, None),
        (r#"{"a": 1, …}"#, None),
        (r#"{"a": 2, …}"#, Some("/a: the README shows 2, found 1")),
        (r#"{"a": 1}"#, Some(": the README does not show `b`")),
        (r#"{"f": …, …}"#, Some(": there is no `f`")),
        (r#"{"b": {"c": "x"}, …}"#, Some("/b: the README does not show `d`")),
        (r#"{"e": [1], …}"#, Some("/e: the README shows [1], found [1,2]")),
        (r#"{"e": [2, …], …}"#, Some("/e/0: the README shows 2, found 1")),
    ] {
        assert_eq!(difference(&read(answer), &found, "").as_deref(), at, "{answer}");
    }
}

#[test]
fn commands_go_on_behind_a_backslash_and_answers_on_the_next_comment() {
    let text = "Text.\n```sh\na 1 # why\n\nb \\\n  2\n# {\"x\":\n#  1}\n```\n```json\n{}\n```\n";
    let command = |command: &str, answer: &str| Shown {
        command: command.to_owned(),
        answer: answer.to_owned(),
    };
    assert_eq!(shown(text), [command("a 1 # why", ""), command("b \\\n  2", "{\"x\": 1}")]);
}

/// The environment of a new user: empty directories, the program on PATH, and the repository's
/// `guards`.
struct Newcomer {
    home: Home,
}

impl Newcomer {
    fn new() -> Newcomer {
        let home = Home::new();
        for name in ["home", "run", "state", "work"] {
            fs::create_dir(home.path(name)).expect("a new directory");
        }
        let curlrc = format!("silent\nshow-error\nmax-time = {CURL_S_MAX}\n");
        fs::write(home.path("home/.curlrc"), curlrc).expect("a file");
        let guards = Path::new(env!("CARGO_MANIFEST_DIR")).join("guards");
        std::os::unix::fs::symlink(guards, home.path("work/guards")).expect("a link");
        Newcomer { home }
    }

    fn at_home(&self, mut command: Command) -> Command {
        unconfigured(&mut command);
        let program = Path::new(PROGRAM).parent().expect("a directory").to_owned();
        let others = std::env::var_os("PATH").unwrap_or_default();
        let all: Vec<PathBuf> =
            std::iter::once(program).chain(std::env::split_paths(&others)).collect();
        let path: OsString = std::env::join_paths(all).expect("paths without a colon");
        command.env("PATH", path).env("HOME", self.home.path("home"));
        command.env("XDG_RUNTIME_DIR", self.home.path("run"));
        command.env("XDG_STATE_HOME", self.home.path("state"));
        command.current_dir(self.home.path("work"));
        command
    }

    /// Starts `vctx serve` without any configuration.
    async fn serve(&self) -> Process {
        let mut serve = self.at_home(command(&Tuning::default()));
        serve.arg("serve");
        let process = Process::start(&self.home, "serve", serve);
        process.ready(&[], Some(&self.home.path("run/vctx/vctx.sock"))).await;
        process
    }

    /// Runs commands in sequence in one shell, which ends at the first failing command.
    fn run(&self, commands: &[Shown]) -> Output {
        let lines =
            commands.iter().map(|shown| format!("echo; echo '{MARK}'\n{}\n", shown.command));
        let script = lines.fold("set -eu\n".to_owned(), |script, line| script + &line);
        let mut shell = self.at_home(Command::new("sh"));
        shell.args(["-c", &script]).stdin(Stdio::null());
        shell.output().expect("a shell")
    }
}

fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(tool).is_file())
}

/// Returns the commands to run: all except those in `NOT_RUN`.
fn to_run(all: Vec<Shown>) -> Vec<Shown> {
    for (start, why) in NOT_RUN {
        let used = all.iter().any(|shown| shown.command.starts_with(start));
        assert!(used, "no command of the README begins with `{start}` any more ({why})");
    }
    let guards = GUARD_TOOLS.iter().all(|tool| is_there(tool));
    if !guards {
        left_out(&format!("the guards need {GUARD_TOOLS:?} on PATH"));
    }
    let runs = |shown: &Shown| {
        let listed = NOT_RUN.iter().any(|(start, _)| shown.command.starts_with(start));
        !listed && (guards || !shown.command.starts_with("guards/"))
    };
    all.into_iter().filter(runs).collect()
}

#[tokio::test]
async fn every_command_of_the_readme_runs_and_answers_as_shown() {
    if needs_an_engine_of_its_own("starts everything with nothing configured") {
        return;
    }
    if !is_there("curl") {
        left_out("curl is not on PATH");
        return;
    }
    let commands = to_run(shown_on_all_pages());
    let newcomer = Newcomer::new();
    let _server = newcomer.serve().await;
    let output = newcomer.run(&commands);
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<&str> = said.split(&format!("\n{MARK}\n")).skip(1).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = &commands[answers.len().max(1) - 1].command;
    assert!(output.status.success(), "{last}\n{}\n{errors}", answers.last().unwrap_or(&""));
    assert_eq!(answers.len(), commands.len(), "{said}");
    for (shown, said) in commands.iter().zip(answers) {
        let asks = shown.command.contains("curl --unix-socket");
        assert_eq!(asks, !shown.answer.is_empty(), "what curl answers is shown: {}", shown.command);
        if asks {
            let found: Value = serde_json::from_str(said.trim()).unwrap_or_else(|e| {
                panic!("no JSON ({e}) from {}\n{said}\n{errors}", shown.command)
            });
            let difference = difference(&read(&shown.answer), &found, "");
            assert_eq!(difference, None, "{}\n{found:#}", shown.command);
        }
    }
}

#[tokio::test]
async fn the_readme_calls_every_tool_by_curl() {
    if needs_an_engine_of_its_own("starts everything with nothing configured") {
        return;
    }
    let all = shown_on_all_pages();
    let newcomer = Newcomer::new();
    let _server = newcomer.serve().await;
    let listed = newcomer.home.wire("run/vctx/vctx.sock").get("/v1/tools").await.ok();
    let tools = listed["tools"].as_array().or(listed.as_array()).expect("a list of tools");
    for tool in tools {
        let name = tool["name"].as_str().or(tool["function"]["name"].as_str()).expect("a name");
        let path = format!("$A/tools/{name} ");
        let called = |shown: &Shown| {
            shown.command.contains("curl --unix-socket") && shown.command.contains(&path)
        };
        assert!(all.iter().any(called), "the README does not call {name}");
    }
    assert_eq!(tools.len(), 11);
}
