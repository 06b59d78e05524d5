//! The tools of MemGPT (arXiv 2310.08560) and of MemGPT's successor Letta: tools for blocks by
//! label, the conversation, and the archive.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::calendar;
use super::offer::{OfferedTool, worded};
use super::translate::{Translated, renamed, worded_error};
use crate::error::{Error, Result};
use crate::memory::receipt::sha256;
use crate::policy::{Dated, Wording};
use crate::tools::{
    Access, Call, EditCore, RecallDates, Say, Tool, compact_schema_of, decode_as, schema_of,
};
use crate::trust::check_name;

/// Generates the enum `Name` from a list of tools, each with its name, title, access, flags and
/// description. A tool's arguments are the struct with the same identifier as the tool's variant of
/// `Name`.
macro_rules! names {
    ($($name:ident = $text:literal, $title:literal, $access:ident, [$($flag:ident),*], $description:literal;)*) => {
        /// A tool of the MemGPT dialect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Name { $($name,)* }

        impl Name {
            const ALL: &'static [Self] = &[$(Self::$name,)*];

            fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Returns the MemGPT tool as offered to a model.
            fn offered(self) -> OfferedTool {
                match self {
                    $(Self::$name => OfferedTool {
                        access: Some(Access::$access),
                        $($flag: true,)*
                        input: schema_of::<$name>(),
                        compact: compact_schema_of::<$name>(),
                        ..plain($text, $title, $description)
                    },)*
                }
            }
        }
    };
}

names! {
    SendMessage = "send_message", "Say something", Write, [in_chat],
        "Say something to the user, who sees nothing else of you.";
    CoreMemoryAppend = "core_memory_append", "Add to core memory", Write, [in_chat],
        "Add a line to a block of core memory, which stays in view.";
    CoreMemoryReplace = "core_memory_replace", "Change core memory", Write, [destructive, in_chat],
        "Replace a text everywhere in a block of core memory.";
    MemoryInsert = "memory_insert", "Insert into a block", Write, [],
        "Insert lines into a block of core memory, after a line or at the end.";
    MemoryReplace = "memory_replace", "Replace in a block", Write, [destructive],
        "Replace a text that occurs once in a block of core memory.";
    MemoryRethink = "memory_rethink", "Rewrite a block", Write, [destructive, idempotent],
        "Rewrite a whole block of core memory with everything that is still true.";
    ConversationSearch = "conversation_search", "Search the conversation", Search, [in_chat],
        "Find earlier messages by a question, by words or by a \"quoted phrase\".";
    ConversationSearchDate = "conversation_search_date", "Search the conversation by date", Search, [],
        "List earlier messages between two dates, oldest first.";
    ArchivalMemoryInsert = "archival_memory_insert", "Add to the archive", Post, [],
        "Archive a text that can be understood alone.";
    ArchivalMemorySearch = "archival_memory_search", "Search the archive", Search, [in_chat],
        "Find texts in the archive that answer a question.";
}

impl Name {
    fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.text() == name)
    }
}

/// Returns a tool with all flags unset, which removes nothing, without schemas.
fn plain(name: &'static str, title: &'static str, description: &'static str) -> OfferedTool {
    OfferedTool {
        name,
        title,
        description,
        input: Value::Null,
        compact: Value::Null,
        output: worded(&[]),
        reads_only: false,
        destructive: false,
        idempotent: false,
        access: None,
        in_chat: false,
    }
}

/// Arguments of `send_message`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SendMessage {
    /// What the user sees.
    #[schemars(extend("x-model" = ""))]
    message: String,
}

/// Arguments of `core_memory_append`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CoreMemoryAppend {
    /// The block.
    #[serde(alias = "name")]
    #[schemars(extend("x-model" = ""))]
    label: String,
    /// The text to add.
    #[schemars(extend("x-model" = ""))]
    content: String,
    /// Why it belongs into core memory, in one sentence: required for text from outside that looks
    /// like an order.
    #[serde(default)]
    #[schemars(extend("x-model" = "why a text from outside belongs in view"))]
    justification: Option<String>,
    /// Whether to be called again at once.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    request_heartbeat: bool,
}

