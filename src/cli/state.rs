//! `vctx state`: shows the sections of an agent's window, and how full the window is.

use clap::Args;
use serde_json::Value;

use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::Whose;

/// Length of the bar for a section, in characters.
const BAR_CHARS: usize = 40;

/// Show an agent's window: sections, blocks, queue, summary
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  vctx state --agent ada\n  vctx state --agent ada --json | jq .tokens"
)]
pub struct State {
    #[command(flatten)]
    whose: Whose,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx state`.
pub async fn run(state: State) -> Result<(), Failure> {
    let answer = state.target.client().state(&state.whose.agent()?).await?;
    output::told(state.target.json, &answer, picture)
}

/// Formats an agent's state as text.
pub fn picture(state: &Value) -> String {
    let window = output::number(state, "/token_budget/max");
    let occupancy = output::number(state, "/tokens/occupancy");
    let share = occupancy as f64 * 100.0 / window.max(1) as f64;
    let field = |pointer: &str| output::field(state, pointer);
    let mut lines = vec![
        format!(
            "agent {}   revision {}   version {}",
            field("/agent"),
            field("/_rev"),
            field("/version")
        ),
        format!("window {window} tokens ({}), {occupancy} used: {share:.1} %", field("/encoding")),
        format!(
            "marks  target {}   warning {}   flush {}",
            field("/token_budget/target"),
            field("/token_budget/warning"),
            field("/token_budget/flush")
        ),
        String::new(),
    ];
    for section in output::sections() {
        let tokens = output::number(state, &format!("/tokens/{section}"));
        lines.push(
            format!("{section:>8} {:>8}  {}", tokens, output::bar(tokens, window, BAR_CHARS))
                .trim_end()
                .to_string(),
        );
    }
    lines.push(String::new());
    lines.push(format!(
        "queue  {} messages, {} to {}   flushes {}   warnings {}",
        field("/queue/count"),
        field("/queue/head_seq"),
        output::number(state, "/queue/next_seq").saturating_sub(1),
        field("/counters/flushes"),
        field("/counters/warnings")
    ));
    lines.push(format!(
        "chain  {} messages, head {}",
        field("/chain/length"),
        field("/chain/head")
    ));
    lines.extend(blocks(state));
    let warnings = output::list(state, "/warnings").iter().filter_map(Value::as_str);
    lines.extend(warnings.map(|text| format!("\nwarning: {}", output::printable(text))));
    let summary = field("/summary/content");
    if !summary.is_empty() {
        lines.push(format!(
            "\nsummary (revision {})\n{}",
            field("/summary/revision"),
            output::printable(&summary)
        ));
    }
    lines.join("\n")
}

fn blocks(state: &Value) -> Option<String> {
    let blocks = state.get("working_blocks")?.as_array().filter(|blocks| !blocks.is_empty())?;
    let rows: Vec<Vec<String>> = blocks
        .iter()
        .map(|block| {
            let pinned = if block["pinned"] == Value::Bool(true) { "pinned" } else { "" };
            let content = output::cell(&output::field(block, "/content"), output::CELL_CHARS_MAX);
            vec![
                output::field(block, "/id"),
                output::field(block, "/token_estimate"),
                pinned.into(),
                content,
            ]
        })
        .collect();
    Some(format!("\n{}", output::table(&["block", "tokens", "", "content"], &[1], &rows)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_picture_names_every_section_and_mark() {
        let state = json!({"agent": "ada", "_rev": "_r", "version": 3, "encoding": "o200k_base",
            "token_budget": {"warning": 70, "flush": 90, "target": 50, "max": 100},
            "working_blocks": [{"id": "persona", "content": "kind", "token_estimate": 4, "pinned": true}],
            "queue": {"head_seq": 2, "next_seq": 5, "count": 3, "tokens": 30}, "summary": {"content": "s", "token_estimate": 1, "revision": 1},
            "chain": {"head": "abc", "length": 4}, "counters": {"flushes": 1, "warnings": 2},
            "tokens": {"system": 10, "working": 4, "fifo": 30, "summary": 1, "notices": 0, "free": 55, "occupancy": 45}});
        let text = picture(&state);
        for part in [
            "window 100 tokens (o200k_base), 45 used: 45.0 %",
            "target 50   warning 70   flush 90",
            "    fifo       30",
            "3 messages, 2 to 4",
            "4 messages, head abc",
            "persona       4  pinned  kind",
            "summary (revision 1)\ns",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
}
