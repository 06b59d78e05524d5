//! Which tools a run offers, under which names, and which call a model's call is.

use serde_json::{Map, Value, json};

use super::processor::Processor;
use super::request::RunRequest;
use crate::error::{Code, Error, Result};
use crate::memory::{TokenCounter, receipt};
use crate::tools::{Call, Tool, decode};

/// The tools of a run.
pub(super) struct Toolbox {
    /// Schemas as they are sent, the client's own behind ours.
    pub(super) schemas: Vec<Value>,
    /// What they take of the window, in tokens: their text as it is sent, which is more than most providers make of it.
    pub(super) tokens: u64,
    /// SHA-256 of that text; empty where nothing is offered.
    pub(super) digest: String,
    /// Names of ours.
    own: Vec<Tool>,
    /// Names of the client's.
    client: Vec<String>,
}

/// What a model's call is.
pub(super) enum Meant {
    /// One of ours, with its decoded arguments, and whether the model asks to be called again by it.
    Ours { call: Box<Call>, arguments: Map<String, Value>, asked_beat: bool },
    /// One of the client's.
    Client,
}

impl Toolbox {
    /// The tools of a request, as it names them or as configured.
    pub(super) fn of(
        processor: &Processor,
        request: &RunRequest,
        counter: &dyn TokenCounter,
    ) -> Result<Self> {
        let named = request.tools.as_ref().unwrap_or(&processor.settings.tools);
        let client: Vec<String> = request.client_tools.iter().map(name_of).collect();
        let own: Vec<Tool> = match (named.is_empty(), &request.tools) {
            (true, None) => Tool::ALL.to_vec(),
            _ => named.iter().map(|name| Tool::named(name)).collect::<Result<_>>()?,
        };
        // A client's own tool goes before one of ours of the same name.
        let own: Vec<Tool> =
            own.into_iter().filter(|tool| !client.iter().any(|c| c == tool.spec().name)).collect();
        let mut schemas: Vec<Value> = own.iter().map(|tool| schema(*tool)).collect();
        schemas.extend(request.client_tools.iter().cloned());
        let (mut tokens, mut digest) = (0, String::new());
        if !schemas.is_empty() {
            let text = receipt::canonical_json(&Value::Array(schemas.clone()));
            (tokens, digest) = (counter.count(&text), receipt::sha256(&text));
        }
        Ok(Self { schemas, tokens, digest, own, client })
    }

    /// What a call means, or what is wrong with it.
    pub(super) fn meant(&self, name: &str, mut arguments: Map<String, Value>) -> Result<Meant> {
        if self.client.iter().any(|client| client == name) {
            return Ok(Meant::Client);
        }
        let Some(tool) = self.own.iter().copied().find(|tool| tool.spec().name == name) else {
            let names: Vec<&str> = self.own.iter().map(|tool| tool.spec().name).collect();
            let text = format!("no tool of that name: use one of {}", names.join(", "));
            return Err(Error::new(Code::ToolNotFound, text));
        };
        // Keys and revisions are the run's affair.
        arguments.remove("_rev");
        arguments.remove("idempotency_key");
        let requested = arguments.remove("request_heartbeat") == Some(Value::Bool(true));
        let asked_beat = requested || arguments.get("heartbeat") == Some(&Value::Bool(true));
        let call = decode(tool, arguments.clone())?;
        Ok(Meant::Ours { call: Box::new(call), arguments, asked_beat })
    }
}

/// A tool in the format of chat completions.
fn schema(tool: Tool) -> Value {
    let spec = tool.spec();
    json!({"type": "function", "function":
        {"name": spec.name, "description": spec.description, "parameters": tool.schema()}})
}

/// Name of a client's tool: `function.name`, or `name` where it stands alone.
fn name_of(schema: &Value) -> String {
    let name = schema.pointer("/function/name").or_else(|| schema.get("name"));
    name.and_then(Value::as_str).unwrap_or_default().to_owned()
}
