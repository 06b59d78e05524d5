//! A query is a file of `aql/`: its name is the file's name, its text is never put together from strings.

/// One query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// File name without `.aql`.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
}

macro_rules! query {
    ($name:literal) => {
        crate::store::query::Query {
            name: $name,
            text: include_str!(concat!("../../aql/", $name, ".aql")),
        }
    };
}
pub(super) use query;

/// Every query there is, for plans and house rules.
pub const QUERIES: &[Query] = &[
    super::core::LOAD,
    super::core::CREATE,
    super::core::LIST,
    super::core::CONTEXT,
    super::core::NOTE,
    super::core::DEAD_CHAINS,
    super::core::EVENTS,
    super::core::VERSIONS,
    super::change::CHANGE,
    super::change::RECALL_APPEND,
    super::change::RECOUNT,
    super::message::QUEUE,
    super::message::LIST,
    super::recall::SEARCH,
    super::recall::PAIRS,
    super::recall::ENTRIES,
    super::recall_vectors::AGENTS,
    super::recall_vectors::MARK_LOAD,
    super::recall_vectors::MARK_WRITE,
    super::recall_vectors::MARK_CLAIM,
    super::recall_vectors::UNEMBEDDED,
    super::recall_vectors::APPEND,
    super::recall_vectors::ORPHANS,
    super::recall_vectors::TRIM,
    super::recall_vectors::EXACT,
    super::recall_vectors::NEAR,
    super::retention::AGENTS,
    super::retention::DUE,
    super::retention::EXPIRE,
    super::score::SCORE,
    super::score::PROBE_CORE,
    super::score::PROBE_RECALL,
    super::score::PROBE_ARCHIVAL,
    super::archive::LOAD,
    super::archive::OPEN,
    super::archive::SETTING,
    super::archive::SETTING_LOAD,
    super::archive::SETTING_LISTS,
    super::archive::EXACT_COSINE,
    super::archive::EXACT_L2,
    super::archive::NEAR_COSINE,
    super::archive::NEAR_L2,
    super::archive::FIRST_COSINE,
    super::archive::FIRST_L2,
    super::archive::SAMPLE,
    super::archive::SAMPLE_COSINE,
    super::archive::SAMPLE_L2,
    super::archive::SCANNED_COSINE,
    super::archive::SCANNED_L2,
    super::archive::MEASURED,
    super::archive::WORDS,
    super::archive::PASSAGES,
    super::archive::DERIVED_TRIM,
    super::archive::DERIVED,
    super::archive::TRIM,
    super::archive::APPEND,
    super::archive::CITES_TRIM,
    super::archive::MANIFEST,
    super::archive::MANIFEST_REMOVE,
    super::archive::PART_LIST,
    super::archive::PART_LOAD,
    super::archive::PART_WRITE,
    super::archive::PART_TRIM,
    super::reindex::UNDER_WAY,
    super::reindex::PATCH,
    super::reindex::SWITCH,
    super::reindex::LAGGING,
    super::reindex::EMBEDDED,
    super::reindex::DESCRIBED,
    super::reindex::COUNTS,
    super::reindex::TEXTS,
    super::reindex::VECTORS,
    super::reindex::LEFTOVER,
    super::reindex::CLEAN,
    super::page::PAGE,
    super::trace::LOAD,
    super::trace::STEP,
    super::setup::META_LOAD,
    super::setup::META_STORE,
    super::setup::RECALL_DATE,
];
