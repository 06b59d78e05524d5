//! Describes a dialect's tools to an MCP client: name, title, description, hints, and the schemas
//! of input and output.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool as Listed, ToolAnnotations};
use serde_json::{Map, Value};

use vctx_core::dialect::{Dialect, OfferedTool, without_descriptions};
use vctx_core::tools::Tool;

/// Returns the tools of a dialect in the format of an answer to `tools/list`; without `all`, leaves
/// out the tools that a client sees only on request.
pub fn listed(dialect: Dialect, all: bool) -> Vec<Listed> {
    let tools = dialect.tools().into_iter();
    tools.filter(|tool| all || !is_on_request(tool)).map(entry).collect()
}

fn is_on_request(tool: &OfferedTool) -> bool {
    Tool::by_name(tool.name).is_ok_and(|tool| tool.card().on_request)
}

fn entry(tool: OfferedTool) -> Listed {
    // Clients of protocol versions before 2025-06-18 read a tool's title from the hints.
    let hints = ToolAnnotations::with_title(tool.title)
        .read_only(tool.reads_only)
        .destructive(tool.destructive)
        .idempotent(tool.idempotent)
        .open_world(false);
    Listed::new(tool.name, tool.description, Arc::new(object(tool.compact)))
        .with_title(tool.title)
        .with_raw_output_schema(Arc::new(object(without_descriptions(&tool.output))))
        .with_annotations(hints)
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_shown_whole() {
        for dialect in Dialect::ALL {
            for tool in listed(*dialect, true) {
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
    }
}
