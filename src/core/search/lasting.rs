//! Finds lasting requests: sentences by which a user asks for something in all later answers, such
//! as "Always use metric units when I ask for a distance".

use std::ops::Range;

/// Length in bytes up to which a sentence can be a lasting request.
const SENTENCE_BYTES_MAX: usize = 300;
/// Length in bytes of the beginning of a text in which requests are found.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Words before a request that say nothing.
const BEFORE: [&str; 8] =
    ["please ", "also ", "and ", "so ", "oh, ", "hey, ", "by the way, ", "remember: "];
/// Beginnings of a request for all answers.
const ALWAYS: [&str; 5] = ["always ", "never ", "don't ever ", "don’t ever ", "do not ever "];
/// Beginnings of a request for all answers from a time on.
const FROM_NOW: [&str; 7] = [
    "from now on",
    "from here on",
    "going forward",
    "in future",
    "in the future",
    "for all future",
    "for all your",
];
/// Words for an occasion on which a request holds.
const OCCASIONS: [&str; 14] = [
    "when i ask",
    "whenever i ask",
    "if i ask",
    "every time i ask",
    "each time i ask",
    "any time i ask",
    "anytime i ask",
    "when i'm asking",
    "when i am asking",
    "when you answer",
    "whenever you answer",
    "when you reply",
    "in your answers",
    "in your replies",
];
/// Beginnings of a wish for how answers are.
const WISHES: [&str; 8] = [
    "i prefer your ",
    "i prefer you to ",
    "i prefer that you ",
    "i'd prefer you to ",
    "i want you to always ",
    "i want you to never ",
    "i'd like you to always ",
    "i'd like you to never ",
];
/// What an answer does, and what it does with `me`: "Never call me Bob". Other verbs need an
/// occasion, as friends say "Never give up".
const ANSWERING: &str = "address answer cite confirm convert describe explain format highlight include mention quote refer reference reply respond specify spell summarise summarize translate use";
const TO_ME: &str = "ask call give remind send show tell warn write";

/// Returns the byte ranges of the lasting requests in a text of the user, in order. They are found
/// by English words.
pub fn lasting_requests(text: &str) -> Vec<Range<usize>> {
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    let mut found = Vec::new();
    let mut begin = 0;
    let bytes = text.as_bytes();
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        let ends = match c {
            '\n' => true,
            '.' | '!' | '?' => bytes.get(end).is_none_or(u8::is_ascii_whitespace),
            _ => end == text.len(),
        };
        if ends {
            found.extend(request_in(text, begin..end));
            begin = end;
        }
    }
    found
}

/// Returns the place of a sentence without the white space around it, if it is a lasting request.
fn request_in(text: &str, sentence: Range<usize>) -> Option<Range<usize>> {
    let whole = &text[sentence.clone()];
    let start = sentence.start + whole.len() - whole.trim_start().len();
    let whole = whole.trim();
    let is_request = whole.len() <= SENTENCE_BYTES_MAX && is_request(&whole.to_ascii_lowercase());
    is_request.then(|| start..start + whole.len())
}

fn is_request(sentence: &str) -> bool {
    let mut rest = sentence;
    while let Some(after) = BEFORE.iter().find_map(|begin| rest.strip_prefix(begin)) {
        rest = after;
    }
    if rest.ends_with('?') {
        return false;
    }
    let is_end = |after: &str| !after.starts_with(char::is_alphanumeric);
    let names = |occasion: &&str| rest.split(*occasion).skip(1).any(is_end);
    let has_occasion = || OCCASIONS.iter().any(&names);
    let begins_occasion =
        || OCCASIONS.iter().filter_map(|occasion| rest.strip_prefix(occasion)).any(is_end);
    if let Some(after) = ALWAYS.iter().find_map(|begin| rest.strip_prefix(begin)) {
        return begins_answering(after) || has_occasion();
    }
    if let Some(after) = FROM_NOW.iter().find_map(|begin| rest.strip_prefix(begin)) {
        let start = after.trim_start_matches(|c: char| !c.is_alphanumeric());
        let start = start.strip_prefix("please ").unwrap_or(start);
        return begins_answering(start) || names_answers(after);
    }
    let is_wish = WISHES.iter().any(|begin| rest.starts_with(begin));
    is_wish || begins_occasion() || (has_occasion() && begins_answering(rest))
}

fn begins_answering(text: &str) -> bool {
    let is_in = |list: &str, word: &str| list.split(' ').any(|known| known == word);
    let mut words = words(text);
    let Some(first) = words.next() else { return false };
    is_in(ANSWERING, first) || (is_in(TO_ME, first) && words.next() == Some("me"))
}

/// Whether a text is on answers.
fn names_answers(text: &str) -> bool {
    words(text).any(|word| matches!(word, "answer" | "answers" | "reply" | "replies" | "responses"))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_all_answers_are_found() {
        for text in [
            "Always include version numbers when I ask about software dependencies.",
            "please always answer in French",
            "Never call me Bob.",
            "From now on, keep your answers below three sentences.",
            "Whenever I ask for a distance, use miles.",
            "Use metric units when I ask for a distance.",
            "I prefer your answers short.",
            "And also never mention my sister",
        ] {
            let found = lasting_requests(text);
            assert_eq!((found.len(), found.first()), (1, Some(&(0..text.len()))), "{text}");
        }
    }

    #[test]
    fn other_sentences_are_no_requests() {
        for text in [
            "",
            "Never mind.",
            "Never give up!",
            "Always keep your head up when you can.",
            "Always a pleasure!",
            "I always use metric units.",
            "Should I always use metric units?",
            "From now on I live in Lisbon.",
            "Use metric units here.",
            "What did I say when I asked about boats?",
            "When I asked about boats, you said nothing.",
        ] {
            assert!(lasting_requests(text).is_empty(), "{text}");
        }
        let long = format!("Always include {}.", "very ".repeat(80));
        assert!(lasting_requests(&long).is_empty());
    }

    #[test]
    fn the_place_of_a_request_in_a_text_is_told() {
        let text = "My boat is 3.5 m long. Always use metres when I ask for a length.\nÄ é! ";
        let found = lasting_requests(text);
        let texts: Vec<&str> = found.into_iter().map(|range| &text[range]).collect();
        assert_eq!(texts, ["Always use metres when I ask for a length."]);
        let end = "x".repeat(TEXT_BYTES_MAX) + "\nNever call me Bob.";
        assert!(lasting_requests(&end).is_empty());
    }
}
