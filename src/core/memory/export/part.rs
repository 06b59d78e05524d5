//! The kinds of rows of an export file, in order, with the collection and the attributes of each
//! kind.

use crate::memory::stored;

/// A kind of row in an export file. The order of the variants is the order of the rows in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKind {
    /// The agent's core, in a single row.
    Core,
    /// Stored core versions: rows of `core_versions`, each with the core's texts of one version.
    Versions,
    /// Messages of the agent's log.
    Messages,
    /// Entries of recall storage.
    Recall,
    /// Vectors of the entries of recall storage.
    RecallVectors,
    /// Documents of the archive.
    Manifests,
    /// Chunks of the archive's documents.
    Passages,
    /// Edges from a model's answers to the chunks that the answers cite.
    Cites,
    /// Edges from a summary or a chunk to its sources, which are messages and earlier summaries.
    Derived,
    /// Prompts that were sent to a model.
    Prompts,
    /// Sets of tools that prompts offered to a model.
    ToolSets,
    /// Context packs, which say what the built contexts of prompts showed.
    Packs,
    /// Stored answers to calls, found by the callers' idempotency keys.
    Answers,
    /// Schedules, which post events.
    Schedules,
    /// Memory events.
    Events,
}

impl RowKind {
    /// All kinds of rows, in the order of an export file.
    pub const ALL: [Self; 15] = [
        Self::Core,
        Self::Versions,
        Self::Messages,
        Self::Recall,
        Self::RecallVectors,
        Self::Manifests,
        Self::Passages,
        Self::Cites,
        Self::Derived,
        Self::Prompts,
        Self::ToolSets,
        Self::Packs,
        Self::Answers,
        Self::Schedules,
        Self::Events,
    ];

    /// Returns the collection of this kind of row. In a file, the kind is named after its
    /// collection.
    pub fn collection(self) -> &'static str {
        match self {
            Self::Core => "core_memory",
            Self::Versions => "core_versions",
            Self::Messages => "messages",
            Self::Recall => "recall_log",
            Self::RecallVectors => "recall_vectors",
            Self::Manifests => "archival_manifests",
            Self::Passages => "archival_docs",
            Self::Cites => "cites",
            Self::Derived => "derived_from",
            Self::Prompts => "prompts",
            Self::ToolSets => "tool_sets",
            Self::Packs => "context_packs",
            Self::Answers => "idempotency",
            Self::Schedules => "schedules",
            Self::Events => "memory_events",
        }
    }

    /// Returns the kind of row with the given name, which is the name of its collection.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.collection() == name)
    }

    /// Returns the attributes that a row of this kind may have. An export fails on a row with
    /// another attribute, so that no attribute is lost silently.
    pub fn attributes(self) -> impl Iterator<Item = &'static str> {
        stored::exported(self.collection())
    }
}
