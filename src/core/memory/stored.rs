//! The list of all attributes that rows of the database may have: what each can hold, whether an
//! export carries it, what removes a text from it, and which checks look at it.
//!
//! A text is anything that a caller or a model chose: names, ids, provenance and options too.
//! Exports take the attributes of their rows from this list, and tests compare it with the stored
//! rows, with the queries of forget operations, and with what answers show.

use Selection::{Age, Agent, Id, Match};

/// What an attribute can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holds {
    /// Numbers, times, states, digests and keys that the server made.
    Figures,
    /// The name of an agent or tenant. A forget operation leaves it, so that no later agent gets
    /// the name.
    Owner,
    /// Numbers computed from a text, by which the text can be found.
    Vector,
    /// A text that a caller or a model chose.
    Text,
}

/// How a removal selects the texts that it removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// A forget operation that names messages or a document.
    Id,
    /// A forget operation that removes everything that contains a text, with the option `blocks`.
    Match,
    /// Retention.
    Age,
    /// A forget operation for a whole agent.
    Agent,
}

impl Selection {
    /// Returns the selection's name in documents.
    pub fn text(self) -> &'static str {
        match self {
            Id => "id",
            Match => "match",
            Age => "age",
            Agent => "agent",
        }
    }
}

/// An attribute of the rows of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Name of the collection.
    pub collection: &'static str,
    /// Name of the attribute in a stored row, or in a row of an export file.
    pub name: &'static str,
    /// What the attribute can hold.
    pub holds: Holds,
    /// Whether a stored row has the attribute; some exist only in export files.
    pub stored: bool,
    /// Whether an export file has the attribute.
    pub exported: bool,
    /// The removals that remove the attribute's text, each with the file of its query in `aql/`.
    pub removed: &'static [(Selection, &'static str)],
    /// Whether the taint rules look at the text.
    pub scanned: bool,
    /// Whether answers withhold the text while its row is in quarantine.
    pub withheld: bool,
}

impl Attribute {
    /// Whether the attribute can hold a text, or numbers computed from one.
    pub fn holds_text(&self) -> bool {
        matches!(self.holds, Holds::Text | Holds::Vector)
    }

    /// Returns the query by which a removal with this selection removes the text, if one does.
    pub fn query(&self, by: Selection) -> Option<&'static str> {
        self.removed.iter().find(|(one, _)| *one == by).map(|(_, query)| *query)
    }
}

/// Attributes of one collection with the same properties.
struct Group {
    collection: &'static str,
    names: &'static str,
    holds: Holds,
    stored: bool,
    exported: bool,
    removed: &'static [(Selection, &'static str)],
    scanned: bool,
    withheld: bool,
}

impl Group {
    /// Attributes that are stored and exported.
    const fn of(collection: &'static str, holds: Holds, names: &'static str) -> Self {
        Self {
            collection,
            names,
            holds,
            stored: true,
            exported: true,
            removed: &[],
            scanned: false,
            withheld: false,
        }
    }

    const fn figures(collection: &'static str, names: &'static str) -> Self {
        Self::of(collection, Holds::Figures, names)
    }

    const fn text(
        collection: &'static str,
        names: &'static str,
        removed: &'static [(Selection, &'static str)],
    ) -> Self {
        Self { removed, ..Self::of(collection, Holds::Text, names) }
    }

    const fn vector(
        collection: &'static str,
        names: &'static str,
        removed: &'static [(Selection, &'static str)],
    ) -> Self {
        Self { removed, ..Self::of(collection, Holds::Vector, names) }
    }

    const fn owner(collection: &'static str, names: &'static str) -> Self {
        Self { exported: false, ..Self::of(collection, Holds::Owner, names) }
    }

    /// The attributes are in no export file.
    const fn stays(self) -> Self {
        Self { exported: false, ..self }
    }

    /// The attributes are only in export files, where they replace keys.
    const fn carried(self) -> Self {
        Self { stored: false, ..self }
    }

    /// The taint rules look at the texts.
    const fn scanned(self) -> Self {
        Self { scanned: true, ..self }
    }

    /// Answers withhold the texts of a row in quarantine.
    const fn withheld(self) -> Self {
        Self { withheld: true, ..self }
    }
}

const ROWS: (Selection, &str) = (Agent, "forget_rows");
const OF_MESSAGE: &[(Selection, &str)] =
    &[(Id, "message_expire"), (Match, "message_expire"), (Age, "message_expire"), ROWS];
const OF_DOCUMENT: &[(Selection, &str)] = &[(Id, "passage_trim"), (Match, "passage_trim"), ROWS];
const OF_MANIFEST: &[(Selection, &str)] =
    &[(Id, "manifest_remove"), (Match, "manifest_remove"), ROWS];
