//! What the server says of itself: the tools as JSON Schema, and a description of its paths.

use serde_json::{Map, Value, json};

use super::runs::NewRun;
use vctx_core::dialect::{Dialect, Format, offered};
use vctx_core::error::Code;
use vctx_core::limits::{
    HISTORY_PAGE, LEASE_MS_BOUNDS, PROMPTS_PAGE, QUARANTINE_PAGE, TRACE_AROUND, TRACE_DEPTH,
    TRACE_LIMIT,
};
use vctx_core::policy::Follow;
use vctx_core::tools::{Forget, PutSchedule, ReleaseTainted, Tool, schema_of};

/// The tools as `GET /v1/tools?dialect=…&format=…&strict=…` answers them.
pub fn tool_schemas(dialect: Dialect, format: Format, strict: bool) -> Value {
    json!({"dialect": dialect.text(), "format": format.text(), "strict": strict, "tools": offered(dialect, format, strict)})
}

/// Body of a tool's path: its arguments, and how the result is to be appended.
fn body_of(tool: Tool) -> Value {
    let mut body = tool.schema();
    body["properties"]["capture"] = json!({
        "description": "append the result to the queue in the same transaction: `true` with the call that it answers, as a pair; an object alone, for a call that stands there",
        "oneOf": [{"type": "boolean"}, {"type": "object", "required": ["tool_call_id"], "additionalProperties": false,
            "properties": {"tool_call_id": {"type": "string"}}}],
    });
    body
}

