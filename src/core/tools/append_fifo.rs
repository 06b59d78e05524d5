//! `append_fifo`: appends a message to the queue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::spec::{Access, Arguments, COST, Card, Command, Spec, optional_object};
use super::text_or_object::text_or_object;
use crate::error::{Error, Result};
use crate::limits::{DOC_ID_BYTES_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX, TOOL_CALLS_MAX};
use crate::memory::archive::{FoundPassage, parted_handle, passage_key};
use crate::memory::conversation::{ClientCall, ClientMessage, ThreadPosition};
use crate::memory::edges::cited;
use crate::memory::message::{Kind, Role};
use crate::memory::{LABELS, Labels};
use crate::policy::{Ctx, Question, Step, Stop};

/// Maximum number of chunks that one message may cite; a search can show more.
const CITES_MAX: usize = 32;
/// Maximum length of a citation, in bytes, which is the maximum length of a handle: the document's
/// name, `#`, and the chunk's name.
const CITE_BYTES_MAX: usize = DOC_ID_BYTES_MAX + 1 + NAME_BYTES_MAX;

/// Arguments of `append_fifo`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendFifo {
    /// The message: a text, or an object with its parts.
    #[schemars(extend("x-model" = ""))]
    pub message: MessageInput,
    /// Who speaks.
    #[schemars(extend("x-model" = ""))]
    pub role: Role,
    /// The sources of an answer: handles (`document#chunk`) or `id`s of passages, as
    /// search_archival shows them. Each passage must exist; the answer keeps its revision and a
    /// digest of its text.
    #[serde(default)]
    #[schemars(length(max = 32), extend("x-model" = "passages that the answer uses"))]
    pub cites: Vec<String>,
    /// The message's position in the thread of a client that sends its whole history. Only the
    /// server sets this value; it is no argument of the tool.
    #[serde(skip)]
    pub place: Option<ThreadPosition>,
}

/// A message as the caller gives it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum MessageInput {
    /// Only the text.
    Text(String),
    /// The text with further attributes.
    Parts(Parts),
}

/// The parts of a message.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// The text; may be empty if there are tool calls.
    pub content: String,
    /// Name of the speaker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tool calls that an assistant makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// The call that a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// When the text was said, by the client's clock; free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_at: Option<String>,
    /// User, session, tags and metadata, by which searches select.
    #[serde(
        default,
        deserialize_with = "optional_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub labels: Option<Labels>,
}

/// A tool call in OpenAI's chat format.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Id of the call.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type", default = "function_kind")]
    pub kind: CallKind,
    /// The called function.
    pub function: Function,
}

/// The only kind of call.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallKind {
    /// A function.
    Function,
}

fn function_kind() -> CallKind {
    CallKind::Function
}

/// Name and arguments of a call.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Name of the function.
    pub name: String,
    /// Arguments of the function as a JSON text.
    pub arguments: String,
}

impl<'de> Deserialize<'de> for MessageInput {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        let expected = "a text, or an object with `content`";
        text_or_object(deserializer, expected, |text| Ok(Self::Text(text.to_owned())), Self::Parts)
    }
}

/// Name of the attribute in a message's `meta` that lists the cited chunks.
const CITES: &str = "cites";

/// Prefix of a chunk's id, before the chunk's key.
const ARCHIVE: &str = "archival_docs/";

/// Returns the key of a cited chunk: from the handle `document#chunk` of a chunk, from a chunk's
/// id, or from the key alone.
fn key_of(id: &str, agent_id: &str) -> String {
    match parted_handle(id) {
        Some((doc_id, chunk_id)) => passage_key(agent_id, doc_id, chunk_id),
        None => id.strip_prefix(ARCHIVE).unwrap_or(id).to_owned(),
    }
}

