//! How our own tools are shown beside the name, text and schema that `tools` gives them: title, hints, and what they answer.

use serde_json::{Map, Value, json};

use crate::tools::Tool;

/// An attribute of a result: name, JSON type (`?`: may be null or absent), meaning.
pub(super) type Output = (&'static str, &'static str, &'static str);

/// One tool as a client sees it.
pub(super) struct Shown {
    pub(super) title: &'static str,
    /// Whether no call of it ever writes.
    pub(super) reads_only: bool,
    /// Whether something that was there may be gone afterwards.
    pub(super) destructive: bool,
    /// Whether the same call again changes nothing more.
    pub(super) idempotent: bool,
    /// Attributes of its result.
    pub(super) result: &'static [Output],
}

/// Tokens that something costs in the window.
pub(super) const COST: &str = "tokens it costs in the window";
/// Where a list of results goes on.
pub(super) const NEXT: &str = "where the list goes on; give it as page_token; null: this was all";

/// How a tool is shown.
pub(super) fn shown(tool: Tool) -> Shown {
    match tool {
        Tool::StoreCore => Shown {
            title: "Write core memory",
            reads_only: false,
            destructive: true,
            idempotent: false,
            result: &[
                ("block_id", "string", "the block"),
                ("_rev", "string", "revision of the memory"),
                ("token_estimate", "integer", COST),
            ],
        },
        Tool::FetchCore => Shown {
            title: "Read core memory",
            reads_only: true,
            destructive: false,
            idempotent: true,
            result: &[
                ("block_id", "string", "the block"),
                ("content", "string", "its text"),
                ("_rev", "string", "revision of the memory"),
                ("token_estimate", "integer", COST),
                ("role", "string", "what the block is for"),
                ("pinned", "boolean", "whether it stays when room is needed"),
            ],
        },
        Tool::AppendFifo => Shown {
            title: "Append a message",
            reads_only: false,
            destructive: false,
            idempotent: false,
            result: &[
                ("message_id", "string", "id of the message"),
                ("token_estimate", "integer", COST),
            ],
        },
        Tool::EvictFifo => Shown {
            title: "Move old messages to recall",
            reads_only: false,
            destructive: false,
            idempotent: false,
            result: &[
                ("evicted_count", "integer", "messages that left the window"),
                ("new_summary_tokens", "integer", "tokens of the summary afterwards"),
                ("after_occupancy", "integer", "tokens of the whole window afterwards"),
            ],
        },
        Tool::SearchRecall => Shown {
            title: "Search recall",
            reads_only: false,
            destructive: false,
            idempotent: false,
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
        Tool::WriteRecall => Shown {
            title: "Write to recall",
            reads_only: false,
            destructive: false,
            idempotent: false,
            result: &[
                ("inserted_ids", "array", "ids of the entries, in order"),
                ("total_tokens", "integer", "tokens they would cost in the window"),
            ],
        },
        Tool::SearchArchival => Shown {
            title: "Search the archive",
            reads_only: false,
            destructive: false,
            idempotent: false,
            result: &[
                ("results", "array", "passages that were found, most similar first"),
                ("tokens_added", "integer", "tokens that came into the window by this call"),
                ("next_page_token", "string?", NEXT),
            ],
        },
        Tool::IngestArchival => Shown {
            title: "Archive a document",
            reads_only: false,
            destructive: true,
            idempotent: true,
            result: &[
                ("doc_id", "string", "the document"),
                ("inserted", "integer", "passages that were written"),
                ("vector_index_used", "boolean", "whether a search finds them through the index"),
            ],
        },
        Tool::RecordHeartbeat => Shown {
            title: "Go on thinking",
            reads_only: false,
            destructive: false,
            idempotent: false,
            result: &[
                ("chain_depth", "integer", "calls of this chain so far"),
                ("duration_ms", "integer", "how long the chain has lasted"),
                ("terminated_reason", "string?", "why it ended, if it did"),
            ],
        },
        Tool::TraceMemory => Shown {
            title: "Follow what is joined",
            reads_only: false,
            destructive: false,
            idempotent: false,
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
    }
}

/// Schema of `structuredContent`: the envelope of every answer, with the tool's own result in it.
pub(super) fn output_of(result: &[Output]) -> Value {
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
        // There are clients that hold refusals against the schema too.
        "anyOf": [{"required": ["result"]}, {"required": ["error", "detail"]}],
    })
}
