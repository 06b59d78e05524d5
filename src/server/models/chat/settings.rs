//! Which chat model a server has: its settings, what is wrong with them, and the model they describe.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::wire::Way;
use super::endpoint::EndpointChat;
use super::model::ChatModel;
use vctx_core::limits::{CHAT_MS, CHAT_TOKENS, NAME_BYTES_MAX, SOCKET_PATH_BYTES_MAX};

/// The model that runs are driven with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatSettings {
    /// Unix socket of an OpenAI-compatible server; with an empty `tcp` too there is no model.
    pub socket: PathBuf,
    /// Address of a server on the network; empty: none.
    pub tcp: String,
    /// Path of the request.
    pub path: String,
    /// Name of the model, as requests carry it.
    pub model: String,
    /// Longest wait for one answer, all attempts counted, in milliseconds.
    pub timeout_ms: u64,
    /// Most tokens of one answer, where the window has room for them.
    pub max_tokens: u64,
    /// Name of the field that carries them: `max_tokens` or `max_completion_tokens`.
    pub max_tokens_field: String,
    /// Whether answers are taken word by word.
    pub stream: bool,
    /// Names under which the tools are shown: `vctx`, `memgpt` or `anthropic`.
    pub dialect: String,
    /// Whether schemas are strict.
    pub strict: bool,
    /// Tools that a run offers, by name or `all`; empty: those of the dialect for a chat.
    pub tools: Vec<String>,
}

/// Names of the field that carries the most tokens of an answer.
const MAX_TOKENS_FIELDS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

impl ChatSettings {
    /// Whether a model is configured.
    pub fn is_set(&self) -> bool {
        !(self.socket.as_os_str().is_empty() && self.tcp.is_empty())
    }

    /// What is wrong with them, each with its key.
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

    /// The model they describe, if they do; `key` is what its server wants to see.
    pub fn open(&self, key: Option<String>) -> Option<Arc<dyn ChatModel>> {
        let way = self.way().ok().filter(|_| self.is_set())?;
        let limit = Duration::from_millis(self.timeout_ms);
        let (path, model) = (self.path.clone(), self.model.clone());
        Some(Arc::new(EndpointChat::new(way, path, model, key, limit, self.stream)))
    }

    fn way(&self) -> Result<Way, String> {
        let length = self.socket.as_os_str().len();
        match (length, self.tcp.as_str()) {
            (0, address) => address
                .parse::<SocketAddr>()
                .map(Way::Tcp)
                .map_err(|_| "tcp: use an address and a port, as 127.0.0.1:8080".into()),
            (_, "") if !self.socket.is_absolute() || length > SOCKET_PATH_BYTES_MAX => {
                Err(format!("socket: use a whole path of at most {SOCKET_PATH_BYTES_MAX} bytes"))
            }
            (_, "") => Ok(Way::Unix(self.socket.clone())),
            _ => Err("tcp: give it or socket, not both".into()),
        }
    }
}
