//! Validates a chat model's settings, and makes the model from them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::wire::Way;
use super::endpoint::EndpointChat;
use super::model::ChatModel;
use vctx_core::limits::NAME_BYTES_MAX;

/// Minimum and maximum of `chat.timeout_ms`.
const CHAT_MS: (u64, u64) = (10, 600_000);
/// Minimum and maximum of `chat.max_tokens`.
const CHAT_TOKENS: (u64, u64) = (16, 131_072);

/// Settings of the chat model that the agent loop uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatSettings {
    /// Unix socket of an OpenAI-compatible server. If this and `tcp` are both empty, there is no
    /// model.
    pub socket: PathBuf,
    /// Network address of an OpenAI-compatible server, or empty.
    pub tcp: String,
    /// HTTP path of requests to the model.
    pub path: String,
    /// Model name that requests contain.
    pub model: String,
    /// Time limit for one answer of the model, including all attempts, in milliseconds.
    pub timeout_ms: u64,
    /// Maximum number of tokens of one answer, if the window has room for them.
    pub max_tokens: u64,
    /// Name of the request field that limits the answer's tokens: `max_tokens` or
    /// `max_completion_tokens`.
    pub max_tokens_field: String,
    /// Whether the model's answers are streamed.
    pub stream: bool,
    /// Dialect of the tools: `vctx`, `memgpt` or `anthropic`.
    pub dialect: String,
    /// Whether the tool schemas are sent in strict mode.
    pub strict: bool,
    /// Memory tools offered to the model, by name or `all`; if empty, the chat tools of the
    /// dialect.
    pub tools: Vec<String>,
}

/// Allowed values of `max_tokens_field`.
const MAX_TOKENS_FIELDS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

impl ChatSettings {
    /// Returns whether a chat model is configured.
    pub fn is_set(&self) -> bool {
        !(self.socket.as_os_str().is_empty() && self.tcp.is_empty())
    }

    /// Returns one sentence for each invalid chat setting, beginning with the setting's key.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut unless = |holds: bool, text: String| {
            if !holds {
                faults.push(format!("chat.{text}"));
            }
        };
        let ((least, most), (fewest, lots)) = (CHAT_MS, CHAT_TOKENS);
        unless(
            (least..=most).contains(&self.timeout_ms),
            format!("timeout_ms: use {least} to {most}"),
        );
        unless(
            (fewest..=lots).contains(&self.max_tokens),
            format!("max_tokens: use {fewest} to {lots}"),
        );
        unless(
            MAX_TOKENS_FIELDS.contains(&self.max_tokens_field.as_str()),
            format!("max_tokens_field: use {}", MAX_TOKENS_FIELDS.join(" or ")),
        );
        if self.is_set() {
            let named = !self.model.is_empty() && self.model.len() <= NAME_BYTES_MAX;
            unless(named, "model: name the model".into());
            unless(self.path.starts_with('/'), "path: begin it with /".into());
            if let Err(text) = self.way() {
                unless(false, text);
            }
        }
        faults
    }

    /// Makes the configured chat model, if any; `key` is the bearer token for the model server.
    pub fn open(&self, key: Option<String>) -> Option<Arc<dyn ChatModel>> {
        let way = self.way().ok().filter(|_| self.is_set())?;
        let limit = Duration::from_millis(self.timeout_ms);
        let (path, model) = (self.path.clone(), self.model.clone());
        Some(Arc::new(EndpointChat::new(way, path, model, key, limit, self.stream)))
    }

    fn way(&self) -> Result<Way, String> {
        Way::of(&self.socket, &self.tcp)
    }
}
