//! Prints aligned tables, bars and JSON on stdout; a closed pipe is no error.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::Value;

use crate::exit::Failure;
use vctx_client::Problem;
use vctx_core::window::Section;

/// Maximum number of characters of a table cell.
pub const CELL_CHARS_MAX: usize = 72;

/// Writes a line to stdout; a closed pipe (`| head`) is no error.
pub fn line(text: &str) -> Result<(), Failure> {
    written(writeln!(io::stdout().lock(), "{text}"))
}

/// Writes a line to stdout. Returns `false` if the pipe is closed, so that no reader is left.
pub fn open_line(text: &str) -> Result<bool, Failure> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        done => written(done).map(|()| true),
    }
}

fn written(done: io::Result<()>) -> Result<(), Failure> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::writing("stdout", &error))
        }
        _ => Ok(()),
    }
}

/// Reads a list page by page, up to `limit` items. With `json`, prints each item as a line of JSON;
/// otherwise returns each item as a table row.
pub async fn rows(
    json: bool,
    (mut from, mut limit): (u64, u64),
    page_max: u64,
    page: impl AsyncFn(u64, u64) -> Result<(Vec<Value>, Option<u64>), Problem>,
    row: impl Fn(&Value) -> Vec<String>,
) -> Result<Vec<Vec<String>>, Failure> {
    let mut rows = Vec::new();
    while limit > 0 {
        let (entries, next) = page(from, limit.min(page_max)).await?;
        limit = limit.saturating_sub(entries.len() as u64);
        for entry in &entries {
            match json {
                true => line(&entry.to_string())?,
                false => rows.push(row(entry)),
            }
        }
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(rows)
}

/// Writes a text and adds no line end; a closed pipe is no error.
pub fn piece(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    written(write!(out, "{text}").and_then(|()| out.flush()))
}

/// Writes a line to stdout; at a terminal, the line replaces the previous line.
pub fn progress(text: &str) -> Result<(), Failure> {
    if !io::stdout().is_terminal() {
        return line(text);
    }
    piece(&format!("\r\x1b[2K{text}"))
}

/// Writes a JSON value: indented at a terminal, on one line for a pipe.
pub fn value(value: &Value) -> Result<(), Failure> {
    match io::stdout().is_terminal() {
        true => line(&pretty(value)),
        false => line(&value.to_string()),
    }
}

/// Prints an answer as JSON, or as text for people.
pub fn told(
    json: bool,
    answer: &Value,
    text: impl FnOnce(&Value) -> String,
) -> Result<(), Failure> {
    if json { value(answer) } else { line(&text(answer)) }
}

/// Formats a JSON value over several lines.
pub fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a JSON value has only text as names")
}

/// Formats table rows as aligned columns; the columns in `right` are right-aligned.
pub fn table(heads: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = heads.iter().map(|head| width(head)).collect();
    for row in rows {
        for (column, cell) in row.iter().enumerate().take(widths.len()) {
            widths[column] = widths[column].max(width(cell));
        }
    }
    let heads: Vec<String> = heads.iter().map(|head| head.to_string()).collect();
    let lines = std::iter::once(&heads).chain(rows);
    lines.map(|row| aligned(row, &widths, right)).collect::<Vec<_>>().join("\n")
}

fn aligned(row: &[String], widths: &[usize], right: &[usize]) -> String {
    let mut out = String::new();
    for (column, cell) in row.iter().enumerate() {
        let pad = " ".repeat(widths.get(column).copied().unwrap_or(0).saturating_sub(width(cell)));
        match right.contains(&column) {
            true => out.push_str(&format!("{pad}{cell}  ")),
            false => out.push_str(&format!("{cell}{pad}  ")),
        }
    }
    out.trim_end().to_string()
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Returns a text as one line without control characters; a text longer than `chars_max` characters
/// is truncated and ends with `…`.
pub fn cell(text: &str, chars_max: usize) -> String {
    let clean = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut out: String = clean.clone().take(chars_max).collect();
    if clean.count() > chars_max {
        out.pop();
        out.push('…');
    }
    out
}

/// Returns a text for a terminal, without control characters except line ends.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|letter| {
            if letter.is_control() && letter != '\n' && letter != '\t' {
                '\u{fffd}'
            } else {
                letter
            }
        })
        .collect()
}

/// Returns a JSON field as text: strings without quotes, an empty text for null.
pub fn field(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Returns several JSON fields as a table row.
pub fn fields<const N: usize>(value: &Value, pointers: [&str; N]) -> Vec<String> {
    pointers.map(|pointer| field(value, pointer)).to_vec()
}

/// Returns a JSON field as a list; empty if the field is absent.
pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the texts of a JSON list, separated by commas.
pub fn texts(value: &Value) -> String {
    let texts: Vec<&str> = list(value, "").iter().filter_map(Value::as_str).collect();
    texts.join(", ")
}

/// Returns a JSON field as a number; 0 if the field is absent.
pub fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// Draws `part` of `whole` as a bar of `cells` characters; a part above 0 is always visible.
pub fn bar(part: u64, whole: u64, cells: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths =
        (part.min(whole) as u128 * cells as u128 * 8).div_ceil(u128::from(whole.max(1))) as usize;
    let mut out = "█".repeat(eighths / 8);
    out.push_str(EIGHTHS[eighths % 8]);
    let used = eighths.div_ceil(8);
    out.push_str(&" ".repeat(cells.saturating_sub(used)));
    out
}

/// Returns the names of the window's sections in the order in which they are drawn, and `free` at
/// the end.
pub fn sections() -> impl Iterator<Item = &'static str> {
    Section::drawn().map(Section::name).chain(["free"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let rows = [vec!["1".to_string(), "ä".to_string()], vec!["10".to_string(), String::new()]];
        assert_eq!(table(&["seq", "text"], &[0], &rows), "seq  text\n  1  ä\n 10");
    }

    #[test]
    fn cells_are_one_line_without_control_characters() {
        assert_eq!(cell("a\nb\u{1b}[31m", 20), "a b [31m");
        assert_eq!(cell("abcdef", 4), "abc…");
        assert_eq!(cell("abcd", 4), "abcd");
        assert_eq!(printable("a\n\u{1b}b"), "a\n\u{fffd}b");
    }

    #[test]
    fn bars_fill_their_cells_and_never_more() {
        assert_eq!(bar(0, 10, 4), "    ");
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(20, 10, 4), "████");
        assert_eq!(bar(1, 1000, 4), "▏   ");
        assert_eq!(bar(5, 10, 3), "█▌ ");
        assert_eq!(bar(5, 0, 2), "  ");
    }
}
