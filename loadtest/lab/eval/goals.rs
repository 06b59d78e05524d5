//! Goals of the benchmarks: for each figure a required value, a desired value, and a baseline.

use serde_json::{Value, json};

use vctx_cli::output;

/// One goal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goal {
    /// Name of the figure in its benchmark.
    pub(super) id: &'static str,
    row: &'static str,
    measure: &'static str,
    /// Baseline: the figure that a usual method reaches. The usual method is reciprocal rank fusion
    /// of BM25 and vectors, unless the goal names another method.
    usual: Option<f64>,
    must: f64,
    goal: f64,
    model: Model,
}

/// Kind of server that a goal applies to: with an embedding model, without one, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Model {
    With,
    Without,
    Either,
}

const fn goal(
    id: &'static str,
    row: &'static str,
    measure: &'static str,
    figures: (f64, f64, f64),
    model: Model,
) -> Goal {
    let (usual, must, goal) = figures;
    Goal { id, row, measure, usual: Some(usual), must, goal, model }
}

const fn bound(
    id: &'static str,
    row: &'static str,
    measure: &'static str,
    figures: (f64, f64),
    model: Model,
) -> Goal {
    Goal { id, row, measure, usual: None, must: figures.0, goal: figures.1, model }
}

/// All goals of the benchmarks; shares are in percent.
const GOALS: [Goal; 33] = [
    goal("locomo R@10", "1", "LoCoMo R@10, with a model", (55.2, 74.0, 82.0), Model::With),
    goal("locomo T512", "2", "LoCoMo T512, with a model", (63.0, 76.0, 83.0), Model::With),
    goal("locomo T1024", "2", "LoCoMo T1024, with a model", (73.3, 85.0, 90.0), Model::With),
    goal("locomo MRR", "3", "LoCoMo MRR, with a model", (37.4, 53.0, 66.0), Model::With),
    goal(
        "locomo 1 R@10",
        "4",
        "LoCoMo multi-hop R@10, with a model",
        (34.0, 45.0, 56.0),
        Model::With,
    ),
    goal(
        "locomo 1 T1024",
        "4",
        "LoCoMo multi-hop T1024, with a model",
        (49.4, 61.0, 71.0),
        Model::With,
    ),
    goal("locomo R@10", "5", "LoCoMo R@10, no model", (54.5, 68.0, 76.0), Model::Without),
    goal("locomo T1024", "5", "LoCoMo T1024, no model", (65.4, 78.0, 84.0), Model::Without),
    goal("realtalk R@10", "6", "REALTALK R@10", (51.9, 58.0, 66.0), Model::Either),
    goal("realtalk T1024", "6", "REALTALK T1024", (66.7, 74.0, 79.0), Model::Either),
    goal("beam T1024", "7a", "BEAM T1024, with a model", (57.6, 57.0, 66.0), Model::With),
    goal("beam T2048", "7a", "BEAM T2048, with a model", (65.5, 65.0, 73.0), Model::With),
    goal("beam T1024", "7b", "BEAM T1024, no model", (35.8, 50.0, 55.0), Model::Without),
    goal("beam T2048", "7b", "BEAM T2048, no model", (42.2, 58.0, 63.0), Model::Without),
    goal("beam newer", "7c", "BEAM updates: newer first", (42.0, 60.0, 75.0), Model::Either),
    goal("nq gold@1", "8", "NQ gold@1, no model", (91.0, 91.0, 93.5), Model::Without),
    goal("nq gold@1", "8", "NQ gold@1, with a model", (96.2, 96.0, 98.5), Model::With),
    goal(
        "survival 4096 ans first",
        "9",
        "ans first, W 4096 (usual: random)",
        (45.0, 65.0, 83.0),
        Model::Either,
    ),
    goal(
        "survival 4096 ans final",
        "9",
        "ans final, W 4096 (usual: random)",
        (24.0, 40.0, 54.0),
        Model::Either,
    ),
    goal(
        "survival 4096 link first",
        "10",
        "link first, W 4096 (usual: random)",
        (31.0, 42.0, 52.0),
        Model::Either,
    ),
    goal(
        "survival 4096 link final",
        "10",
        "link final, W 4096 (usual: random)",
        (15.0, 17.0, 22.0),
        Model::Either,
    ),
    goal(
        "survival 8192 ans first",
        "11",
        "ans first, W 8192 (usual: random)",
        (54.0, 72.0, 92.0),
        Model::Either,
    ),
    goal(
        "survival 8192 ans final",
        "11",
        "ans final, W 8192 (usual: random)",
        (38.0, 55.0, 80.0),
        Model::Either,
    ),
    bound("kv accuracy", "12", "nested keys: right", (100.0, 100.0), Model::Either),
    bound("kv calls", "12", "nested keys: calls = lookups + 1", (0.0, 100.0), Model::Either),
    bound(
        "kv window",
        "12",
        "nested keys: window kept, beats taken",
        (100.0, 100.0),
        Model::Either,
    ),
    bound(
        "vectors model within 12 %",
        "13",
        "index, a model's vectors, at most 12 % scanned",
        (95.0, 98.0),
        Model::Either,
    ),
    bound(
        "vectors clustered within 12 %",
        "13",
        "index, clustered, at most 12 % scanned",
        (95.0, 98.0),
        Model::Either,
    ),
    bound(
        "vectors lexical within 12 %",
        "13",
        "index, lexical, at most 12 % scanned (reported)",
        (0.0, 95.0),
        Model::Either,
    ),
    bound(
        "vectors full",
        "13",
        "lists that are full under a filter",
        (100.0, 100.0),
        Model::Either,
    ),
    bound("nq paging", "14", "pages of document questions", (100.0, 100.0), Model::Either),
    bound("pages", "14", "losslessness, accounting, pages", (100.0, 100.0), Model::Either),
    bound("pages own text at rank 1", "14", "own text at rank 1", (100.0, 100.0), Model::Either),
];

