//! The HTML page: pictures with their tables, in one file without external resources.

use serde_json::Value;

use super::figures::{Figures, thinned};
use super::html::{escaped, note, numbers, second, section, short, table, thousands};
use super::latency::{Latency, SHOWN};
use super::searches::Search;
use super::stores::Store;
use super::turns::Turn;
use super::{anatomy, chart, conveyance, map, missed};
use vctx_cli::output::{field, number};

/// Maximum number of drawn points, which is about the number of columns of a screen.
const POINTS_MAX: usize = 800;
/// Maximum number of rows of a table; the newest rows are shown.
const ROWS_MAX: usize = 200;

const STYLE: &str = include_str!("style.css");
/// What a browser may load for the page: nothing but the style sheet within it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Contents of the HTML page.
pub(super) struct Content<'a> {
    pub(super) state: &'a Value,
    pub(super) figures: &'a Figures,
    pub(super) stores: &'a [Store],
    pub(super) turns: &'a [Turn],
    pub(super) searches: &'a [Search],
    /// Whether the page shows texts of the memory.
    pub(super) texts: bool,
    /// Price of a million tokens of prompts in US dollars, if one was given.
    pub(super) price: Option<f64>,
    /// The answer of the Conveyance endpoint, or the reason why the answer is missing.
    pub(super) conveyance: Result<&'a Value, &'a str>,
    /// Latencies since the server's start, or the reason why the latencies are missing.
    pub(super) latencies: Result<&'a [Latency], &'a str>,
    /// Sentences that say what bounds left out.
    pub(super) left_out: &'a [String],
    pub(super) made_at: &'a str,
}

/// Renders the whole HTML page.
pub(super) fn page(content: &Content<'_>) -> String {
    let agent = escaped(&field(content.state, "/agent"));
    let sections = [
        head(content),
        map::section_of(content.stores, content.state),
        window(content),
        anatomy::section_of(content.turns, content.price),
        missed::section_of(content.searches, content.state, content.texts),
        evictions(content.figures),
        writes(content),
        heartbeats(content.figures),
        conveyance::section_of(content.conveyance),
        latency(content.latencies),
        errors(content.figures),
    ];
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>vctx report: {agent}</title>\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><style>{STYLE}</style></head><body>\n{}\n</body></html>\n",
        sections.join("\n")
    )
}

fn head(content: &Content<'_>) -> String {
    let state = content.state;
    let left_out: String = content.left_out.iter().map(|told| note(told)).collect();
    let told = match content.texts {
        true => {
            "<p class=\"warns\">This file contains texts of the memory: everybody who gets the file can read them. Texts in quarantine and forgotten texts are not in it.</p>"
        }
        false => {
            "<p class=\"quiet\">Figures, ids and times; no text of the memory is in this file.</p>"
        }
    };
    let facts = [
        (
            "window",
            format!(
                "{} tokens ({})",
                thousands(number(state, "/context_window")),
                field(state, "/encoding")
            ),
        ),
        ("in use", format!("{} tokens", thousands(number(state, "/tokens/occupancy")))),
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
        .map(|(name, value)| {
            format!("<tr><th scope=\"row\">{name}</th><td>{}</td></tr>", escaped(value))
        })
        .collect();
    format!(
        "<h1>Memory of {}</h1>{told}{left_out}<table class=\"facts\">{rows}</table>",
        escaped(&field(state, "/agent"))
    )
}

fn window(content: &Content<'_>) -> String {
    let points = thinned(&content.figures.points, POINTS_MAX);
    let body = match points.is_empty() {
        true => note("No write yet."),
        false => chart::window(&points),
    };
    section("The window over time", &body)
}

fn evictions(figures: &Figures) -> String {
    let rows: Vec<Vec<String>> = newest(&figures.evictions)
        .map(|flush| {
            let cell = |pointer: &str| field(flush, pointer);
            vec![
                second(&cell("/ts")),
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
    section("Evictions", &numbers(&heads, &rows, "Nothing has left the window yet."))
}

fn writes(content: &Content<'_>) -> String {
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
        &format!("{}{}", note(&text), table(&["tool", "writes"], &rows, "No write yet.")),
    )
}

fn heartbeats(figures: &Figures) -> String {
    let rows: Vec<Vec<String>> = newest(&figures.chains)
        .map(|chain| {
            let (depth, duration, reason) = match &chain.ended {
                Some((depth, ms, reason)) => (depth.to_string(), ms.to_string(), reason.clone()),
                None => (String::new(), String::new(), "still open".into()),
            };
            vec![second(&chain.started), short(&chain.id), depth, duration, reason]
        })
        .collect();
    let heads = ["started", "chain", "depth", "ms", "ended by"];
    section("Heartbeats", &table(&heads, &rows, "No chain yet."))
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
        let content = Content {
            state: &state,
            figures: &figures,
            conveyance: Ok(&answer),
            latencies: Err("the metrics socket does not answer"),
            stores: &[],
            turns: &[],
            searches: &[],
            texts: false,
            price: None,
            left_out: &["<left out>".to_owned()],
            made_at: "now",
        };
        let html = page(&content);
        assert_eq!(html, page(&content), "the same data give the same page");
        for part in [
            "&lt;b&gt;&amp;",
            "&lt;script&gt;",
            "terms.W.flags.0",
            "<strong>0.5000</strong>",
            "width:25.0%",
            "x&lt;y",
            "<strong>R</strong> (C × 4.00 with its best value). ask &lt;again&gt;",
            "does not answer",
            "&lt;left out&gt;",
            "no text of the memory is in this file",
            "content=\"default-src 'none'; style-src 'unsafe-inline'\"",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
        for foreign in ["<script", "http://", "https://", "src=", "@import", "url("] {
            assert!(!html.contains(foreign), "{foreign}");
        }
    }
}
