//! Generates the OpenAPI description of the HTTP API from the table of routes.

use serde_json::{Map, Value, json};

use super::changes;
use super::described::Bodies;
use super::route::{Answers, Route, headers_of};
use super::routes::{DESCRIPTION, TOOL, routes};
use vctx_core::dialect::Dialect;
use vctx_core::error::Code;
use vctx_core::tools::{Access, Tool};

/// Media type of lines of JSON.
const LINES: &str = "application/x-ndjson";
/// Media type of server-sent events.
const EVENTS: &str = "text/event-stream";

/// Returns the OpenAPI 3.1 description of the HTTP routes.
pub fn openapi() -> Value {
    let bodies = Bodies::read();
    let mut paths = Map::new();
    // The route that serves this description is not part of it.
    for route in routes().into_iter().filter(|route| route.path != DESCRIPTION) {
        if route.path == TOOL {
            paths.extend(tool_paths(&route, &bodies));
            continue;
        }
        let name = format!("{} {}", route.method, route.path);
        let body = route.body.clone().map(|schema| bodies.completed(&name, schema));
        let method = route.method.as_str().to_lowercase();
        let operation = operation(&route, route.path, route.summary, body, &bodies);
        paths.entry(route.path).or_insert_with(|| json!({}))[method] = operation;
    }
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.text()).collect();
    json!({
        "openapi": "3.1.0",
        "info": {"title": "vctx", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {"schemas": {
            "Problem": {"type": "object", "required": ["type", "title", "status", "detail", "error"],
                "properties": {"type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
                    "detail": {"type": "string"}, "error": {"enum": codes}}},
            "OpenAIError": {"type": "object", "required": ["error"], "properties": {"error": {
                "type": "object", "required": ["message", "type", "param", "code"],
                "properties": {"message": {"type": "string"}, "type": {"enum": ["invalid_request_error", "server_error"]},
                    "param": {"type": ["string", "null"]}, "code": {"enum": codes}}}}},
            "AnthropicError": {"type": "object", "required": ["type", "error"], "properties": {"type": {"const": "error"}, "error": {
                "type": "object", "required": ["type", "message", "param", "code"],
                "properties": {"type": {"type": "string"}, "message": {"type": "string"},
                    "param": {"type": ["string", "null"]}, "code": {"enum": codes}}}}},
        }},
    })
}

/// Returns one path for each tool of each dialect.
fn tool_paths(route: &Route, bodies: &Bodies) -> Vec<(String, Value)> {
    let own = Tool::ALL.iter().map(|tool| {
        let spec = tool.spec();
        (spec.name, tool.card().description, Some(spec.access), body_of(*tool))
    });
    let others = Dialect::ALL.iter().flat_map(|dialect| dialect.own_tools());
    let others = others.map(|tool| (tool.name, tool.description, tool.access, tool.input));
    own.chain(others)
        .map(|(name, description, access, body)| {
            let path = route.path.replace("{tool}", name);
            let body = Some(bodies.completed(name, body));
            let mut post = operation(route, &path, description, body, bodies);
            let parameters = post["parameters"].as_array_mut().expect("a list");
            // A call may have the headers in any case; only some calls must have them.
            parameters.extend(headers_of(access.unwrap_or(Access::Read)));
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
            "properties": {"tool_call_id": {"type": "string", "minLength": 1, "maxLength": 128}}}],
    });
    body
}

fn operation(
    route: &Route,
    path: &str,
    summary: &str,
    body: Option<Value>,
    bodies: &Bodies,
) -> Value {
    let names = path.split(['{', '}']).skip(1).step_by(2).map(|name| {
        let schema = match name {
            "turn" => json!({"type": "integer", "minimum": 1, "maximum": u64::MAX}),
            "doc_id" => bodies.text("document"),
            "user" => bodies.text("label"),
            _ => bodies.text("name"),
        };
        let mut parameter = json!({"name": name, "in": "path", "required": true, "schema": schema});
        if name == "agent" {
            parameter["example"] = "ada".into();
        }
        parameter
    });
    let parameters: Vec<Value> = names.chain(route.parameters.iter().cloned()).collect();
    let mut operation = json!({"summary": summary, "parameters": parameters,
        "responses": responses(route.answers)});
    if let Some(schema) = body {
        let media = if route.takes_lines { LINES } else { "application/json" };
        // An empty body is read as an empty object.
        let required = route.takes_lines || schema["required"].is_array();
        operation["requestBody"] =
            json!({"required": required, "content": {media: {"schema": schema}}});
    }
    operation
}

/// Returns the statuses and media types of a route's answers.
fn responses(answers: Answers) -> Value {
    let object = json!({"schema": {"type": "object"}});
    let text = json!({"schema": {"type": "string"}});
    let mut content = match (answers.lines, answers.feed) {
        (true, _) => json!({LINES: text}),
        (_, true) => json!({EVENTS: {"schema": changes::message_schema()}}),
        _ => json!({"application/json": object}),
    };
    if answers.stream {
        // One event of the stream, as a client reads it.
        content[EVENTS] = json!({"schema": {"type": "object", "properties": {"data": {}}}});
    }
    if answers.told {
        content["text/plain"] = text.clone();
    }
    let answer = |description: &str| json!({"description": description, "content": content});
    let mut problem =
        json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}});
    let forms = [(answers.openai, "OpenAIError"), (answers.anthropic, "AnthropicError")];
    for (_, name) in forms.into_iter().filter(|(is_form, _)| *is_form) {
        problem["application/json"] =
            json!({"schema": {"$ref": format!("#/components/schemas/{name}")}});
    }
    if answers.told {
        problem["text/plain"] = text;
    }
    let mut responses = json!({"200": answer("answer")});
    if answers.made {
        responses["201"] = answer("created");
    }
    if answers.under_way {
        responses["202"] = answer("the work continues");
    }
    responses["4XX"] = json!({"description": "the call is refused", "content": problem});
    responses["5XX"] = json!({"description": "the server or a part of it fails, or is not ready", "content": problem});
    responses
}
