//! Drives a model: from an event to its yield, each step recorded before the next, so that any server may go on where one stopped.

mod asking;
mod calls;
mod processor;
mod records;
mod reply;
mod request;
mod seen;
mod ticks;
mod toolbox;
mod walk;

pub use processor::{Processor, ProcessorSettings};
pub use request::{NewMessage, RunEnd, RunEvent, RunRequest};
pub use vctx_core::policy::turn::Beat;
