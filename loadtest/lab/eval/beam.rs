//! Reads chats of the BEAM data set: messages in batches and groups, and questions by ability, each
//! with evidence.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::corpus::{self, Question, Talk, TalkMessage, Update, text_of};
use vctx_cli::exit::Failure;

/// Names of the chat file and the questions file in the published data set.
const CHAT: &str = "chat.json";
const QUESTIONS: [&str; 2] = ["probing_questions/probing_questions.json", "probing_questions.json"];

/// Reads all chats of a directory: files with `chat` and `questions`, or subdirectories with a chat
/// file and a questions file.
pub(super) fn read(directory: &Path) -> Result<Vec<Talk>, Failure> {
    let mut talks = Vec::new();
    for path in corpus::entries(directory)? {
        let name = corpus::stem(&path);
        if path.is_dir() {
            if let Some((chat, questions)) = parts(&path)? {
                talks.push(talk(&name, &chat, &questions)?);
            }
        } else if path.extension().is_some_and(|ending| ending == "json") {
            let whole = corpus::json(&path)?;
            if let (Some(chat), Some(questions)) = (whole.get("chat"), whole.get("questions")) {
                talks.push(talk(&name, chat, questions)?);
            }
        }
    }
    Ok(talks)
}

fn parts(directory: &Path) -> Result<Option<(Value, Value)>, Failure> {
    let chat = directory.join(CHAT);
    let questions: Option<PathBuf> =
        QUESTIONS.iter().map(|name| directory.join(name)).find(|path| path.is_file());
    match questions {
        Some(questions) if chat.is_file() => {
            Ok(Some((corpus::json(&chat)?, corpus::json(&questions)?)))
        }
        _ => Ok(None),
    }
}

fn talk(name: &str, chat: &Value, questions: &Value) -> Result<Talk, Failure> {
    let mut talk = Talk { name: name.into(), ..Talk::default() };
    for (batch, entry) in chat.as_array().into_iter().flatten().enumerate() {
        let groups = entry.get("turns").and_then(Value::as_array);
        for group in groups.into_iter().flatten() {
            let group = group.as_array().map_or(std::slice::from_ref(group), Vec::as_slice);
            for message in group {
                let message = talk_message(message);
                if message.role.is_empty() || message.text.is_empty() {
                    let place = format!("{name} batch {} message {}", batch + 1, message.id);
                    return Err(Failure::data(format!("{place}: role or content is missing")));
                }
                talk.messages.push(message);
            }
        }
    }
    let places = talk.places();
    for (ability, list) in questions.as_object().into_iter().flatten() {
        for asked in list.as_array().into_iter().flatten() {
            let named = ids(asked.get("source_chat_ids"));
            let evidence = places_of(&places, &named);
            talk.dropped += named.len() - evidence.len();
            talk.take(Question {
                text: text_of(asked, "question"),
                answer: text_of(asked, "answer"),
                group: ability.clone(),
                evidence,
                update: update(asked.get("source_chat_ids"), &places),
            });
        }
    }
    Ok(talk)
}

fn talk_message(value: &Value) -> TalkMessage {
    let time = text_of(value, "time_anchor");
    TalkMessage {
        id: text_of(value, "id"),
        role: text_of(value, "role"),
        name: None,
        said_at: Some(time).filter(|time| !time.is_empty()),
        text: text_of(value, "content"),
    }
}

/// Collects all ids in a JSON value, at any depth.
fn ids(value: Option<&Value>) -> BTreeSet<String> {
    match value {
        Some(Value::Array(list)) => list.iter().flat_map(|inner| ids(Some(inner))).collect(),
        Some(Value::Object(map)) => map.values().flat_map(|inner| ids(Some(inner))).collect(),
        Some(Value::Number(number)) => BTreeSet::from([number.to_string()]),
        Some(Value::String(text)) => BTreeSet::from([text.clone()]),
        _ => BTreeSet::new(),
    }
}

fn places_of(places: &HashMap<String, usize>, named: &BTreeSet<String>) -> BTreeSet<usize> {
    named.iter().filter_map(|id| places.get(id).copied()).collect()
}

/// Returns the original and the updated statement that a question's evidence names; `None` if one
/// statement is missing or both statements share a message.
fn update(sources: Option<&Value>, places: &HashMap<String, usize>) -> Option<Update> {
    let of = |name: &str| places_of(places, &ids(sources.and_then(|named| named.get(name))));
    let (before, after) = (of("original_info"), of("updated_info"));
    let apart = before.is_disjoint(&after) && !before.is_empty() && !after.is_empty();
    apart.then_some(Update { before, after })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> (Value, Value) {
        let chat = json!([{"batch_number": 1, "turns": [
            [{"role": "user", "id": 0, "time_anchor": "May-01-2024", "content": "The kite is red."}, {"role": "assistant", "id": 1, "content": "Noted."}],
            [{"role": "user", "id": 4, "content": "The kite is blue now."}]]}]);
        let questions = json!({
            "knowledge_update": [{"question": "Which colour?", "answer": "blue", "source_chat_ids": {"original_info": [0], "updated_info": [4]}},
                {"question": "Same?", "source_chat_ids": {"original_info": [0], "updated_info": [0]}}],
            "summarization": [{"question": "All?", "source_chat_ids": [[0, 1], 99]}],
            "abstention": [{"question": "Who?"}]});
        (chat, questions)
    }

    #[test]
    fn evidence_is_found_however_it_is_nested() {
        let (chat, questions) = sample();
        let talk = talk("1", &chat, &questions).unwrap();
        assert_eq!(talk.messages.len(), 3);
        assert_eq!(talk.messages[0].said_at.as_deref(), Some("May-01-2024"));
        let told: Vec<(String, Vec<usize>, bool)> = talk
            .questions
            .iter()
            .map(|q| (q.group.clone(), q.evidence.iter().copied().collect(), q.update.is_some()))
            .collect();
        assert_eq!(
            told,
            [
                ("knowledge_update".to_owned(), vec![0, 2], true),
                ("knowledge_update".to_owned(), vec![0], false),
                ("summarization".to_owned(), vec![0, 1], false),
            ]
        );
        assert_eq!((talk.without_evidence, talk.dropped), (1, 1));
        let update = talk.questions[0].update.clone().unwrap();
        assert_eq!((update.before, update.after), (BTreeSet::from([0]), BTreeSet::from([2])));
    }

    #[test]
    fn a_chat_in_one_file_and_one_in_a_directory_are_the_same() {
        let (chat, questions) = sample();
        let dir = tempfile::tempdir().unwrap();
        let whole = json!({"chat": chat, "questions": questions});
        std::fs::write(dir.path().join("1.json"), whole.to_string()).unwrap();
        let parted = dir.path().join("2/probing_questions");
        std::fs::create_dir_all(&parted).unwrap();
        std::fs::write(dir.path().join("2/chat.json"), whole["chat"].to_string()).unwrap();
        std::fs::write(parted.join("probing_questions.json"), whole["questions"].to_string())
            .unwrap();
        let talks = read(dir.path()).unwrap();
        assert_eq!(talks.len(), 2);
        assert_eq!(talks[0].messages.len(), talks[1].messages.len());
        assert_eq!(talks[0].questions.len(), talks[1].questions.len());
    }
}