/// A figure of a benchmark: a goal's id, and a value in percent.
pub(super) type Reached = (String, f64);

/// Returns the goals for which a figure was measured. Includes goals for servers with and without
/// an embedding model if the kind of the server is unknown.
fn goals_with_figures(reached: &[Reached], has_model: Option<bool>) -> Vec<(&'static Goal, f64)> {
    let counts = |goal: &Goal| match (goal.model, has_model) {
        (Model::With, Some(false)) | (Model::Without, Some(true)) => false,
        (Model::With | Model::Without | Model::Either, _) => true,
    };
    let value = |goal: &Goal| reached.iter().find(|(id, _)| id == goal.id).map(|(_, value)| *value);
    let rows = GOALS.iter().filter(|goal| counts(goal));
    rows.filter_map(|goal| Some((goal, value(goal)?))).collect()
}

fn verdict(goal: &Goal, value: f64) -> &'static str {
    match value {
        _ if value >= goal.goal => "goal",
        _ if value >= goal.must => "must",
        _ => "missed",
    }
}

/// Renders the goals as a table; the table is empty without goals.
pub(super) fn table(reached: &[Reached], has_model: Option<bool>) -> String {
    let rows: Vec<Vec<String>> = goals_with_figures(reached, has_model)
        .into_iter()
        .map(|(goal, value)| {
            vec![
                goal.row.into(),
                goal.measure.into(),
                goal.usual.map_or_else(String::new, |usual| format!("{usual:.1}")),
                format!("{:.1}", goal.must),
                format!("{:.1}", goal.goal),
                format!("{value:.1}"),
                verdict(goal, value).into(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let heads = ["row", "measure", "usual", "must", "goal", "here", "met"];
    output::table(&heads, &[2, 3, 4, 5], &rows)
}

/// Renders the goals as JSON.
pub(super) fn goals_value(reached: &[Reached], has_model: Option<bool>) -> Value {
    let rows = goals_with_figures(reached, has_model).into_iter().map(|(goal, value)| {
        json!({"row": goal.row, "measure": goal.measure, "usual": goal.usual, "must": goal.must, "goal": goal.goal,
            "value": value, "met": verdict(goal, value)})
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_held_against_the_rows_of_its_kind() {
        let reached = [("locomo R@10".to_owned(), 75.0)];
        let rows = |model| goals_value(&reached, model).as_array().unwrap().clone();
        assert_eq!(rows(None).len(), 2);
        let with = rows(Some(true));
        assert_eq!(
            (with.len(), &with[0]["row"], &with[0]["met"]),
            (1, &json!("1"), &json!("must"))
        );
        let without = rows(Some(false));
        assert_eq!((&without[0]["row"], &without[0]["met"]), (&json!("5"), &json!("must")));
        assert_eq!(goals_value(&[("locomo R@10".into(), 20.0)], Some(true))[0]["met"], "missed");
        assert!(table(&[], None).is_empty());
        assert!(table(&reached, Some(true)).contains("75.0  must"));
    }
}
