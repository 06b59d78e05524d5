//! The model servers that receive texts of the memory, as the configuration names them.

use serde::Serialize;

use super::address::Address;

/// A model's server, and what it receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelServer {
    /// Section of the configuration that names the server.
    pub section: &'static str,
    /// The server's address, without a path.
    pub server: String,
    /// Name of the model.
    pub model: String,
    /// The texts that the server receives.
    pub receives: &'static str,
    /// Whether the server is on another machine.
    pub remote: bool,
}

/// Section of the model for runs.
pub const CHAT: &str = "chat";
/// Section of the model that writes summaries.
pub const SUMMARISER: &str = "summariser";
/// Section of the embedder.
pub const EMBEDDER: &str = "embedder";
/// Section of the embedder to which the archive changes.
pub const EMBEDDER_NEXT: &str = "embedder.next";

impl ModelServer {
    /// Describes the server that a section names.
    pub fn of(section: &'static str, address: &Address, model: &str) -> Self {
        let receives = match section {
            CHAT => "the window: instructions, blocks, summary, messages and search results",
            SUMMARISER => "messages that left the window, and the summary before",
            "models.planner" => "questions",
            "models.rewriter" => "questions on which nothing good was found",
            "models.grader" | "models.reranker" => "questions, and the best messages and documents",
            "models.summariser" => "texts that a caller wants to be summarised",
            "models.judge" => "questions, the texts of their contexts, and the answers",
            _ => "messages, documents and questions",
        };
        let (server, model) = (address.host(), model.to_owned());
        Self { section, server, model, receives, remote: address.is_remote() }
    }
}
