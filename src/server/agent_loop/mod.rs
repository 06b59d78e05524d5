//! The agent loop: drives a model from an event to its yield.
//!
//! Each step is recorded before the next begins, so that any server can continue the run.

mod calls;
mod inference;
mod limits;
mod processor;
mod records;
mod reply;
mod request;
mod revisions;
mod ticks;
mod toolbox;
mod walk;

pub use limits::ALL as LIMITS;
pub use processor::{Processor, ProcessorSettings};
pub use request::{NewMessage, RunEnd, RunEvent, RunRequest};
pub use vctx_core::policy::turn::Beat;
