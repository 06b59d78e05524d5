//! Makes the decisions after an inference: checks the calls of the answer, bounds the answer's
//! length, and decides whether the run continues.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::spool::preview;
use crate::error::Code;
use crate::limits::{NAME_BYTES_MAX, RUN_REPAIRS_MAX};
use crate::memory::heartbeat::ClosedBy;
use crate::memory::run::{RunReason, ToolCall};
use crate::memory::tokens::TokenCounter;

/// Maximum number of calls in one answer that a run executes; further calls are dropped, and the
/// model is informed.
const RUN_CALLS_MAX: usize = 32;

/// A tool call of an answer, ready to be recorded and executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedCall {
    /// The tool call as recorded, with a unique id, a name, and arguments that are a JSON object.
    pub call: ToolCall,
    /// The parsed arguments, or a description of what is wrong with them.
    pub arguments: Result<Map<String, Value>, String>,
}

/// Repairs the calls of an answer, so that ids are unique and any chat format accepts names and
/// arguments. A call with invalid arguments fails, and the beginning of the arguments is recorded
/// as text. Returns the repaired calls and the number of dropped calls beyond `RUN_CALLS_MAX`. The
/// number `turn` is part of generated call ids.
pub fn settled(
    calls: Vec<ToolCall>,
    turn: u64,
    counter: &dyn TokenCounter,
    tokens_max: u64,
) -> (Vec<CheckedCall>, usize) {
    let dropped = calls.len().saturating_sub(RUN_CALLS_MAX);
    let mut ids: HashSet<String> = HashSet::new();
    let share = tokens_max / (calls.len().clamp(1, RUN_CALLS_MAX) as u64);
    let kept = calls.into_iter().take(RUN_CALLS_MAX).enumerate();
    let asked = kept.map(|(at, call)| {
        let usable = !call.id.is_empty() && call.id.len() <= NAME_BYTES_MAX;
        let id =
            if usable && !ids.contains(&call.id) { call.id } else { format!("call_{turn}_{at}") };
        ids.insert(id.clone());
        let (name, named) = match call.name.len() {
            1..=NAME_BYTES_MAX => (call.name, true),
            _ => ("unnamed".to_owned(), false),
        };
        let (arguments, text) = understood(&call.arguments, counter, share);
        let arguments = match named {
            true => arguments,
            false => Err("the call names no tool".to_owned()),
        };
        CheckedCall { call: ToolCall { id, name, arguments: text }, arguments }
    });
    (asked.collect(), dropped)
}

/// Returns the parsed arguments of a call, and the text to record as arguments.
fn understood(
    text: &str,
    counter: &dyn TokenCounter,
    tokens_max: u64,
) -> (Result<Map<String, Value>, String>, String) {
    let trimmed = text.trim();
    let parsed = if trimmed.is_empty() { Ok(json!({})) } else { serde_json::from_str(trimmed) };
    let fault = match parsed {
        Ok(Value::Object(map)) => {
            let whole = if trimmed.is_empty() { "{}".to_owned() } else { text.to_owned() };
            let bytes = usize::try_from(tokens_max).unwrap_or(usize::MAX);
            if whole.len() <= bytes || counter.count(&whole) <= tokens_max {
                return (Ok(map), whole);
            }
            format!("the arguments have more than {tokens_max} tokens: split them")
        }
        Ok(_) => "the arguments are not a JSON object".to_owned(),
        Err(error) => format!("the arguments are not JSON: {error}"),
    };
    let shown = preview(counter, text, tokens_max.min(UNREAD_TOKENS_MAX));
    (Err(fault), json!({"not_understood": shown}).to_string())
}

/// Maximum number of tokens that are recorded from invalid arguments.
const UNREAD_TOKENS_MAX: u64 = 64;

/// The facts about a finished call that decide whether the run continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallResult {
    /// Whether the call failed; the message with the call's result contains the reason.
    pub failed: bool,
    /// Code of the error of a call that failed.
    pub code: Option<Code>,
    /// Whether the call could not be executed, because it was malformed or named an unknown tool.
    pub malformed: bool,
    /// Whether the model requested another inference.
    pub asked_beat: bool,
    /// Whether the call showed text to the user.
    pub spoke: bool,
    /// The result of the beat, if the call sent a beat or ended the chain.
    pub beat: Option<Beaten>,
}

impl CallResult {
    /// Returns the result of a call that failed with an error of this code.
    pub fn of(code: Code) -> Self {
        Self { failed: true, code: Some(code), ..Self::default() }
    }
}

/// The result of a heartbeat (beat), as the agent loop needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beaten {
    /// The model may continue.
    Granted,
    /// The heartbeat chain is over.
    Ended(RunReason),
    /// The beat must be repeated after a wait in milliseconds.
    Wait(u64),
}

