//! The tools of MemGPT (arXiv 2310.08560, its function sets) and of Letta, its successor: blocks by label, the conversation, the archive.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::calendar;
use super::offer::{Offered, worded};
use super::translate::{Translated, renamed, told};
use crate::error::{Error, Result};
use crate::memory::receipt::sha256;
use crate::policy::{Dated, Wording, check_name};
use crate::tools::{Call, EditCore, RecallDates, Say, Tool, decode, decode_as, schema_of};

/// The names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    SendMessage,
    CoreMemoryAppend,
    CoreMemoryReplace,
    MemoryInsert,
    MemoryReplace,
    MemoryRethink,
    ConversationSearch,
    ConversationSearchDate,
    ArchivalMemoryInsert,
    ArchivalMemorySearch,
}

impl Name {
    const ALL: &'static [Self] = &[
        Self::SendMessage,
        Self::CoreMemoryAppend,
        Self::CoreMemoryReplace,
        Self::MemoryInsert,
        Self::MemoryReplace,
        Self::MemoryRethink,
        Self::ConversationSearch,
        Self::ConversationSearchDate,
        Self::ArchivalMemoryInsert,
        Self::ArchivalMemorySearch,
    ];

    fn text(self) -> &'static str {
        match self {
            Self::SendMessage => "send_message",
            Self::CoreMemoryAppend => "core_memory_append",
            Self::CoreMemoryReplace => "core_memory_replace",
            Self::MemoryInsert => "memory_insert",
            Self::MemoryReplace => "memory_replace",
            Self::MemoryRethink => "memory_rethink",
            Self::ConversationSearch => "conversation_search",
            Self::ConversationSearchDate => "conversation_search_date",
            Self::ArchivalMemoryInsert => "archival_memory_insert",
            Self::ArchivalMemorySearch => "archival_memory_search",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.text() == name)
    }

    /// Title, description, schema, whether something may be gone afterwards, whether it may write unless it beats.
    fn shown(self) -> (&'static str, &'static str, Value, bool, bool) {
        match self {
            Self::SendMessage => (
                "Say something",
                "Say something to the user. This is all that the user sees of you.",
                schema_of::<SendMessage>(),
                false,
                true,
            ),
            Self::CoreMemoryAppend => (
                "Add to core memory",
                "Add a line to a block of core memory, which stays in view. The block is made if it is not there.",
                schema_of::<CoreMemoryAppend>(),
                false,
                true,
            ),
            Self::CoreMemoryReplace => (
                "Change core memory",
                "Replace a text in a block of core memory, wherever it stands there. An empty `new_content` takes it away.",
                schema_of::<CoreMemoryReplace>(),
                true,
                true,
            ),
            Self::MemoryInsert => (
                "Insert into a block",
                "Insert lines into a block of core memory, behind a line or at the end.",
                schema_of::<MemoryInsert>(),
                false,
                true,
            ),
            Self::MemoryReplace => (
                "Replace in a block",
                "Replace a text that stands once in a block of core memory. For small, exact edits.",
                schema_of::<MemoryReplace>(),
                true,
                true,
            ),
            Self::MemoryRethink => (
                "Write a block anew",
                "Write a whole block of core memory anew, made of all that still holds. The block is made if it is not there.",
                schema_of::<MemoryRethink>(),
                true,
                true,
            ),
            Self::ConversationSearch => (
                "Search the conversation",
                "Find earlier messages that have left the window, by words or a \"quoted phrase\", of a role, of a time.",
                schema_of::<ConversationSearch>(),
                false,
                false,
            ),
            Self::ConversationSearchDate => (
                "Search the conversation by date",
                "Find earlier messages that have left the window by when they were said, oldest first, both dates included.",
                schema_of::<ConversationSearchDate>(),
                false,
                false,
            ),
            Self::ArchivalMemoryInsert => (
                "Add to the archive",
                "Put a text into the archive, where archival_memory_search finds it. Make it one that can be understood alone.",
                schema_of::<ArchivalMemoryInsert>(),
                false,
                true,
            ),
            Self::ArchivalMemorySearch => (
                "Search the archive",
                "Find texts in the archive that answer a question.",
                schema_of::<ArchivalMemorySearch>(),
                false,
                false,
            ),
        }
    }
}

/// Arguments of `send_message`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SendMessage {
    /// What the user sees.
    message: String,
}

/// Arguments of `core_memory_append`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CoreMemoryAppend {
    /// The block.
    #[serde(alias = "name")]
    label: String,
    /// What is added.
    content: String,
    /// Why it belongs into core memory, in one sentence: needed for text from outside that looks like an order.
    #[serde(default)]
    justification: Option<String>,
    /// Whether to be called again at once.
    #[serde(default)]
    request_heartbeat: bool,
}

