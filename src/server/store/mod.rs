//! The store: the only module that sends AQL, with one connection type for reads and one for
//! writes.

mod archive;
mod beside;
mod change;
mod core;
mod db;
mod documents;
mod dump;
mod fault;
mod feed;
mod forget;
mod heads;
mod import;
mod ledger;
mod ledger_check;
mod limits;
mod meanwhile;
mod message;
mod moving;
mod names;
mod owned;
mod pack;
mod page;
pub mod probe;
mod prompt;
mod quarantine;
mod query;
mod recall;
mod recall_vectors;
mod reindex;
mod rekey;
mod retention;
mod schedule;
mod score;
mod setup;
mod thread;
mod together;
mod tombstone;
mod trace;
mod transaction;
mod trips;
mod uds;
mod why;
mod writable;

pub use self::core::{
    Created, DeadChain, DescribedCore, Loaded, Replay, agents_of, create, dead_chains, events,
    list, load, load_context, load_described, versions,
};
pub use archive::{
    ArchiveLoaded, ArchiveOpened, VectorIndexState, drop_vector_index, index_state, keep_part,
    load_archive, make_index_of, nearest, note_lists, note_measured, open_archive, part, parts,
    passages, sample, sample_near, sample_scanned, serving_index, setting_of, vector_index,
    vector_rows, vector_setting, worded, write_setting,
};
pub use beside::{accept_core, adopt, note};
pub use change::{Applied, Record, WriteMode, apply};
pub use db::{Admin, Answer, DatabaseRequest, Ro, Rw, Settings};
pub use documents::{NamedDocuments, document, document_texts, document_tokens, documents};
pub use dump::{Broken, Dump, Opened, Row, Sink};
pub use fault::{Fault, FaultKind, Result};
pub use feed::{FollowedEntries, FollowedEntry, followed};
pub use forget::{
    AgentForgotten, DueForgetting, Going, Paged, Quotes, ShownQueue, Sought, StoredAnswer,
    calls_between, chunk_ends, derived, due_forgettings, forget_agent, forget_counts, forget_rows,
    forgetting, forgettings, matching, note_rows, packs_with, quotes, selected_messages,
    shown_between, standing, stored_answers, summaries, threaded,
};
pub use heads::{
    Heads, SignedHeads, TakenHeads, Unsigned, fold_on, is_imported, is_part_of_ledger, last_heads,
};
pub use import::{Batch, ImportEnd, ImportMark, ImportStart, ImportWriter};
pub use ledger_check::{check_ledger, kind_of};
pub use limits::ALL as LIMITS;
pub use message::{Listed, page, queue, sessions};
pub use moving::{
    AgentLocation, Arrival, Arrived, DueMove, HoldOutcome, Located, Move, MoveBegun, MoveLook,
    MovePhase, begin_move, claim_place, due_moves, end_move, flip_move, leave, located,
    look_at_move, manifests, renew_move, stay,
};
pub use names::{
    EarlierAgent, Giving, NameGiven, NameRow, confirm_name, find_name, give_name, other_names,
    pass_name, withdraw_name,
};
pub use owned::{Names, OWNED, Owned};
pub use pack::{LoadedPack, LoadedPacks, keep_pack, load_pack, packs_about};
pub use page::result_page;
pub use prompt::{ExpiredRun, LoadedPrompt, expired_runs, load_prompt, prompts};
pub use quarantine::{TaintedItem, TaintedItems, tainted_items};
pub use query::{QUERIES, Query};
pub use recall::{RecallLook, entries, entries_dated, lasting, pairs, search_recall};
pub use recall_vectors::{
    AgentVersion, NearLook, Unembedded, agents, claim_recall, drop_foreign_index,
    make_recall_index, near_passages, recall_mark, recall_vector_rows, trim_recall_vectors,
    unembedded, write_recall_mark, write_recall_vectors,
};
pub use reindex::{
    ChunkText, Counts, Lagging, LeftRow, LeftVectors, chunk_texts, clean_vectors,
    describe_manifests, drop_vector_indexes, lagging, left_vectors, note_embedded, patch_setting,
    reindex_counts, stale_manifests, switch_setting, under_way, write_vectors,
};
pub use retention::{DueAgent, due, due_agents, evicted, keep_ttl_index};
pub use schedule::{
    CutRun, DueTick, DueTicks, ScheduleOutcome, Schedules, claim_run, due_ticks, end_run,
    looked_at, postpone_tick, put_schedule, remove_schedule, schedule, schedules, skip_tick,
    ticks_ahead,
};
pub use score::{
    EventRow, KindCount, Marks, ScoreRows, load_score, probe_archival, probe_core, probe_recall,
};
pub use setup::{
    INDEX_USER, Layout, RecallSharding, SCHEMA, SetupReport, USER_PASSWORDS, schema_version,
    set_up, version_or_none,
};
pub use thread::{NextRow, Texts, ThreadRow, mark_thread, texts_before, threads};
pub use tombstone::{
    OtherManifests, Remains, Stray, Strays, is_sealed, other_manifests, remains, seal,
    seal_earlier, strays,
};
pub use trace::{Led, led, vertices};
pub use transaction::Leftovers;
pub use trips::{Trips, counted};
pub use vctx_base::endpoint::{Credentials, Endpoint};
pub use why::{SaidRow, SaidRows, marks, outside, says, texts};
