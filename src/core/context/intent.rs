//! Reads what a message asks for: its kind, its parts, what they name, and what their answers are.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Serialize;

use super::route::{ambiguity, is_framed};
use crate::search::{StopWords, content_words, phrases_of};

/// Maximum number of parts that are looked for by themselves.
pub const SUB_QUESTIONS_MAX: usize = 6;
/// Maximum number of names of a part.
const ENTITIES_MAX: usize = 12;
/// Fewest content words of a part that is a question by itself.
const PART_WORDS_MIN: usize = 2;

/// What kind of message a context is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// A question.
    Question,
    /// An instruction about the content of an answer.
    Instruction,
    /// A command to act, which no memory answers.
    Command,
    /// Thanks, a greeting, or a short reaction.
    SmallTalk,
    /// A request for a summary.
    Summarise,
    /// A request to write a text.
    Write,
    /// A statement, which asks for nothing.
    Statement,
}

/// Words of questions whose answer is an order of events, and beginnings of such words.
const FOR_ORDER: [&str; 9] = [
    "order in which",
    "what order",
    "which order",
    "in order how",
    "sequence of",
    "timeline",
    "chronolog",
    "walk me through",
    "evolve",
];

/// Whether a question asks for an order of events, so that messages are shown in their order. For
/// another question, the newest statement comes first, before what it replaces.
pub fn asks_for_order(question: &str) -> bool {
    let question = question.to_lowercase();
    FOR_ORDER.iter().any(|words| question.contains(words))
}

/// What the answer to a question is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// A person or another name.
    Name,
    /// A place.
    Place,
    /// A date, a time or a duration.
    Date,
    /// A number.
    Number,
    /// Yes or no.
    YesNo,
    /// Any text.
    Text,
}

/// A part of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubQuestion {
    /// The part in the words of the question.
    pub text: String,
    /// Names, numbers, identifiers and quoted words in the part.
    pub entities: Vec<String>,
    /// What the answer is.
    pub answer: AnswerKind,
    /// Whether the whole answer depends on this part: it names most.
    pub critical: bool,
}

/// What a message asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuestionIntent {
    /// The kind of the message.
    pub task: Task,
    /// The parts of the question, in its order; none if the message asks for nothing.
    pub sub_questions: Vec<SubQuestion>,
    /// Conditions on the answer, such as "in one sentence", in the words of the message.
    pub constraints: Vec<String>,
    /// Whether an answer needs several texts.
    pub is_compound: bool,
    /// How unclear the message is by itself, from 0 to 1.
    pub ambiguity: f64,
}

/// First words of a question.
const ASKING: &str = "am are can could did do does had has have how is may might must shall should was were what when where which who whom whose why will would what's who's where's when's how's";
/// Words at the beginning of a command to act.
const COMMANDS: &str = "add alarm book call cancel change close delete dial lock mute open order pause play power reboot reduce repeat reset resume roll schedule send set shuffle skip snooze start stop switch text transfer turn unlock update volume";
/// Words at the beginning of a request for a summary.
const SUMMARIES: &str = "recap summarise summarize summary outline";
/// Words at the beginning of a request to write.
const WRITING: &str = "compose create draft generate invent rewrite translate write";
/// Beginnings of a question that names what the answer has to consider.
const CONSIDERING: [&str; 5] =
    ["considering ", "given ", "based on ", "in light of ", "taking into account "];
/// Words for what an asker did by words.
const SAYING: &str = "ask asked bring brought describe described discuss discussed explain explained mention mentioned raise raised report reported said say talk talked tell told";
/// Words at the beginning of an instruction about an answer.
const INSTRUCTIONS: &str = "advise analyse analyze calculate compare count define describe discuss explain find give help identify list look mention name outline recommend remind report say search show suggest tell";
/// Words that a message of small talk consists of.
const TALK: &str = "afternoon again awesome bye cheers congrats cool day evening fine fun glad good goodbye great haha hello hey hi hmm hope hugs interesting kidding lol love lovely luck meet morning nice night ok okay oh perfect please right see sounds soon sure sweet take talk thank thanks thx welcome well weekend wonderful wow yeah yep yes you yup care later no nope";
/// Words that stand for something that was named before.
const REFERRING: &str = "he her him his it its she that their them they this those";
/// Words that begin a further question after a conjunction.
const FURTHER: &str = "and also but or";
/// Words that begin a condition on the answer.
const LIMITS: [&str; 9] = [
    "in one sentence",
    "in a table",
    "in bullet points",
    "as a list",
    "as json",
    "in at most ",
    "without ",
    "only ",
    "no more than ",
];

