//! Writes the audit row of a change, which contains the caller, the tool and the parts of the
//! change, but no message text.

use serde_json::{Map, Value, json};

use super::Draft;
use crate::memory::archive::Fate;
use crate::memory::change::Part;
use crate::memory::core::Core;
use crate::memory::event::{EventType, named};
use crate::window::{Tokens, tokens};

impl Draft<'_> {
    /// Sets the audit row's field about the number of passages that a search of the archive found.
    pub fn count_passages(&mut self, found: usize) {
        self.passages_found = Some(found);
    }

    /// Updates the core's search counters if the change belongs to a recall search. Returns the
    /// number of texts that were found, or `None` for any other call.
    pub(super) fn count_search(&mut self, result: &Map<String, Value>) -> Option<usize> {
        if !self.searched {
            return None;
        }
        let found = found_by_search(result);
        self.after.counters.recall_searches += 1;
        self.after.counters.recall_hits += u64::from(found > 0);
        Some(found)
    }

    /// Adds the audit row of a change. `found` is the number of results if the change belongs to a
    /// recall search.
    pub(super) fn audit(&mut self, before: &Tokens, found: Option<usize>) {
        let after = tokens(&self.after);
        let notices: Vec<&str> = self.after.notices.iter().map(|n| n.kind.as_str()).collect();
        let mut details = json!({
            "tool": self.around.tool, "actor": self.around.actor, "key_hash": self.around.key_hash,
            "tokens_before": before, "tokens_after": after,
            "version_before": self.before.version, "version_after": self.after.version,
            "head_seq": self.after.queue.head_seq, "next_seq": self.after.queue.next_seq,
            "chain_head": self.after.chain.head, "notices": notices,
            "policy": self.after.token_budget, "encoding": self.after.encoding,
        });
        if let Some(found) = found {
            details["found"] = found.into();
        }
        // This field has another name than that of recall storage, whose searches the Conveyance
        // counts.
        if let Some(passages) = self.passages_found {
            details["passages"] = passages.into();
        }
        if let Some((name, told)) = &self.let_in {
            details[*name] = told.clone();
        }
        if !self.runs.is_empty() {
            details["runs"] = std::mem::take(&mut self.runs).into();
        }
        let told = self.parts.iter().filter_map(|part| audited(part, &self.after));
        for (name, value) in told {
            details[name] = value;
        }
        self.event(EventType::Audit, details);
    }
}

/// Returns the number of texts that a search of recall storage found: its results, and the blocks
/// and the summary that hold its words. A page that waits for room has found its list of results.
pub fn found_by_search(result: &Map<String, Value>) -> usize {
    let count = |name: &str| result.get(name).and_then(Value::as_array).map_or(0, Vec::len);
    let waiting = result.get("paused").and(result.get("total")).and_then(Value::as_u64);
    let waiting = usize::try_from(waiting.unwrap_or(0)).unwrap_or(usize::MAX);
    (count("results") + count("also")).max(waiting)
}

/// Returns the name and the value of the audit field for a part of the change.
fn audited(part: &Part, after: &Core) -> Option<(&'static str, Value)> {
    match part {
        Part::Forget(forget) => {
            let row = &forget.row;
            let told = json!({"id": row.key, "what": row.what, "phase": row.phase, "step": row.step,
                "messages": row.items.len(), "documents": row.documents.len(), "ended_at": row.ended_at});
            Some(("forget", told))
        }
        // Rows removed by a forget operation are excluded here, because the audit field `forget`
        // reports them.
        Part::Expire(expire) if expire.forgotten_version.is_none() => {
            let told = json!({"messages": expire.keys.len(), "versions": expire.versions.len(),
                "answers": expire.answers.len(), "through_seq": after.expired.through_seq});
            Some(("expired", told))
        }
        Part::Fire(fired) => {
            let told = json!({"schedule": named(&after.agent_id, &fired.name), "due_ms": fired.due_ms, "missed": fired.last.missed});
            Some(("tick", told))
        }
        Part::Ingest(ingest) => {
            let manifest = &ingest.manifest;
            let told = match ingest.fate {
                Fate::Removed => {
                    json!({"manifest": manifest.key, "removed_chunks": manifest.chunks})
                }
                Fate::New | Fate::Replaces => {
                    json!({"manifest": manifest.key, "revision": manifest.revision,
                        "offered_chunks": manifest.chunks, "compliant_chunks": manifest.chunks})
                }
            };
            Some(("ingest", told))
        }
        Part::Recount(_)
        | Part::Evict(_)
        | Part::Expire(_)
        | Part::Recall(_)
        | Part::Page(_)
        | Part::Cite(_)
        | Part::Fold(_)
        | Part::Prompt(_)
        | Part::ToolSet(_)
        | Part::Pack(_) => None,
    }
}
