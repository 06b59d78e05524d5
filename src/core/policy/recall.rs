//! A search of recall storage: what is asked, which entries are weighed, and the list that comes of it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::rank::{Material, PARTS, Spoken, better_passage, content_words, ranked, without_names};
use crate::error::{Error, Result};
use crate::limits::{PHRASES_MAX, QUERY_BYTES_MAX, RECALL_HITS_MAX, RECALL_LAG_MS};
use crate::memory::archive::Span;
use crate::memory::message::Message;
use crate::memory::recall_vector::{NearPassage, RecallMark};

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallQuery {
    /// All its words; one of them is enough.
    pub words: String,
    /// What ranks above scattered words: the quoted parts, or all of it when nothing is quoted and it has several words.
    pub phrases: Vec<String>,
    /// Its words that tell something, in lower case, each once.
    pub telling: Vec<String>,
    /// Whether the phrases were quoted.
    pub quoted: bool,
    /// What an entry must meet beside its words.
    pub filter: RecallFilter,
    /// By words, by meaning, or both.
    pub mode: RecallMode,
}

/// How recall storage is searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecallMode {
    /// By words and, where a model gives vectors, by meaning.
    #[default]
    Auto,
    /// By words.
    Text,
    /// By meaning alone, what is less alike than this left out.
    Vector {
        /// Least cosine, in thousandths; as it is configured unless given.
        similarity_min: Option<u32>,
    },
    /// By both, and refused where there is no model.
    Hybrid,
}

/// What a search of recall storage does unless it is told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecallSettings {
    /// Least cosine of what a search by meaning alone finds.
    pub similarity_threshold: f64,
    /// Most results of a search, over all its pages.
    pub max_memories: usize,
}

impl Default for RecallSettings {
    fn default() -> Self {
        Self { similarity_threshold: 0.7, max_memories: RECALL_HITS_MAX }
    }
}

impl RecallSettings {
    /// What is wrong with them, by name.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(0.0..=1.0).contains(&self.similarity_threshold) {
            faults.push("recall.similarity_threshold: use 0 to 1".to_owned());
        }
        if self.max_memories == 0 || self.max_memories > RECALL_HITS_MAX {
            faults.push(format!("recall.max_memories: use 1 to {RECALL_HITS_MAX}"));
        }
        faults
    }
}

/// A cosine in thousandths, as a mode holds it.
pub fn thousandths(cosine: f64) -> u32 {
    (cosine.clamp(0.0, 1.0) * 1000.0).round() as u32
}

/// What an entry must meet beside its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecallFilter {
    /// Role of the speaker.
    pub role: Option<String>,
    /// Name of the speaker.
    pub name: Option<String>,
    /// Said at this moment or later, ISO 8601 with milliseconds.
    pub after: Option<String>,
    /// Said before this moment, in the same form.
    pub before: Option<String>,
}

/// An entry that the view found.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ViewHit {
    /// Key of the entry and of its message.
    pub id: String,
    /// Place of the message.
    pub seq: u64,
    /// How well it matches; comparable within one list only.
    pub score: f64,
}

/// An entry that was logged a moment ago, holds a word of the query and meets what was asked beside the words.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Recent {
    /// Key.
    pub id: String,
    /// Place of the message.
    pub seq: u64,
    /// Words of the query that it holds.
    pub held: u64,
}

/// An entry of a result list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hit {
    /// Key of the entry and of its message.
    pub id: String,
    /// Place of the message.
    pub seq: u64,
    /// How well it matches; comparable within one list only.
    pub score: f64,
    /// Its best passage, in bytes; none where it was not weighed.
    pub passage: Option<Range<usize>>,
    /// The parts of the score; none where it was not weighed.
    pub parts: Option<[f64; PARTS]>,
    /// Cosine between the question and its nearest passage; none where that was not near enough to be told, or there are no vectors.
    pub similarity: Option<f64>,
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
    /// Whether vectors counted: how they were looked for.
    pub near: Option<&'static str>,
    /// Whether vectors counted, and what was logged last has none yet: by meaning it is not found.
    pub incomplete: bool,
    /// Why they did not, though they should have.
    pub degraded: Option<&'static str>,
    /// In a search by meaning alone: how like a result had to be, in thousandths, and how many were left out by that.
    pub similarity_min: Option<(u32, usize)>,
}

