//! The form of an agent's window: how its texts are rendered as chat messages.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How the window renders an agent's texts. All forms stay, so that recorded prompts of every form
/// can be replayed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub enum Form {
    /// The first form, without times. Only agents of earlier program versions have it.
    #[default]
    #[serde(rename = "1")]
    One,
    /// Messages have dates, recalled messages are one message of role `system`, and the window ends
    /// with the time.
    #[serde(rename = "2")]
    Two,
    /// As form 2, for chat templates that accept only one system message, which is the first, and
    /// then messages of the user and the assistant in turn.
    #[serde(rename = "strict")]
    Strict,
}

impl Form {
    /// The forms that a caller may choose.
    pub const CHOICES: &'static [Self] = &[Self::Two, Self::Strict];

    /// Returns the name of the form.
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
            Self::Strict => "strict",
        }
    }

    /// Whether this is the form of earlier program versions.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub fn is_one(&self) -> bool {
        *self == Self::One
    }
}

impl fmt::Display for Form {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
