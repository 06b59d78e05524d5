//! Measures how much each part of a text says about a question: each sentence of a document, or
//! each turn of a conversation.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::question::content_words;
use super::related::{AskedWord, TextWord};
use super::word_vectors::{self, Topic};
use super::words::{Lexicon, Stem, Word, identifier_words, word_ranges};
use crate::search::bm25;

/// Shares of a word's weight: its rarity among the parts, and its rarity in English.
const RARITY_SHARES: (f64, f64) = (0.5, 0.35);
/// Rarity in English of a word that is not among the frequent words with vectors.
const RARITY_UNLISTED: f64 = 9.0;
/// Place in the list of frequent words from which a word counts as rare.
const FREQUENT_WORDS: f64 = 10.0;
/// Cosine of two words' vectors from which one word says something about the other.
const SOFT_COSINE: f64 = 0.3;
/// Number of names in a part beyond which further names do not count.
const NAMES_ENOUGH: f64 = 3.0;
/// Number of turns on each side whose scores count in the score of a turn, and the decay of their
/// weight with each turn. Chosen on the development half of QMSum.
const TALK_REACH: usize = 16;
const TALK_DECAY: f64 = 0.1;

/// Number of turns between two windows, and on each side of the middle of a window; weights of the
/// windows with a turn and of the turns around it. Chosen on the development half of QMSum.
const WINDOW_STEP: usize = 4;
const WINDOW_REACH: usize = 8;
const WINDOW: f64 = 0.12;
const NEIGHBOURS: f64 = 0.16;

/// First words that refer to the sentence before.
const REFERRING: [&str; 11] =
    ["he", "her", "his", "it", "its", "she", "that", "their", "these", "they", "this"];

/// How much a part of a text says about a question. All shares are from 0 to 1, and each word of
/// the question counts by its rarity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PartScore {
    /// Share of the question's words that the part has.
    pub coverage: f64,
    /// Share of the question's words for which the part has a word of the same everyday subject.
    pub near: f64,
    /// Share of the question's words for which the part has a word of a near meaning.
    pub soft: f64,
    /// Share of the question's pairs of neighbouring words that are neighbours in the part.
    pub together: f64,
    /// Whether the part has what the question asks for: a new number, time or name.
    pub answers: f64,
    /// Coverage of the part before and of the part after.
    pub beside: (f64, f64),
    /// Coverage of the part before, if this part begins with a pronoun.
    pub refers: f64,
    /// Logarithm of the part's length relative to the mean length.
    pub length: f64,
    /// How near the subjects of part and question are.
    pub topic: f64,
    /// BM25 of the part relative to the sum of the words' weights.
    pub bm25: f64,
}

impl PartScore {
    /// Returns the value of a sentence for an answer. The weights were chosen on the development
    /// half of XQuAD: the sentence with the answer should be among the first.
    pub(crate) fn of_sentence(&self) -> f64 {
        0.9 * self.coverage
            + 0.9 * self.near
            + 0.35 * self.soft
            + 0.6 * self.together
            + 0.5 * self.answers
            + 0.15 * self.beside.0
            + 0.1 * self.beside.1
            + 0.4 * self.refers
            + 0.1 * self.length
            + 0.5 * self.topic
            + 0.3 * self.bm25
    }
}

/// Returns the score of each part of a text, or of several texts of one search.
pub(crate) fn part_scores(question: &str, parts: &[&str]) -> Vec<PartScore> {
    part_scores_of(&[question], parts).remove(0)
}

/// Returns the scores of the parts for each of several questions. The parts are read once.
pub(crate) fn part_scores_of(questions: &[&str], parts: &[&str]) -> Vec<Vec<PartScore>> {
    let mut lexicon = Lexicon::new();
    let words: Vec<Vec<Word>> = parts.iter().map(|part| lexicon.read_parted(part)).collect();
    let read = ReadParts::of(&words, &lexicon);
    questions.iter().map(|question| scores_in(question, parts, &read, &mut lexicon)).collect()
}

/// What the parts of a text are to every question.
struct ReadParts<'a> {
    words: &'a [Vec<Word>],
    /// Subject of each part.
    topics: Vec<Topic>,
    /// Number of the parts that have a stem.
    holders: HashMap<Stem, f64>,
    /// All stems of the parts.
    stems: Vec<String>,
    /// Mean number of words of a part.
    mean: f64,
}

