//! The plans of a search for the nearest chunks. A search usually begins with the vector index. If
//! the search finds too few chunks, it reads more of the index, and in the end compares all
//! vectors.

use serde::Deserialize;

use crate::limits::{N_PROBE_MAX, NEAR_FETCH, NEAR_FETCH_MAX};
use crate::memory::archive::{FoundPassage, Metric};

/// The plan of a search for the nearest chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearPlan {
    /// Compares the query's vector with every vector of the agent.
    Exact,
    /// Reads the vector index, and then drops rows of other agents and rows that do not pass the
    /// filters.
    Vector {
        /// Number of lists that the vector index reads.
        n_probe: u32,
        /// Rows before filters.
        fetch: u64,
    },
    /// Reads the vector index, which returns only rows of the agent that pass the filters.
    First {
        /// Number of lists that the vector index reads.
        n_probe: u32,
        /// Number of rows that the vector index returns.
        fetch: u64,
    },
}

impl NearPlan {
    /// Returns the plan's name in answers and metrics.
    pub fn text(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Vector { .. } => "vector",
            Self::First { .. } => "vector_filters_first",
        }
    }
}

/// A search for the chunks nearest to a vector.
#[derive(Clone, Debug, PartialEq)]
pub struct NearQuery {
    /// The vector of the query.
    pub query: Vec<f64>,
    /// Name of the attribute that contains a chunk's vector.
    pub attribute: String,
    /// Metric by which vectors are compared.
    pub metric: Metric,
    /// Maximum number of results.
    pub k: u64,
    /// Conditions that the chunks must meet.
    pub filter: Conditions,
    /// The plan of this search.
    pub plan: NearPlan,
    /// Maximum number of the agent's rows to read from the vector index.
    pub rows_max: u64,
    /// Row counts of this search's earlier plans.
    pub before: LookCounts,
}

/// Conditions that chunks must meet; a field with `None` sets no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Required value of the chunk's attribute `provenance.source`.
    pub source: Option<String>,
    /// Required id of the chunk's document.
    pub doc_id: Option<String>,
    /// Required beginning of the id of the chunk's document.
    pub doc_id_prefix: Option<String>,
    /// Labels that the chunk's document has, as they are stored.
    pub labels: Vec<String>,
    /// Chunks that are older than this time are left out; ISO 8601.
    pub fresh_after: Option<String>,
}

/// Row counts of a search, summed over all search plans that it tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookCounts {
    /// Number of rows that were read, before filters.
    pub fetched: u64,
    /// Number of other agents' rows that the vector index returned and the search dropped. Metrics
    /// show this number, but answers never do.
    pub dropped: u64,
    /// Number of the agent's rows that the search's filters dropped.
    pub own_dropped: u64,
    /// Number of plans that found too few rows.
    pub retries: u64,
}

/// The result of a search for the nearest chunks.
#[derive(Clone, Debug)]
pub struct NearResult {
    /// The plan that gave this result.
    pub plan: NearPlan,
    /// The search's limit on the number of results.
    pub k: u64,
    /// The found chunks, nearest first; `None` if the vector index was not usable.
    pub rows: Option<Vec<FoundPassage>>,
    /// Row counts of this plan and of earlier plans.
    pub looked: LookCounts,
}

/// The database's answer to a search through the vector index.
#[derive(Debug, Deserialize)]
pub struct NearRows {
    /// Rows before filters.
    pub fetched: u64,
    /// Number of the agent's rows that were read.
    pub own: u64,
    /// The rows that passed the filters.
    pub rows: Vec<FoundPassage>,
}

/// Returns the first plan of a search. The search compares all vectors if there are few chunks or
/// if no vector index is ready, and otherwise reads the vector index.
pub fn first_plan(
    chunks: u64,
    exact_rows_max: u64,
    index_ready: bool,
    k: u64,
    n_probe: u32,
) -> NearPlan {
    if chunks <= exact_rows_max || !index_ready {
        return NearPlan::Exact;
    }
    NearPlan::Vector { n_probe: n_probe.clamp(1, N_PROBE_MAX), fetch: k * NEAR_FETCH }
}

/// Returns the plan to try after a plan that found too few chunks. The next plan is a wider search
/// of the vector index. If no wider search is possible, the next plan is a comparison of all
/// vectors. Returns `None` if no plan is left.
pub fn wider_plan(found: &NearResult, k: u64) -> Option<NearPlan> {
    let enough = found.rows.as_ref().is_some_and(|rows| rows.len() as u64 >= k);
    let (n_probe, fetch) = match found.plan {
        NearPlan::Exact => return None,
        NearPlan::Vector { .. } | NearPlan::First { .. } if enough => return None,
        NearPlan::Vector { .. } if found.rows.is_none() => return Some(NearPlan::Exact),
        // Older versions of ArangoDB cannot apply filters inside the vector index.
        NearPlan::First { n_probe, .. } if found.rows.is_none() => {
            return Some(NearPlan::Vector { n_probe, fetch: k * NEAR_FETCH });
        }
        NearPlan::First { n_probe, fetch } if n_probe < N_PROBE_MAX => {
            return Some(NearPlan::First { n_probe: N_PROBE_MAX, fetch });
        }
        NearPlan::First { .. } => return Some(NearPlan::Exact),
        NearPlan::Vector { n_probe, fetch } => (n_probe, fetch),
    };
    if n_probe < N_PROBE_MAX || fetch < NEAR_FETCH_MAX {
        return Some(NearPlan::Vector { n_probe: N_PROBE_MAX, fetch: NEAR_FETCH_MAX });
    }
    Some(NearPlan::Exact)
}
