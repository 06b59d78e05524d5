//! The HTML page: sections of tables and one picture, in one file without external resources.

use serde_json::Value;

use super::chart;
use super::figures::{Figures, thinned};
use super::latency::{Latency, SHOWN};
use vctx_cli::output::{field, number};
use vctx_core::window::Section;

/// Maximum number of drawn points, which is about the number of columns of a screen.
const POINTS_MAX: usize = 800;
/// Maximum number of rows of a table; the newest rows are shown.
const ROWS_MAX: usize = 200;

const STYLE: &str = include_str!("style.css");

/// Contents of the HTML page.
pub(super) struct Content<'a> {
    pub(super) state: &'a Value,
    pub(super) figures: &'a Figures,
    /// The answer of the Conveyance endpoint, or the reason why the answer is missing.
    pub(super) conveyance: Result<&'a Value, &'a str>,
    /// Latencies since the server's start, or the reason why the latencies are missing.
    pub(super) latencies: Result<&'a [Latency], &'a str>,
    /// A sentence which says that later events were left out; `None` if no event was left out.
    pub(super) left_out: Option<String>,
    pub(super) made_at: &'a str,
}

/// Renders the whole HTML page.
pub(super) fn page(content: &Content<'_>) -> String {
    let agent = escaped(&field(content.state, "/agent"));
    let sections = [
        head(content),
        window(content),
        evictions(content.figures),
        searches(content),
        heartbeats(content.figures),
        conveyance(content.conveyance),
        latency(content.latencies),
        errors(content.figures),
    ];
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>vctx report: {agent}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n{}\n</body></html>\n",
        sections.join("\n")
    )
}

fn head(content: &Content<'_>) -> String {
    let state = content.state;
    let left_out = content.left_out.as_deref().map(note).unwrap_or_default();
    let facts = [
        (
            "window",
            format!("{} tokens ({})", number(state, "/context_window"), field(state, "/encoding")),
        ),
        ("in use", format!("{} tokens", number(state, "/tokens/occupancy"))),
        (
            "messages",
            format!(
                "{}, hash chain head {}",
                number(state, "/chain/length"),
                short(&field(state, "/chain/head"))
            ),
        ),
        (
            "evicted",
            format!(
                "{} messages in {} flushes",
                number(state, "/counters/evicted"),
                number(state, "/counters/flushes")
            ),
        ),
        ("version", format!("{}, revision {}", number(state, "/version"), field(state, "/_rev"))),
        ("made", format!("{} by vctx {}", content.made_at, env!("CARGO_PKG_VERSION"))),
    ];
    let rows: String = facts
        .iter()
        .map(|(name, value)| format!("<tr><th>{name}</th><td>{}</td></tr>", escaped(value)))
        .collect();
    format!(
        "<h1>{}</h1><p class=\"quiet\">Figures, ids and times; no text of the memory is in this file.</p>{left_out}<table class=\"facts\">{rows}</table>",
        escaped(&field(state, "/agent"))
    )
}

fn window(content: &Content<'_>) -> String {
    let points = thinned(&content.figures.points, POINTS_MAX);
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return section("The window over time", &note("No write yet."));
    };
    let mut names: Vec<&str> = Section::drawn().map(Section::name).collect();
    names.reverse();
    let legend: String =
        names.iter().map(|name| format!("<span class=\"key {name}\"></span>{name} ")).collect();
    section(
        "The window over time",
        &format!(
            "{}<p class=\"ends\"><span>{}</span><span>one step per write</span><span>{}</span></p><p>{legend}<span class=\"key evicts\"></span>eviction</p>",
            chart::window(&points),
            escaped(&first.ts),
            escaped(&last.ts)
        ),
    )
}

fn evictions(figures: &Figures) -> String {
    let rows: Vec<Vec<String>> = newest(&figures.evictions)
        .map(|flush| {
            let cell = |pointer: &str| field(flush, pointer);
            vec![
                cell("/ts"),
                cell("/evicted_count"),
                format!("{}–{}", cell("/first_seq"), cell("/last_seq")),
                cell("/before_occupancy"),
                cell("/after_occupancy"),
                cell("/target"),
                if flush["target_reached"] == Value::Bool(true) { "yes" } else { "no" }.into(),
                cell("/new_summary_tokens"),
            ]
        })
        .collect();
    let heads = ["when", "messages", "seq", "before", "after", "target", "reached", "summary"];
    section("Evictions", &table(&heads, &rows, "Nothing has left the window yet."))
}

fn searches(content: &Content<'_>) -> String {
    let figures = content.figures;
    let rows: Vec<Vec<String>> =
        figures.writes.iter().map(|(tool, times)| vec![tool.clone(), times.to_string()]).collect();
    let hits = ["recall_searches", "recall_hits"]
        .map(|name| number(content.state, &format!("/counters/{name}")));
    let text = format!(
        "{} searches wrote (brought messages back, kept a page, spooled or beat); searches that only read leave no event. \
         Recall searches counted: {}, with a hit: {}.",
        figures.searches(),
        hits[0],
        hits[1]
    );
    section(
        "Searches and writes",
        &format!("{}{}", note(&text), table(&["tool", "writes"], &rows, "")),
    )
}

