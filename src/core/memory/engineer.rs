//! When a prompt gets a context that is built for its question.

use serde::{Deserialize, Serialize};

/// When a prompt gets a context that is built for its question.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Engineer {
    /// Never: the prompt shows the window alone.
    Off,
    /// If the window does not answer the question.
    #[default]
    Auto,
    /// Whenever the memory holds something on the question.
    Always,
}

/// Settings of built contexts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextSettings {
    /// When prompts get a context that is built for their question, unless the agent or the run
    /// says otherwise.
    pub engineer: Engineer,
}

impl Engineer {
    /// The choices, by name.
    pub const ALL: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("auto", Self::Auto), ("always", Self::Always)];

    /// Returns the choice with the given name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice)
    }
}
