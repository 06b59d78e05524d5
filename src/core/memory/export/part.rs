//! What an export is made of: its parts in their order, the collection of each, and the attributes that its rows may have.

/// A kind of row. The order of the variants is the order in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The core: one row.
    Core,
    /// Copies of its texts.
    Versions,
    /// Messages.
    Messages,
    /// Entries of recall storage.
    Recall,
    /// Their vectors.
    RecallVectors,
    /// Documents of the archive.
    Manifests,
    /// Their chunks.
    Passages,
    /// Which answer cites which chunk.
    Cites,
    /// What summaries and chunks were made of.
    Derived,
    /// Prompts that were sent.
    Prompts,
    /// Tools that were offered with them.
    ToolSets,
    /// Answers to calls, by the caller's idempotency keys.
    Answers,
    /// Schedules.
    Schedules,
    /// Events.
    Events,
}

impl Part {
    /// All of them, in order.
    pub const ALL: [Self; 14] = [
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
        Self::Answers,
        Self::Schedules,
        Self::Events,
    ];

    /// The collection that its rows lie in; its name in a file.
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
            Self::Answers => "idempotency",
            Self::Schedules => "schedules",
            Self::Events => "memory_events",
        }
    }

    /// The part of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.collection() == name)
    }

    /// Attributes that a row in a file may have. One that is not here is refused on the way out too, so that nothing stays behind unseen.
    pub fn attributes(self) -> impl Iterator<Item = &'static str> {
        let names = match self {
            Self::Core => {
                "archived asked branch chain context_window counters created_at encoding expired forgotten heartbeat last_message_ms \
                 learned notices open_calls queue queue_head_summary recent_revisions released removed_blocks run schema_version system \
                 token_budget tool_sets tools turns updated_at version working_blocks"
            }
            Self::Versions => {
                "context_window encoding expired_at forgotten_at queue_head_summary system token_budget ts version working_blocks"
            }
            Self::Messages => {
                "chain content copy_of created_at digest expired_at follows forgotten_at forgotten_version id kind meta role salt seq thread token_estimate"
            }
            Self::Recall => {
                "at_ms created_at evicted_batch_id id logged_ms payload seq summary_rev"
            }
            Self::RecallVectors => {
                "created_at embedding end fingerprint id passage role seq source start"
            }
            Self::Manifests => {
                "chunks created_at doc_id late_chunking provenance revision updated_at"
            }
            Self::Passages => {
                "chunk_id chunk_links dated doc_id embedding freshness_ts index ingested_ms offset parent provenance revision taint text token_estimate"
            }
            Self::Cites => "chunk_id created_at digest doc_id message offset revision seq",
            Self::Derived => {
                "before chunk evicted_batch_id first_seq last_seq message summary_rev version"
            }
            Self::Prompts => {
                "answer_seq cause_seq chain context_digest core_rev counted_permille created_at duration_ms encoding ended_at \
                 factor_permille finish head_seq messages_digest model next_seq notices offered open_calls options owner policy \
                 request_digest run summary_rev token_estimate tools turn usage variance_flag version"
            }
            Self::ToolSets => "digest text",
            Self::Answers => {
                "created_at expires_at key part request_hash response texts_since tool"
            }
            Self::Schedules => {
                "at_ms content created_at due_ms every_ms failures fired last look_ms missed name run running updated_at"
            }
            Self::Events => "details ts type",
        };
        names.split(' ')
    }
}
