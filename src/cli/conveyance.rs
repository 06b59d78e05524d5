//! `vctx conveyance`: shows the Conveyance score of an agent's session and the terms of this score,
//! with advice about the weakest term.

use clap::Args;
use serde_json::Value;

use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::Whose;

const EXAMPLES: &str = "\
C = (W·R·H / T) · Ctx^1.7, where Ctx is the mean of L, I, A and G. If the denominator of a term is zero, C is unknown.
If a storage tier is down, or if chunks came without late-chunking evidence, C is 0. What each term counts:
docs/explanation/conveyance.md.

Examples:
  vctx conveyance                                 every agent, one line each
  vctx conveyance --agent ada                     the terms of the agent's current session
  vctx conveyance --agent ada --life              the terms over all events of the agent
  vctx conveyance --agent ada --json | jq .terms.T";

/// Show the Conveyance score of an agent's session, and the terms of the score
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, mut_arg("whose", |arg| arg.help("The agent [default: all agents, one line each]")))]
pub struct Conveyance {
    #[command(flatten)]
    whose: Whose,

    /// Compute the score over all events of the agent, instead of its current session
    #[arg(long)]
    life: bool,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx conveyance`.
pub async fn run(asked: Conveyance) -> Result<(), Failure> {
    let client = asked.target.client();
    let of = if asked.life { "life" } else { "session" };
    if let Some(agent) = asked.whose.stated() {
        let answer = client.conveyance(agent, of).await?;
        return output::told(asked.target.json, &answer, picture);
    }
    let mut answers = Vec::new();
    for row in client.agents().await? {
        answers.push(client.conveyance(&output::field(&row, "/agent"), of).await?);
    }
    output::told(asked.target.json, &Value::Array(answers), overview)
}

/// Prints one line of scores for each agent.
fn overview(answers: &Value) -> String {
    let rows: Vec<Vec<String>> = output::list(answers, "")
        .iter()
        .map(|answer| {
            let mut row = vec![output::field(answer, "/agent"), score(answer)];
            row.extend(TERMS.map(|(term, _)| figure(&answer["terms"][term]["value"])));
            row.push(output::field(answer, "/weakest/term"));
            row
        })
        .collect();
    let mut heads = vec!["agent", "C"];
    heads.extend(TERMS.map(|(term, _)| term));
    heads.push("look at");
    output::table(&heads, &[1, 2, 3, 4, 5, 6, 7, 8, 9], &rows)
}

/// The letter of each term of the Conveyance score, and its meaning.
const TERMS: [(&str, &str); 8] = [
    ("W", "what"),
    ("R", "where"),
    ("H", "who"),
    ("T", "time"),
    ("L", "late chunking"),
    ("I", "tiers"),
    ("A", "flushes"),
    ("G", "guards"),
];

/// Formats a whole Conveyance answer as text.
pub fn picture(answer: &Value) -> String {
    let field = |pointer: &str| output::field(answer, pointer);
    let mut lines = vec![
        format!(
            "agent {}   C = {}   ({} since {}, {} events)",
            field("/agent"),
            score(answer),
            field("/considered/of"),
            field("/considered/since"),
            field("/considered/events"),
        ),
        String::new(),
        output::table(&["", "", "value", "of", "all", ""], &[2, 3, 4], &rows(answer)),
        String::new(),
    ];
    let zero = output::list(answer, "/zero").iter().filter_map(Value::as_str);
    lines.extend(zero.map(|why| format!("zero: {why}")));
    for missing in output::list(answer, "/missing") {
        let lacks = output::texts(&missing["lacks"]);
        lines.push(format!(
            "missing: {} (nothing counted yet: {lacks})",
            output::field(missing, "/term")
        ));
    }
    let flags = output::texts(&answer["flags"]);
    if !flags.is_empty() {
        lines.push(format!("note: {flags}"));
    }
    match field("/weakest/term").as_str() {
        "" => lines.push("no term needs attention".into()),
        term => {
            let gain = answer["weakest"]["gain"].as_f64().map(|gain| format!(" (C × {gain:.2})"));
            let (gain, advice) = (gain.unwrap_or_default(), field("/weakest/advice"));
            lines.push(format!("weakest term {term}{gain}: {advice}"));
        }
    }
    lines.join("\n")
}

fn rows(answer: &Value) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (term, name) in TERMS {
        let told = &answer["terms"][term];
        let mut row = share(term, name, told);
        row[5] = note_of(told);
        rows.push(row);
        rows.extend(parts(told));
    }
    let context = figure(&answer["terms"]["Ctx"]["value"]);
    rows.push(["Ctx", "mean of L I A G", &context, "", "", ""].map(str::to_owned).to_vec());
    rows
}

/// Returns what the best value of a term means, and how much it would add to C.
fn note_of(told: &Value) -> String {
    let good = format!("good is 1: {}", output::field(told, "/good"));
    match told["gain"].as_f64().filter(|gain| *gain >= GAIN_TOLD_MIN) {
        Some(gain) => format!("C × {gain:.2} if good; {good}"),
        None => good,
    }
}

/// Smallest factor of C that the table shows.
const GAIN_TOLD_MIN: f64 = 1.005;

/// Returns a table row for each part of a score term that has several parts.
fn parts(told: &Value) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for part in ["conservation", "recall_hit_rate", "guards", "audited_writes"] {
        if let Some(counts) = told.get(part) {
            rows.push(share("", part, counts));
        }
    }
    for (path, way) in told["paths"].as_object().into_iter().flatten() {
        let note = format!(
            "ms of {} ms, {} samples of the {}",
            way["allowed_ms"],
            way["samples"],
            output::field(way, "/of")
        );
        let (path, [cost, p99]) =
            (format!("{path} p99"), ["cost", "p99_ms"].map(|n| figure(&way[n])));
        rows.push(vec![String::new(), path, cost, p99, String::new(), note]);
    }
    rows
}

/// Returns the table row of a term or of a part of a term: the value, and the two counts from which
/// the value is computed.
fn share(term: &str, name: &str, counts: &Value) -> Vec<String> {
    let [of, all] = ["/numerator", "/denominator"].map(|pointer| output::field(counts, pointer));
    vec![term.into(), name.into(), figure(&counts["value"]), of, all, String::new()]
}

fn score(answer: &Value) -> String {
    figure(&answer["c"])
}

/// Formats a number with four decimals, or a dash if the value is not a number.
fn figure(value: &Value) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |number| format!("{number:.4}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer() -> Value {
        let share = |numerator: u64, denominator: u64| json!({"numerator": numerator, "denominator": denominator, "value": numerator as f64 / denominator as f64});
        let way = json!({"p99_ms": 12.5, "allowed_ms": 250.0, "cost": 0.05, "samples": 8, "of": "session"});
        json!({"agent": "ada", "c": null, "zero": [], "flags": ["time_floored"],
            "missing": [{"term": "H", "lacks": ["chains"]}],
            "weakest": {"term": "H", "missing": true, "advice": "let the model yield"},
            "considered": {"of": "session", "since": "2026-01-01T00:00:00.000Z", "events": 7},
            "terms": {"W": {"value": 0.8, "conservation": share(10, 10), "recall_hit_rate": share(4, 5)}, "R": share(99, 99),
                "H": {"value": null, "numerator": 0, "denominator": 0}, "T": {"value": 0.05, "paths": {"recall": way}},
                "L": share(1, 2), "I": share(3, 3), "A": share(1, 1), "G": {"value": 1.0, "guards": share(5, 5), "audited_writes": share(7, 7)},
                "Ctx": {"value": 0.875}}})
    }

    #[test]
    fn the_picture_holds_every_term_its_counts_and_the_next_step() {
        let text = picture(&answer());
        for part in [
            "agent ada   C = –   (session since 2026-01-01T00:00:00.000Z, 7 events)",
            "conservation     1.0000    10   10",
            "recall_hit_rate  0.8000     4    5",
            "recall p99       0.0500  12.5000       ms of 250.0 ms, 8 samples of the session",
            "missing: H (nothing counted yet: chains)",
            "note: time_floored",
            "weakest term H: let the model yield",
        ] {
            let squeezed = |t: &str| t.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(squeezed(&text).contains(&squeezed(part)), "{part} in\n{text}");
        }
    }

    #[test]
    fn all_agents_are_one_line_each() {
        let text = overview(&json!([answer(), answer()]));
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().nth(1).unwrap().starts_with("ada"));
        assert!(text.lines().nth(1).unwrap().ends_with('H'));
    }
}
