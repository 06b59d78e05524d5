//! A search of recall storage: what is asked, how entries that the view may not show yet are weighed, and one list of both.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::limits::{
    PHRASES_MAX, QUERY_BYTES_MAX, RECALL_HITS_MAX, RECALL_LAG_MS, RECALL_TAIL_ROWS_MAX,
};
use crate::memory::message::Message;

/// Weight of a phrase beside its words alone; the number stands in `aql/recall_phrase.aql` too.
const PHRASE_BOOST: f64 = 10.0;
/// How soon further occurrences of a word stop to count, and how much a long text costs: ArangoDB's defaults for BM25.
const SATURATION: f64 = 1.2;
const LENGTH_SHARE: f64 = 0.75;

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallQuery {
    /// All its words; one of them is enough.
    pub words: String,
    /// What ranks above scattered words: the quoted parts, or all of it when nothing is quoted and it has several words.
    pub phrases: Vec<String>,
}

/// An entry that matches.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Hit {
    /// Key of the entry and of its message.
    pub id: String,
    /// Place of the message.
    pub seq: u64,
    /// How well it matches; comparable within one list only.
    pub score: f64,
}

/// The entries that were logged last, in the database's own words (the tokens of `text_en`).
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Tail {
    /// Tokens of the query.
    pub wanted: Vec<String>,
    /// Tokens of each phrase.
    pub phrases: Vec<Vec<String>>,
    /// The entries, last logged first.
    pub recent: Vec<Recent>,
}

/// One of them.
#[derive(Clone, Debug, Deserialize)]
pub struct Recent {
    /// Key.
    pub id: String,
    /// Place of the message.
    pub seq: u64,
    /// When it was logged, in milliseconds.
    pub logged_ms: u64,
    /// Its tokens in order; none where it has no word of the query.
    pub words: Vec<String>,
}

/// What a search found, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The hits.
    pub hits: Vec<Hit>,
    /// Whether there are more than a list holds.
    pub capped: bool,
    /// Whether so much was logged in the last moments that some of it was not looked at.
    pub tail_capped: bool,
}

/// Messages of hits, and the copies of them that stand in the queue.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Entries {
    /// The messages, in no order.
    pub found: Vec<Message>,
    /// Their copies.
    pub copies: Vec<CopyOf>,
}

/// A copy in the queue.
#[derive(Clone, Debug, Deserialize)]
pub struct CopyOf {
    /// Key of the original.
    pub of: String,
    /// Place of the copy.
    pub seq: u64,
}

impl RecallQuery {
    /// Reads a query; what stands between quotation marks is a phrase.
    pub fn parse(text: &str) -> Result<Self> {
        let fault = |why: String| Err(Error::argument("query", why));
        if text.len() > QUERY_BYTES_MAX {
            return fault(format!("longer than {QUERY_BYTES_MAX} bytes: shorten it"));
        }
        let marked = text.replace(['“', '”', '„', '«', '»'], "\"");
        let words = marked.replace('"', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        if !has_word(&words) {
            return fault("no word to look for: give some words, or a phrase in \"quotes\"".into());
        }
        // An odd mark at the end opens nothing.
        let pairs = marked.matches('"').count() / 2;
        let quoted = marked.split('"').skip(1).step_by(2).take(pairs).map(str::trim);
        let mut phrases: Vec<String> = quoted.filter(|p| has_word(p)).map(str::to_owned).collect();
        phrases.dedup();
        if phrases.len() > PHRASES_MAX {
            return fault(format!(
                "more than {PHRASES_MAX} quoted phrases: search for them one by one"
            ));
        }
        if phrases.is_empty() && words.split(' ').filter(|w| has_word(w)).count() > 1 {
            phrases.push(words.clone());
        }
        Ok(Self { words, phrases })
    }
}

fn has_word(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// Whether something that matches was logged too recently for the view.
pub fn hidden_from(view: &[Hit], tail: &Tail) -> bool {
    let shown: HashSet<&str> = view.iter().map(|hit| hit.id.as_str()).collect();
    tail.recent.iter().any(|row| !row.words.is_empty() && !shown.contains(row.id.as_str()))
}

/// One list of what the view found and of what was logged too recently for it, without doubles: by score, the newest first
/// among equals. The view's score stands where there are both. `known` are the best of the view's hits in words: beside them
/// the recent entries are weighed, and put on the view's scale.
pub fn merged(view: Vec<Hit>, tail: &Tail, known: &[Recent], now_ms: u64) -> Found {
    let shown: HashMap<&str, f64> = view.iter().map(|hit| (hit.id.as_str(), hit.score)).collect();
    let mut weighed = weighed(tail, known);
    let of_view = |id: &str| shown.get(id).copied();
    let ours: f64 = known.iter().filter_map(|row| weighed.get(row.id.as_str())).sum();
    let theirs: f64 = known.iter().filter_map(|row| of_view(&row.id)).sum();
    let scale = if ours > 0.0 && theirs > 0.0 { theirs / ours } else { 1.0 };
    let mut fresh = Vec::new();
    for row in tail.recent.iter().filter(|row| of_view(&row.id).is_none()) {
        if let Some(score) = weighed.remove(row.id.as_str()) {
            fresh.push(Hit { id: row.id.clone(), seq: row.seq, score: score * scale });
        }
    }
    let mut hits = view;
    hits.extend(fresh);
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.seq.cmp(&a.seq)));
    let capped = hits.len() > RECALL_HITS_MAX;
    hits.truncate(RECALL_HITS_MAX);
    let oldest = tail.recent.last().filter(|_| tail.recent.len() >= RECALL_TAIL_ROWS_MAX);
    let tail_capped = oldest.is_some_and(|row| row.logged_ms + RECALL_LAG_MS > now_ms);
    Found { hits, capped, tail_capped }
}

