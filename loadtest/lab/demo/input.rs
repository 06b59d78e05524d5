//! Reads conversations from files in three formats: JSON Lines with role and content, LoCoMo, and
//! BEAM. The shape of the JSON determines the format.

use std::collections::HashSet;

use serde_json::{Map, Value};

use vctx_cli::exit::Failure;

/// Maximum number of turns of one conversation.
const TURNS_MAX: usize = 1_000_000;

/// Maximum number of sessions of a LoCoMo conversation.
const SESSIONS_MAX: usize = 10_000;

/// The conversation that ships with vctx.
const SHIPPED: &str = include_str!("conversation.jsonl");

/// One turn of a conversation: one message of one participant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    /// Position of the turn in the conversation, from 1.
    pub number: u64,
    /// Role of the turn: `user`, `assistant`, `system` or `tool`.
    pub role: String,
    pub content: String,
    /// Fields of the message other than `content`, named as in `append_fifo`: `name`, `said_at`,
    /// `tool_calls`, `tool_call_id`.
    pub parts: Map<String, Value>,
}

/// Returns the turns of the shipped conversation.
pub(super) fn shipped() -> Result<Vec<Turn>, Failure> {
    parse("the shipped conversation", SHIPPED)
}

/// Reads a conversation from a text. Error messages contain `name` and the line number.
pub(super) fn parse(name: &str, text: &str) -> Result<Vec<Turn>, Failure> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut turns = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(object)) if !object.contains_key("role") => document(name, &object)?,
        Ok(Value::Array(items)) => listed(name, &items)?,
        Ok(_) => lines(name, text)?,
        Err(error) if is_one_document(text) => {
            return Err(Failure::data(format!(
                "{name} line {}: not JSON: {}",
                error.line(),
                reason(&error)
            )));
        }
        Err(_) => lines(name, text)?,
    };
    for (turn, number) in turns.iter_mut().zip(1..) {
        turn.number = number;
    }
    forget_missing_calls(&mut turns);
    match turns.len() > TURNS_MAX {
        true => Err(Failure::data(format!("{name} has more than {TURNS_MAX} turns"))),
        false => Ok(turns),
    }
}

/// Removes each `tool_call_id` that belongs to no tool call of an earlier turn. The server would
/// refuse a tool result with such a `tool_call_id`.
fn forget_missing_calls(turns: &mut [Turn]) {
    let mut made: HashSet<String> = HashSet::new();
    for turn in turns {
        let parts = &mut turn.parts;
        if !parts.get("tool_call_id").and_then(Value::as_str).is_some_and(|id| made.contains(id)) {
            parts.shift_remove("tool_call_id");
        }
        let calls = parts.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
        made.extend(calls.filter_map(|call| call["id"].as_str().map(str::to_owned)));
    }
}

/// Describes a JSON error with its column; the caller of this function adds the line number.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    format!("{what} at column {}", error.column())
}

/// Whether a text that is not valid JSON was meant as a single JSON document. If any line of the
/// text is a turn by itself, the text is broken JSON Lines instead.
fn is_one_document(text: &str) -> bool {
    let starts = text.trim_start().starts_with(['{', '[']);
    let is_object = |line: &str| matches!(serde_json::from_str::<Value>(line), Ok(Value::Object(object)) if object.contains_key("role"));
    starts
        && text.lines().filter(|line| !line.trim().is_empty()).count() > 1
        && !text.lines().any(is_object)
}

fn lines(name: &str, text: &str) -> Result<Vec<Turn>, Failure> {
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    numbered
        .map(|(at, line)| {
            let place = format!("{name} line {}", at + 1);
            let value = serde_json::from_str::<Value>(line)
                .map_err(|error| Failure::data(format!("{place}: not JSON: {}", reason(&error))))?;
            turn(&place, &value)
        })
        .collect()
}

fn document(name: &str, object: &Map<String, Value>) -> Result<Vec<Turn>, Failure> {
    if let Some(chat) = object.get("chat").and_then(Value::as_array) {
        return beam(name, chat);
    }
    let inner = object.get("conversation").and_then(Value::as_object).unwrap_or(object);
    if sessions(inner).next().is_some() {
        return locomo(name, inner);
    }
    let known = "JSON Lines of role and content, LoCoMo (session_1, …) or BEAM (chat)";
    Err(Failure::data(format!("{name} is not a conversation in a format that vctx can read"))
        .next(format!("formats: {known}")))
}

