//! How each tool is shown to an MCP client, beside the name, text and schema that `tools` gives it: title, hints, output, revision.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool as Listed, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::tools::Tool;

/// What a call of a tool needs beside its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// It only reads: no key, no revision, no agent made for it.
    Nothing,
    /// A key, since it may write; no revision; an agent that is not there yet is answered as an empty one.
    Key,
    /// A key, and an agent, made if need be; no revision.
    KeyAndAgent,
    /// A key, an agent, and the revision of the agent's memory.
    MemoryRevision,
    /// A key, an agent, and the revision of the document that `doc_id` names.
    DocumentRevision,
}

/// One tool as a client sees it.
pub(super) struct Shown {
    /// The tool's name.
    pub(super) name: &'static str,
    title: &'static str,
    /// Whether something that was there may be gone afterwards.
    destructive: bool,
    /// Whether the same call again changes nothing more.
    idempotent: bool,
    /// What a call needs.
    pub(super) needs: Needs,
    /// Attributes of its result: name, JSON type (`?`: may be null or absent), meaning.
    result: &'static [(&'static str, &'static str, &'static str)],
}

/// Tokens that something costs in the window.
const COST: &str = "tokens it costs in the window";
/// Where a list of results goes on.
const NEXT: &str = "where the list goes on; give it as page_token; null: this was all";

/// The tools in the order of the card.
const SHOWN: &[Shown] = &[
    Shown {
        name: "store_core",
        title: "Write core memory",
        destructive: true,
        idempotent: false,
        needs: Needs::MemoryRevision,
        result: &[
            ("block_id", "string", "the block"),
            ("_rev", "string", "revision of the memory"),
            ("token_estimate", "integer", COST),
        ],
    },
    Shown {
        name: "fetch_core",
        title: "Read core memory",
        destructive: false,
        idempotent: true,
        needs: Needs::Nothing,
        result: &[
            ("block_id", "string", "the block"),
            ("content", "string", "its text"),
            ("_rev", "string", "revision of the memory"),
            ("token_estimate", "integer", COST),
            ("role", "string", "what the block is for"),
            ("pinned", "boolean", "whether it stays when room is needed"),
        ],
    },
    Shown {
        name: "append_fifo",
        title: "Append a message",
        destructive: false,
        idempotent: false,
        needs: Needs::MemoryRevision,
        result: &[
            ("message_id", "string", "id of the message"),
            ("token_estimate", "integer", COST),
        ],
    },
    Shown {
        name: "evict_fifo",
        title: "Move old messages to recall",
        destructive: false,
        idempotent: false,
        needs: Needs::MemoryRevision,
        result: &[
            ("evicted_count", "integer", "messages that left the window"),
            ("new_summary_tokens", "integer", "tokens of the summary afterwards"),
            ("after_occupancy", "integer", "tokens of the whole window afterwards"),
        ],
    },
    Shown {
        name: "search_recall",
        title: "Search recall",
        destructive: false,
        idempotent: false,
        needs: Needs::Key,
        result: &[
            (
                "results",
                "array",
                "messages that were found, best first; of a long one the passage that matters, with its place",
            ),
            (
                "proposals",
                "array?",
                "calls of store_core that would keep facts of these messages in sight",
            ),
            ("tokens_added", "integer", "tokens that came into the window by this call"),
            ("next_page_token", "string?", NEXT),
        ],
    },
    Shown {
        name: "write_recall",
        title: "Write to recall",
        destructive: false,
        idempotent: false,
        needs: Needs::MemoryRevision,
        result: &[
            ("inserted_ids", "array", "ids of the entries, in order"),
            ("total_tokens", "integer", "tokens they would cost in the window"),
        ],
    },
    Shown {
        name: "search_archival",
        title: "Search the archive",
        destructive: false,
        idempotent: false,
        needs: Needs::Key,
        result: &[
            ("results", "array", "passages that were found, most similar first"),
            ("tokens_added", "integer", "tokens that came into the window by this call"),
            ("next_page_token", "string?", NEXT),
        ],
    },
    Shown {
        name: "ingest_archival",
        title: "Archive a document",
        destructive: true,
        idempotent: true,
        needs: Needs::DocumentRevision,
        result: &[
            ("doc_id", "string", "the document"),
            ("inserted", "integer", "passages that were written"),
            ("vector_index_used", "boolean", "whether a search finds them through the index"),
        ],
    },
    Shown {
        name: "record_heartbeat",
        title: "Go on thinking",
        destructive: false,
        idempotent: false,
        needs: Needs::KeyAndAgent,
        result: &[
            ("chain_depth", "integer", "calls of this chain so far"),
            ("duration_ms", "integer", "how long the chain has lasted"),
            ("terminated_reason", "string?", "why it ended, if it did"),
        ],
    },
    Shown {
        name: "trace_memory",
        title: "Follow what is joined",
        destructive: false,
        idempotent: false,
        needs: Needs::Key,
        result: &[
            (
                "results",
                "array",
                "entries: `n` is the place of each, `of` the place of the one that led to it, `by` how",
            ),
            ("tokens_added", "integer", "tokens that came into the window by this call"),
            ("next_page_token", "string?", NEXT),
        ],
    },
];

