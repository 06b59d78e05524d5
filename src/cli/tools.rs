//! `vctx tools`: lists the tools, or prints the tools' schemas.

use clap::Args;
use serde_json::Value;

use crate::args;
use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use vctx_core::dialect::{Dialect, Format, Profile};

const EXAMPLES: &str = "\
Examples:
  vctx tools
  vctx tools --format json-schema > tools.json
  vctx tools --format openai-chat --strict
  vctx tools --format anthropic --dialect anthropic

Formats: json-schema, openai-chat, openai-responses, anthropic, mcp. Dialects: vctx (the server's own eleven tools), memgpt \
(core_memory_append, conversation_search, …), anthropic (the tool `memory` for blocks, and the server's own tools for everything else), \
ues (retrieve_from_ues for both searches, summarize_text, and the other tools of the server). The server accepts calls to the tools of every dialect: vctx tool NAME";

/// List the tools, or print their schemas
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Tools {
    /// Print the schemas in this format instead of a list
    #[arg(long, value_name = "FORMAT", value_parser = args::format)]
    format: Option<Format>,

    /// Dialect of the tools: vctx, memgpt, anthropic or ues
    #[arg(long, value_name = "DIALECT", default_value = "vctx", value_parser = args::dialect)]
    dialect: Dialect,

    /// Arguments in the schemas: full (all) or compact (those that a model needs); by default full
    /// for json-schema and compact for the formats of providers
    #[arg(long, value_name = "PROFILE", requires = "format", value_parser = args::profile)]
    profile: Option<Profile>,

    /// Print schemas for the provider's strict mode, which supports only a part of JSON Schema
    #[arg(long, requires = "format")]
    strict: bool,

    #[command(flatten)]
    pub target: Target,
}

/// Maximum number of characters that the list shows of a tool's description. The list shows only
/// the first sentence.
const FIRST_CHARS_MAX: usize = 150;

/// Runs `vctx tools`.
pub async fn run(tools: Tools) -> Result<(), Failure> {
    let format = tools.format.unwrap_or(Format::JsonSchema);
    let client = tools.target.client();
    let (dialect, profile) = (tools.dialect.text(), tools.profile.map(Profile::text));
    let answer = client.tools(dialect, format.text(), profile, tools.strict).await?;
    match (tools.format, tools.target.json) {
        (_, true) => output::value(&answer),
        (Some(Format::JsonSchema), false) => output::line(&output::pretty(&answer)),
        // The output contains only the list of tools, in the form that a request to a provider
        // needs.
        (Some(_), false) => output::line(&output::pretty(&answer["tools"])),
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
