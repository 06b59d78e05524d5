//! Scripts of the scripted model: built-in scripts by name, or steps from a file of JSON lines.

use std::path::Path;
use std::sync::Mutex;

use serde::Deserialize;
use serde_json::Value;

use super::answer::{Call, Manners, ModelAnswer};
use super::request::{ModelRequest, text_of};
use super::{polite, rude};
use vctx_cli::args;
use vctx_cli::exit::Failure;

/// Maximum size of a step file, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The behaviour of a scripted model.
#[derive(Debug)]
pub(super) enum Script {
    /// A built-in script, selected by its name.
    Own(Own),
    /// Steps of a script. The first step that fits a request answers the request. A step is used
    /// once, unless it is marked as repeating.
    Steps(Mutex<Vec<Step>>),
}

macro_rules! own {
    ($($name:ident = $text:literal, $help:literal;)*) => {
        /// Built-in scripts of the scripted model.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Own { $($name,)* }

        impl Own {
            /// Names and descriptions of all built-in scripts.
            pub(super) const ALL: &'static [(Self, &'static str, &'static str)] =
                &[$((Self::$name, $text, $help),)*];
        }
    };
}

own! {
    Echo = "echo", "repeats the user's text";
    NestedKv = "nested-kv", "looks up a key in the archive, then looks up the found value as the next key, until a value is not a key";
    Pages = "pages", "reads the result list of an archive search page by page, takes notes, and answers with all notes";
    Rubbish = "rubbish", "no JSON, empty answers, unknown tools, invalid arguments";
    Circle = "circle", "the same tool call in each answer, without end";
    Endless = "endless", "a different tool call in each answer, without end";
    Giant = "giant", "answers and arguments far longer than asked for";
    WrongIds = "wrong-ids", "calls without an id, with the same id, with an id that is too long";
    Slow = "slow", "a very long text, streamed slowly";
    Cut = "cut", "closes the connection in the middle of an answer";
    HangUp = "hang-up", "closes the connection before any data is sent";
    Overflow = "overflow", "refuses every request as too long for the model's context";
    RateLimit = "rate-limit", "answers two of three requests with the status 429 (too many requests)";
    Refuses = "refuses", "answers every request with the status 429 and a Retry-After of an hour";
    Down = "down", "only fails";
}

/// A step of a script file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// Text that the last message must contain for the step to fit.
    #[serde(default)]
    when: Option<String>,
    /// Text of the step's answer.
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<StepCall>,
    #[serde(default)]
    finish: Option<String>,
    /// HTTP status that is sent, with `body`, in place of an answer.
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
    /// Whether the step may be used more than once.
    #[serde(default)]
    repeat: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepCall {
    #[serde(default)]
    id: Option<String>,
    name: String,
    /// Arguments of a tool call: a JSON object, or a text that is sent unchanged.
    #[serde(default)]
    arguments: Value,
}

impl Script {
    /// Loads a script by its name, or from a file.
    pub(super) fn by_name(name: &str) -> Result<Script, Failure> {
        if let Some((own, ..)) = Own::ALL.iter().find(|(_, text, _)| *text == name) {
            return Ok(Script::Own(*own));
        }
        let path = Path::new(name);
        if !path.exists() {
            let names: Vec<&str> = Own::ALL.iter().map(|(_, text, _)| *text).collect();
            return Err(Failure::usage(format!("there is no script and no file named {name}"))
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

    /// Returns the script's answer to a request.
    pub(super) fn answer(&self, request: &ModelRequest) -> ModelAnswer {
        match self {
            Script::Own(own) => own.answer(request),
            Script::Steps(steps) => {
                let mut steps = steps.lock().expect("no holder panics");
                let last = request.last().map_or("", text_of);
                let fits = |step: &Step| step.when.as_ref().is_none_or(|when| last.contains(when));
                match steps.iter().position(fits) {
                    Some(at) if steps[at].repeat => steps[at].answer(),
                    Some(at) => steps.remove(at).answer(),
                    None => ModelAnswer::text("The script is over."),
                }
            }
        }
    }
}

impl Own {
    fn answer(self, request: &ModelRequest) -> ModelAnswer {
        match self {
            Own::Echo => polite::echo(request),
            Own::NestedKv => polite::nested_kv(request),
            Own::Pages => polite::pages(request),
            Own::Rubbish => rude::rubbish(request),
            Own::Circle => rude::circle(request),
            Own::Endless => rude::endless(request),
            Own::Giant => rude::giant(request),
            Own::WrongIds => rude::wrong_ids(request),
            Own::Slow => rude::slow(),
            Own::Cut => rude::cut(),
            Own::HangUp => rude::hang_up(),
            Own::Overflow => rude::overflow(),
            Own::RateLimit => rude::rate_limit(request),
            Own::Refuses => rude::refuses(),
            Own::Down => rude::down(),
        }
    }
}

impl Step {
    fn answer(&self) -> ModelAnswer {
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
        ModelAnswer {
            text: self.text.clone(),
            calls: calls.collect(),
            finish: self.finish.clone(),
            manners,
        }
    }
}
