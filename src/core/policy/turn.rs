//! What comes after an inference: calls put right, what their outcomes ask for, how much of an answer counts, and whether to go on.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::spool::preview;
use crate::limits::{NAME_BYTES_MAX, RUN_CALLS_MAX, RUN_REPAIRS_MAX};
use crate::memory::run::{RunReason, ToolCall};
use crate::memory::tokens::TokenCounter;

/// A call of an answer, ready to be recorded and made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// As it is recorded: an id of its own, a name, arguments that are a JSON object.
    pub call: ToolCall,
    /// Its arguments, or what is wrong with them.
    pub arguments: Result<Map<String, Value>, String>,
}

/// Puts the calls of an answer right: each has an id that no other has, a name, and arguments that any chat format takes; what cannot
/// be understood is kept as a text, and the call fails. Calls beyond [`RUN_CALLS_MAX`] are dropped; gives how many.
/// `turn` names ids that the model left out.
pub fn settled(
    calls: Vec<ToolCall>,
    turn: u64,
    counter: &dyn TokenCounter,
    tokens_max: u64,
) -> (Vec<Asked>, usize) {
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
        Asked { call: ToolCall { id, name, arguments: text }, arguments }
    });
    (asked.collect(), dropped)
}

/// The arguments of a call, and the text under which they are recorded.
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
        Ok(_) => "the arguments are no JSON object".to_owned(),
        Err(error) => format!("the arguments are no JSON: {error}"),
    };
    let shown = preview(counter, text, tokens_max.min(UNREAD_TOKENS_MAX));
    (Err(fault), json!({"not_understood": shown}).to_string())
}

/// Tokens of arguments that could not be understood which are recorded.
const UNREAD_TOKENS_MAX: u64 = 64;

/// What one call came to, as far as it matters for going on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it failed: its message says why.
    pub failed: bool,
    /// Whether it could not be made at all: malformed, or a tool that is not there.
    pub malformed: bool,
    /// Whether the model asked to be called again, in whatever way.
    pub asked_beat: bool,
    /// Whether the user was told something by it.
    pub spoke: bool,
    /// What became of the beat that the call itself was.
    pub beat: Option<Beaten>,
}

/// What became of a beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beaten {
    /// Go on.
    Granted,
    /// The chain is over.
    Ended(RunReason),
    /// It has to be made again, after a wait in milliseconds.
    Wait(u64),
}

impl Beaten {
    /// Reads the `heartbeat` of an answer; none where the call was no beat and ended nothing.
    pub fn of(heartbeat: &Value) -> Option<Self> {
        if let Some(reason) = heartbeat["terminated_reason"].as_str() {
            return Some(Self::Ended(reason_of(reason)));
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

/// The end of a chain as the end of a run.
fn reason_of(text: &str) -> RunReason {
    match text {
        "depth" => RunReason::Depth,
        "duration" => RunReason::Duration,
        "tokens" => RunReason::Tokens,
        "loop_detected" => RunReason::LoopDetected,
        _ => RunReason::Yield,
    }
}

/// Who asks for the next inference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beat {
    /// The model: by a beat of its own, or because a call failed.
    #[default]
    Asked,
    /// The runtime, after every call of a memory tool, until there is text.
    Always,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next inference, at once.
    Ask,
    /// A beat, after a wait in milliseconds; its answer decides.
    Beat(u64),
    /// Nothing: the run ends.
    End(RunReason),
}

/// Decides after the calls of an answer. `repairs`: answers in a row that could not be understood, this one among them.
pub fn next(beat: Beat, outcomes: &[Outcome], client_calls: usize, repairs: u32) -> Next {
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

/// Takes a text as it comes and gives on what may still count: an answer never has more tokens than were asked for, whatever is sent.
pub struct Cut<'a> {
    counter: &'a dyn TokenCounter,
    tokens_max: u64,
    text: String,
    /// Tokens at most, without counting.
    surely: u64,
    full: bool,
}

impl<'a> Cut<'a> {
    /// Nothing came yet.
    pub fn new(counter: &'a dyn TokenCounter, tokens_max: u64) -> Self {
        Self { counter, tokens_max, text: String::new(), surely: 0, full: false }
    }

    /// What of this piece counts; none once the answer is full. No token is shorter than a byte, so most pieces need no counting.
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

    /// Whether more came than counts.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// What counts.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The longest beginning, not shorter than what was given on, that has no more tokens than it may; by halving.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Encoding;

    struct Letters;

    impl TokenCounter for Letters {
        fn encoding(&self) -> Encoding {
            Encoding::O200kBase
        }

        fn count(&self, text: &str) -> u64 {
            text.chars().count() as u64
        }
    }

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
    }

    #[test]
    fn calls_get_ids_of_their_own_and_arguments_that_any_format_takes() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let calls = vec![
            call("a", "f", "{\"x\":1}"),
            call("a", "f", ""),
            call("", "f", "[1]"),
            call(&long, "", "{\"x\""),
        ];
        let (asked, dropped) = settled(calls, 7, &Letters, 1_000);
        assert_eq!(dropped, 0);
        let ids: Vec<&str> = asked.iter().map(|one| one.call.id.as_str()).collect();
        assert_eq!(ids, ["a", "call_7_1", "call_7_2", "call_7_3"]);
        let fine: Vec<bool> = asked.iter().map(|one| one.arguments.is_ok()).collect();
        assert_eq!(fine, [true, true, false, false]);
        assert_eq!(asked[0].call.arguments, "{\"x\":1}");
        assert_eq!(asked[1].call.arguments, "{}");
        assert_eq!(asked[2].call.arguments, "{\"not_understood\":\"[1]\"}");
        assert_eq!(asked[3].call.name, "unnamed");
        let (asked, dropped) =
            settled(vec![call("", "f", "{}"); RUN_CALLS_MAX + 2], 1, &Letters, 9);
        assert_eq!((asked.len(), dropped), (RUN_CALLS_MAX, 2));
        let large = format!("{{\"x\":\"{}\"}}", "y".repeat(500));
        let (asked, _) = settled(vec![call("a", "f", &large)], 1, &Letters, 100);
        assert!(asked[0].arguments.is_err());
        assert!(asked[0].call.arguments.len() < 200);
    }

