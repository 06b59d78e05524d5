//! `vctx tool`: makes one tool call.

use clap::Args;
use serde_json::Value;

use crate::args;
use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::Whose;
use vctx_client::Write;
use vctx_core::tools::{Access, Tool as Named, look_only, told_answer};

/// Returns example command lines, with one call to each tool.
fn examples() -> String {
    let call = |tool: &Named| {
        let (spec, card) = (tool.spec(), tool.card());
        let rev = if spec.access == Access::Write { "--rev '*' " } else { "" };
        format!("  vctx tool {:<16} --agent ada {rev}--args '{}'", spec.name, card.example)
    };
    let calls: Vec<String> = Named::ALL.iter().map(call).collect();
    format!(
        "Examples:\n{}\n  vctx tool {:<16} --agent ada --rev '*' --args @message.json --key 7f3a   the key makes it safe to repeat\n\n\
        Other users of the machine can see arguments (`ps`): give texts by @FILE or -. A tool that is shown without --rev needs none. The schemas of all tools: vctx tools --format json-schema",
        calls.join("\n"),
        Named::AppendFifo.spec().name,
    )
}

/// Call a tool
#[derive(Debug, Args)]
#[command(after_help = examples(), allow_missing_positional = true)]
pub struct Tool {
    #[command(flatten)]
    whose: Whose,

    /// Name of the tool, as `vctx tools` lists it
    name: String,

    /// Arguments as JSON, @FILE, or - for stdin
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,

    /// Idempotency key: repeated calls with the same key take effect once [default: a new key]
    #[arg(long)]
    key: Option<String>,

    /// Revision that the call builds on (the document's revision for ingest_archival); '*' accepts
    /// any revision
    #[arg(long, value_name = "REV")]
    rev: Option<String>,

    /// Print what a model reads: the result as a short text
    #[arg(long, conflicts_with = "json")]
    text: bool,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx tool`.
pub async fn run(tool: Tool) -> Result<(), Failure> {
    let agent = tool.whose.agent()?;
    let mut arguments = args::json("--args", &tool.args)?;
    if let Value::Object(arguments) = &mut arguments {
        look_only(&tool.name, arguments);
    }
    let mut write = Write::new(tool.rev.clone());
    // If the tool's arguments contain an idempotency key, the request header must contain the same
    // key.
    let among = arguments.get("idempotency_key").and_then(Value::as_str).map(str::to_string);
    if let Some(key) = tool.key.clone().or(among) {
        write.key = key;
    }
    let called = tool.target.client().tool(&agent, &tool.name, &arguments, &write).await;
    let answer = called.map_err(|problem| {
        let failure = Failure::repeatable(problem, "call", &write.key);
        match failure.code.as_str() {
            "INVALID_ARGUMENT" => {
                failure.next("read the schema of the tool with: vctx tools --format json-schema")
            }
            _ => failure,
        }
    })?;
    if tool.target.json {
        return output::value(&answer);
    }
    if tool.text {
        return output::line(&told_answer(&tool.name, &answer));
    }
    output::line(&output::pretty(&answer["result"]))?;
    output::line(&summary(&answer))
}

/// Formats, on one line, the fields that every tool's answer contains.
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