impl<'a> ReadParts<'a> {
    fn of(words: &'a [Vec<Word>], lexicon: &Lexicon) -> Self {
        let mut holders: HashMap<Stem, f64> = HashMap::new();
        for part in words {
            let once: HashSet<Stem> = part.iter().map(|word| word.stem).collect();
            once.into_iter().for_each(|stem| *holders.entry(stem).or_default() += 1.0);
        }
        let topic = |part: &Vec<Word>| lexicon.topic(part.iter().map(|word| word.stem));
        let count: usize = words.iter().map(Vec::len).sum();
        Self {
            words,
            topics: words.iter().map(topic).collect(),
            holders,
            stems: lexicon.stems().to_vec(),
            mean: (count as f64 / (words.len() as f64).max(1.0)).max(1.0),
        }
    }
}

fn scores_in(
    question: &str,
    parts: &[&str],
    read: &ReadParts<'_>,
    lexicon: &mut Lexicon,
) -> Vec<PartScore> {
    let asked = QuestionTerms::of(question, read, lexicon);
    let topic = lexicon.topic(asked.every.iter().copied());
    let mut scores: Vec<PartScore> = read
        .words
        .iter()
        .zip(parts)
        .zip(&read.topics)
        .map(|((part, text), own)| PartScore {
            topic: topic.nearness(own),
            answers: asked.wants.found_in(text, part, &asked.every),
            ..asked.score(part)
        })
        .collect();
    let coverage: Vec<f64> = scores.iter().map(|score| score.coverage).collect();
    for (at, score) in scores.iter_mut().enumerate() {
        let before = at.checked_sub(1).map_or(0.0, |before| coverage[before]);
        score.beside = (before, coverage.get(at + 1).copied().unwrap_or(0.0));
        score.refers = if begins_with_reference(parts[at]) { before } else { 0.0 };
    }
    scores
}

/// Returns for each question the values of the turns of one conversation; `own` has the scores of
/// the turns. A turn counts by the turns around it, as the talk about a subject takes several
/// turns, most of which do not name the subject; and by windows of turns, which may have all words
/// of the question although no turn has them.
pub(crate) fn turn_values(
    questions: &[&str],
    turns: &[&str],
    own: &[&[PartScore]],
) -> Vec<Vec<f64>> {
    let centers: Vec<usize> = (0..turns.len()).step_by(WINDOW_STEP).collect();
    let around =
        |at: usize| at.saturating_sub(WINDOW_REACH)..(at + WINDOW_REACH + 1).min(turns.len());
    let windows: Vec<String> = centers.iter().map(|at| turns[around(*at)].join(" ")).collect();
    let windows: Vec<&str> = windows.iter().map(String::as_str).collect();
    let values = |(scores, own): (Vec<PartScore>, &&[PartScore])| {
        let own: Vec<f64> = own.iter().map(|score| score.bm25).collect();
        let near = with_neighbours(&own);
        let of_window = |at: usize| {
            let shown = centers.iter().zip(&scores);
            let shown = shown.filter(|(center, _)| center.abs_diff(at) <= WINDOW_REACH);
            let (sum, count) = shown.fold((0.0, 0.0), |(sum, count), (_, score)| {
                (sum + score.bm25 + 0.5 * score.near + 0.3 * score.soft, count + 1.0)
            });
            sum / f64::max(count, 1.0)
        };
        let value = |(at, near): (usize, f64)| WINDOW * of_window(at) + NEIGHBOURS * near;
        near.into_iter().enumerate().map(value).collect()
    };
    part_scores_of(questions, &windows).into_iter().zip(own).map(values).collect()
}

/// Returns for each turn of a conversation the mean of the values around it, the nearer the more.
fn with_neighbours(own: &[f64]) -> Vec<f64> {
    let own: Vec<Option<f64>> = own.iter().copied().map(Some).collect();
    near_known(&own, 0.0)
}

/// Returns for each turn of a conversation the mean of the known values around it, the nearer the
/// more, and of a value 0 with the weight `unknown`.
pub(crate) fn near_known(own: &[Option<f64>], unknown: f64) -> Vec<f64> {
    let value = |at: usize| {
        let from = at.saturating_sub(TALK_REACH);
        let to = (at + TALK_REACH + 1).min(own.len());
        let (mut sum, mut all) = (0.0, unknown);
        for (other, value) in own.iter().enumerate().take(to).skip(from) {
            if let Some(value) = value {
                let weight = (-TALK_DECAY * other.abs_diff(at) as f64).exp();
                sum += weight * value;
                all += weight;
            }
        }
        if all > 0.0 { sum / all } else { 0.0 }
    };
    (0..own.len()).map(value).collect()
}

