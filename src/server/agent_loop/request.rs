//! What a run is asked to do, what it tells on its way, and what it came to.

use serde::Serialize;
use serde_json::{Map, Value};

use vctx_core::error::{Error, Result};
use vctx_core::limits::{KEY_BYTES_MAX, RUN_INPUT_MAX, RUN_TOOLS_MAX};
use vctx_core::memory::message::Role;
use vctx_core::memory::receipt;
use vctx_core::memory::run::{RunReason, ToolCall, Usage};
use vctx_core::policy::Principal;
use vctx_core::policy::turn::Beat;

/// A message that a run begins with.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Who speaks.
    pub role: Role,
    /// The text.
    pub content: String,
    /// `name`, `tool_calls`, `tool_call_id`, `said_at`, as `append_fifo` takes them.
    pub meta: Map<String, Value>,
    /// Digest of the conversation up to this message, as a client sees it.
    pub thread: Option<String>,
}

/// A run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Who asks.
    pub principal: Principal,
    /// Agent by name.
    pub agent: String,
    /// The same key is the same run: it is gone on with, and what happened does not happen again.
    pub key: String,
    /// What it begins with; may be empty, after an event that is there already.
    pub input: Vec<NewMessage>,
    /// Tools of the client, in the format of the endpoint; the run ends where the model calls one.
    pub client_tools: Vec<Value>,
    /// Fields of the request to the model beside messages and tools (`temperature`, …).
    pub options: Map<String, Value>,
    /// Who asks for the next inference.
    pub beat: Beat,
    /// Memory tools that are offered, by name or `all`; none: as configured.
    pub tools: Option<Vec<String>>,
}

impl RunRequest {
    /// Refuses what no run can be begun with.
    pub(super) fn check(&self) -> Result<()> {
        if self.key.is_empty() || self.key.len() > KEY_BYTES_MAX {
            return Err(Error::argument(
                "idempotency_key",
                format!("use 1 to {KEY_BYTES_MAX} bytes"),
            ));
        }
        if self.input.len() > RUN_INPUT_MAX {
            return Err(Error::argument("input", format!("more than {RUN_INPUT_MAX} messages")));
        }
        if self.client_tools.len() > RUN_TOOLS_MAX {
            return Err(Error::argument("client_tools", format!("more than {RUN_TOOLS_MAX}")));
        }
        Ok(())
    }

    /// The key of something that this run writes; hashed where it would be too long.
    pub(super) fn key_of(&self, what: &str) -> String {
        let key = format!("{}/{what}", self.key);
        if key.len() <= KEY_BYTES_MAX { key } else { receipt::sha256(&key) }
    }
}

/// What a run tells on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunEvent {
    /// An inference begins.
    Turn {
        /// Its place in the run, from 1.
        n: u64,
    },
    /// Text of the answer, going on where the last piece of this turn ended.
    Text {
        /// The piece.
        text: String,
    },
    /// A memory tool is called.
    Called {
        /// Id of the call.
        id: String,
        /// The tool.
        name: String,
    },
    /// It has its result.
    Returned {
        /// Id of the call.
        id: String,
        /// Whether it succeeded.
        ok: bool,
    },
    /// Nothing happens for a while.
    Waiting {
        /// How long, in milliseconds.
        ms: u64,
        /// Why, in a word.
        why: String,
    },
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunEnd {
    /// Why it ended.
    pub reason: RunReason,
    /// Text of the last answer; empty where there was none.
    pub text: String,
    /// Calls of the client's own tools in the last answer: their results begin the next run.
    pub client_calls: Vec<ToolCall>,
    /// Tokens of all inferences, as the provider counted them, or as they are estimated where it does not say.
    pub usage: Usage,
    /// Inferences.
    pub turns: u64,
    /// Seq of the last answer; 0 where there was none.
    pub last_seq: u64,
    /// What was wrong with the model, where that ended the run.
    pub fault: Option<String>,
}
