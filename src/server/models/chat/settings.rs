//! Validates a chat model's settings, and makes the model from them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::address::Address;
use super::model::ChatModel;
use super::server::ChatServer;

/// Minimum and maximum of `chat.timeout_ms`.
const CHAT_MS: (u64, u64) = (10, 600_000);
/// Minimum and maximum of `chat.max_tokens`.
const CHAT_TOKENS: (u64, u64) = (16, 131_072);

/// Settings of the chat model that the agent loop uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatSettings {
    /// Name of the model's provider, which decides the address and the API, or empty. If this,
    /// `url` and `socket` are empty, there is no model.
    pub provider: String,
    /// URL of the model's server, or empty.
    pub url: String,
    /// Unix socket of the model's server, or empty.
    pub socket: PathBuf,
    /// API of the model's server: `chat`, `responses` or `messages`; if empty, that of the
    /// provider, or else `chat`.
    pub api: String,
    /// HTTP path and query of requests to the model; if empty, that of the API.
    pub path: String,
    /// File with further trusted certificates (PEM), or empty.
    pub ca_file: PathBuf,
    /// URL of an HTTP proxy, or empty.
    pub proxy: String,
    /// Model name that requests contain.
    pub model: String,
    /// Time limit for one answer of the model, including all attempts, in milliseconds.
    pub timeout_ms: u64,
    /// Maximum number of tokens of one answer, if the window has room for them.
    pub max_tokens: u64,
    /// Maximum number of tokens of one agent's prompts and answers per day (UTC); 0 means no limit.
    pub tokens_per_day: u64,
    /// Name of the request field that limits the answer's tokens: `max_tokens` or
    /// `max_completion_tokens`; if empty, that of the provider, or else `max_tokens`.
    pub max_tokens_field: String,
    /// Whether the model's answers are streamed.
    pub stream: bool,
    /// Dialect of the tools: `vctx`, `memgpt`, `anthropic` or `ues`.
    pub dialect: String,
    /// Whether the tool schemas are sent in strict mode.
    pub strict: bool,
    /// Memory tools offered to the model, by name or `all`; if empty, the chat tools of the
    /// dialect.
    pub tools: Vec<String>,
}

/// Allowed values of `max_tokens_field`.
const MAX_TOKENS_FIELDS: [&str; 3] = ["", "max_tokens", "max_completion_tokens"];
/// Variable with the key for the server of the chat model.
pub const CHAT_KEY: &str = "VCTX_CHAT_KEY";

impl ChatSettings {
    /// Returns whether a chat model is configured.
    pub fn is_set(&self) -> bool {
        self.server().is_set()
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
            "max_tokens_field: use max_tokens or max_completion_tokens".into(),
        );
        faults.extend(self.server().faults().iter().map(|text| format!("chat.{text}")));
        faults
    }

    /// Makes the configured chat model, if any, which is asked with the given key. An error begins
    /// with the setting that is wrong.
    pub fn open(&self, key: Option<String>) -> Result<Option<Arc<dyn ChatModel>>, String> {
        let limit = Duration::from_millis(self.timeout_ms);
        self.server().open(key, CHAT_KEY, limit, self.stream)
    }

    /// Returns the name of the request field that limits the answer's tokens.
    pub fn tokens_field(&self) -> &str {
        match self.max_tokens_field.as_str() {
            "" => self.server().tokens_field(),
            field => field,
        }
    }

    /// Returns the address of the model's server, if one is configured.
    pub fn address(&self) -> Option<Address> {
        self.server().address()
    }

    fn server(&self) -> ChatServer<'_> {
        ChatServer {
            provider: &self.provider,
            url: &self.url,
            socket: &self.socket,
            api: &self.api,
            path: &self.path,
            ca_file: &self.ca_file,
            proxy: &self.proxy,
            model: &self.model,
        }
    }
}
