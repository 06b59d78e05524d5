//! A run that was saved earlier, and the differences of a new run from it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::bootstrap::interval;
use super::compare;
use super::contexts::{differences, share_of};
use super::measures::NAMES;
use super::report::{Report, Section, percent};

/// The figures of a saved run.
#[derive(Debug, Default)]
pub(super) struct SavedRun {
    questions: Vec<Value>,
    shares: BTreeMap<String, ShareRow>,
}

/// A row about contexts of a saved run.
#[derive(Debug, Default, PartialEq)]
struct ShareRow {
    mean: f64,
    /// Values of the questions; empty if the file has only the mean.
    values: Vec<f64>,
}

impl SavedRun {
    /// Reads a saved run; `None` if it has other measures.
    pub(super) fn of(run: &Value) -> Option<SavedRun> {
        let measures = run.get("measures")?.as_array()?;
        if !measures.iter().filter_map(Value::as_str).eq(NAMES) {
            return None;
        }
        let questions = run.get("questions")?.as_array()?.clone();
        Some(SavedRun { questions, shares: shares(run) })
    }

    /// Returns the tables of the differences; none if the runs share no row.
    pub(super) fn sections(&self, title: &str, now: &Report) -> Vec<Section> {
        let questions = compare::section(title, &self.questions, &now.questions);
        questions.into_iter().chain(self.contexts(title, &now.shares)).collect()
    }

    /// Compares the rows about contexts, and names those that one of the runs has not.
    fn contexts(&self, title: &str, now: &[Value]) -> Option<Section> {
        let now: Vec<(&str, Vec<f64>)> = now.iter().filter_map(share_of).collect();
        let mut rows = Vec::new();
        for (id, values) in &now {
            let Some(before) = self.shares.get(*id) else { continue };
            rows.push(row(id, before, values));
        }
        if rows.is_empty() {
            return None;
        }
        let here: BTreeSet<&str> = now.iter().map(|(id, _)| *id).collect();
        let there: BTreeSet<&str> = self.shares.keys().map(String::as_str).collect();
        let mut notes = vec![
            "points; paired bootstrap over questions, 95 % intervals, if both runs have the same number of questions"
                .to_owned(),
        ];
        for (what, only) in [("saved", &there - &here), ("new", &here - &there)] {
            if !only.is_empty() {
                let names: Vec<&str> = only.into_iter().collect();
                notes.push(format!("only in the {what} run: {}", names.join("; ")));
            }
        }
        let heads = ["row", "questions", "before", "now", "difference", "from", "to", "certain"];
        Some(Section {
            title: format!("{title}: contexts"),
            heads: heads.map(str::to_owned).into(),
            rows,
            notes,
            bars: Vec::new(),
        })
    }
}

fn row(id: &str, before: &ShareRow, values: &[f64]) -> Vec<String> {
    let now = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let bounds = differences(values, &before.values).and_then(|all| interval(&all));
    let certain = match bounds {
        Some((low, _)) if low > 0.0 => "higher",
        Some((_, high)) if high < 0.0 => "lower",
        Some(_) | None => "",
    };
    let bound =
        |of: fn((f64, f64)) -> f64| bounds.map_or_else(String::new, |bounds| percent(of(bounds)));
    vec![
        id.to_owned(),
        values.len().to_string(),
        percent(before.mean),
        percent(now),
        format!("{:+.1}", (now - before.mean) * 100.0),
        bound(|(low, _)| low),
        bound(|(_, high)| high),
        certain.to_owned(),
    ]
}

/// Reads the rows about contexts: with the values of the questions or, from a file without them,
/// only with the means of the table.
fn shares(run: &Value) -> BTreeMap<String, ShareRow> {
    let mut rows = BTreeMap::new();
    let sections = run["sections"].as_array().into_iter().flatten();
    let tables = sections
        .filter(|section| section["title"].as_str().is_some_and(|one| one.starts_with("context:")));
    for row in tables.flat_map(|table| table["rows"].as_array().into_iter().flatten()) {
        let share = row["share"].as_str().and_then(|share| share.parse::<f64>().ok());
        if let (Some(id), Some(share)) = (row["suite"].as_str(), share) {
            let known = ShareRow { mean: share / 100.0, values: Vec::new() };
            rows.insert(id.to_owned(), known);
        }
    }
    for (id, values) in run["shares"].as_array().into_iter().flatten().filter_map(share_of) {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        rows.insert(id.to_owned(), ShareRow { mean, values });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(shares: &[Value], table: &[Value]) -> Value {
        json!({"measures": NAMES, "questions": [], "shares": shares,
            "sections": [{"title": "context: evidence", "rows": table}]})
    }

    fn share(id: &str, values: &[f64]) -> Value {
        json!({"id": id, "values": values})
    }

    #[test]
    fn rows_are_paired_or_compared_by_their_means_and_missing_ones_are_named() {
        let table = [json!({"suite": "old", "share": "25.0"}), json!({"suite": "a", "share": "9"})];
        let before = [share("a", &[0.0; 20]), share("b", &[1.0; 20]), share("gone", &[1.0])];
        let saved = SavedRun::of(&run(&before, &table)).unwrap();
        let shares = vec![
            share("a", &[1.0; 20]),
            share("b", &[0.5; 10]),
            share("old", &[0.5; 20]),
            share("fresh", &[1.0]),
        ];
        let now = Report { shares, ..Report::default() };
        let sections = saved.sections("Against", &now);
        assert_eq!(sections.len(), 1, "no other questions");
        let rows = &sections[0].rows;
        assert_eq!(rows[0], ["a", "20", "0.0", "100.0", "+100.0", "100.0", "100.0", "higher"]);
        assert_eq!(rows[1], ["b", "10", "100.0", "50.0", "-50.0", "", "", ""]);
        assert_eq!(rows[2], ["old", "20", "25.0", "50.0", "+25.0", "", "", ""]);
        assert_eq!(rows.len(), 3);
        assert_eq!(
            sections[0].notes[1..],
            ["only in the saved run: gone", "only in the new run: fresh"]
        );
    }

    #[test]
    fn a_run_with_other_measures_is_not_compared() {
        assert!(SavedRun::of(&json!({"measures": ["R@1"], "questions": []})).is_none());
        assert!(SavedRun::of(&json!({"measures": NAMES, "questions": []})).is_some());
        let saved = SavedRun::of(&run(&[share("a", &[1.0])], &[])).unwrap();
        let now = Report { shares: vec![share("b", &[1.0])], ..Report::default() };
        assert!(saved.sections("Against", &now).is_empty());
    }
}