impl QuestionIntent {
    /// Reads a message.
    pub fn read(message: &str) -> Self {
        let task = task_of(message);
        let constraints = constraints_of(message);
        let mut parts: Vec<SubQuestion> = match task {
            Task::SmallTalk | Task::Command => Vec::new(),
            Task::Question
            | Task::Instruction
            | Task::Summarise
            | Task::Write
            | Task::Statement => parts_of(message).into_iter().map(SubQuestion::of).collect(),
        };
        parts.truncate(SUB_QUESTIONS_MAX);
        mark_critical(&mut parts);
        let is_compound = parts.len() > 1 || is_chain(message);
        let ambiguity = ambiguity(message);
        Self { task, sub_questions: parts, constraints, is_compound, ambiguity }
    }

    /// Returns what was read, with other parts of the question.
    #[must_use]
    pub fn with_parts(self, questions: &[String]) -> Self {
        let mut parts: Vec<SubQuestion> =
            questions.iter().take(SUB_QUESTIONS_MAX).map(|text| SubQuestion::of(text)).collect();
        mark_critical(&mut parts);
        let is_compound = self.is_compound || parts.len() > 1;
        Self { sub_questions: parts, is_compound, ..self }
    }
}

/// Marks the part on which the whole answer depends: the one that names most.
fn mark_critical(parts: &mut [SubQuestion]) {
    let weight = |part: &SubQuestion| part.entities.len() * 2 + content_words(&part.text).len();
    let most = (0..parts.len()).rev().max_by_key(|at| weight(&parts[*at]));
    if let Some(at) = most {
        parts[at].critical = true;
    }
}

