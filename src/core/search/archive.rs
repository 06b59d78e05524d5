//! Ranks the chunks of the archive that a search found by words or by vectors, and reports the
//! named parts of each chunk's score.
//!
//! For each chunk, the database returns the BM25 score and the chunk's tokens. The weights of the
//! query's words are derived from the BM25 scores, so that all parts of a score have the scale of
//! BM25. To read the words' weights from the ArangoSearch view, the search would need another
//! database query.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::bm25::{rarity, saturated};
use super::nearest::NearResult;
use super::rank::{AskedWord, TextWord, Topic};
use crate::limits::ARCHIVAL_TAIL_ROWS_MAX;
use crate::memory::archive::Metric;

/// Number of best chunks whose BM25 scores determine the weights of the query's words.
const ARCHIVAL_WEIGHED: usize = 60;
/// Maximum number of query words that get a weight in the ranking.
const RANKED_WORDS_MAX: usize = 32;

/// Weights of the score's other parts, relative to 1 for BM25, tuned on the development half of a
/// question set. If any one of these parts is left out, the recall of the first page of results
/// falls by half a percentage point.
const BEGINNING: f64 = 0.6;
const NEIGHBOURS: f64 = 0.5;
const RELATED: f64 = 0.8;
const TOGETHER: f64 = 0.5;
const TOPIC: f64 = 2.0;
/// Factor of the degree to which a word counts as a query word because their meanings are near. In
/// a document such a word says more than in a conversation. Chosen, like the weight of the topic,
/// on Natural Questions and on questions about nine documents of a user.
const NEAR_MEANING: f64 = 2.5;
/// Minimum score of a chunk without a word of the query, as a share of the best score: next to a
/// chunk with the words themselves, similar words seldom answer the question.
const SIMILAR_SHARE_MIN: f64 = 0.8;
/// Number of tokens from a chunk's beginning at which the extra weight of a word falls to 1/e.
const BEGINNING_TOKENS: f64 = 8.0;
/// Number of initial letters that two words must share to count as related (`sing`, `singer`).
const RELATED_LETTERS: usize = 4;
/// Maximum distance in tokens at which query words count as close together.
const TOGETHER_TOKENS: usize = 20;
/// Weight of the nearness of vectors in a sum of z-scores, relative to 1 for words. In tests,
/// larger weights found more, but the embedding model in these tests had been trained on questions
/// of the same kind.
const NEARNESS: f64 = 2.0;
/// Lower bound for the z-score of nearness. Without this bound, no match of words could outweigh a
/// distant vector.
const NEARNESS_MIN: f64 = -2.0;
/// The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009).
const RANK_CONSTANT: f64 = 60.0;
/// Strength of the ridge (regularization) that pulls each query word's weight towards the mean
/// weight.
const RIDGE: f64 = 0.01;

/// How two result lists are fused.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Fusion {
    /// Sum of z-scores, weighted.
    #[default]
    ZScore,
    /// Reciprocal rank fusion: ranks alone.
    Rrf,
}

/// The result of a search of the archive by words.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct WordResult {
    /// All tokens of the query, in order.
    pub asked: Vec<String>,
    /// Those tokens of the query that the search looked for.
    pub wanted: Vec<String>,
    /// The best chunks that the ArangoSearch view found.
    pub rows: Vec<WordRow>,
    /// Recently ingested chunks, which the ArangoSearch view may not contain yet.
    #[serde(default)]
    pub tail: Tail,
    /// Whether the ArangoSearch view contains an identifier of the query as a phrase.
    #[serde(default)]
    pub identified: bool,
}

/// The most recently ingested chunks, which the ArangoSearch view may not contain yet.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Tail {
    /// Tokens of each identifier in the query.
    pub phrases: Vec<Vec<String>>,
    /// Number of recently ingested chunks that were read.
    pub looked: u64,
    /// The recently ingested chunks that contain a word of the query.
    pub rows: Vec<WordRow>,
}

/// A chunk found by words.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct WordRow {
    /// Document key.
    pub key: String,
    /// Key of the chunk's document.
    pub doc_id: String,
    /// Index of the parent passage's first chunk; `None` for a chunk without a parent passage.
    pub parent: Option<u64>,
    /// BM25 score of the chunk; `None` while the ArangoSearch view does not contain the chunk.
    pub score: Option<f64>,
    /// The first tokens of the chunk, with a blank between two of them: a search reads a hundred
    /// chunks, and a list would be as many texts as there are tokens.
    pub words: String,
    /// Cosine similarity or distance between the chunk's vector and the query's vector, if the
    /// search has a vector.
    pub similarity: Option<f64>,
}

