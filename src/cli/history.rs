//! `vctx history`: lists the states of an agent's system text, blocks and summary, one for each
//! change of these texts.

use clap::Args;
use serde_json::Value;

use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::Whose;
use vctx_core::limits::HISTORY_PAGE;

const EXAMPLES: &str = "\
Examples:
  vctx history --agent ada                    the first 20 states, with the texts of each
  vctx history --agent ada --from 40 --limit 1 --json | jq .working_blocks
  vctx history --agent ada --json             one state per line";

/// Show earlier states of the core memory: system text, blocks, summary
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct History {
    #[command(flatten)]
    whose: Whose,

    /// Version of the first state to list
    #[arg(long, value_name = "VERSION", default_value_t = 1)]
    from: u64,

    /// Maximum number of states to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u64,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx history`.
pub async fn run(history: History) -> Result<(), Failure> {
    let (client, json) = (history.target.client(), history.target.json);
    let agent = history.whose.agent()?;
    let page = async |from, limit| client.history(&agent, from, limit).await;
    let part = (history.from, history.limit);
    let rows = output::rows(json, part, HISTORY_PAGE.1, page, row).await?;
    if json {
        return Ok(());
    }
    output::line(&output::table(&["version", "when", "summary", "blocks"], &[0], &rows))
}

/// Returns the table row of one recorded state of the core: version, time, revision of the summary,
/// and the beginning of each block's text.
fn row(copy: &Value) -> Vec<String> {
    let blocks: Vec<String> = output::list(copy, "/working_blocks")
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

/// Maximum number of characters of a block's text that the table shows.
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