/// Returns the byte range of each word of a text, and the word's value for an answer: its weight if
/// the question has the word or a similar one, and more if it may be the answer.
pub(crate) fn word_values(question: &str, text: &str) -> Vec<(Range<usize>, f64)> {
    let mut lexicon = Lexicon::new();
    let words = vec![lexicon.read(text)];
    let asked = QuestionTerms::of(question, &ReadParts::of(&words, &lexicon), &mut lexicon);
    let ranges = word_ranges(text);
    let value = |(at, (range, word)): (usize, (Range<usize>, &Word))| {
        let own = asked.score(std::slice::from_ref(word));
        let raw = &text[range.clone()];
        let answers = asked.wants.found_in(raw, std::slice::from_ref(word), &asked.every);
        let is_name =
            at > 0 && raw.starts_with(char::is_uppercase) && !asked.every.contains(&word.stem);
        let named = if is_name { NAME_VALUE } else { 0.0 };
        (range, own.coverage + own.near.max(own.soft) + ANSWER_VALUE * answers + named)
    };
    ranges.into_iter().zip(&words[0]).enumerate().map(value).collect()
}

/// Value of a word that may be the answer, and of a name, relative to all words of the question.
const ANSWER_VALUE: f64 = 0.3;
const NAME_VALUE: f64 = 0.05;

/// The words of a question, compared with the words of the parts.
struct QuestionTerms {
    /// All words of the question, in order.
    every: Vec<Stem>,
    /// Content words of the question, each once, with their weights.
    terms: Vec<(Stem, f64)>,
    /// Sum of the weights.
    total: f64,
    /// For each content word, the degree to which each word of the parts is of the same subject.
    near: Vec<Vec<f64>>,
    /// For each content word, the degree to which each word of the parts is near in meaning.
    soft: Vec<Vec<f64>>,
    wants: Wanted,
    /// Mean number of words of a part.
    mean: f64,
}

impl QuestionTerms {
    fn of(question: &str, read: &ReadParts<'_>, lexicon: &mut Lexicon) -> Self {
        let (holders, all) = (&read.holders, read.words.len() as f64);
        let mut seen = HashSet::new();
        let content = content_words(question);
        let names = word_ranges(question).into_iter().map(|range| &question[range]);
        let parts: Vec<&str> = names.flat_map(identifier_words).collect();
        let words = content.iter().map(String::as_str).chain(parts);
        let stems = words.map(|word| lexicon.word(word).stem);
        let asked: Vec<Stem> = stems.filter(|stem| seen.insert(*stem)).collect();
        let every: Vec<Stem> = lexicon.read(question).iter().map(|word| word.stem).collect();
        let text = |stem: Stem| lexicon.stems().get(stem as usize).map_or("", String::as_str);
        let weight = |stem: &Stem| {
            let held = holders.get(stem).copied().unwrap_or(0.0);
            let among = bm25::rarity(all, held.max(0.5));
            let place = word_vectors::place(text(*stem));
            let listed = |place: usize| (place as f64 / FREQUENT_WORDS + 1.0).ln();
            RARITY_SHARES.0 * among + RARITY_SHARES.1 * place.map_or(RARITY_UNLISTED, listed)
        };
        let terms: Vec<(Stem, f64)> = asked.iter().map(|stem| (*stem, weight(stem))).collect();
        let others: Vec<TextWord<'_>> = read.stems.iter().map(|stem| TextWord::of(stem)).collect();
        let near = asked.iter().map(|stem| {
            let own = AskedWord::of(text(*stem), !holders.contains_key(stem));
            others.iter().map(|other| own.likeness(other)).collect()
        });
        let soft = asked.iter().map(|stem| {
            let own = word_vectors::place(text(*stem));
            let degree = |other: &TextWord<'_>| match (own, other.place) {
                (Some(own), Some(other)) => {
                    let cosine = word_vectors::cosine(own, other);
                    ((cosine - SOFT_COSINE) / (1.0 - SOFT_COSINE)).max(0.0)
                }
                _ => 0.0,
            };
            others.iter().map(degree).collect()
        });
        Self {
            near: near.collect(),
            soft: soft.collect(),
            total: terms.iter().map(|(_, weight)| weight).sum::<f64>().max(f64::MIN_POSITIVE),
            wants: Wanted::of(question),
            mean: read.mean,
            every,
            terms,
        }
    }

    /// Returns the scores of a part that depend on its own words only.
    fn score(&self, part: &[Word]) -> PartScore {
        let length = part.len() as f64 / self.mean;
        let mut score = PartScore { length: length.ln().clamp(-2.0, 2.0), ..PartScore::default() };
        for (at, (stem, weight)) in self.terms.iter().enumerate() {
            let count = part.iter().filter(|word| word.stem == *stem).count();
            if count > 0 {
                score.coverage += weight;
                score.bm25 += weight * bm25::saturated(count as f64, length);
                continue;
            }
            let best = |degrees: &[f64]| {
                let degree = |word: &Word| degrees.get(word.stem as usize).copied();
                part.iter().filter_map(degree).fold(0.0, f64::max)
            };
            score.near += weight * best(&self.near[at]);
            score.soft += weight * best(&self.soft[at]);
        }
        let beside: HashSet<(Stem, Stem)> =
            part.windows(2).map(|two| (two[0].stem, two[1].stem)).collect();
        let weight = |stem: Stem| self.terms.iter().find(|(own, _)| *own == stem).map(|t| t.1);
        let pairs = self.every.windows(2).filter(|two| beside.contains(&(two[0], two[1])));
        let both =
            |two: &[Stem]| (weight(two[0]).unwrap_or(0.0) + weight(two[1]).unwrap_or(0.0)) / 2.0;
        score.together = pairs.map(both).sum::<f64>();
        for value in [
            &mut score.coverage,
            &mut score.near,
            &mut score.soft,
            &mut score.together,
            &mut score.bm25,
        ] {
            *value /= self.total;
        }
        score
    }
}

