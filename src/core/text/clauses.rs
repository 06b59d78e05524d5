//! Splits a text into whole clauses, which the built-in summariser selects. A clause is a range of
//! the text, so that a summary consists of the words of the log.

use std::collections::HashSet;
use std::ops::Range;

use super::filler_words::MONTHS;
use super::grammar::{
    ABBREVIATIONS, BACK, CAUTIOUS, COORDINATORS, JOINTS, MARKERS, MONTH_BEGINNINGS, PHRASES,
    REFUSALS, SUBORDINATORS, TAILS, begins_with_noun_and_verb, has_verb, is_english, is_one_of,
    is_subject, lower,
};

/// Maximum number of words of a clause; a longer sentence is usually a list or has no punctuation.
const CLAUSE_WORDS_MAX: usize = 60;
/// Minimum number of words of a remark that can be left out at the end of a sentence.
const TAIL_WORDS_MIN: usize = 3;
/// Minimum number of bytes of the short form of a name.
const SHORT_NAME_BYTES_MIN: usize = 3;
/// Maximum number of bytes of a word in ASCII; a longer word is a link, a hash or a blob.
const WORD_BYTES_MAX: usize = 40;
/// Maximum number of bytes of a word in other scripts, which may put no spaces between words.
const UNSPACED_BYTES_MAX: usize = 600;
/// A line is code, a table or log output if more than one in this number of its words has a symbol
/// that prose does not use.
const SYMBOLS_SHARE: usize = 6;
/// Characters that end a sentence.
const ENDS: [char; 8] = ['.', '!', '?', '…', '。', '！', '？', '।'];

/// Separator of a summary's clauses that do not end like sentences.
pub(super) const BREAK: &str = "; ";

/// Returns the clauses of a message, in order. `names` are the speakers' names in lower case; a
/// name that only addresses somebody is no part of a clause. Code, tables and log output have no
/// clauses. With `tails`, a remark at the end of a sentence is a clause of its own.
pub(super) fn clauses(text: &str, names: &HashSet<String>, tails: bool) -> Vec<Range<usize>> {
    let lines = prose(text);
    let prose: Vec<&str> = lines.iter().map(|line| &text[line.clone()]).collect();
    let is_english = is_english(&prose.join(" "));
    let mut spans = Vec::new();
    for line in lines {
        add_line(text, line, names, tails, &mut spans);
    }
    spans.retain(|span| !is_english || is_statement(&text[span.clone()]));
    spans
}

/// Returns the clauses of a text in which [`BREAK`] separates what is not a sentence.
pub(super) fn clauses_of_summary(
    text: &str,
    names: &HashSet<String>,
    tails: bool,
) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut start = 0;
    for part in text.split_inclusive(BREAK) {
        let end = start + part.strip_suffix(BREAK).unwrap_or(part).len();
        add_line(text, start..end, names, tails, &mut spans);
        start += part.len();
    }
    spans
}

fn add_line(
    text: &str,
    line: Range<usize>,
    names: &HashSet<String>,
    tails: bool,
    spans: &mut Vec<Range<usize>>,
) {
    let words = words(&text[line.clone()], line.start);
    for sentence in sentences(text, &words) {
        for part in parts(text, sentence, tails) {
            spans.extend(trimmed(text, part, names));
        }
    }
}

/// Whether a sentence ends between two texts that are put next to each other with a space.
pub(super) fn ends_between(left: &str, right: &str) -> bool {
    let last = left.split_whitespace().next_back().unwrap_or_default();
    let next = right.split_whitespace().next().unwrap_or_default();
    ends_sentence(last, Some(next))
}

/// Returns the lines of a message that are prose.
fn prose(text: &str) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut in_fence = false;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let at = start;
        start += line.len();
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            in_fence = !in_fence;
        } else if !in_fence && is_prose(line) {
            lines.push(at..start);
        }
    }
    lines
}

/// Whether a line is prose. Code, JSON, tables and log output contain many symbols.
fn is_prose(line: &str) -> bool {
    let line = line.trim();
    if line.contains('|')
        || line.starts_with(['{', '<', '}'])
        || line.starts_with("$ ")
        || line.ends_with(['{', '}'])
    {
        return false;
    }
    let (mut words, mut odd) = (0, 0);
    for word in line.split_whitespace() {
        words += 1;
        odd += usize::from(is_symbolic(word));
    }
    odd * SYMBOLS_SHARE <= words
}

