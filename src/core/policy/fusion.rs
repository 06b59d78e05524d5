//! One ranking of what was found by words and by vectors: a score that is a sum of named parts, each of which can be told.
//!
//! The database gives a chunk's BM25 and its tokens. How much each word of the question weighs is read off those scores, so that what is
//! added here (beginning, neighbours, related words, closeness) is on their scale.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use super::nearest::Nearest;
use crate::limits::{ARCHIVAL_TAIL_ROWS_MAX, ARCHIVAL_WEIGHED, RANKED_WORDS_MAX};
use crate::memory::archive::Metric;

/// Weights of the parts beside BM25 (1), set on the development half of a set of questions and their passages. Each is small against it:
/// leaving any one out costs half a point of what stands on the first page.
const BEGINNING: f64 = 0.6;
const NEIGHBOURS: f64 = 0.5;
const RELATED: f64 = 0.8;
const TOGETHER: f64 = 0.5;
/// Tokens after which a word at the beginning of a chunk weighs 1/e.
const BEGINNING_TOKENS: f64 = 8.0;
/// Letters that two words share to count as related (`sing`, `singer`).
const RELATED_LETTERS: usize = 4;
/// Tokens within which words stand together.
const TOGETHER_TOKENS: usize = 20;
/// Weight of nearness beside words (1) in a sum of z-scores: on passages with questions each half more finds more, but the model whose vectors these
/// were had seen such questions.
const NEARNESS: f64 = 2.0;
/// How far below the middle nearness counts at most, in standard deviations: among many that are near, one that only words find would else be
/// so far off that no word could bring it back.
const NEARNESS_MIN: f64 = -2.0;
/// The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009).
const RANK_CONSTANT: f64 = 60.0;
/// ArangoDB's defaults for BM25.
const SATURATION: f64 = 1.2;
const LENGTH_SHARE: f64 = 0.75;
/// How firmly a word's weight is held at the mean of all, for each chunk that tells of it.
const RIDGE: f64 = 0.01;

/// How lists are made one.
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

/// What the database found by words.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Worded {
    /// All tokens of the question, in order.
    pub asked: Vec<String>,
    /// Those looked for.
    pub wanted: Vec<String>,
    /// The view's best.
    pub rows: Vec<WordRow>,
    /// What was taken in too recently for the view.
    #[serde(default)]
    pub tail: Tail,
    /// Whether identifiers were looked for whole, and found.
    #[serde(default)]
    pub identified: bool,
}

/// The chunks that were taken in last.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Tail {
    /// Tokens of each identifier.
    pub phrases: Vec<Vec<String>>,
    /// Chunks that were looked at.
    pub looked: u64,
    /// Those with a word of the question.
    pub rows: Vec<WordRow>,
}

/// One chunk.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct WordRow {
    /// Document key.
    pub key: String,
    /// Its document.
    pub doc_id: String,
    /// Index of its parent's first chunk, where it has a parent.
    pub parent: Option<u64>,
    /// BM25; none where the view does not show it yet.
    pub score: Option<f64>,
    /// Its beginning as tokens.
    pub words: Vec<String>,
    /// How near its vector is, where that was asked.
    pub similarity: Option<f64>,
}

/// A chunk in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// Document key.
    pub key: String,
    /// The larger piece that it stands for, by document and first chunk.
    pub parent: Option<(String, u64)>,
    /// What it is ranked by.
    pub score: f64,
    /// What that is made of.
    pub parts: Parts,
}

/// The parts of a score: those of words add up to `words`; `words` and `nearness` are fused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// BM25.
    pub bm25: f64,
    /// Words at the beginning.
    pub beginning: f64,
    /// Words that are neighbours in the question and here.
    pub neighbours: f64,
    /// Words of the question that only a relative of stands here.
    pub related: f64,
    /// The most that stands together.
    pub together: f64,
    /// The sum of these, before fusion.
    pub words: f64,
    /// Cosine, or distance under l2; none where it was not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearness: Option<f64>,
}

impl Worded {
    /// Whether so much was taken in in the last moments that some of it was not looked at.
    pub fn tail_capped(&self) -> bool {
        self.tail.looked >= ARCHIVAL_TAIL_ROWS_MAX as u64
    }

