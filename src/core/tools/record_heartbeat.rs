//! `record_heartbeat`: goes on with a chain of calls, or gives control back.

use schemars::JsonSchema;
use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::either::text_or_object;
use super::spec::Step;
use crate::error::{Code, Error, Result};
use crate::memory::core::Core;
use crate::policy::{Answers, Draft, Intent, Outcome, Surroundings, check_name};

/// Arguments of `record_heartbeat`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordHeartbeat {
    /// What comes next: `continue` or `yield`, or an object with a note.
    pub state: State,
}

/// A state as it is given.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum State {
    /// Just its name.
    Name(Status),
    /// With a note.
    Noted(Noted),
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Call me again at once.
    Continue,
    /// Wait for the next event.
    Yield,
}

/// A state and a name for its place in the events.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Noted {
    /// What comes next.
    pub status: Status,
    /// A word for the events, such as `page-3`: 1 to 128 of A-Z a-z 0-9 _ . -
    #[serde(default)]
    pub note: Option<String>,
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        let expected = "`continue`, `yield`, or an object with `status`";
        let named = |text: &str| Status::deserialize(text.into_deserializer()).map(Self::Name);
        text_or_object(deserializer, expected, named, Self::Noted)
    }
}

impl RecordHeartbeat {
    /// The same, checked beyond its types; a fault names the argument.
    pub(super) fn checked(self) -> Result<Self> {
        if let State::Noted(Noted { note: Some(note), .. }) = &self.state {
            check_name("state.note", note)?;
        }
        Ok(self)
    }

    fn parts(&self) -> (Intent, Option<&str>) {
        let (status, note) = match &self.state {
            State::Name(status) => (*status, None),
            State::Noted(noted) => (noted.status, noted.note.as_deref()),
        };
        let intent = match status {
            Status::Continue => Intent::Continue,
            Status::Yield => Intent::Yield,
        };
        (intent, note)
    }

    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let (intent, note) = self.parts();
        let mut draft = Draft::new(around, core);
        let result = result_of(&draft.beat_now(intent, note))?;
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }
}

/// The requirement's three fields; what only has to wait is an error, and leaves nothing behind.
fn result_of(outcome: &Outcome) -> Result<Map<String, Value>> {
    let (depth, duration_ms, reason) = match outcome {
        Outcome::Granted { depth, duration_ms, .. } => (*depth, *duration_ms, None),
        Outcome::Ended { chain, .. } => (chain.depth, chain.duration_ms, Some(chain.reason)),
        Outcome::Idle => (0, 0, None),
        Outcome::Limited { retry_after_ms } => {
            let text = format!(
                "too many beats in a second: the chain stays open, go on in {retry_after_ms} ms"
            );
            return Err(waiting(Code::HeartbeatRateLimited, text, *retry_after_ms));
        }
        Outcome::Cooling { retry_after_ms } => {
            let text =
                format!("the last chain reached a cap: the next may start in {retry_after_ms} ms");
            return Err(waiting(Code::HeartbeatCooldown, text, *retry_after_ms));
        }
    };
    let mut result = json!({"chain_depth": depth, "duration_ms": duration_ms});
    if let Some(reason) = reason {
        result["terminated_reason"] = json!(reason);
    }
    Ok(result.as_object().cloned().unwrap_or_default())
}

fn waiting(code: Code, text: String, retry_after_ms: u64) -> Error {
    Error::new(code, text).with("retry_after_ms", retry_after_ms)
}
