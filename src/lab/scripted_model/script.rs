//! Scripts: built in by name, or steps from a file of JSON lines.

use std::path::Path;
use std::sync::Mutex;

use serde::Deserialize;
use serde_json::Value;

use super::said::{Call, Manners, Said};
use super::seen::{Seen, text_of};
use super::{polite, rude};
use vctx_cli::args;
use vctx_cli::exit::Failure;

/// Longest file of steps, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// What a model does.
#[derive(Debug)]
pub(super) enum Script {
    /// One that is built in.
    Own(Own),
    /// Steps, each used once unless it repeats; the first that fits is taken.
    Steps(Mutex<Vec<Step>>),
}

macro_rules! own {
    ($($name:ident = $text:literal, $help:literal;)*) => {
        /// Scripts that are built in.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Own { $($name,)* }

        impl Own {
            /// All of them: name and what it does.
            pub(super) const ALL: &'static [(Self, &'static str, &'static str)] =
                &[$((Self::$name, $text, $help),)*];
        }
    };
}

own! {
    Echo = "echo", "says again what the user said";
    NestedKv = "nested-kv", "looks a key up in the archive, then its value, until a value is no key";
    Pages = "pages", "reads a list of the archive page by page, takes notes, and answers with all of it";
    Rubbish = "rubbish", "no JSON, empty answers, tools that are not there, arguments that are none";
    Circle = "circle", "the same call again and again";
    Endless = "endless", "another call each time, for ever";
    Giant = "giant", "answers and arguments far longer than asked for";
    WrongIds = "wrong-ids", "calls without an id, with the same one, with one that is too long";
    Slow = "slow", "a word now and then, without an end";
    Cut = "cut", "half an answer, then nothing";
    HangUp = "hang-up", "ends the connection before anything is said";
    Overflow = "overflow", "every request is too long";
    RateLimit = "rate-limit", "too many requests, twice out of three times";
    Refuses = "refuses", "too many requests for an hour";
    Down = "down", "only fails";
}

/// A step of a file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// Taken only where the last message holds this text.
    #[serde(default)]
    when: Option<String>,
    /// What is said.
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<StepCall>,
    #[serde(default)]
    finish: Option<String>,
    /// Status and `body` in the place of an answer.
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    body: Value,
    #[serde(default)]
    retry_after_s: Option<u64>,
    #[serde(default)]
    pause_ms: u64,
    #[serde(default)]
    cut_after: Option<usize>,
    #[serde(default)]
    times: usize,
    /// Whether it may be taken again.
    #[serde(default)]
    repeat: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepCall {
    #[serde(default)]
    id: Option<String>,
    name: String,
    /// An object, or a text that is sent as it is.
    #[serde(default)]
    arguments: Value,
}

impl Script {
    /// A script by its name, or from a file.
    pub(super) fn named(name: &str) -> Result<Script, Failure> {
        if let Some((own, ..)) = Own::ALL.iter().find(|(_, text, _)| *text == name) {
            return Ok(Script::Own(*own));
        }
        let path = Path::new(name);
        if !path.exists() {
            let names: Vec<&str> = Own::ALL.iter().map(|(_, text, _)| *text).collect();
            return Err(Failure::usage(format!("no script and no file {name}"))
                .next(format!("use one of {}, or a file of JSON lines", names.join(", "))));
        }
        let text = args::file(path, FILE_BYTES_MAX)?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let steps = lines.map(|(at, line)| {
            serde_json::from_str::<Step>(line)
                .map_err(|e| Failure::data(format!("{name} line {}: {e}", at + 1)))
        });
        Ok(Script::Steps(Mutex::new(steps.collect::<Result<_, _>>()?)))
    }

    /// What is answered to a request.
    pub(super) fn answer(&self, seen: &Seen) -> Said {
        match self {
            Script::Own(own) => own.answer(seen),
            Script::Steps(steps) => {
                let mut steps = steps.lock().expect("no holder panics");
                let last = seen.last().map_or("", text_of);
                let fits = |step: &Step| step.when.as_ref().is_none_or(|when| last.contains(when));
                match steps.iter().position(fits) {
                    Some(at) if steps[at].repeat => steps[at].said(),
                    Some(at) => steps.remove(at).said(),
                    None => Said::text("The script is over."),
                }
            }
        }
    }
}

impl Own {
    fn answer(self, seen: &Seen) -> Said {
        match self {
            Own::Echo => polite::echo(seen),
            Own::NestedKv => polite::nested_kv(seen),
            Own::Pages => polite::pages(seen),
            Own::Rubbish => rude::rubbish(seen),
            Own::Circle => rude::circle(seen),
            Own::Endless => rude::endless(seen),
            Own::Giant => rude::giant(seen),
            Own::WrongIds => rude::wrong_ids(seen),
            Own::Slow => rude::slow(),
            Own::Cut => rude::cut(),
            Own::HangUp => rude::hang_up(),
            Own::Overflow => rude::overflow(),
            Own::RateLimit => rude::rate_limit(seen),
            Own::Refuses => rude::refuses(),
            Own::Down => rude::down(),
        }
    }
}

impl Step {
    fn said(&self) -> Said {
        let calls = self.calls.iter().map(|call| Call {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: match &call.arguments {
                Value::String(text) => text.clone(),
                Value::Null => "{}".to_owned(),
                other => other.to_string(),
            },
        });
        let body = match &self.body {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let manners = Manners {
            instead: self.status.map(|status| (status, body)),
            retry_after_s: self.retry_after_s,
            pause_ms: self.pause_ms,
            cut_after: self.cut_after,
            times: self.times,
        };
        Said {
            text: self.text.clone(),
            calls: calls.collect(),
            finish: self.finish.clone(),
            manners,
        }
    }
}
