//! Determines whether a tool call needs an idempotency key, a revision or an existing agent.

use vctx_core::dialect::Translated;
use vctx_core::policy::Depends;
use vctx_core::tools::Access;

/// What a tool call requires in addition to its own arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// The call only reads, and needs no idempotency key, no revision and no agent.
    Nothing,
    /// The call may write. It needs an idempotency key but no revision; an agent that does not
    /// exist is treated as one with an empty memory.
    Key,
    /// The call needs an idempotency key and an agent, which is created if necessary, but no
    /// revision.
    KeyAndAgent,
    /// The call needs an idempotency key, an agent, and the revision of the agent's memory.
    MemoryRevision,
    /// The call needs an idempotency key, an agent, and the revision of the document that `doc_id`
    /// names.
    DocumentRevision,
}

/// Returns which of idempotency key, agent and revision a call needs. A call that could not be
/// parsed has no effect, so it needs nothing.
pub(super) fn needs(understood: Option<&Translated>) -> Needs {
    let Some(translated) = understood else { return Needs::Nothing };
    let call = &translated.call;
    match call.spec().access {
        Access::Read => Needs::Nothing,
        Access::Search => Needs::Key,
        Access::Post | Access::Signal => Needs::KeyAndAgent,
        Access::Write if call.depends() != Depends::Manifest => Needs::MemoryRevision,
        Access::Write if translated.any_revision => Needs::KeyAndAgent,
        Access::Write => Needs::DocumentRevision,
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
