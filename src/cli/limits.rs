//! `vctx limits`: prints all limits of the program, from the constants and the settings themselves.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};

use crate::app::ENGINE_LIMITS;
use crate::config::DEFAULTS;
use crate::exit::Failure;
use crate::output;
use vctx_core::bound::Bound;

const EXAMPLES: &str = "\
Examples:
  vctx limits
  vctx limits --json | jq 'select(.unit == \"ms\")'

A limit with a setting can be changed in the configuration; the value is the default. All other limits are constants of the program.";

/// List all limits of the program
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Limits {
    /// Print each limit as a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// The limits of one source file, with the path of the file.
pub type FileBounds = (&'static str, &'static [Bound]);

/// Every file of limits of the crates on which this crate depends.
const FILES: [FileBounds; 11] = [
    ("src/core/limits.rs", vctx_core::limits::ALL),
    ("src/core/policy/limits.rs", vctx_core::policy::LIMITS),
    ("src/core/tools/limits.rs", vctx_core::tools::LIMITS),
    ("src/server/limits.rs", vctx_server::LIMITS),
    ("src/server/executor/limits.rs", vctx_server::executor::LIMITS),
    ("src/server/agent_loop/limits.rs", vctx_server::agent_loop::LIMITS),
    ("src/server/models/limits.rs", vctx_server::models::LIMITS),
    ("src/server/store/limits.rs", vctx_server::store::LIMITS),
    ("src/mcp/limits.rs", vctx_mcp::LIMITS),
    ENGINE_LIMITS[0],
    ENGINE_LIMITS[1],
];

/// The units that end a name, or stand before its end (`MS_MAX`).
const UNITS: [(&str, &str); 11] = [
    ("BYTES", "bytes"),
    ("MS", "ms"),
    ("S", "s"),
    ("TOKENS", "tokens"),
    ("CHARS", "characters"),
    ("ROWS", "rows"),
    ("LINES", "lines"),
    ("MESSAGES", "messages"),
    ("TEXTS", "texts"),
    ("CHUNKS", "chunks"),
    ("WAIT", "time"),
];

/// One limit, as the table shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where the limit is defined: a source file, or `configuration`.
    pub from: &'static str,
    /// Name of the constant or of the setting.
    pub name: String,
    /// The value, or the default of a setting.
    pub value: String,
    /// Unit of the value; `number` for a count without a more exact unit.
    pub unit: &'static str,
    /// What the limit bounds.
    pub text: String,
    /// Setting that changes the limit, if there is one.
    pub setting: Option<String>,
}

impl Row {
    fn of_constant(from: &'static str, (name, value, text): &Bound) -> Self {
        let text = text.trim().to_owned();
        // The documentation of such a constant begins with `Default of` and the name of a setting.
        let setting = text.strip_prefix("Default of `").and_then(|rest| rest.split('`').next());
        let setting = setting.map(str::to_owned);
        Self { from, name: (*name).to_owned(), value: value(), unit: unit(name), text, setting }
    }

    fn json(&self) -> Value {
        json!({"name": self.name, "value": self.value, "unit": self.unit, "bounds": self.text,
            "setting": self.setting, "from": self.from})
    }
}

fn unit(name: &str) -> &'static str {
    let upper = name.to_uppercase();
    let parts: Vec<&str> = upper.split(['_', '.']).collect();
    let last = |part: &str| parts.iter().rposition(|one| *one == part);
    let found = UNITS.iter().filter_map(|(part, unit)| Some((last(part)?, *unit)));
    found.max().map_or("number", |(_, unit)| unit)
}

/// Returns all limits: the constants of all files, then the settings with a number. `more` are the
/// files of crates that this crate does not know.
pub fn rows(more: &[FileBounds]) -> Vec<Row> {
    let files = FILES.iter().chain(more);
    let constants = files.flat_map(|(from, all)| all.iter().map(|one| Row::of_constant(from, one)));
    constants.chain(settings()).collect()
}

/// Returns the settings whose default is a number, with the comment above each.
fn settings() -> Vec<Row> {
    let (mut rows, mut section, mut text) = (Vec::new(), String::new(), String::new());
    // Several settings may follow one comment.
    let mut done = false;
    for line in DEFAULTS.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            text = if done { String::new() } else { text };
            text = format!("{text} {comment}").trim().to_owned();
            done = false;
            continue;
        }
        done = true;
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        }
        if let Some((key, value)) = line.split_once(" = ")
            && value.parse::<f64>().is_ok()
        {
            let name = format!("{section}.{key}");
            rows.push(Row {
                from: "configuration",
                unit: unit(&name),
                value: value.to_owned(),
                text: text.clone(),
                setting: Some(name.clone()),
                name,
            });
        }
    }
    rows
}

/// Prints the table as a page of the documentation.
pub fn page(rows: &[Row]) -> String {
    let mut text = String::from(
        "# Limits\n\nPrinted from the constants and the example configuration (`cargo bless`); `vctx limits` prints the\n\
         same. A limit with a setting can be changed in the configuration. A pair is a default and a\n\
         maximum, or a minimum and a maximum, as the text says.\n",
    );
    let mut from = "";
    for row in rows {
        if row.from != from {
            from = row.from;
            let _ = write!(
                text,
                "\n## {from}\n\n| Limit | Value | Unit | Bounds | Setting |\n|---|---|---|---|---|\n"
            );
        }
        let setting = row.setting.as_ref().map(|name| format!("`{name}`")).unwrap_or_default();
        let bounds = row.text.replace('|', "\\|");
        let (name, value, unit) = (&row.name, &row.value, row.unit);
        let _ = writeln!(text, "| `{name}` | {value} | {unit} | {bounds} | {setting} |");
    }
    text
}

/// Runs `vctx limits`; `more` as in [`rows`].
pub async fn run(limits: Limits, more: &[FileBounds]) -> Result<(), Failure> {
    let rows = rows(more);
    if limits.json {
        return rows.iter().try_for_each(|row| output::line(&row.json().to_string()));
    }
    let cells = |row: &Row| {
        let first = row.text.split(". ").next().unwrap_or_default().trim_end_matches('.');
        let bounds = output::cell(first, output::CELL_CHARS_MAX);
        let setting = row.setting.clone().unwrap_or_default();
        vec![row.name.clone(), row.value.clone(), row.unit.to_owned(), bounds, setting]
    };
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    output::line(&output::table(&["limit", "value", "unit", "bounds", "setting"], &[1], &cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_its_unit_and_its_setting() {
        let rows = rows(&[]);
        let row = |name: &str| rows.iter().find(|row| row.name == name).expect(name);
        let bound = row("BLOCKS_BYTES_MAX");
        assert_eq!((bound.value.as_str(), bound.unit), ("1048576", "bytes"));
        assert_eq!(bound.setting.as_deref(), Some("core.blocks_bytes_max"));
        assert_eq!(row("ANSWER_STALL_MS").unit, "ms");
        assert_eq!(row("BLOCKS_MAX").unit, "number");
        let setting = row("core.blocks_bytes_max");
        assert_eq!((setting.unit, setting.from), ("bytes", "configuration"));
        assert!(setting.text.starts_with("Maximum length of the texts"), "{}", setting.text);
        assert!(rows.iter().all(|row| !row.text.is_empty()), "a limit without a text");
    }
}
