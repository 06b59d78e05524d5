//! Pieces of HTML that all sections of the page use: escaped texts, tables, folded parts, and
//! numbers as people read them.

/// Wraps a part of the page with its heading.
pub(super) fn section(title: &str, body: &str) -> String {
    format!("<section><h2>{title}</h2>{body}</section>")
}

/// Returns a paragraph of small print.
pub(super) fn note(text: &str) -> String {
    format!("<p class=\"quiet\">{}</p>", escaped(text))
}

/// Returns a part of the page that a reader opens.
pub(super) fn folded(title: &str, body: &str) -> String {
    format!("<details><summary>{}</summary>{body}</details>", escaped(title))
}

/// Returns a table whose cells are texts; a table without rows becomes the sentence `empty`.
pub(super) fn table(heads: &[&str], rows: &[Vec<String>], empty: &str) -> String {
    table_of("", heads, rows, empty)
}

/// Returns a table in which all columns but the first contain numbers.
pub(super) fn numbers(heads: &[&str], rows: &[Vec<String>], empty: &str) -> String {
    table_of(" class=\"numbers\"", heads, rows, empty)
}

fn table_of(class: &str, heads: &[&str], rows: &[Vec<String>], empty: &str) -> String {
    if rows.is_empty() {
        return note(empty);
    }
    let row = |row: &Vec<String>| -> String {
        let cells: String = row.iter().map(|c| format!("<td>{}</td>", escaped(c))).collect();
        format!("<tr>{cells}</tr>")
    };
    let body: String = rows.iter().map(row).collect();
    scrolled(heads.first().unwrap_or(&""), &format!("<table{class}>{}{body}</table>", head(heads)))
}

/// Returns the heading row of a table.
pub(super) fn head(heads: &[&str]) -> String {
    let cells: String =
        heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escaped(head))).collect();
    format!("<tr>{cells}</tr>")
}

/// Encloses a table that may be wider than a phone: the table scrolls, by keyboard too, and the
/// page does not.
pub(super) fn scrolled(name: &str, table: &str) -> String {
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"table: {}\">{table}</div>",
        escaped(name)
    )
}

/// Returns the first characters of a hash or id.
pub(super) fn short(id: &str) -> String {
    id.chars().take(12).collect()
}

/// Returns the minute of an ISO 8601 time, as `2026-01-31 12:00`.
pub(super) fn minute(ts: &str) -> String {
    ts.get(..16).map_or_else(|| ts.to_owned(), |minute| minute.replace('T', " "))
}

/// Returns the second of an ISO 8601 time, as `2026-01-31 12:00:59`.
pub(super) fn second(ts: &str) -> String {
    ts.get(..19).map_or_else(|| ts.to_owned(), |second| second.replace('T', " "))
}

/// Returns a number with a comma before each group of three digits.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns the name of a section of the window as people read it: the queue and the blocks have
/// other names in answers.
pub(super) fn section_name(name: &str) -> &str {
    match name {
        "fifo" => "queue",
        "working" => "blocks",
        name => name,
    }
}

/// Returns `1 message`, `2 messages`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
}

/// Returns a share in percent.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

/// Returns a share as text, as `12.5 %`, whose space does not break.
pub(super) fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}\u{a0}%", share(part, whole))
}

/// Escapes a text for HTML, also within attributes. Characters that HTML does not allow, and those
/// that turn the direction of the text around them, are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_texts_are_escaped() {
        let shown = [0, 999, 1_000, 12_345, 1_234_567].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "12,345", "1,234,567"]);
        assert_eq!((counted(1, "row"), counted(2, "row")), ("1 row".into(), "2 rows".into()));
        assert_eq!((percent(1, 8), percent(1, 0)), ("12.5\u{a0}%".into(), "0.0\u{a0}%".into()));
        assert_eq!(minute("2026-01-31T12:00:59.000Z"), "2026-01-31 12:00");
        assert_eq!(second("2026-01-31T12:00:59.000Z"), "2026-01-31 12:00:59");
        assert_eq!(
            escaped("<a href='x'>\"&\u{1b}\u{202e}\n"),
            "&lt;a href=&#39;x&#39;&gt;&quot;&amp;\u{fffd}\u{fffd}\n"
        );
    }
}