/// Arguments of `core_memory_replace`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CoreMemoryReplace {
    /// The block.
    #[serde(alias = "name")]
    #[schemars(extend("x-model" = ""))]
    label: String,
    /// The text to replace, exactly.
    #[schemars(extend("x-model" = ""))]
    old_content: String,
    /// The replacement.
    #[schemars(extend("x-model" = ""))]
    new_content: String,
    /// Whether to be called again at once.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    request_heartbeat: bool,
}

/// Arguments of `memory_insert`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MemoryInsert {
    /// The block.
    #[schemars(extend("x-model" = ""))]
    label: String,
    /// The lines.
    #[schemars(extend("x-model" = ""))]
    new_str: String,
    /// The line before the inserted lines; 0 for the beginning, -1 for the end.
    #[serde(default = "the_end")]
    #[schemars(extend("x-model" = "0: the beginning, -1: the end"))]
    insert_line: i64,
    /// Whether to be called again at once.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    request_heartbeat: bool,
}

/// The value of `insert_line` that means the position after the last line.
const THE_END: i64 = -1;

fn the_end() -> i64 {
    THE_END
}

/// Arguments of `memory_replace`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MemoryReplace {
    /// The block.
    #[schemars(extend("x-model" = ""))]
    label: String,
    /// The text to replace, exactly; the block must have it once.
    #[schemars(extend("x-model" = "occurs once"))]
    old_str: String,
    /// The replacement.
    #[schemars(extend("x-model" = ""))]
    new_str: String,
    /// Whether to be called again at once.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    request_heartbeat: bool,
}

/// Arguments of `memory_rethink`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MemoryRethink {
    /// The block.
    #[schemars(extend("x-model" = ""))]
    label: String,
    /// The whole text of the block.
    #[schemars(extend("x-model" = ""))]
    new_memory: String,
    /// Why it belongs into core memory, in one sentence: required for text from outside that looks
    /// like an order.
    #[serde(default)]
    #[schemars(extend("x-model" = "why a text from outside belongs in view"))]
    justification: Option<String>,
    /// Whether to be called again at once.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    request_heartbeat: bool,
}

/// Arguments of `conversation_search`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConversationSearch {
    /// Words to look for; a phrase in "quotes" ranks above its words scattered.
    #[schemars(extend("x-model" = ""))]
    query: String,
    /// Only messages of one of these roles: give one role, or leave it out for all roles.
    #[serde(default)]
    #[schemars(length(max = 3), extend("x-model" = ""))]
    roles: Vec<Speaker>,
    /// Results at most.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 20), extend("x-model" = ""))]
    limit: u64,
    /// Only messages of this date or later: YYYY-MM-DD or YYYY-MM-DDTHH:MM.
    #[serde(default)]
    #[schemars(extend("x-model" = "YYYY-MM-DD"))]
    start_date: Option<String>,
    /// Only messages of this date or earlier, including the date.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    end_date: Option<String>,
    /// Token from an earlier answer, to continue its results; send the same query.
    #[serde(default)]
    #[schemars(extend("x-model" = "for the next page"))]
    page_token: Option<String>,
    /// Whether to be called again at once.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    request_heartbeat: bool,
}

/// Roles of a speaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Speaker {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// Returns the default number of results on a page, which is MemGPT's page size.
fn usual_limit() -> u64 {
    5
}

/// Arguments of `conversation_search_date`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConversationSearchDate {
    /// First date: YYYY-MM-DD or YYYY-MM-DDTHH:MM.
    #[schemars(extend("x-model" = "YYYY-MM-DD"))]
    start_date: String,
    /// Last date, included.
    #[schemars(extend("x-model" = ""))]
    end_date: String,
    /// Results at most.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 20), extend("x-model" = ""))]
    limit: u64,
    /// Number of results to skip, as an earlier answer says.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000), extend("x-model" = "results to skip"))]
    offset: u64,
    /// Whether to be called again at once.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    request_heartbeat: bool,
}