    #[test]
    fn whoever_may_ask_for_the_next_inference_gets_it() {
        let fine = Outcome::default();
        let failed = Outcome { failed: true, ..Outcome::default() };
        let with = |beat| Outcome { asked_beat: true, beat: Some(beat), ..Outcome::default() };
        let spoke = Outcome { spoke: true, ..Outcome::default() };
        let request = Outcome { asked_beat: true, ..Outcome::default() };
        let ended = |reason| Next::End(reason);
        for (beat, outcomes, expected) in [
            (Beat::Asked, vec![], ended(RunReason::Yield)),
            (Beat::Always, vec![], ended(RunReason::Yield)),
            (Beat::Asked, vec![fine.clone()], ended(RunReason::Yield)),
            (Beat::Always, vec![fine.clone()], Next::Beat(0)),
            (Beat::Asked, vec![failed], Next::Beat(0)),
            (Beat::Always, vec![spoke], ended(RunReason::Yield)),
            (Beat::Asked, vec![request], Next::Beat(0)),
            (Beat::Asked, vec![with(Beaten::Granted), fine], Next::Ask),
            (Beat::Always, vec![with(Beaten::Wait(9))], Next::Beat(9)),
            (
                Beat::Always,
                vec![with(Beaten::Granted), with(Beaten::Ended(RunReason::Depth))],
                ended(RunReason::Depth),
            ),
        ] {
            assert_eq!(next(beat, &outcomes, 0, 0), expected, "{beat:?} {outcomes:?}");
        }
        assert_eq!(next(Beat::Always, &[], 1, 9), ended(RunReason::ClientCalls));
        assert_eq!(next(Beat::Always, &[], 0, RUN_REPAIRS_MAX + 1), ended(RunReason::Repairs));
    }

    #[test]
    fn an_answer_has_no_more_tokens_than_were_asked_for() {
        for step in [1, 3, 50, 1000] {
            let whole = "äbcdefghij".repeat(20);
            let mut cut = Cut::new(&Letters, 33);
            let mut given = String::new();
            let letters: Vec<char> = whole.chars().collect();
            for piece in letters.chunks(step) {
                let piece: String = piece.iter().collect();
                given.extend(cut.push(&piece));
            }
            assert_eq!(given, whole.chars().take(33).collect::<String>(), "{step}");
            assert!(cut.is_full());
            assert_eq!(cut.text(), given);
        }
    }
}
