//! Generates the OpenAPI description of the HTTP API from the table of routes.

use serde_json::{Map, Value, json};

use super::route::Route;
use super::routes::{DESCRIPTION, TOOL, routes};
use vctx_core::dialect::Dialect;
use vctx_core::error::Code;
use vctx_core::tools::{Access, Tool};

/// Returns the OpenAPI 3.1 description of the HTTP routes.
pub fn openapi() -> Value {
    let mut paths = Map::new();
    // The route that serves this description is not part of it.
    for route in routes().into_iter().filter(|route| route.path != DESCRIPTION) {
        if route.path == TOOL {
            paths.extend(tool_paths(&route));
            continue;
        }
        let (summary, body) = (route.summary, route.body.as_ref());
        let method = route.method.as_str().to_lowercase();
        let operation = operation(route.path, summary, body, &route.parameters);
        paths.entry(route.path).or_insert_with(|| json!({}))[method] = operation;
    }
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.text()).collect();
    json!({
        "openapi": "3.1.0",
        "info": {"title": "vctx", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {"schemas": {"Problem": {"type": "object", "required": ["type", "title", "status", "detail", "error"],
            "properties": {"type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
                "detail": {"type": "string"}, "error": {"enum": codes}}}}},
    })
}

/// Returns one path for each tool of each dialect.
fn tool_paths(route: &Route) -> Vec<(String, Value)> {
    let own = Tool::ALL.iter().map(|tool| {
        let spec = tool.spec();
        (spec.name, tool.card().description, spec.access != Access::Read, body_of(*tool))
    });
    let others = Dialect::ALL.iter().flat_map(|dialect| dialect.own_tools());
    let others = others.map(|tool| (tool.name, tool.description, tool.writes, tool.input));
    own.chain(others)
        .map(|(name, description, writes, body)| {
            let parameters = if writes { &route.parameters[..] } else { &[] };
            let path = route.path.replace("{tool}", name);
            let post = operation(&path, description, Some(&body), parameters);
            (path, json!({"post": post}))
        })
        .collect()
}

/// Returns the body schema of a tool's path: the tool's arguments and `capture`.
fn body_of(tool: Tool) -> Value {
    let mut body = tool.schema();
    body["properties"]["capture"] = json!({
        "description": "append the result to the queue in the same transaction: `true` appends the call and its result; an object with `tool_call_id` appends only the result of a call that is in the queue",
        "oneOf": [{"type": "boolean"}, {"type": "object", "required": ["tool_call_id"], "additionalProperties": false,
            "properties": {"tool_call_id": {"type": "string"}}}],
    });
    body
}

fn operation(path: &str, summary: &str, body: Option<&Value>, parameters: &[Value]) -> Value {
    let names = path.split(['{', '}']).skip(1).step_by(2).map(|name| {
        let schema = match name {
            "turn" => json!({"type": "integer", "minimum": 1}),
            "doc_id" => json!({"type": "string"}),
            _ => json!({"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,128}$"}),
        };
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    });
    let parameters: Vec<Value> = names.chain(parameters.iter().cloned()).collect();
    let mut operation = json!({"summary": summary, "parameters": parameters, "responses": {
        "200": {"description": "answer", "content": {"application/json": {"schema": {"type": "object"}}}},
        "default": {"description": "problem details", "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}},
    }});
    if let Some(schema) = body {
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    operation
}
