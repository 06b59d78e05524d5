//! What a run found out: sections of a table, figures held against goals, and each question's measures, as text and as JSON.

use serde_json::{Value, json};

use super::bootstrap::interval;
use super::goals::{self, Reached};
use super::measures::{NAMES, Scores, mean, place};
use super::recall::Asked;
use vctx_cli::output;

/// A table with what has to be said about it.
#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) notes: Vec<String>,
    /// What a chart shows of it: names and shares from 0 to 100.
    pub(super) bars: Vec<(String, f64)>,
}

/// All of a run.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) sections: Vec<Section>,
    pub(super) reached: Vec<Reached>,
    /// Each question's measures, for comparisons of two runs.
    pub(super) questions: Vec<Value>,
    /// Benchmarks that could not be run, with the reason.
    pub(super) skipped: Vec<String>,
    /// Whether the server embeds with a model, where that is known.
    pub(super) has_model: Option<bool>,
}

impl Report {
    /// Takes another report in.
    pub(super) fn extend(&mut self, other: Report) {
        self.sections.extend(other.sections);
        self.reached.extend(other.reached);
        self.questions.extend(other.questions);
        self.skipped.extend(other.skipped);
    }

    /// As text for people.
    pub(super) fn text(&self) -> String {
        let mut parts: Vec<String> = self.sections.iter().map(Section::text).collect();
        let goals = goals::table(&self.reached, self.has_model);
        if !goals.is_empty() {
            parts.push(format!("Goals\n{goals}"));
        }
        parts.extend(self.skipped.iter().map(|skipped| format!("Skipped: {skipped}")));
        parts.join("\n\n")
    }

    /// As one JSON object.
    pub(super) fn told(&self, about: &Value) -> Value {
        let sections: Vec<Value> = self.sections.iter().map(Section::told).collect();
        json!({"run": about, "sections": sections, "goals": goals::told(&self.reached, self.has_model),
            "reached": self.reached.iter().map(|(id, value)| json!({"id": id, "value": value})).collect::<Vec<_>>(),
            "skipped": self.skipped, "measures": NAMES, "questions": self.questions})
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

/// A share as percent with one decimal.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// A row of measures: shares in percent, tokens as they are.
pub(super) fn measures_row(name: &str, count: usize, scores: &Scores) -> Vec<String> {
    let mut row = vec![name.to_owned(), count.to_string()];
    row.extend(NAMES.iter().zip(scores).map(|(name, score)| match *name {
        "tokens@10" => format!("{score:.0}"),
        _ => percent(*score),
    }));
    row
}

/// Heads of [`measures_row`].
pub(super) fn measures_heads(first: &str) -> Vec<String> {
    [first, "n"].iter().chain(&NAMES).map(|name| (*name).to_owned()).collect()
}

/// The mean over some questions.
pub(super) fn mean_of(asked: &[&Asked]) -> Scores {
    mean(asked.iter().map(|one| &one.scores))
}

/// A sentence on how sure a mean is.
pub(super) fn doubt(asked: &[&Asked], names: &[&str]) -> String {
    let told = names.iter().filter_map(|name| {
        let values: Vec<f64> = asked.iter().map(|one| one.scores[place(name)]).collect();
        let (low, high) = interval(&values)?;
        Some(format!("{name} {} to {}", percent(low), percent(high)))
    });
    format!("95 % intervals over questions: {}", told.collect::<Vec<_>>().join(", "))
}

/// Each question's measures; texts stay out.
pub(super) fn questions(benchmark: &str, asked: &[Asked]) -> Vec<Value> {
    let one = |(at, one): (usize, &Asked)| {
        json!({"benchmark": benchmark, "question": at, "talk": one.talk, "group": one.group, "scores": one.scores,
            "newer_first": one.newer_first, "refused": one.refused})
    };
    asked.iter().enumerate().map(one).collect()
}
