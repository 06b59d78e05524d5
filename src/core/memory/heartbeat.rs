//! The heartbeat of one agent as it lies in its core: limits, the open chain, the last beats, the last end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that two servers must agree on to chain calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// What the agent may.
    #[serde(default)]
    pub limits: HeartbeatLimits,
    /// The chain that runs.
    #[serde(default)]
    pub chain: Option<OpenChain>,
    /// Until then no chain starts, in milliseconds since 1970; 0: nothing cools.
    #[serde(default)]
    pub cooldown_until_ms: u64,
    /// When the last beats were granted, oldest first, at most `rps_limit` of them, in milliseconds since 1970.
    #[serde(default)]
    pub recent_ms: Vec<u64>,
    /// The chain that ended last.
    #[serde(default)]
    pub ended: Option<EndedChain>,
}

/// Caps of a chain and of the rate of its beats (seed 002).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatLimits {
    /// Beats of one chain; the next one ends it.
    pub max_chain_depth: u64,
    /// Age up to which a chain lives, in milliseconds.
    pub max_chain_duration_ms: u64,
    /// Free tokens of the window below which a chain ends.
    pub floor_tokens: u64,
    /// Beats within any second.
    pub rps_limit: u64,
    /// Pause after an end by depth or duration, in milliseconds.
    pub cooldown_ms: u64,
}

impl Default for HeartbeatLimits {
    /// The defaults of the requirement: 8 links, 60 s, 256 tokens, 3 beats a second, 750 ms.
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

/// Limits to be changed; what is absent stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatPatch {
    /// Beats of one chain; the next one ends it.
    #[serde(default)]
    pub max_chain_depth: Option<u64>,
    /// Age up to which a chain lives, in milliseconds.
    #[serde(default)]
    pub max_chain_duration_ms: Option<u64>,
    /// Free tokens of the window below which a chain ends.
    #[serde(default)]
    pub floor_tokens: Option<u64>,
    /// Beats within any second.
    #[serde(default)]
    pub rps_limit: Option<u64>,
    /// Pause after an end by depth or duration, in milliseconds.
    #[serde(default)]
    pub cooldown_ms: Option<u64>,
}

impl HeartbeatPatch {
    /// The limits after the change.
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

/// A chain that runs: calls that a model asked for one after the other, without an event between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenChain {
    /// Names it in its events.
    pub id: String,
    /// When its first beat was granted, in milliseconds since 1970.
    pub started_ms: u64,
    /// Beats so far.
    pub depth: u64,
    /// When its last beat was granted, in milliseconds since 1970.
    pub last_ms: u64,
    /// Last millisecond of its life; what is older is swept (the index `core_by_deadline`).
    pub deadline_ms: u64,
    /// Calls that were made in it, to tell when it goes in circles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<MadeCall>,
}

/// A call of a chain together with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeCall {
    /// Digest of tool, arguments and result.
    pub digest: String,
    /// Times it was made and answered so.
    pub times: u64,
}

/// A chain that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedChain {
    /// Names it in its events.
    pub id: String,
    /// Why it ended.
    pub reason: Reason,
    /// Who ended it.
    pub closed_by: ClosedBy,
    /// Beats it had.
    pub depth: u64,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
}

/// Why a chain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// One beat more than the agent may have in a row.
    Depth,
    /// It lived too long, or nobody went on with it.
    Duration,
    /// The window had no room left.
    Tokens,
    /// Its owner gave control back, or something happened outside.
    ExplicitYield,
    /// The same call was answered the same once too often.
    LoopDetected,
}

impl Reason {
    /// As events, answers and metrics name it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::Duration => "duration",
            Self::Tokens => "tokens",
            Self::ExplicitYield => "explicit_yield",
            Self::LoopDetected => "loop_detected",
        }
    }
}

/// Who ended a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedBy {
    /// The beat that was refused, or the yield.
    Beat,
    /// An event from outside.
    Event,
    /// A call that brought nothing new.
    Call,
    /// Another write of the agent, which found it dead.
    Write,
    /// The job that looks for dead chains.
    Sweep,
}
