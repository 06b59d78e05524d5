//! A run: everything from an event until the model yields; what of it stands in the core while it is open, and how it ended.

use serde::{Deserialize, Serialize};

/// A run that is open, as it lies in `core_memory.run`: while it lives, no other run of the agent begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRun {
    /// Its key: the same request goes on with the same run.
    pub id: String,
    /// First seq that belongs to it.
    pub cause_seq: u64,
    /// The server that goes on with it.
    pub owner: String,
    /// Until then the owner counts as alive, in milliseconds since 1970 (the index `core_by_run`).
    pub until_ms: u64,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunReason {
    /// The model gave control back.
    Yield,
    /// It called tools of the client, who has to run them.
    ClientCalls,
    /// The chain of heartbeats reached its depth, or the run its inferences.
    Depth,
    /// The chain or the run lasted too long.
    Duration,
    /// The window has no room for a further inference.
    Tokens,
    /// The same call had the same result again and again.
    LoopDetected,
    /// The model's calls stayed malformed.
    Repairs,
    /// The model did not answer, or not in a way that can be understood.
    ModelFailed,
    /// Whoever asked for it went away, or its server did.
    Cancelled,
}

impl RunReason {
    /// As events, answers and metrics name it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Yield => "yield",
            Self::ClientCalls => "client_calls",
            Self::Depth => "depth",
            Self::Duration => "duration",
            Self::Tokens => "tokens",
            Self::LoopDetected => "loop_detected",
            Self::Repairs => "repairs",
            Self::ModelFailed => "model_failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A tool call as a model makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// What is called.
    pub name: String,
    /// Its arguments as they came: a JSON text, if the model was right.
    pub arguments: String,
}

/// Tokens that the provider counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Of what was sent.
    pub prompt: u64,
    /// Of what was answered.
    pub completion: u64,
}

impl Usage {
    /// Both together, over several inferences.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            prompt: self.prompt.saturating_add(other.prompt),
            completion: self.completion.saturating_add(other.completion),
        }
    }
}
