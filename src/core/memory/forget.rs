//! The database row of a forget operation: the request, the progress, and a manifest of positions
//! and digests without text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::event::named;
use super::receipt::{canonical_json, sha256};

/// Returns the key of the tombstone: the row that records the forget operation for a whole agent.
/// An agent has one such row, which is never removed.
pub fn tombstone_key(agent_id: &str) -> String {
    sha256(&format!("vctx forgotten agent 1\0{agent_id}"))
}

/// Returns the text that the code of a tombstone covers: `vctx forgotten agent 1`, a zero byte, and
/// the canonical JSON of the row without its code and without null attributes.
pub fn coded_text(tombstone: &Map<String, Value>) -> String {
    let covered = tombstone
        .iter()
        .filter(|(name, value)| !value.is_null() && !["_id", "_rev", "code"].contains(&&***name));
    let covered: Map<String, Value> =
        covered.map(|(name, value)| (name.clone(), value.clone())).collect();
    format!("vctx forgotten agent 1\0{}", canonical_json(&Value::Object(covered)))
}

/// The last entry of the ledger of an agent that was forgotten as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEntry {
    /// Number of the entry.
    pub n: u64,
    /// Hash of the entry, in hex.
    pub hash: String,
}

/// The manifests that stay after a whole agent was forgotten: those of the agent's earlier forget
/// operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptManifests {
    /// Number of these manifests.
    pub count: u64,
    /// SHA-256, in hex, of their items in the form of the ledger, in order, each with a line end.
    pub digest: String,
}

/// The row `forgets/{key}`: the state of a forget operation while it is under way, and the manifest
/// after the operation has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Forgetting {
    /// Key of the forget operation: the hash of scope and idempotency key; for a whole agent, the
    /// hash of the scope alone.
    #[serde(rename = "_key")]
    pub key: String,
    /// Key of the agent.
    pub agent_id: String,
    /// Tenant of the agent.
    pub tenant: String,
    /// What the request asks to forget: `messages`, `document`, `match` or `agent`.
    pub what: String,
    /// The current phase.
    pub phase: Phase,
    /// Number of the forget operation's steps so far. The next step fails if another server has
    /// changed this number.
    pub step: u64,
    /// Number of items, documents or rows that the current phase has already processed.
    pub at: u64,
    /// Key of the last row that was read, in a phase that reads its rows page by page. The next
    /// page begins after this row.
    pub after: String,
    /// Messages to forget, in order of their positions.
    pub items: Vec<ForgottenText>,
    /// Names of the archive's documents to forget; digests after the end.
    pub documents: Vec<String>,
    /// Names of the schedules to forget; digests after the end.
    pub schedules: Vec<String>,
    /// Keys of tool sets to forget.
    pub tool_sets: Vec<String>,
    /// Keys of context packs that quote a text to forget.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packs: Vec<String>,
    /// Names of the blocks that the forget operation removed because they quote the text to forget;
    /// digests after the end.
    pub blocks: Vec<String>,
    /// The stored core versions whose blocks or system text quote the forgotten text.
    pub versions: Vec<QuotingVersion>,
    /// Keys of stored answers that quote a forgotten text.
    pub answers: Vec<String>,
    /// Keys of prompts whose options or notices quote a forgotten text.
    #[serde(default)]
    pub prompts: Vec<String>,
    /// Texts that quote a forgotten text and that the forget operation does not remove.
    pub quoted: Quoted,
    /// First revision of the summary that may contain a forgotten text; `None` if no revision may
    /// contain such a text.
    pub summary_from: Option<u64>,
    /// Newest version of the core whose stored summary may contain the forgotten text.
    pub summary_until: u64,
    /// Whether the summary is made again from the messages that are left. Not if the summariser's
    /// own words could make the forgotten text again.
    pub renews: bool,
    /// Whether some of the forgotten text was in a client's conversation thread.
    pub threads: bool,
    /// Number of removed rows in each collection.
    pub counts: BTreeMap<String, u64>,
    /// The caller who requested the forget operation.
    pub by: Value,
    /// Time when the forget operation was requested.
    pub begun_at: String,
    /// Time when the forget operation ended; `None` while the forget operation is under way.
    pub ended_at: Option<String>,
    /// Server time of the forget operation's last step, in milliseconds; a job continues a forget
    /// operation without recent steps.
    pub touched_ms: u64,
    /// Head of the agent's hash chain, if the whole agent is forgotten.
    pub chain: Option<Value>,
    /// The last entry of the agent's ledger, if the whole agent is forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastEntry>,
    /// The other manifests of an agent that was forgotten as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptManifests>,
    /// Code of a tombstone, made with the secret of the database's servers; see [`coded_text`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Key of the stored answer to the forget operation's request.
    pub answer_key: String,
    /// Hash of the request, so that another request with the same idempotency key is refused. The
    /// hash is cleared when the forget operation ends, because it is derived from the forgotten
    /// text.
    pub request_hash: String,
}