    /// Whether an identifier of the question was found whole: then nothing else is meant.
    pub fn is_identified(&self) -> bool {
        self.all().1
    }

    /// One list of what the view shows and what it does not show yet. Where identifiers were found whole, only what holds one counts.
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

fn holds(words: &[String], phrase: &[String]) -> bool {
    !phrase.is_empty() && words.windows(phrase.len()).any(|window| window == phrase)
}

/// Ranks what was found, best first; chunks with one parent stand for it once. `chunks` is how many the agent has. Where identifiers were
/// found, nearness does not count: what is near to one is another one.
pub fn ranked(
    found: &Worded,
    near: Option<&Nearest>,
    metric: Metric,
    fusion: Fusion,
    chunks: u64,
) -> Vec<Ranked> {
    let (rows, identified) = found.all();
    let near = near.filter(|_| !identified);
    let weights = weights(&found.wanted, &rows, chunks);
    let question = Question::of(found, &weights);
    let mut list: Vec<Ranked> = Vec::new();
    let usual = mean(rows.iter().map(|row| row.words.len() as f64)).max(1.0);
    for row in &rows {
        let mut parts = question.parts(&row.words);
        parts.bm25 = row.score.unwrap_or_else(|| bm25(&row.words, &weights, usual));
        parts.words =
            parts.bm25 + parts.beginning + parts.neighbours + parts.related + parts.together;
        parts.nearness = row.similarity.filter(|_| near.is_some());
        let parent = row.parent.map(|first| (row.doc_id.clone(), first));
        list.push(Ranked { key: row.key.clone(), parent, score: 0.0, parts });
    }
    let there: HashSet<&str> = rows.iter().map(|row| row.key.as_str()).collect();
    for passage in near.and_then(|n| n.rows.as_deref()).unwrap_or_default() {
        if !there.contains(passage.key.as_str()) {
            let parts = Parts { nearness: passage.similarity, ..Parts::default() };
            let parent = passage.parent.map(|parent| (passage.doc_id.clone(), parent.first));
            list.push(Ranked { key: passage.key.clone(), parent, score: 0.0, parts });
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
    let mut parents = HashSet::new();
    list.retain(|one| one.parent.clone().is_none_or(|parent| parents.insert(parent)));
    list
}

/// Nearness so that more is nearer.
fn nearness(parts: &Parts, metric: Metric) -> Option<f64> {
    parts.nearness.map(|value| match metric {
        Metric::Cosine => value,
        Metric::L2 => -value,
    })
}

/// `z(words) + 2 · z(nearness)`; what was not compared counts as the farthest.
fn z_sums(list: &[Ranked], metric: Metric) -> Vec<f64> {
    let words = standard(list.iter().map(|one| one.parts.words).collect());
    let near: Vec<Option<f64>> = list.iter().map(|one| nearness(&one.parts, metric)).collect();
    let farthest = near.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let farthest = if farthest.is_finite() { farthest } else { 0.0 };
    let near = standard(near.into_iter().map(|n| n.unwrap_or(farthest)).collect());
    let sum = |(words, near): (f64, f64)| words + NEARNESS * near.max(NEARNESS_MIN);
    words.into_iter().zip(near).map(sum).collect()
}

/// Values in standard deviations from their mean; all 0 where they do not differ.
fn standard(values: Vec<f64>) -> Vec<f64> {
    let middle = mean(values.iter().copied());
    let spread = mean(values.iter().map(|v| (v - middle).powi(2))).sqrt();
    values.into_iter().map(|v| if spread > 1e-12 { (v - middle) / spread } else { 0.0 }).collect()
}

/// `Σ 1 / (60 + rank)` over both lists.
fn rank_sums(list: &[Ranked], metric: Metric) -> Vec<f64> {
    let words = |parts: &Parts| (parts.words > 0.0).then_some(parts.words);
    let near = |parts: &Parts| nearness(parts, metric);
    let mut sums = vec![0.0; list.len()];
    for value in [&words as &dyn Fn(&Parts) -> Option<f64>, &near] {
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

/// How often a word stands in a text of a length counts so much: `(k + 1) · f / (f + k · (1 − b + b · length))`.
fn saturated(count: f64, length: f64) -> f64 {
    let held = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length);
    (SATURATION + 1.0) * count / (count + held)
}

fn occurrences(words: &[String], word: &str) -> f64 {
    words.iter().filter(|w| *w == word).count() as f64
}

fn bm25(words: &[String], weights: &BTreeMap<&str, f64>, usual: f64) -> f64 {
    let length = words.len() as f64 / usual;
    weights.iter().map(|(word, weight)| weight * saturated(occurrences(words, word), length)).sum()
}

/// What each wanted word weighs: the weights under which BM25 of the shown chunks comes out as the view told it (least squares, held a little
/// at their mean); for a word that none of them has, its rarity among what was just taken in.
fn weights<'a>(wanted: &'a [String], rows: &[&WordRow], chunks: u64) -> BTreeMap<&'a str, f64> {
    let mut seen = HashSet::new();
    let words: Vec<&str> = wanted.iter().map(String::as_str).filter(|w| seen.insert(*w)).collect();
    let words = &words[..words.len().min(RANKED_WORDS_MAX)];
    let scored: Vec<(&WordRow, f64)> =
        rows.iter().filter_map(|r| Some((*r, r.score?))).take(ARCHIVAL_WEIGHED).collect();
    let usual = mean(scored.iter().map(|(row, _)| row.words.len() as f64)).max(1.0);
    let line = |row: &WordRow| -> Vec<f64> {
        let length = row.words.len() as f64 / usual;
        words.iter().map(|word| saturated(occurrences(&row.words, word), length)).collect()
    };
    let lines: Vec<(Vec<f64>, f64)> = scored.iter().map(|(row, s)| (line(row), *s)).collect();
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
        |word: &str| rows.iter().filter(|r| r.words.iter().any(|w| w == word)).count() as f64;
    let weigh = |(at, word): (usize, &&'a str)| {
        let told = lines.iter().any(|(line, _)| line[at] > 0.0);
        let rarity = (1.0 + (all - holders(word) + 0.5) / (holders(word) + 0.5)).ln();
        (*word, if told { solved[at].max(middle * 0.1) } else { rarity })
    };
    words.iter().enumerate().map(weigh).collect()
}

/// Solves linear equations whose matrix is positive definite, by elimination.
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

/// The question as it is looked for in one chunk after the other.
struct Question<'a> {
    weights: &'a BTreeMap<&'a str, f64>,
    /// Neighbouring tokens of the question of which one at least is looked for.
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Question<'a> {
    fn of(found: &'a Worded, weights: &'a BTreeMap<&'a str, f64>) -> Self {
        let tells = |word: &str| weights.contains_key(word);
        let pairs = found.asked.windows(2).map(|two| (two[0].as_str(), two[1].as_str()));
        let pairs = pairs.filter(|(a, b)| tells(a) || tells(b)).take(RANKED_WORDS_MAX).collect();
        Self { weights, pairs }
    }

    fn weight(&self, word: &str) -> f64 {
        self.weights.get(word).copied().unwrap_or(0.0)
    }

    /// The parts that a chunk's tokens earn, but for BM25.
    fn parts(&self, words: &[String]) -> Parts {
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        let mut places: Vec<(usize, &str)> = Vec::new();
        for (at, word) in words.iter().enumerate() {
            if self.weights.contains_key(word.as_str()) {
                first.entry(word).or_insert(at);
                places.push((at, word));
            }
        }
        let beginning = |(word, at): (&&str, &usize)| {
            self.weight(word) * (-(*at as f64) / BEGINNING_TOKENS).exp()
        };
        let beside: HashSet<(&str, &str)> =
            words.windows(2).map(|two| (two[0].as_str(), two[1].as_str())).collect();
        let neighbours = self.pairs.iter().filter(|pair| beside.contains(*pair));
        let neighbours = neighbours.map(|(a, b)| (self.weight(a) + self.weight(b)) / 2.0);
        let roots: BTreeSet<String> = words.iter().filter_map(|word| root(word)).collect();
        let related = self.weights.iter().filter(|(word, _)| {
            !first.contains_key(**word) && root(word).is_some_and(|root| roots.contains(&root))
        });
        Parts {
            beginning: BEGINNING * first.iter().map(beginning).sum::<f64>(),
            neighbours: NEIGHBOURS * neighbours.sum::<f64>(),
            related: RELATED * related.map(|(_, weight)| weight).sum::<f64>(),
            together: TOGETHER * self.together(&places),
            ..Parts::default()
        }
    }

    /// The largest weight of different words within a stretch.
    fn together(&self, places: &[(usize, &str)]) -> f64 {
        let mut best = 0.0_f64;
        for (from, (start, _)) in places.iter().enumerate() {
            let mut seen = HashSet::new();
            let within = places[from..].iter().take_while(|(at, _)| at - start <= TOGETHER_TOKENS);
            let sum: f64 = within
                .filter(|(_, word)| seen.insert(*word))
                .map(|(_, word)| self.weight(word))
                .sum();
            best = best.max(sum);
        }
        best
    }
}

/// The first letters of a word that has so many.
fn root(word: &str) -> Option<String> {
    let letters: String = word.chars().take(RELATED_LETTERS).collect();
    (letters.chars().count() == RELATED_LETTERS).then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::archive::FoundPassage;
    use crate::policy::{Looked, NearPlan};

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn row(key: &str, text: &str, score: Option<f64>) -> WordRow {
        let (words, doc_id) = (words(text), "d".to_owned());
        WordRow { key: key.into(), doc_id, parent: None, score, words, similarity: None }
    }

    fn found(asked: &str, wanted: &str, rows: Vec<WordRow>) -> Worded {
        Worded { asked: words(asked), wanted: words(wanted), rows, ..Worded::default() }
    }

    fn near(rows: &[(&str, f64)]) -> Nearest {
        let row = |(key, similarity): &(&str, f64)| -> FoundPassage {
            serde_json::from_value(serde_json::json!({"key": key, "doc_id": "d", "chunk_id": "c", "text": "t",
                "similarity": similarity, "provenance": {}, "chunk_links": {"previous": null, "next": null}, "offset": null,
                "freshness_ts": "", "revision": "r"}))
            .unwrap()
        };
        let rows = Some(rows.iter().map(row).collect());
        Nearest { plan: NearPlan::Exact, k: 10, rows, looked: Looked::default() }
    }

    fn order(list: &[Ranked]) -> Vec<&str> {
        list.iter().map(|one| one.key.as_str()).collect()
    }

    fn text(found: &Worded) -> Vec<Ranked> {
        ranked(found, None, Metric::Cosine, Fusion::ZScore, 100)
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
            let (words, weights) =
                (words(text), BTreeMap::from([("boat", rare), ("tide", common)]));
            bm25(&words, &weights, usual)
        };
        let rows: Vec<WordRow> = texts.iter().map(|t| row(t, t, Some(score(t)))).collect();
        let rows: Vec<&WordRow> = rows.iter().collect();
        let wanted = words("boat tide whale");
        let weights = weights(&wanted, &rows, 1_000);
        assert!((weights["boat"] - rare).abs() < 0.2, "{weights:?}");
        assert!((weights["tide"] - common).abs() < 0.2, "{weights:?}");
        assert!(weights["whale"] > rare, "nobody has it: {weights:?}");
    }