/// Parses a JSON array that contains either turns or one LoCoMo conversation.
fn listed(name: &str, items: &[Value]) -> Result<Vec<Turn>, Failure> {
    let conversations =
        items.iter().filter_map(Value::as_object).filter(|item| item.contains_key("conversation"));
    match conversations.count() {
        0 => items
            .iter()
            .enumerate()
            .map(|(at, item)| turn(&format!("{name} item {}", at + 1), item))
            .collect(),
        1 if items.len() == 1 => {
            document(name, items[0].as_object().expect("the only item is an object"))
        }
        many => Err(Failure::data(format!("{name} has {many} conversations"))
            .next("put one conversation into a separate file")),
    }
}

fn turn(place: &str, value: &Value) -> Result<Turn, Failure> {
    let text = |field: &str| match value.get(field) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(Failure::data(format!("{place}: {field} is not a text"))),
        None => Err(Failure::data(format!("{place}: {field} is missing"))),
    };
    let role = text("role")?;
    if !matches!(role.as_str(), "user" | "assistant" | "system" | "tool") {
        return Err(Failure::data(format!(
            "{place}: role is {role:?}, not user, assistant, system or tool"
        )));
    }
    let content = text("content")?;
    let mut parts = Map::new();
    for (field, part) in [("name", "name"), ("time", "said_at"), ("tool_call_id", "tool_call_id")] {
        match value.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::String(given)) if given.is_empty() => {}
            Some(Value::String(given)) => drop(parts.insert(part.into(), given.clone().into())),
            Some(_) => return Err(Failure::data(format!("{place}: {field} is not a text"))),
        }
    }
    if let Some(calls) = value.get("tool_calls").filter(|calls| !calls.is_null()) {
        parts.insert("tool_calls".into(), calls.clone());
    }
    Ok(Turn { number: 0, role, content, parts })
}

/// Returns the sessions of a conversation in numeric order, as `(n, turns)`.
fn sessions(object: &Map<String, Value>) -> impl Iterator<Item = (usize, &Vec<Value>)> {
    (1..=SESSIONS_MAX.min(object.len()))
        .filter_map(|n| Some((n, object.get(&format!("session_{n}"))?.as_array()?)))
}

/// Parses a LoCoMo conversation, which has two speakers and several sessions. The first speaker
/// becomes the user, and the second speaker becomes the assistant.
fn locomo(name: &str, object: &Map<String, Value>) -> Result<Vec<Turn>, Failure> {
    let mut first: Option<String> = None;
    let mut turns = Vec::new();
    for (number, session) in sessions(object) {
        let time = object.get(&format!("session_{number}_date_time")).and_then(Value::as_str);
        for (at, said) in session.iter().enumerate() {
            let place = format!("{name} session_{number} turn {}", at + 1);
            let text = |field: &str| {
                said.get(field).and_then(Value::as_str).ok_or_else(|| {
                    Failure::data(format!("{place}: {field} is missing or not a text"))
                })
            };
            let speaker = text("speaker")?;
            let role = if first.get_or_insert_with(|| speaker.into()) == speaker {
                "user"
            } else {
                "assistant"
            };
            let mut content = text("text")?.to_string();
            if let Some(caption) = said.get("blip_caption").and_then(Value::as_str) {
                content.push_str(&format!(" [image: {caption}]"));
            }
            let mut parts = Map::new();
            parts.insert("name".into(), speaker.into());
            if let Some(time) = time {
                parts.insert("said_at".into(), time.into());
            }
            turns.push(Turn { number: 0, role: role.into(), content, parts });
        }
    }
    Ok(turns)
}