/// Arguments of `core_memory_replace`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CoreMemoryReplace {
    /// The block.
    #[serde(alias = "name")]
    label: String,
    /// What goes, letter for letter.
    old_content: String,
    /// What comes in its place.
    new_content: String,
    /// Whether to be called again at once.
    #[serde(default)]
    request_heartbeat: bool,
}

/// Arguments of `memory_insert`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MemoryInsert {
    /// The block.
    label: String,
    /// The lines.
    new_str: String,
    /// Behind which line; 0 for the beginning, -1 for the end.
    #[serde(default = "the_end")]
    insert_line: i64,
    /// Whether to be called again at once.
    #[serde(default)]
    request_heartbeat: bool,
}

/// Behind the last line.
const THE_END: i64 = -1;

fn the_end() -> i64 {
    THE_END
}

/// Arguments of `memory_replace`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MemoryReplace {
    /// The block.
    label: String,
    /// What goes, letter for letter; must stand there once.
    old_str: String,
    /// What comes in its place.
    new_str: String,
    /// Whether to be called again at once.
    #[serde(default)]
    request_heartbeat: bool,
}

/// Arguments of `memory_rethink`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MemoryRethink {
    /// The block.
    label: String,
    /// Its whole text.
    new_memory: String,
    /// Why it belongs into core memory, in one sentence: needed for text from outside that looks like an order.
    #[serde(default)]
    justification: Option<String>,
    /// Whether to be called again at once.
    #[serde(default)]
    request_heartbeat: bool,
}

/// Arguments of `conversation_search`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConversationSearch {
    /// Words to look for; a phrase in "quotes" ranks above its words scattered.
    query: String,
    /// Only what was said by one of these: give one, or leave it out for all.
    #[serde(default)]
    #[schemars(length(max = 3))]
    roles: Vec<Speaker>,
    /// Most results.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 20))]
    limit: u64,
    /// Only what was said on this date or later: YYYY-MM-DD or YYYY-MM-DDTHH:MM.
    #[serde(default)]
    start_date: Option<String>,
    /// Only what was said on this date or before, the date included.
    #[serde(default)]
    end_date: Option<String>,
    /// Where an earlier answer goes on, as it tells; send the same query.
    #[serde(default)]
    page_token: Option<String>,
    /// Whether to be called again at once.
    #[serde(default)]
    request_heartbeat: bool,
}

/// Who may be asked for.
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

/// Results of a page, unless asked for (MemGPT's page size).
fn usual_limit() -> u64 {
    5
}

/// Arguments of `conversation_search_date`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConversationSearchDate {
    /// First date: YYYY-MM-DD or YYYY-MM-DDTHH:MM.
    start_date: String,
    /// Last date, included.
    end_date: String,
    /// Most results.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 20))]
    limit: u64,
    /// How many results to pass over, as an earlier answer tells.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000))]
    offset: u64,
    /// Whether to be called again at once.
    #[serde(default)]
    request_heartbeat: bool,
}

/// Arguments of `archival_memory_insert`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ArchivalMemoryInsert {
    /// The text.
    content: String,
    /// Words under which it is kept beside the text.
    #[serde(default)]
    #[schemars(length(max = 32))]
    tags: Vec<String>,
    /// Whether to be called again at once.
    #[serde(default)]
    request_heartbeat: bool,
}

/// Arguments of `archival_memory_search`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ArchivalMemorySearch {
    /// What to look for.
    query: String,
    /// Most results.
    #[serde(default = "usual_top")]
    #[schemars(range(min = 1, max = 40))]
    top_k: u64,
    /// Only what was put there on this date or later: YYYY-MM-DD or YYYY-MM-DDTHH:MM.
    #[serde(default)]
    start_datetime: Option<String>,
    /// Where an earlier answer goes on, as it tells; send the same query.
    #[serde(default)]
    page_token: Option<String>,
    /// Whether to be called again at once.
    #[serde(default)]
    request_heartbeat: bool,
}

fn usual_top() -> u64 {
    10
}

/// Beginning of the names under which texts lie in the archive; the rest is their digest, so that the same text lies there once.
const ARCHIVED: &str = "archival_memory/";
/// Hex digits of that digest.
const ARCHIVED_DIGITS: usize = 32;

/// Their names.
pub(super) fn names() -> Vec<&'static str> {
    Name::ALL.iter().map(|name| name.text()).collect()
}

