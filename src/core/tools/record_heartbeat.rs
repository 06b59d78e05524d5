//! `record_heartbeat`: continues the agent's heartbeat chain, or yields.

use schemars::JsonSchema;
use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::spec::{Access, Arguments, Card, Command, Spec};
use super::text_or_object::text_or_object;
use super::told;
use crate::error::{Code, Error, Result};
use crate::policy::{BeatResult, Ctx, Intent, Step, Stop};
use crate::trust::check_name;

/// Arguments of `record_heartbeat`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordHeartbeat {
    /// The model's wish: `continue` or `yield`, or an object with a note.
    #[schemars(extend("x-model" = ""))]
    pub state: State,
}

/// A state as the caller gives it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum State {
    /// Only the name of the state.
    Name(Status),
    /// The state with a note.
    Noted(Noted),
}

/// The model's wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Call me again at once.
    Continue,
    /// Wait for the next event.
    Yield,
}

/// A state with a note for the events.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Noted {
    /// The model's wish.
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

impl Arguments for RecordHeartbeat {
    const CARD: Card = Card {
        title: "Go on thinking",
        description: "Take the next step at once (continue), or wait for the next event (yield).",
        in_chat: true,
        example: r#"{"state": "continue"}"#,
        result: &[
            ("chain_depth", "integer", "calls of this chain so far"),
            ("duration_ms", "integer", "how long the chain has lasted"),
            ("terminated_reason", "string?", "why it ended, if it did"),
        ],
        told: |result| match told::text(result, "terminated_reason") {
            "" => "Go on.".to_owned(),
            reason => format!("The chain of steps ended: {reason}."),
        },
        ..Card::NEW
    };

    fn checked(self) -> Result<Self> {
        if let State::Noted(Noted { note: Some(note), .. }) = &self.state {
            check_name("state.note", note)?;
        }
        Ok(self)
    }
}

impl Command for RecordHeartbeat {
    const SPEC: Spec = Spec { in_chains: false, ..Spec::tool("record_heartbeat", Access::Signal) };

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let (intent, note) = self.parts();
        let mut draft = ctx.draft();
        if intent == Intent::Yield {
            let wait = draft.spare_yield();
            if wait > 0 {
                let text = format!("too many beats in a second: the next may come in {wait} ms");
                return Err(waiting(Code::HeartbeatRateLimited, text, wait).into());
            }
        }
        let result = result_of(&draft.beat_now(intent, note))?;
        ctx.finish(draft, result)
    }
}

impl RecordHeartbeat {
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
}

/// Returns the result's fields: depth, duration and end reason of the chain. If the model must wait
/// before its next beat, returns an error, and nothing is stored.
fn result_of(outcome: &BeatResult) -> Result<Map<String, Value>> {
    let (depth, duration_ms, reason) = match outcome {
        BeatResult::Granted { depth, duration_ms, .. } => (*depth, *duration_ms, None),
        BeatResult::Ended { chain, .. } => (chain.depth, chain.duration_ms, Some(chain.reason)),
        BeatResult::Idle => (0, 0, None),
        BeatResult::Limited { retry_after_ms } => {
            let text = format!(
                "too many beats in a second: the chain stays open, go on in {retry_after_ms} ms"
            );
            return Err(waiting(Code::HeartbeatRateLimited, text, *retry_after_ms));
        }
        BeatResult::Cooling { retry_after_ms } => {
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
