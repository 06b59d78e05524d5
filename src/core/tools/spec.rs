//! What each tool or command declares: its specification, its step, and for tools also arguments
//! and description.

use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{compact, told};
use crate::conveyance::Path;
use crate::error::{Error, Result};
use crate::policy::{Ctx, Depends, Step, Stop};
use crate::text::nearest;

/// What a call must contain in addition to its arguments: an idempotency key, a revision, both or
/// neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The call reads, and needs neither key nor revision.
    Read,
    /// The call searches and may store its results. It is valid at any revision, and the server
    /// generates a key if the caller gives none.
    Search,
    /// The call writes, and needs a key and the revision that the caller builds on.
    Write,
    /// The call only adds data. It needs a key, and is valid at any revision.
    Post,
    /// The call advances something that the server manages for an agent, such as a heartbeat chain,
    /// a run or a forget operation. It is valid at any revision, and the server generates a key if
    /// the caller gives none.
    Signal,
}

/// Properties that all calls to one tool or command share.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The name in requests, logs, metrics and audit rows.
    pub name: &'static str,
    /// Whether a call must contain an idempotency key and a revision in addition to its arguments.
    pub access: Access,
    /// Whether the call counts in the check for a heartbeat chain that repeats itself.
    pub in_chains: bool,
    /// The operation whose measured durations include the call's duration. The duration counts for
    /// `CoreWrite` only if the call writes and does not evict.
    pub path: Option<Path>,
    /// Whether the answer contains texts of messages.
    pub tells_messages: bool,
}

impl Spec {
    /// Returns the properties of a tool for models. `name` is the tool's name in this server's own
    /// dialect; another dialect may use a different name for the tool.
    pub(super) const fn tool(name: &'static str, access: Access) -> Self {
        let path = Some(Path::CoreWrite);
        Self { name, access, in_chains: true, path, tells_messages: false }
    }

    /// Returns the properties of a command, which models cannot call.
    pub(super) const fn command(name: &'static str, access: Access) -> Self {
        Self { in_chains: false, ..Self::tool(name, access) }
    }
}

/// A decoded call to a tool, or to a command that models cannot call.
pub(super) trait Command {
    /// Properties that all calls to this tool or command share.
    const SPEC: Spec;

    /// Decides what the call does to this core. If the call needs more data, it stops with a
    /// `Question`, and runs again with the answer.
    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop>;

    /// Whether the call is expected to write and therefore uses the socket for writes. A search
    /// that is expected only to read may still have to store its result list.
    fn writes(&self) -> bool {
        Self::SPEC.access != Access::Read
    }

    /// Returns the parts of the core that must not have changed since the caller's revision.
    fn depends(&self) -> Depends {
        Depends::Queue
    }

    /// Returns the digest of the document that the call stores, if it stores one. A stored document
    /// with the same digest stays as it is, whatever revision the caller builds on.
    fn document_digest(&self) -> Option<String> {
        None
    }

    /// Whether the call requests the model's next inference (a heartbeat).
    fn beats(&self) -> bool {
        false
    }

    /// Returns the text of this call that the user sees, if any.
    fn user_text(&self) -> Option<&str> {
        None
    }
}

/// An attribute of a result: its name, its JSON type, and its meaning. A type that ends in `?` may
/// be null or absent.
pub type Output = (&'static str, &'static str, &'static str);

/// Description of the result attribute that contains the number of tokens that a text costs in the
/// window.
pub(super) const COST: &str = "tokens it costs in the window";
/// Description of the result attribute that contains the page token of the next page.
pub(super) const NEXT: &str = "where the list goes on; give it as page_token; null: this was all";
/// Description of the result attribute that contains the number of tokens that a search added to
/// the window.
pub(super) const ADDED: &str = "tokens that came into the window by this call";

/// Description of a tool for models and people.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// Title for people.
    pub title: &'static str,
    /// Description for the model: what the tool does and when to use it.
    pub description: &'static str,
    /// Whether the call may remove existing data.
    pub destructive: bool,
    /// Whether repeating the call has no further effect.
    pub idempotent: bool,
    /// Whether a chat offers the tool by default. Not every tool is offered, because schemas take
    /// room in the window.
    pub in_chat: bool,
    /// Whether an MCP client sees the tool only if it asks for all tools.
    pub on_request: bool,
    /// Whether the `memory` tool of Anthropic's dialect replaces this tool.
    pub of_blocks: bool,
    /// Example arguments (JSON) for the command line.
    pub example: &'static str,
    /// Attributes of the tool's result.
    pub result: &'static [Output],
    /// Returns the text in which a model reads the tool's result.
    pub told: fn(&Map<String, Value>) -> String,
}