/// BM25 (the formula of ArangoDB's scorer) of the recent entries that match and of those known from the view, with the
/// statistics of just these.
fn weighed<'a>(tail: &'a Tail, known: &'a [Recent]) -> HashMap<&'a str, f64> {
    let mut rows: HashMap<&str, &[String]> = HashMap::new();
    for row in tail.recent.iter().chain(known) {
        rows.insert(&row.id, &row.words);
    }
    let total = rows.len() as f64;
    rows.retain(|_, words| !words.is_empty());
    let lengths: f64 = rows.values().map(|words| words.len() as f64).sum();
    let usual = (lengths / rows.len().max(1) as f64).max(1.0);
    let wanted = distinct(&tail.wanted);
    let holders = |word: &str| rows.values().filter(|w| w.iter().any(|w| w == word)).count() as f64;
    let weight: HashMap<&str, f64> =
        wanted.iter().map(|&word| (word, rarity(total, holders(word)))).collect();
    // The view's query has two places for phrases; one phrase fills both.
    let places = if tail.phrases.len() == 1 { 2.0 } else { 1.0 };
    let sum = |words: &[String]| words.iter().filter_map(|w| weight.get(w.as_str())).sum::<f64>();
    let phrases: Vec<(&[String], f64)> =
        tail.phrases.iter().map(|p| (p.as_slice(), PHRASE_BOOST * places * sum(p))).collect();
    let score = |words: &[String]| {
        let length = words.len() as f64 / usual;
        let times = |count: usize| saturated(count as f64, length);
        let single =
            |&word: &&str| weight[word] * times(words.iter().filter(|w| *w == word).count());
        let whole = |(p, weight): &(&[String], f64)| weight * times(occurrences(words, p));
        wanted.iter().map(single).sum::<f64>() + phrases.iter().map(whole).sum::<f64>()
    };
    let scores = rows.into_iter().map(|(id, words)| (id, score(words)));
    scores.filter(|(_, score)| *score > 0.0).collect()
}

fn distinct(words: &[String]) -> Vec<&str> {
    let mut seen = HashSet::new();
    words.iter().map(String::as_str).filter(|word| seen.insert(*word)).collect()
}

/// `ln(1 + (N − n + 0.5) / (n + 0.5))`.
fn rarity(total: f64, holders: f64) -> f64 {
    (1.0 + (total - holders + 0.5) / (holders + 0.5)).ln()
}

/// `(k + 1) · f / (f + k · (1 − b + b · length))`: 1 for one occurrence in a text of usual length.
fn saturated(count: f64, length: f64) -> f64 {
    let held = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length);
    (SATURATION + 1.0) * count / (count + held)
}