impl Beaten {
    /// Reads the field `heartbeat` of an answer; `None` if the call neither sent a beat nor ended a
    /// chain.
    pub fn of(heartbeat: &Value) -> Option<Self> {
        if let Some(reason) = heartbeat["terminated_reason"].as_str() {
            return Some(Self::Ended(reason_of(reason, &heartbeat["closed_by"])));
        }
        match heartbeat["granted"].as_bool()? {
            true => Some(Self::Granted),
            false => match heartbeat["retry_after_ms"].as_u64() {
                Some(ms) => Some(Self::Wait(ms)),
                None => Some(Self::Ended(RunReason::Yield)),
            },
        }
    }
}

/// Converts the reason why a chain ended, and what ended the chain, to the reason why the run ends.
fn reason_of(text: &str, closed_by: &Value) -> RunReason {
    match text {
        "depth" if closed_by == ClosedBy::Call.text() => RunReason::LoopDetected,
        "depth" => RunReason::Depth,
        "duration" => RunReason::Duration,
        "tokens" => RunReason::Tokens,
        // An answer that an earlier version stored.
        "loop_detected" => RunReason::LoopDetected,
        _ => RunReason::Yield,
    }
}

/// What requests the next inference of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beat {
    /// The model requests the next inference by a beat. A failed call also causes a next inference.
    #[default]
    Asked,
    /// The runtime requests the next inference after each turn with calls to memory tools, unless a
    /// call showed text to the user.
    Always,
}

/// The next step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Start the next inference immediately.
    Ask,
    /// Send a beat after a wait in milliseconds; the beat's result decides whether the run
    /// continues.
    Beat(u64),
    /// The run ends.
    End(RunReason),
}

/// Decides how a run continues after the calls of an answer. `client_calls` is the number of calls
/// to client tools, and `repairs` is the number of consecutive unusable answers.
pub fn next(beat: Beat, outcomes: &[CallResult], client_calls: usize, repairs: u32) -> Next {
    if client_calls > 0 {
        return Next::End(RunReason::ClientCalls);
    }
    if repairs > RUN_REPAIRS_MAX {
        return Next::End(RunReason::Repairs);
    }
    let beaten: Vec<&Beaten> = outcomes.iter().filter_map(|one| one.beat.as_ref()).collect();
    let ended = beaten.iter().find_map(|one| match one {
        Beaten::Ended(reason) => Some(*reason),
        Beaten::Granted | Beaten::Wait(_) => None,
    });
    if let Some(reason) = ended {
        return Next::End(reason);
    }
    let asked = outcomes.iter().any(|one| one.failed || one.asked_beat);
    let wanted = match beat {
        Beat::Always => asked || (!outcomes.is_empty() && !outcomes.iter().any(|one| one.spoke)),
        Beat::Asked => asked,
    };
    match beaten.last() {
        _ if !wanted => Next::End(RunReason::Yield),
        Some(Beaten::Granted) => Next::Ask,
        Some(Beaten::Wait(ms)) => Next::Beat(*ms),
        Some(Beaten::Ended(_)) | None => Next::Beat(0),
    }
}

/// Truncates a streamed text, so that an answer never has more tokens than its limit.
pub struct Cut<'a> {
    counter: &'a dyn TokenCounter,
    tokens_max: u64,
    text: String,
    /// Upper bound of the text's tokens: the tokens of the last count plus the bytes added since,
    /// because no token is shorter than a byte.
    surely: u64,
    full: bool,
}

impl<'a> Cut<'a> {
    /// Starts with an empty text and a limit of `tokens_max` tokens.
    pub fn new(counter: &'a dyn TokenCounter, tokens_max: u64) -> Self {
        Self { counter, tokens_max, text: String::new(), surely: 0, full: false }
    }

    /// Adds a piece of the answer's text and returns the part of the piece within the token limit;
    /// `None` once the answer is full. Tokens are counted only when the text may be near the limit.
    pub fn push(&mut self, piece: &str) -> Option<String> {
        if self.full {
            return None;
        }
        let before = self.text.len();
        self.text.push_str(piece);
        self.surely += piece.len() as u64;
        if self.surely > self.tokens_max {
            self.surely = self.counter.count(&self.text);
        }
        if self.surely > self.tokens_max {
            self.full = true;
            let fits = self.fitting(before);
            self.text.truncate(fits);
        }
        Some(self.text[before..].to_owned())
    }

    /// Returns whether text beyond the token limit was dropped.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Returns the text within the token limit.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Finds the longest beginning of the text within the token limit by binary search, and returns
    /// its length in bytes. This beginning is never shorter than the text already sent.
    fn fitting(&self, given: usize) -> usize {
        let (mut fits, mut beyond) = (given, self.text.len());
        while beyond - fits > 1 {
            let mut middle = fits + (beyond - fits) / 2;
            while !self.text.is_char_boundary(middle) {
                middle -= 1;
            }
            if middle == fits {
                break;
            }
            if self.counter.count(&self.text[..middle]) <= self.tokens_max {
                fits = middle;
            } else {
                beyond = middle;
            }
        }
        fits
    }
}
