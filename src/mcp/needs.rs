//! What a call needs beside its arguments, told by what it does.

use vctx_core::dialect::Translated;
use vctx_core::policy::Depends;
use vctx_core::tools::Call;

/// What a call of a tool needs beside its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// It only reads: no key, no revision, no agent made for it.
    Nothing,
    /// A key, since it may write; no revision; an agent that is not there yet is answered as an empty one.
    Key,
    /// A key, and an agent, made if need be; no revision.
    KeyAndAgent,
    /// A key, an agent, and the revision of the agent's memory.
    MemoryRevision,
    /// A key, an agent, and the revision of the document that `doc_id` names.
    DocumentRevision,
}

/// What a call needs; nothing where it was not understood, since then it does nothing.
pub(super) fn needs(understood: Option<&Translated>) -> Needs {
    let Some(translated) = understood else { return Needs::Nothing };
    match &translated.call {
        Call::FetchCore(_) | Call::ViewCore(_) => Needs::Nothing,
        Call::SearchRecall(_)
        | Call::SearchArchival(_)
        | Call::RecallDates(_)
        | Call::TraceMemory(_) => Needs::Key,
        Call::RecordHeartbeat(_) => Needs::KeyAndAgent,
        Call::IngestArchival(_) if translated.any_revision => Needs::KeyAndAgent,
        Call::IngestArchival(_) => Needs::DocumentRevision,
        _ => Needs::MemoryRevision,
    }
}

/// The blocks that a call is about.
pub(super) fn blocks_of(call: &Call) -> Vec<String> {
    match call.depends() {
        Depends::Block(id) => vec![id],
        Depends::Tree(ids) => ids,
        Depends::Queue | Depends::Eviction | Depends::Manifest | Depends::All => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use vctx_core::dialect::{Dialect, translate};

    #[test]
    fn what_only_reads_needs_nothing() {
        for (name, arguments, expected) in [
            ("fetch_core", json!({"block_id": "a"}), Needs::Nothing),
            ("append_fifo", json!({"message": "a", "role": "user"}), Needs::MemoryRevision),
            ("search_recall", json!({"query": "a"}), Needs::Key),
            ("ingest_archival", json!({"doc_id": "a", "document": "b"}), Needs::DocumentRevision),
            ("record_heartbeat", json!({"state": "yield"}), Needs::KeyAndAgent),
            ("store_core", json!({"block_id": "a"}), Needs::Nothing),
        ] {
            let arguments = arguments.as_object().cloned().unwrap();
            let understood = translate(Dialect::Vctx, name, arguments).ok();
            assert_eq!(needs(understood.as_ref()), expected, "{name}");
        }
        for (arguments, expected) in [
            (json!({"command": "view", "path": "/memories"}), Needs::Nothing),
            (json!({"command": "delete", "path": "/memories/a"}), Needs::MemoryRevision),
        ] {
            let arguments = arguments.as_object().cloned().unwrap();
            let understood = translate(Dialect::Anthropic, "memory", arguments).ok();
            assert_eq!(needs(understood.as_ref()), expected);
        }
    }
}
