//! Ranks entries of recall storage for a question, and returns each entry's best passage and the
//! components of its score.
//!
//! If the question names no speaker and no time, and no entry has a neighbour, only words decide
//! the order of the entries.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::entry::{EntryWords, RecallEntry, speakers};
use super::formula::{self, ScorePart, VERBATIM_ALL, VERBATIM_SAME, Values, Weights};
use super::newer::newer_first;
use super::passage_match::{coverage, passage, together, whole};
use super::question::{QuestionWords, content_words};
use super::related::Alike;
use super::words::Lexicon;
use crate::limits::RECALL_NEAR_MAX;
use crate::memory::recall_vector::NearPassage;
use crate::search::query::RecallMode;
use crate::search::recall::RecallHit;

/// Maximum difference between the positions of two messages that count as consecutive. The
/// difference may exceed 1, because a notice or a copy may be between the messages.
const BESIDE_SEQS_MAX: u64 = 2;
/// Pause in milliseconds after which another conversation begins, for messages without a day.
const SESSION_GAP_MS: u64 = 4 * 3_600_000;
/// Length in tokens up to which an entry counts fully in the scores of its neighbours; a longer
/// entry counts less.
const NEIGHBOUR_TOKENS: f64 = 96.0;
/// Offsets from an entry to the neighbours whose words count in the entry's score; -2 is the entry
/// two before.
const BESIDE: [isize; 3] = [-2, -1, 1];
/// Length in tokens below which all entries count as equally short.
const SHORT_TOKENS: f64 = 32.0;
/// Number of words up to which a query counts as verbatim in an entry only by [`VERBATIM_FEW`],
/// since many entries contain the same two or three words in a row.
const FEW_WORDS: usize = 3;
const VERBATIM_FEW: f64 = 0.2;
/// Values of [`ScorePart::Own`] and [`ScorePart::Others`] for a question about the user.
const ABOUT_USER: (f64, f64) = (1.3, 3.0);
/// Value of [`ScorePart::Asks`] for a passage that ends with a question and also states something.
const ASKS_TOO: f64 = 0.3;
/// Factor of [`ScorePart::Asks`] in a conversation without names, where a person tells facts in
/// questions to the assistant.
const ASKS_UNNAMED: f64 = 0.5;
/// Number of names in a passage beyond which further names do not change the score.
const NAMES_ENOUGH: usize = 3;

/// The input of a ranking of entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankInput {
    /// The question.
    pub query: String,
    /// Phrases that are quoted in the query.
    pub quoted: Vec<String>,
    /// Rarity of each content word of `query`, in the order of [`content_words`]; `None` for a word
    /// that the ArangoSearch view does not contain yet.
    pub rarity: Vec<Option<f64>>,
    /// The entries to rank and the messages next to these entries.
    pub rows: Vec<RecallEntry>,
    /// Positions of the entries that the search found. Another entry of `rows` is a result only if
    /// it is next to a found entry.
    pub hits: HashSet<u64>,
    /// Passages near the question by their vectors, nearest first; empty in a search without
    /// vectors.
    pub near: Vec<NearPassage>,
}