/// Whether a word has a symbol that prose does not use.
fn is_symbolic(word: &str) -> bool {
    word.contains(|c: char| "{}<>=_\\*^`~#".contains(c))
        || word.contains("::")
        || word.contains("()")
        || word.contains("://")
        || word.ends_with("\",")
        || word.ends_with("\":")
        || (word.contains(':') && word.bytes().filter(u8::is_ascii_digit).count() > 4)
}

/// A word of a text: its bytes with the punctuation around the word.
type SentenceWord = Range<usize>;

/// Returns the words of a line that begins at byte `at` of a text. A character that ends a sentence
/// in a script without spaces also ends a word.
fn words(line: &str, at: usize) -> Vec<SentenceWord> {
    let mut words = Vec::new();
    let mut start = None;
    for (place, c) in line.char_indices() {
        if c.is_whitespace() {
            words.extend(start.take().map(|start| start..at + place));
        } else {
            let begin = *start.get_or_insert(at + place);
            if matches!(c, '。' | '！' | '？') {
                words.push(begin..at + place + c.len_utf8());
                start = None;
            }
        }
    }
    words.extend(start.map(|start| start..at + line.len()));
    words
}

/// Returns the sentences of a line. The marker of a list item is left out.
fn sentences<'w>(text: &str, words: &'w [SentenceWord]) -> Vec<&'w [SentenceWord]> {
    let marks = words.first().is_some_and(|first| is_list_marker(&text[first.clone()]));
    let words = &words[usize::from(marks)..];
    let mut sentences = Vec::new();
    let mut begin = 0;
    for (at, word) in words.iter().enumerate() {
        let next = words.get(at + 1).map(|next| &text[next.clone()]);
        if next.is_none() || ends_sentence(&text[word.clone()], next) {
            sentences.push(&words[begin..=at]);
            begin = at + 1;
        }
    }
    sentences
}

/// Whether a word is the number or the dash before a list item.
fn is_list_marker(word: &str) -> bool {
    let number = word.trim_end_matches(['.', ')']);
    matches!(word, "-" | "*" | "•" | "–" | "+" | ">")
        || (number.len() < word.len() && number.bytes().all(|byte| byte.is_ascii_digit()))
        || (!word.is_empty() && word.bytes().all(|byte| byte == b'#'))
}

/// Whether a word ends its sentence, given the next word.
pub(crate) fn ends_sentence(word: &str, next: Option<&str>) -> bool {
    let bare = word.trim_end_matches(|c: char| "\"')]”’»".contains(c) || is_picture(c));
    if !bare.ends_with(ENDS) {
        return false;
    }
    let Some(next) = next else { return true };
    let goes_on = next.trim_start_matches(['"', '(', '“', '‘']).starts_with(char::is_lowercase);
    if bare.ends_with("...") || bare.ends_with('…') {
        return !goes_on;
    }
    let Some(stem) = bare.strip_suffix('.') else { return true };
    let stem = lower(stem.trim_start_matches(['"', '(', '“', '[']));
    // The number of a day before its month, as in German.
    let is_day = stem.len() <= 2 && stem.bytes().all(|byte| byte.is_ascii_digit());
    if is_day && is_one_of(&MONTH_BEGINNINGS, &lower(next).chars().take(3).collect::<String>()) {
        return false;
    }
    let is_initial =
        stem.chars().count() == 1 && stem.chars().all(char::is_alphabetic) && stem != "i";
    if is_initial || is_one_of(&ABBREVIATIONS, &stem) {
        return false;
    }
    if stem == "no" {
        return !next.starts_with(|c: char| c.is_ascii_digit());
    }
    // Letters with full stops between them ("p.m.", "U.S.") end a sentence before a capital letter.
    !(goes_on && (stem.contains('.') || stem == "etc"))
}

