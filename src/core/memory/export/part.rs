//! The kinds of rows of an export file, in order, with the collection and the attributes of each
//! kind.

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
    /// Stored answers to calls, found by the callers' idempotency keys.
    Answers,
    /// Schedules, which post events.
    Schedules,
    /// Memory events.
    Events,
}

impl RowKind {
    /// All kinds of rows, in the order of an export file.
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
        let names = match self {
            Self::Core => {
                "archived asked branch chain context_window counters created_at encoding expired forgotten heartbeat last_message_ms \
                 learned notices open_calls queue queue_head_summary recent_revisions released removed_blocks run salt schema_version system \
                 token_budget tool_sets tools turns updated_at version working_blocks"
            }
            Self::Versions => {
                "context_window encoding expired_at forgotten_at queue_head_summary salt system token_budget ts version working_blocks"
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
                "chunks created_at doc_id late_chunking provenance revision salt updated_at"
            }
            Self::Passages => {
                "chunk_id chunk_links dated doc_id embedding freshness_ts index ingested_ms offset parent provenance revision salt taint text token_estimate"
            }
            Self::Cites => "chunk_id created_at digest doc_id message offset revision seq",
            Self::Derived => {
                "before chunk evicted_batch_id first_seq last_seq message summary_rev version"
            }
            Self::Prompts => {
                "answer_seq cause_seq chain context_digest core_rev counted_permille created_at duration_ms encoding ended_at \
                 factor_permille finish head_seq messages_digest model next_seq notices notices_forgotten_at offered open_calls options \
                 options_forgotten_at owner policy \
                 request_digest run salt summary_rev token_estimate tools turn usage variance_flag version"
            }
            Self::ToolSets => "digest text",
            Self::Answers => {
                "created_at expires_at key part request_hash response salt texts_since tool"
            }
            Self::Schedules => {
                "at_ms content created_at due_ms every_ms failures fired last look_ms missed name run running salt updated_at"
            }
            Self::Events => "details hash n rows ts type",
        };
        names.split(' ')
    }
}