/// Returns the ranked entries, best first; of entries with equal scores the newest is first. For a
/// question about the present state, the newer of two conflicting statements comes first.
pub(crate) fn ranked(material: &mut RankInput, mode: RecallMode) -> Vec<RecallHit> {
    material.rows.sort_by_key(|row| row.seq);
    material.rows.dedup_by_key(|row| row.seq);
    let mut lexicon = Lexicon::new();
    let asked = question(material, &mut lexicon);
    let mut reads: Vec<EntryWords<'_>> =
        material.rows.iter().map(|row| EntryWords::of(row, &asked, &mut lexicon)).collect();
    let words = reads.iter().flat_map(|read| &read.parts).flat_map(|part| &part.words);
    let alike = Alike::of(&asked, &lexicon, words);
    reads.iter_mut().for_each(|read| read.count_terms(&alike));
    let named = reads.iter().any(|read| read.name.is_some());
    let meaning = Meaning::of(&material.near, mode, named);
    let scene = Scene::of(&asked, &reads, &meaning);
    let mut list: Vec<Ranked> = Vec::new();
    for (at, read) in reads.iter().enumerate() {
        let is_hit = material.hits.contains(&read.row.seq);
        let may_stand = !meaning.alone && !read.row.context;
        if is_hit || (may_stand && scene.beside_hit(at, &material.hits)) {
            let (part, entry) = scene.best(at);
            list.push((at, part, entry));
        }
    }
    if let RecallMode::Vector { similarity_min: Some(similarity_min) } = mode {
        list.retain(|(_, _, entry)| entry.score * 1000.0 >= f64::from(similarity_min));
    }
    let age = |ranked: &Ranked| reads[ranked.0].row.age();
    list.sort_by(|a, b| b.2.score.total_cmp(&a.2.score).then_with(|| age(b).cmp(&age(a))));
    if !meaning.alone {
        list = words_first(list, &reads);
    }
    if asked.about_now && !meaning.alone {
        let order: Vec<(usize, usize)> = list.iter().map(|(at, part, _)| (*at, *part)).collect();
        for (from, to) in newer_first(&asked, &reads, &order) {
            let moved = list.remove(from);
            list.insert(to, moved);
        }
    }
    list.into_iter().map(|(_, _, entry)| entry).collect()
}

/// Gives the first [`WORDS_PLACES`] places to entries that have a word of the question, or a word
/// like one. Other entries are in the list because of their neighbours. In conversations with
/// names, the reply to a question often has no word of the question, so the order stays.
fn words_first(list: Vec<Ranked>, reads: &[EntryWords<'_>]) -> Vec<Ranked> {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for ranked in list {
        let read = &reads[ranked.0];
        let stays = read.name.is_some() || read.holds_a_term();
        if stays && first.len() < WORDS_PLACES { first.push(ranked) } else { rest.push(ranked) }
    }
    first.extend(rest);
    first
}

/// Number of places for entries with words of the question; a page has at most as many results.
const WORDS_PLACES: usize = 20;

/// Index of an entry, index of the entry's best passage, and the result for the entry.
type Ranked = (usize, usize, RecallHit);

fn question(material: &RankInput, lexicon: &mut Lexicon) -> QuestionWords {
    let words = content_words(&material.query);
    let known = |word: &str| {
        let at = words.iter().position(|known| known == word)?;
        material.rarity.get(at).copied().flatten()
    };
    let rarity = |word: &str| known(word).filter(|r| *r > 0.0);
    QuestionWords::read(
        &material.query,
        &material.quoted,
        rarity,
        &speakers(&material.rows),
        lexicon,
    )
}

/// Similarities of passages to the question, from the vector search.
struct Meaning {
    /// Similarity of each passage to the question, keyed by the position of the passage's message
    /// and the passage's first byte.
    near: HashMap<(u64, usize), f64>,
    /// Byte range of each entry's nearest passage and its similarity to the question, keyed by the
    /// entry's position.
    best: HashMap<u64, (Range<usize>, f64)>,
    weights: Weights,
    alone: bool,
}

impl Meaning {
    /// Computes each passage's similarity as a share of the best passage's similarity. If the list
    /// of passages is full, the last passage's similarity is subtracted from all values first,
    /// because further passages, whose similarity is unknown, count as 0. In a search by vectors
    /// only, a passage's similarity is its cosine.
    fn of(near: &[NearPassage], mode: RecallMode, named: bool) -> Self {
        let alone = matches!(mode, RecallMode::Vector { .. });
        let least = near.last().filter(|_| near.len() >= RECALL_NEAR_MAX && !alone);
        let floor = least.map_or(0.0, |passage| passage.similarity.max(0.0));
        let most = near.first().map_or(0.0, |passage| passage.similarity - floor);
        let unit = if alone { 1.0 } else { most.max(f64::MIN_POSITIVE) };
        let mut all = HashMap::with_capacity(near.len());
        let mut best: HashMap<u64, (Range<usize>, f64)> = HashMap::new();
        for passage in near {
            let value = (passage.similarity - floor).max(0.0) / unit;
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let (start, end) = (place(passage.start), place(passage.end));
            all.insert((passage.seq, start), value);
            let most = best.entry(passage.seq).or_insert((start..end, value));
            if value > most.1 {
                *most = (start..end, value);
            }
        }
        let weights = match (alone, near.is_empty()) {
            (true, _) => formula::vector(),
            (false, true) => formula::text(),
            (false, false) => formula::hybrid(named),
        };
        Self { near: all, best, weights, alone }
    }
}