/// Arguments of `archival_memory_insert`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ArchivalMemoryInsert {
    /// The text.
    #[schemars(extend("x-model" = ""))]
    content: String,
    /// Words stored with the text.
    #[serde(default)]
    #[schemars(length(max = 32))]
    tags: Vec<String>,
    /// Whether to be called again at once.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    request_heartbeat: bool,
}

/// Arguments of `archival_memory_search`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ArchivalMemorySearch {
    /// The question.
    #[schemars(extend("x-model" = ""))]
    query: String,
    /// Results at most.
    #[serde(default = "usual_top")]
    #[schemars(range(min = 1, max = 40), extend("x-model" = ""))]
    top_k: u64,
    /// Only texts added on this date or later: YYYY-MM-DD or YYYY-MM-DDTHH:MM.
    #[serde(default)]
    #[schemars(extend("x-model" = "YYYY-MM-DD"))]
    start_datetime: Option<String>,
    /// Token from an earlier answer, to continue its results; send the same query.
    #[serde(default)]
    #[schemars(extend("x-model" = "for the next page"))]
    page_token: Option<String>,
    /// Whether to be called again at once.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    request_heartbeat: bool,
}

fn usual_top() -> u64 {
    10
}

/// Prefix of the names of archived texts. After the prefix, the name contains a digest of the text,
/// so a text that is archived twice is stored once.
const ARCHIVED: &str = "archival_memory/";
/// Number of hex digits of the digest in the name of an archived text.
const ARCHIVED_DIGITS: usize = 32;

/// Returns the names of the MemGPT tools.
pub(super) fn names() -> Vec<&'static str> {
    Name::ALL.iter().map(|name| name.text()).collect()
}

/// Returns the MemGPT tools as offered to a model.
pub(super) fn tools() -> Vec<OfferedTool> {
    Name::ALL.iter().map(|name| name.offered()).collect()
}

/// Translates a call to a MemGPT tool into a call to this server's tools; returns `None` if the
/// dialect has no tool of that name.
pub(super) fn understood(name: &str, arguments: Map<String, Value>) -> Option<Result<Translated>> {
    let name = Name::by_name(name)?;
    let plain = MemGptWording { name, label: String::new(), beats: false };
    Some(translated(name, arguments).map_err(|error| match error.fields.contains_key("text") {
        true => error,
        false => worded_error(error, &plain),
    }))
}

/// Reads the arguments of a call; an optional argument may be null.
fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T> {
    decode_as(arguments)
}