impl Found {
    /// The best of them.
    #[must_use]
    pub fn at_most(mut self, hits_max: usize) -> Self {
        self.capped |= self.hits.len() > hits_max;
        self.hits.truncate(hits_max);
        self
    }
}

/// Messages of hits, and the copies of them that stand in the queue.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Entries {
    /// The messages, in no order.
    pub found: Vec<Message>,
    /// Their copies.
    pub copies: Vec<CopyOf>,
    /// Their replies, or what they reply to, where that was asked for.
    #[serde(default)]
    pub pairs: Vec<PairOf>,
}

/// The reply to an entry, or what it replies to.
#[derive(Clone, Debug, Deserialize)]
pub struct PairOf {
    /// Key of the entry.
    pub of: String,
    /// Key of its partner.
    pub id: String,
    /// Place of it.
    pub seq: u64,
    /// Role of its speaker.
    pub role: String,
    /// Name of its speaker, where given.
    pub name: Option<String>,
    /// Its text.
    pub content: String,
}

/// A copy in the queue.
#[derive(Clone, Debug, Deserialize)]
pub struct CopyOf {
    /// Key of the original.
    pub of: String,
    /// Place of the copy.
    pub seq: u64,
    /// The bytes of the original that it holds; none if it holds all.
    #[serde(default)]
    pub excerpt: Option<Span>,
}

impl CopyOf {
    /// Whether it holds a part of the original; without one, all of it.
    pub fn holds(&self, part: Option<&Range<usize>>) -> bool {
        let within = |held: &Span, part: &Range<usize>| {
            held.start <= part.start as u64 && part.end as u64 <= held.end
        };
        self.excerpt.as_ref().is_none_or(|held| part.is_some_and(|part| within(held, part)))
    }
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
        let quoted = !phrases.is_empty();
        if !quoted && words.split(' ').filter(|w| has_word(w)).count() > 1 {
            phrases.push(words.clone());
        }
        let telling = content_words(&words);
        Ok(Self {
            words,
            phrases,
            telling,
            quoted,
            filter: RecallFilter::default(),
            mode: RecallMode::Auto,
        })
    }

    /// The same, with what is configured where nothing was said.
    #[must_use]
    pub fn settled(mut self, settings: &RecallSettings) -> Self {
        if let RecallMode::Vector { similarity_min } = &mut self.mode {
            similarity_min.get_or_insert(thousandths(settings.similarity_threshold));
        }
        self
    }
}

fn has_word(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

impl RecallFilter {
    /// Whether anything is asked for at all.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an entry meets it.
    pub fn meets(&self, entry: &Spoken) -> bool {
        self.role.as_ref().is_none_or(|role| *role == entry.role)
            && self.name.as_ref().is_none_or(|name| entry.name.as_ref() == Some(name))
            && self.after.as_ref().is_none_or(|after| entry.at >= *after)
            && self.before.as_ref().is_none_or(|before| entry.at < *before)
    }
}

/// Recent entries that match and that the view did not show.
fn fresh<'a>(tail: &'a [Recent], shown: &HashSet<u64>) -> Vec<&'a Recent> {
    let mut rows: Vec<&Recent> = tail.iter().filter(|row| !shown.contains(&row.seq)).collect();
    rows.sort_by(|a, b| b.held.cmp(&a.held).then(b.seq.cmp(&a.seq)));
    rows
}

impl RecallQuery {
    /// The question without the names of those whose words are looked through: with them, vectors find what says a name.
    pub fn nameless<'n>(&self, names: impl Iterator<Item = &'n str>) -> String {
        without_names(&self.words, names)
    }

    /// A passage of a text that holds more of what is looked for than the one around a byte, if words count and there is one.
    pub fn better_passage(&self, text: &str, known: usize) -> Option<Range<usize>> {
        let quoted = if self.quoted { &self.phrases[..] } else { &[] };
        let by_meaning = matches!(self.mode, RecallMode::Vector { .. });
        if by_meaning { None } else { better_passage(&self.words, quoted, text, known) }
    }
}