/// A chunk with its score.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedChunk {
    /// Document key.
    pub key: String,
    /// The parent passage around the chunk: key of the document, and index of the passage's first
    /// chunk.
    pub parent: Option<(String, u64)>,
    /// The chunk's total score, by which the list is sorted.
    pub score: f64,
    /// The parts of the chunk's score.
    pub parts: ScoreParts,
}

/// The parts of a chunk's score. The parts about words add up to `words`. The score is the fusion
/// of `words` and `nearness`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScoreParts {
    /// BM25 score of the chunk.
    pub bm25: f64,
    /// Score for words near the beginning of the chunk.
    pub beginning: f64,
    /// Score for pairs of words that are neighbours both in the query and in the chunk.
    pub neighbours: f64,
    /// Score for query words that are not in the chunk, if the chunk contains a related word: a
    /// word with the same beginning, a similar meaning or a typing error.
    pub related: f64,
    /// Score for query words that are close together in the chunk. Of several such groups of words,
    /// the group with the largest total weight counts.
    pub together: f64,
    /// Score for a chunk with the subject of the query.
    pub topic: f64,
    /// Sum of the parts of the score that come from words, before it is fused with the nearness.
    pub words: f64,
    /// Cosine similarity of the chunk's vector and the query's vector, or their distance with the
    /// metric `l2`; `None` if the vectors were not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearness: Option<f64>,
}

impl WordResult {
    /// Returns whether the archive may contain further recently ingested chunks, beyond the maximum
    /// number that a search reads.
    pub fn tail_capped(&self) -> bool {
        self.tail.looked >= ARCHIVAL_TAIL_ROWS_MAX as u64
    }

    /// Returns whether an identifier of the query was found as a phrase, which limits the results
    /// to chunks with an identifier.
    pub fn is_identified(&self) -> bool {
        self.all().1
    }

    /// Returns the chunks that were found in the ArangoSearch view and among the recently ingested
    /// chunks, and whether any of them contains an identifier that occurs in the query's text. If
    /// so, only chunks with such an identifier are returned.
    fn all(&self) -> (Vec<&WordRow>, bool) {
        let shown: HashSet<&str> = self.rows.iter().map(|row| row.key.as_str()).collect();
        let fresh = self.tail.rows.iter().filter(|row| !shown.contains(row.key.as_str()));
        let whole = |row: &&WordRow| self.tail.phrases.iter().any(|p| holds(&row.words, p));
        let identified: Vec<&WordRow> = fresh.clone().filter(whole).collect();
        match (self.identified, identified.is_empty()) {
            (true, _) => (self.rows.iter().chain(identified).collect(), true),
            (false, false) => (identified, true),
            (false, true) => (self.rows.iter().chain(fresh).collect(), false),
        }
    }
}

fn holds(words: &str, phrase: &[String]) -> bool {
    let words: Vec<&str> = tokens(words).collect();
    !phrase.is_empty() && words.windows(phrase.len()).any(|window| window == phrase)
}

fn tokens(words: &str) -> impl Iterator<Item = &str> {
    words.split(' ').filter(|word| !word.is_empty())
}

/// Number of a word among all words of a search.
type WordNumber = u32;

/// Numbers the words of a search's query and chunks, so that words are compared by number.
#[derive(Default)]
struct Numbers<'a> {
    known: HashMap<&'a str, WordNumber>,
    words: Vec<&'a str>,
}

impl<'a> Numbers<'a> {
    fn of(&mut self, word: &'a str) -> WordNumber {
        let next = WordNumber::try_from(self.words.len()).unwrap_or(WordNumber::MAX);
        let number = *self.known.entry(word).or_insert(next);
        if number == next {
            self.words.push(word);
        }
        number
    }

    fn all(&mut self, words: &'a str) -> Vec<WordNumber> {
        tokens(words).map(|word| self.of(word)).collect()
    }
}

/// A found chunk and the numbers of its words.
struct ReadRow<'a> {
    row: &'a WordRow,
    words: Vec<WordNumber>,
}