/// OpenAPI 3.1 description of the paths.
pub fn openapi() -> Value {
    let mut paths = Map::new();
    let agent = json!({"name": "agent", "in": "path", "required": true, "schema": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,128}$"}});
    let operation = |summary: &str, body: Option<Value>, own: Vec<Value>| {
        let mut map = Map::new();
        map.insert("summary".into(), summary.into());
        map.insert("parameters".into(), Value::Array(own));
        if let Some(schema) = body {
            map.insert(
                "requestBody".into(),
                json!({"required": true, "content": {"application/json": {"schema": schema}}}),
            );
        }
        map.insert("responses".into(), json!({
            "200": {"description": "answer", "content": {"application/json": {"schema": {"type": "object"}}}},
            "default": {"description": "problem details", "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}},
        }));
        Value::Object(map)
    };
    let key = json!({"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}});
    let guard = json!({"name": "If-Match", "in": "header", "schema": {"type": "string"}});
    let one = || vec![agent.clone()];
    let writing = || vec![agent.clone(), key.clone(), guard.clone()];
    let any = || Some(json!({"type": "object"}));
    paths.insert("/v1/agents".into(), json!({"get": operation("List agents", None, vec![])}));
    paths.insert(
        "/v1/agents/{agent}".into(),
        json!({
            "put": operation("Create an agent (idempotent)", any(), one()),
            "get": operation("State of an agent", None, one()),
            "patch": operation("Change window, system text, encoding, limits of heartbeats, or what is offered to the model", any(), writing()),
        }),
    );
    paths.insert(
        "/v1/agents/{agent}/runs".into(),
        json!({"post": operation("Run the configured model from an event until it yields; with `Accept: text/event-stream` events as they happen",
            serde_json::to_value(schemars::schema_for!(NewRun)).ok(), vec![agent.clone(), key.clone()])}),
    );
    let form = |what: &str, list: &str| json!({"type": "object", "required": ["model", list], "description": format!("As OpenAI's {what} API takes it; docs/reference/openai-api.md")});
    for (path, form, agents) in [
        (
            "chat/completions",
            form("chat completions", "messages"),
            "Answer a conversation that is sent whole each time, in the chat form; what of it is new is found",
        ),
        (
            "responses",
            form("responses", "input"),
            "Answer a conversation in the responses form, sent whole or by the id of the last answer",
        ),
    ] {
        let named = json!({"name": "x-vctx-agent", "in": "header", "schema": {"type": "string"}});
        paths.insert(
            format!("/v1/{path}"),
            json!({"post": operation(agents, Some(form.clone()), vec![named])}),
        );
        paths.insert(
            format!("/v1/agents/{{agent}}/{path}"),
            json!({"post": operation(agents, Some(form), one())}),
        );
    }
    paths.insert(
        "/v1/models".into(),
        json!({"get": operation("The model behind the server, and each agent as a model", None, vec![])}),
    );
    for tool in Tool::ALL {
        let spec = tool.spec();
        let parameters = if spec.writes { writing() } else { one() };
        let path = format!("/v1/agents/{{agent}}/tools/{}", spec.name);
        paths.insert(
            path,
            json!({"post": operation(spec.description, Some(body_of(*tool)), parameters)}),
        );
    }
    for tool in Dialect::ALL.iter().flat_map(|dialect| dialect.own_tools()) {
        let parameters = if tool.writes { writing() } else { one() };
        let path = format!("/v1/agents/{{agent}}/tools/{}", tool.name);
        let post = operation(tool.description, Some(tool.input), parameters);
        paths.insert(path, json!({"post": post}));
    }
    let document =
        json!({"name": "doc_id", "in": "path", "required": true, "schema": {"type": "string"}});
    paths.insert(
        "/v1/agents/{agent}/archive/{doc_id}".into(),
        json!({"delete": operation("Take a document out of the archive, with its chunks, vectors and edges", None, {
            vec![agent.clone(), document, key.clone(), guard.clone()]
        })}),
    );
    let named = || {
        let name = json!({"name": "name", "in": "path", "required": true, "schema": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,128}$"}});
        vec![agent.clone(), name]
    };
    paths.insert(
        "/v1/agents/{agent}/schedules".into(),
        json!({"get": operation("What happens to an agent by itself, and when", None, one())}),
    );
    paths.insert(
        "/v1/agents/{agent}/schedules/{name}".into(),
        json!({"put": operation("Make a schedule that puts events into the queue, or change it (idempotent)",
                Some(json!(schema_of::<PutSchedule>())), named()),
            "get": operation("One schedule: its next moment and what came of it", None, named()),
            "delete": operation("Take a schedule away", None, named())}),
    );
    paths.insert(
        "/v1/agents/{agent}/events".into(),
        json!({"post": operation("Put one event into the queue", any(), writing()),
            "get": operation("What happened to the memory, oldest first: figures and ids, never text", None, one())}),
    );
    paths.insert(
        "/v1/agents/{agent}/forget".into(),
        json!({"post": operation("Forget messages, a document, whatever holds a text, or the whole agent; with `dry_run` only tell what would go",
                Some(json!(schema_of::<Forget>())), writing()),
            "get": operation("The manifests of what was forgotten: places and digests, never text", None, one())}),
    );
    paths.insert(
        "/v1/agents/{agent}/context".into(),
        json!({"get": operation("The rendered window with its receipt", None, one())}),
    );
    paths.insert(
        "/v1/agents/{agent}/messages".into(),
        json!({"get": operation("Everything ever appended, in order", None, one())}),
    );
    paths.insert(
        "/v1/agents/{agent}/history".into(),
        json!({"get": operation("Copies of system text, blocks and summary, as they were whenever one of them changed", None, {
            let from = json!({"name": "from_version", "in": "query", "schema": {"type": "integer", "minimum": 1}});
            vec![agent.clone(), from, json!({"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": HISTORY_PAGE.1}})]
        })}),
    );
    let turn = json!({"name": "turn", "in": "path", "required": true, "schema": {"type": "integer", "minimum": 1}});
    let prompt = json!({"type": "object", "required": ["run", "model"], "additionalProperties": false, "properties": {
        "run": {"type": "string"}, "model": {"type": "string"}, "tools": {"type": "array", "items": {"type": "object"}},
        "options": {"type": "object"}, "lease_ms": {"type": "integer", "minimum": LEASE_MS_BOUNDS.0, "maximum": LEASE_MS_BOUNDS.1}}});
    let answer = json!({"type": "object", "required": ["run", "finish"], "additionalProperties": false, "properties": {
        "run": {"type": "string"}, "finish": {"type": "string"}, "content": {"type": "string"},
        "tool_calls": {"type": "array", "items": {"type": "object", "required": ["id", "name", "arguments"]}},
        "usage": {"type": "object", "required": ["prompt", "completion"]},
        "end_run": {"type": "string"}}});
    paths.insert(
        "/v1/agents/{agent}/prompts".into(),
        json!({"get": operation("Prompts that were sent to a model, in order: figures, digests and ends", None, {
            let from = json!({"name": "from_turn", "in": "query", "schema": {"type": "integer", "minimum": 1}});
            vec![agent.clone(), from, json!({"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": PROMPTS_PAGE.1}})]
        }), "post": operation("Render the window as a request for a model and put it on record before it is sent", Some(prompt), vec![agent.clone(), key.clone()])}),
    );
    paths.insert(
        "/v1/agents/{agent}/prompts/{turn}".into(),
        json!({"get": operation("A past prompt, put together again byte by byte and held against its digests", None, vec![agent.clone(), turn.clone()])}),
    );
    paths.insert(
        "/v1/agents/{agent}/prompts/{turn}/answer".into(),
        json!({"post": operation("What the model answered: its message and the end of the prompt in one write", Some(answer), vec![agent.clone(), turn.clone(), key.clone()])}),
    );
    paths.insert(
        "/v1/agents/{agent}/why".into(),
        json!({"get": operation("The life of a fact: who said it, when it left, where it lived, which prompts held it, how it comes back; or why a prompt held what it held", None, {
            let text = json!({"name": "text", "in": "query", "schema": {"type": "string"}, "description": "a fact, in words"});
            let turn = json!({"name": "turn", "in": "query", "schema": {"type": "integer", "minimum": 1}, "description": "a prompt instead"});
            vec![agent.clone(), text, turn, json!({"name": "from_turn", "in": "query", "schema": {"type": "integer", "minimum": 1, "default": 1}})]
        })}),
    );
    paths.insert(
        "/v1/agents/{agent}/quarantine".into(),
        json!({"get": operation("What was marked as tainted, by place, rules and length; with `id` one item with its text", None, {
            let text = |name: &str, what: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}, "description": what});
            let limit = json!({"name": "limit", "in": "query",
                "schema": {"type": "integer", "minimum": 1, "maximum": QUARANTINE_PAGE.1, "default": QUARANTINE_PAGE.0}});
            vec![agent.clone(), text("id", "one item instead of the list"), text("after", "`next` of the page before"), limit]
        }), "post": operation("Release a tainted item from quarantine, or hold it back again", Some(schema_of::<ReleaseTainted>()), writing())}),
    );
    paths.insert(
        "/v1/agents/{agent}/trace".into(),
        json!({"get": operation("What an entry of the memory is joined to, as a tree in a list", None, {
            let from = json!({"name": "from", "in": "query", "required": true, "schema": {"type": "string"},
                "description": "id of a message, passage or summary, the seq of a message, or `agent`"});
            let names: Vec<&str> = Follow::ALL.iter().map(|follow| follow.text()).collect();
            let follow = json!({"name": "follow", "in": "query", "description": format!("some of {}, with commas; absent: all", names.join(", ")),
                "schema": {"type": "string"}});
            let bounded = |name: &str, (usual, least, most): (u64, u64, u64)| {
                json!({"name": name, "in": "query",
                    "schema": {"type": "integer", "minimum": least, "maximum": most, "default": usual}})
            };
            vec![agent.clone(), from, follow, bounded("depth", TRACE_DEPTH), bounded("around", TRACE_AROUND), bounded("limit", TRACE_LIMIT)]
        })}),
    );
    paths.insert(
        "/v1/agents/{agent}/export".into(),
        json!({"get": operation("Everything that an agent is, of one moment, as lines of JSON (docs/how-to/export.md)", None, one())}),
    );
    paths.insert(
        "/v1/agents/{agent}/import".into(),
        json!({"post": operation("Make an agent of an export, checked whole before anything is written; the same file again changes nothing", any(), one())}),
    );
    paths.insert(
        "/v1/agents/{agent}/conveyance".into(),
        json!({"get": operation("The score of an agent's session (or life), with every count it comes from", None, {
            let of = json!({"name": "of", "in": "query", "schema": {"enum": ["session", "life"], "default": "session"}});
            vec![agent.clone(), of]
        })}),
    );
    let change = json!({"type": "object", "required": ["action"], "additionalProperties": false, "properties": {
        "action": {"enum": ["start", "stop", "cancel", "index"]}, "metric": {"enum": ["cosine", "l2"]}}});
    paths.insert(
        "/v1/reindex".into(),
        json!({"get": operation("How a change of all vectors of the archive stands", None, vec![]),
            "post": operation("Begin a change of all vectors to the embedder configured for it (or go on), stop it, give it up; or train the index of the present vectors anew", Some(change), vec![])}),
    );
    paths.insert(
        "/v1/places".into(),
        json!({"get": operation("The databases that agents can be in, and whether they are reached", None, vec![])}),
    );
    let place = json!({"type": "object", "required": ["to"], "additionalProperties": false, "properties": {"to": {"type": "string"}}});
    paths.insert(
        "/v1/agents/{agent}/move".into(),
        json!({"post": operation("Move an agent to another database; it answers meanwhile (docs/how-to/several-databases.md)", Some(place), one())}),
    );
    paths.insert(
        "/v1/tools".into(),
        json!({"get": operation("Schemas of the tools, under the names of a dialect and in the form that a provider takes", None, {
            let dialects: Vec<&str> = Dialect::ALL.iter().map(|dialect| dialect.text()).collect();
            let formats: Vec<&str> = Format::ALL.iter().map(|format| format.text()).collect();
            let named = |name: &str, schema: Value| json!({"name": name, "in": "query", "schema": schema});
            vec![named("dialect", json!({"enum": dialects, "default": "vctx"})), named("format", json!({"enum": formats, "default": "json-schema"})),
                named("strict", json!({"type": "boolean", "default": false}))]
        })}),
    );
    paths.insert(
        "/healthz".into(),
        json!({"get": operation("Whether the server lives", None, vec![])}),
    );
    paths.insert(
        "/readyz".into(),
        json!({"get": operation("Whether it can serve, with reasons", None, vec![])}),
    );
    let codes: Vec<&str> = Code::ALL.iter().map(|c| c.text()).collect();
    json!({
        "openapi": "3.1.0",
        "info": {"title": "vctx", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {"schemas": {"Problem": {"type": "object", "required": ["type", "title", "status", "detail", "error"],
            "properties": {"type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
                "detail": {"type": "string"}, "error": {"enum": codes}}}}},
    })
}
