//! Renames the speakers of a conversation: a benchmark's score must not depend on names.

use std::collections::{BTreeMap, BTreeSet};

use super::corpus::Talk;

/// Replacement names, in order of use; a name that already occurs in the conversation is not used.
const NAMES: [&str; 24] = [
    "Alma", "Boris", "Celia", "Dario", "Edith", "Felix", "Greta", "Hugo", "Irene", "Jonas",
    "Klara", "Leon", "Marta", "Nils", "Olga", "Pavel", "Ruth", "Simon", "Thea", "Uwe", "Vera",
    "Walter", "Xenia", "Yusuf",
];

/// Replaces the names of speakers in every text, question and answer of a conversation.
pub(super) fn renamed(talk: &Talk) -> Talk {
    let names = names(talk);
    let other = |text: &str| replaced(text, &names);
    let mut talk = talk.clone();
    for message in &mut talk.messages {
        message.name = message.name.as_deref().map(other);
        message.text = other(&message.text);
    }
    for question in &mut talk.questions {
        question.text = other(&question.text);
        question.answer = other(&question.answer);
    }
    talk
}

/// Returns a replacement name for each word of the speakers' names in a conversation.
fn names(talk: &Talk) -> BTreeMap<String, &'static str> {
    let speakers = talk.messages.iter().filter_map(|message| message.name.as_deref());
    let words: BTreeSet<String> =
        speakers.flat_map(str::split_whitespace).map(str::to_owned).collect();
    let is_used = |name: &str| {
        let texts = talk.messages.iter().map(|message| message.text.as_str());
        let asked = talk.questions.iter().map(|question| question.text.as_str());
        texts.chain(asked).any(|text| words_of(text).any(|word| word == name))
    };
    let free = NAMES.iter().filter(|name| !is_used(name) && !words.contains(**name));
    words.iter().cloned().zip(free.copied()).collect()
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
}

/// Returns a text in which each whole word that is a key of `names` is replaced.
fn replaced(text: &str, names: &BTreeMap<String, &'static str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        out.push_str(names.get(word).copied().unwrap_or(word));
        let gap = behind.find(char::is_alphanumeric).unwrap_or(behind.len());
        out.push_str(&behind[..gap]);
        rest = &behind[gap..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::corpus::{Question, TalkMessage};

    #[test]
    fn speakers_get_other_names_everywhere_and_nothing_else_changes() {
        let message = |name: &str, text: &str| TalkMessage {
            name: Some(name.into()),
            text: text.into(),
            ..TalkMessage::default()
        };
        let question =
            Question { text: "What did Ida's kite do to Alma?".into(), ..Question::default() };
        let talk = Talk {
            messages: vec![message("Ida", "Otto, ottoman — Ida!"), message("Otto", "Idaho…")],
            questions: vec![question],
            ..Talk::default()
        };
        let other = renamed(&talk);
        let names: Vec<&str> = other.messages.iter().filter_map(|m| m.name.as_deref()).collect();
        assert_eq!(names, ["Boris", "Celia"], "Alma is taken");
        assert_eq!(other.messages[0].text, "Celia, ottoman — Boris!");
        assert_eq!(other.messages[1].text, "Idaho…");
        assert_eq!(other.questions[0].text, "What did Boris's kite do to Alma?");
    }
}