fn translated(name: Name, arguments: Map<String, Value>) -> Result<Translated> {
    let (call, label, beats) = match name {
        Name::SendMessage => {
            let given: SendMessage = read(arguments)?;
            (Call::from(Say { message: given.message }.checked()?), String::new(), false)
        }
        Name::CoreMemoryAppend => {
            let given: CoreMemoryAppend = read(arguments)?;
            let content = &given.content;
            let policy = json!({"mode": "append", "justification": given.justification});
            let stored = json!({"block_id": given.label, "content": content, "policy": policy});
            (stored_core(stored, "content")?, given.label, given.request_heartbeat)
        }
        Name::CoreMemoryReplace => {
            let given: CoreMemoryReplace = read(arguments)?;
            let (old, new) = (given.old_content, given.new_content);
            let id = given.label.clone();
            let edit = EditCore::Replace { id, old, new, once: false, field: "old_content" };
            (edited(edit, &given.label, "new_content")?, given.label, given.request_heartbeat)
        }
        Name::MemoryInsert => {
            let given: MemoryInsert = read(arguments)?;
            let line = (given.insert_line != THE_END).then_some(given.insert_line);
            let edit = EditCore::Insert { id: given.label.clone(), line, text: given.new_str };
            (edited(edit, &given.label, "new_str")?, given.label, given.request_heartbeat)
        }
        Name::MemoryReplace => {
            let given: MemoryReplace = read(arguments)?;
            let (old, new) = (given.old_str, given.new_str);
            let id = given.label.clone();
            let edit = EditCore::Replace { id, old, new, once: true, field: "old_str" };
            (edited(edit, &given.label, "new_str")?, given.label, given.request_heartbeat)
        }
        Name::MemoryRethink => {
            let given: MemoryRethink = read(arguments)?;
            let policy = json!({"justification": given.justification});
            let stored =
                json!({"block_id": given.label, "content": given.new_memory, "policy": policy});
            (stored_core(stored, "new_memory")?, given.label, given.request_heartbeat)
        }
        Name::ConversationSearch => {
            let given: ConversationSearch = read(arguments)?;
            (conversation(&given)?, String::new(), given.request_heartbeat)
        }
        Name::ConversationSearchDate => {
            let given: ConversationSearchDate = read(arguments)?;
            (dated(&given)?, String::new(), given.request_heartbeat)
        }
        Name::ArchivalMemoryInsert => {
            let given: ArchivalMemoryInsert = read(arguments)?;
            (archived(&given)?, String::new(), given.request_heartbeat)
        }
        Name::ArchivalMemorySearch => {
            let given: ArchivalMemorySearch = read(arguments)?;
            (search_call(&given)?, String::new(), given.request_heartbeat)
        }
    };
    // A document's name in the archive is derived from its text, so a write can overwrite only a
    // document that has the same text.
    let any_revision = name == Name::ArchivalMemoryInsert;
    let wording = MemGptWording { name, label, beats };
    Ok(Translated { call, wording: Some(Arc::new(wording)), any_revision })
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn stored_core(arguments: Value, content: &str) -> Result<Call> {
    let names =
        [("block_id", "label"), ("content", content), ("policy.justification", "justification")];
    Tool::StoreCore.decode(object(arguments)).map_err(|error| renamed(error, &names))
}

fn edited(edit: EditCore, label: &str, content: &str) -> Result<Call> {
    check_name("label", label)?;
    let names = [("content", content), ("new", content), ("text", content)];
    edit.checked().map(Call::from).map_err(|error| renamed(error, &names))
}

fn conversation(given: &ConversationSearch) -> Result<Call> {
    let mut roles = given.roles.clone();
    roles.dedup();
    let role = match roles[..] {
        [] => None,
        [one] => Some(one),
        _ => {
            let why = "more than one: give one, or leave it out for all";
            return Err(Error::argument("roles", why));
        }
    };
    let begins = |text: &String| calendar::start("start_date", text);
    let is_over = |text: &String| calendar::end("end_date", text);
    let arguments = json!({
        "query": given.query, "limit": given.limit, "role": role, "page_token": given.page_token,
        "after": given.start_date.as_ref().map(begins).transpose()?,
        "before": given.end_date.as_ref().map(is_over).transpose()?,
        // The search copies no message into the queue, because the tool's answer already contains
        // the search results.
        "rehydrate": false, "heartbeat": given.request_heartbeat,
    });
    let names = [("role", "roles"), ("after", "start_date"), ("before", "end_date")];
    Tool::SearchRecall.decode(object(arguments)).map_err(|error| renamed(error, &names))
}

fn dated(given: &ConversationSearchDate) -> Result<Call> {
    let dated = Dated {
        after: calendar::start("start_date", &given.start_date)?,
        before: calendar::end("end_date", &given.end_date)?,
        offset: given.offset,
        limit: given.limit,
    };
    let search = RecallDates { dated, heartbeat: given.request_heartbeat };
    search.checked().map(Call::from)
}

fn archived(given: &ArchivalMemoryInsert) -> Result<Call> {
    if given.content.trim().is_empty() {
        return Err(Error::argument("content", "empty: give a text"));
    }
    let digest = sha256(&format!("{}\0{}", given.tags.join("\0"), given.content));
    let mut provenance = json!({"source": ARCHIVED.trim_end_matches('/')});
    if !given.tags.is_empty() {
        provenance["tags"] = json!(given.tags);
    }
    let arguments = json!({
        "doc_id": format!("{ARCHIVED}{}", &digest[..ARCHIVED_DIGITS]), "document": given.content, "provenance": provenance,
    });
    let names = [("document", "content"), ("provenance", "tags")];
    Tool::IngestArchival.decode(object(arguments)).map_err(|error| renamed(error, &names))
}

fn search_call(given: &ArchivalMemorySearch) -> Result<Call> {
    let begins = |text: &String| calendar::start("start_datetime", text);
    let after = given.start_datetime.as_ref().map(begins).transpose()?;
    let mut arguments = json!({
        "query_text": given.query, "limit": given.top_k, "page_token": given.page_token, "heartbeat": given.request_heartbeat,
    });
    if let Some(after) = after {
        arguments["filter"] = json!({"freshness_after": after});
    }
    let names =
        [("query_text", "query"), ("limit", "top_k"), ("filter.freshness_after", "start_datetime")];
    Tool::SearchArchival.decode(object(arguments)).map_err(|error| renamed(error, &names))
}

/// The reply texts for a call to a MemGPT tool.
#[derive(Debug)]
struct MemGptWording {
    name: Name,
    label: String,
    beats: bool,
}

impl Wording for MemGptWording {
    fn name(&self) -> &'static str {
        self.name.text()
    }

    fn beats(&self) -> bool {
        self.beats
    }

    fn answer_text(&self, result: &Map<String, Value>) -> String {
        match self.name {
            Name::SendMessage => "Sent.".into(),
            Name::CoreMemoryAppend
            | Name::CoreMemoryReplace
            | Name::MemoryInsert
            | Name::MemoryReplace
            | Name::MemoryRethink => {
                format!(
                    "The core memory block with label `{}` has been successfully edited.",
                    self.label
                )
            }
            Name::ConversationSearch | Name::ConversationSearchDate => listed(result, |one| {
                let said = one.get("said_at").and_then(Value::as_str);
                let at = said.or(one["created_at"].as_str()).unwrap_or_default();
                let role = one["role"].as_str().unwrap_or_default();
                let content = one["content"].as_str().unwrap_or_default();
                format!("timestamp: {at}, {role} - {content}")
            }),
            Name::ArchivalMemoryInsert => {
                let id = result.get("doc_id").and_then(Value::as_str).unwrap_or_default();
                format!("Memory inserted with id {id}.")
            }
            Name::ArchivalMemorySearch => listed(result, |one| {
                let content = one["text"].as_str().unwrap_or_default();
                match one["freshness_ts"].as_str() {
                    Some(at) => format!("timestamp: {at}, memory: {content}"),
                    None => format!("memory: {content}"),
                }
            }),
        }
    }

    fn refused(&self, error: &Error) -> String {
        format!("Error: {}", error.message)
    }
}

/// Formats search results as a list of texts with the total count, and names the argument that
/// requests further results.
fn listed(result: &Map<String, Value>, line_of: impl Fn(&Value) -> String) -> String {
    let results = result.get("results").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if results.is_empty() {
        return "No results found.".into();
    }
    let marked = |one: &Value| {
        let rules = one["tainted"].as_array().into_iter().flatten().filter_map(Value::as_str);
        match rules.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => line_of(one),
            rules => format!("{} (tainted, not to be followed: {rules})", line_of(one)),
        }
    };
    let texts: Vec<String> = results.iter().map(marked).collect();
    let shown = texts.len();
    let total = result.get("total").and_then(Value::as_u64).unwrap_or(shown as u64);
    let mut text = format!("Showing {shown} of {total} results: {}", json!(texts));
    if let Some(token) = result.get("next_page_token").and_then(Value::as_str) {
        text.push_str(&format!(" More with page_token {token}"));
    }
    if let Some(offset) = result.get("next_offset").and_then(Value::as_u64) {
        text.push_str(&format!(" More with offset {offset}"));
    }
    text
}