const OF_PROMPT: &[(Selection, &str)] = &[(Match, "forget_texts"), ROWS];
const OF_OPTIONS: &[(Selection, &str)] = &[(Id, "forget_texts"), (Match, "forget_texts"), ROWS];
const BESIDE: &[(Selection, &str)] = &[(Id, "forget_texts"), (Match, "forget_texts"), ROWS];
const OF_CORE: &[(Selection, &str)] = &[(Match, "core_change"), (Agent, "forget_agent")];
const OF_SUMMARY: &[(Selection, &str)] =
    &[(Id, "core_change"), (Match, "core_change"), (Age, "core_change"), (Agent, "forget_agent")];
const OF_MANIFEST_ROW: &[(Selection, &str)] = &[(Id, "forget_mark"), (Match, "forget_mark")];

/// All attributes, by collection.
const GROUPS: &[Group] = &[
    Group::owner("core_memory", "_key agent_id names tenant sealed_as"),
    Group::figures(
        "core_memory",
        "archived branch chain cloned context context_window counters created_at encoding engineer expired forgotten form heartbeat last_message_ms notices outbound queue \
         recent_revisions released reserved salt schema_version spending token_budget tool_sets tools turns updated_at version window_clock",
    ),
    Group::figures("core_memory", "moving").stays(),
    Group::text("core_memory", "system user", &[(Agent, "forget_agent")]),
    Group::text("core_memory", "working_blocks", OF_CORE).scanned(),
    Group::text("core_memory", "queue_head_summary", OF_SUMMARY),
    Group::text("core_memory", "open_calls", &[
        (Id, "core_change"),
        (Match, "core_change"),
        (Agent, "forget_agent"),
    ]),
    Group::text("core_memory", "asked held learned removed_blocks run", OF_CORE),
    Group::owner("core_versions", "_key agent_id"),
    Group::figures(
        "core_versions",
        "context_window encoding expired_at forgotten_at salt token_budget ts version",
    ),
    Group::figures("core_versions", "reserved").stays(),
    Group::text("core_versions", "system working_blocks", &[(Match, "forget_texts"), ROWS]),
    Group::text("core_versions", "queue_head_summary", OF_MESSAGE),
    Group::figures("messages", "_key").stays(),
    Group::owner("messages", "agent_id"),
    Group::figures("messages", "id").carried(),
    Group::figures(
        "messages",
        "chain copy_of created_at digest expired_at follows forgotten_at forgotten_version frame_tokens kind role salt seq stamp thread token_estimate",
    ),
    Group::figures("messages", "tainted_seq").stays(),
    Group::text("messages", "content meta", OF_MESSAGE).scanned().withheld(),
    Group::figures("recall_log", "_key _to").stays(),
    Group::owner("recall_log", "_from"),
    Group::figures("recall_log", "id").carried(),
    Group::figures("recall_log", "at_ms created_at evicted_batch_id logged_ms seq summary_rev"),
    Group::text("recall_log", "payload", OF_MESSAGE).withheld(),
    Group::figures("recall_vectors", "_key").stays(),
    Group::owner("recall_vectors", "agent_id"),
    Group::figures(
        "recall_vectors",
        "created_at end fingerprint id passage role seq source start",
    ),
    Group::vector("recall_vectors", "embedding", OF_MESSAGE),
    Group::owner("recall_marks", "_key"),
    Group::figures("recall_marks", "claim fingerprint logged_ms passages refused refused_ms")
        .stays(),
    Group::figures("archival_manifests", "_key dimension embedded metric").stays(),
    Group::owner("archival_manifests", "agent_id"),
    Group::figures("archival_manifests", "chunks content_digest created_at revision salt updated_at"),
    Group::text("archival_manifests", "doc_id labels late_chunking provenance", OF_MANIFEST).withheld(),
    Group::text("archival_manifests", "embedding_version model_id", OF_MANIFEST).stays(),
    Group::figures("archival_docs", "_key dimension metric tainted_key").stays(),
    Group::owner("archival_docs", "agent_id"),
    Group::figures(
        "archival_docs",
        "dated freshness_ts index ingested_ms offset parent revision salt taint token_estimate",
    ),
    Group::text("archival_docs", "chunk_id doc_id labels provenance text", OF_DOCUMENT)
        .scanned()
        .withheld(),
    Group::text("archival_docs", "chunk_links", OF_DOCUMENT).withheld(),
    Group::text("archival_docs", "embedding_version model_id", OF_DOCUMENT).stays(),
    Group::vector("archival_docs", "embedding", OF_DOCUMENT),
    Group::figures("archival_parts", "_key expires_at part spans").stays(),
    Group::owner("archival_parts", "agent_id"),
    Group::text("archival_parts", "chunks upload", BESIDE).stays(),
    Group::vector("archival_parts", "embeddings", BESIDE).stays(),
    Group::figures("cites", "_key _from _to").stays(),
    Group::owner("cites", "agent_id"),
    Group::figures("cites", "message").carried(),
    Group::figures("cites", "created_at digest offset revision seq"),
    Group::text("cites", "chunk_id doc_id", OF_MESSAGE),
    Group::owner("derived_from", "_from _to agent_id"),
    Group::figures("derived_from", "_key").stays(),
    Group::figures("derived_from", "before message version").carried(),
    Group::figures("derived_from", "evicted_batch_id first_seq last_seq summary_rev"),
    Group::text("derived_from", "chunk", &[]).carried(),
    Group::owner("prompts", "_key agent_id"),
    Group::figures(
        "prompts",
        "answer_seq api cause_seq chain checkpoint clock context_digest core_rev counted_permille created_at duration_ms encoding ended_at factor_permille fillers form \
         head_seq messages_digest next_seq notices_forgotten_at now offered opened_on options_forgotten_at pack policy request_digest salt summary_rev \
         token_estimate tools turn usage variance_flag version",
    ),
    Group::text("prompts", "options", OF_OPTIONS),
    Group::text("prompts", "finish model notices open_calls owner run", OF_PROMPT),
    Group::owner("tool_sets", "_key agent_id"),
    Group::figures("tool_sets", "digest"),
    Group::text("tool_sets", "text", OF_PROMPT),
    Group::owner("context_packs", "_key agent_id"),
    Group::figures("context_packs", "digest seqs"),
    Group::text("context_packs", "documents text", BESIDE),
    Group::figures("idempotency", "_key").stays(),
    Group::owner("idempotency", "agent_id"),
    Group::figures("idempotency", "created_at expires_at part request_hash salt texts_since tool"),
    Group::text("idempotency", "key response", OF_MESSAGE),
    Group::figures("schedules", "_key").stays(),
    Group::owner("schedules", "agent_id tenant"),
    Group::figures(
        "schedules",
        "at_ms created_at due_ms every_ms failures fired last look_ms missed run salt updated_at",
    ),
    Group::text("schedules", "content", OF_PROMPT).scanned().withheld(),
    Group::text("schedules", "name running", OF_PROMPT),
    Group::figures("memory_events", "_key code").stays(),
    Group::owner("memory_events", "agent_id"),
    Group::figures("memory_events", "details hash n rows ts type"),
    Group::figures("pages", "_key created_at expires_at items query_hash salt tool").stays(),
    Group::owner("pages", "agent_id"),
    Group::figures(
        "forgets",
        "_key after answer_key answers at begun_at by chain code counts ended_at items kept last packs phase prompts renews request_hash step summary_from \
         summary_until threads tool_sets touched_ms versions what",
    )
    .stays(),
    Group::owner("forgets", "agent_id tenant"),
    Group::text("forgets", "blocks documents quoted schedules", OF_MANIFEST_ROW).stays(),
    Group::owner("directory", "_key agent_id earlier giving named tenant"),
    Group::figures("directory", "moving place").stays(),
    Group::owner("departures", "_key agent_id"),
    Group::figures("departures", "at to").stays(),
    Group::owner("vctx_meta", "agent_id"),
    Group::figures(
        "vctx_meta",
        "_key by created_at defaultNProbe dimension embedding_version last leaving lists measured metric model_id nLists next number rows state \
         until_ms version",
    )
    .stays(),
    Group::text("vctx_meta", "arrival", &[]).stays(),
];

