//! Settings of a model for a task beside the chat, such as summaries.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::address::Address;
use super::chat::ChatServer;
use super::gateway::Gateway;
use vctx_core::limits::MODEL_MS_MAX;

/// Variable with the key for the server of the summary model.
pub const SUMMARISER_KEY: &str = "VCTX_SUMMARISER_KEY";
/// Shortest time limit for an answer, in milliseconds; 0 means the default of the task.
const TASK_MS_MIN: u64 = 10;

/// Settings of a model for a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskModelSettings {
    /// Name of the model's provider, which decides the address and the API, or empty. If this,
    /// `url` and `socket` are empty, no model does the task.
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
    /// Time limit for one answer, including all attempts, in milliseconds; 0 for the default of the
    /// task.
    pub timeout_ms: u64,
}

impl TaskModelSettings {
    /// Returns whether a model is configured.
    pub fn is_set(&self) -> bool {
        self.server().is_set()
    }

    /// Returns one sentence for each invalid setting, beginning with `section` and the setting's
    /// key.
    pub fn faults(&self, section: &str) -> Vec<String> {
        let mut faults = self.server().faults();
        if self.timeout_ms != 0 && !(TASK_MS_MIN..=MODEL_MS_MAX).contains(&self.timeout_ms) {
            faults.push(format!("timeout_ms: use {TASK_MS_MIN} to {MODEL_MS_MAX}, or 0"));
        }
        faults.into_iter().map(|text| format!("{section}.{text}")).collect()
    }

    /// Returns the address of the model's server, if one is configured.
    pub fn address(&self) -> Option<Address> {
        self.server().address()
    }

    /// Makes a client of the model, if one is configured. The key comes from the variable of the
    /// given name, and an answer may take `usual_ms` unless the settings say otherwise. An error
    /// begins with the setting that is wrong.
    pub fn open(
        &self,
        key: Option<String>,
        variable: &'static str,
        usual_ms: u64,
    ) -> Result<Option<Gateway>, String> {
        Gateway::open(self.server(), key, variable, self.limit(usual_ms))
    }

    /// Returns the time limit for an answer.
    pub(super) fn limit(&self, usual_ms: u64) -> Duration {
        Duration::from_millis(if self.timeout_ms == 0 { usual_ms } else { self.timeout_ms })
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
