//! The forms in which providers and protocols take tools.

use serde_json::{Value, json};

use super::anthropic::MEMORY;
use super::offer::Offered;
use super::strict;
use crate::error::{Error, Result};

/// Anthropic's own name of its `memory` tool: its models know its arguments, so that no schema is sent (Anthropic API, `tools`).
const MEMORY_TYPE: &str = "memory_20250818";

/// A form of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Name, description and schema, in nobody's form.
    JsonSchema,
    /// `tools` of OpenAI's chat completions.
    OpenaiChat,
    /// `tools` of OpenAI's responses.
    OpenaiResponses,
    /// `tools` of Anthropic's messages.
    Anthropic,
    /// `tools` of the answer to `tools/list` of the Model Context Protocol.
    Mcp,
}

impl Format {
    /// All of them.
    pub const ALL: &'static [Self] =
        &[Self::JsonSchema, Self::OpenaiChat, Self::OpenaiResponses, Self::Anthropic, Self::Mcp];

    /// Its name outside.
    pub fn text(self) -> &'static str {
        match self {
            Self::JsonSchema => "json-schema",
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Mcp => "mcp",
        }
    }

    /// The format of that name.
    pub fn named(name: &str) -> Result<Self> {
        let known = Self::ALL.iter().copied().find(|format| format.text() == name);
        known.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|format| format.text()).collect();
            Error::argument("format", format!("use one of {}", names.join(", ")))
        })
    }

    /// One tool in this form.
    pub fn tool(self, tool: &Offered, strict: bool) -> Value {
        let (name, description) = (tool.name, tool.description);
        let schema = match (self, strict) {
            (_, false) => tool.input.clone(),
            (Self::Anthropic, true) => strict::anthropic(&tool.input),
            (_, true) => strict::openai(&tool.input),
        };
        let mut told = match self {
            Self::JsonSchema => {
                json!({"name": name, "description": description, "parameters": schema})
            }
            Self::OpenaiChat => {
                let function =
                    json!({"name": name, "description": description, "parameters": schema});
                json!({"type": "function", "function": function})
            }
            // This form is strict unless it says otherwise.
            Self::OpenaiResponses => {
                json!({"type": "function", "name": name, "description": description,
                "parameters": schema, "strict": strict})
            }
            Self::Anthropic if name == MEMORY => json!({"type": MEMORY_TYPE, "name": name}),
            Self::Anthropic => {
                json!({"name": name, "description": description, "input_schema": schema})
            }
            Self::Mcp => json!({
                "name": name, "title": tool.title, "description": description, "inputSchema": schema, "outputSchema": tool.output,
                "annotations": {"title": tool.title, "readOnlyHint": tool.reads_only, "destructiveHint": tool.destructive,
                    "idempotentHint": tool.idempotent, "openWorldHint": false},
            }),
        };
        match self {
            Self::OpenaiChat if strict => told["function"]["strict"] = true.into(),
            Self::Anthropic if strict => told["strict"] = true.into(),
            _ => {}
        }
        told
    }
}
