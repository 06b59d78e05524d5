//! The heartbeat state in an agent's core: limits, the open chain, recent beats, and the last chain
//! that ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Heartbeat state of an agent. All servers of the database share this state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Limits of the agent's chains.
    #[serde(default)]
    pub limits: HeartbeatLimits,
    /// The open chain, if any.
    #[serde(default)]
    pub chain: Option<OpenChain>,
    /// End of the cooldown (the pause before the next chain may start), in milliseconds since 1970;
    /// 0 without a cooldown.
    #[serde(default)]
    pub cooldown_until_ms: u64,
    /// Times of the latest beats in milliseconds since 1970, oldest first; at most `rps_limit`
    /// times are kept.
    #[serde(default)]
    pub recent_ms: Vec<u64>,
    /// The heartbeat chain that ended last, if any.
    #[serde(default)]
    pub ended: Option<EndedChain>,
}

/// Limits of an agent's heartbeat chains and of the rate of beats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatLimits {
    /// Maximum number of beats of a chain; the next beat ends the chain.
    pub max_chain_depth: u64,
    /// Longest duration of a chain, in milliseconds.
    pub max_chain_duration_ms: u64,
    /// Number of free tokens in the window below which a chain ends.
    pub floor_tokens: u64,
    /// Maximum number of an agent's beats within a second.
    pub rps_limit: u64,
    /// Pause after a chain that ended by depth (also by a loop) or duration, in milliseconds.
    pub cooldown_ms: u64,
}

impl Default for HeartbeatLimits {
    /// Returns the default limits: 8 beats and 60 s for a chain, 256 free tokens, 3 beats a second,
    /// and a cooldown of 750 ms.
    fn default() -> Self {
        Self {
            max_chain_depth: 8,
            max_chain_duration_ms: 60_000,
            floor_tokens: 256,
            rps_limit: 3,
            cooldown_ms: 750,
        }
    }
}

/// Limits to change; an absent limit stays unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatPatch {
    /// Maximum number of beats of a chain; the next beat ends the chain.
    #[serde(default)]
    pub max_chain_depth: Option<u64>,
    /// Longest duration of a chain, in milliseconds.
    #[serde(default)]
    pub max_chain_duration_ms: Option<u64>,
    /// Number of free tokens in the window below which a chain ends.
    #[serde(default)]
    pub floor_tokens: Option<u64>,
    /// Maximum number of an agent's beats within a second.
    #[serde(default)]
    pub rps_limit: Option<u64>,
    /// Pause after a chain that ended by depth (also by a loop) or duration, in milliseconds.
    #[serde(default)]
    pub cooldown_ms: Option<u64>,
}

impl HeartbeatPatch {
    /// Returns `limits` with the changes of this patch.
    pub fn on(&self, limits: HeartbeatLimits) -> HeartbeatLimits {
        HeartbeatLimits {
            max_chain_depth: self.max_chain_depth.unwrap_or(limits.max_chain_depth),
            max_chain_duration_ms: self
                .max_chain_duration_ms
                .unwrap_or(limits.max_chain_duration_ms),
            floor_tokens: self.floor_tokens.unwrap_or(limits.floor_tokens),
            rps_limit: self.rps_limit.unwrap_or(limits.rps_limit),
            cooldown_ms: self.cooldown_ms.unwrap_or(limits.cooldown_ms),
        }
    }
}

/// An open chain: a sequence of inferences that the model requested by heartbeats, with no event
/// between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenChain {
    /// Id of the heartbeat chain in memory events.
    pub id: String,
    /// Time of the chain's first beat, in milliseconds since 1970.
    pub started_ms: u64,
    /// Number of beats in the chain so far.
    pub depth: u64,
    /// Time of the chain's last beat, in milliseconds since 1970.
    pub last_ms: u64,
    /// Deadline of the chain, in milliseconds since 1970. A job uses the index `core_by_deadline`
    /// to find chains whose deadline has passed, and ends these chains.
    pub deadline_ms: u64,
    /// Digests of the chain's calls and of their results, by which a loop is detected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<MadeCall>,
}

/// A call made in a chain, with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeCall {
    /// Digest of the call's tool, arguments and result.
    pub digest: String,
    /// Number of times that a call with this digest was made in the chain.
    pub times: u64,
}

/// A chain that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedChain {
    /// Id of the ended chain in memory events.
    pub id: String,
    /// Reason why the heartbeat chain ended.
    pub reason: Reason,
    /// What ended the heartbeat chain: a kind of write, or a job.
    pub closed_by: ClosedBy,
    /// Number of beats that the heartbeat chain had.
    pub depth: u64,
    /// Duration of the ended chain, in milliseconds.
    pub duration_ms: u64,
    /// Time when the heartbeat chain ended, in milliseconds since 1970.
    pub ended_ms: u64,
}

/// The reason for the end of a heartbeat chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The chain reached its maximum number of beats, or the model repeated a call too often
    /// although the result did not change ([`ClosedBy::Call`]; earlier versions stored the reason
    /// `loop_detected` then).
    #[serde(alias = "loop_detected")]
    Depth,
    /// The chain reached its longest duration, so its deadline passed.
    Duration,
    /// The window had fewer free tokens than `floor_tokens`.
    Tokens,
    /// The model yielded, or an event arrived.
    ExplicitYield,
}

impl Reason {
    /// Returns the name of the reason in events, answers and metrics.
    pub fn text(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::Duration => "duration",
            Self::Tokens => "tokens",
            Self::ExplicitYield => "explicit_yield",
        }
    }
}

impl ClosedBy {
    /// Returns the name that events and answers use.
    pub fn text(self) -> &'static str {
        match self {
            Self::Beat => "beat",
            Self::Event => "event",
            Self::Call => "call",
            Self::Write => "write",
            Self::Sweep => "sweep",
        }
    }
}

/// What ended a chain: a kind of write, or a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedBy {
    /// A beat that was refused, or a yield of the model.
    Beat,
    /// An event from outside.
    Event,
    /// A repeated call without a new result.
    Call,
    /// Any other write to the agent, after the chain's deadline.
    Write,
    /// The job that ends chains past their deadline.
    Sweep,
}