impl Card {
    /// Default values: the tool is offered only on request and removes nothing. Each tool sets the
    /// other fields.
    pub(super) const NEW: Self = Self {
        title: "",
        description: "",
        destructive: false,
        idempotent: false,
        in_chat: false,
        on_request: false,
        of_blocks: false,
        example: "{}",
        result: &[],
        told: told::as_json,
    };
}

/// The arguments of a tool, in the form that a model sends.
pub(super) trait Arguments: Command + DeserializeOwned + JsonSchema {
    /// Description of the tool for models and people.
    const CARD: Card;

    /// Checks the values of the arguments, whose types are already correct; an error names the
    /// argument.
    fn checked(self) -> Result<Self>;
}

/// Returns the JSON Schema (2020-12) of a tool's arguments: a closed object with inlined
/// sub-schemas.
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = marked_schema_of::<T>();
    compact::unmark(&mut schema);
    schema
}

/// Returns the schema that a model is offered: only the arguments that a model needs, with few
/// words, because a model reads the schema on every turn.
pub fn compact_schema_of<T: JsonSchema>() -> Value {
    compact::compact(&marked_schema_of::<T>())
}

/// Returns the schema of a tool's arguments with the marks of the arguments for models.
fn marked_schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    serde_json::to_value(schema).expect("a schema is JSON")
}

/// Decodes arguments; unknown names are errors. A null counts as absent, because strict tool calls
/// send null for optional arguments. An error names the argument and the expected form.
pub fn decode_as<T: DeserializeOwned>(mut arguments: Map<String, Value>) -> Result<T> {
    arguments.retain(|_, v| !v.is_null());
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|fault| {
        let path = shortened(&fault.path().to_string());
        let message = shortened(&fault.inner().to_string());
        let field =
            if path == "." { named_in(&message).unwrap_or("arguments").to_owned() } else { path };
        let meant = meant_by(&fault.inner().to_string());
        let meant = meant.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
        Error::argument(&field, format!("{meant}{message}"))
    })
}

/// Deserializes an object or null. Without this function, serde reads an array as the values of the
/// object's fields, and `[]` as an object without any.
pub fn optional_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<Option<T>, D::Error> {
    deserializer.deserialize_option(ObjectVisitor(PhantomData))
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an object")
    }

    fn visit_none<E>(self) -> std::result::Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Option<T>, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<Option<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

/// Returns the name that an unknown name in a message of serde probably means, if several names are
/// known: "unknown field `q`, expected one of `query`, `limit`".
fn meant_by(message: &str) -> Option<String> {
    let unknown =
        message.strip_prefix("unknown field `").or(message.strip_prefix("unknown variant `"))?;
    let mut names = unknown.split('`').step_by(2);
    let wrong = names.next()?;
    let known: Vec<&str> = names.collect();
    nearest(wrong, known.iter().copied()).filter(|_| known.len() > 1).map(str::to_owned)
}

/// Maximum number of characters that an error shows of a message from serde, which repeats a wrong
/// value in full.
const FAULT_CHARS_MAX: usize = 240;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(FAULT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Returns the name between back-ticks in serde's messages "missing field `x`" and "unknown field
/// `x`".
fn named_in(message: &str) -> Option<&str> {
    message.split('`').nth(1)
}
