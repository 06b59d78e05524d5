//! The tools of a run, and the parsing of a model's calls.

use serde_json::{Map, Value};

use super::processor::{Processor, ProcessorSettings};
use super::request::RunRequest;
use vctx_core::dialect::{ALL_TOOLS, Dialect, Format, OfferedTool, Profile, Translated, translate};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::core::Offered;
use vctx_core::memory::{TokenCounter, receipt};

/// The tools that a run offers to the model.
pub(super) struct Toolbox {
    /// Schemas of the tools as sent to the model: memory tools first, then client tools.
    pub(super) schemas: Vec<Value>,
    /// Tokens of the tool schemas in the window; the estimate is higher than the count of most
    /// providers.
    pub(super) tokens: u64,
    /// SHA-256 of the serialized tool schemas; empty without tools.
    pub(super) digest: String,
    /// Warnings about the window with these tools.
    pub(super) warnings: Vec<String>,
    dialect: Dialect,
    /// Names of the memory tools that the run offers.
    own: Vec<&'static str>,
    /// Names of the client tools that the run offers.
    client: Vec<String>,
}

/// A parsed call of the model.
pub(super) enum Meant {
    /// A call to a memory tool, with its raw arguments and whether the model requests another
    /// inference.
    Ours { call: Box<Translated>, arguments: Map<String, Value>, asked_beat: bool },
    /// A call to a client tool.
    Client,
}

impl Toolbox {
    /// Returns the tools that a request names, or else the configured tools.
    pub(super) fn of(
        processor: &Processor,
        request: &RunRequest,
        counter: &dyn TokenCounter,
    ) -> Result<Self> {
        let settings = &processor.settings;
        let named = tool_names(request, settings);
        let client: Vec<String> = request.client_tools.iter().map(name_of).collect();
        let known = settings.dialect.tools();
        let all = named.contains(&ALL_TOOLS);
        let is_known = |name: &str| name == ALL_TOOLS || known.iter().any(|tool| tool.name == name);
        if let Some(name) = named.iter().find(|name| !is_known(name)) {
            let names: Vec<&str> = known.iter().map(|tool| tool.name).collect();
            let text = format!("no tool {name}: use {ALL_TOOLS}, or some of {}", names.join(", "));
            return Err(Error::argument("tools", text));
        }
        // A client tool replaces a memory tool of the same name.
        let offered = known.into_iter().filter(|tool| {
            (all || named.contains(&tool.name)) && !client.iter().any(|name| name == tool.name)
        });
        let offered: Vec<OfferedTool> = offered.collect();
        let format = Format::OpenaiChat;
        let schema = |tool| format.tool(tool, Profile::Compact, settings.strict);
        let mut schemas: Vec<Value> = offered.iter().map(schema).collect();
        schemas.extend(request.client_tools.iter().cloned());
        let own = offered.iter().map(|tool| tool.name).collect();
        let dialect = settings.dialect;
        let (mut tokens, mut digest) = (0, String::new());
        if !schemas.is_empty() {
            let text = receipt::canonical_json(&Value::Array(schemas.clone()));
            (tokens, digest) = (counter.count(&text), receipt::sha256(&text));
        }
        Ok(Self { schemas, tokens, digest, warnings: Vec::new(), dialect, own, client })
    }

    /// Returns the digest and tokens of the tools, as the core records them.
    pub(super) fn offered(&self) -> Offered {
        Offered { digest: self.digest.clone(), token_estimate: self.tokens }
    }

    /// Returns whether the run offers memory tools.
    pub(super) fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// Parses a model's call; on failure returns an error whose message is meant for the model.
    pub(super) fn parse(&self, name: &str, mut arguments: Map<String, Value>) -> Result<Meant> {
        if self.client.iter().any(|client| client == name) {
            return Ok(Meant::Client);
        }
        if !self.own.contains(&name) {
            let text = format!("no tool of that name: use one of {}", self.own.join(", "));
            return Err(Error::new(Code::ToolNotFound, text));
        }
        // The run sets the idempotency key and revision of each call; the model's values are
        // dropped.
        arguments.remove("_rev");
        arguments.remove("idempotency_key");
        // vctx's own tools have no `request_heartbeat` argument, but models that learned it from
        // other memory systems send it anyway.
        let requested = self.dialect == Dialect::Vctx
            && arguments.remove("request_heartbeat") == Some(Value::Bool(true));
        let call = translate(self.dialect, name, arguments.clone())?;
        let asked_beat = requested || call.beats();
        Ok(Meant::Ours { call: Box::new(call), arguments, asked_beat })
    }
}

/// Returns the names of the offered memory tools: from the request, else from the configuration,
/// else the dialect's chat tools.
fn tool_names<'a>(request: &'a RunRequest, settings: &'a ProcessorSettings) -> Vec<&'a str> {
    match (&request.tools, settings.tools.is_empty()) {
        (Some(named), _) => named.iter().map(String::as_str).collect(),
        (None, false) => settings.tools.iter().map(String::as_str).collect(),
        (None, true) => settings.dialect.chat_tools(),
    }
}

/// Returns the name of a client tool, from `function.name` or a top-level `name`.
pub(super) fn name_of(schema: &Value) -> String {
    let names = [schema.pointer("/function/name"), schema.get("name")];
    let mut names = names.into_iter().flatten().filter_map(Value::as_str);
    names.find(|name| !name.is_empty()).unwrap_or_default().to_owned()
}
