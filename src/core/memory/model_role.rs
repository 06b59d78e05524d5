//! The steps of a context build that a model may take over, and what a model is asked.

use serde::{Deserialize, Serialize};

/// A step of a build that a model may take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelRole {
    /// Splits a message into questions, and says whether to ask the user first.
    Planner,
    /// Says a question in other words, if nothing good was found.
    Rewriter,
    /// Grades the best candidates.
    Grader,
    /// Compares the best candidates with the question, as a cross-encoder.
    Reranker,
    /// Summarises a text.
    Summariser,
    /// Judges prompts and their answers.
    Judge,
}

impl ModelRole {
    /// All roles.
    pub const ALL: [Self; 6] = [
        Self::Planner,
        Self::Rewriter,
        Self::Grader,
        Self::Reranker,
        Self::Summariser,
        Self::Judge,
    ];

    /// Returns the name of the role in the configuration and in answers.
    pub fn text(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Rewriter => "rewriter",
            Self::Grader => "grader",
            Self::Reranker => "reranker",
            Self::Summariser => "summariser",
            Self::Judge => "judge",
        }
    }
}

/// The roles that have a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelRoles(u8);

impl ModelRoles {
    /// Returns the set of the given roles.
    pub fn of(roles: impl IntoIterator<Item = ModelRole>) -> Self {
        Self(roles.into_iter().fold(0, |set, role| set | 1 << role as u8))
    }

    /// Whether a role has a model.
    pub fn has(self, role: ModelRole) -> bool {
        self.0 & 1 << role as u8 != 0
    }
}

/// What a role asks its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelAsk {
    /// The role.
    pub role: ModelRole,
    /// What to do; of a cross-encoder, nothing.
    pub instruction: &'static str,
    /// The text of the request; of a cross-encoder, the query.
    pub text: String,
    /// The texts that a cross-encoder compares with the query.
    pub documents: Vec<String>,
    /// Maximum number of tokens of the answer.
    pub tokens_max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_roles_that_it_was_made_of() {
        let roles = ModelRoles::of([ModelRole::Planner, ModelRole::Judge]);
        let has: Vec<bool> = ModelRole::ALL.iter().map(|role| roles.has(*role)).collect();
        assert_eq!(has, [true, false, false, false, false, true]);
        for role in ModelRole::ALL {
            assert_eq!(serde_json::to_value(role).unwrap(), role.text());
        }
    }
}
