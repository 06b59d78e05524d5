//! Tests the plans of a vector search, and when a search replaces its plan with a wider one.

use vctx_core::limits::{N_PROBE_MAX, NEAR_FETCH, NEAR_FETCH_MAX};
use vctx_core::memory::archive::FoundPassage;
use vctx_core::search::{LookCounts, NearPlan, NearResult, first_plan, wider_plan};

fn found(plan: NearPlan, rows: Option<usize>) -> NearResult {
    let row: FoundPassage = serde_json::from_value(serde_json::json!({"key": "k", "doc_id": "d", "chunk_id": "c",
        "text": "t", "similarity": 1.0, "provenance": {}, "chunk_links": {"previous": null, "next": null},
        "offset": null, "freshness_ts": "", "revision": "r"}))
    .unwrap();
    NearResult { plan, k: 10, rows: rows.map(|n| vec![row; n]), looked: LookCounts::default() }
}

#[test]
fn few_chunks_and_a_missing_index_are_compared_one_by_one() {
    assert_eq!(first_plan(20_000, 20_000, true, 10, 8), NearPlan::Exact);
    assert_eq!(first_plan(20_001, 20_000, false, 10, 8), NearPlan::Exact);
    let vector = NearPlan::Vector { n_probe: 8, fetch: 10 * NEAR_FETCH };
    assert_eq!(first_plan(20_001, 20_000, true, 10, 8), vector);
}

#[test]
fn a_narrow_look_widens_once_and_ends_exact() {
    let narrow = NearPlan::Vector { n_probe: 8, fetch: 80 };
    let wide = NearPlan::Vector { n_probe: N_PROBE_MAX, fetch: NEAR_FETCH_MAX };
    let first = NearPlan::First { n_probe: 8, fetch: 10 };
    let wide_first = NearPlan::First { n_probe: N_PROBE_MAX, fetch: 10 };
    for (plan, rows, next) in [
        (narrow, Some(10), None),
        (narrow, Some(9), Some(wide)),
        (wide, Some(9), Some(NearPlan::Exact)),
        (narrow, None, Some(NearPlan::Exact)),
        (NearPlan::Exact, Some(3), None),
        (first, Some(10), None),
        (first, Some(9), Some(wide_first)),
        (first, None, Some(narrow)),
        (wide_first, Some(9), Some(NearPlan::Exact)),
    ] {
        assert_eq!(wider_plan(&found(plan, rows), 10), next, "{plan:?} {rows:?}");
    }
}