fn occurrences(words: &[String], phrase: &[String]) -> usize {
    if phrase.is_empty() || words.len() < phrase.len() {
        return 0;
    }
    words.windows(phrase.len()).filter(|window| *window == phrase).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn quoted_parts_are_phrases_and_so_are_several_words() {
        for (text, words, phrases) in [
            ("tea", "tea", vec![]),
            ("  black   tea ", "black tea", vec!["black tea"]),
            ("\"black tea\"", "black tea", vec!["black tea"]),
            ("milk \"black tea\" sugar", "milk black tea sugar", vec!["black tea"]),
            (
                "“black tea” and \"two cups\"",
                "black tea and two cups",
                vec!["black tea", "two cups"],
            ),
            ("black \"tea", "black tea", vec!["black tea"]),
            ("\"!\" tea", "! tea", vec![]),
            ("茶", "茶", vec![]),
        ] {
            let query = RecallQuery::parse(text).unwrap();
            assert_eq!(
                (query.words.as_str(), query.phrases),
                (words, phrases.iter().map(|p| (*p).to_owned()).collect()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_holds_no_word_is_refused() {
        for text in [
            "",
            " ",
            "?!",
            "\"\"",
            "\" \" …",
            &"a".repeat(QUERY_BYTES_MAX + 1),
            "\"a\" \"b\" \"c\"",
        ] {
            assert_eq!(RecallQuery::parse(text).unwrap_err().code, Code::InvalidArgument, "{text}");
        }
    }

    fn hit(id: &str, seq: u64, score: f64) -> Hit {
        Hit { id: id.into(), seq, score }
    }

    fn row(id: &str, text: &str) -> Recent {
        Recent { id: id.into(), seq: 9, logged_ms: 0, words: words(text) }
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn tail(query: &str, phrase: &str, texts: &[&str]) -> Tail {
        let wanted = words(query);
        let recent = texts.iter().zip(1..).map(|(text, seq)| {
            let words = words(text);
            let matches = words.iter().any(|w| wanted.contains(w));
            let words = if matches { words } else { Vec::new() };
            Recent { id: format!("t{seq}"), seq, logged_ms: 1_000, words }
        });
        let phrases = if phrase.is_empty() { Vec::new() } else { vec![words(phrase)] };
        Tail { recent: recent.collect(), wanted, phrases }
    }

    fn order(found: &Found) -> Vec<&str> {
        found.hits.iter().map(|hit| hit.id.as_str()).collect()
    }

    #[test]
    fn a_recent_entry_stands_by_its_words_among_those_of_the_view() {
        let tail = tail("blue boat", "", &["a blue boat", "a red boat", "a red car"]);
        let view = vec![hit("v1", 7, 4.0), hit("v2", 8, 1.0)];
        let known = [row("v1", "blue boat here too"), row("v2", "one boat of many others at sea")];
        assert!(hidden_from(&view, &tail) && !hidden_from(&view, &Tail::default()));
        let found = merged(view, &tail, &known, 2_000);
        assert_eq!(order(&found), ["t1", "v1", "t2", "v2"]);
        assert!(!found.capped && !found.tail_capped);
    }

    #[test]
    fn a_rare_word_lifts_a_recent_entry_over_all_that_hold_the_common_one() {
        let view: Vec<Hit> = (1..=8).map(|n| hit(&format!("v{n}"), n, 0.05)).collect();
        let known: Vec<Recent> =
            (1..=8).map(|n| row(&format!("v{n}"), "i left the bicycl at the chapel")).collect();
        let mut tail = tail("number7 bicycl", "", &["i left the bicycl number7 at the chapel"]);
        tail.phrases = vec![words("number7 bicycl")];
        assert_eq!(order(&merged(view, &tail, &known, 0))[0], "t1");
    }

    #[test]
    fn what_the_view_shows_already_comes_once_with_its_score() {
        let tail = tail("boat", "", &["boat", "boat boat"]);
        let found = merged(vec![hit("t1", 1, 3.5)], &tail, &[], 2_000);
        assert_eq!(found.hits.iter().filter(|h| h.id == "t1").count(), 1);
        assert!(found.hits.iter().any(|h| h.id == "t1" && h.score == 3.5));
        assert_eq!(found.hits.len(), 2);
    }

    #[test]
    fn a_phrase_outranks_its_words_wherever_they_stand() {
        let texts = [
            "boat blue boat blue boat blue",
            "see the blue boat over there in the harbour tonight",
            "blue",
        ];
        let found = merged(Vec::new(), &tail("blue boat", "over there", &texts), &[], 0);
        assert_eq!(order(&found)[0], "t1");
        let found = merged(Vec::new(), &tail("see blue boat", "blue boat over", &texts), &[], 0);
        assert_eq!(order(&found)[0], "t2");
    }

    #[test]
    fn equal_scores_stand_by_their_place_newest_first() {
        let found = merged(
            vec![hit("a", 1, 1.0), hit("c", 3, 1.0), hit("b", 2, 1.0)],
            &Tail::default(),
            &[],
            0,
        );
        assert_eq!(order(&found), ["c", "b", "a"]);
    }

    #[test]
    fn a_list_says_when_it_is_not_all() {
        let view: Vec<Hit> = (0..=RECALL_HITS_MAX as u64).map(|seq| hit("x", seq, 1.0)).collect();
        let found = merged(view, &Tail::default(), &[], 0);
        assert_eq!((found.hits.len(), found.capped), (RECALL_HITS_MAX, true));
        let texts = vec!["boat"; RECALL_TAIL_ROWS_MAX];
        let crowded = tail("boat", "", &texts);
        assert!(merged(Vec::new(), &crowded, &[], 1_000 + RECALL_LAG_MS - 1).tail_capped);
        assert!(!merged(Vec::new(), &crowded, &[], 1_000 + RECALL_LAG_MS).tail_capped);
    }
}
