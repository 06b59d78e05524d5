//! Runs the scripts in `tests/scripts`. A script contains tool calls on one agent, which exists
//! only in this process, and the answer or refusal of each call. `cargo bless` (UPDATE_GOLDEN=1)
//! writes the actual answers into the scripts, so that a reviewer can read these answers.
//!
//! Commands, one per line: `agent WINDOW SYSTEM TEXT` begins another agent; `wait MS` lets time
//! pass; `> TOOL {arguments}` calls a tool, `N> TOOL {arguments}` calls it N times and shows the
//! last answer; `patch> {body}` changes the agent; `window>`, `notices>`, `queue>`, `blocks>` and
//! `events>` show the agent's contents. `events>` shows the events since the last `events>`,
//! without audit rows. All lines after a command up to an empty line are its answer. In arguments,
//! `{"$bytes": N}` is a text of N bytes, `{"$tokens": N}` a text that costs N tokens as a user's
//! message, `{"$many": [N, X]}` a list of N times X, `{"$id": SEQ}` the id of a message, and
//! `"$page"` the last page token. In answers, `#SEQ` is the id of a message and `$page` a page
//! token.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value};
use vctx_core::error::Error;
use vctx_core::memory::event::EventType;
use vctx_core::window::{Section, tokens};

use super::world::World;

/// Maximum number of characters that a script shows of a text in an answer.
const SHOWN_CHARS: usize = 160;
/// Attributes with ids and digests, which a script's answers omit.
const UNSAID: [&str; 3] = ["chain", "evicted_batch_id", "receipt"];

struct Session {
    world: World,
    /// Number of events that were already shown.
    events: usize,
    page: String,
}

impl Session {
    fn new(words: &str) -> Self {
        let (window, system) = words.split_once(' ').unwrap_or((words, ""));
        let window = window.parse().expect("the tokens of a window");
        Self { world: World::new(window, system), events: 0, page: String::new() }
    }

    /// Replaces placeholders such as `$bytes` in arguments with generated values.
    fn made(&self, value: &Value) -> Value {
        let number = |value: &Value| usize::try_from(value.as_u64().expect("a number")).unwrap();
        match value {
            Value::String(text) if text == "$page" => self.page.clone().into(),
            Value::Array(items) => items.iter().map(|item| self.made(item)).collect(),
            Value::Object(map) => match map.iter().next() {
                Some((name, of)) if name == "$bytes" => "x".repeat(number(of)).into(),
                // The frame of a message costs 3 tokens, and the role `user` costs 1 token. Four
                // bytes of text cost one token.
                Some((name, of)) if name == "$tokens" => "x".repeat((number(of) - 4) * 4).into(),
                Some((name, of)) if name == "$many" => {
                    vec![self.made(&of[1]); number(&of[0])].into()
                }
                Some((name, of)) if name == "$id" => {
                    self.world.messages[number(of) - 1].key.clone().into()
                }
                _ => map
                    .iter()
                    .map(|(name, inner)| (name.clone(), self.made(inner)))
                    .collect::<Map<_, _>>()
                    .into(),
            },
            other => other.clone(),
        }
    }

    fn call(&mut self, tool: &str, arguments: &str) -> String {
        let arguments: Value =
            serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{tool} {arguments}: {e}"));
        let arguments = self.made(&arguments);
        let answer = match tool {
            "patch" => self.world.patch(arguments),
            _ => self.world.call(tool, arguments),
        };
        match answer {
            Ok(answer) => self.answered(answer),
            Err(error) => self.shown(&refusal(&error)),
        }
    }

