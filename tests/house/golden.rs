//! Compares texts that the code prints with the files in `tests/golden`; `cargo bless`
//! (UPDATE_GOLDEN=1) rewrites these files.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};
use vctx::dialect::{Dialect, Format, Profile};
use vctx::window::{budget_for, pinned_tokens_max, summary_tokens_max};

use super::sources::{files, root, rust};

/// Compares a text with a golden file, or writes the file if UPDATE_GOLDEN is 1.
pub(crate) fn golden(name: &str, actual: &str) {
    let path = root().join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        fs::write(&path, actual).unwrap_or_else(|e| panic!("{name}: {e}"));
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if let Some((at, (is, was))) = first_difference(actual, &expected) {
        panic!(
            "tests/golden/{name}, line {at}:\n   is: {is}\n  was: {was}\nIf that is meant: cargo bless"
        );
    }
}

fn first_difference<'a>(actual: &'a str, expected: &'a str) -> Option<(usize, (&'a str, &'a str))> {
    if actual == expected {
        return None;
    }
    let (mut is, mut was) = (actual.split('\n'), expected.split('\n'));
    for at in 1.. {
        match (is.next(), was.next()) {
            (Some(a), Some(b)) if a == b => {}
            (a, b) => return Some((at, (a.unwrap_or("(end)"), b.unwrap_or("(end)")))),
        }
    }
    None
}

#[test]
fn the_schemas_of_the_tools() {
    let schemas = vctx::http::tool_schemas(Dialect::Vctx, Format::JsonSchema, Profile::Full, false);
    golden("tools.json", &readable(&schemas));
}

#[test]
fn the_tools_as_mcp_clients_see_them() {
    let mut text = String::from("name | title | read only, destructive, idempotent, open world\n");
    for tool in Dialect::ALL.iter().flat_map(|dialect| vctx::mcp::listed(*dialect, true)) {
        let hints = tool.annotations.expect("hints");
        let hint = |hint: Option<bool>| if hint.expect("every hint") { "yes" } else { "no" };
        let (reads, destroys) = (hint(hints.read_only_hint), hint(hints.destructive_hint));
        let (repeats, open) = (hint(hints.idempotent_hint), hint(hints.open_world_hint));
        let title = tool.title.expect("a title");
        writeln!(text, "{} | {title} | {reads} {destroys} {repeats} {open}", tool.name)
            .expect("a text takes all");
    }
    golden("mcp.txt", &text);
}

#[test]
fn the_metrics_and_their_help() {
    let mut text = String::new();
    for meter in vctx::metric::ALL.iter() {
        let kind = format!("{:?}", meter.kind).to_lowercase();
        writeln!(text, "{} {kind} {}", meter.exported(), meter.help).expect("a text takes all");
    }
    golden("metrics.txt", &text);
}

/// Prints `docs/reference/metrics.md`, which shows the required name of each metric next to its
/// exported name.
#[test]
fn the_page_of_the_metrics() {
    let mut text = String::from(
        "# Metrics\n\nPrinted from `src/base/metric.rs` (`cargo bless`). `GET /metrics` on the metrics socket serves them as\n\
         Prometheus text. A name of the requirement is next to the exported name, since Prometheus allows no dots in\n\
         names. A counter with an alert on its first step begins at 0; every other metric appears with its first\n\
         value. `docs/explanation/conveyance.md` explains the metrics of the score.\n\n\
         | Exported | In the requirement | Kind | Unit | Labels | Tells |\n|---|---|---|---|---|---|\n",
    );
    for meter in vctx::metric::ALL.iter() {
        let kind = format!("{:?}", meter.kind).to_lowercase();
        let seed =
            if meter.seed.contains('.') { format!("`{}`", meter.seed) } else { meter.seed.into() };
        let labels = meter.labels.join(", ");
        let (name, unit, help) = (meter.exported(), meter.unit, meter.help);
        writeln!(text, "| `{name}` | {seed} | {kind} | {unit} | {labels} | {help} |")
            .expect("a text takes all");
    }
    text.push_str("\n## Buckets\n\n| Histogram | Upper ends |\n|---|---|\n");
    for meter in vctx::metric::ALL.iter().filter(|meter| !meter.buckets.is_empty()) {
        let ends: Vec<String> = meter.buckets.iter().map(f64::to_string).collect();
        writeln!(text, "| `{}` | {} |", meter.exported(), ends.join(", "))
            .expect("a text takes all");
    }
    golden("../../docs/reference/metrics.md", &text);
}

