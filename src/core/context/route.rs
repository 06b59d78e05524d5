//! Decides where a message goes: to the model, to a tool, or back to the user, who has to say first
//! what the message means.

use serde::{Deserialize, Serialize};

use super::intent::{QuestionIntent, Task, asks_for_one_thing, referring_word};
use crate::search::content_words;

/// Where a message goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// To the model, with a context.
    #[default]
    Planner,
    /// Back to the user, with a question.
    ClarifyUser,
    /// To a tool: the message is a plain command.
    ToolExecutor,
}

/// Ambiguity from which the user is asked, if neither memory nor window knows anything.
const AMBIGUOUS: f64 = 0.6;
/// Ambiguity of a message by the number of its content words, from none on.
const BY_WORDS: [f64; 7] = [0.9, 0.75, 0.6, 0.45, 0.35, 0.25, 0.15];
/// Share of the ambiguity that is left if the message asks for one thing: a date, a number, a name.
const ONE_THING: f64 = 0.6;
/// Frames that say nothing of what is asked for.
const FRAMES: [&str; 11] = [
    "i'm looking for information",
    "i am looking for information",
    "i want to know more",
    "i want to know",
    "i would like to know",
    "i'd like to know",
    "i need information",
    "give me information",
    "find information",
    "find me information",
    "tell me",
];
/// Words that are part of such a frame.
const FRAME_WORDS: [&str; 8] =
    ["information", "info", "about", "something", "anything", "more", "looking", "interested"];

/// Returns how unclear a message is by itself, from 0 to 1: the fewer words say what is asked for,
/// the more meanings it has.
pub(super) fn ambiguity(message: &str) -> f64 {
    let told = subject_of(message);
    let words = content_words(told);
    let is_frame = |word: &&String| FRAME_WORDS.contains(&word.as_str());
    let count = words.len() - words.iter().filter(is_frame).count();
    let by_words = BY_WORDS[count.min(BY_WORDS.len() - 1)];
    by_words * if asks_for_one_thing(message) { ONE_THING } else { 1.0 }
}

/// Whether a message begins with a frame such as "I would like to know", and so asks for something.
pub(super) fn is_framed(message: &str) -> bool {
    subject_of(message).len() < message.trim().len()
}

/// Returns a message without a frame that says nothing of what is asked for.
fn subject_of(message: &str) -> &str {
    let message = message.trim();
    let begins = |frame: &&&str| {
        message.get(..frame.len()).is_some_and(|head| head.eq_ignore_ascii_case(frame))
    };
    FRAMES.iter().find(begins).map_or(message, |frame| &message[frame.len()..])
}

/// Decides where a message goes, with the question to the user if there is one. `is_known` says
/// whether memory or window know anything of what it names, and `has_before` whether the window has
/// messages before it, to which a word such as "it" may refer.
pub fn route(
    message: &str,
    intent: &QuestionIntent,
    is_known: bool,
    has_before: bool,
) -> (Route, Option<String>) {
    match intent.task {
        Task::Command => return (Route::ToolExecutor, None),
        Task::SmallTalk if message.trim_end().ends_with('?') => {}
        Task::SmallTalk | Task::Statement | Task::Write => return (Route::Planner, None),
        Task::Question | Task::Instruction | Task::Summarise => {}
    }
    if is_known {
        return (Route::Planner, None);
    }
    if let Some(word) = referring_word(message) {
        return match has_before {
            true => (Route::Planner, None),
            false => (Route::ClarifyUser, Some(format!("What do you mean by \"{word}\"?"))),
        };
    }
    if intent.ambiguity < AMBIGUOUS || intent.task == Task::SmallTalk {
        return (Route::Planner, None);
    }
    let subject = subject_of(message).trim_matches(|c: char| !c.is_alphanumeric());
    let subject = ["about ", "more about ", "on ", "for "]
        .iter()
        .find_map(|word| subject.strip_prefix(word))
        .unwrap_or(subject);
    let ask = match content_words(subject).is_empty() {
        true => "What would you like to know?".to_owned(),
        false => format!("What would you like to know about \"{subject}\"?"),
    };
    (Route::ClarifyUser, Some(ask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unclear_message_on_unknown_things_goes_back_to_the_user() {
        for (message, is_known, has_before, expected) in [
            ("Tell me about kiwi", false, false, Route::ClarifyUser),
            ("Tell me about kiwi", true, false, Route::Planner),
            ("When is it now?", false, false, Route::ClarifyUser),
            ("When is it now?", false, true, Route::Planner),
            ("When did Ada Roe move from Porto to Lisbon?", false, false, Route::Planner),
            ("How do I repair a leaking tap in the kitchen?", false, false, Route::Planner),
            ("Turn the lights off", false, false, Route::ToolExecutor),
            ("I'm interested in boats.", false, false, Route::Planner),
            ("Thanks, that was lovely!", false, false, Route::Planner),
            ("How are you?", false, false, Route::Planner),
        ] {
            let intent = QuestionIntent::read(message);
            let (found, ask) = route(message, &intent, is_known, has_before);
            assert_eq!(found, expected, "{message}");
            assert_eq!(ask.is_some(), expected == Route::ClarifyUser, "{message}");
        }
        let ask = |message: &str| route(message, &QuestionIntent::read(message), false, false).1;
        assert_eq!(
            ask("I'm looking for information on dinosaurs.").as_deref(),
            Some("What would you like to know about \"dinosaurs\"?")
        );
        assert_eq!(ask("Where is it?").as_deref(), Some("What do you mean by \"it\"?"));
    }

    #[test]
    fn a_message_with_more_words_is_clearer() {
        let of = |message: &str| ambiguity(message);
        assert!(of("kiwi") > of("kiwi bird habitat"));
        assert!(of("kiwi bird habitat") > of("When was the kiwi bird first seen in New Zealand?"));
    }
}
