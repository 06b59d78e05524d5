//! Builds the result list of a search of recall storage from the rows that the database returns.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde::Deserialize;

use super::bm25;
use super::query::{RecallMode, RecallQuery};
use super::rank::{PARTS, RankInput, RecallEntry, ranked, repeated};
use crate::limits::RECALL_HITS_MAX;
use crate::memory::archive::Span;
use crate::memory::message::Message;
use crate::memory::recall_vector::{NearPassage, RecallMark};

/// Maximum time in milliseconds until the ArangoSearch view contains a new entry. A search that
/// could not read all entries younger than this time reports that entries may be missing.
const RECALL_LAG_MS: u64 = 5_000;

/// An entry from the ArangoSearch view, or a recent entry that the view does not contain yet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ListedEntry {
    /// Key of the entry, which is also the key of the entry's message.
    pub id: String,
    /// Position of the entry's message.
    pub seq: u64,
    /// Number of query words in a recent entry; 0 for an entry of the ArangoSearch view.
    #[serde(default)]
    pub held: u64,
}

/// A result of a search of recall storage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecallHit {
    /// Key of the entry, which is also the key of the entry's message.
    pub id: String,
    /// Position of the entry's message.
    pub seq: u64,
    /// Score of the entry; scores are comparable only within one result list.
    pub score: f64,
    /// Byte range of the entry's best passage; `None` if the entry was not scored.
    pub passage: Option<Range<usize>>,
    /// Components of the entry's score; `None` if the entry was not scored.
    pub parts: Option<[f64; PARTS]>,
    /// Cosine between the question and the entry's nearest passage, if known.
    pub similarity: Option<f64>,
}

/// The result list of a search of recall storage, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecallList {
    /// The results, best first.
    pub hits: Vec<RecallHit>,
    /// Whether matching entries are missing because the result list is full.
    pub capped: bool,
    /// Whether the search left out recent entries that the ArangoSearch view may lack.
    pub tail_capped: bool,
    /// Plan of the search by vectors (`exact`, `vector`); `None` if vectors were not used.
    pub near: Option<&'static str>,
    /// Whether the search used vectors although the newest entry has no vector yet.
    pub incomplete: bool,
    /// Reason why the search used no vectors although its mode requires vectors.
    pub degraded: Option<&'static str>,
    /// For a search by vectors only: the required similarity in thousandths, and the number of
    /// entries that were dropped because they are less similar.
    pub similarity_min: Option<(u32, usize)>,
}

impl RecallList {
    /// Keeps the best `hits_max` results.
    #[must_use]
    pub fn at_most(mut self, hits_max: usize) -> Self {
        self.capped |= self.hits.len() > hits_max;
        self.hits.truncate(hits_max);
        self
    }
}

/// Messages that a search found, and the copies of these messages in the queue.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Entries {
    /// The messages, unordered.
    pub found: Vec<Message>,
    /// Copies, in the queue, of the found messages.
    pub copies: Vec<QueueCopy>,
    /// If requested, the replies to the found entries or the messages that the found entries
    /// answer.
    #[serde(default)]
    pub pairs: Vec<Partner>,
}

/// The reply to an entry, or the message that the entry answers.
#[derive(Clone, Debug, Deserialize)]
pub struct Partner {
    /// Key of the found entry.
    pub of: String,
    /// Key of the reply or of the answered message.
    pub id: String,
    /// Position of the reply or of the answered message.
    pub seq: u64,
    /// Role of the message's speaker.
    pub role: String,
    /// Name of the message's speaker, if given.
    pub name: Option<String>,
    /// Text of the message.
    pub content: String,
}

/// A copy in the queue that was made from an entry of recall storage.
#[derive(Clone, Debug, Deserialize)]
pub struct QueueCopy {
    /// Key of the original entry.
    pub of: String,
    /// Position of the copied message.
    pub seq: u64,
    /// Byte range of the original that the copy contains; `None` for the whole original.
    #[serde(default)]
    pub excerpt: Option<Span>,
}

impl QueueCopy {
    /// Whether the copy contains the given byte range of the original; `None` means the whole
    /// original.
    pub fn holds(&self, part: Option<&Range<usize>>) -> bool {
        let within = |held: &Span, part: &Range<usize>| {
            held.start <= part.start as u64 && part.end as u64 <= held.end
        };
        self.excerpt.as_ref().is_none_or(|held| part.is_some_and(|part| within(held, part)))
    }
}

/// Returns the entries of `tail` that the ArangoSearch view did not return; entries with most query
/// words are first.
fn fresh<'a>(tail: &'a [ListedEntry], shown: &HashSet<u64>) -> Vec<&'a ListedEntry> {
    let mut rows: Vec<&ListedEntry> = tail.iter().filter(|row| !shown.contains(&row.seq)).collect();
    rows.sort_by(|a, b| b.held.cmp(&a.held).then(b.seq.cmp(&a.seq)));
    rows
}