/// Whether a character is an emoji or a similar sign.
fn is_picture(c: char) -> bool {
    c as u32 >= 0x2190
        && !c.is_alphanumeric()
        && !('\u{3000}'..='\u{303f}').contains(&c)
        && !('\u{ff00}'..='\u{ffef}').contains(&c)
}

/// Splits a sentence before each clause that has a subject and a verb of its own. A question, a
/// condition and what is only wished, possible or reported stay whole, because their parts would
/// read as facts.
fn parts<'w>(text: &str, sentence: &'w [SentenceWord], tails: bool) -> Vec<&'w [SentenceWord]> {
    let of = |at: usize| &text[sentence[at].clone()];
    let is_question = of(sentence.len() - 1).contains('?');
    let mut cuts = vec![0];
    if !is_question && sentence.len() <= 4 * CLAUSE_WORDS_MAX {
        let (mut depth, mut quoted) = (0_i32, false);
        for at in 0..sentence.len() {
            let word = lower(of(at));
            let from = cuts[cuts.len() - 1];
            if tails && at > from && depth == 0 && !quoted && is_tail(text, sentence, from, at) {
                cuts.push(at);
                break;
            }
            let is_careful = is_one_of(&CAUTIOUS, &word)
                || word.ends_with("'d")
                || (is_one_of(&SUBORDINATORS, &word) && (at == from || of(at - 1).ends_with(',')));
            if is_careful {
                break;
            }
            if at > from && depth == 0 && !quoted && is_cut(text, sentence, from, at) {
                let follows = lower(of(at + usize::from(is_one_of(&COORDINATORS, &word))));
                if !is_one_of(&SUBORDINATORS, &follows) {
                    cuts.push(at);
                }
            }
            for c in of(at).chars() {
                match c {
                    '(' | '[' => depth += 1,
                    ')' | ']' => depth -= 1,
                    '"' | '“' | '”' => quoted = !quoted,
                    _ => {}
                }
            }
        }
    }
    cuts.push(sentence.len());
    cuts.windows(2).map(|cut| &sentence[cut[0]..cut[1]]).collect()
}

/// Whether a clause with its own subject begins at the word `at`, after a clause that begins at
/// `from`.
fn is_cut(text: &str, sentence: &[SentenceWord], from: usize, at: usize) -> bool {
    let of = |at: usize| sentence.get(at).map_or("", |word| &text[word.clone()]);
    let (before, word) = (of(at - 1), lower(of(at)));
    let stops = before.ends_with([',', ';']);
    let pauses = stops || matches!(before, "-" | "–" | "—") || before.ends_with("...");
    let joins = is_one_of(&COORDINATORS, &word) && (stops || word != "so");
    let subject = if joins { at + 1 } else { at };
    if !(joins || pauses) || subject + 1 >= sentence.len() {
        return false;
    }
    let whole = |words: &[SentenceWord]| match (words.first(), words.last()) {
        (Some(first), Some(last)) => has_verb(&text[first.start..last.end]),
        _ => false,
    };
    let rest = sentence[subject..].iter().map(|word| &text[word.clone()]);
    if is_one_of(&BACK, &lower(of(subject))) && rest.clone().any(is_value) {
        return false;
    }
    (is_subject(of(subject), of(subject + 1)) || begins_with_noun_and_verb(rest))
        && whole(&sentence[from..at])
        && whole(&sentence[subject..])
}

/// Whether a remark about the clause that begins at `from` begins at the word `at`, like `which is
/// brutal with two children`, and can be left out: the remark has no number and denies nothing.
fn is_tail(text: &str, sentence: &[SentenceWord], from: usize, at: usize) -> bool {
    let word = |at: usize| &text[sentence[at].clone()];
    let rest = (at..sentence.len()).map(word);
    is_one_of(&TAILS, &lower(word(at)))
        && word(at - 1).ends_with(',')
        && has_verb(&text[sentence[from].start..sentence[at - 1].end])
        && rest.clone().count() >= TAIL_WORDS_MIN
        && rest.clone().all(|word| {
            let plain = lower(word);
            !is_value(word)
                && !plain.ends_with("n't")
                && !is_one_of(&REFUSALS, &plain)
                && !is_one_of(&CAUTIOUS, &plain)
        })
}

