//! Whose rows lie where: each collection that holds rows of an agent, how a row names its agent, and whether the row goes with the agent.

use vctx_core::memory::export::Part;

/// How a row says whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// `agent_id` is the scope's key.
    AgentId,
    /// `_key` is the scope's key.
    Key,
    /// `_from` is the agent's core.
    FromCore,
    /// `_from` is a row of one of these collections, which is the agent's.
    From(&'static [&'static str]),
}

/// A collection with rows of agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The collection.
    pub collection: &'static str,
    /// How a row names its agent.
    pub names: Names,
    /// As which part of an export its rows leave.
    pub part: Option<Part>,
    /// Why they stay, where they do.
    pub stays: &'static str,
}

const fn goes(collection: &'static str, names: Names, part: Part) -> Owned {
    Owned { collection, names, part: Some(part), stays: "" }
}

const fn stays(collection: &'static str, names: Names, why: &'static str) -> Owned {
    Owned { collection, names, part: None, stays: why }
}

/// All of them. What is not here holds nothing of an agent: `vctx_meta` is the database's own.
pub const OWNED: &[Owned] = &[
    goes("archival_docs", Names::AgentId, Part::Passages),
    goes("archival_manifests", Names::AgentId, Part::Manifests),
    stays(
        "archival_parts",
        Names::AgentId,
        "parts of a document that is being taken in: its caller sends them again",
    ),
    goes("cites", Names::AgentId, Part::Cites),
    goes("core_memory", Names::Key, Part::Core),
    goes("core_versions", Names::AgentId, Part::Versions),
    stays("departures", Names::Key, "that the agent went from here, and where to"),
    goes("derived_from", Names::From(&["archival_docs", "core_versions"]), Part::Derived),
    stays("directory", Names::Key, "where the agent is"),
    stays(
        "forgets",
        Names::AgentId,
        "manifests of what was forgotten here: its rows leave as they are since",
    ),
    goes("idempotency", Names::AgentId, Part::Answers),
    goes("memory_events", Names::AgentId, Part::Events),
    goes("messages", Names::AgentId, Part::Messages),
    stays("pages", Names::AgentId, "result lists that wait an hour for their next page"),
    goes("prompts", Names::AgentId, Part::Prompts),
    goes("recall_log", Names::FromCore, Part::Recall),
    stays(
        "recall_marks",
        Names::Key,
        "how far vectors are made, and by which server: found out anew",
    ),
    goes("recall_vectors", Names::AgentId, Part::RecallVectors),
    goes("schedules", Names::AgentId, Part::Schedules),
    goes("tool_sets", Names::AgentId, Part::ToolSets),
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
        assert_eq!(owned, there, "say whose rows a new collection holds, and whether they leave");
        for part in Part::ALL {
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