fn begins_with_reference(text: &str) -> bool {
    let first = word_ranges(text).into_iter().next().map(|range| text[range].to_lowercase());
    first.is_some_and(|word| REFERRING.contains(&word.as_str()))
}

/// What the answer to a question is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Number,
    Time,
    Name,
    Text,
}

/// Beginnings of questions for a time, a number and a name; a question contains one of them.
const FOR_TIME: &str = "when |what year|which year|what date|what day|what month|what time|how long|what century|what decade";
const FOR_NUMBER: &str = "how many|how much|how old|how far|how large|how big|how tall|how high|how often|how fast|what number|what percent|number of|population";
const FOR_NAME: &str = "who |whose |whom |where |which |name of|what city|what country|what state|what company|what team|what person";

impl Wanted {
    fn of(question: &str) -> Self {
        let lower = question.to_lowercase();
        let has = |list: &str| list.split('|').any(|words| lower.contains(words));
        match () {
            () if has(FOR_TIME) => Self::Time,
            () if has(FOR_NUMBER) => Self::Number,
            () if has(FOR_NAME) => Self::Name,
            () => Self::Text,
        }
    }

    /// Returns whether a part has such an answer, from 0 to 1. What the question itself names is
    /// not the answer.
    fn found_in(self, text: &str, part: &[Word], question: &[Stem]) -> f64 {
        let mut new = part.iter().filter(|word| !question.contains(&word.stem));
        match self {
            Self::Number => f64::from(u8::from(new.any(|word| word.marks.number))),
            Self::Time => f64::from(u8::from(new.any(|word| word.marks.time || word.marks.digits))),
            Self::Name => {
                // A sentence begins with a capital letter, whatever its first word is.
                let later = word_ranges(text).into_iter().zip(part).skip(1);
                let names = later.filter(|(range, word)| {
                    text[range.clone()].starts_with(char::is_uppercase)
                        && !question.contains(&word.stem)
                });
                (names.count() as f64).min(NAMES_ENOUGH) / NAMES_ENOUGH
            }
            Self::Text => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(question: &str, parts: &[&str]) -> usize {
        let scores = part_scores(question, parts);
        let values: Vec<f64> = scores.iter().map(PartScore::of_sentence).collect();
        (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b])).expect("a part")
    }

    #[test]
    fn the_sentence_with_the_answer_comes_first() {
        for (question, parts, wanted) in [
            (
                "How many sails does the sloop have?",
                &["The sloop is old.", "The sloop has two sails.", "Sails are cheap."][..],
                1,
            ),
            (
                "When did Ada move to Lisbon?",
                &["Ada likes Lisbon.", "She moved there in March 2021.", "The river is wide."],
                1,
            ),
            (
                "Who repaired the boat?",
                &["The boat was repaired.", "The boat leaked, and Bea repaired it.", "Boats leak."],
                1,
            ),
            ("Which dentist do you see?", &["I swim.", "My teeth are checked by Dr. Roe."], 1),
        ] {
            assert_eq!(best(question, parts), wanted, "{question}");
        }
    }

    #[test]
    fn turns_count_by_the_turns_around_them() {
        let turns = ["The budget is low.", "Yes.", "Twenty euros.", "Shall we eat?", "Soup."];
        let question = "What about the budget?";
        let scores = part_scores(question, &turns);
        let values = turn_values(&[question], &turns, &[&scores]).remove(0);
        assert!(values[1] > values[3] && values[2] > values[4], "{values:?}");
        assert!(turn_values(&[question], &[], &[&[]])[0].is_empty());
    }
}
