//! Asks chat models for answers, in one body or as a stream.
//!
//! The length of answers is limited, and every failure has a class.

mod assemble;
mod endpoint;
mod fault;
mod model;
mod settings;

pub use endpoint::EndpointChat;
pub use fault::{ChatClass, ChatFault};
pub use model::{ChatModel, ChatRequest, Completion, Delta, Finish};
pub use settings::ChatSettings;