impl SubQuestion {
    /// Reads a text as one part.
    pub fn of(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            entities: entities_of(text),
            answer: answer_of(text),
            critical: false,
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let edges = |c: char| !c.is_alphanumeric();
    text.split_whitespace()
        .map(move |word| word.trim_matches(edges))
        .filter(|word| !word.is_empty())
}

fn among(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

fn task_of(message: &str) -> Task {
    let lower = message.to_lowercase();
    let polite = [
        "please ",
        "can you ",
        "could you ",
        "would you ",
        "will you ",
        "hey ",
        "i need you to ",
        "i want you to ",
    ];
    let mut rest = lower.trim();
    while let Some(after) = polite.iter().find_map(|begin| rest.strip_prefix(begin)) {
        rest = after.trim_start();
    }
    let all: Vec<&str> = words(rest).collect();
    let Some(first) = all.first().copied() else { return Task::SmallTalk };
    let said = |list: &str| among(list, first);
    let is_talk = |word: &&str| among(TALK, word) || StopWords::Recall.contains(word);
    match () {
        () if said(SUMMARIES) || rest.contains("tl;dr") || rest.starts_with("sum up") => {
            Task::Summarise
        }
        () if said(WRITING) => Task::Write,
        () if said(COMMANDS) && !lower.contains('?') => Task::Command,
        () if all.iter().all(is_talk) => Task::SmallTalk,
        () if lower.trim_end().ends_with('?') || said(ASKING) || lower.contains("? ") => {
            Task::Question
        }
        () if said(INSTRUCTIONS) || is_framed(message) => Task::Instruction,
        () => Task::Statement,
    }
}

/// Splits a message into its questions: at the ends of sentences, at semicolons, and before a
/// question word after a conjunction.
fn parts_of(message: &str) -> Vec<&str> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut begin = 0;
    let mut close = |end: usize, begin: &mut usize| {
        let part = &message[*begin..end];
        let from = *begin + part.len() - part.trim_start().len();
        if !part.trim().is_empty() {
            parts.push(from..from + part.trim().len());
        }
        *begin = end;
    };
    let bytes = message.as_bytes();
    for (at, c) in message.char_indices() {
        let next = bytes.get(at + c.len_utf8()).copied();
        let ends = match c {
            '?' | '!' | ';' | '\n' => true,
            '.' => next.is_none_or(|next| next.is_ascii_whitespace()) && at - begin > 3,
            _ => false,
        };
        if ends {
            close(at + c.len_utf8(), &mut begin);
        } else if c == ' ' && begins_further(&message[begin..at], &message[at + 1..]) {
            close(at, &mut begin);
        }
    }
    close(message.len(), &mut begin);
    let text = |part: &Range<usize>| &message[part.clone()];
    let asks = |part: &Range<usize>| {
        let words = content_words(text(part));
        // Without a content word, all words count as such.
        let least = if is_question(text(part)) { 1 } else { PART_WORDS_MIN };
        words.len() >= least
    };
    // Sentences before a question tell what the question is about. A question that names nothing
    // itself is taken with the sentence before.
    let whole = |at: usize| {
        let part = &parts[at];
        let before = at.checked_sub(1).filter(|_| names_nothing(text(part)));
        &message[before.map_or(part.start, |before| parts[before].start)..part.end]
    };
    let told = || (0..parts.len()).filter(|at| asks(&parts[*at]));
    let questions: Vec<&str> =
        told().filter(|at| is_question(text(&parts[*at]))).map(whole).collect();
    let told: Vec<&str> = told().map(|at| text(&parts[at])).collect();
    match (questions.is_empty(), told.is_empty()) {
        (false, _) => questions,
        (true, false) => told,
        (true, true) => vec![message.trim()],
    }
}

/// Whether a question refers to something that it does not name: "When is it now?".
fn names_nothing(question: &str) -> bool {
    referring_word(question).is_some()
}

/// Returns the word by which a question refers to something that it does not name.
pub(super) fn referring_word(question: &str) -> Option<String> {
    let mut all = words(question).map(str::to_lowercase);
    let word = all.find(|word| among(REFERRING, word))?;
    let named = content_words(question);
    let named = named.iter().filter(|word| !StopWords::Recall.contains(word));
    (named.count() < PART_WORDS_MIN).then_some(word)
}

/// Whether a message asks for one thing that is easily told: a name, a place, a date, a number.
pub(super) fn asks_for_one_thing(message: &str) -> bool {
    !matches!(answer_of(message), AnswerKind::Text | AnswerKind::YesNo)
}

/// Whether a conjunction and a question word begin a further question here.
fn begins_further(before: &str, after: &str) -> bool {
    let mut next = words(after).map(str::to_lowercase);
    let (Some(joint), Some(asking)) = (next.next(), next.next()) else { return false };
    among(FURTHER, &joint)
        && among(ASKING, &asking)
        && after.to_lowercase().starts_with(&joint)
        && content_words(before).len() >= PART_WORDS_MIN
}

fn is_question(part: &str) -> bool {
    let mut first = words(part).map(str::to_lowercase);
    let joint = first.next().unwrap_or_default();
    let second = first.next().unwrap_or_default();
    part.ends_with('?')
        || among(ASKING, &joint)
        || (among(FURTHER, &joint) && among(ASKING, &second))
}

/// Returns what a text names: runs of capitalised words, words with digits, and quoted words.
pub(super) fn entities_of(text: &str) -> Vec<String> {
    let mut found: Vec<String> = phrases_of(text);
    let mut run: Vec<&str> = Vec::new();
    let mut begins = true;
    for raw in text.split_whitespace() {
        let word = raw.trim_matches(|c: char| !c.is_alphanumeric());
        let bare = word.strip_suffix("'s").or(word.strip_suffix("’s")).unwrap_or(word);
        let lower = bare.to_lowercase();
        let is_name = bare.starts_with(char::is_uppercase)
            && !(begins && is_usual_beginning(&lower))
            && !among("i i'm i've i'd i'll", &lower);
        let is_code = bare.chars().any(|c| c.is_ascii_digit());
        if is_name || is_code {
            run.push(bare);
        }
        let ends = !is_name && !is_code
            || word.len() != bare.len()
            || raw.ends_with([',', '.', '?', '!', ';', ':']);
        if ends && !run.is_empty() {
            found.push(run.join(" "));
            run.clear();
        }
        begins = raw.ends_with(['.', '?', '!', ':']);
    }
    if !run.is_empty() {
        found.push(run.join(" "));
    }
    let mut seen = BTreeSet::new();
    found.retain(|name| !name.is_empty() && seen.insert(name.to_lowercase()));
    found.truncate(ENTITIES_MAX);
    found
}

/// Whether a word often begins a sentence, so that its capital letter says nothing.
fn is_usual_beginning(word: &str) -> bool {
    let verbs = [ASKING, INSTRUCTIONS, WRITING, SUMMARIES, COMMANDS];
    verbs.iter().any(|list| among(list, word)) || StopWords::Recall.contains(word)
}

fn answer_of(text: &str) -> AnswerKind {
    let lower = text.to_lowercase();
    let has = |list: &[&str]| list.iter().any(|words| lower.contains(words));
    let first = words(&lower).find(|word| !among(FURTHER, word)).unwrap_or_default();
    match () {
        () if has(&[
            "when ",
            "what date",
            "what day",
            "what year",
            "which year",
            "what time",
            "how long",
            "what month",
        ]) =>
        {
            AnswerKind::Date
        }
        () if has(&[
            "how many",
            "how much",
            "how old",
            "how far",
            "how often",
            "what number",
            "what percent",
        ]) =>
        {
            AnswerKind::Number
        }
        () if has(&["where ", "which city", "what city", "which country", "what country"]) => {
            AnswerKind::Place
        }
        () if has(&["who ", "whose ", "whom ", "name of"]) => AnswerKind::Name,
        () if among(
            "am are can could did do does had has have is may must should was were will would",
            first,
        ) =>
        {
            AnswerKind::YesNo
        }
        () => AnswerKind::Text,
    }
}

fn constraints_of(message: &str) -> Vec<String> {
    // Only ASCII letters change, so that the places stay the same.
    let lower = message.to_ascii_lowercase();
    let found = LIMITS.iter().filter_map(|limit| {
        let at = lower.find(limit)?;
        let begins = at == 0 || !lower.as_bytes()[at - 1].is_ascii_alphanumeric();
        let end =
            message[at..].find(['.', ',', ';', '?', '!', '\n']).map_or(message.len(), |n| at + n);
        begins.then(|| message[at..end].trim().to_owned())
    });
    found.collect()
}

/// How much of a conversation an answer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breadth {
    /// Texts that answer it.
    Answer,
    /// What the asker brought up, in order.
    OrderOfAsker,
    /// What was said and replied, on a subject or on several ones.
    Overview,
}