    /// Formats an answer: the result, the evicted messages, and the state of the heartbeat chain.
    fn answered(&mut self, mut answer: Map<String, Value>) -> String {
        let (flush, beat) = (answer.remove("flush"), answer.remove("heartbeat"));
        let result = answer.remove("result").unwrap_or(Value::Object(answer));
        if let Some(token) = result["next_page_token"].as_str() {
            self.page = token.to_owned();
        }
        let mut text = format!("{}\n", short(&result));
        // Outside a heartbeat chain, the heartbeat's state is the same in every answer and is
        // omitted.
        let beat = beat.filter(|beat| beat["chain_depth"] != 0);
        for (name, value) in [("flush", flush), ("heartbeat", beat)] {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                writeln!(text, "{name} {}", short(&value)).expect("a text takes all");
            }
        }
        self.shown(&text)
    }

    /// Replaces ids, which differ in every run, with `#SEQ`.
    fn shown(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for message in &self.world.messages {
            text = text.replace(&message.key, &format!("#{}", message.seq));
        }
        if self.page.is_empty() { text } else { text.replace(&self.page, "$page") }
    }

    /// Returns the tokens of each section of the window, and the number of messages.
    fn window(&self) -> String {
        let (core, now) = (&self.world.core, tokens(&self.world.core));
        let sections =
            Section::ALL.map(|section| format!("{} {}", section.spec().name, now[section]));
        let (all, of, count) = (now.occupancy, core.context_window, core.queue.count);
        let (sections, stored) = (sections.join(", "), self.world.logged.len());
        format!(
            "{all} of {of}: {sections}; messages: {count} in the queue, {stored} in recall storage\n"
        )
    }

    fn look(&mut self, what: &str) -> Option<String> {
        let core = &self.world.core;
        let lines: Vec<String> = match what {
            "window" => return Some(self.window()),
            "notices" => core.notices.iter().map(|n| format!("{} {}", n.kind, n.content)).collect(),
            "blocks" => {
                let pin = |pinned| if pinned { " pinned" } else { "" };
                let block = core.working_blocks.iter();
                block
                    .map(|b| format!("{} {}{}: {:?}", b.id, b.role, pin(b.pinned), cut(&b.content)))
                    .collect()
            }
            "queue" => {
                let queued = |m: &&vctx_core::memory::message::Message| {
                    m.seq >= core.queue.head_seq && m.kind.queued()
                };
                let queue = self.world.messages.iter().filter(queued);
                queue
                    .map(|m| format!("#{} {}: {:?}", m.seq, m.role.text(), cut(&m.content)))
                    .collect()
            }
            "events" => {
                let events = self.world.events[self.events..].iter();
                let events = events.filter(|e| e.kind != EventType::Audit);
                let lines = events
                    .map(|e| {
                        let kind = serde_json::to_value(e.kind).expect("a word");
                        format!(
                            "{} {}",
                            kind.as_str().expect("a word"),
                            short(&Value::Object(e.details.clone()))
                        )
                    })
                    .collect();
                self.events = self.world.events.len();
                lines
            }
            _ => return None,
        };
        Some(self.shown(&lines.iter().fold(String::new(), |text, line| text + line + "\n")))
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}

/// Truncates long texts in a value, and omits fields that only programs read.
fn short(value: &Value) -> Value {
    match value {
        Value::String(text) => cut(text).into(),
        Value::Array(items) => items.iter().map(short).collect(),
        Value::Object(map) => map
            .iter()
            .filter(|(name, _)| !UNSAID.contains(&name.as_str()))
            .map(|(name, inner)| (name.clone(), short(inner)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// Formats a refusal: code, message and further fields.
fn refusal(error: &Error) -> String {
    let fields = match error.fields.is_empty() {
        true => String::new(),
        false => format!(" {}", short(&Value::Object(error.fields.clone()))),
    };
    format!("{} {}{fields}\n", error.code.text(), error.message)
}

/// Runs a script and returns its text with the actual answers.
fn run(script: &str) -> String {
    let mut session = Session::new("1000 Be kind.");
    let mut out = String::new();
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        writeln!(out, "{line}").expect("a text takes all");
        if let Some(words) = line.strip_prefix("agent ") {
            session = Session::new(words);
        } else if let Some(ms) = line.strip_prefix("wait ") {
            session.world.unix_ms += ms.parse::<u64>().expect("milliseconds");
        } else if let Some((command, rest)) =
            line.split_once('>').filter(|_| !line.starts_with('#'))
        {
            let answer = match (command, rest.trim_start()) {
                ("patch", body) => session.call("patch", body),
                (look, "") => session.look(look).unwrap_or_else(|| panic!("unknown line: {line}")),
                (times, call) => {
                    let times: u32 =
                        if times.is_empty() { 1 } else { times.parse().expect("times") };
                    let (tool, arguments) = call.split_once(' ').expect("a tool and arguments");
                    (0..times).fold(String::new(), |_, _| session.call(tool, arguments))
                }
            };
            out.push_str(&answer);
            for line in lines.by_ref() {
                if line.is_empty() {
                    out.push('\n');
                    break;
                }
            }
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "unknown line: {line}");
        }
    }
    out
}

#[test]
fn scripts_answer_as_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scripts");
    let entries = std::fs::read_dir(&folder).expect("tests/scripts");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(files.len() >= 10, "a script for each tool: {files:?}");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1");
    let mut wrong = Vec::new();
    for file in files {
        let script = std::fs::read_to_string(&file).expect("a script");
        let now = run(&script);
        if now == script {
            continue;
        }
        if update {
            std::fs::write(&file, &now).expect("a writable script");
            continue;
        }
        let (mut is, mut was) = (now.lines(), script.lines());
        let at = is.by_ref().zip(was.by_ref()).position(|(a, b)| a != b);
        let at = at.unwrap_or_else(|| now.lines().count().min(script.lines().count()));
        let (is, was) = (now.lines().nth(at), script.lines().nth(at));
        wrong.push(format!("{}:{}\n   is: {is:?}\n  was: {was:?}", file.display(), at + 1));
    }
    assert!(wrong.is_empty(), "{}\nIf that is meant: cargo bless", wrong.join("\n"));
}
