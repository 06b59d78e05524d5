//! Renders the result of a benchmark run as text and JSON: tables, figures compared with their
//! goals, and the scores of each question.

use serde_json::{Value, json};

use super::bootstrap::interval;
use super::goals::{self, Reached};
use super::measures::{NAMES, Scores, mean, measure_index};
use super::recall::QuestionScores;
use vctx_cli::output;

/// A table of the report, with notes.
#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) notes: Vec<String>,
    /// Bars of the table's chart, each with a name and a percentage from 0 to 100.
    pub(super) bars: Vec<(String, f64)>,
}

/// The result of a benchmark run.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) sections: Vec<Section>,
    pub(super) reached: Vec<Reached>,
    /// Scores of each question, for the comparison of two runs.
    pub(super) questions: Vec<Value>,
    /// Values of each question for the rows about contexts, for the comparison of two runs.
    pub(super) shares: Vec<Value>,
    /// Skipped benchmarks, each with the reason for skipping.
    pub(super) skipped: Vec<String>,
    /// Whether the server has an embedding model; `None` if unknown.
    pub(super) has_model: Option<bool>,
}

impl Report {
    /// Appends the contents of another report.
    pub(super) fn extend(&mut self, other: Report) {
        self.sections.extend(other.sections);
        self.reached.extend(other.reached);
        self.questions.extend(other.questions);
        self.shares.extend(other.shares);
        self.skipped.extend(other.skipped);
    }

    /// Renders the report as text for people.
    pub(super) fn text(&self) -> String {
        let mut parts: Vec<String> = self.sections.iter().map(Section::text).collect();
        let goals = goals::table(&self.reached, self.has_model);
        if !goals.is_empty() {
            parts.push(format!("Goals\n{goals}"));
        }
        parts.extend(self.skipped.iter().map(|skipped| format!("Skipped: {skipped}")));
        parts.join("\n\n")
    }

    /// Renders the report as one JSON object.
    pub(super) fn told(&self, about: &Value) -> Value {
        let sections: Vec<Value> = self.sections.iter().map(Section::told).collect();
        json!({"run": about, "sections": sections, "goals": goals::goals_value(&self.reached, self.has_model),
            "reached": self.reached.iter().map(|(id, value)| json!({"id": id, "value": value})).collect::<Vec<_>>(),
            "skipped": self.skipped, "measures": NAMES, "questions": self.questions, "shares": self.shares})
    }
}

impl Section {
    fn text(&self) -> String {
        let heads: Vec<&str> = self.heads.iter().map(String::as_str).collect();
        let right: Vec<usize> = (1..heads.len()).collect();
        let mut text = format!("{}\n{}", self.title, output::table(&heads, &right, &self.rows));
        for note in &self.notes {
            text.push_str(&format!("\n  {note}"));
        }
        text
    }

    fn told(&self) -> Value {
        let row = |row: &Vec<String>| {
            let cells = self.heads.iter().zip(row).map(|(head, cell)| (head.clone(), json!(cell)));
            Value::Object(cells.collect())
        };
        json!({"title": self.title, "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "notes": self.notes})
    }
}

/// Formats a share as percent with one decimal.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Formats a row of measures: shares in percent, token counts unchanged.
pub(super) fn measures_row(name: &str, count: usize, scores: &Scores) -> Vec<String> {
    let mut row = vec![name.to_owned(), count.to_string()];
    row.extend(NAMES.iter().zip(scores).map(|(name, score)| match *name {
        "tokens@10" => format!("{score:.0}"),
        _ => percent(*score),
    }));
    row
}

/// Returns the column heads for the rows that [`measures_row`] formats.
pub(super) fn measures_heads(first: &str) -> Vec<String> {
    [first, "n"].iter().chain(&NAMES).map(|name| (*name).to_owned()).collect()
}

/// Returns the mean of each measure over the given questions.
pub(super) fn mean_of(asked: &[&QuestionScores]) -> Scores {
    mean(asked.iter().map(|one| &one.scores))
}

/// Formats a sentence that gives, for each named measure, the 95 % confidence interval of its mean.
pub(super) fn doubt(asked: &[&QuestionScores], names: &[&str]) -> String {
    let told = names.iter().filter_map(|name| {
        let values: Vec<f64> = asked.iter().map(|one| one.scores[measure_index(name)]).collect();
        let (low, high) = interval(&values)?;
        Some(format!("{name} {} to {}", percent(low), percent(high)))
    });
    format!("95 % intervals over questions: {}", told.collect::<Vec<_>>().join(", "))
}

/// Returns the scores of each question as JSON, without the question's text.
pub(super) fn questions(benchmark: &str, asked: &[QuestionScores]) -> Vec<Value> {
    let one = |(at, one): (usize, &QuestionScores)| {
        json!({"benchmark": benchmark, "question": at, "talk": one.talk, "group": one.group, "scores": one.scores,
            "newer_first": one.newer_first, "refused": one.refused})
    };
    asked.iter().enumerate().map(one).collect()
}