/// A word of the query and its weight.
struct Weighed<'a> {
    word: &'a str,
    number: WordNumber,
    weight: f64,
}

/// Ranks the chunks, best first. Of several chunks inside one parent passage, only the best is
/// listed. A chunk with similar words only is listed if its score is near the best one. If
/// identifiers were found, the nearness of vectors is ignored, because similar
/// identifiers name different things. The argument `chunks` is the number of chunks in the agent's
/// archive.
pub fn ranked(
    found: &WordResult,
    near: Option<&NearResult>,
    metric: Metric,
    fusion: Fusion,
    chunks: u64,
) -> Vec<RankedChunk> {
    let (rows, identified) = found.all();
    let near = near.filter(|_| !identified);
    let mut numbers = Numbers::default();
    let rows: Vec<ReadRow<'_>> =
        rows.into_iter().map(|row| ReadRow { row, words: numbers.all(&row.words) }).collect();
    let weights = weights(&found.wanted, &rows, chunks, &mut numbers);
    let question = ChunkScorer::of(found, &rows, &weights, &mut numbers);
    let mut list: Vec<RankedChunk> = Vec::new();
    let usual = mean(rows.iter().map(|row| row.words.len() as f64)).max(1.0);
    for ReadRow { row, words } in &rows {
        let mut parts = question.parts(words);
        parts.bm25 = row.score.unwrap_or_else(|| bm25(words, &weights, usual));
        parts.words = parts.bm25
            + parts.beginning
            + parts.neighbours
            + parts.related
            + parts.together
            + parts.topic;
        parts.nearness = row.similarity.filter(|_| near.is_some());
        let parent = row.parent.map(|first| (row.doc_id.clone(), first));
        list.push(RankedChunk { key: row.key.clone(), parent, score: 0.0, parts });
    }
    let there: HashSet<&str> = rows.iter().map(|read| read.row.key.as_str()).collect();
    for passage in near.and_then(|n| n.rows.as_deref()).unwrap_or_default() {
        if !there.contains(passage.key.as_str()) {
            let parts = ScoreParts { nearness: passage.similarity, ..ScoreParts::default() };
            let parent = passage.parent.map(|parent| (passage.doc_id.clone(), parent.first));
            list.push(RankedChunk { key: passage.key.clone(), parent, score: 0.0, parts });
        }
    }
    let scores = match (near.is_some(), fusion) {
        (false, _) => list.iter().map(|one| one.parts.words).collect(),
        (true, Fusion::ZScore) => z_sums(&list, metric),
        (true, Fusion::Rrf) => rank_sums(&list, metric),
    };
    for (one, score) in list.iter_mut().zip(scores) {
        one.score = score;
    }
    list.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.key.cmp(&b.key)));
    if near.is_none() {
        let least = list.first().map_or(0.0, |best| best.score * SIMILAR_SHARE_MIN);
        list.retain(|one| one.parts.bm25 > 0.0 || one.score >= least);
    }
    let mut parents = HashSet::new();
    list.retain(|one| one.parent.clone().is_none_or(|parent| parents.insert(parent)));
    list
}

/// Converts a cosine or distance to a value that is larger for nearer chunks.
fn nearness(parts: &ScoreParts, metric: Metric) -> Option<f64> {
    parts.nearness.map(|value| match metric {
        Metric::Cosine => value,
        Metric::L2 => -value,
    })
}

/// Returns `z(words) + 2 · z(nearness)` for each chunk; a chunk without a compared vector counts as
/// the farthest.
fn z_sums(list: &[RankedChunk], metric: Metric) -> Vec<f64> {
    let words = standard(list.iter().map(|one| one.parts.words).collect());
    let near: Vec<Option<f64>> = list.iter().map(|one| nearness(&one.parts, metric)).collect();
    let farthest = near.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let farthest = if farthest.is_finite() { farthest } else { 0.0 };
    let near = standard(near.into_iter().map(|n| n.unwrap_or(farthest)).collect());
    let sum = |(words, near): (f64, f64)| words + NEARNESS * near.max(NEARNESS_MIN);
    words.into_iter().zip(near).map(sum).collect()
}

/// Returns the standard deviation of the values.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let middle = mean(values.iter().copied());
    mean(values.iter().map(|value| (value - middle).powi(2))).sqrt()
}

