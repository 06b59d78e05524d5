//! Offers the tools of a dialect in a provider's format.

use serde_json::{Map, Value, json};

use super::format::{Format, Profile};
use super::{anthropic, memgpt, ues};
use crate::error::{Error, Result};
use crate::tools::{Access, Output, Tool};

/// A dialect: a set of names for this server's tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// The eleven tools of this server under their own names.
    #[default]
    Vctx,
    /// The tools of MemGPT and of MemGPT's successor Letta.
    MemGpt,
    /// Anthropic's `memory` tool, which shows blocks as files under `/memories`, and this server's
    /// tools for everything else.
    Anthropic,
    /// One search over everything that the memory holds and a summary of a text, by the names of a
    /// Unified Experience Storage, and this server's tools for everything else.
    Ues,
}

impl Dialect {
    /// All dialects.
    pub const ALL: &'static [Self] = &[Self::Vctx, Self::MemGpt, Self::Anthropic, Self::Ues];

    /// Returns the name of the dialect in calls and answers.
    pub fn text(self) -> &'static str {
        match self {
            Self::Vctx => "vctx",
            Self::MemGpt => "memgpt",
            Self::Anthropic => "anthropic",
            Self::Ues => "ues",
        }
    }

    /// Returns the dialect with the given name.
    pub fn by_name(name: &str) -> Result<Self> {
        let known = Self::ALL.iter().copied().find(|dialect| dialect.text() == name);
        known.ok_or_else(|| Error::argument("dialect", "use vctx, memgpt, anthropic or ues"))
    }

    /// Returns the names of the dialect's tools, in order.
    pub fn names(self) -> Vec<&'static str> {
        let own = |tool: &Tool| tool.spec().name;
        match self {
            Self::Vctx => Tool::ALL.iter().map(own).collect(),
            Self::MemGpt => memgpt::names(),
            Self::Anthropic => {
                std::iter::once(anthropic::MEMORY).chain(others().map(own)).collect()
            }
            Self::Ues => {
                let theirs = ues::tools().into_iter().map(|tool| tool.name);
                theirs.chain(ues::others().map(own)).collect()
            }
        }
    }

    /// Returns the names of the tools that a chat model is offered by default. With these tools, a
    /// model edits the core, searches messages and the archive, stores a fact in the archive, and
    /// requests the next inference. The list is short, because tool schemas take tokens of the
    /// window.
    pub fn chat_tools(self) -> Vec<&'static str> {
        self.tools().iter().filter(|tool| tool.in_chat).map(|tool| tool.name).collect()
    }

    /// Returns the tools of the dialect, in order.
    pub fn tools(self) -> Vec<OfferedTool> {
        match self {
            Self::Vctx => Tool::ALL.iter().map(|tool| own(*tool)).collect(),
            Self::MemGpt => memgpt::tools(),
            Self::Anthropic => {
                std::iter::once(anthropic::tool()).chain(others().map(|tool| own(*tool))).collect()
            }
            Self::Ues => {
                ues::tools().into_iter().chain(ues::others().map(|tool| own(*tool))).collect()
            }
        }
    }

    /// Returns the dialect's tools that are not this server's own tools.
    pub fn own_tools(self) -> Vec<OfferedTool> {
        match self {
            Self::Vctx => Vec::new(),
            Self::MemGpt => memgpt::tools(),
            Self::Anthropic => vec![anthropic::tool()],
            Self::Ues => ues::tools(),
        }
    }
}

/// The word in a list of tool names that selects all tools.
pub const ALL_TOOLS: &str = "all";

/// Returns this server's tools that Anthropic's `memory` tool does not replace.
fn others() -> impl Iterator<Item = &'static Tool> {
    Tool::ALL.iter().filter(|tool| !tool.card().of_blocks)
}

