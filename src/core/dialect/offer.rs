//! What a model is offered: the tools of a dialect, in a provider's format.

use serde_json::Value;

use super::catalog::{Output, output_of};
use super::format::Format;
use super::{anthropic, catalog, memgpt};
use crate::error::{Error, Result};
use crate::tools::Tool;

/// Names under which the memory is spoken of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Our own ten tools.
    #[default]
    Vctx,
    /// Those of MemGPT and its successor Letta.
    MemGpt,
    /// Anthropic's `memory` tool over `/memories` for the blocks, and ours for everything else.
    Anthropic,
}

impl Dialect {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Vctx, Self::MemGpt, Self::Anthropic];

    /// Its name outside.
    pub fn text(self) -> &'static str {
        match self {
            Self::Vctx => "vctx",
            Self::MemGpt => "memgpt",
            Self::Anthropic => "anthropic",
        }
    }

    /// The dialect of that name.
    pub fn named(name: &str) -> Result<Self> {
        let known = Self::ALL.iter().copied().find(|dialect| dialect.text() == name);
        known.ok_or_else(|| Error::argument("dialect", "use vctx, memgpt or anthropic"))
    }

    /// The names of its tools, in the order in which they are shown.
    pub fn names(self) -> Vec<&'static str> {
        let own = |tool: &Tool| tool.spec().name;
        match self {
            Self::Vctx => Tool::ALL.iter().map(own).collect(),
            Self::MemGpt => memgpt::names(),
            Self::Anthropic => {
                let others = Tool::ALL.iter().filter(|tool| !BLOCKS.contains(tool));
                std::iter::once(anthropic::MEMORY).chain(others.map(own)).collect()
            }
        }
    }

    /// The tools that a model in a chat has most use for: it edits its core, finds what was said and
    /// what is archived, and keeps a fact or asks for its next inference (MemGPT's names ask by an
    /// argument, and speak by a tool). Schemas take room in the window, so few are offered unasked.
    pub fn chat_tools(self) -> [&'static str; 5] {
        match self {
            Self::Vctx => [
                "store_core",
                "search_recall",
                "write_recall",
                "search_archival",
                "record_heartbeat",
            ],
            Self::MemGpt => [
                "send_message",
                "core_memory_append",
                "core_memory_replace",
                "conversation_search",
                "archival_memory_search",
            ],
            Self::Anthropic => [
                anthropic::MEMORY,
                "search_recall",
                "write_recall",
                "search_archival",
                "record_heartbeat",
            ],
        }
    }

    /// Its tools, in the order in which they are shown.
    pub fn tools(self) -> Vec<Offered> {
        match self {
            Self::Vctx => Tool::ALL.iter().map(|tool| own(*tool)).collect(),
            Self::MemGpt => memgpt::tools(),
            Self::Anthropic => {
                let others = Tool::ALL.iter().filter(|tool| !BLOCKS.contains(tool));
                std::iter::once(anthropic::tool()).chain(others.map(|tool| own(*tool))).collect()
            }
        }
    }

    /// Names of tools that are this dialect's alone, none of ours.
    pub fn own_tools(self) -> Vec<Offered> {
        match self {
            Self::Vctx => Vec::new(),
            Self::MemGpt => memgpt::tools(),
            Self::Anthropic => vec![anthropic::tool()],
        }
    }
}

/// Stands for every tool where tools are named.
pub const ALL_TOOLS: &str = "all";

/// What the `memory` tool stands for.
const BLOCKS: [Tool; 2] = [Tool::StoreCore, Tool::FetchCore];

/// One tool as it is offered.
#[derive(Clone, Debug)]
pub struct Offered {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// For the model: what it does and when to use it.
    pub description: &'static str,
    /// JSON Schema (2020-12) of its arguments: closed object, sub-schemas inlined.
    pub input: Value,
    /// JSON Schema of its answer.
    pub output: Value,
    /// Whether no call of it ever writes.
    pub reads_only: bool,
    /// Whether something that was there may be gone afterwards.
    pub destructive: bool,
    /// Whether the same call again changes nothing more.
    pub idempotent: bool,
    /// Whether a call of it may need a key and a revision.
    pub writes: bool,
}

/// One of our own.
fn own(tool: Tool) -> Offered {
    let spec = tool.spec();
    let shown = catalog::shown(tool);
    Offered {
        name: spec.name,
        title: shown.title,
        description: spec.description,
        input: tool.schema(),
        output: output_of(shown.result),
        reads_only: shown.reads_only,
        destructive: shown.destructive,
        idempotent: shown.idempotent,
        writes: spec.writes,
    }
}

/// What a tool of another dialect answers beside the text: what our own call behind it does.
pub(super) fn worded(result: &[Output]) -> Value {
    let text = ("text", "string", "what came of it, in words");
    let all: Vec<Output> = std::iter::once(text).chain(result.iter().copied()).collect();
    output_of(&all)
}

/// The tools of a dialect as a provider takes them. `strict`: so that the provider holds the model to the schema.
pub fn offered(dialect: Dialect, format: Format, strict: bool) -> Vec<Value> {
    dialect.tools().iter().map(|tool| format.tool(tool, strict)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dialect_names_what_it_offers() {
        for dialect in Dialect::ALL {
            let offered: Vec<&str> = dialect.tools().iter().map(|tool| tool.name).collect();
            assert_eq!(offered, dialect.names());
            assert!(dialect.chat_tools().iter().all(|name| offered.contains(name)), "{dialect:?}");
            assert_eq!(Dialect::named(dialect.text()).unwrap(), *dialect);
        }
        assert!(Dialect::named("klingon").is_err());
    }

    #[test]
    fn neither_key_nor_revision_stands_in_a_schema() {
        for (dialect, format, strict) in Dialect::ALL.iter().flat_map(|dialect| {
            Format::ALL
                .iter()
                .flat_map(|format| [(*dialect, *format, false), (*dialect, *format, true)])
        }) {
            for tool in offered(dialect, format, strict) {
                let input = tool["inputSchema"].as_object().map_or(&tool, |_| &tool["inputSchema"]);
                let text = input.to_string().to_lowercase();
                for hidden in ["idempotency", "_rev", "if-match", "$ref", "$defs"] {
                    assert!(!text.contains(hidden), "{format:?} shows {hidden}: {text}");
                }
            }
        }
    }
}
