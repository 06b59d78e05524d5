//! The section on Conveyance, the score of a session: the value, its weakest term, and every input.

use serde_json::Value;

use super::html::{escaped, folded, note, section, table};

/// Returns the section of the page. The answer is missing for a reason.
pub(super) fn section_of(answer: Result<&Value, &str>) -> String {
    let body = match answer {
        Err(why) => note(why),
        Ok(answer) => {
            let mut rows = Vec::new();
            leaves("", answer, &mut rows);
            let inputs = table(&["input", "value"], &rows, "");
            format!(
                "<p>C = (W·R·H / T) · Ctx^1.7 = <strong>{}</strong></p>{}{}{}",
                answer["c"].as_f64().map_or("unknown so far".to_owned(), |c| format!("{c:.4}")),
                weakest(answer),
                terms(answer),
                folded("every input", &inputs)
            )
        }
    };
    section("Conveyance", &body)
}

/// Names the weakest term, by how much C would grow with its best value, and what to do.
fn weakest(answer: &Value) -> String {
    let weakest = &answer["weakest"];
    let Some(term) = weakest["term"].as_str() else { return String::new() };
    let gain = weakest["gain"].as_f64().map(|gain| format!(" (C × {gain:.2} with its best value)"));
    let advice = weakest["advice"].as_str().unwrap_or_default();
    format!(
        "<p>Weakest term: <strong>{}</strong>{}. {}</p>",
        escaped(term),
        gain.unwrap_or_default(),
        escaped(advice)
    )
}

/// Draws the terms of Conveyance, the score of a session, as bars. The term T is a cost, so less is
/// better.
fn terms(answer: &Value) -> String {
    const TERMS: [(&str, &str); 9] = [
        ("W", "messages that are not lost × recall searches with a result"),
        ("R", "database requests answered"),
        ("H", "heartbeat chains that ended by a yield"),
        ("T", "time compared with the allowed time (less is better)"),
        ("L", "chunks with evidence of late chunking"),
        ("I", "probes of core, recall and archive that were answered"),
        ("A", "flushes that reached their target without a drift alarm"),
        ("G", "self-checks passed, or writes audited (the smaller share)"),
        ("Ctx", "mean of L, I, A, G"),
    ];
    let row = |(name, about): (&str, &str)| {
        let value = answer["terms"][name]["value"].as_f64();
        let told = value.map_or("nothing counted".to_owned(), |v| format!("{v:.4}"));
        let width = value.unwrap_or(0.0).clamp(0.0, 1.0) * 100.0;
        format!(
            "<tr><th scope=\"row\">{name}</th><td><span class=\"bar\"><span style=\"width:{width:.1}%\"></span></span></td><td>{told} <span class=\"quiet\">({about})</span></td></tr>"
        )
    };
    format!("<table class=\"fills\">{}</table>", TERMS.map(row).concat())
}

/// Lists every number, text and boolean of an answer with the path of the value.
fn leaves(path: &str, value: &Value, rows: &mut Vec<Vec<String>>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(name, v)| leaves(&below(name), v, rows)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, v)| leaves(&below(&at.to_string()), v, rows));
        }
        Value::String(text) => rows.push(vec![path.to_owned(), text.clone()]),
        other => rows.push(vec![path.to_owned(), other.to_string()]),
    }
}