/// A tool as offered to a model.
#[derive(Clone, Debug)]
pub struct OfferedTool {
    /// Name of the tool.
    pub name: &'static str,
    /// Title for people.
    pub title: &'static str,
    /// Description of the tool for the model.
    pub description: &'static str,
    /// JSON Schema (2020-12) of the tool's arguments: a closed object with inlined sub-schemas.
    pub input: Value,
    /// The schema that a model is offered: the arguments that a model needs, with few words.
    pub compact: Value,
    /// JSON Schema of the tool's answer.
    pub output: Value,
    /// Whether all calls to the tool only read.
    pub reads_only: bool,
    /// Whether a call to the tool may remove something.
    pub destructive: bool,
    /// Whether a repeated call to the tool has no further effect.
    pub idempotent: bool,
    /// Whether a call needs an idempotency key and a revision; `None` if this depends on the call's
    /// arguments.
    pub access: Option<Access>,
    /// Whether a chat model is offered the tool by default.
    pub in_chat: bool,
}

/// Returns one of this server's own tools in the form that is offered to a model.
fn own(tool: Tool) -> OfferedTool {
    let (card, access) = (tool.card(), tool.spec().access);
    OfferedTool {
        name: tool.spec().name,
        title: card.title,
        description: card.description,
        input: tool.schema(),
        compact: tool.compact_schema(),
        output: output_of(card.result),
        reads_only: access == Access::Read,
        destructive: card.destructive,
        idempotent: card.idempotent,
        access: Some(access),
        in_chat: card.in_chat,
    }
}

/// Returns the output schema of a tool (for `structuredContent` in MCP). The schema describes the
/// fields that every answer has, and the tool's own fields in the field `result`.
fn output_of(result: &[Output]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, kind, meaning) in result {
        let bare = kind.trim_end_matches('?');
        let kind = if bare == *kind { json!(kind) } else { json!([bare, "null"]) };
        if kind.is_string() {
            required.push(*name);
        }
        properties.insert((*name).into(), json!({"type": kind, "description": meaning}));
    }
    json!({
        "type": "object",
        "properties": {
            "result": {"type": "object", "properties": properties, "required": required},
            "_rev": {"type": ["string", "null"], "description": "revision of the memory; null: nothing has been written yet"},
            "token_estimate": {"type": "integer", "description": "tokens by which the window grew"},
            "tokens": {"type": ["object", "null"], "description": "tokens of each section of the window, and what is free"},
            "pressure": {"type": "string", "description": "ok, warning or flush"},
            "flush": {"type": ["object", "null"], "description": "what was evicted in the same transaction"},
            "receipt": {"type": "object", "description": "number and digest of the message that was written"},
            "heartbeat": {"type": "object", "description": "whether there is room to go on"},
            "replayed": {"type": "boolean", "description": "true: an earlier call with the same key did it"},
            "retry_safe": {"type": "boolean", "description": "false: the same call again would be a new one"},
            "error": {"type": "string", "description": "code of a refusal"},
            "detail": {"type": "string", "description": "what was wrong"},
            "next": {"type": "string", "description": "what to do about it"},
        },
        "required": ["retry_safe"],
        // The output schema also allows errors, because some clients validate errors against the
        // output schema.
        "anyOf": [{"required": ["result"]}, {"required": ["error", "detail"]}],
    })
}

/// Returns a schema without descriptions, as few programs read them and every model pays for them.
pub fn without_descriptions(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let kept =
                map.iter().filter(|(name, value)| *name != "description" || !value.is_string());
            Value::Object(
                kept.map(|(name, value)| (name.clone(), without_descriptions(value))).collect(),
            )
        }
        Value::Array(items) => items.iter().map(without_descriptions).collect(),
        value => value.clone(),
    }
}

/// Returns the output schema of a tool of a dialect other than `vctx`. The result of such a tool
/// contains a text in addition to the fields of this server's own tool.
pub(super) fn worded(result: &[Output]) -> Value {
    let text = ("text", "string", "what came of it, in words");
    let all: Vec<Output> = std::iter::once(text).chain(result.iter().copied()).collect();
    output_of(&all)
}

/// Returns the tools of a dialect in a provider's format. With `strict`, the provider enforces the
/// tools' schemas.
pub fn offered(dialect: Dialect, format: Format, profile: Profile, strict: bool) -> Vec<Value> {
    dialect.tools().iter().map(|tool| format.tool(tool, profile, strict)).collect()
}
