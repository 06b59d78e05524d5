//! The figures of the suites, the table of them, and their differences from other search methods.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::arms::Arm;
use crate::eval::bootstrap::interval;
use crate::eval::report::{Report, Section, percent};

/// The figures of one suite: for each measure, and for each search method beside the built
/// contexts, a value of each question.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    suite: &'static str,
    what: &'static str,
    values: BTreeMap<String, BTreeMap<Option<Arm>, Vec<f64>>>,
    /// Sentences for the report.
    pub(super) notes: Vec<String>,
}

impl Figures {
    pub(super) fn new(suite: &'static str, what: &'static str) -> Self {
        Self { suite, what, values: BTreeMap::new(), notes: Vec::new() }
    }

    /// Notes what a built context reached for a question.
    pub(super) fn note(&mut self, measure: &str, value: f64) {
        self.note_of(None, measure, value);
    }

    /// Notes what a search method, or with `None` a built context, reached for a question.
    pub(super) fn note_of(&mut self, arm: Option<Arm>, measure: &str, value: f64) {
        let measures = self.values.entry(measure.to_owned()).or_default();
        measures.entry(arm).or_default().push(value);
    }

    /// Returns the name of the suite.
    pub(super) fn suite(&self) -> &'static str {
        self.suite
    }

    /// Returns the values of a measure, in the order of the questions.
    pub(super) fn values(&self, arm: Option<Arm>, measure: &str) -> Option<&[f64]> {
        self.values.get(measure)?.get(&arm).map(Vec::as_slice)
    }
}

/// Returns 1 for `true`, 0 for `false`.
pub(super) fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

/// Returns the mean of values; 0 if there are none.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the differences of two lists for the same questions; `None` if their lengths differ.
pub(in crate::eval) fn differences(one: &[f64], other: &[f64]) -> Option<Vec<f64>> {
    let is_paired = one.len() == other.len() && !one.is_empty();
    is_paired.then(|| one.iter().zip(other).map(|(a, b)| a - b).collect())
}

/// Formats a mean difference in points with its 95 % interval.
fn difference(values: &[f64]) -> String {
    let (low, high) = interval(values).unwrap_or_default();
    format!("{:+.1} ({} to {})", mean(values) * 100.0, percent(low), percent(high))
}

/// Makes the table of all figures.
pub(super) fn report_of(all: &[Figures]) -> Report {
    let mut report = Report::default();
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for figures in all {
        for (measure, arms) in &figures.values {
            for (arm, values) in arms {
                let name = match arm {
                    Some(arm) => format!("{} {measure}, {}", figures.suite, arm.name()),
                    None => format!("{} {measure}", figures.suite),
                };
                let built = arms.get(&None).filter(|_| arm.is_some());
                let ahead = built.and_then(|built| differences(built, values));
                let (low, high) = interval(values).unwrap_or_default();
                rows.push(vec![
                    name.clone(),
                    values.len().to_string(),
                    percent(mean(values)),
                    format!("{} to {}", percent(low), percent(high)),
                    ahead.map_or_else(String::new, |ahead| difference(&ahead)),
                    figures.what.to_owned(),
                ]);
                report.shares.push(json!({"id": name, "values": values}));
                bars.push((name, mean(values) * 100.0));
            }
        }
    }
    if rows.is_empty() {
        return report;
    }
    let heads = ["suite", "questions", "share", "from .. to", "built - method", "what"];
    report.sections.push(Section {
        title: "context: evidence in contexts of a given size".to_owned(),
        heads: heads.map(str::to_owned).into(),
        rows,
        notes: all.iter().flat_map(|figures| figures.notes.clone()).collect(),
        bars: bars.clone(),
    });
    report.reached = bars;
    report
}

/// Returns the name of a kept list of values, and the values.
pub(in crate::eval) fn share_of(told: &Value) -> Option<(&str, Vec<f64>)> {
    let values = told["values"].as_array()?.iter().map(Value::as_f64).collect::<Option<_>>()?;
    Some((told["id"].as_str()?, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_stands_below_the_contexts_with_the_paired_difference() {
        let mut figures = Figures::new("code", "what");
        for at in 0..20 {
            figures.note("in 05", 1.0);
            figures.note_of(Some(Arm::Bm25), "in 05", flag(at >= 10));
        }
        figures.note_of(Some(Arm::Plain), "in 05", 1.0);
        let report = report_of(&[figures]);
        let rows = &report.sections[0].rows;
        let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(names, ["code in 05", "code in 05, plain", "code in 05, bm25"]);
        assert_eq!(rows[0][4], "");
        assert_eq!(rows[1][4], "", "another number of questions is not paired");
        assert!(rows[2][4].starts_with("+50.0 ("), "{:?}", rows[2]);
        assert_eq!(report.reached[2], ("code in 05, bm25".to_owned(), 50.0));
        let (id, values) = share_of(&report.shares[2]).unwrap();
        assert_eq!((id, values.len()), ("code in 05, bm25", 20));
    }

    #[test]
    fn differences_need_the_same_number_of_questions() {
        assert_eq!(differences(&[1.0, 0.5], &[0.0, 0.5]), Some(vec![1.0, 0.0]));
        assert_eq!(differences(&[1.0], &[0.0, 0.5]), None);
        assert_eq!(differences(&[], &[]), None);
    }
}
