//! `vctx messages`: lists all messages of an agent, in order.

use clap::Args;
use serde_json::Value;

use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::Whose;
use vctx_client::MESSAGES_PER_PAGE_MAX;

const EXAMPLES: &str = "\
Examples:
  vctx messages --agent ada                       the first 50
  vctx messages --agent ada --from 200 --limit 20
  vctx messages --agent ada --limit 100000 --json one message per line";

/// List messages, including evicted messages
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Messages {
    #[command(flatten)]
    whose: Whose,

    /// Sequence number of the first message
    #[arg(long, value_name = "SEQ", default_value_t = 1)]
    from: u64,

    /// Maximum number of messages to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,

    /// Show the texts of messages in quarantine, too
    #[arg(long)]
    originals: bool,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx messages`.
pub async fn run(messages: Messages) -> Result<(), Failure> {
    let (client, json) = (messages.target.client(), messages.target.json);
    let agent = messages.whose.agent()?;
    let page = async |from, limit| match messages.originals {
        true => client.original_messages(&agent, from, limit).await,
        false => client.messages(&agent, from, limit).await,
    };
    let part = (messages.from, messages.limit);
    let rows = output::rows(json, part, MESSAGES_PER_PAGE_MAX, page, row).await?;
    if json {
        return Ok(());
    }
    output::line(&output::table(
        &["seq", "kind", "role", "tokens", "where", "content"],
        &[0, 3],
        &rows,
    ))
}

fn row(message: &Value) -> Vec<String> {
    let batch = output::field(message, "/evicted_batch_id");
    let expired = message["expired_at"].is_string();
    let place = match (message["in_queue"] == Value::Bool(true), batch.is_empty()) {
        (true, _) => "queue".to_string(),
        (false, false) => format!("evicted {}", output::cell(&batch, 8)),
        (false, true) if expired => "expired".to_string(),
        (false, true) => "-".to_string(),
    };
    let content = output::cell(&output::field(message, "/content"), output::CELL_CHARS_MAX);
    let mut row = output::fields(message, ["/seq", "/kind", "/role", "/token_estimate"]);
    row.extend([place, content]);
    row
}
