//! The stages of a decision, which the caller can observe, for example to measure them.

/// A stage of a decision. The stages of a change begin in the order of this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The tool drafts its change.
    Execute,
    /// The result is appended to the queue, if the call is captured.
    Capture,
    /// The token budget adds a notice or an eviction, or refuses the change.
    Budget,
    /// The heartbeat chain continues, or ends.
    Heartbeat,
}

impl Stage {
    /// Returns the name of the stage in traces.
    pub fn text(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Capture => "capture",
            Self::Budget => "budget",
            Self::Heartbeat => "heartbeat",
        }
    }
}

/// An observer of the stages of a decision.
pub trait Stages: Sync {
    /// A stage begins, so the stage before it ends.
    fn begins(&self, stage: Stage);
}

/// The observer of decisions that no caller measures.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Stages for Unobserved {
    fn begins(&self, _stage: Stage) {}
}
