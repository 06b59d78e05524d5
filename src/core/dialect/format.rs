//! The formats in which model providers and MCP expect tool definitions.

use serde_json::{Value, json};

use super::anthropic::MEMORY;
use super::offer::{OfferedTool, without_descriptions};
use super::strict;
use crate::error::{Error, Result};

/// Type of Anthropic's built-in `memory` tool; Anthropic's models know the tool's arguments, so no
/// schema is sent.
const MEMORY_TYPE: &str = "memory_20250818";

/// A format of tool definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Name, description and JSON Schema, for any provider.
    JsonSchema,
    /// The `tools` of a request to OpenAI's chat completions API.
    OpenaiChat,
    /// The `tools` of a request to OpenAI's responses API.
    OpenaiResponses,
    /// The `tools` of a request to Anthropic's messages API.
    Anthropic,
    /// The `tools` in a `tools/list` answer of the Model Context Protocol.
    Mcp,
}

/// Which arguments a tool's schema contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// All arguments, with defaults and bounds, for programs and people.
    Full,
    /// The arguments that a model needs, with few words. The server accepts all arguments anyway.
    Compact,
}

impl Profile {
    /// All profiles.
    pub const ALL: &'static [Self] = &[Self::Full, Self::Compact];

    /// Returns the name of the profile in calls and answers.
    pub fn text(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Compact => "compact",
        }
    }

    /// Returns the profile with the given name.
    pub fn by_name(name: &str) -> Result<Self> {
        let known = Self::ALL.iter().copied().find(|profile| profile.text() == name);
        known.ok_or_else(|| Error::argument("profile", "use full or compact"))
    }
}

impl Format {
    /// All formats.
    pub const ALL: &'static [Self] =
        &[Self::JsonSchema, Self::OpenaiChat, Self::OpenaiResponses, Self::Anthropic, Self::Mcp];

    /// Returns the name of the format in calls and answers.
    pub fn text(self) -> &'static str {
        match self {
            Self::JsonSchema => "json-schema",
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Mcp => "mcp",
        }
    }

    /// Returns the format with the given name.
    pub fn by_name(name: &str) -> Result<Self> {
        let known = Self::ALL.iter().copied().find(|format| format.text() == name);
        known.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|format| format.text()).collect();
            Error::argument("format", format!("use one of {}", names.join(", ")))
        })
    }

    /// Returns the profile in which the format is usually wanted: programs read JSON Schema, and
    /// models read the formats of providers.
    pub fn usual_profile(self) -> Profile {
        match self {
            Self::JsonSchema => Profile::Full,
            Self::OpenaiChat | Self::OpenaiResponses | Self::Anthropic | Self::Mcp => {
                Profile::Compact
            }
        }
    }

    /// Returns the definition of a tool in this format.
    pub fn tool(self, tool: &OfferedTool, profile: Profile, strict: bool) -> Value {
        let (name, description) = (tool.name, tool.description);
        let schema = match profile {
            Profile::Full => &tool.input,
            Profile::Compact => &tool.compact,
        };
        let schema = match (self, strict) {
            (_, false) => schema.clone(),
            (Self::Anthropic, true) => strict::anthropic(schema),
            (_, true) => strict::openai(schema),
        };
        let output = || match profile {
            Profile::Full => tool.output.clone(),
            Profile::Compact => without_descriptions(&tool.output),
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
            // OpenAI's responses API enforces a tool's schema unless `strict` is false.
            Self::OpenaiResponses => {
                json!({"type": "function", "name": name, "description": description,
                "parameters": schema, "strict": strict})
            }
            Self::Anthropic if name == MEMORY => json!({"type": MEMORY_TYPE, "name": name}),
            Self::Anthropic => {
                json!({"name": name, "description": description, "input_schema": schema})
            }
            Self::Mcp => json!({
                "name": name, "title": tool.title, "description": description, "inputSchema": schema, "outputSchema": output(),
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
