//! The texts of the strict form of the window, in which several texts are one chat message.
//!
//! A text costs the same as a message of its own and as a part of another message: the line that
//! begins a part has as many tokens as the frame and role of a message, and each part ends with a
//! line end and begins with `[`, between which the encodings always begin a token.

use serde_json::{Map, Value, json};

use super::message::Role;
use super::tokens::{TokenCounter, message_cost};

/// First line of a user's text within a message.
pub const USER: &str = "[the user]\n";
/// First line of an event, or of another text of the role `system`, within a user message.
pub const EVENT: &str = "[system event]\n";
/// First line of a further text of the assistant within a message.
pub const ANSWER: &str = "[and then]\n";
/// First line of the copies of a search within a message.
pub const COPIES: &str = "[old texts]\n";
/// First line of a notice within a message.
pub const NOTICE: &str = "[system notice]\n";
/// First line of the clock within a message.
pub const CLOCK: &str = "[the time]\n";
/// First line of the queue's first day within a message.
pub const OPENING: &str = "[the day]\n";
/// First line of the built context within a message.
pub const CONTEXT: &str = "[the memory]\n";
/// First line of a block within the system message.
pub const MEMORY: &str = "[your memory]\n";
/// First line of the summary within the system message.
pub const SUMMARY: &str = "[the past]\n";

/// All lines that begin a part of a message.
pub const LINES: [&str; 10] =
    [USER, EVENT, ANSWER, COPIES, NOTICE, CLOCK, OPENING, CONTEXT, MEMORY, SUMMARY];

/// Line in each text of a user message that is not a text of the user.
const NOT_SAID: &str = "[not said by the user]\n";
/// Content of a message whose text is blank, since templates refuse an empty one.
const NO_TEXT: &str = "[no text]\n";
/// Content of an answer that only keeps the roles in turn. No other answer costs less.
const FILLER: &str = ".\n";

/// Returns the assistant's message between the results of calls and the next message of the user.
pub fn filler_message() -> Value {
    json!({"role": Role::Assistant.text(), "content": FILLER})
}

/// Returns the cost of [`filler_message`] in tokens.
pub fn filler_tokens(counter: &dyn TokenCounter) -> u64 {
    message_cost(counter, &filler_message())
}

/// Returns a text as a part of a message. A part ends with a line end. A part that would begin with
/// a line end or a slash begins with a blank, since the encodings join these to the line before.
pub fn part(text: &str) -> String {
    let begin = if text.starts_with(['\n', '\r', '/']) { " " } else { "" };
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{begin}{text}{end}")
}

/// Returns a text that the user did not say as a part of a user message.
pub fn aside(text: &str) -> String {
    part(&format!("{NOT_SAID}{text}"))
}

/// Whether a message with this role and `meta` makes tool calls.
pub fn makes_calls(role: Role, meta: &Map<String, Value>) -> bool {
    let calls = meta.get("tool_calls").and_then(Value::as_array);
    role == Role::Assistant && calls.is_some_and(|calls| !calls.is_empty())
}

/// Returns the content of a message of the log that is no result of a call. `heading` is the line
/// above a late result.
pub(super) fn row_text(
    text: &str,
    name: Option<&str>,
    stamp: Option<&str>,
    speaks: Speaks,
    heading: Option<&str>,
) -> String {
    let is_blank = text.trim().is_empty();
    let mut out = match (is_blank && speaks != Speaks::Calls, name.filter(|_| !is_blank)) {
        (true, _) => NO_TEXT.to_owned(),
        (false, Some(name)) => format!("{name}: {text}"),
        (false, None) => text.to_owned(),
    };
    if let Some(heading) = heading {
        out = format!("{heading}\n{out}");
    }
    if speaks == Speaks::System {
        out = format!("{NOT_SAID}{out}");
    }
    if let Some(stamp) = stamp {
        out = format!("[{stamp}]\n{out}");
    }
    // A message with calls may have no text.
    if out.is_empty() { out } else { part(&out) }
}

/// Who speaks in a message of the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaks {
    User,
    System,
    Answer,
    Calls,
}
