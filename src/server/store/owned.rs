//! Lists the collections that contain agents' rows. For each collection, the list says how a row
//! names its agent, and whether exports include the rows.

use vctx_core::memory::export::RowKind;

/// How a row identifies its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// The row's `agent_id` is the scope's key.
    AgentId,
    /// The row's `_key` is the scope's key.
    Key,
    /// The row is an edge whose `_from` is the agent's core.
    FromCore,
    /// The row is an edge whose `_from` is one of the agent's rows in these collections.
    From(&'static [&'static str]),
}

/// A collection that contains agents' rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Name of the collection.
    pub collection: &'static str,
    /// How a row of the collection identifies its agent.
    pub names: Names,
    /// Kind that the rows have in an export; `None` if they are not exported.
    pub part: Option<RowKind>,
    /// Why the rows are not exported; empty if they are.
    pub stays: &'static str,
}

const fn goes(collection: &'static str, names: Names, part: RowKind) -> Owned {
    Owned { collection, names, part: Some(part), stays: "" }
}

const fn stays(collection: &'static str, names: Names, why: &'static str) -> Owned {
    Owned { collection, names, part: None, stays: why }
}

/// All collections that contain agents' rows. `vctx_meta` is not in this list, since its rows
/// belong to the database as a whole.
pub const OWNED: &[Owned] = &[
    goes("archival_docs", Names::AgentId, RowKind::Passages),
    goes("archival_manifests", Names::AgentId, RowKind::Manifests),
    stays(
        "archival_parts",
        Names::AgentId,
        "parts of a document that is being ingested: the ingesting caller sends them again",
    ),
    goes("cites", Names::AgentId, RowKind::Cites),
    goes("context_packs", Names::AgentId, RowKind::Packs),
    goes("core_memory", Names::Key, RowKind::Core),
    goes("core_versions", Names::AgentId, RowKind::Versions),
    stays("departures", Names::Key, "the name of the database to which an agent has moved"),
    goes("derived_from", Names::From(&["archival_docs", "core_versions"]), RowKind::Derived),
    stays("directory", Names::Key, "where the agent is"),
    stays(
        "forgets",
        Names::AgentId,
        "manifests of forget operations in this database: exported rows no longer contain the forgotten texts",
    ),
    goes("idempotency", Names::AgentId, RowKind::Answers),
    goes("memory_events", Names::AgentId, RowKind::Events),
    goes("messages", Names::AgentId, RowKind::Messages),
    stays("pages", Names::AgentId, "result lists, which are stored for an hour"),
    goes("prompts", Names::AgentId, RowKind::Prompts),
    goes("recall_log", Names::FromCore, RowKind::Recall),
    stays(
        "recall_marks",
        Names::Key,
        "the last entry that has vectors, and the server that computes vectors: each server determines both at its start",
    ),
    goes("recall_vectors", Names::AgentId, RowKind::RecallVectors),
    goes("schedules", Names::AgentId, RowKind::Schedules),
    goes("tool_sets", Names::AgentId, RowKind::ToolSets),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_collection_has_its_line_and_every_part_its_collection() {
        let text = include_str!("../../../arango-setup/collections.json");
        let listed: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
        let mut there: BTreeSet<&str> =
            listed.iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert!(there.remove("vctx_meta"), "it belongs to nobody");
        let owned: BTreeSet<&str> = OWNED.iter().map(|owned| owned.collection).collect();
        assert_eq!(owned, there, "`OWNED` must list each collection with rows of agents");
        for part in RowKind::ALL {
            let of = |owned: &&Owned| owned.part == Some(part);
            let found: Vec<&Owned> = OWNED.iter().filter(of).collect();
            assert_eq!(found.len(), 1, "{part:?}");
            assert_eq!(found[0].collection, part.collection());
        }
        for owned in OWNED {
            assert_eq!(owned.part.is_none(), !owned.stays.is_empty(), "{}", owned.collection);
        }
    }
}
