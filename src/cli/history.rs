//! `vctx history`: what stood in an agent's working memory, copy by copy, whenever one of its texts changed.

use clap::Args;
use serde_json::Value;

use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use vctx_core::limits::HISTORY_PAGE;

const EXAMPLES: &str = "\
Examples:
  vctx history --agent ada                    the first 20 copies: which texts each held
  vctx history --agent ada --from 40 --limit 1 --json | jq .working_blocks
  vctx history --agent ada --json             one copy per line";

/// Show earlier states of the working memory: system text, blocks, summary
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct History {
    /// The agent
    #[arg(long)]
    agent: String,

    /// Version of the first copy
    #[arg(long, value_name = "VERSION", default_value_t = 1)]
    from: u64,

    /// How many copies at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u64,

    #[command(flatten)]
    pub target: Target,
}

/// Runs the command.
pub async fn run(asked: History) -> Result<(), Failure> {
    let client = asked.target.client();
    let (mut from, mut left) = (asked.from, asked.limit);
    let mut rows = Vec::new();
    while left > 0 {
        let (page, next) = client.history(&asked.agent, from, left.min(HISTORY_PAGE.1)).await?;
        left = left.saturating_sub(page.len() as u64);
        for copy in &page {
            match asked.target.json {
                true => output::line(&copy.to_string())?,
                false => rows.push(row(copy)),
            }
        }
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    if asked.target.json {
        return Ok(());
    }
    output::line(&output::table(&["version", "when", "summary", "blocks"], &[0], &rows))
}

/// One copy: its blocks by name with the beginning of each, and which summary stood there.
fn row(copy: &Value) -> Vec<String> {
    let blocks = copy["working_blocks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let blocks: Vec<String> = blocks
        .iter()
        .map(|block| {
            let content = output::cell(&output::field(block, "/content"), BLOCK_CHARS_MAX);
            format!("{}: {content}", output::field(block, "/id"))
        })
        .collect();
    vec![
        output::field(copy, "/version"),
        output::field(copy, "/ts"),
        output::field(copy, "/queue_head_summary/revision"),
        output::cell(&blocks.join(" | "), output::CELL_CHARS_MAX),
    ]
}

/// Characters of one block in the table.
const BLOCK_CHARS_MAX: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_copy_is_one_line() {
        let copy = json!({"version": 7, "ts": "t", "queue_head_summary": {"revision": 2},
            "working_blocks": [{"id": "human", "content": "Likes\ntea."}, {"id": "plan", "content": "Sail."}]});
        assert_eq!(row(&copy), ["7", "t", "2", "human: Likes tea. | plan: Sail."]);
    }
}