/// Rows that the database returns for a search of recall storage, from which the result list is
/// built.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RecallRows {
    /// Matching entries from the ArangoSearch view, best first; one more than the result list can
    /// contain if more entries match.
    pub view: Vec<ListedEntry>,
    /// Recent entries that contain words of the query.
    pub tail: Vec<ListedEntry>,
    /// Time of the oldest recent entry that was read, in milliseconds; `None` if all recent entries
    /// were read.
    pub oldest_ms: Option<u64>,
    /// Positions of the entries to score: the best entries of the ArangoSearch view, and the recent
    /// entries with most query words, newest first.
    pub weighed: Vec<u64>,
    /// Rarity of each content word of the query; `None` for a word that the ArangoSearch view does
    /// not contain.
    pub rarity: Vec<Option<f64>>,
    /// The agent's texts that the ArangoSearch view may not contain.
    #[serde(default)]
    pub unviewed: Unviewed,
    /// Passages near the question by their vectors, nearest first; empty in a search without
    /// vectors.
    #[serde(default)]
    pub near: Vec<NearPassage>,
    /// The entries to score, and the entries next to them.
    pub rows: Vec<RecallEntry>,
    /// Mark in the agent's log; entries logged before the mark have vectors.
    pub mark: Option<RecallMark>,
    /// Whether the newest entry has vectors of the current embedding model or will never have
    /// vectors (blank, or refused by the model).
    pub complete: bool,
}

/// Counts of recent entries and messages of the queue, which the ArangoSearch view may not contain.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Unviewed {
    /// Number of positions before the queue, about as many as the view has entries of the agent.
    pub entries: u64,
    /// Number of the texts that the view may not contain.
    pub texts: u64,
    /// For each content word of the query, the number of these texts that contain the word; `None`
    /// for 0.
    pub holders: Vec<Option<u64>>,
}

impl RecallRows {
    /// Returns the rarity of each content word of the query: the view's rarity, or, for a word that
    /// the view does not contain, the rarity among all texts of the agent. Returns `None` for a
    /// word that none of them contains.
    fn rarities(&self) -> Vec<Option<f64>> {
        let Unviewed { entries, texts, holders } = &self.unviewed;
        let all = (entries + texts) as f64;
        let held = |at: usize| holders.get(at).copied().flatten();
        let counted = |at: usize| held(at).map(|held| bm25::rarity(all, held as f64));
        self.rarity.iter().enumerate().map(|(at, viewed)| viewed.or_else(|| counted(at))).collect()
    }
}

/// Builds the result list, in which a text stands once: scored entries first, then the others
/// of the ArangoSearch view, then the other recent entries.
pub fn listed(query: &RecallQuery, sources: RecallRows, now_ms: u64) -> RecallList {
    let rarity = sources.rarities();
    let RecallRows { view, tail, oldest_ms, weighed, near, rows, .. } = sources;
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
    let mut material = RankInput { query: words, quoted, rarity, rows, hits: found, near };
    let order = ranked(&mut material, query.mode);
    let least = match query.mode {
        RecallMode::Vector { similarity_min } => similarity_min,
        RecallMode::Auto | RecallMode::Text | RecallMode::Hybrid => None,
    };
    let similarity_min = least.map(|least| (least, similar.len() - order.len().min(similar.len())));
    let spoken: HashMap<u64, &RecallEntry> =
        material.rows.iter().map(|row| (row.seq, row)).collect();
    let meets = |hit: &RecallHit| spoken.get(&hit.seq).is_some_and(|row| query.filter.meets(row));
    let mut hits: Vec<RecallHit> = order.into_iter().filter(meets).collect();
    for hit in &mut hits {
        hit.similarity = similar.get(&hit.seq).copied();
    }
    let read = hits.iter().filter_map(|hit| spoken.get(&hit.seq).copied());
    let repeated = repeated(read);
    if !by_meaning {
        unweighed(&mut hits, view, &tail);
    }
    hits.retain(|hit| !repeated.contains(&hit.seq));
    let capped = hits.len() > RECALL_HITS_MAX;
    hits.truncate(RECALL_HITS_MAX);
    let tail_capped = oldest_ms.is_some_and(|oldest_ms| oldest_ms + RECALL_LAG_MS > now_ms);
    RecallList { hits, capped, tail_capped, similarity_min, ..RecallList::default() }
}

/// Appends the entries that were not scored to the result list: first those of `view`, then those
/// of `tail` that `view` lacks.
fn unweighed(hits: &mut Vec<RecallHit>, view: Vec<ListedEntry>, tail: &[ListedEntry]) {
    let shown: HashSet<u64> = view.iter().map(|hit| hit.seq).collect();
    let rest = view.into_iter().map(|hit| (hit.id, hit.seq));
    let rest = rest.chain(fresh(tail, &shown).into_iter().map(|row| (row.id.clone(), row.seq)));
    let known: HashSet<u64> = hits.iter().map(|hit| hit.seq).collect();
    let mut score = hits.last().map_or(0.0, |hit| hit.score);
    for (id, seq) in rest.filter(|(_, seq)| !known.contains(seq)) {
        score -= 1.0;
        hits.push(RecallHit { id, seq, score, ..RecallHit::default() });
    }
}