    #[test]
    fn equal_scores_are_parted_by_beginning_neighbours_relatives_and_closeness() {
        let filler = "x ".repeat(40);
        for (better, worse) in [
            (format!("boat {filler}"), format!("{filler} boat")),
            (format!("{filler} red boat"), format!("{filler} boat x x red")),
            (format!("{filler} boat singer"), format!("{filler} boat other")),
            (format!("{filler} boat x x red"), format!("{filler} boat {filler} red")),
        ] {
            let rows = vec![row("a", &worse, Some(1.0)), row("b", &better, Some(1.0))];
            let list = text(&found("red boat sings", "red boat sing", rows));
            assert_eq!(order(&list), ["b", "a"], "{better}");
            let parts = list[0].parts;
            let sum =
                parts.bm25 + parts.beginning + parts.neighbours + parts.related + parts.together;
            assert!((sum - list[0].score).abs() < 1e-9 && parts.words == list[0].score);
        }
    }

    #[test]
    fn what_the_view_does_not_show_yet_stands_by_its_words() {
        let rows = vec![
            row("v1", "blue boat here too", Some(4.0)),
            row("v2", "one boat of many", Some(1.0)),
        ];
        let mut all = found("blue boat", "blue boat", rows);
        all.tail.rows = vec![row("v1", "blue boat here too", None), row("t", "a blue boat", None)];
        // The shorter of two texts with both words stands first, the one with one of them last, and none comes twice.
        let list = text(&all);
        assert_eq!(order(&list), ["t", "v1", "v2"]);
        assert_eq!(list[1].parts.bm25, 4.0, "the view's own score stands where there is one");
        let mut fresh = found("blue boat", "blue boat", Vec::new());
        fresh.tail.rows =
            vec![row("t1", "boat", None), row("t2", "blue", None), row("t3", "blue boat", None)];
        assert_eq!(order(&text(&fresh))[0], "t3");
    }