/// Returns the z-scores of the values, which are all 0 if the values are equal.
pub(crate) fn standard(values: Vec<f64>) -> Vec<f64> {
    let middle = mean(values.iter().copied());
    let spread = spread(&values);
    values.into_iter().map(|v| if spread > 1e-12 { (v - middle) / spread } else { 0.0 }).collect()
}

/// Returns for each chunk the sum of `1 / (60 + rank)` over two rankings, by words and by nearness.
fn rank_sums(list: &[RankedChunk], metric: Metric) -> Vec<f64> {
    let words = |parts: &ScoreParts| (parts.words > 0.0).then_some(parts.words);
    let near = |parts: &ScoreParts| nearness(parts, metric);
    let mut sums = vec![0.0; list.len()];
    for value in [&words as &dyn Fn(&ScoreParts) -> Option<f64>, &near] {
        let valued = list.iter().enumerate().filter_map(|(at, one)| Some((at, value(&one.parts)?)));
        let mut order: Vec<(usize, f64)> = valued.collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1).then(list[a.0].key.cmp(&list[b.0].key)));
        for (rank, (at, _)) in order.into_iter().enumerate() {
            sums[at] += 1.0 / (RANK_CONSTANT + rank as f64 + 1.0);
        }
    }
    sums
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

fn occurrences(words: &[WordNumber], word: WordNumber) -> f64 {
    words.iter().filter(|other| **other == word).count() as f64
}

fn bm25(words: &[WordNumber], weights: &[Weighed<'_>], usual: f64) -> f64 {
    let length = words.len() as f64 / usual;
    let value = |one: &Weighed<'_>| one.weight * saturated(occurrences(words, one.number), length);
    weights.iter().map(value).sum()
}

/// Returns the words of the query with their weights, by word. The weights are fitted by least
/// squares with a ridge, so that BM25 with these weights approximates the scores of the
/// ArangoSearch view. A word that no scored chunk of the ArangoSearch view contains gets its rarity
/// among the found chunks as weight.
fn weights<'a>(
    wanted: &'a [String],
    rows: &[ReadRow<'_>],
    chunks: u64,
    numbers: &mut Numbers<'a>,
) -> Vec<Weighed<'a>> {
    let mut seen = HashSet::new();
    let words: Vec<&str> = wanted.iter().map(String::as_str).filter(|w| seen.insert(*w)).collect();
    let words = &words[..words.len().min(RANKED_WORDS_MAX)];
    let own: Vec<WordNumber> = words.iter().map(|word| numbers.of(word)).collect();
    let scored: Vec<(&ReadRow<'_>, f64)> = rows
        .iter()
        .filter_map(|read| Some((read, read.row.score?)))
        .take(ARCHIVAL_WEIGHED)
        .collect();
    let usual = mean(scored.iter().map(|(read, _)| read.words.len() as f64)).max(1.0);
    let line = |read: &ReadRow<'_>| -> Vec<f64> {
        let length = read.words.len() as f64 / usual;
        own.iter().map(|word| saturated(occurrences(&read.words, *word), length)).collect()
    };
    let lines: Vec<(Vec<f64>, f64)> = scored.iter().map(|(read, s)| (line(read), *s)).collect();
    let total: f64 = lines.iter().flat_map(|(line, _)| line).sum();
    let middle = lines.iter().map(|(_, score)| score).sum::<f64>() / total.max(1e-9);
    let size = words.len();
    let hold = RIDGE * lines.len() as f64;
    let mut equations = vec![vec![0.0; size + 1]; size];
    for (at, equation) in equations.iter_mut().enumerate() {
        for (line, score) in &lines {
            (0..size).for_each(|other| equation[other] += line[at] * line[other]);
            equation[size] += line[at] * score;
        }
        equation[at] += hold;
        equation[size] += hold * middle;
    }
    let solved = if lines.is_empty() { vec![0.0; size] } else { solve(equations) };
    let all = (rows.len() as f64).max(chunks as f64);
    let holders =
        |word: WordNumber| rows.iter().filter(|read| read.words.contains(&word)).count() as f64;
    let weigh = |at: usize| {
        let told = lines.iter().any(|(line, _)| line[at] > 0.0);
        let weight =
            if told { solved[at].max(middle * 0.1) } else { rarity(all, holders(own[at])) };
        Weighed { word: words[at], number: own[at], weight }
    };
    let mut weighed: Vec<Weighed<'a>> = (0..size).map(weigh).collect();
    weighed.sort_by_key(|one| one.word);
    weighed
}

