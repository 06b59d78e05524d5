//! Plans the vector search of recall storage, which finds passages near a question's vector, and
//! defines the result of this search.

use super::nearest::NearPlan;
use super::rank::RecallEntry;
use crate::memory::recall_vector::NearPassage;

/// Number of lists of the vector index that one search reads. In measurements, real questions
/// needed 32 lists and synthetic questions only 8.
const RECALL_N_PROBE: u32 = 32;
/// Number of rows read from the vector index for each wanted passage; the number exceeds 1, because
/// the search then drops the rows of other agents.
const RECALL_NEAR_FETCH: u64 = 8;

/// Returns the plan of a vector search. If the agent has at most `exact_rows_max` passages, the
/// search compares the question with all of them.
pub fn recall_plan(passages: u64, exact_rows_max: u64, limit: u64) -> NearPlan {
    if passages <= exact_rows_max {
        return NearPlan::Exact;
    }
    NearPlan::Vector { n_probe: RECALL_N_PROBE, fetch: limit * RECALL_NEAR_FETCH }
}

/// The result of a vector search of recall storage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecallNear {
    /// The passages near the question, nearest first.
    pub hits: Vec<NearPassage>,
    /// The entries of the nearest passages and the neighbours of these entries, except entries that
    /// the caller already has.
    pub rows: Vec<RecallEntry>,
    /// Name of the search's plan; `None` if vectors were not searched.
    pub plan: Option<&'static str>,
    /// Whether the newest entry already has its vectors, which are computed some time after the
    /// entry is appended.
    pub complete: bool,
    /// Reason why the search returns no passages: `no_model`, or `embedder` while the embedder
    /// fails.
    pub missing: Option<&'static str>,
}

impl RecallNear {
    /// Returns a result without passages; `why` is the reason.
    pub fn nothing(why: &'static str) -> Self {
        Self { missing: Some(why), ..Self::default() }
    }
}
