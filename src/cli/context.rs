//! `vctx context`: prints the rendered window as a model sees it, with the window's token counts
//! and digest; or a context that is built for a question.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::context_picture;
use crate::exit::Failure;
use crate::output;
use crate::saved::save;
use crate::target::Target;
use crate::whose::Whose;

const EXAMPLES: &str = "\
Examples:
  vctx context --agent ada                          what the model sees
  vctx context --agent ada --manifest               the window's messages, with tokens and digests
  vctx context --agent ada --save receipt.json      keep the receipt; later: vctx verify --receipt receipt.json
  vctx context --agent ada --for \"Who is my dentist?\" --explain   what the memory says about it, and why";

/// Number of characters of a tool call's arguments.
const CALL_CHARS: usize = 200;

/// Print the rendered window
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Context {
    #[command(flatten)]
    whose: Whose,

    /// List the messages with their digests, instead of the text
    #[arg(long)]
    manifest: bool,

    /// Write the whole answer to a file, as a receipt for `vctx verify`, with a signed head of the
    /// agent's ledger
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Build a context for a question, instead of printing the window
    #[arg(long = "for", value_name = "QUESTION", conflicts_with_all = ["manifest", "save"])]
    question: Option<String>,

    /// Maximum number of tokens of the context
    #[arg(long, value_name = "TOKENS", requires = "question")]
    tokens_max: Option<u64>,

    /// Draw the window with the context in bars, instead of its text, and list the context's texts,
    /// those that were left out, and what each step did
    #[arg(long, requires = "question")]
    explain: bool,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx context`.
pub async fn run(context: Context) -> Result<(), Failure> {
    let client = context.target.client();
    if let Some(question) = &context.question {
        let body = json!({"question": question, "tokens_max": context.tokens_max,
            "explain": context.explain});
        let answer = client.build_context(&context.whose.agent()?, &body).await?;
        let text = if context.explain { context_picture::picture } else { built };
        return output::told(context.target.json, &answer, text);
    }
    let answer = match &context.save {
        Some(_) => client.receipt(&context.whose.agent()?).await?,
        None => client.context(&context.whose.agent()?).await?,
    };
    if let Some(path) = &context.save {
        save(path, &format!("{answer}\n"))?;
    }
    let text = if context.manifest { manifest } else { rendered };
    output::told(context.target.json, &answer, text)
}

/// Formats the messages of the rendered window as text, followed by the window's token counts and
/// digest.
pub fn rendered(answer: &Value) -> String {
    let mut parts: Vec<String> = output::list(answer, "/messages")
        .iter()
        .map(|message| {
            let name = output::field(message, "/name");
            let who = if name.is_empty() {
                String::new()
            } else {
                format!(" {}", output::cell(&name, output::CELL_CHARS_MAX))
            };
            let content = output::printable(&output::field(message, "/content"));
            let calls = output::list(message, "/tool_calls").iter().map(|call| {
                let text = |pointer: &str| output::cell(&output::field(call, pointer), CALL_CHARS);
                format!("→ {} {}", text("/function/name"), text("/function/arguments"))
            });
            let said: Vec<String> = std::iter::once(content).chain(calls).collect();
            format!("── {}{who} ──\n{}", output::field(message, "/role"), said.join("\n"))
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

/// Formats a built context as text, followed by its token counts.
fn built(answer: &Value) -> String {
    let text = output::printable(&output::field(answer, "/text"));
    let text = if text.is_empty() { "(nothing to add)".to_owned() } else { text };
    let (used, most) =
        (output::number(answer, "/tokens_used"), output::number(answer, "/tokens_max"));
    format!("{text}\n\n{used} of at most {most} tokens")
}

fn manifest(answer: &Value) -> String {
    let columns = ["/section", "/seq", "/role", "/tokens", "/id", "/digest"];
    let items = output::list(answer, "/manifest/items");
    let rows: Vec<Vec<String>> = items.iter().map(|item| output::fields(item, columns)).collect();
    let table =
        output::table(&["section", "seq", "role", "tokens", "id", "digest"], &[1, 3], &rows);
    let chain = format!(
        "hash chain of {} messages, head {}",
        output::field(answer, "/manifest/chain/length"),
        output::field(answer, "/manifest/chain/head")
    );
    format!("{table}\n\n{chain}\ncontext digest {}", output::field(answer, "/context_digest"))
}
