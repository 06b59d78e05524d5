//! When a prompt gets a context that is built for its question, and how contexts are built.

use serde::{Deserialize, Serialize};

use super::slots::Slots;

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

/// Default of `context.documents_min`.
pub const DOCUMENTS_MIN: u64 = 512;

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
    /// Tokens that a prompt's context gets even if messages have to be evicted first, in tokens; at
    /// most an eighth of the window.
    pub documents_min: u64,
    /// Shares of the window in percent, together 100. A context gets at most the share of the
    /// documents, and leaves the reserve for the answer, unless a call says otherwise.
    pub slots: Slots,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self {
            engineer: Engineer::default(),
            depth: Depth::default(),
            grade_min: GRADE_MIN,
            documents_min: DOCUMENTS_MIN,
            slots: Slots::default(),
        }
    }
}

impl ContextSettings {
    /// Returns a description of the invalid value, or `None` if the settings are valid.
    pub fn fault(&self) -> Option<String> {
        if !(0.0..=1.0).contains(&self.grade_min) {
            return Some("context.grade_min: use 0 to 1".to_owned());
        }
        self.slots.checked().err().map(|error| format!("context.{}", error.message))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named_with_its_setting() {
        assert_eq!(ContextSettings::default().fault(), None);
        let slots = Slots { documents: 60, ..Slots::default() };
        let wrong = ContextSettings { slots, ..ContextSettings::default() };
        let fault = wrong.fault().unwrap_or_default();
        assert!(fault.starts_with("context.slots") && fault.contains("115 percent"), "{fault}");
        let wrong = ContextSettings { grade_min: f64::NAN, ..ContextSettings::default() };
        assert_eq!(wrong.fault().as_deref(), Some("context.grade_min: use 0 to 1"));
    }
}