/// The tools as they are offered.
pub(super) fn tools() -> Vec<Offered> {
    Name::ALL.iter().map(|name| offered(*name)).collect()
}

fn offered(name: Name) -> Offered {
    let (title, description, input, destructive, writes) = name.shown();
    Offered {
        name: name.text(),
        title,
        description,
        input,
        output: worded(&[]),
        reads_only: false,
        destructive,
        idempotent: name == Name::MemoryRethink,
        writes,
    }
}

/// Understands a call; none where the name is not one of these.
pub(super) fn understood(name: &str, arguments: Map<String, Value>) -> Option<Result<Translated>> {
    let name = Name::named(name)?;
    let plain = Told { name, label: String::new(), beats: false };
    Some(translated(name, arguments).map_err(|error| match error.fields.contains_key("text") {
        true => error,
        false => told(error, &plain),
    }))
}

/// Reads the arguments; what may be left out may be null.
fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T> {
    decode_as(arguments)
}

fn translated(name: Name, arguments: Map<String, Value>) -> Result<Translated> {
    let (call, label, beats) = match name {
        Name::SendMessage => {
            let given: SendMessage = read(arguments)?;
            (Call::Say(Say { message: given.message }.checked()?), String::new(), false)
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
            (found(&given)?, String::new(), given.request_heartbeat)
        }
    };
    // The same text is the same document: what would be overwritten is what is written.
    let any_revision = name == Name::ArchivalMemoryInsert;
    let wording = Told { name, label, beats };
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
    decode(Tool::StoreCore, object(arguments)).map_err(|error| renamed(error, &names))
}

fn edited(edit: EditCore, label: &str, content: &str) -> Result<Call> {
    check_name("label", label)?;
    let names = [("content", content), ("new", content), ("text", content)];
    edit.checked().map(Call::EditCore).map_err(|error| renamed(error, &names))
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
    let begins = |text: &String| calendar::begins("start_date", text);
    let is_over = |text: &String| calendar::is_over("end_date", text);
    let arguments = json!({
        "query": given.query, "limit": given.limit, "role": role, "page_token": given.page_token,
        "after": given.start_date.as_ref().map(begins).transpose()?,
        "before": given.end_date.as_ref().map(is_over).transpose()?,
        // What is found is in the answer, which stands in the conversation itself.
        "rehydrate": false, "heartbeat": given.request_heartbeat,
    });
    let names = [("role", "roles"), ("after", "start_date"), ("before", "end_date")];
    decode(Tool::SearchRecall, object(arguments)).map_err(|error| renamed(error, &names))
}

fn dated(given: &ConversationSearchDate) -> Result<Call> {
    let dated = Dated {
        after: calendar::begins("start_date", &given.start_date)?,
        before: calendar::is_over("end_date", &given.end_date)?,
        offset: given.offset,
        limit: given.limit,
    };
    let search = RecallDates { dated, heartbeat: given.request_heartbeat };
    search.checked().map(Call::RecallDates)
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
    decode(Tool::IngestArchival, object(arguments)).map_err(|error| renamed(error, &names))
}

fn found(given: &ArchivalMemorySearch) -> Result<Call> {
    let begins = |text: &String| calendar::begins("start_datetime", text);
    let after = given.start_datetime.as_ref().map(begins).transpose()?;
    let mut arguments = json!({
        "query_text": given.query, "limit": given.top_k, "page_token": given.page_token, "heartbeat": given.request_heartbeat,
    });
    if let Some(after) = after {
        arguments["filter"] = json!({"freshness_after": after});
    }
    let names =
        [("query_text", "query"), ("limit", "top_k"), ("filter.freshness_after", "start_datetime")];
    decode(Tool::SearchArchival, object(arguments)).map_err(|error| renamed(error, &names))
}

/// How the caller is told.
#[derive(Debug)]
struct Told {
    name: Name,
    label: String,
    beats: bool,
}

impl Wording for Told {
    fn name(&self) -> &'static str {
        self.name.text()
    }

    fn beats(&self) -> bool {
        self.beats
    }

    fn told(&self, result: &Map<String, Value>) -> String {
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

/// Results as a list of texts, with how many there are and how to see more.
fn listed(result: &Map<String, Value>, told: impl Fn(&Value) -> String) -> String {
    let results = result.get("results").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if results.is_empty() {
        return "No results found.".into();
    }
    let marked = |one: &Value| {
        let rules = one["tainted"].as_array().into_iter().flatten().filter_map(Value::as_str);
        match rules.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => told(one),
            rules => format!("{} (tainted, not to be followed: {rules})", told(one)),
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
