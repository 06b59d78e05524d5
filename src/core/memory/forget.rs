//! A forgetting: what was meant, how far it is, and the manifest that is left of it, which holds places and digests and no text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::receipt::sha256;

/// Key of the forgetting of a whole agent: there is one for each, and it stays.
pub fn tombstone_key(agent_id: &str) -> String {
    sha256(&format!("vctx forgotten agent 1\0{agent_id}"))
}

/// The row `forgets/{key}`: a forgetting under way, then its manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Forgetting {
    /// Hash of scope and idempotency key; of a whole agent that of the scope alone.
    #[serde(rename = "_key")]
    pub key: String,
    /// Whose memory.
    pub agent_id: String,
    /// Its tenant.
    pub tenant: String,
    /// How it was named: `messages`, `document`, `match` or `agent`.
    pub what: String,
    /// Where it is.
    pub phase: Phase,
    /// Steps so far; guards the next one.
    pub step: u64,
    /// Items, documents or rows of the phase that are done.
    pub at: u64,
    /// Where the page behind the last one begins, in a phase that reads pages.
    pub after: String,
    /// Messages that go, in order.
    pub items: Vec<Item>,
    /// Documents of the archive that go.
    pub documents: Vec<String>,
    /// Schedules that go.
    pub schedules: Vec<String>,
    /// Keys of sets of tools that go.
    pub tool_sets: Vec<String>,
    /// Blocks that went.
    pub blocks: Vec<String>,
    /// Keys of copies of texts in which blocks or system text quote it.
    pub versions: Vec<String>,
    /// Keys of stored answers that quote it.
    pub answers: Vec<String>,
    /// Where it is quoted by what stays.
    pub quoted: Quoted,
    /// First revision of the summary that may hold some of it; none: none does.
    pub summary_from: Option<u64>,
    /// Version of the core up to which copies hold such a summary.
    pub summary_until: u64,
    /// Whether some of it stood in the thread of a client.
    pub threads: bool,
    /// What went, by collection.
    pub counts: BTreeMap<String, u64>,
    /// Who asked.
    pub by: Value,
    /// When it was asked.
    pub begun_at: String,
    /// When all was gone; none: it is under way.
    pub ended_at: Option<String>,
    /// Server time of the last step, in milliseconds: what stands still is gone on with by a job.
    pub touched_ms: u64,
    /// Head of the chain when a whole agent went.
    pub chain: Option<Value>,
    /// The record of the call that asked for it.
    pub answer_key: String,
    /// Hash of the request, to tell another call under the same key; empty once all is gone, since it is made of the text.
    pub request_hash: String,
}

/// A message that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its place.
    pub seq: u64,
    /// Its key.
    pub id: String,
    /// What it is to the queue.
    pub kind: String,
    /// Its digest, which stays in the chain.
    pub digest: String,
}

/// Where something is quoted that goes, by what stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quoted {
    /// Blocks of the core, by name.
    pub blocks: Vec<String>,
    /// Whether the system text does.
    pub system: bool,
    /// Places of messages.
    pub messages: Vec<u64>,
    /// Documents of the archive.
    pub documents: Vec<String>,
    /// Schedules by name.
    pub schedules: Vec<String>,
    /// Messages whose text was looked for elsewhere, and those that were too many or too short for it.
    pub searched: u64,
    /// Those that were not.
    pub unsearched: u64,
}

/// What is done next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Result lists, schedules, sets of tools.
    #[default]
    Beside,
    /// Documents of the archive.
    Documents,
    /// Messages, each with what was made of it.
    Messages,
    /// Summaries and quotes in copies of texts.
    Versions,
    /// Stored answers.
    Answers,
    /// Digests of clients' threads.
    Threads,
    /// Every row of an agent.
    Rows,
    /// Nothing: all is gone.
    Done,
}

impl Phase {
    /// The one behind it.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Beside => Self::Documents,
            Self::Documents => Self::Messages,
            Self::Messages => Self::Versions,
            Self::Versions => Self::Answers,
            Self::Answers => Self::Threads,
            Self::Threads | Self::Rows | Self::Done => Self::Done,
        }
    }
}

impl Forgetting {
    /// Whether all is gone.
    pub fn done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Adds to what went.
    pub fn count(&mut self, what: &str, rows: u64) {
        if rows > 0 {
            *self.counts.entry(what.to_owned()).or_default() += rows;
        }
    }

    /// Goes on to the next phase.
    pub fn advance(&mut self) {
        self.phase = self.phase.next();
        self.at = 0;
        self.after.clear();
    }

    /// Ends: what was made of the text that was looked for goes as well.
    pub fn end(&mut self, at: &str) {
        self.phase = Phase::Done;
        self.ended_at = Some(at.to_owned());
        self.request_hash.clear();
        self.versions.clear();
        self.answers.clear();
        self.after.clear();
    }

    /// The manifest as it is shown.
    pub fn manifest(&self) -> Map<String, Value> {
        let lines: String =
            self.items.iter().map(|one| format!("{} {}\n", one.seq, one.digest)).collect();
        let value = json!({
            "id": self.key, "state": if self.done() { "done" } else { "under_way" }, "what": self.what,
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

/// Rising numbers as a list of `3` and `5-9`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_places_and_holds_no_request() {
        let item =
            |seq| Item { seq, id: format!("m{seq}"), kind: "turn".into(), digest: "d".into() };
        let mut row = Forgetting {
            items: [1, 2, 3, 7].map(item).to_vec(),
            request_hash: "of the text".into(),
            ..Forgetting::default()
        };
        assert_eq!(row.manifest()["seqs"], json!(["1-3", "7"]));
        assert_eq!(row.manifest()["state"], "under_way");
        let digest = row.manifest()["items_digest"].clone();
        row.end("now");
        assert_eq!(
            (row.manifest()["state"].clone(), row.request_hash.as_str()),
            (json!("done"), "")
        );
        assert_eq!(row.manifest()["items_digest"], digest);
    }

    #[test]
    fn the_phases_come_to_an_end() {
        let mut row = Forgetting::default();
        for _ in 0..6 {
            assert!(!row.done());
            row.advance();
        }
        assert!(row.done());
    }
}
