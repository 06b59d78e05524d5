//! How passages of recall storage near to a question are looked for, and what came of it.

use super::rank::Spoken;
use crate::limits::{RECALL_N_PROBE, RECALL_NEAR_FETCH};
use crate::memory::recall_vector::NearPassage;

/// A way to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallPlan {
    /// Every passage of the agent is compared.
    Exact,
    /// The vector index is asked, and what is not the agent's is dropped.
    Index {
        /// Cells it looks into.
        n_probe: u32,
        /// Rows of all agents.
        fetch: u64,
    },
}

impl RecallPlan {
    /// The way for an agent with so many passages: few are compared one by one.
    pub fn of(passages: u64, exact_rows_max: u64, limit: u64) -> Self {
        if passages <= exact_rows_max {
            return Self::Exact;
        }
        Self::Index { n_probe: RECALL_N_PROBE, fetch: limit * RECALL_NEAR_FETCH }
    }

    /// The word in answers.
    pub fn text(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Index { .. } => "vector",
        }
    }
}

/// What a look for near passages found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecallNear {
    /// The nearest first.
    pub hits: Vec<NearPassage>,
    /// The entries of the best of them with what was said beside them, but for those that were known.
    pub rows: Vec<Spoken>,
    /// How it was looked for; none where it could not.
    pub plan: Option<&'static str>,
    /// Whether what was logged last had its vectors; it gets them a moment later.
    pub complete: bool,
    /// Why there is nothing: `no_model`, or `embedder` while it fails.
    pub missing: Option<&'static str>,
}

impl RecallNear {
    /// Nothing, and why.
    pub fn nothing(why: &'static str) -> Self {
        Self { missing: Some(why), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_passages_are_compared_one_by_one_and_many_through_the_index() {
        assert_eq!(RecallPlan::of(0, 100, 10), RecallPlan::Exact);
        assert_eq!(RecallPlan::of(100, 100, 10), RecallPlan::Exact);
        let many = RecallPlan::of(101, 100, 10);
        assert_eq!(many, RecallPlan::Index { n_probe: 32, fetch: 80 });
        assert_eq!((many.text(), RecallPlan::Exact.text()), ("vector", "exact"));
    }
}
