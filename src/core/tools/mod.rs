//! The tools that a model may call, and the commands that only other callers may call; every tool
//! or command has one file.

#[macro_use]
mod list;

mod append_fifo;
mod append_messages;
mod archive_page;
mod branch_agent;
mod build_context;
mod bury_chain;
mod compact;
mod condense_text;
mod context_gather;
mod context_models;
mod context_told;
mod core_results;
mod document_chunks;
mod edit_core;
mod evict_fifo;
mod expire_recall;
mod fetch_core;
mod fire_tick;
mod forget;
mod given_chunk;
mod hold_run;
mod ingest_archival;
mod ingest_checks;
mod ingest_evidence;
mod ingest_part;
mod limits;
mod patch_agent;
mod post_event;
mod proposal;
mod put_schedule;
mod recall_dates;
mod recall_page;
mod record_answer;
mod record_heartbeat;
mod record_prompt;
mod refine_summary;
mod release_tainted;
mod rename_agent;
mod result_page;
mod retrieve_memories;
mod search_archival;
mod search_recall;
mod send_message;
mod spec;
mod store_core;
mod text_or_object;
mod told;
mod trace_memory;
mod without_nulls;
mod write_recall;

use serde_json::{Map, Value};

use self::spec::{Arguments, Command};
use self::without_nulls::without_nulls;
use crate::error::Result;
use crate::policy::{Ctx, Depends, Step, Stop};

pub use append_fifo::AppendFifo;
pub use append_messages::AppendMessages;
pub use branch_agent::branch_core;
pub use build_context::{BuildContext, BuiltContext, GivenText, newest_question};
pub use bury_chain::BuryChain;
pub use condense_text::CondenseText;
pub use edit_core::{EditCore, ViewCore};
pub use expire_recall::ExpireRecall;
pub use fire_tick::FireTick;
pub use forget::{Forget, ForgetStep};
pub use hold_run::{EndRun, HoldRun};
pub use ingest_checks::OWNER;
pub use limits::ALL as LIMITS;
pub use patch_agent::{NewAgent, PatchAgent, new_core};
pub use post_event::PostEvent;
pub use put_schedule::PutSchedule;
pub use recall_dates::RecallDates;
pub use record_answer::RecordAnswer;
pub use record_prompt::RecordPrompt;
pub use refine_summary::RefineSummary;
pub use release_tainted::{ReleaseTainted, nothing_tainted, tainted_place};
pub use rename_agent::RenameAgent;
pub use retrieve_memories::RetrieveMemories;
pub use search_recall::look_only;
pub use send_message::Say;
pub use spec::{
    Access, Card, Output, Spec, compact_schema_of, decode_as, optional_object, schema_of,
};
pub use told::{day_of, lines_of, told_answer, told_error, told_refusal};

list! {
    tools {
        store_core::StoreCore,
        fetch_core::FetchCore,
        append_fifo::AppendFifo,
        evict_fifo::EvictFifo,
        search_recall::SearchRecall,
        write_recall::WriteRecall,
        search_archival::SearchArchival,
        ingest_archival::IngestArchival,
        record_heartbeat::RecordHeartbeat,
        trace_memory::TraceMemory,
        build_context::BuildContext,
    }
    commands {
        append_messages::AppendMessages,
        post_event::PostEvent,
        patch_agent::PatchAgent,
        rename_agent::RenameAgent,
        bury_chain::BuryChain,
        expire_recall::ExpireRecall,
        refine_summary::RefineSummary,
        release_tainted::ReleaseTainted,
        fire_tick::FireTick,
        forget::Forget,
        forget::ForgetStep,
        edit_core::EditCore,
        edit_core::ViewCore,
        send_message::Say,
        recall_dates::RecallDates,
        retrieve_memories::RetrieveMemories,
        condense_text::CondenseText,
        hold_run::HoldRun,
        hold_run::EndRun,
        record_prompt::RecordPrompt,
        record_answer::RecordAnswer,
    }
}