/// The question's matches with all entries, because the score of an entry also depends on the
/// matches of its neighbours.
struct Scene<'a> {
    asked: &'a QuestionWords,
    meaning: &'a Meaning,
    reads: &'a [EntryWords<'a>],
    /// Match of the question with each passage, as one list per entry.
    matches: Vec<Vec<f64>>,
    /// Match of the question with each entry's best passage.
    best: Vec<f64>,
    /// Match of the question with each whole entry, as a share of the best entry's match.
    wholes: Vec<f64>,
    /// Whether an entry belongs to the conversation of the entry before it.
    follows: Vec<bool>,
    /// Share of the question's words that the conversation of each entry contains.
    sessions: Vec<f64>,
}

impl<'a> Scene<'a> {
    fn of(asked: &'a QuestionWords, reads: &'a [EntryWords<'a>], meaning: &'a Meaning) -> Self {
        let matches: Vec<Vec<f64>> = reads
            .iter()
            .map(|read| read.parts.iter().map(|part| passage(asked, part)).collect())
            .collect();
        let best: Vec<f64> =
            matches.iter().map(|m| m.iter().copied().fold(0.0, f64::max)).collect();
        let words: usize = reads.iter().map(EntryWords::length).sum();
        let mean_words = words as f64 / reads.len().max(1) as f64;
        let wholes = shares(reads.iter().map(|read| whole(asked, read, mean_words)).collect());
        let begins: Vec<bool> =
            (0..reads.len()).map(|at| at == 0 || new_session(&reads[at - 1], &reads[at])).collect();
        let follows = (0..reads.len())
            .map(|at| {
                !begins[at]
                    && reads[at].row.dialog
                    && reads[at - 1].row.dialog
                    && reads[at].row.seq - reads[at - 1].row.seq <= BESIDE_SEQS_MAX
            })
            .collect();
        Self {
            sessions: sessions(asked, reads, &begins),
            asked,
            meaning,
            reads,
            matches,
            best,
            wholes,
            follows,
        }
    }

    /// Returns the index of the entry that is `steps` entries after the entry `at`, or before it if
    /// `steps` is negative. Returns `None` unless both entries belong to one conversation.
    fn neighbour(&self, at: usize, steps: isize) -> Option<usize> {
        let to = at.checked_add_signed(steps).filter(|to| *to < self.reads.len())?;
        let between = at.min(to) + 1..=at.max(to);
        self.follows[between].iter().all(|follows| *follows).then_some(to)
    }

    fn beside_hit(&self, at: usize, hits: &HashSet<u64>) -> bool {
        let hit = |steps| {
            self.neighbour(at, steps).is_some_and(|to| hits.contains(&self.reads[to].row.seq))
        };
        hit(-1) || hit(1)
    }

    /// Returns how much an entry counts in the scores of its neighbours, by the entry's length.
    fn nearness(&self, at: usize) -> f64 {
        (NEIGHBOUR_TOKENS / self.reads[at].tokens.max(1.0)).min(1.0)
    }

    /// Returns the question's match with a neighbour of an entry, times the neighbour's weight.
    fn from(&self, at: usize, steps: isize) -> f64 {
        self.neighbour(at, steps).map_or(0.0, |to| self.best[to] * self.nearness(to))
    }

    /// Returns the similarity of the question to a neighbour of an entry, times the neighbour's
    /// weight.
    fn likeness_from(&self, at: usize, steps: isize) -> f64 {
        let like = |to: usize| {
            let best = self.meaning.best.get(&self.reads[to].row.seq);
            best.map_or(0.0, |(_, like)| *like) * self.nearness(to)
        };
        self.neighbour(at, steps).map_or(0.0, like)
    }

    /// Returns, for each word of the question, the largest weight among those neighbours of the
    /// entry that contain the word, or 0 if none contains it. A short entry counts as one of its
    /// own neighbours.
    fn held_beside(&self, at: usize) -> Vec<f64> {
        let own = Some(at).filter(|at| self.nearness(*at) >= 1.0);
        let beside: Vec<usize> =
            BESIDE.iter().filter_map(|steps| self.neighbour(at, *steps)).chain(own).collect();
        let held = |term: usize| {
            let degree = |to: &usize| self.reads[*to].count(term).min(1.0) * self.nearness(*to);
            beside.iter().map(degree).fold(0.0, f64::max)
        };
        (0..self.asked.terms.len()).map(held).collect()
    }

    /// Returns the index of an entry's best passage, and the search result for the entry.
    fn best(&self, at: usize) -> (usize, RecallHit) {
        let read = &self.reads[at];
        let common = self.common(at);
        let beside = self.held_beside(at);
        let mut best: Option<(usize, Values, f64)> = None;
        for part in 0..read.parts.len() {
            let values = self.values(at, part, &common, &beside);
            let score = values.score(&self.meaning.weights);
            if best.as_ref().is_none_or(|(_, _, top)| score > *top) {
                best = Some((part, values, score));
            }
        }
        let (part, mut values, mut score) = best.expect("an entry has at least one passage");
        let row: &RecallEntry = read.row;
        let mut passage = read.parts[part].range.clone();
        // Only the beginning of a very long text is scored, but the nearest passage may be anywhere
        // in the text.
        if let Some((place, like)) = self.meaning.best.get(&row.seq).filter(|_| self.meaning.alone)
        {
            values.set(ScorePart::Similarity, *like);
            (passage, score) = (place.clone(), values.score(&self.meaning.weights));
        }
        let parts = values.weighed(&self.meaning.weights);
        let (passage, parts) = (Some(passage), Some(parts));
        let id = row.id.clone();
        (part, RecallHit { id, seq: row.seq, score, passage, parts, similarity: None })
    }

    /// Returns those components of the score that are equal for all passages of an entry.
    fn common(&self, at: usize) -> Values {
        let (asked, read) = (self.asked, &self.reads[at]);
        let one = |holds: bool| if holds { 1.0 } else { 0.0 };
        // A text that `write_recall` stored is no statement of the assistant.
        let unnamed = read.name.is_none() && read.row.role != "user" && read.row.dialog;
        let speaker = read.name.as_ref().is_some_and(|name| asked.named.contains(name));
        let mut values = Values::default();
        values.set(ScorePart::Whole, self.wholes[at]);
        values.set(ScorePart::Speaker, one(speaker));
        values.set(ScorePart::Assistant, one(unnamed));
        values.set(ScorePart::AssistantToFirst, one(unnamed && asked.first_person));
        values.set(ScorePart::AssistantAsked, one(unnamed && asked.about_reply));
        values.set(ScorePart::Session, self.sessions[at]);
        if let (Some(moment), Some(day)) = (&asked.moment, read.said) {
            let said = moment.compare(day);
            values.set(ScorePart::SaidDay, said.day);
            values.set(ScorePart::SaidMonth, said.month);
            values.set(ScorePart::SaidAfter, said.after);
            values.set(ScorePart::SaidYear, said.year);
        }
        let length = read.tokens.max(SHORT_TOKENS).ln_1p() / 8.0;
        values.set(ScorePart::WholeLength, length);
        values.set(
            ScorePart::UserLength,
            one(read.name.is_none() && read.row.role == "user") * length,
        );
        let is_sentence = asked.verbatim.len() > 1;
        let verbatim = if read.row.content.trim() == asked.text {
            VERBATIM_SAME
        } else if read.is(&asked.verbatim) {
            VERBATIM_ALL
        } else {
            let value = if asked.verbatim.len() > FEW_WORDS { 1.0 } else { VERBATIM_FEW };
            one(is_sentence && read.holds(&asked.verbatim)) * value
        };
        values.set(ScorePart::Verbatim, verbatim);
        let quoted = asked.quoted.iter().filter(|phrase| read.holds(phrase)).count();
        values.set(ScorePart::Quoted, quoted as f64);
        values
    }

    fn values(&self, at: usize, part: usize, common: &Values, beside: &[f64]) -> Values {
        let (asked, read) = (self.asked, &self.reads[at]);
        let own = self.matches[at][part];
        let words = &read.parts[part];
        let one = |holds: bool| if holds { 1.0 } else { 0.0 };
        let held = |term: usize| words.counts[term].min(1.0).max(beside[term]);
        let mut values = *common;
        values.set(ScorePart::Coverage, coverage(asked, held));
        values.set(ScorePart::Together, together(asked, words));
        let like = self.meaning.near.get(&(read.row.seq, words.range.start));
        values.set(ScorePart::Similarity, like.copied().unwrap_or(0.0));
        // In a long entry, messages before the entry count only in the score of the first passage,
        // and messages after the entry count only in the score of the last passage.
        let short = self.nearness(at) >= 1.0;
        if short || part == 0 {
            values.set(ScorePart::BeforePrevious, self.from(at, -2));
        }
        if short || part + 1 == read.parts.len() {
            values.set(ScorePart::AfterNext, self.from(at, 2));
            values.set(ScorePart::NextSimilarity, self.likeness_from(at, 1));
        }
        let question = self.neighbour(at, -1).filter(|to| self.reads[*to].asks);
        if part == 0 && question.is_some() {
            values.set(ScorePart::Answers, self.from(at, -1));
            values.set(ScorePart::AnswersSimilarity, self.likeness_from(at, -1));
        }
        values.set(ScorePart::User, one(asked.first_person && read.row.role == "user") * own);
        let asks = if words.asks_only { 1.0 } else { ASKS_TOO };
        let asks = if read.name.is_none() { asks * ASKS_UNNAMED } else { asks };
        values.set(ScorePart::Asks, one(words.asks) * asks * self.nearness(at));
        let time = words.words.iter().any(|word| word.marks.time);
        let number = words.words.iter().any(|word| word.marks.number);
        values.set(ScorePart::Time, one(asked.wants_time && time));
        let digits = words.words.iter().any(|word| word.marks.digits);
        let has_number = (asked.wants_number && number) || (asked.is_keywords && digits);
        values.set(ScorePart::Number, one(has_number));
        values.set(ScorePart::Names, words.names.min(NAMES_ENOUGH) as f64 / NAMES_ENOUGH as f64);
        let unnamed = read.name.is_none();
        let (own, others) = if asked.about_user { ABOUT_USER } else { (1.0, 1.0) };
        values.set(ScorePart::Own, own * one(unnamed && words.is_own));
        values.set(ScorePart::Others, others * one(unnamed && words.has_others && !words.is_own));
        // Between persons, a question that repeats the words of the asked question is no evidence.
        let is_evidence = read.name.is_none() || !words.asks_only;
        let topic = one(is_evidence) * words.topic.nearness(&asked.topic);
        values.set(ScorePart::Topic, topic * asked.topic_share);
        values.set(ScorePart::Length, (words.words.len() as f64).ln_1p() / 4.0);
        values
    }
}

/// Returns values as shares of the largest value; if the largest value is zero, all shares are
/// zero.
fn shares(mut values: Vec<f64>) -> Vec<f64> {
    let most = values.iter().copied().fold(0.0, f64::max);
    if most > 0.0 {
        values.iter_mut().for_each(|value| *value /= most);
    }
    values
}

fn new_session(before: &EntryWords<'_>, now: &EntryWords<'_>) -> bool {
    match (before.day, now.day) {
        (Some(before), Some(now)) => before != now,
        (Some(_), None) | (None, Some(_)) => false,
        (None, None) => now.row.created_ms.saturating_sub(before.row.created_ms) > SESSION_GAP_MS,
    }
}

/// Returns the share of the question's words that each entry's conversation contains; 0 for all
/// entries if there is only one conversation.
fn sessions(asked: &QuestionWords, reads: &[EntryWords<'_>], begins: &[bool]) -> Vec<f64> {
    let starts: Vec<usize> = (0..begins.len()).filter(|at| begins[*at]).collect();
    if starts.len() < 2 {
        return vec![0.0; begins.len()];
    }
    let ends = starts.iter().skip(1).copied().chain([begins.len()]);
    let mut found = Vec::with_capacity(begins.len());
    for (start, end) in starts.iter().copied().zip(ends) {
        let inside = &reads[start..end];
        let held = |term: usize| {
            if inside.iter().any(|read| read.count(term) >= 1.0) { 1.0 } else { 0.0 }
        };
        let all = coverage(asked, held);
        found.extend(inside.iter().map(|_| all));
    }
    found
}