/// How the tool of that name is shown; none if there is no such tool.
pub(super) fn shown(name: &str) -> Option<&'static Shown> {
    let tool = Tool::named(name).ok()?;
    SHOWN.iter().find(|shown| shown.name == tool.spec().name)
}

/// The tools as `tools/list` answers them.
pub fn listed() -> Vec<Listed> {
    Tool::ALL.iter().filter_map(|tool| Some(entry(*tool, shown(tool.spec().name)?))).collect()
}

fn entry(tool: Tool, shown: &Shown) -> Listed {
    let spec = tool.spec();
    let read_only = shown.needs == Needs::Nothing;
    // Clients of protocols before 2025-06-18 look for the title among the hints.
    let hints = ToolAnnotations::with_title(shown.title)
        .read_only(read_only)
        .destructive(shown.destructive)
        .idempotent(shown.idempotent)
        .open_world(false);
    Listed::new(spec.name, spec.description, Arc::new(object(tool.schema())))
        .with_title(shown.title)
        .with_raw_output_schema(Arc::new(object(output(shown))))
        .with_annotations(hints)
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Schema of `structuredContent`: the envelope of every answer, with the tool's own result in it.
fn output(shown: &Shown) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, kind, meaning) in shown.result {
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
        },
        "required": ["result", "retry_safe"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_shown_whole() {
        let listed = listed();
        let names: Vec<&str> = listed.iter().map(|tool| tool.name.as_ref()).collect();
        let all: Vec<&str> = Tool::ALL.iter().map(|tool| tool.spec().name).collect();
        assert_eq!(names, all, "a tool has no line in SHOWN");
        for tool in &listed {
            let hints = tool.annotations.clone().unwrap();
            let given = [
                hints.read_only_hint,
                hints.destructive_hint,
                hints.idempotent_hint,
                hints.open_world_hint,
            ];
            assert!(given.iter().all(Option::is_some), "{}", tool.name);
            assert!(tool.title.is_some() && tool.output_schema.is_some(), "{}", tool.name);
            for hidden in ["idempotency", "_rev"] {
                let schema = serde_json::to_string(&*tool.input_schema).unwrap();
                assert!(!schema.contains(hidden), "a model sees {hidden} in {}", tool.name);
            }
        }
    }

    #[test]
    fn what_only_reads_needs_nothing() {
        for tool in Tool::ALL {
            let spec = tool.spec();
            let reads = shown(spec.name).unwrap().needs == Needs::Nothing;
            assert!(!(reads && spec.writes), "{} writes", spec.name);
        }
    }
}
