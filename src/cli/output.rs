//! What commands print: aligned tables, bars and JSON on stdout, where a closed pipe is no error.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::Value;

use crate::exit::Failure;

/// Columns of text shown when a cell would be longer.
pub const CELL_CHARS_MAX: usize = 72;

/// Writes a line to stdout; a reader that went away (`| head`) ends the output quietly.
pub fn line(text: &str) -> Result<(), Failure> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::writing("stdout", &error))
        }
        _ => Ok(()),
    }
}

/// Writes a text without ending its line; a reader that went away ends the output quietly.
pub fn piece(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::writing("stdout", &error))
        }
        _ => Ok(()),
    }
}

/// Writes a line over the one before at a terminal, or below it for a pipe.
pub fn progress(text: &str) -> Result<(), Failure> {
    if !io::stdout().is_terminal() {
        return line(text);
    }
    let mut out = io::stdout().lock();
    match write!(out, "\r\x1b[2K{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::writing("stdout", &error))
        }
        _ => Ok(()),
    }
}

/// Writes a JSON value: indented for a person at a terminal, one line for a pipe.
pub fn value(value: &Value) -> Result<(), Failure> {
    match io::stdout().is_terminal() {
        true => line(&pretty(value)),
        false => line(&value.to_string()),
    }
}

/// A JSON value over several lines.
pub fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a JSON value has only text as names")
}

/// Rows as aligned columns; columns named in `right` stand at the right edge, as numbers do.
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

/// A text as one cell: one line, cut with `…` where it is longer than `chars_max`; control characters do not reach a terminal.
pub fn cell(text: &str, chars_max: usize) -> String {
    let clean = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut out: String = clean.clone().take(chars_max).collect();
    if clean.count() > chars_max {
        out.pop();
        out.push('…');
    }
    out
}

/// A text for a terminal: line ends stay, other control characters do not.
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

/// A field as text: strings as they are, nothing for null.
pub fn field(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A field as a number, 0 when absent.
pub fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// `part` of `whole` as a bar of `cells` characters; more than nothing shows at least a sliver.
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

/// The sections of the window, in the order they are drawn.
pub const SECTIONS: [&str; 7] =
    ["system", "tools", "working", "summary", "notices", "fifo", "free"];

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
