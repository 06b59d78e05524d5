//! `vctx context`: the rendered window, as a model would see it, with its receipt.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::exit::Failure;
use crate::output;
use crate::saved::save;
use crate::target::Target;

const EXAMPLES: &str = "\
Examples:
  vctx context --agent ada                          what the model sees
  vctx context --agent ada --manifest               which items stand in it, with tokens and digests
  vctx context --agent ada --save receipt.json      keep the receipt; later: vctx verify --receipt receipt.json";

/// Print the rendered window
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Context {
    /// The agent
    #[arg(long)]
    agent: String,

    /// List the items instead of the text
    #[arg(long)]
    manifest: bool,

    /// Write the whole answer to a file, as a receipt for `vctx verify`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    #[command(flatten)]
    pub target: Target,
}

/// Runs the command.
pub async fn run(context: Context) -> Result<(), Failure> {
    let answer = context.target.client().context(&context.agent).await?;
    if let Some(path) = &context.save {
        save(path, &format!("{answer}\n"))?;
    }
    match (context.target.json, context.manifest) {
        (true, _) => output::value(&answer),
        (false, true) => output::line(&manifest(&answer)),
        (false, false) => output::line(&rendered(&answer)),
    }
}

/// The messages as text, and the digest that stands for them.
pub fn rendered(answer: &Value) -> String {
    let messages = answer.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut parts: Vec<String> = messages
        .iter()
        .map(|message| {
            let name = output::field(message, "/name");
            let who = if name.is_empty() {
                String::new()
            } else {
                format!(" {}", output::cell(&name, output::CELL_CHARS_MAX))
            };
            format!(
                "── {}{who} ──\n{}",
                output::field(message, "/role"),
                output::printable(&output::field(message, "/content"))
            )
        })
        .collect();
    let (occupancy, free) =
        (output::number(answer, "/tokens/occupancy"), output::number(answer, "/tokens/free"));
    parts.push(format!(
        "{occupancy} tokens, {free} free · context digest {}",
        output::field(answer, "/context_digest")
    ));
    parts.join("\n\n")
}

fn manifest(answer: &Value) -> String {
    let items =
        answer.pointer("/manifest/items").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let rows: Vec<Vec<String>> = items
        .iter()
        .map(|item| {
            ["/section", "/seq", "/role", "/tokens", "/id", "/digest"]
                .map(|pointer| output::field(item, pointer))
                .to_vec()
        })
        .collect();
    let table =
        output::table(&["section", "seq", "role", "tokens", "id", "digest"], &[1, 3], &rows);
    let chain = format!(
        "chain of {} messages, head {}",
        output::field(answer, "/manifest/chain/length"),
        output::field(answer, "/manifest/chain/head")
    );
    format!("{table}\n\n{chain}\ncontext digest {}", output::field(answer, "/context_digest"))
}
