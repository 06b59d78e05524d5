//! Asks chat models for answers, in one body or as a stream.
//!
//! The length of answers is limited, and every failure has a class.

mod assemble;
mod chat;
mod endpoint;
mod fault;
mod messages;
mod model;
mod responses;
mod server;
mod settings;

pub use fault::{ChatClass, ChatFault};
pub use model::{ChatModel, ChatRequest, Completion, Delta, Finish};
pub use server::ChatServer;
pub use settings::{CHAT_KEY, ChatSettings};
