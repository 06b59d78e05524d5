//! The tools a model may call: one list, one file each; a tool looks at what was loaded, may ask, and ends with a change.

mod append_fifo;
mod branch_agent;
mod bury_chain;
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
mod patch_agent;
mod pieces;
mod post_event;
mod recalled;
mod record_heartbeat;
mod search_archival;
mod search_recall;
mod spec;
mod store_core;
mod trace_memory;
mod write_recall;

pub use append_fifo::AppendFifo;
pub use branch_agent::branch_core;
pub use bury_chain::BuryChain;
pub use expire_recall::ExpireRecall;
pub use patch_agent::{NewAgent, PatchAgent, new_core};
pub use post_event::PostEvent;
pub use spec::{Call, Spec, Step, Tool, decode, decode_as};