    #[test]
    fn an_identifier_is_found_whole_or_not_at_all() {
        let mut all =
            found("ab 12 cd", "ab 12 cd", vec![row("part", "ab here 12 there", Some(9.0))]);
        all.tail.phrases = vec![words("ab 12 cd")];
        assert_eq!(order(&text(&all)), ["part"], "nobody has it whole");
        all.tail.rows = vec![row("whole", "key ab 12 cd", None), row("some", "12 ab", None)];
        assert_eq!(order(&text(&all)), ["whole"]);
        all.rows = vec![row("shown", "ab 12 cd value", Some(2.0))];
        all.identified = true;
        let list = ranked(&all, Some(&near(&[("other", 0.9)])), Metric::Cosine, Fusion::ZScore, 9);
        let mut keys = order(&list);
        keys.sort_unstable();
        assert_eq!(keys, ["shown", "whole"], "what is only near to an identifier is another one");
    }

    #[test]
    fn each_list_finds_what_the_other_misses_and_both_together_win() {
        let mut rows = vec![
            row("both", "boat", Some(3.0)),
            row("words", "boat", Some(3.0)),
            row("weak", "x boat", Some(0.5)),
        ];
        for (row, similarity) in rows.iter_mut().zip([0.9, 0.1, 0.0]) {
            row.similarity = Some(similarity);
        }
        let all = found("boat", "boat", rows);
        for fusion in [Fusion::ZScore, Fusion::Rrf] {
            let close = near(&[("near", 0.95), ("both", 0.9), ("far", 0.05)]);
            let list = ranked(&all, Some(&close), Metric::Cosine, fusion, 100);
            assert_eq!(list[0].key, "both", "{fusion:?}");
            let place = |key: &str| list.iter().position(|one| one.key == key).unwrap();
            // By ranks alone the last of two lists stands before the first of one.
            let scores = fusion == Fusion::ZScore;
            assert!(place("near") < place("weak") || !scores, "{fusion:?}");
            assert!(place("words") < place("far"), "{fusion:?}");
            let distant = near(&[("near", 0.1), ("both", 0.2), ("far", 9.0)]);
            let mut all = all.clone();
            for (row, distance) in all.rows.iter_mut().zip([0.2, 5.0, 9.0]) {
                row.similarity = Some(distance);
            }
            let list = ranked(&all, Some(&distant), Metric::L2, fusion, 100);
            assert_eq!(list[0].key, "both", "{fusion:?} by distance");
        }
    }

    #[test]
    fn ranks_are_fused_by_their_reciprocals() {
        let mut rows = vec![row("a", "boat", Some(2.0)), row("b", "x boat", Some(1.0))];
        rows[1].similarity = Some(0.5);
        let all = found("boat", "boat", rows);
        let list = ranked(&all, Some(&near(&[("c", 0.9)])), Metric::Cosine, Fusion::Rrf, 9);
        let score = |key: &str| list.iter().find(|one| one.key == key).unwrap().score;
        assert!((score("a") - 1.0 / 61.0).abs() < 1e-12);
        assert!((score("b") - 2.0 / 62.0).abs() < 1e-12);
        assert!((score("c") - 1.0 / 61.0).abs() < 1e-12);
    }

    #[test]
    fn parts_of_one_larger_piece_stand_for_it_once() {
        let mut rows = vec![
            row("a", "boat boat", Some(3.0)),
            row("b", "boat", Some(2.0)),
            row("c", "boat", Some(1.0)),
        ];
        rows[0].parent = Some(4);
        rows[1].parent = Some(4);
        assert_eq!(order(&text(&found("boat", "boat", rows))), ["a", "c"]);
    }
}