/// Parses a BEAM conversation: the batches contain groups of turns, and the turns have roles.
fn beam(name: &str, chat: &[Value]) -> Result<Vec<Turn>, Failure> {
    let mut turns = Vec::new();
    for (batch, entry) in chat.iter().enumerate() {
        let missing =
            || Failure::data(format!("{name} chat {}: turns is missing or not a list", batch + 1));
        for group in entry.get("turns").and_then(Value::as_array).ok_or_else(missing)? {
            let group = group.as_array().map_or(std::slice::from_ref(group), Vec::as_slice);
            for said in group {
                let place = format!("{name} chat {} turn {}", batch + 1, turns.len() + 1);
                let mut turn = turn(&place, said)?;
                if let Some(time) =
                    said.get("time_anchor").and_then(Value::as_str).filter(|time| !time.is_empty())
                {
                    turn.parts.insert("said_at".into(), time.into());
                }
                turns.push(turn);
            }
        }
    }
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let turns = parse("f", text).unwrap();
        turns
            .iter()
            .map(|turn| {
                format!("{}|{}|{}", turn.role, turn.content, Value::Object(turn.parts.clone()))
            })
            .collect()
    }

    fn refused(text: &str) -> String {
        let failure = parse("f", text).unwrap_err();
        assert_eq!(failure.exit as u8, 65);
        failure.message
    }

    #[test]
    fn json_lines_keep_name_and_time() {
        let text = "\u{feff}{\"role\":\"user\",\"content\":\"a\\nb\",\"name\":\"Ada\",\"time\":\"2026-01-01\"}\n\n{\"role\":\"assistant\",\"content\":\"c\"}\n";
        assert_eq!(
            read(text),
            ["user|a\nb|{\"name\":\"Ada\",\"said_at\":\"2026-01-01\"}", "assistant|c|{}"]
        );
        assert_eq!(read("{\"role\":\"user\",\"content\":\"one\"}"), ["user|one|{}"]);
        assert_eq!(read("[{\"role\":\"user\",\"content\":\"one\"}]"), ["user|one|{}"]);
    }

    #[test]
    fn a_result_whose_call_is_not_in_the_file_names_none() {
        let text = r#"[{"role":"tool","content":"a","tool_call_id":"c"},
            {"role":"assistant","content":"","tool_calls":[{"id":"c"}]},{"role":"tool","content":"b","tool_call_id":"c"}]"#;
        let read = read(text);
        assert_eq!(
            (read[0].as_str(), read[2].as_str()),
            ("tool|a|{}", "tool|b|{\"tool_call_id\":\"c\"}")
        );
    }

    #[test]
    fn locomo_sessions_come_in_the_order_of_their_numbers() {
        let text = r#"{"speaker_a":"B","session_2":[{"speaker":"A","dia_id":"D2:1","text":"later"}],
            "session_10":[{"speaker":"B","text":"last"}],"session_2_date_time":"two","session_1_date_time":"one","session_3_date_time":"three",
            "session_1":[{"speaker":"A","dia_id":"D1:1","text":"hi"},{"speaker":"B","text":"look","blip_caption":"a cat"}],
            "x1":0,"x2":0,"x3":0,"x4":0,"qa":[{"evidence":["D8:6; D9:17"]}]}"#;
        assert_eq!(
            read(text),
            [
                "user|hi|{\"name\":\"A\",\"said_at\":\"one\"}",
                "assistant|look [image: a cat]|{\"name\":\"B\",\"said_at\":\"one\"}",
                "user|later|{\"name\":\"A\",\"said_at\":\"two\"}",
                "assistant|last|{\"name\":\"B\"}"
            ]
        );
        let wrapped = r#"[{"conversation":{"session_1":[{"speaker":"A","text":"hi"}]},"qa":[]}]"#;
        assert_eq!(read(wrapped), ["user|hi|{\"name\":\"A\"}"]);
    }

    #[test]
    fn beam_chats_are_flattened_byte_for_byte() {
        let text = r#"{"chat":[{"batch_number":1,"turns":[[{"role":"user","id":0,"time_anchor":"March-15-2024","content":"q ->-> 1,1"},
            {"role":"assistant","id":1,"content":"a"}],[{"role":"user","id":2,"content":"b "}]]}],"questions":{}}"#;
        assert_eq!(
            read(text),
            ["user|q ->-> 1,1|{\"said_at\":\"March-15-2024\"}", "assistant|a|{}", "user|b |{}"]
        );
    }

    #[test]
    fn a_broken_line_is_named_with_file_and_number() {
        let good = "{\"role\":\"user\",\"content\":\"x\"}";
        assert!(refused(&format!("{good}\n{{\"role\":\n{good}")).starts_with("f line 2: not JSON"));
        assert!(refused(&format!("oops\n{good}")).starts_with("f line 1: not JSON"));
        assert_eq!(
            refused(&format!("{good}\n\n{{\"role\":\"user\"}}")),
            "f line 3: content is missing"
        );
        assert_eq!(
            refused(&format!("{good}\n{{\"role\":\"user\",\"content\":1}}")),
            "f line 2: content is not a text"
        );
        assert_eq!(refused(&format!("{good}\n[1]")), "f line 2: role is missing");
        assert!(
            refused(&format!("{good}\n{{\"role\":\"bot\",\"content\":\"x\"}}"))
                .starts_with("f line 2: role is \"bot\"")
        );
        assert!(refused("{\n  \"chat\": [\n    oops\n  ]\n}").starts_with("f line 3: "));
        assert!(
            refused("{\"role\":\"user\",\"content\":\"x\",\"name\":5}")
                .contains("name is not a text")
        );
    }

    #[test]
    fn unknown_shapes_are_refused() {
        assert!(refused("{\"a\": 1}").contains("not a conversation"));
        assert!(
            refused("{\"session_1\": [{\"speaker\": \"A\"}]}").contains("session_1 turn 1: text")
        );
        assert!(refused("{\"chat\": [{}]}").contains("chat 1: turns"));
        assert!(refused("7").contains("line 1"));
    }

    #[test]
    fn the_shipped_conversation_can_be_read() {
        assert!(!shipped().unwrap().is_empty());
    }
}
