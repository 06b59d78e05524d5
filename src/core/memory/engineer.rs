//! When a prompt gets a context that is built for its question, and how contexts are built.

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

/// How far the memory is looked into for a context.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// As configured: by default once, further where a text only leads to the answer.
    #[default]
    Auto,
    /// Once.
    Once,
    /// In more rounds.
    Deep,
}

/// Default of `context.grade_min`, the grade from which a text is shown.
pub const GRADE_MIN: f64 = 0.35;

/// Settings of built contexts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextSettings {
    /// When prompts get a context that is built for their question, unless the agent or the run
    /// says otherwise.
    pub engineer: Engineer,
    /// How far the memory is looked into, unless a call says otherwise.
    pub depth: Depth,
    /// Grade from which a text is shown, from 0 to 1, unless a call gives a number of tokens to
    /// fill.
    pub grade_min: f64,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self { engineer: Engineer::default(), depth: Depth::default(), grade_min: GRADE_MIN }
    }
}

impl ContextSettings {
    /// Returns a description of the invalid value, or `None` if the settings are valid.
    pub fn fault(&self) -> Option<String> {
        let fits = (0.0..=1.0).contains(&self.grade_min);
        (!fits).then(|| "context.grade_min: use 0 to 1".to_owned())
    }
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
