//! Draws a built context for people: the window in bars, the texts that the context shows, the
//! texts that it leaves out, and what each step did.

use serde_json::Value;

use crate::output;

/// Columns of the picture, which is the width of a usual terminal.
const COLUMNS: usize = 80;
/// Length of the bar of a section that fills the window, in characters.
const BAR_CHARS: usize = 40;
/// Maximum number of characters of the source of a text.
const SOURCE_CHARS: usize = 26;
/// Number of texts that were left out that the picture names; `--json` names them all.
const LEFT_OUT_ROWS: usize = 15;
/// Number of characters of a step's name.
const STEP_CHARS: usize = 9;

/// Draws the answer of a build with `explain`.
pub(crate) fn picture(answer: &Value) -> String {
    let mut parts = vec![window(answer), shown(answer)];
    parts.extend(left_out(answer));
    parts.push(steps(answer));
    parts.join("\n\n")
}

/// Draws the sections of a prompt with the context.
fn window(answer: &Value) -> String {
    let items = output::list(answer, "/manifest/items");
    let of_context = items.iter().filter(|item| item["section"] == "context");
    let context: u64 = of_context.map(|item| output::number(item, "/tokens")).sum();
    let max = output::number(answer, "/manifest/policy/max");
    let of = |section: &str| match section {
        "context" => context,
        "free" => output::number(answer, "/tokens/free").saturating_sub(context),
        section => output::number(answer, &format!("/tokens/{section}")),
    };
    let used: u64 = output::sections().filter(|name| *name != "free").map(of).sum();
    let mut lines = vec![format!("prompt   {used} of {max} tokens, {}", share(used, max))];
    for section in output::sections().filter(|name| of(name) > 0 || *name == "free") {
        let tokens = of(section);
        let bar = output::bar(tokens, max, BAR_CHARS);
        let line = format!("{section:>8} {tokens:>8} {:>7}  {bar}", share(tokens, max));
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

fn share(tokens: u64, max: u64) -> String {
    format!("{:.1} %", tokens as f64 * 100.0 / max.max(1) as f64)
}

/// Draws the texts that the context shows, in its order.
fn shown(answer: &Value) -> String {
    let sections = output::list(answer, "/sections");
    let items: Vec<&Value> =
        sections.iter().flat_map(|section| output::list(section, "/items")).collect();
    let (used, most) =
        (output::number(answer, "/tokens_used"), output::number(answer, "/tokens_max"));
    let mut head = format!("context  {used} of at most {most} tokens");
    if let Some(ask) = answer["ask"].as_str() {
        head = format!("unclear  ask the user: {}\n{head}", output::printable(ask));
    }
    if items.is_empty() {
        let nothing = if used == 0 { "nothing to add" } else { "nothing was found" };
        return format!("{head}: {nothing}");
    }
    // The name and date of a short text can be longer than what is left out of it.
    if let Some(ratio) = answer["compression_ratio"].as_f64().filter(|ratio| *ratio < 1.0) {
        head.push_str(&format!(", {:.0} % of the texts' own", ratio * 100.0));
    }
    if let Some(grade) = answer["verdict"]["grade"].as_str() {
        let number = answer["verdict"]["number"].as_f64().unwrap_or_default();
        head.push_str(&format!("\nverdict  {grade}, {number:.2}"));
    }
    if let Some(pack) = answer["pack"].as_str() {
        head.push_str(&format!("\n   pack  {pack}"));
    }
    let parts = output::list(answer, "/intent/sub_questions");
    let rows: Vec<Vec<String>> = items
        .iter()
        .map(|item| {
            let (source, words) = source_and_words(item);
            let part = output::number(item, "/part") + 1;
            let part = if parts.len() > 1 { format!("for part {part}") } else { String::new() };
            vec![grade(item), output::field(item, "/tokens"), part, source, words]
        })
        .collect();
    let mut text =
        format!("{head}\n\n{}", table(["grade", "tokens", "", "source", "words"], &rows));
    if parts.len() > 1 {
        text.push('\n');
    }
    for (at, part) in parts.iter().enumerate().filter(|_| parts.len() > 1) {
        text.push_str(&cut(&format!("\n  part {}: {}", at + 1, clean(part, "/text"))));
    }
    text
}

/// Returns the source of a shown text with its date, and the text's first words.
fn source_and_words(item: &Value) -> (String, String) {
    let text = clean(item, "/text");
    // The context itself names source and date in brackets, if it has room for headings.
    let headed = text.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let (source, words) = match headed {
        Some((head, words)) => (head.to_owned(), words.to_owned()),
        None => (origin(item), text.clone()),
    };
    (output::cell(&source, SOURCE_CHARS), words)
}

/// Draws the texts that were left out; `None` if there are none.
fn left_out(answer: &Value) -> Option<String> {
    let all = output::list(answer, "/left_out");
    let row = |item: &Value| {
        let reason = reason(&output::field(item, "/reason"));
        vec![grade(item), String::new(), reason, output::cell(&origin(item), COLUMNS)]
    };
    let rows: Vec<Vec<String>> = all.iter().take(LEFT_OUT_ROWS).map(row).collect();
    let mut text = format!("left out\n\n{}", table(["grade", "", "why", "source"], &rows));
    if let Some(more @ 1..) = all.len().checked_sub(LEFT_OUT_ROWS) {
        text.push_str(&format!("\n  and {more} more, which --json names"));
    }
    (!all.is_empty()).then_some(text)
}

fn reason(word: &str) -> String {
    let told = match word {
        "in_window" => "in the window already",
        "repeated" => "says the same as another",
        "poor" => "grade too low",
        "no_room" => "no room",
        "quarantined" => "in quarantine",
        "tainted" => "reads like an instruction",
        other => other,
    };
    told.to_owned()
}

/// Draws the steps of the build, one line each.
fn steps(answer: &Value) -> String {
    let mut lines = vec!["steps".to_owned()];
    for step in output::list(answer, "/steps") {
        let name = output::field(step, "/step");
        lines.push(cut(&format!("  {name:<STEP_CHARS$}  {}", did(&name, step))));
    }
    let degraded = output::field(answer, "/degraded");
    if !degraded.is_empty() {
        lines.push(cut(&format!(
            "  {:<STEP_CHARS$}  without {degraded}, which failed or was missing",
            "degraded"
        )));
    }
    lines.join("\n")
}

/// Tells what a step did.
fn did(name: &str, step: &Value) -> String {
    let number = |field: &str| output::number(step, &format!("/{field}"));
    match name {
        "intent" => {
            let task = output::field(step, "/task").replace('_', " ");
            format!("a message of kind {task}, in {}", counted(number("parts"), "part"))
        }
        "check" => format!("{} to look for", counted(number("open"), "part")),
        "plan" => format!("round {}: {}", number("round") + 1, counted(number("looks"), "look")),
        "language" => "not English: by its words alone".to_owned(),
        "gather" => format!("{} found until now", counted(number("candidates"), "text")),
        "bridge" => format!("{} that good texts lead to", counted(number("further"), "question")),
        "compare" => format!("{} compared by meaning", counted(number("units"), "sentence")),
        "grade" => format!("{} with a good grade", counted(number("correct"), "text")),
        "condense" => format!("{} to choose from", counted(number("units"), "sentence")),
        "pack" => format!("{} of at most {} tokens filled", number("tokens"), number("tokens_max")),
        _ => {
            let fields = step.as_object().into_iter().flatten();
            let counts = fields.filter(|(field, _)| *field != "step");
            counts.map(|(field, count)| format!("{field} {count}")).collect::<Vec<_>>().join(", ")
        }
    }
}

fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn grade(item: &Value) -> String {
    item["grade"].as_f64().map(|grade| format!("{grade:.2}")).unwrap_or_default()
}

/// Names the place of a text: message, chunk or document.
fn origin(item: &Value) -> String {
    let of = |pointer: &str| clean(item, pointer);
    match of("/origin/store").as_str() {
        "recall" => format!("#{}", of("/origin/seq")),
        "archive" => format!("{} {}", of("/origin/doc_id"), of("/origin/chunk_id")),
        _ => of("/origin/id"),
    }
}

/// Formats rows as an indented table whose lines fit into the picture; the first two columns are
/// numbers.
fn table<const N: usize>(heads: [&str; N], rows: &[Vec<String>]) -> String {
    let text = output::table(&heads, &[0, 1], rows);
    let lines: Vec<String> = text.lines().map(|line| cut(&format!("  {line}"))).collect();
    lines.join("\n")
}

/// Returns a field of an answer as one line.
fn clean(value: &Value, pointer: &str) -> String {
    let words = output::field(value, pointer);
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    output::cell(&words, usize::MAX)
}

/// Cuts a line at the picture's width.
fn cut(line: &str) -> String {
    let (start, rest) = line.split_at(line.len() - line.trim_start_matches('\n').len());
    format!("{start}{}", output::cell(rest, COLUMNS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_build_is_a_picture_of_bars_and_rows_in_eighty_columns() {
        let long = "Soup ".repeat(40);
        let answer = json!({"tokens_used": 60, "tokens_max": 450, "compression_ratio": 0.5, "pack": "ab12",
            "tokens": {"system": 10, "fifo": 90, "free": 900, "occupancy": 100},
            "manifest": {"policy": {"max": 1000}, "items": [
                {"section": "fifo", "tokens": 90}, {"section": "context", "tokens": 64}]},
            "intent": {"sub_questions": [{"text": "Who is my dentist?"}, {"text": "What is a ticket?"}]},
            "sections": [
                {"name": "memory", "tokens": 30, "items": [{"origin": {"store": "recall", "seq": 3}, "part": 0,
                    "grade": 0.834, "tokens": 30, "text": format!("[#3 2026-11-03] user: Dr. Roe.\n  {long}")}]},
                {"name": "documents", "tokens": 30, "items": [{"origin": {"store": "document", "id": "7"}, "part": 1,
                    "grade": 1.0, "tokens": 30, "text": "Four euros.\u{1b}[31m"}]}],
            "left_out": [{"origin": {"store": "archive", "doc_id": "d.md", "chunk_id": "0001"}, "grade": 0.2, "reason": "no_room"}],
            "steps": [{"step": "intent", "task": "small_talk", "parts": 1}, {"step": "gather", "candidates": 2},
                {"step": "order", "moved": 4}],
            "verdict": {"grade": "ambiguous", "number": 0.456}, "degraded": "embedder"});
        let text = picture(&answer);
        for part in [
            "prompt   164 of 1000 tokens, 16.4 %",
            "    fifo       90   9.0 %  ███▋",
            " context       64   6.4 %  ██▋",
            "    free      836  83.6 %  █",
            "context  60 of at most 450 tokens, 50 % of the texts' own",
            "verdict  ambiguous, 0.46",
            "   0.83      30  for part 1  #3 2026-11-03  user: Dr. Roe. Soup",
            "   1.00      30  for part 2  7              Four euros. [31m",
            "  part 2: What is a ticket?",
            "   0.20    no room  d.md 0001",
            "  intent     a message of kind small talk, in 1 part",
            "  gather     2 texts found until now",
            "  order      moved 4",
            "  degraded   without embedder, which failed or was missing",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_build_that_shows_nothing_says_so_and_names_few_of_many_texts() {
        let left: Vec<Value> = (1..=40)
            .map(|seq| json!({"origin": {"store": "recall", "seq": seq}, "grade": 0.1, "reason": "poor"}))
            .collect();
        let answer = json!({"tokens_used": 0, "tokens_max": 450, "sections": [], "left_out": left,
            "route": "clarify_user", "ask": "Which kiwi?"});
        let text = picture(&answer);
        assert!(text.contains("unclear  ask the user: Which kiwi?\n"), "{text}");
        assert!(text.contains("context  0 of at most 450 tokens: nothing to add"), "{text}");
        assert_eq!(text.matches("grade too low").count(), LEFT_OUT_ROWS, "{text}");
        assert!(text.contains("  and 25 more, which --json names"), "{text}");
    }
}
