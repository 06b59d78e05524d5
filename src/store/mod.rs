//! The only room that speaks AQL: two sockets, two types, one kind of write.

mod archive;
mod change;
mod core;
mod db;
mod endpoint;
mod fault;
mod message;
mod page;
mod prompt;
mod query;
mod recall;
mod recall_vectors;
mod reindex;
mod retention;
mod schedule;
mod score;
mod setup;
mod thread;
mod trace;
mod transaction;
mod trips;
mod uds;
mod why;

pub use self::core::{
    DeadChain, Loaded, Replay, create, dead_chains, events, list, load, load_context, note,
    versions,
};
pub use archive::{
    ArchiveLoaded, ArchiveOpened, VectorIndexState, drop_vector_index, index_state, keep_part,
    load_archive, make_index_of, nearest, note_lists, note_measured, open_archive, part, parts,
    passages, sample, sample_near, sample_scanned, serving_index, setting_of, vector_index,
    vector_rows, vector_setting, worded,
};
pub use change::{Applied, Record, WriteMode, apply};
pub use db::{Admin, Credentials, Ro, Rw, Settings};
pub use endpoint::Endpoint;
pub use fault::{Fault, FaultKind};
pub use message::{Listed, page, queue};
pub use page::result_page;
pub use prompt::{ExpiredRun, LoadedPrompt, expired_runs, load_prompt, prompts};
pub use query::{QUERIES, Query};
pub use recall::{entries, pairs, search_recall};
pub use recall_vectors::{
    AgentVersion, NearLook, Unembedded, agents, claim_recall, drop_foreign_index,
    make_recall_index, near_passages, recall_mark, recall_vector_rows, trim_recall_vectors,
    unembedded, write_recall_mark, write_recall_vectors,
};
pub use reindex::{
    ChunkText, Counts, Lagging, chunk_texts, clean_vectors, describe_manifests,
    drop_vector_indexes, lagging, note_embedded, patch_setting, reindex_counts, switch_setting,
    under_way, write_vectors,
};
pub use retention::{DueAgent, due, due_agents, keep_ttl_index};
pub use schedule::{
    CutRun, DueTick, DueTicks, Given, Schedules, claim_run, due_ticks, looked_at, postpone_tick,
    put_schedule, remove_schedule, schedule, schedules, settle_run, skip_tick,
};
pub use score::{
    EventRow, KindCount, Marks, ScoreRows, load_score, probe_archival, probe_core, probe_recall,
};
pub use setup::{Layout, RecallSharding, SCHEMA, SetupReport, schema_version, set_up};
pub use thread::{NextRow, Texts, ThreadRow, mark_thread, texts_before, threads};
pub use trace::{Led, led, vertices};
pub use transaction::Leftovers;
pub use trips::{Trips, counted};
pub use why::{SaidRow, SaidRows, marks, outside, says, texts};
