//! How the nearest chunks are looked for: one by one, or through the vector index with more than is needed, then wider, then one by one.

use serde::Deserialize;

use crate::limits::{N_PROBE_MAX, NEAR_FETCH, NEAR_FETCH_MAX};
use crate::memory::archive::{FoundPassage, Metric};

/// A way to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Every chunk of the agent is compared.
    Exact,
    /// The vector index is asked, and what is not the agent's is dropped.
    Vector {
        /// Cells it looks into.
        n_probe: u32,
        /// Rows it gives before filters.
        fetch: u64,
    },
    /// The vector index is asked for what is the agent's and passes the filters.
    First {
        /// Cells it looks into.
        n_probe: u32,
        /// Rows it gives.
        fetch: u64,
    },
}

impl Plan {
    /// The word in answers and metrics.
    pub fn text(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Vector { .. } => "vector",
            Self::First { .. } => "vector_filters_first",
        }
    }
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Near {
    /// The vector.
    pub query: Vec<f64>,
    /// Under which name those that it is compared with stand in a chunk.
    pub attribute: String,
    /// How vectors are compared.
    pub metric: Metric,
    /// Most results.
    pub k: u64,
    /// What they must be, if anything.
    pub filter: Conditions,
    /// How to look.
    pub plan: Plan,
    /// Most rows of the agent that are read of those that the index names.
    pub rows_max: u64,
    /// Rows that earlier looks of this search fetched and dropped.
    pub before: Looked,
}

/// Conditions on what is found; none means any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// `provenance.source`.
    pub source: Option<String>,
    /// The document.
    pub doc_id: Option<String>,
    /// Not older than this, ISO 8601.
    pub fresh_after: Option<String>,
}

/// Rows that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Before filters.
    pub fetched: u64,
    /// Dropped behind the index, other agents' with them: a figure of the server's, never told to an agent.
    pub dropped: u64,
    /// The agent's own that its filters dropped.
    pub own_dropped: u64,
    /// Looks that were too narrow.
    pub retries: u64,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Nearest {
    /// How it was looked for.
    pub plan: Plan,
    /// Most results that were asked for.
    pub k: u64,
    /// The nearest, nearest first; none if the index could not be asked.
    pub rows: Option<Vec<FoundPassage>>,
    /// Rows of this look and those before it.
    pub looked: Looked,
}

/// What the database answers to a look through the index.
#[derive(Debug, Deserialize)]
pub struct NearRows {
    /// Rows before filters.
    pub fetched: u64,
    /// Those of them that are the agent's.
    pub own: u64,
    /// Those left.
    pub rows: Vec<FoundPassage>,
}

/// The first way: few chunks are compared one by one, and so are many while there is no index that is ready.
pub fn first_plan(
    chunks: u64,
    exact_rows_max: u64,
    index_ready: bool,
    k: u64,
    n_probe: u32,
) -> Plan {
    if chunks <= exact_rows_max || !index_ready {
        return Plan::Exact;
    }
    Plan::Vector { n_probe: n_probe.clamp(1, N_PROBE_MAX), fetch: k * NEAR_FETCH }
}

/// The next way when a look found too little, if there is one: wider, then one by one.
pub fn wider_plan(found: &Nearest, k: u64) -> Option<Plan> {
    let enough = found.rows.as_ref().is_some_and(|rows| rows.len() as u64 >= k);
    let (n_probe, fetch) = match found.plan {
        Plan::Exact => return None,
        Plan::Vector { .. } | Plan::First { .. } if enough => return None,
        Plan::Vector { .. } if found.rows.is_none() => return Some(Plan::Exact),
        // An older server knows no filters before the search.
        Plan::First { n_probe, .. } if found.rows.is_none() => {
            return Some(Plan::Vector { n_probe, fetch: k * NEAR_FETCH });
        }
        Plan::First { n_probe, fetch } if n_probe < N_PROBE_MAX => {
            return Some(Plan::First { n_probe: N_PROBE_MAX, fetch });
        }
        Plan::First { .. } => return Some(Plan::Exact),
        Plan::Vector { n_probe, fetch } => (n_probe, fetch),
    };
    if n_probe < N_PROBE_MAX || fetch < NEAR_FETCH_MAX {
        return Some(Plan::Vector { n_probe: N_PROBE_MAX, fetch: NEAR_FETCH_MAX });
    }
    Some(Plan::Exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(plan: Plan, rows: Option<usize>) -> Nearest {
        let row: FoundPassage = serde_json::from_value(serde_json::json!({"key": "k", "doc_id": "d", "chunk_id": "c",
            "text": "t", "similarity": 1.0, "provenance": {}, "chunk_links": {"previous": null, "next": null},
            "offset": null, "freshness_ts": "", "revision": "r"}))
        .unwrap();
        Nearest { plan, k: 10, rows: rows.map(|n| vec![row; n]), looked: Looked::default() }
    }

    #[test]
    fn few_chunks_and_a_missing_index_are_compared_one_by_one() {
        assert_eq!(first_plan(20_000, 20_000, true, 10, 8), Plan::Exact);
        assert_eq!(first_plan(20_001, 20_000, false, 10, 8), Plan::Exact);
        let vector = Plan::Vector { n_probe: 8, fetch: 10 * NEAR_FETCH };
        assert_eq!(first_plan(20_001, 20_000, true, 10, 8), vector);
    }

    #[test]
    fn a_narrow_look_widens_once_and_ends_exact() {
        let narrow = Plan::Vector { n_probe: 8, fetch: 80 };
        let wide = Plan::Vector { n_probe: N_PROBE_MAX, fetch: NEAR_FETCH_MAX };
        let first = Plan::First { n_probe: 8, fetch: 10 };
        let wide_first = Plan::First { n_probe: N_PROBE_MAX, fetch: 10 };
        for (plan, rows, next) in [
            (narrow, Some(10), None),
            (narrow, Some(9), Some(wide)),
            (wide, Some(9), Some(Plan::Exact)),
            (narrow, None, Some(Plan::Exact)),
            (Plan::Exact, Some(3), None),
            (first, Some(10), None),
            (first, Some(9), Some(wide_first)),
            (first, None, Some(narrow)),
            (wide_first, Some(9), Some(Plan::Exact)),
        ] {
            assert_eq!(wider_plan(&found(plan, rows), 10), next, "{plan:?} {rows:?}");
        }
    }
}