/// Solves linear equations with a positive definite matrix by Gauss-Jordan elimination.
fn solve(mut equations: Vec<Vec<f64>>) -> Vec<f64> {
    let size = equations.len();
    for at in 0..size {
        let pivot = equations[at].clone();
        for (row, equation) in equations.iter_mut().enumerate() {
            if row != at && pivot[at].abs() > 1e-12 {
                let share = equation[at] / pivot[at];
                equation.iter_mut().zip(&pivot).for_each(|(own, other)| *own -= share * other);
            }
        }
    }
    let value = |at: usize| match equations[at][at] {
        pivot if pivot.abs() > 1e-12 => equations[at][size] / pivot,
        _ => 0.0,
    };
    (0..size).map(value).collect()
}

/// Scores chunks, one after another, by the weighted words of the query.
struct ChunkScorer<'a> {
    weights: &'a [Weighed<'a>],
    /// Pairs of neighbouring tokens of the query in which at least one token has a weight, each
    /// with the mean of their weights.
    pairs: Vec<((WordNumber, WordNumber), f64)>,
    /// All words of the query and the chunks, by number.
    words: Vec<ChunkWord>,
    topic: Topic,
    /// Mean weight of the query's words.
    mean_weight: f64,
}

impl<'a> ChunkScorer<'a> {
    fn of(
        found: &'a WordResult,
        rows: &[ReadRow<'a>],
        weights: &'a [Weighed<'a>],
        numbers: &mut Numbers<'a>,
    ) -> Self {
        let held: HashSet<WordNumber> = rows.iter().flat_map(|read| &read.words).copied().collect();
        let asked: Vec<AskedWord<'_>> = weights
            .iter()
            .map(|one| AskedWord::of(one.word, !held.contains(&one.number)))
            .collect();
        let sequence: Vec<WordNumber> = found.asked.iter().map(|word| numbers.of(word)).collect();
        let mut words: Vec<ChunkWord> = Vec::with_capacity(numbers.words.len());
        for word in &numbers.words {
            let text = TextWord::of(word);
            let degrees = asked.iter().map(|asked| degree(asked, &text)).enumerate();
            let degrees = degrees.filter(|(_, degree)| *degree > 0.0).collect();
            words.push(ChunkWord { place: text.place, degrees, weighed: None });
        }
        for (at, one) in weights.iter().enumerate() {
            words[one.number as usize].weighed = Some(at);
        }
        let weight = |word: WordNumber| words[word as usize].weighed.map(|at| weights[at].weight);
        let pair = |two: &[WordNumber]| {
            let (a, b) = (weight(two[0]), weight(two[1]));
            (a.is_some() || b.is_some())
                .then(|| ((two[0], two[1]), (a.unwrap_or(0.0) + b.unwrap_or(0.0)) / 2.0))
        };
        Self {
            pairs: sequence.windows(2).filter_map(pair).take(RANKED_WORDS_MAX).collect(),
            topic: Topic::of_places(weights.iter().filter_map(|one| TextWord::of(one.word).place)),
            mean_weight: mean(weights.iter().map(|one| one.weight)),
            weights,
            words,
        }
    }