/// A stored core version that quotes a forgotten text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "StoredQuoting")]
pub struct QuotingVersion {
    /// Key of the row in `core_versions`.
    pub key: String,
    /// Places of the quoting texts: 0 is the system text, and the blocks are counted from 1. `None`
    /// for all texts of the version, which a forget operation of an earlier program version names.
    pub places: Option<Vec<u64>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredQuoting {
    Key(String),
    Places { key: String, places: Option<Vec<u64>> },
}

impl From<StoredQuoting> for QuotingVersion {
    fn from(stored: StoredQuoting) -> Self {
        match stored {
            StoredQuoting::Key(key) => Self { key, places: None },
            StoredQuoting::Places { key, places } => Self { key, places },
        }
    }
}

impl QuotingVersion {
    /// Sorts a list and joins the entries of the same version.
    pub fn join(list: &mut Vec<Self>) {
        list.sort();
        list.dedup_by(|one, kept| {
            let same = one.key == kept.key;
            if same {
                kept.places = kept.places.take().zip(one.places.take()).map(|(mut all, more)| {
                    all.extend(more);
                    all.sort_unstable();
                    all.dedup();
                    all
                });
            }
            same
        });
    }
}

/// A message to forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenText {
    /// Position of the message to forget.
    pub seq: u64,
    /// Key of the message to forget.
    pub id: String,
    /// Kind of the message to forget.
    pub kind: String,
    /// Digest of the message to forget; the digest stays in the hash chain.
    pub digest: String,
}

/// Texts that quote a forgotten text and that the forget operation does not remove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quoted {
    /// Names of the core's blocks that quote a forgotten text.
    pub blocks: Vec<String>,
    /// Whether the system text quotes a forgotten text.
    pub system: bool,
    /// Positions of the messages that quote a forgotten text.
    pub messages: Vec<u64>,
    /// Names of the archive's documents that quote a forgotten text.
    pub documents: Vec<String>,
    /// Names of the schedules that quote a forgotten text.
    pub schedules: Vec<String>,
    /// Number of forgotten messages whose text was searched for in other texts.
    pub searched: u64,
    /// Number of forgotten messages whose text was not searched for in other texts, because there
    /// were too many messages or the text was too short.
    pub unsearched: u64,
}

/// A phase of a forget operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The phase that removes stored result lists, schedules and tool sets.
    #[default]
    Beside,
    /// The phase that removes documents of the archive.
    Documents,
    /// The phase that removes messages and all texts derived from these messages.
    Messages,
    /// The phase that changes the stored core versions. It removes the texts that quote the
    /// forgotten text, and removes summaries that may contain this text.
    Versions,
    /// The phase that removes the texts of those stored answers that quote the forgotten text or
    /// name a removed item.
    Answers,
    /// The phase that removes the digests of clients' conversation threads from messages.
    Threads,
    /// The phase that removes the options of prompts that showed a forgotten message or whose
    /// options or notices quote a forgotten text.
    Prompts,
    /// The phase that removes every row of an agent.
    Rows,
    /// The forget operation has ended.
    Done,
}

impl Phase {
    /// Returns the phase that follows this phase.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Beside => Self::Documents,
            Self::Documents => Self::Messages,
            Self::Messages => Self::Versions,
            Self::Versions => Self::Answers,
            Self::Answers => Self::Threads,
            Self::Threads => Self::Prompts,
            Self::Prompts | Self::Rows | Self::Done => Self::Done,
        }
    }
}

impl Forgetting {
    /// Whether the forget operation has ended.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Adds `rows` to the number of removed rows of the collection `what`.
    pub fn count(&mut self, what: &str, rows: u64) {
        if rows > 0 {
            *self.counts.entry(what.to_owned()).or_default() += rows;
        }
    }

    /// Begins the next phase of the forget operation.
    pub fn advance(&mut self) {
        self.phase = self.phase.next();
        self.at = 0;
        self.after.clear();
    }

    /// Ends the forget operation at the time `at` and clears all values that are derived from the
    /// forgotten text. Names may contain the text too, so only digests of names stay.
    pub fn end(&mut self, at: &str) {
        let agent_id = &self.agent_id;
        let quoted = &mut self.quoted;
        for names in [
            &mut self.documents,
            &mut self.schedules,
            &mut self.blocks,
            &mut quoted.blocks,
            &mut quoted.documents,
            &mut quoted.schedules,
        ] {
            names.iter_mut().for_each(|name| *name = named(agent_id, name));
        }
        self.phase = Phase::Done;
        self.ended_at = Some(at.to_owned());
        self.request_hash.clear();
        self.versions.clear();
        self.answers.clear();
        self.prompts.clear();
        self.packs.clear();
        self.after.clear();
    }

    /// Returns the manifest of the forget operation in the form that callers receive.
    pub fn manifest(&self) -> Map<String, Value> {
        let lines: String =
            self.items.iter().map(|one| format!("{} {}\n", one.seq, one.digest)).collect();
        let value = json!({
            "id": self.key, "state": if self.is_done() { "done" } else { "under_way" }, "what": self.what,
            "phase": self.phase, "by": self.by, "begun_at": self.begun_at, "ended_at": self.ended_at,
            "messages": self.items.len(), "seqs": ranges(self.items.iter().map(|one| one.seq)), "items": self.items,
            "items_digest": sha256(&lines), "documents": self.documents, "schedules": self.schedules,
            "tool_sets": self.tool_sets.len(), "blocks": self.blocks, "quoted": self.quoted, "counts": self.counts,
            "chain": self.chain,
        });
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

/// Formats ascending numbers as single numbers and ranges, such as `3` and `5-9`.
fn ranges(seqs: impl Iterator<Item = u64>) -> Vec<String> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for seq in seqs {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == seq => *last = seq,
            _ => spans.push((seq, seq)),
        }
    }
    let text = |(first, last)| {
        if first == last { format!("{first}") } else { format!("{first}-{last}") }
    };
    spans.into_iter().map(text).collect()
}