/// Checks that only an answer has citations, that they are not too many, and that each one has the
/// form of a chunk's handle or id.
fn check_cites(cites: &[String], role: Role) -> Result<()> {
    if cites.len() > CITES_MAX {
        return Err(Error::argument("cites", format!("more than {CITES_MAX}")));
    }
    if !cites.is_empty() && role != Role::Assistant {
        return Err(Error::argument("cites", "only the role assistant cites"));
    }
    let odd = |id: &String| {
        let key = id.strip_prefix(ARCHIVE).unwrap_or(id);
        let is_key = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric());
        id.len() > CITE_BYTES_MAX || (parted_handle(id).is_none() && !is_key)
    };
    match cites.iter().position(odd) {
        Some(at) => Err(Error::argument(
            &format!("cites[{at}]"),
            "not the handle of a passage: give `document#chunk` or `id` as search_archival shows it",
        )),
        None => Ok(()),
    }
}

/// Checks a message's parts against its role; `at` names the argument in errors.
pub(super) fn checked_parts(parts: &Parts, role: Role, at: &str) -> Result<()> {
    let fault =
        |field: &str, message: String| Err(Error::argument(&format!("{at}{field}"), message));
    if parts.content.len() > TEXT_BYTES_MAX {
        return fault("content", format!("longer than {TEXT_BYTES_MAX} bytes: split it"));
    }
    let calls = parts.tool_calls.as_deref().unwrap_or_default();
    if calls.len() > TOOL_CALLS_MAX {
        return fault("tool_calls", format!("more than {TOOL_CALLS_MAX}"));
    }
    if !calls.is_empty() && role != Role::Assistant {
        return fault("tool_calls", "only the role assistant makes tool calls".into());
    }
    if parts.tool_call_id.is_some() && role != Role::Tool {
        return fault("tool_call_id", "only the role tool answers a tool call".into());
    }
    if parts.content.is_empty() && calls.is_empty() {
        return fault("content", "empty: give a text or tool calls".into());
    }
    let mut ids: Vec<&str> = calls.iter().map(|c| c.id.as_str()).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return fault("tool_calls", "two calls share an id".into());
    }
    let arguments: usize = calls.iter().map(|c| c.function.arguments.len()).sum();
    if arguments > TEXT_BYTES_MAX {
        return fault(
            "tool_calls",
            format!("their arguments are longer than {TEXT_BYTES_MAX} bytes"),
        );
    }
    if let Some(labels) = &parts.labels {
        labels.check(&format!("{at}labels"))?;
    }
    let short = [
        ("name", parts.name.as_deref()),
        ("tool_call_id", parts.tool_call_id.as_deref()),
        ("said_at", parts.said_at.as_deref()),
    ];
    let from_calls = calls.iter().flat_map(|c| {
        [
            ("tool_calls.id", Some(c.id.as_str())),
            ("tool_calls.function.name", Some(c.function.name.as_str())),
        ]
    });
    for (field, text) in short.into_iter().chain(from_calls) {
        if text.is_some_and(|t| t.is_empty() || t.len() > NAME_BYTES_MAX) {
            return fault(field, format!("use 1 to {NAME_BYTES_MAX} bytes"));
        }
    }
    Ok(())
}

