//! Types of a run: its request, its events and its result.

use serde::Serialize;
use serde_json::{Map, Value};

use super::toolbox::name_of;
use crate::executor::check_key;
use vctx_core::error::{Error, Result};
use vctx_core::limits::KEY_BYTES_MAX;
use vctx_core::memory::Labels;
use vctx_core::memory::engineer::Engineer;
use vctx_core::memory::message::Role;
use vctx_core::memory::receipt;
use vctx_core::memory::run::{RunReason, ToolCall, Usage};
use vctx_core::policy::turn::Beat;
use vctx_core::trust::Principal;

/// Maximum number of input messages of one run.
const RUN_INPUT_MAX: usize = 1_024;
/// Maximum number of client tools of one run.
const RUN_TOOLS_MAX: usize = 128;

/// An input message of a run.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Role of the speaker.
    pub role: Role,
    /// Text of the message.
    pub content: String,
    /// Further fields of the message, named as in `append_fifo`: `name`, `tool_calls`,
    /// `tool_call_id`, `said_at`.
    pub meta: Map<String, Value>,
    /// Digest of the client's conversation thread up to and including this message.
    pub thread: Option<String>,
}

/// The request for a run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The caller.
    pub principal: Principal,
    /// Name of the agent.
    pub agent: String,
    /// Idempotency key: a request with the same key continues the same run, and no step runs twice.
    pub key: String,
    /// Input messages of the run; empty if the input is an event that is already recorded.
    pub input: Vec<NewMessage>,
    /// Labels of the run's answers, if its input is already in the memory.
    pub labels: Labels,
    /// Client tools in the format of the model's endpoint; the run ends when the model calls a
    /// client tool.
    pub client_tools: Vec<Value>,
    /// Fields that the request to the model has in addition to messages and tools (`temperature`,
    /// …).
    pub options: Map<String, Value>,
    /// Rule that decides when the run starts the next inference.
    pub beat: Beat,
    /// When the run's prompts get a context that is built for the question; `None` for the agent's
    /// setting.
    pub engineer: Option<Engineer>,
    /// Memory tools offered to the model, by name or `all`; `None` for the configured tools.
    pub tools: Option<Vec<String>>,
    /// Whether the user reads the text of an answer as it comes. What was read of an answer is kept
    /// if the user ends the run.
    pub is_read: bool,
}

impl RunRequest {
    /// Refuses an invalid request.
    pub(super) fn check(&self) -> Result<()> {
        check_key(&self.key)?;
        if self.input.len() > RUN_INPUT_MAX {
            return Err(Error::argument("input", format!("more than {RUN_INPUT_MAX} messages")));
        }
        if self.client_tools.len() > RUN_TOOLS_MAX {
            return Err(Error::argument("client_tools", format!("more than {RUN_TOOLS_MAX}")));
        }
        if let Some(at) = self.client_tools.iter().position(|tool| name_of(tool).is_empty()) {
            return Err(Error::argument(&format!("client_tools[{at}]"), "name the function"));
        }
        if self.tools.iter().flatten().any(String::is_empty) {
            return Err(Error::argument("tools", "name each tool, or leave the list empty"));
        }
        Ok(())
    }

    /// Returns the idempotency key of a write of this run, hashed if the key would be too long.
    pub(super) fn key_of(&self, what: &str) -> String {
        let key = format!("{}/{what}", self.key);
        if key.len() <= KEY_BYTES_MAX { key } else { receipt::sha256(&key) }
    }
}

/// What a run reports to the caller while the run is in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunEvent {
    /// An inference begins.
    Turn {
        /// Number of the turn in the run, from 1.
        n: u64,
        /// Position (`seq`) of the answer of the turn before; 0 if the run has no answer yet.
        #[serde(skip)]
        last_seq: u64,
    },
    /// A piece of the answer's text, which follows the earlier pieces of this turn.
    Text {
        /// Text of the piece.
        text: String,
    },
    /// A call to a memory tool begins.
    Called {
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
        /// Arguments as the model wrote them, a JSON text.
        arguments: String,
    },
    /// A call to a memory tool has a result.
    Returned {
        /// Id of the call.
        id: String,
        /// Whether the call succeeded.
        ok: bool,
        /// Code of the error of a call that failed, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The run waits before it continues.
    Waiting {
        /// Duration of the wait, in milliseconds.
        ms: u64,
        /// Reason for the wait, in one word.
        why: String,
    },
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunEnd {
    /// Reason why the run ended.
    pub reason: RunReason,
    /// Text of the last answer; empty if there is none.
    pub text: String,
    /// Client-tool calls in the last answer; the client sends their results as input of the next
    /// run.
    pub client_calls: Vec<ToolCall>,
    /// Tokens of all inferences of the run, counted by the provider or estimated.
    pub usage: Usage,
    /// Number of inferences in the run.
    pub turns: u64,
    /// Position (`seq`) of the last answer, or 0.
    pub last_seq: u64,
    /// The model's fault that ended the run, if any.
    pub fault: Option<String>,
    /// What somebody should know who set up the agent: that the window is too small for its fixed
    /// part. The stored result of a run has no warnings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
