//! Chat models: asked for what comes next, whole or word by word; every answer is bounded and every failure has a class.

mod assemble;
mod endpoint;
mod fault;
mod model;
mod settings;

pub use endpoint::EndpointChat;
pub use fault::{ChatClass, ChatFault};
pub use model::{ChatModel, ChatRequest, Completion, Delta, Finish};
pub use settings::ChatSettings;