impl Breadth {
    /// Reads a question of the given kind.
    pub fn read(question: &str, task: Task) -> Self {
        match task {
            Task::Summarise => Self::Overview,
            _ if considers_several(question) => Self::Overview,
            _ if asks_for_order(question) && is_said_by_asker(question) => Self::OrderOfAsker,
            _ => Self::Answer,
        }
    }
}

/// Whether a question first names several things that the answer has to consider: "Considering the
/// boat, its sails and my budget, what should I repair?".
fn considers_several(question: &str) -> bool {
    let lower = question.trim_start().to_lowercase();
    let named = CONSIDERING.iter().find_map(|begin| lower.strip_prefix(begin));
    named.is_some_and(|named| named.matches(',').count() + named.matches(" and ").count() > 1)
}

/// Whether a question is on what the asker said: "In which order did I mention the boats?".
fn is_said_by_asker(question: &str) -> bool {
    let lower = question.to_lowercase();
    let all: Vec<&str> = words(&lower).collect();
    let says = |from: usize| all.iter().skip(from).take(2).any(|word| among(SAYING, word));
    let mut asker = (0..all.len()).filter(|at| all[*at] == "i");
    asker.any(|at| says(at + 1))
}

/// Whether a question asks about something that it only describes, so that two texts answer it.
pub(super) fn is_chain(message: &str) -> bool {
    let lower = message.to_lowercase();
    let joints = [" that ", " who ", " whose ", " which ", " where "];
    let inner = joints.iter().filter(|joint| lower.contains(*joint)).count();
    let owners = lower.matches(" of the ").count() + lower.matches("'s ").count();
    inner > 0 || owners > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_message_is_told_by_its_words() {
        for (message, task) in [
            ("When did I move to Lisbon?", Task::Question),
            ("what is my dentist called", Task::Question),
            ("Could you tell me where the key is?", Task::Question),
            ("List the boats that we saw.", Task::Instruction),
            ("Summarize our talk about the budget.", Task::Summarise),
            ("Please write a letter to the harbour master.", Task::Write),
            ("Set an alarm for seven.", Task::Command),
            ("turn off the lights in the hall", Task::Command),
            ("Thanks, that sounds great!", Task::SmallTalk),
            ("Good morning", Task::SmallTalk),
            ("", Task::SmallTalk),
            ("My boat leaks at the stern.", Task::Statement),
        ] {
            assert_eq!(QuestionIntent::read(message).task, task, "{message}");
        }
    }

    #[test]
    fn a_message_is_split_into_its_questions() {
        for (message, parts) in [
            ("When did I move to Lisbon?", &["When did I move to Lisbon?"][..]),
            (
                "Who repaired the boat, and when does the ferry leave?",
                &["Who repaired the boat,", "and when does the ferry leave?"],
            ),
            (
                "I sold the boat. What did the harbour master say? How much did the berth cost?",
                &["What did the harbour master say?", "How much did the berth cost?"],
            ),
            ("Which is better, tea or coffee?", &["Which is better, tea or coffee?"]),
            ("version 2.4 of the plan", &["version 2.4 of the plan"]),
            (
                "The call with Jacob was moved. When is it now?",
                &["The call with Jacob was moved. When is it now?"],
            ),
        ] {
            let read = QuestionIntent::read(message);
            let found: Vec<&str> = read.sub_questions.iter().map(|p| p.text.as_str()).collect();
            assert_eq!(found, parts, "{message}");
            assert_eq!(read.sub_questions.iter().filter(|part| part.critical).count(), 1);
        }
        assert!(QuestionIntent::read("Set a timer").sub_questions.is_empty());
        let many = "What is this boat? ".repeat(40);
        assert_eq!(QuestionIntent::read(&many).sub_questions.len(), SUB_QUESTIONS_MAX);
    }

    #[test]
    fn any_text_can_be_read() {
        for text in
            ["Ï", "İİİ without ß?", "é, only ẞ", "\u{0}", "? ! ; .", " and what", "“”\"", "…"]
        {
            let read = QuestionIntent::read(text);
            assert!(read.sub_questions.len() <= SUB_QUESTIONS_MAX);
            let mut seeded = crate::seeded::Seeded::new(text.len() as u64);
            let mut words = String::new();
            for _ in 0..200 {
                let all =
                    ["ÄÏ", "and", "what", "İ", "without", ".", "? ", "\n", "'s", "\"", "that"];
                words.push_str(all[seeded.below(all.len())]);
                words.push(' ');
            }
            QuestionIntent::read(&words);
        }
    }

    #[test]
    fn names_numbers_and_quoted_words_are_entities() {
        for (text, names) in [
            ("When did Ada Lovelace move to Lisbon?", &["Ada Lovelace", "Lisbon"][..]),
            ("Where is ticket AB-12 of \"the blue boat\"?", &["the blue boat", "AB-12"]),
            ("What is Bea's dog called?", &["Bea"]),
            ("the boat", &[]),
            ("What did I say?", &[]),
            ("Name the boat. The boat leaks.", &[]),
        ] {
            assert_eq!(entities_of(text), names, "{text}");
        }
    }

    #[test]
    fn the_answer_of_a_question_has_a_kind() {
        for (text, kind) in [
            ("Who repaired it?", AnswerKind::Name),
            ("and where is it?", AnswerKind::Place),
            ("How long did we wait?", AnswerKind::Date),
            ("How many sails?", AnswerKind::Number),
            ("Is the boat red?", AnswerKind::YesNo),
            ("Why does it leak?", AnswerKind::Text),
        ] {
            assert_eq!(answer_of(text), kind, "{text}");
        }
        let read = QuestionIntent::read("Name the boats, in one sentence. Use only harbour words.");
        assert_eq!(read.constraints, ["in one sentence", "only harbour words"]);
        assert!(QuestionIntent::read("Where was the man born who built the boat?").is_compound);
    }

    #[test]
    fn a_question_for_an_order_is_known() {
        assert!(asks_for_order("In which order did I visit the ports?"));
        assert!(asks_for_order("How did my plan evolve?"));
        assert!(!asks_for_order("What did the developer order across the border?"));
        let breadth = |question| Breadth::read(question, QuestionIntent::read(question).task);
        assert_eq!(breadth("In which order did I mention the ports?"), Breadth::OrderOfAsker);
        assert_eq!(breadth("In which order did I visit the ports?"), Breadth::Answer);
        assert_eq!(breadth("Which ports did I mention?"), Breadth::Answer);
        assert_eq!(breadth("Summarize what I said about the ports."), Breadth::Overview);
        let several = "Considering the boat, its sails and my budget, what should I repair?";
        assert_eq!(breadth(several), Breadth::Overview);
        assert_eq!(breadth("Given the wind, what should I repair?"), Breadth::Answer);
    }
}
