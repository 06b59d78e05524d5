//! Which tools a run offers, under which names, and which call a model's call is.

use serde_json::{Map, Value};

use super::processor::{Processor, ProcessorSettings};
use super::request::RunRequest;
use vctx_core::dialect::{ALL_TOOLS, Dialect, Format, Offered, Translated, translate};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::{TokenCounter, receipt};

/// The tools of a run.
pub(super) struct Toolbox {
    /// Schemas as they are sent, the client's own behind ours.
    pub(super) schemas: Vec<Value>,
    /// What they take of the window, in tokens: their text as it is sent, which is more than most providers make of it.
    pub(super) tokens: u64,
    /// SHA-256 of that text; empty where nothing is offered.
    pub(super) digest: String,
    dialect: Dialect,
    /// Names of ours.
    own: Vec<&'static str>,
    /// Names of the client's.
    client: Vec<String>,
}

/// What a model's call is.
pub(super) enum Meant {
    /// One of ours, with its arguments as they came, and whether the model asks to be called again by it.
    Ours { call: Box<Translated>, arguments: Map<String, Value>, asked_beat: bool },
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
        let settings = &processor.settings;
        let named = named(request, settings);
        let client: Vec<String> = request.client_tools.iter().map(name_of).collect();
        let known = settings.dialect.tools();
        let all = named.contains(&ALL_TOOLS);
        let is_known = |name: &str| name == ALL_TOOLS || known.iter().any(|tool| tool.name == name);
        if let Some(name) = named.iter().find(|name| !is_known(name)) {
            let names: Vec<&str> = known.iter().map(|tool| tool.name).collect();
            let text = format!("no tool {name}: use {ALL_TOOLS}, or some of {}", names.join(", "));
            return Err(Error::argument("tools", text));
        }
        // A client's own tool goes before one of ours of the same name.
        let offered = known.into_iter().filter(|tool| {
            (all || named.contains(&tool.name)) && !client.iter().any(|name| name == tool.name)
        });
        let offered: Vec<Offered> = offered.collect();
        let format = Format::OpenaiChat;
        let mut schemas: Vec<Value> =
            offered.iter().map(|tool| format.tool(tool, settings.strict)).collect();
        schemas.extend(request.client_tools.iter().cloned());
        let own = offered.iter().map(|tool| tool.name).collect();
        let dialect = settings.dialect;
        let (mut tokens, mut digest) = (0, String::new());
        if !schemas.is_empty() {
            let text = receipt::canonical_json(&Value::Array(schemas.clone()));
            (tokens, digest) = (counter.count(&text), receipt::sha256(&text));
        }
        Ok(Self { schemas, tokens, digest, dialect, own, client })
    }

    /// Whether it holds tools of the memory.
    pub(super) fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// What a call means, or what is wrong with it.
    pub(super) fn meant(&self, name: &str, mut arguments: Map<String, Value>) -> Result<Meant> {
        if self.client.iter().any(|client| client == name) {
            return Ok(Meant::Client);
        }
        if !self.own.contains(&name) {
            let text = format!("no tool of that name: use one of {}", self.own.join(", "));
            return Err(Error::new(Code::ToolNotFound, text));
        }
        // Keys and revisions are the run's affair.
        arguments.remove("_rev");
        arguments.remove("idempotency_key");
        // Our own tools know no such argument; models that learned it elsewhere give it all the same.
        let requested = self.dialect == Dialect::Vctx
            && arguments.remove("request_heartbeat") == Some(Value::Bool(true));
        let call = translate(self.dialect, name, arguments.clone())?;
        let asked_beat = requested || call.beats();
        Ok(Meant::Ours { call: Box::new(call), arguments, asked_beat })
    }
}

/// The memory tools that a run offers, by name: as it says, else as configured, else those for a chat.
fn named<'a>(request: &'a RunRequest, settings: &'a ProcessorSettings) -> Vec<&'a str> {
    match (&request.tools, settings.tools.is_empty()) {
        (Some(named), _) => named.iter().map(String::as_str).collect(),
        (None, false) => settings.tools.iter().map(String::as_str).collect(),
        (None, true) => settings.dialect.chat_tools().to_vec(),
    }
}

/// Name of a client's tool: `function.name`, or `name` where it stands alone.
fn name_of(schema: &Value) -> String {
    let name = schema.pointer("/function/name").or_else(|| schema.get("name"));
    name.and_then(Value::as_str).unwrap_or_default().to_owned()
}
