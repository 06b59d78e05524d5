//! `vctx conveyance`: how well an agent's memory carries, term by term, and what to do about the weakest.

use clap::Args;
use serde_json::Value;

use crate::exit::Failure;
use crate::output;
use crate::target::Target;

const EXAMPLES: &str = "\
C = (W·R·H / T) · Ctx^1.7, with Ctx the mean of L, I, A and G. A term without a denominator makes C unknown, a tier that is
down or chunks without late-chunking evidence make it 0. What each term counts: docs/explanation/conveyance.md.

Examples:
  vctx conveyance                                 every agent, one line each
  vctx conveyance --agent ada                     the terms of its present session
  vctx conveyance --agent ada --life              of everything that is counted
  vctx conveyance --agent ada --json | jq .terms.T";

/// Show how well an agent's memory carries: the score and its terms
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Conveyance {
    /// The agent [default: all, one line each]
    #[arg(long)]
    agent: Option<String>,

    /// Look at the agent's whole life instead of its present session
    #[arg(long)]
    life: bool,

    #[command(flatten)]
    pub target: Target,
}

/// Runs the command.
pub async fn run(asked: Conveyance) -> Result<(), Failure> {
    let client = asked.target.client();
    let of = if asked.life { "life" } else { "session" };
    if let Some(agent) = &asked.agent {
        let answer = client.conveyance(agent, of).await?;
        return match asked.target.json {
            true => output::value(&answer),
            false => output::line(&picture(&answer)),
        };
    }
    let mut answers = Vec::new();
    for row in client.agents().await? {
        answers.push(client.conveyance(&output::field(&row, "/agent"), of).await?);
    }
    match asked.target.json {
        true => output::value(&Value::Array(answers)),
        false => output::line(&overview(&answers)),
    }
}

/// One line for each agent.
fn overview(answers: &[Value]) -> String {
    let rows: Vec<Vec<String>> = answers
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

/// The terms with what they stand for.
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

/// The whole answer as text.
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
    for why in strings(&answer["zero"]) {
        lines.push(format!("zero: {why}"));
    }
    for missing in answer["missing"].as_array().into_iter().flatten() {
        let lacks = strings(&missing["lacks"]).join(", ");
        lines.push(format!(
            "missing: {} (nothing counted yet: {lacks})",
            output::field(missing, "/term")
        ));
    }
    let flags = strings(&answer["flags"]);
    if !flags.is_empty() {
        lines.push(format!("note: {}", flags.join(", ")));
    }
    match field("/weakest/term").as_str() {
        "" => lines.push("nothing to mend".into()),
        term => lines.push(format!("look at {term}: {}", field("/weakest/advice"))),
    }
    lines.join("\n")
}

fn rows(answer: &Value) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (term, name) in TERMS {
        let told = &answer["terms"][term];
        let counts =
            ["numerator", "denominator"].map(|part| output::field(told, &format!("/{part}")));
        let [of, all] = counts;
        rows.push(vec![term.into(), name.into(), figure(&told["value"]), of, all, String::new()]);
        rows.extend(parts(told));
    }
    let context = figure(&answer["terms"]["Ctx"]["value"]);
    rows.push(vec![
        "Ctx".into(),
        "mean of L I A G".into(),
        context,
        String::new(),
        String::new(),
        String::new(),
    ]);
    rows
}

/// What a term is made of, where it is more than one share.
fn parts(told: &Value) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for part in ["conservation", "recall_hit_rate", "guards", "audited_writes"] {
        if let Some(share) = told.get(part) {
            let [of, all] =
                ["/numerator", "/denominator"].map(|pointer| output::field(share, pointer));
            rows.push(vec![
                String::new(),
                part.into(),
                figure(&share["value"]),
                of,
                all,
                String::new(),
            ]);
        }
    }
    for (path, way) in told["paths"].as_object().into_iter().flatten() {
        let note = format!(
            "ms of {} ms, {} samples of the {}",
            way["allowed_ms"],
            way["samples"],
            output::field(way, "/of")
        );
        let p99 = figure(&way["p99_ms"]);
        rows.push(vec![
            String::new(),
            format!("{path} p99"),
            figure(&way["cost"]),
            p99,
            String::new(),
            note,
        ]);
    }
    rows
}

fn score(answer: &Value) -> String {
    figure(&answer["c"])
}

/// A figure with four places, or a dash where there is none.
fn figure(value: &Value) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |number| format!("{number:.4}"))
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
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
            "look at H: let the model yield",
        ] {
            let squeezed = |t: &str| t.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(squeezed(&text).contains(&squeezed(part)), "{part} in\n{text}");
        }
    }

    #[test]
    fn all_agents_are_one_line_each() {
        let text = overview(&[answer(), answer()]);
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().nth(1).unwrap().starts_with("ada"));
        assert!(text.lines().nth(1).unwrap().ends_with('H'));
    }
}