/// What a list is made of.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Sources {
    /// What the view found, best first; one more than a list holds, to tell that there are more.
    pub view: Vec<ViewHit>,
    /// What was logged a moment ago and matches.
    pub tail: Vec<Recent>,
    /// When the last one of what was logged a moment ago and looked at was logged, in milliseconds; none where all of it was looked at.
    pub oldest_ms: Option<u64>,
    /// Places of what is weighed: the best of the view, and of the tail what holds most words, the newest first among equals.
    pub weighed: Vec<u64>,
    /// How rare each telling word is; none for one that the view does not hold.
    pub rarity: Vec<Option<f64>>,
    /// Passages near to the question, the nearest first; none where there are no vectors.
    #[serde(default)]
    pub near: Vec<NearPassage>,
    /// The entries that are weighed, and those beside them.
    pub rows: Vec<Spoken>,
    /// How far the agent's vectors are made.
    pub mark: Option<RecallMark>,
    /// Whether the entry that was logged last has vectors of the kind that was asked about, or gets none: it is blank, or the model refused it.
    pub complete: bool,
}

/// One list of all: what was weighed by its score, then the rest of the view in its order, then the rest of what is recent.
pub fn listed(query: &RecallQuery, sources: Sources, now_ms: u64) -> Found {
    let Sources { view, tail, oldest_ms, weighed, rarity, near, rows, .. } = sources;
    let quoted = if query.quoted { query.phrases.clone() } else { Vec::new() };
    let by_meaning = matches!(query.mode, RecallMode::Vector { .. });
    let mut similar: HashMap<u64, f64> = HashMap::new();
    for passage in &near {
        let most = similar.entry(passage.seq).or_insert(passage.similarity);
        *most = most.max(passage.similarity);
    }
    let mut found: HashSet<u64> = similar.keys().copied().collect();
    if !by_meaning {
        found.extend(weighed);
    }
    let words = query.words.clone();
    let mut material = Material { query: words, quoted, rarity, rows, hits: found, near };
    let order = ranked(&mut material, query.mode);
    let least = match query.mode {
        RecallMode::Vector { similarity_min } => similarity_min,
        RecallMode::Auto | RecallMode::Text | RecallMode::Hybrid => None,
    };
    let similarity_min = least.map(|least| (least, similar.len() - order.len().min(similar.len())));
    let spoken: HashMap<u64, &Spoken> = material.rows.iter().map(|row| (row.seq, row)).collect();
    let mut hits: Vec<Hit> = Vec::new();
    for entry in order {
        if spoken.get(&entry.seq).is_some_and(|row| query.filter.meets(row)) {
            let (passage, parts) = (Some(entry.passage), Some(entry.parts));
            let similarity = similar.get(&entry.seq).copied();
            hits.push(Hit {
                id: entry.id,
                seq: entry.seq,
                score: entry.score,
                passage,
                parts,
                similarity,
            });
        }
    }
    if !by_meaning {
        unweighed(&mut hits, view, &tail);
    }
    let capped = hits.len() > RECALL_HITS_MAX;
    hits.truncate(RECALL_HITS_MAX);
    let tail_capped = oldest_ms.is_some_and(|oldest_ms| oldest_ms + RECALL_LAG_MS > now_ms);
    Found { hits, capped, tail_capped, similarity_min, ..Found::default() }
}

