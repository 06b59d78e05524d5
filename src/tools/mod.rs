//! The tools a model may call: one list, one file each; a tool looks at what was loaded, may ask, and ends with a change.

mod append_fifo;
mod bury_chain;
mod edit_core;
mod either;
mod evict_fifo;
mod expire_recall;
mod fetch_core;
mod found_passages;
mod given_chunk;
mod ingest_archival;
mod ingest_checks;
mod ingest_evidence;
mod ingest_part;
mod nulls;
mod patch_agent;
mod pieces;
mod post_event;
mod recall_dates;
mod recalled;
mod record_heartbeat;
mod say;
mod search_archival;
mod search_recall;
mod spec;
mod store_core;
mod trace_memory;
mod write_recall;

pub use bury_chain::BuryChain;
pub use edit_core::{EditCore, ViewCore};
pub use expire_recall::ExpireRecall;
pub use patch_agent::{NewAgent, PatchAgent, new_core};
pub use post_event::PostEvent;
pub use recall_dates::RecallDates;
pub use say::Say;
pub use spec::{Call, Spec, Step, Tool, decode, decode_as, schema_of};
