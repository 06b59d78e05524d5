//! The report of the engine benchmark: one table with goals, as Markdown and as JSON.

use serde_json::{Value, json};

use super::figures::{Goal, Row};
use crate::machine;
use crate::options::EngineOptions;
use crate::session::Session;

/// Returns the report as Markdown.
pub(crate) fn markdown(
    session: &Session<'_>,
    options: &EngineOptions,
    notes: &[String],
    rows: &[Row],
) -> String {
    let mut text = session.head("The engine next to other stores");
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!("- Scale {}", options.scale));
    match options.files.names()[..] {
        [] => line("- Texts, questions and vectors come from a seeded generator".into()),
        ref names => line(format!("- From files: {}", names.join(", "))),
    }
    line(
        "- The engine is a process of its own, with requests over its Unix socket and Basic \
         credentials; its CPU is that of all its threads, as the scheduler counts. Of repeated \
         questions the median round counts"
            .into(),
    );
    notes.iter().for_each(|note| line(format!("- {note}")));
    line("\n| | What | engine wall p50 µs | p99 | CPU p50 | CPU mean | other | wall p50 µs | p99 | CPU p50 | compared | is | goal | met |".into());
    line("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|".into());
    for row in rows {
        line(table_line(row));
    }
    line("\n## Notes\n".into());
    for row in rows.iter().filter(|row| !row.note.is_empty()) {
        line(format!("- {} {}: {}", row.part, row.what, row.note));
    }
    text
}

fn figure(number: Option<f64>) -> String {
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
        figure(ours.wall_p50),
        figure(ours.wall_p99),
        figure(ours.cpu_p50),
        figure(ours.cpu_mean),
        name.to_owned(),
        figure(other.wall_p50),
        figure(other.wall_p99),
        figure(other.cpu_p50),
        row.basis.to_owned(),
        figure(row.is),
        goal,
        met.to_owned(),
    ];
    format!("| {} |", cells.join(" | "))
}

/// Returns the report as JSON.
pub(crate) fn json(
    session: &Session<'_>,
    options: &EngineOptions,
    notes: &[String],
    rows: &[Row],
) -> Value {
    json!({
        "machine": machine::hardware(), "kernel": machine::kernel(), "disk": session.disk,
        "commit": session.commit, "scheduling": machine::scheduling(),
        "load_before": session.load_before, "scale": options.scale,
        "files": options.files.names(), "notes": notes,
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    })
}