/// Puts what was not weighed behind all that was, in its order.
fn unweighed(hits: &mut Vec<Hit>, view: Vec<ViewHit>, tail: &[Recent]) {
    let shown: HashSet<u64> = view.iter().map(|hit| hit.seq).collect();
    let rest = view.into_iter().map(|hit| (hit.id, hit.seq));
    let rest = rest.chain(fresh(tail, &shown).into_iter().map(|row| (row.id.clone(), row.seq)));
    let known: HashSet<u64> = hits.iter().map(|hit| hit.seq).collect();
    let mut score = hits.last().map_or(0.0, |hit| hit.score);
    for (id, seq) in rest.filter(|(_, seq)| !known.contains(seq)) {
        score -= 1.0;
        hits.push(Hit { id, seq, score, ..Hit::default() });
    }
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

    fn view(seqs: &[u64]) -> Vec<ViewHit> {
        let hit = |(seq, score): (&u64, f64)| ViewHit { id: format!("m{seq}"), seq: *seq, score };
        seqs.iter().zip((0..seqs.len()).rev().map(|n| n as f64)).map(hit).collect()
    }

    fn recent(seq: u64, held: u64) -> Recent {
        Recent { id: format!("m{seq}"), seq, held }
    }

    fn said(seq: u64, content: &str) -> Spoken {
        Spoken { id: format!("m{seq}"), seq, content: content.into(), ..Spoken::default() }
    }

    fn list(query: &RecallQuery, view: Vec<ViewHit>, tail: &[Recent], rows: Vec<Spoken>) -> Found {
        let weighed =
            view.iter().map(|hit| hit.seq).chain(tail.iter().map(|row| row.seq)).collect();
        let tail = tail.to_vec();
        listed(query, Sources { view, tail, weighed, rows, ..Sources::default() }, 2_000)
    }

    fn order(found: &Found) -> Vec<u64> {
        found.hits.iter().map(|hit| hit.seq).collect()
    }

    #[test]
    fn a_recent_entry_stands_by_its_words_among_those_of_the_view() {
        let query = RecallQuery::parse("blue boat").unwrap();
        let rows = vec![
            said(1, "a red boat"),
            said(5, "one boat of many others far out at sea"),
            said(9, "a blue boat"),
        ];
        let found = list(&query, view(&[5, 1]), &[recent(9, 2)], rows);
        assert_eq!(order(&found), [9, 1, 5]);
        assert!(!found.capped && !found.tail_capped);
        assert!(found.hits.iter().all(|hit| hit.passage.is_some() && hit.parts.is_some()));
    }

    #[test]
    fn what_was_not_weighed_comes_behind_in_its_order_and_once() {
        let query = RecallQuery::parse("boat").unwrap();
        let rows = vec![said(7, "a boat")];
        let found = list(&query, view(&[3, 7, 4]), &[recent(4, 1), recent(8, 1)], rows);
        assert_eq!(order(&found), [7, 3, 4, 8]);
        assert!(found.hits.windows(2).all(|two| two[0].score > two[1].score));
    }

    #[test]
    fn what_stands_beside_is_listed_only_if_it_meets_the_filter() {
        let mut query = RecallQuery::parse("boat").unwrap();
        let beside = |seq, content: &str, role: &str| Spoken {
            dialog: true,
            role: role.into(),
            ..said(seq, content)
        };
        let rows =
            vec![beside(1, "Where is the boat?", "user"), beside(2, "At pier 4.", "assistant")];
        let all = list(&query, view(&[1]), &[], rows.clone());
        assert_eq!(all.hits.len(), 2);
        query.filter.role = Some("user".into());
        assert_eq!(order(&list(&query, view(&[1]), &[], rows)), [1]);
        let entry =
            Spoken { at: "2026-03-04".into(), name: Some("Ida".into()), ..Spoken::default() };
        let times = |after: Option<&str>, before: Option<&str>| RecallFilter {
            after: after.map(Into::into),
            before: before.map(Into::into),
            ..RecallFilter::default()
        };
        for (filter, met) in [
            (times(Some("2026-03-04"), Some("2026-03-05")), true),
            (times(Some("2026-03-05"), None), false),
            (times(None, Some("2026-03-04")), false),
            (RecallFilter { name: Some("Ida".into()), ..RecallFilter::default() }, true),
            (RecallFilter { name: Some("Otto".into()), ..RecallFilter::default() }, false),
        ] {
            assert_eq!(filter.meets(&entry), met, "{filter:?}");
        }
    }

    #[test]
    fn a_copy_holds_what_lies_within_its_part() {
        let copy = |excerpt: Option<(u64, u64)>| CopyOf {
            of: "m".into(),
            seq: 9,
            excerpt: excerpt.map(|(start, end)| Span { start, end }),
        };
        for (held, part, holds) in [
            (None, None, true),
            (None, Some(3..9), true),
            (Some((3, 9)), Some(3..9), true),
            (Some((3, 9)), Some(2..9), false),
            (Some((3, 9)), Some(3..10), false),
            (Some((3, 9)), None, false),
        ] {
            assert_eq!(copy(held).holds(part.as_ref()), holds, "{held:?} {part:?}");
        }
    }

    #[test]
    fn a_list_says_when_it_is_not_all() {
        let query = RecallQuery::parse("boat").unwrap();
        let seqs: Vec<u64> = (1..=RECALL_HITS_MAX as u64 + 1).collect();
        let found = list(&query, view(&seqs), &[], Vec::new());
        assert_eq!((found.hits.len(), found.capped), (RECALL_HITS_MAX, true));
        let at = |now_ms| {
            let sources = Sources { oldest_ms: Some(1_000), ..Sources::default() };
            listed(&query, sources, now_ms).tail_capped
        };
        assert!(at(1_000 + RECALL_LAG_MS - 1));
        assert!(!at(1_000 + RECALL_LAG_MS));
    }
}