/// Returns a message's attributes except its text, as the object that is stored as `meta`.
pub(super) fn meta_of(parts: &Parts) -> Map<String, Value> {
    let mut meta = match serde_json::to_value(parts).expect("parts are JSON") {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    meta.remove("content");
    meta.remove(LABELS);
    if let Some(labels) = &parts.labels {
        labels.store(&mut meta);
    }
    meta
}

impl Arguments for AppendFifo {
    const CARD: Card = Card {
        title: "Append a message",
        description: "Append a message to the conversation.",
        example: r#"{"message": "Hello", "role": "user"}"#,
        result: &[
            ("message_id", "string", "id of the message"),
            ("token_estimate", "integer", COST),
        ],
        told: |_| "Done.".to_owned(),
        ..Card::NEW
    };

    fn checked(self) -> Result<Self> {
        let mut parts = match self.message {
            MessageInput::Text(content) => Parts { content, ..Parts::default() },
            MessageInput::Parts(parts) => parts,
        };
        // An empty list of calls is stored as no list, because chat formats refuse an empty list.
        parts.tool_calls = parts.tool_calls.filter(|calls| !calls.is_empty());
        checked_parts(&parts, self.role, "message.")?;
        check_cites(&self.cites, self.role)?;
        Ok(Self { message: MessageInput::Parts(parts), ..self })
    }
}

impl Command for AppendFifo {
    const SPEC: Spec = Spec::tool("append_fifo", Access::Write);

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let parts = match &self.message {
            MessageInput::Parts(parts) => parts.clone(),
            MessageInput::Text(content) => Parts { content: content.clone(), ..Parts::default() },
        };
        let mut meta = meta_of(&parts);
        let passages = self.cited(ctx)?;
        if !passages.is_empty() {
            meta.insert(CITES.into(), passages.iter().map(cited).collect());
        }
        let mut draft = ctx.draft();
        if let Some(id) = &parts.tool_call_id {
            draft.pair(id, "message.tool_call_id", ctx.answers)?;
        }
        let (message_id, cost) = draft.push(Kind::Turn, self.role, parts.content, meta);
        if let Some(place) = &self.place {
            draft.put_in_thread(place);
        }
        draft.cite(&passages);
        if self.role == Role::User {
            draft.interrupt_chain();
        }
        let mut result = json!({"message_id": message_id, "token_estimate": cost});
        if !passages.is_empty() {
            result["cited"] = passages.len().into();
        }
        ctx.finish(draft, result)
    }
}

impl AppendFifo {
    /// Returns the call that appends one message from a client that sends its whole history.
    /// `place` is the message's position in the thread, and `at` names the message in errors. A
    /// tool's answer may be empty in such a history.
    pub fn from_client(
        seen: &ClientMessage,
        labels: &Labels,
        place: ThreadPosition,
        at: &str,
    ) -> Result<Self> {
        let call = |call: &ClientCall| ToolCall {
            id: call.id.clone(),
            kind: CallKind::Function,
            function: Function { name: call.name.clone(), arguments: call.arguments.clone() },
        };
        let calls: Vec<ToolCall> = seen.calls.iter().map(call).collect();
        let parts = Parts {
            content: seen.text.clone(),
            name: seen.name.clone(),
            tool_calls: Some(calls).filter(|calls| !calls.is_empty()),
            tool_call_id: seen.call_id.clone(),
            labels: Some(labels.clone()).filter(|labels| *labels != Labels::default()),
            ..Parts::default()
        };
        if !(seen.role == Role::Tool && seen.text.is_empty()) {
            checked_parts(&parts, seen.role, at)?;
        }
        let message = MessageInput::Parts(parts);
        Ok(Self { message, role: seen.role, cites: Vec::new(), place: Some(place) })
    }

    /// Returns the cited chunks in the order of `cites`, each once. If chunks are missing, an error
    /// names the first missing chunk.
    fn cited(&self, ctx: &Ctx<'_>) -> Result<Vec<FoundPassage>, Stop> {
        let key = |id: &String| key_of(id, &ctx.core.agent_id);
        let mut keys: Vec<String> = Vec::with_capacity(self.cites.len());
        for id in &self.cites {
            if !keys.contains(&key(id)) {
                keys.push(key(id));
            }
        }
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let found = ctx.answers.cited(|| Question::Cited { keys: keys.clone() })?;
        let there = |key: &String| found.iter().find(|passage| passage.key == *key).cloned();
        let missing = self.cites.iter().position(|id| there(&key(id)).is_none());
        match missing {
            Some(at) => Err(Error::argument(
                &format!("cites[{at}]"),
                format!(
                    "no passage `{}` in this agent's archive: search again, and cite what is there now",
                    self.cites[at]
                ),
            )
            .into()),
            None => Ok(keys.iter().filter_map(there).collect()),
        }
    }
}
