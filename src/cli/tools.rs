//! `vctx tools`: the tools and their schemas.

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::cli::exit::Failure;
use crate::cli::output;
use crate::cli::target::Target;

/// List the tools, or print their schemas
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  vctx tools\n  vctx tools --format json-schema > tools.json")]
pub(crate) struct Tools {
    /// Print the schemas in this format instead of a list
    #[arg(long, value_enum)]
    format: Option<Format>,

    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// JSON Schema of each tool's arguments
    JsonSchema,
}

/// Characters of a first sentence; a longer one is cut.
const FIRST_CHARS_MAX: usize = 150;

/// Runs the command.
pub(crate) async fn run(tools: Tools) -> Result<(), Failure> {
    let answer = tools.target.client().tools("json-schema").await?;
    match (tools.format, tools.target.json) {
        (Some(Format::JsonSchema), false) => output::line(&output::pretty(&answer)),
        (_, true) => output::value(&answer),
        (None, false) => output::line(&list(&answer)),
    }
}

fn list(answer: &Value) -> String {
    let tools = answer.get("tools").unwrap_or(answer).as_array().map_or(&[][..], Vec::as_slice);
    let rows: Vec<Vec<String>> = tools
        .iter()
        .map(|tool| {
            let text = output::field(tool, "/description");
            let first =
                text.split(". ").next().unwrap_or_default().trim_end_matches('.').to_string();
            vec![output::field(tool, "/name"), output::cell(&first, FIRST_CHARS_MAX)]
        })
        .collect();
    output::table(&["tool", "what it does"], &[], &rows)
}