/// Every constant of a file of limits is in the table that `vctx limits` prints.
#[test]
fn the_page_of_the_limits() {
    let rows = vctx::cli::limits::rows(vctx::BOUNDS);
    for file in rust(&["src", "embedded/src"]) {
        let path = file.path.as_str();
        if !path.ends_with("/limits.rs") || path == "src/cli/limits.rs" {
            continue;
        }
        let declared = file.text.lines().filter_map(|line| {
            let (_, rest) =
                line.split_once("const ").filter(|(visible, _)| visible.starts_with("pub"))?;
            rest.split_once(':').map(|(name, _)| name)
        });
        let declared: Vec<&str> = declared.collect();
        let listed: Vec<&str> =
            rows.iter().filter(|row| row.from == path).map(|row| row.name.as_str()).collect();
        assert_eq!(declared, listed, "{path}: declare all its constants in one `bounds!`");
    }
    golden("../../docs/reference/limits.md", &vctx::cli::limits::page(&rows));
}

#[test]
fn the_error_codes() {
    let mut text = String::new();
    for code in vctx::error::Code::ALL {
        writeln!(text, "{} {} {}", code.status(), code.text(), code.title())
            .expect("a text takes all");
    }
    golden("errors.txt", &text);
}

#[test]
fn the_thresholds_of_a_window() {
    let mut text = String::from("window warning flush target pinned_max summary_max\n");
    for window in [4096, 8192, 16_384, 32_768, 65_536, 128_000] {
        let budget = budget_for(window);
        let (pins, summary) = (pinned_tokens_max(window), summary_tokens_max(window));
        let (warning, flush, target) = (budget.warning, budget.flush, budget.target);
        writeln!(text, "{window} {warning} {flush} {target} {pins} {summary}")
            .expect("a text takes all");
    }
    golden("policy.txt", &text);
}

#[test]
fn every_golden_file_is_read_by_a_test() {
    let tests = rust(&["tests", "embedded/tests"]);
    let spoken: Vec<&str> =
        tests.iter().flat_map(|test| &test.literals).map(|l| l.trim_matches('"')).collect();
    for path in files("tests/golden", "") {
        let name = path.trim_start_matches("tests/golden/");
        let folder = name.split_once('/').map_or(name, |(folder, _)| folder);
        let read = spoken.iter().any(|literal| literal.contains(name) || literal.contains(folder));
        assert!(read, "{path} is named by no test");
    }
}

/// Longest line of a JSON value that a golden file has on one line, in characters.
const JSON_COLUMNS: usize = 120;

/// Formats JSON for readers: a value that fits on one line is on one line.
pub(crate) fn readable(value: &Value) -> String {
    let mut out = String::new();
    write_readable(value, 0, &mut out);
    out.push('\n');
    out
}

fn write_readable(value: &Value, indent: usize, out: &mut String) {
    let line = value.to_string();
    if indent + line.chars().count() <= JSON_COLUMNS {
        return out.push_str(&line);
    }
    let (items, open, close): (Vec<(String, &Value)>, _, _) = match value {
        Value::Object(map) => {
            (map.iter().map(|(name, one)| (format!("{}: ", json!(name)), one)).collect(), '{', '}')
        }
        Value::Array(list) => (list.iter().map(|one| (String::new(), one)).collect(), '[', ']'),
        _ => return out.push_str(&line),
    };
    out.push(open);
    for (at, (name, one)) in items.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        out.push_str(&format!("{comma}\n{}{name}", " ".repeat(indent + 2)));
        write_readable(one, indent + 2, out);
    }
    out.push_str(&format!("\n{}{close}", " ".repeat(indent)));
}
