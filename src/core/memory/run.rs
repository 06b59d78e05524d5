//! The state of a run (all inferences from one input to the yield) in the agent's core, and the
//! reasons why a run ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An open run, stored in `core_memory.run`; while a run is open, no other run of the agent can
/// start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRun {
    /// Key of the run. A repeated request has the same key and continues the run.
    pub id: String,
    /// Seq of the first message of the run.
    pub cause_seq: u64,
    /// The server that drives the run.
    pub owner: String,
    /// End of the lease of the server that drives the run, in milliseconds since 1970 (index
    /// `core_by_run`).
    pub until_ms: u64,
    /// When the run began, in milliseconds since 1970.
    pub started_ms: u64,
    /// Labels of the run's newest message of the user, as they are stored; the run's answers get
    /// them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

/// The reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunReason {
    /// The model yielded.
    Yield,
    /// The model called tools of the client, and the client must run these calls.
    ClientCalls,
    /// The chain reached its maximum depth, or the run reached its maximum number of turns.
    Depth,
    /// The chain or the run reached its longest duration.
    Duration,
    /// The window has no room for a further inference.
    Tokens,
    /// The model repeated a call too often although the result did not change.
    LoopDetected,
    /// The model's calls were malformed in too many consecutive answers.
    Repairs,
    /// The model gave no usable answer.
    ModelFailed,
    /// The caller disconnected, or the server that drove the run stopped or failed.
    Cancelled,
}

impl RunReason {
    /// Returns the name that events, answers and metrics use for this reason.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Id of the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call, normally a JSON text.
    pub arguments: String,
}

/// Tokens that the provider counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens of the request.
    pub prompt: u64,
    /// Tokens of the answer.
    pub completion: u64,
}

impl Usage {
    /// Adds the tokens of another turn of the same run.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            prompt: self.prompt.saturating_add(other.prompt),
            completion: self.completion.saturating_add(other.completion),
        }
    }
}