    /// Returns the parts of a chunk's score that depend on word positions and related words.
    fn parts(&self, words: &[WordNumber]) -> ScoreParts {
        let known = || words.iter().map(|word| &self.words[*word as usize]);
        let places: Vec<(usize, usize)> =
            known().enumerate().filter_map(|(at, word)| Some((at, word.weighed?))).collect();
        let mut first: Vec<Option<usize>> = vec![None; self.weights.len()];
        for (at, weighed) in &places {
            first[*weighed].get_or_insert(*at);
        }
        let beginning = |(one, first): (&Weighed<'_>, &Option<usize>)| {
            first.map_or(0.0, |at| one.weight * (-(at as f64) / BEGINNING_TOKENS).exp())
        };
        let beside = |two: &(WordNumber, WordNumber)| {
            words.windows(2).any(|window| (window[0], window[1]) == *two)
        };
        let neighbours = self.pairs.iter().filter(|(two, _)| beside(two)).map(|(_, weight)| weight);
        let mut degrees = vec![0.0_f64; self.weights.len()];
        for (at, degree) in known().flat_map(|word| &word.degrees) {
            degrees[*at] = degrees[*at].max(*degree);
        }
        let related = self.weights.iter().zip(&degrees).zip(&first);
        let related = related.filter(|(_, first)| first.is_none());
        let related = related.map(|((one, degree), _)| one.weight * degree);
        let topic = self.topic.nearness(&Topic::of_places(known().filter_map(|word| word.place)));
        ScoreParts {
            beginning: BEGINNING * self.weights.iter().zip(&first).map(beginning).sum::<f64>(),
            neighbours: NEIGHBOURS * neighbours.sum::<f64>(),
            related: related.sum(),
            together: TOGETHER * self.together(&places),
            topic: TOPIC * self.mean_weight * topic,
            ..ScoreParts::default()
        }
    }

    /// Returns the largest total weight of different query words within [`TOGETHER_TOKENS`] tokens.
    fn together(&self, places: &[(usize, usize)]) -> f64 {
        let mut best = 0.0_f64;
        for (from, (start, _)) in places.iter().enumerate() {
            let mut seen = [false; RANKED_WORDS_MAX];
            let within = places[from..].iter().take_while(|(at, _)| at - start <= TOGETHER_TOKENS);
            let sum: f64 = within
                .filter(|(_, weighed)| !std::mem::replace(&mut seen[*weighed], true))
                .map(|(_, weighed)| self.weights[*weighed].weight)
                .sum();
            best = best.max(sum);
        }
        best
    }
}

/// A word of the query or the chunks.
struct ChunkWord {
    /// Place in the list of words with vectors.
    place: Option<usize>,
    /// Indexes of the query words as which the word counts, and the degrees.
    degrees: Vec<(usize, f64)>,
    /// Index of the word among the weighed words of the query.
    weighed: Option<usize>,
}

/// Returns the degree to which a word counts as a query word, from 0 to 1.
fn degree(asked: &AskedWord<'_>, word: &TextWord<'_>) -> f64 {
    if asked.stem == word.stem {
        return 0.0;
    }
    let same_root = if has_same_root(asked.stem, word.stem) { RELATED } else { 0.0 };
    asked.likeness(word).max(NEAR_MEANING * asked.nearness(word)).max(same_root)
}

/// Whether two words share their first `RELATED_LETTERS` letters.
fn has_same_root(left: &str, right: &str) -> bool {
    let both = left.chars().zip(right.chars()).take(RELATED_LETTERS);
    both.filter(|(one, other)| one == other).count() == RELATED_LETTERS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_a_word_weighs_is_read_off_the_scores() {
        let (rare, common) = (3.0, 0.5);
        let texts = [
            "boat boat sea",
            "boat tide rope mast",
            "tide sea",
            "tide tide tide moon",
            "sea boat tide",
        ];
        let usual = mean(texts.iter().map(|t| words(t).len() as f64));
        let score = |text: &str| {
            let mut numbers = Numbers::default();
            let read = numbers.all(text);
            let mut weighed = |word, weight| Weighed { word, number: numbers.of(word), weight };
            bm25(&read, &[weighed("boat", rare), weighed("tide", common)], usual)
        };
        let row = |text: &&str| {
            let (words, doc_id, score) = ((*text).to_owned(), String::new(), Some(score(text)));
            WordRow { key: String::new(), doc_id, parent: None, score, words, similarity: None }
        };
        let rows: Vec<WordRow> = texts.iter().map(row).collect();
        let mut numbers = Numbers::default();
        let read = |row| ReadRow { row, words: numbers.all(&row.words) };
        let rows: Vec<ReadRow<'_>> = rows.iter().map(read).collect();
        let wanted = words("boat tide whale");
        let found = weights(&wanted, &rows, 1_000, &mut numbers);
        let weights: HashMap<&str, f64> = found.iter().map(|one| (one.word, one.weight)).collect();
        assert!((weights["boat"] - rare).abs() < 0.2, "{weights:?}");
        assert!((weights["tide"] - common).abs() < 0.2, "{weights:?}");
        assert!(weights["whale"] > rare, "nobody has it: {weights:?}");
    }
}