/// Returns all attributes, by collection.
pub fn attributes() -> impl Iterator<Item = Attribute> {
    GROUPS.iter().flat_map(|group| {
        group.names.split_whitespace().map(|name| Attribute {
            collection: group.collection,
            name,
            holds: group.holds,
            stored: group.stored,
            exported: group.exported,
            removed: group.removed,
            scanned: group.scanned,
            withheld: group.withheld,
        })
    })
}

/// Returns the names of the attributes that a row of a collection has in an export file.
pub fn exported(collection: &str) -> impl Iterator<Item = &'static str> {
    let of = move |one: &Attribute| one.exported && one.collection == collection;
    attributes().filter(of).map(|one| one.name)
}

/// Returns the line of a stored attribute, or `None` if the list has no such line. All vectors of a
/// chunk share one line: an attribute has the number of its vector setting in its name.
pub fn stored(collection: &str, name: &str) -> Option<Attribute> {
    let plain = match name.strip_prefix("embedding_") {
        Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => "embedding",
        _ => name,
    };
    let of = |one: &Attribute| one.stored && one.collection == collection && one.name == plain;
    attributes().find(of)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::memory::export::RowKind;

    #[test]
    fn each_attribute_has_one_line_in_the_list() {
        let mut seen = HashSet::new();
        for one in attributes() {
            assert!(seen.insert((one.collection, one.name)), "{one:?}");
        }
    }

    #[test]
    fn every_text_of_an_agent_goes_with_the_agent() {
        // The file of a forget operation and the half of a move stay until the operation ends.
        let temporary = ["forgets", "vctx_meta"];
        for one in attributes().filter(|one| one.stored && one.holds_text()) {
            let goes = one.query(Agent).is_some();
            assert_eq!(goes, !temporary.contains(&one.collection), "{one:?}");
        }
    }

    #[test]
    fn export_files_hold_only_collections_with_a_kind() {
        for one in attributes().filter(|one| one.exported) {
            assert!(RowKind::by_name(one.collection).is_some(), "{one:?}");
        }
    }
}
