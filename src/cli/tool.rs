//! `vctx tool`: one tool call.

use clap::Args;
use serde_json::Value;

use crate::args;
use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use vctx_client::Write;

const EXAMPLES: &str = "\
Examples:
  vctx tool store_core       --agent ada --rev '*' --args '{\"block_id\": \"human\", \"content\": \"Likes sailing.\"}'
  vctx tool fetch_core       --agent ada --args '{\"block_id\": \"human\"}'
  vctx tool append_fifo      --agent ada --rev '*' --args '{\"message\": \"Hello\", \"role\": \"user\"}'
  vctx tool evict_fifo       --agent ada --rev '*' --args '{\"target_tokens\": 2000}'
  vctx tool search_recall    --agent ada --args '{\"query\": \"blue boat\"}'
  vctx tool write_recall     --agent ada --rev '*' --args '{\"entries\": [{\"content\": \"The boat lies at pier 4.\"}]}'
  vctx tool search_archival  --agent ada --args '{\"query_text\": \"when does the ferry leave\"}'
  vctx tool ingest_archival  --agent ada --rev '*' --args '{\"doc_id\": \"tides.md\", \"chunks\": [\"The ferry leaves at ebb.\"]}'
  vctx tool record_heartbeat --agent ada --args '{\"state\": \"continue\"}'
  vctx tool trace_memory     --agent ada --args '{\"from\": \"17\", \"follow\": [\"cites\", \"around\"]}'
  vctx tool append_fifo      --agent ada --rev '*' --args @message.json --key 7f3a   the key makes it safe to repeat

Searches and record_heartbeat need no --rev. The schemas of all tools: vctx tools --format json-schema";

/// Call a tool
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Tool {
    /// Name of the tool, as `vctx tools` lists it
    name: String,

    /// The agent whose memory it works on
    #[arg(long)]
    agent: String,

    /// Arguments as JSON, @FILE, or - for stdin
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,

    /// Idempotency key: the same call with the same key has its effect once [default: a fresh one]
    #[arg(long)]
    key: Option<String>,

    /// Revision the call builds on (of the document for ingest_archival); '*' accepts any
    #[arg(long, value_name = "REV")]
    rev: Option<String>,

    #[command(flatten)]
    pub target: Target,
}

/// Runs the command.
pub async fn run(tool: Tool) -> Result<(), Failure> {
    let arguments = args::json("--args", &tool.args)?;
    let mut write = Write::new(tool.rev.clone());
    // A key among the arguments is the call's key; the header must not say another.
    let among = arguments.get("idempotency_key").and_then(Value::as_str).map(str::to_string);
    if let Some(key) = tool.key.clone().or(among) {
        write.key = key;
    }
    let answer =
        tool.target.client().tool(&tool.agent, &tool.name, &arguments, &write).await.map_err(
            |problem| {
                let repeat = problem.is_passing();
                let failure = Failure::from(problem);
                match repeat {
                    true => failure.next(format!("repeat the call with --key {}", write.key)),
                    false => failure,
                }
            },
        )?;
    if tool.target.json {
        return output::value(&answer);
    }
    output::line(&output::pretty(&answer["result"]))?;
    output::line(&summary(&answer))
}

/// What every tool answer says beside its result, in one line.
fn summary(answer: &Value) -> String {
    let mut parts = vec![format!("rev {}", output::field(answer, "/_rev"))];
    let occupancy = output::number(answer, "/tokens/occupancy");
    parts.push(format!("occupancy {occupancy} ({} free)", output::number(answer, "/tokens/free")));
    parts.push(format!("pressure {}", output::field(answer, "/pressure")));
    if let Some(seq) = answer.pointer("/receipt/seq") {
        parts.push(format!("message {seq}"));
    }
    if let Some(count) = answer.pointer("/flush/evicted_count") {
        parts.push(format!("evicted {count} messages"));
    }
    if answer["replayed"] == Value::Bool(true) {
        parts.push("replayed: an earlier call with this key did it".into());
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_line_tells_revision_room_and_what_happened() {
        let answer = json!({"_rev": "_r1", "pressure": "ok", "tokens": {"occupancy": 4000, "free": 4192}, "replayed": true,
            "receipt": {"seq": 7}, "flush": {"evicted_count": 12}});
        assert_eq!(
            summary(&answer),
            "rev _r1 · occupancy 4000 (4192 free) · pressure ok · message 7 · evicted 12 messages · replayed: an earlier call with this key did it"
        );
        assert_eq!(
            summary(&json!({"_rev": "x", "pressure": "ok", "flush": null})),
            "rev x · occupancy 0 (0 free) · pressure ok"
        );
    }
}
