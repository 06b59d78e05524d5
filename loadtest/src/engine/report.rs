//! The report of an engine run: one table, goals met or not, and where the figures come from.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::figures::{Goal, Row};
use crate::machine;

/// Where the figures come from.
pub(crate) struct Origin {
    pub(crate) commit: String,
    pub(crate) disk: String,
    pub(crate) load_before: String,
    pub(crate) scale: f64,
    /// Files that were given instead of what is made.
    pub(crate) given: Vec<String>,
    /// What was built and how long it took.
    pub(crate) notes: Vec<String>,
}

/// As Markdown.
pub(crate) fn markdown(origin: &Origin, rows: &[Row]) -> String {
    let mut text = String::from("# The engine, side by side\n\n");
    let mut line = |line: String| writeln!(text, "{line}").expect("a text takes all");
    line(format!(
        "- Machine: {}; {}; data on {}",
        machine::hardware(),
        machine::kernel(),
        origin.disk
    ));
    let assertions = if cfg!(debug_assertions) { "with" } else { "without" };
    line(format!(
        "- Commit: {}; build {assertions} debug assertions; scale {}",
        origin.commit, origin.scale
    ));
    line(format!("- Scheduling: {}", machine::scheduling()));
    line(format!(
        "- Load average: {} before, {} after",
        origin.load_before,
        machine::load_average()
    ));
    if machine::busy(&origin.load_before) {
        line("- **The machine was busy before this began**: wall times hold waits for a processor; processor times and ratios of one run travel better".into());
    }
    match origin.given[..] {
        [] => line("- Texts, questions and vectors are made by a seeded generator".into()),
        _ => line(format!("- From files: {}", origin.given.join(", "))),
    }
    line("- The engine is a process of its own, asked over its Unix socket with Basic credentials; its CPU is that of all its threads, by the scheduler's count. \
          Of repeated questions the median round counts"
        .into());
    origin.notes.iter().for_each(|note| line(format!("- {note}")));
    line("\n| | What | engine wall p50 µs | p99 | CPU p50 | CPU mean | other | wall p50 µs | p99 | CPU p50 | compared | is | goal | met |".into());
    line("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|".into());
    for row in rows {
        line(table_line(row));
    }
    line("\n## Beside the figures\n".into());
    for row in rows.iter().filter(|row| !row.note.is_empty()) {
        line(format!("- {} {}: {}", row.part, row.what, row.note));
    }
    text
}

fn shown(number: Option<f64>) -> String {
    match number {
        None => "–".into(),
        Some(number) if number.abs() >= 1000.0 => format!("{number:.0}"),
        Some(number) if number.abs() >= 10.0 => format!("{number:.1}"),
        Some(number) => format!("{number:.2}"),
    }
}

fn table_line(row: &Row) -> String {
    let ours = &row.engine;
    let none = Default::default();
    let (name, other) =
        row.other.as_ref().map_or(("–", &none), |(name, other)| (name.as_str(), other));
    let goal = match row.goal {
        None => "–".to_owned(),
        Some(Goal::AtMost(most)) => format!("≤ {most}"),
        Some(Goal::AtLeast(least)) => format!("≥ {least}"),
    };
    let met = match row.met() {
        None => "–",
        Some(true) => "yes",
        Some(false) => "**no**",
    };
    let cells = [
        row.part.to_string(),
        row.what.clone(),
        shown(ours.wall_p50),
        shown(ours.wall_p99),
        shown(ours.cpu_p50),
        shown(ours.cpu_mean),
        name.to_owned(),
        shown(other.wall_p50),
        shown(other.wall_p99),
        shown(other.cpu_p50),
        row.basis.to_owned(),
        shown(row.is),
        goal,
        met.to_owned(),
    ];
    format!("| {} |", cells.join(" | "))
}

/// As JSON.
pub(crate) fn json(origin: &Origin, rows: &[Row]) -> Value {
    json!({
        "machine": machine::hardware(), "kernel": machine::kernel(), "disk": origin.disk, "commit": origin.commit,
        "scheduling": machine::scheduling(), "load_before": origin.load_before, "scale": origin.scale,
        "files": origin.given, "notes": origin.notes, "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    })
}