/// Whether a text has a verb, or is a remark in brackets, like the caption of a picture.
fn is_statement(text: &str) -> bool {
    has_verb(text) || (text.starts_with('[') && text.ends_with(']'))
}

/// Whether a word is a number or a month, which must not be read as part of another fact.
fn is_value(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit())
        || MONTHS.contains(&word.trim_matches(|c: char| !c.is_alphanumeric()))
}

/// Trims a clause at its ends: markers of speech, names that address somebody, emoji and
/// punctuation. Returns `None` if nothing usable is left.
fn trimmed(text: &str, words: &[SentenceWord], names: &HashSet<String>) -> Option<Range<usize>> {
    let is_name = |word: &str| is_name_of(names, &lower(word));
    let mut words = words;
    while let [first, rest @ ..] = words {
        let word = &text[first.clone()];
        let addresses =
            word.ends_with([',', '!']) && (is_name(word) || is_one_of(&MARKERS, &lower(word)));
        let greets = is_one_of(&MARKERS, &lower(word))
            && rest.first().is_some_and(|next| {
                is_name(&text[next.clone()]) && text[next.clone()].ends_with([',', '!'])
            });
        let joins = is_one_of(&JOINTS, &lower(word)) && !rest.is_empty();
        let is_noise = !word.contains(char::is_alphanumeric);
        let phrase = PHRASES.iter().find(|phrase| {
            let head = words.iter().take(phrase.split(' ').count());
            head.map(|word| text[word.clone()].to_lowercase()).eq(phrase.split(' '))
        });
        if let Some(phrase) = phrase {
            words = &words[phrase.split(' ').count()..];
            continue;
        }
        if !(addresses || greets || joins || is_noise) {
            break;
        }
        words = rest;
    }
    while let [rest @ .., last] = words {
        let word = &text[last.clone()];
        let addressed = is_name(word)
            && rest.last().is_some_and(|before| text[before.clone()].ends_with(','))
            && !word.contains('?');
        let is_noise = !word.contains(char::is_alphanumeric);
        if !(addressed || is_noise) {
            break;
        }
        words = rest;
    }
    let (first, last) = (words.first()?, words.last()?);
    // What a colon introduces, like a list, is not in the clause.
    if text[last.clone()].ends_with(':') {
        return None;
    }
    let whole = &text[first.start..last.end];
    let bare = whole.trim_start_matches(|c: char| "-–—,;:*.…".contains(c) || is_picture(c));
    let start = last.end - bare.len();
    let bare = bare
        .trim_end_matches(|c: char| ",;:-–—*".contains(c) || is_picture(c) || c.is_whitespace());
    let range = balanced(text, start..start + bare.len());
    let clause = &text[range.clone()];
    let fits = words.len() <= CLAUSE_WORDS_MAX
        && !clause.contains([';', '|'])
        && !clause.contains(char::is_control)
        && ["**", "->", "=>", "\\"].iter().all(|mark| !clause.contains(mark))
        && clause.contains(char::is_alphabetic)
        && words.iter().all(|word| {
            let word = &text[word.clone()];
            word.len() <= if word.is_ascii() { WORD_BYTES_MAX } else { UNSPACED_BYTES_MAX }
        });
    fits.then_some(range)
}

/// Whether a word is a speaker's name or a short form of it, like `Mel`.
pub(super) fn is_name_of(names: &HashSet<String>, word: &str) -> bool {
    names.contains(word)
        || (word.len() >= SHORT_NAME_BYTES_MIN && names.iter().any(|name| name.starts_with(word)))
}

/// Leaves a bracket or quotation mark out whose partner is not in the clause.
fn balanced(text: &str, mut range: Range<usize>) -> Range<usize> {
    for (open, close) in [('(', ')'), ('[', ']'), ('"', '"'), ('“', '”')] {
        let clause = &text[range.clone()];
        let (opens, closes) = (clause.matches(open).count(), clause.matches(close).count());
        let is_odd = if open == close { opens % 2 == 1 } else { opens != closes };
        if is_odd && clause.starts_with(open) {
            range.start += open.len_utf8();
        } else if is_odd && clause.ends_with(close) {
            range.end -= close.len_utf8();
        }
    }
    range
}
