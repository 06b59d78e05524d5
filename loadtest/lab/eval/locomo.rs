//! Reads conversations of LoCoMo and REALTALK, and the questions about the conversations.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::corpus::{self, Question, Talk, TalkMessage, text_of};
use vctx_cli::exit::Failure;

/// Maximum number of sessions of one conversation.
const SESSIONS_MAX: usize = 10_000;

/// Category of questions that the conversation does not answer; scores of this category are
/// reported separately.
pub(super) const ADVERSARIAL: &str = "5";

/// Reads all conversations of a directory; a file contains one conversation, or a list of
/// conversations.
pub(super) fn read(directory: &Path) -> Result<Vec<Talk>, Failure> {
    let mut talks = Vec::new();
    for path in corpus::files(directory, ".json")? {
        let name = corpus::stem(&path);
        match corpus::json(&path)? {
            Value::Array(list) => {
                for (at, one) in list.iter().enumerate() {
                    talks.extend(talk(&format!("{name}-{}", at + 1), one)?);
                }
            }
            one => talks.extend(talk(&name, &one)?),
        }
    }
    Ok(talks)
}

/// Parses a conversation; returns `None` if the JSON object has no sessions.
fn talk(name: &str, value: &Value) -> Result<Option<Talk>, Failure> {
    let Some(outer) = value.as_object() else { return Ok(None) };
    let inner = outer.get("conversation").and_then(Value::as_object).unwrap_or(outer);
    let name = match text_of(value, "sample_id") {
        id if id.is_empty() => name.to_owned(),
        id => id,
    };
    let mut talk = Talk { name, ..Talk::default() };
    read_sessions(inner, &mut talk)?;
    if talk.messages.is_empty() {
        return Ok(None);
    }
    let places = talk.places();
    let asked = outer.get("qa").or_else(|| inner.get("qa")).and_then(Value::as_array);
    for question in asked.into_iter().flatten() {
        let mut evidence = BTreeSet::new();
        for named in names(question.get("evidence")) {
            let ids = ids(&named);
            let known: Vec<usize> = ids.iter().filter_map(|id| places.get(id).copied()).collect();
            talk.dropped += ids.len().max(1) - known.len();
            talk.mended += usize::from(ids != [named.trim().to_owned()]) * known.len();
            evidence.extend(known);
        }
        talk.take(Question {
            text: text_of(question, "question"),
            answer: text_of(question, "answer"),
            group: text_of(question, "category"),
            evidence,
            update: None,
        });
    }
    Ok(Some(talk))
}

/// The first speaker of a conversation is the user; all other speakers are named assistants.
fn read_sessions(object: &Map<String, Value>, talk: &mut Talk) -> Result<(), Failure> {
    let mut first: Option<String> = None;
    for number in numbers(object) {
        let session = object.get(&format!("session_{number}")).and_then(Value::as_array);
        let time = object.get(&format!("session_{number}_date_time")).and_then(Value::as_str);
        for (at, turn) in session.into_iter().flatten().enumerate() {
            let place = format!("{} session_{number} turn {}", talk.name, at + 1);
            let speaker = text_of(turn, "speaker");
            if speaker.is_empty() {
                return Err(Failure::data(format!("{place}: speaker is missing")));
            }
            let is_first = *first.get_or_insert_with(|| speaker.clone()) == speaker;
            let own_time = turn.get("date_time").and_then(Value::as_str).or(time);
            talk.messages.push(TalkMessage {
                id: text_of(turn, "dia_id"),
                role: if is_first { "user" } else { "assistant" }.into(),
                name: Some(speaker),
                said_at: own_time.filter(|time| !time.is_empty()).map(str::to_owned),
                text: text(turn),
            });
        }
    }
    Ok(())
}

/// Returns the session numbers of a conversation in order; numbers may be missing.
fn numbers(object: &Map<String, Value>) -> BTreeSet<u32> {
    let numbers = object.iter().filter(|(_, value)| value.is_array());
    numbers
        .filter_map(|(key, _)| key.strip_prefix("session_")?.parse().ok())
        .take(SESSIONS_MAX)
        .collect()
}

/// Returns the text of a turn, followed by the caption of the turn's picture, if any.
fn text(turn: &Value) -> String {
    let said = match text_of(turn, "text") {
        text if text.is_empty() => text_of(turn, "clean_text"),
        text => text,
    };
    let caption = text_of(turn, "blip_caption");
    match (said.trim().is_empty(), caption.is_empty()) {
        (false, true) => said,
        (false, false) => format!("{said} [image: {caption}]"),
        (true, false) => format!("[image: {caption}]"),
        (true, true) => "[image]".into(),
    }
}

