//! `append_fifo`: appends a message to the queue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::either::text_or_object;
use super::spec::Step;
use crate::error::{Error, Result};
use crate::limits::{CITE_BYTES_MAX, CITES_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX, TOOL_CALLS_MAX};
use crate::memory::archive::FoundPassage;
use crate::memory::core::Core;
use crate::memory::joined::cited;
use crate::memory::message::{Kind, Role};
use crate::memory::thread::{Place, Seen, SeenCall};
use crate::policy::{Answers, Draft, Flush, Question, Surroundings};

/// Arguments of `append_fifo`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendFifo {
    /// The message: a text, or an object with its parts.
    pub message: Said,
    /// Who speaks.
    pub role: Role,
    /// What an answer rests on: `id`s of passages as search_archival shows them. Each must be there; the answer keeps their revision and a
    /// digest of their text.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub cites: Vec<String>,
    /// Its place in the thread of a client that sends its whole history; no caller gives it.
    #[serde(skip)]
    pub place: Option<Place>,
}

/// A message as it is given.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Said {
    /// Just its text.
    Text(String),
    /// With its parts.
    Parts(Parts),
}

/// The parts of a message.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// The text; may be empty beside tool calls.
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
    /// When it was said, by the client's clock; free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_at: Option<String>,
}

/// A tool call as OpenAI's chat format has it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type", default = "function_kind")]
    pub kind: CallKind,
    /// What is called.
    pub function: Function,
}

/// The only kind of call there is.
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
    /// Its name.
    pub name: String,
    /// Its arguments as a JSON text.
    pub arguments: String,
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        let expected = "a text, or an object with `content`";
        text_or_object(deserializer, expected, |text| Ok(Self::Text(text.to_owned())), Self::Parts)
    }
}

/// Name under which a message keeps what it cites, in its `meta`.
const CITES: &str = "cites";

/// Prefix of a chunk's id.
const ARCHIVE: &str = "archival_docs/";

/// The key in a chunk's id, which may stand there alone.
fn key_of(id: &str) -> &str {
    id.strip_prefix(ARCHIVE).unwrap_or(id)
}

/// Only an answer cites, not too much, and by names that could be a chunk's.
fn check_cites(cites: &[String], role: Role) -> Result<()> {
    if cites.len() > CITES_MAX {
        return Err(Error::argument("cites", format!("more than {CITES_MAX}")));
    }
    if !cites.is_empty() && role != Role::Assistant {
        return Err(Error::argument("cites", "only the role assistant cites"));
    }
    let odd = |id: &String| {
        let key = key_of(id);
        key.is_empty()
            || id.len() > CITE_BYTES_MAX
            || !key.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    match cites.iter().position(odd) {
        Some(at) => Err(Error::argument(
            &format!("cites[{at}]"),
            "not the id of a passage: give `id` as search_archival shows it",
        )),
        None => Ok(()),
    }
}

/// The policy of every tool but `evict_fifo`: evict when the window would reach the flush threshold, with the local summariser.
pub(super) fn own_flush(core: &Core) -> Flush {
    Flush { always: false, target: core.token_budget.target, summarize: true, may_wait: false }
}

/// Checks a message's parts against its role; `at` names the place in faults.
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

/// Everything but the text, as it is kept in `meta`.
pub(super) fn meta_of(parts: &Parts) -> Map<String, Value> {
    let mut meta = match serde_json::to_value(parts).expect("parts are JSON") {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    meta.remove("content");
    meta
}

impl AppendFifo {
    /// A message of a client that sends its whole history, at its place; `at` names it in faults. A tool's answer may be empty there.
    pub fn seen(seen: &Seen, place: Place, at: &str) -> Result<Self> {
        let call = |call: &SeenCall| ToolCall {
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
            said_at: None,
        };
        if !(seen.role == Role::Tool && seen.text.is_empty()) {
            checked_parts(&parts, seen.role, at)?;
        }
        let message = Said::Parts(parts);
        Ok(Self { message, role: seen.role, cites: Vec::new(), place: Some(place) })
    }

    /// The same, checked beyond its types; a fault names the argument.
    pub(super) fn checked(self) -> Result<Self> {
        let mut parts = match self.message {
            Said::Text(content) => Parts { content, ..Parts::default() },
            Said::Parts(parts) => parts,
        };
        // Chat formats refuse an empty list of calls; none is what it means.
        parts.tool_calls = parts.tool_calls.filter(|calls| !calls.is_empty());
        checked_parts(&parts, self.role, "message.")?;
        check_cites(&self.cites, self.role)?;
        Ok(Self { message: Said::Parts(parts), ..self })
    }

    /// The cited chunks in the order in which they are named, each once; a question where they are not known yet, a fault that names
    /// the first that is not there.
    fn cited(&self, answers: &Answers) -> Result<std::result::Result<Vec<FoundPassage>, Question>> {
        let mut keys: Vec<&str> = Vec::with_capacity(self.cites.len());
        for id in &self.cites {
            if !keys.contains(&key_of(id)) {
                keys.push(key_of(id));
            }
        }
        if keys.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let Some(found) = &answers.cited else {
            let keys = keys.into_iter().map(str::to_owned).collect();
            return Ok(Err(Question::Cited { keys }));
        };
        let there = |key: &&str| found.iter().find(|passage| passage.key == **key).cloned();
        let missing = self.cites.iter().position(|id| there(&key_of(id)).is_none());
        match missing {
            Some(at) => Err(Error::argument(
                &format!("cites[{at}]"),
                format!(
                    "no passage `{}` in this agent's archive: search again, and cite what is there now",
                    self.cites[at]
                ),
            )),
            None => Ok(Ok(keys.iter().filter_map(there).collect())),
        }
    }

    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let parts = match &self.message {
            Said::Parts(parts) => parts.clone(),
            Said::Text(content) => Parts { content: content.clone(), ..Parts::default() },
        };
        let mut meta = meta_of(&parts);
        let passages = match self.cited(answers)? {
            Ok(passages) => passages,
            Err(question) => return Ok(Step::Ask(question)),
        };
        if !passages.is_empty() {
            meta.insert(CITES.into(), passages.iter().map(cited).collect());
        }
        let mut draft = Draft::new(around, core);
        if let Some(id) = &parts.tool_call_id
            && let Some(question) = draft.pair(id, answers)?
        {
            return Ok(Step::Ask(question));
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
        let result = result.as_object().cloned().unwrap_or_default();
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }
}