fn heartbeats(figures: &Figures) -> String {
    let rows: Vec<Vec<String>> = newest(&figures.chains)
        .map(|chain| {
            let (depth, duration, reason) = match &chain.ended {
                Some((depth, ms, reason)) => (depth.to_string(), ms.to_string(), reason.clone()),
                None => (String::new(), String::new(), "still open".into()),
            };
            vec![chain.started.clone(), short(&chain.id), depth, duration, reason]
        })
        .collect();
    let heads = ["started", "chain", "depth", "ms", "ended by"];
    section("Heartbeats", &table(&heads, &rows, "No chain yet."))
}

fn conveyance(answer: Result<&Value, &str>) -> String {
    let body = match answer {
        Err(why) => note(why),
        Ok(answer) => {
            let mut rows = Vec::new();
            leaves("", answer, &mut rows);
            let inputs = table(&["input", "value"], &rows, "");
            format!(
                "<p>C = (W·R·H / T) · Ctx^1.7 = <strong>{}</strong></p>{}{}<details><summary>every input</summary>{inputs}</details>",
                answer["c"].as_f64().map_or("unknown so far".to_owned(), |c| format!("{c:.4}")),
                weakest(answer),
                terms(answer)
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
            "<tr><th>{name}</th><td>{told}</td><td><span class=\"bar\"><span style=\"width:{width:.1}%\"></span></span></td><td>{about}</td></tr>"
        )
    };
    format!("<table>{}</table>", TERMS.map(row).concat())
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

fn latency(latencies: Result<&[Latency], &str>) -> String {
    let body = match latencies {
        Err(why) => note(why),
        Ok(latencies) => {
            let mut heads = vec!["tool", "calls"];
            heads.extend(SHOWN.map(|(_, name)| name));
            let rows: Vec<Vec<String>> = latencies
                .iter()
                .map(|l| {
                    let mut row = vec![l.tool.clone(), l.calls.to_string()];
                    row.extend(l.percentiles.map(milliseconds));
                    row
                })
                .collect();
            let about = note(
                "Each time is the upper bound of the histogram bucket that contains the percentile, over all agents since the server's start.",
            );
            format!("{about}{}", table(&heads, &rows, "No call yet."))
        }
    };
    section("Latency of tool calls", &body)
}

fn milliseconds(seconds: f64) -> String {
    match seconds.is_finite() {
        true => format!("≤ {} ms", (seconds * 1e5).round() / 100.0),
        false => "beyond the last bucket".into(),
    }
}

fn errors(figures: &Figures) -> String {
    let rows: Vec<Vec<String>> =
        figures.errors.iter().map(|(code, times)| vec![code.clone(), times.to_string()]).collect();
    section("Refusals and alarms", &table(&["code", "times"], &rows, "None."))
}

fn newest<T>(rows: &[T]) -> impl Iterator<Item = &T> {
    rows.iter().rev().take(ROWS_MAX)
}

fn section(title: &str, body: &str) -> String {
    format!("<section><h2>{title}</h2>{body}</section>")
}

fn note(text: &str) -> String {
    format!("<p class=\"quiet\">{}</p>", escaped(text))
}

fn table(heads: &[&str], rows: &[Vec<String>], empty: &str) -> String {
    if rows.is_empty() {
        return note(empty);
    }
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let row = |row: &Vec<String>| -> String {
        let cells: String = row.iter().map(|c| format!("<td>{}</td>", escaped(c))).collect();
        format!("<tr>{cells}</tr>")
    };
    let body: String = rows.iter().map(row).collect();
    format!("<div class=\"wide\"><table><tr>{heads}</tr>{body}</table></div>")
}

/// Returns the first characters of a hash or id.
fn short(id: &str) -> String {
    id.chars().take(12).collect()
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_escapes_what_it_shows_and_loads_nothing() {
        let state =
            json!({"agent": "<b>&", "context_window": 100, "chain": {"head": "ab", "length": 2}});
        let figures =
            Figures::of(&[json!({"type": "error", "ts": "t", "details": {"code": "<script>"}})]);
        let answer = json!({"c": 0.5, "weakest": {"term": "R", "gain": 4.0, "advice": "ask <again>"}, "terms": {"W": {"value": null, "flags": ["x<y"]}, "R": {"value": 0.25}}});
        let html = page(&Content {
            state: &state,
            figures: &figures,
            conveyance: Ok(&answer),
            latencies: Err("the metrics socket does not answer"),
            left_out: None,
            made_at: "now",
        });
        for part in [
            "&lt;b&gt;&amp;",
            "&lt;script&gt;",
            "terms.W.flags.0",
            "<strong>0.5000</strong>",
            "width:25.0%",
            "x&lt;y",
            "<strong>R</strong> (C × 4.00 with its best value). ask &lt;again&gt;",
            "does not answer",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
        for foreign in ["<script", "http://", "https://", "src=", "@import", "url("] {
            assert!(!html.contains(foreign), "{foreign}");
        }
    }
}