/// Returns the evidence texts of a question; the file contains a list of texts or one text.
fn names(evidence: Option<&Value>) -> Vec<String> {
    match evidence {
        Some(Value::Array(list)) => {
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(Value::String(one)) => vec![one.clone()],
        _ => Vec::new(),
    }
}

/// Returns the names of the turns in an evidence text, in the form `D1:3` (session 1, turn 3). An
/// evidence text can name several turns. Leading zeros, and a colon after the D, are removed.
fn ids(named: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for part in named.split('D').skip(1) {
        let mut numbers = part
            .split(|c: char| !c.is_ascii_digit())
            .filter(|digits| !digits.is_empty())
            .filter_map(|digits| digits.parse::<u32>().ok());
        if let (Some(session), Some(turn)) = (numbers.next(), numbers.next()) {
            ids.push(format!("D{session}:{turn}"));
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn malformed_names_of_turns_are_mended_or_dropped() {
        for (named, wanted) in [
            ("D1:3", vec!["D1:3"]),
            ("D8:6; D9:17", vec!["D8:6", "D9:17"]),
            ("D9:1 D4:4 D4:6", vec!["D9:1", "D4:4", "D4:6"]),
            ("D30:05", vec!["D30:5"]),
            ("D:11:26", vec!["D11:26"]),
            ("D", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(ids(named), wanted, "{named}");
        }
    }

    #[test]
    fn a_conversation_of_real_people_is_read_as_it_is_published() {
        let value = json!({
            "name": {"speaker_1": "Ida Stern", "speaker_2": "Otto"},
            "session_1": [
                {"clean_text": "morning", "speaker": "Ida Stern", "date_time": "29.12.2023, 08:23:11", "dia_id": "D1:1"},
                {"clean_text": "", "img_url": ["a.jpg"], "blip_caption": "a kite", "speaker": "Otto",
                    "date_time": "29.12.2023, 08:25:00", "dia_id": "D1:2"}],
            "session_1_date_time": "29.12.2023, 08:23:11",
            "events_session_1": {"agent_a": [{"sub-event": "says hello", "date": "29.12.2023"}], "agent_b": []},
            "session_4": [{"clean_text": "back", "speaker": "Otto", "date_time": "02.01.2024, 19:00:00", "dia_id": "D4:1"}],
            "session_4_date_time": "02.01.2024, 19:00:00",
            "qa": [
                {"question": "What did Otto show?", "answer": "a kite", "evidence": ["D1:2, D4:1"], "category": 1},
                {"question": "When?", "answer": "29 December", "evidence": "D1:1", "category": 2},
                {"question": "Why?", "answer": "", "evidence": ["D7:1"], "category": 3}]});
        let talk = talk("Chat_1_Ida_Otto", &value).unwrap().unwrap();
        let told: Vec<String> = talk
            .messages
            .iter()
            .map(|m| {
                format!("{}|{}|{}|{}", m.id, m.role, m.said_at.as_deref().unwrap_or("-"), m.text)
            })
            .collect();
        assert_eq!(
            told,
            [
                "D1:1|user|29.12.2023, 08:23:11|morning",
                "D1:2|assistant|29.12.2023, 08:25:00|[image: a kite]",
                "D4:1|assistant|02.01.2024, 19:00:00|back",
            ]
        );
        let evidence: Vec<Vec<usize>> =
            talk.questions.iter().map(|q| q.evidence.iter().copied().collect()).collect();
        assert_eq!(evidence, [vec![1, 2], vec![0]]);
        assert_eq!(
            (talk.name.as_str(), talk.without_evidence, talk.dropped),
            ("Chat_1_Ida_Otto", 1, 1)
        );
    }

    #[test]
    fn a_conversation_keeps_speakers_times_captions_and_evidence() {
        let value = json!({"sample_id": "t", "conversation": {
            "session_2": [{"speaker": "Ida", "dia_id": "D2:1", "clean_text": "Back again", "date_time": "03.01.2024"}],
            "session_1": [{"speaker": "Ida", "dia_id": "D1:1", "text": "Look", "blip_caption": "a red kite"},
                {"speaker": "Otto", "dia_id": "D1:2", "text": ""}], "session_1_date_time": "1 May 2024", "speaker_a": "Ida", "speaker_b": "Otto"},
            "qa": [{"question": "What flew?", "answer": 7, "category": 4, "evidence": ["D1:1; D2:1", "D9:9", "D"]},
                {"question": "Nobody knows", "evidence": [], "category": 3}]});
        let talk = talk("file", &value).unwrap().unwrap();
        let told: Vec<String> = talk
            .messages
            .iter()
            .map(|m| format!("{}|{}|{:?}|{}", m.id, m.role, m.said_at, m.text))
            .collect();
        assert_eq!(
            told,
            [
                "D1:1|user|Some(\"1 May 2024\")|Look [image: a red kite]",
                "D1:2|assistant|Some(\"1 May 2024\")|[image]",
                "D2:1|user|Some(\"03.01.2024\")|Back again",
            ]
        );
        assert_eq!(talk.questions.len(), 1);
        let question = &talk.questions[0];
        assert_eq!(question.evidence, BTreeSet::from([0, 2]));
        assert_eq!((question.group.as_str(), question.answer.as_str()), ("4", "7"));
        assert_eq!((talk.without_evidence, talk.mended, talk.dropped), (1, 2, 2));
    }
}
