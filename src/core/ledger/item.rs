//! A row as an entry of the ledger names it: kind, identity and digest.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use crate::memory::canonical::canonical_with;
use crate::memory::core::Core;
use crate::memory::export::{Owner, RowKind, carried};
use crate::memory::receipt::{canonical_json, canonical_object};
use crate::sha::Sha256;
use crate::trust::Scope;

type Row = Map<String, Value>;

/// Number of bytes of a digest in an entry. Finding another row with the same 128 bits takes about
/// 2^128 attempts, and the salt of a row prevents that two rows are prepared beforehand.
const DIGEST_BYTES: usize = 16;

/// Number of characters of such a digest in base64.
const DIGEST_CHARS: usize = (DIGEST_BYTES * 8).div_ceil(6);

/// Maximum number of words of an item.
const WORDS_MAX: usize = 4;

/// Character before the digest that a row had before the statement that changed it.
const BEFORE: char = '<';

/// Text that stands before the items of each entry: the version of the list of kinds that entries
/// describe. Entries of version 1 have no such text; they describe neither vectors of chunks nor
/// rows that an export leaves out.
pub const ITEMS_VERSION: &str = "2";

/// What an item describes: a whole row, or a part of a row that is written without the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// A row of this kind; for a prompt, without the attributes of its outcome, and for a chunk,
    /// without vectors.
    Row(RowKind),
    /// The attributes that the outcome of a prompt adds to the row of the prompt.
    PromptEnd,
    /// A vector of a chunk. A chunk may have one for each vector setting.
    Vector,
    /// The attribute `moving` of the core.
    Moving,
    /// A row that an export leaves out.
    Local(LocalKind),
}

/// A kind of row that belongs to an agent and stays in its database: an export leaves it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LocalKind {
    /// Stored result lists.
    Pages,
    /// Parts of documents that are being ingested.
    Parts,
    /// Forget operations and their manifests.
    Forgettings,
    /// How far recall storage has vectors. The lease in the same row is not covered.
    Marks,
}

impl LocalKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Pages, Self::Parts, Self::Forgettings, Self::Marks];

    /// Returns the collection of this kind of row.
    pub fn collection(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Parts => "archival_parts",
            Self::Forgettings => "forgets",
            Self::Marks => "recall_marks",
        }
    }

    /// Returns the kind of row that a collection contains.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.collection() == name)
    }
}

/// Attributes that the outcome of a prompt adds to the row of the prompt.
const PROMPT_END: [&str; 7] = [
    "answer_seq",
    "counted_permille",
    "duration_ms",
    "ended_at",
    "finish",
    "usage",
    "variance_flag",
];

impl Shape {
    const ALL: [(char, Self); 22] = [
        ('c', Self::Row(RowKind::Core)),
        ('v', Self::Row(RowKind::Versions)),
        ('m', Self::Row(RowKind::Messages)),
        ('r', Self::Row(RowKind::Recall)),
        ('n', Self::Row(RowKind::RecallVectors)),
        ('a', Self::Row(RowKind::Manifests)),
        ('d', Self::Row(RowKind::Passages)),
        ('k', Self::Row(RowKind::Cites)),
        ('f', Self::Row(RowKind::Derived)),
        ('p', Self::Row(RowKind::Prompts)),
        ('q', Self::PromptEnd),
        ('t', Self::Row(RowKind::ToolSets)),
        ('x', Self::Row(RowKind::Packs)),
        ('i', Self::Row(RowKind::Answers)),
        ('s', Self::Row(RowKind::Schedules)),
        ('e', Self::Row(RowKind::Events)),
        ('w', Self::Vector),
        ('y', Self::Moving),
        ('g', Self::Local(LocalKind::Pages)),
        ('b', Self::Local(LocalKind::Parts)),
        ('o', Self::Local(LocalKind::Forgettings)),
        ('h', Self::Local(LocalKind::Marks)),
    ];

    fn letter(self) -> char {
        Self::ALL.iter().find(|(_, shape)| *shape == self).map_or('?', |(letter, _)| *letter)
    }

    fn by_letter(letter: char) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == letter).map(|(_, shape)| *shape)
    }

    /// Returns whether a statement can change what the item describes. An event never changes, and
    /// a chunk may have further vectors.
    fn is_changed(self) -> bool {
        !matches!(self, Self::Row(RowKind::Events) | Self::Vector)
    }

    /// Returns the collection of the row that the item describes as a whole or in part.
    pub fn collection(self) -> &'static str {
        match self {
            Self::Row(kind) => kind.collection(),
            Self::PromptEnd => RowKind::Prompts.collection(),
            Self::Vector => RowKind::Passages.collection(),
            Self::Moving => RowKind::Core.collection(),
            Self::Local(kind) => kind.collection(),
        }
    }
}

/// State of a row after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowState {
    /// The row exists and has this digest. If it expires, `until` is the time in seconds since 1970
    /// after which the row may be missing. If a statement changed a row that it found, `before` is
    /// the digest of the row that it found.
    Is { digest: String, until: Option<u64>, before: Option<String> },
    /// The row was removed.
    Gone,
}

/// A row that a write changed. An entry stores an item as a text: the letter of the shape, the
/// identity, a space and the digest, for a row that expires a space and the time, and for a row
/// that a statement found and changed a space, `<` and the digest before. The text of a removed row
/// has no digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What the item describes.
    pub shape: Shape,
    /// Identity of the row among the agent's rows of this kind, without any name that a caller
    /// gave; empty for the core and for events.
    pub id: String,
    /// State of the row.
    pub state: RowState,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.shape.letter(), self.id)?;
        if let RowState::Is { digest, until, before } = &self.state {
            write!(f, " {digest}")?;
            if let Some(until) = until {
                write!(f, " {until}")?;
            }
            if let Some(before) = before {
                write!(f, " {BEFORE}{before}")?;
            }
        }
        Ok(())
    }
}

impl Item {
    /// Parses the text of an item.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words: Vec<&str> = text.splitn(WORDS_MAX + 1, ' ').collect();
        let before = words.pop_if(|word| word.starts_with(BEFORE));
        let name = words.first()?;
        let shape = Shape::by_letter(name.chars().next()?)?;
        let id = name[1..].to_owned();
        let before = match before {
            Some(word) => {
                let digest = word.strip_prefix(BEFORE).filter(|digest| is_digest(digest))?;
                shape.is_changed().then(|| Some(digest.to_owned()))?
            }
            None => None,
        };
        let state = match words[1..] {
            [] if before.is_none() => RowState::Gone,
            [digest] => RowState::Is { digest: digest.to_owned(), until: None, before },
            [digest, until] => {
                let until = Some(until.parse().ok()?);
                RowState::Is { digest: digest.to_owned(), until, before }
            }
            _ => return None,
        };
        Some(Self { shape, id, state })
    }

    fn new(shape: Shape, id: String, digest: String, until: Option<u64>) -> Self {
        Self { shape, id, state: RowState::Is { digest, until, before: None } }
    }

    /// Adds the digest before a statement to an item of the row after it. `found` has the items of
    /// the row that the statement found.
    #[must_use]
    pub fn changed_from(mut self, found: &[Self]) -> Self {
        let same = |one: &&Self| one.shape == self.shape && one.id == self.id;
        if self.shape.is_changed()
            && let Some(RowState::Is { digest: found, .. }) =
                found.iter().find(same).map(|one| &one.state)
            && let RowState::Is { before, .. } = &mut self.state
        {
            *before = Some(found.clone());
        }
        self
    }

    /// Returns the items of a row in the form of the database. `salt` is the salt of the message to
    /// which the row belongs, for rows without a salt of their own. An error says why the row
    /// cannot belong to the agent.
    pub fn of_row(
        kind: RowKind,
        row: Row,
        scope: &Scope,
        salt: Option<&str>,
    ) -> Result<Vec<Self>, String> {
        let owner = Owner {
            scope: scope.key().to_owned(),
            tenant: scope.tenant().to_owned(),
            sealed_as: scope.key().to_owned(),
            vector: None,
            number: 0,
        };
        let (moving, vectors) = (Self::moving(kind, &row), vectors(kind, &row));
        let mut row = carried(kind, row, &owner)?;
        if kind == RowKind::Passages {
            row.shift_remove("embedding");
        }
        let mut items = Self::of_export(kind, &row, salt)?;
        items.extend(moving);
        for vector in vectors {
            items.push(Self::vector(&row, &vector)?);
        }
        Ok(items)
    }

    /// Returns the item of a core that the server is about to write. The core belongs to the scope,
    /// and does not move. The result equals that of [`Item::of_row`] for the stored core.
    pub fn of_core(core: &Core, scope: &Scope) -> Result<Self, String> {
        if core.agent_id != scope.key() {
            return Err("is no row of the agent".to_owned());
        }
        let mut carried = Cow::Borrowed(core);
        if let Some(kept) = &core.queue_head_summary.kept {
            let rest = kept.strip_prefix(scope.key()).and_then(|rest| rest.strip_prefix(':'));
            let rest = rest.ok_or("has a summary that belongs to another agent")?;
            carried.to_mut().queue_head_summary.kept = Some(rest.to_owned());
        }
        let covers = |name: &str, value: &[u8]| {
            let is_empty = value == b"null" || (name == "released" && value == b"[]");
            !is_empty && !OF_DATABASE.contains(&name)
        };
        let text = canonical_with(&*carried, &covers);
        let text = text.map_err(|why| format!("is no JSON: {why}"))?;
        let digest = short(&Sha256::digest(text));
        Ok(Self::new(Shape::Row(RowKind::Core), String::new(), digest, None))
    }

    /// Returns the item of a message that the server is about to write. The result equals that of
    /// [`Item::of_row`], without a copy of the message.
    pub fn of_message(row: &Row, scope: &Scope) -> Result<Self, String> {
        let key = written_key(row, scope)?;
        let mut covered = Covered::whole(row);
        covered.0.retain(|(name, _)| !["_key", "agent_id", "tainted_seq"].contains(name));
        covered.put("id", key);
        let kind = RowKind::Messages;
        Ok(Self::is(Shape::Row(kind), id_of(kind, row)?, &covered, None))
    }

    /// Returns the item of a stored answer that the server is about to write: the row without the
    /// answer, and the answer. The result equals that of [`Item::of_row`], without a copy.
    pub fn of_answer(row: &Row, response: &Value, scope: &Scope) -> Result<Self, String> {
        written_key(row, scope)?;
        let mut covered = Covered::whole(row);
        covered.0.retain(|(name, _)| !["_key", "agent_id"].contains(name));
        covered.put("response", response);
        let kind = RowKind::Answers;
        let until = row.get("expires_at").and_then(Value::as_u64);
        Ok(Self::is(Shape::Row(kind), id_of(kind, row)?, &covered, until))
    }

    /// Returns the item of a row that an export leaves out.
    pub fn of_local(kind: LocalKind, mut row: Row, scope: &Scope) -> Result<Self, String> {
        row.shift_remove("_id");
        row.shift_remove("_rev");
        row.retain(|_, value| !value.is_null());
        if row.get("agent_id").is_some_and(|agent| agent != scope.key()) {
            return Err("is another agent's".into());
        }
        if kind == LocalKind::Marks {
            row.shift_remove("claim");
        }
        let id = local_id(kind, &row)?;
        let until = match kind {
            LocalKind::Pages | LocalKind::Parts => row.get("expires_at").and_then(Value::as_u64),
            LocalKind::Forgettings | LocalKind::Marks => None,
        };
        Ok(Self::is(Shape::Local(kind), id, &Covered::whole(&row), until))
    }

    /// Returns the item of a removed row that an export left out.
    pub fn gone_local(kind: LocalKind, row: &Row) -> Result<Self, String> {
        let id = local_id(kind, row)?;
        Ok(Self { shape: Shape::Local(kind), id, state: RowState::Gone })
    }

    /// Returns the item of the core's attribute `moving`, if the row has it.
    pub fn moving(kind: RowKind, row: &Row) -> Option<Self> {
        let moving = row.get("moving").filter(|_| kind == RowKind::Core)?.as_object()?;
        Some(Self::is(Shape::Moving, String::new(), &Covered::whole(moving), None))
    }

    /// Returns the item that says that the core has no attribute `moving` any more.
    pub fn moved_no_more() -> Self {
        Self { shape: Shape::Moving, id: String::new(), state: RowState::Gone }
    }

    /// Returns the item of a vector of a chunk: the first bytes of
    /// `SHA-256(salt of the chunk ‖ 0x00 ‖ components as IEEE 754 doubles, little end first)`.
    pub fn vector(chunk: &Row, vector: &[Value]) -> Result<Self, String> {
        let salt = chunk.get("salt").and_then(Value::as_str).unwrap_or_default();
        let mut hash = Sha256::new();
        hash.update(salt.as_bytes());
        hash.update([0]);
        for component in vector {
            let component = component.as_f64().ok_or("has a vector that contains no number")?;
            hash.update(component.to_le_bytes());
        }
        let id = id_of(RowKind::Passages, chunk)?;
        Ok(Self::new(Shape::Vector, id, short(&hash.finalize()), None))
    }

    /// Returns the items of a row in the form of an export.
    pub fn of_export(kind: RowKind, row: &Row, salt: Option<&str>) -> Result<Vec<Self>, String> {
        let id = id_of(kind, row)?;
        let vector = row.get("embedding").filter(|_| kind == RowKind::Passages);
        let vector = vector.and_then(Value::as_array).map(|vector| Self::vector(row, vector));
        let until = match kind {
            RowKind::Answers => row.get("expires_at").and_then(Value::as_u64),
            _ => None,
        };
        let salt = salt.map(Value::from);
        let mut covered = Covered::of(kind, row);
        if let Some(salt) = &salt {
            covered.put("salt", salt);
        }
        let mut items = Vec::with_capacity(1);
        if kind == RowKind::Prompts {
            let end = covered.split_off(&PROMPT_END);
            if covered.0.iter().any(|(name, _)| *name != "turn") {
                items.push(Self::is(Shape::Row(kind), id.clone(), &covered, until));
            }
            if !end.0.is_empty() {
                items.push(Self::is(Shape::PromptEnd, id, &end, until));
            }
        } else {
            items.push(Self::is(Shape::Row(kind), id, &covered, until));
        }
        if let Some(vector) = vector {
            items.push(vector?);
        }
        Ok(items)
    }

    /// Returns the item of a removed row. The row needs no attributes but those of its identity.
    pub fn gone(kind: RowKind, row: &Row) -> Result<Vec<Self>, String> {
        let id = id_of(kind, row)?;
        let gone = |shape| Self { shape, id: id.clone(), state: RowState::Gone };
        Ok(match kind {
            RowKind::Prompts => vec![gone(Shape::Row(kind)), gone(Shape::PromptEnd)],
            _ => vec![gone(Shape::Row(kind))],
        })
    }

    fn is(shape: Shape, id: String, covered: &Covered<'_>, until: Option<u64>) -> Self {
        let digest = Sha256::digest(canonical_object(&covered.0));
        Self::new(shape, id, short(&digest), until)
    }
}

/// Attributes of a core that belong to its database; an export leaves them out.
const OF_DATABASE: [&str; 8] =
    ["_key", "_rev", "agent_id", "tenant", "names", "sealed_as", "moving", "imported_entries"];

/// Returns the key of a row that the server is about to write for an agent.
fn written_key<'r>(row: &'r Row, scope: &Scope) -> Result<&'r Value, String> {
    match (row.get("_key"), row.get("agent_id")) {
        (Some(key), Some(agent)) if agent == scope.key() => Ok(key),
        _ => Err("is no row of the agent".to_owned()),
    }
}

/// Returns whether a text has the form of a digest in an entry.
fn is_digest(text: &str) -> bool {
    let of_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    text.len() == DIGEST_CHARS && text.bytes().all(of_base64)
}

fn short(digest: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(&digest[..DIGEST_BYTES])
}

/// Returns the vectors of a chunk in the form of the database: those of all vector settings.
fn vectors(kind: RowKind, row: &Row) -> Vec<Vec<Value>> {
    let of_setting = |name: &str| name == "embedding" || name.starts_with("embedding_");
    row.iter()
        .filter(|(name, _)| kind == RowKind::Passages && of_setting(name))
        .filter_map(|(_, value)| value.as_array().cloned())
        .collect()
}

/// Returns the identity of a row that an export leaves out.
fn local_id(kind: LocalKind, row: &Row) -> Result<String, String> {
    if kind == LocalKind::Marks {
        return Ok(String::new());
    }
    let key = row.get("_key").and_then(Value::as_str).ok_or("has no text `_key`")?;
    Ok(named(&[key]))
}

/// The attributes of a row that its digest covers. Null attributes are left out, because some
/// writes remove an attribute and others set it to null.
struct Covered<'a>(Vec<(&'a str, Cow<'a, Value>)>);

impl<'a> Covered<'a> {
    /// Returns all attributes of a row.
    fn whole(row: &'a Row) -> Self {
        let there = row.iter().filter(|(_, value)| !value.is_null());
        Self(there.map(|(name, value)| (name.as_str(), Cow::Borrowed(value))).collect())
    }

    /// Returns the attributes of an exported row that its digest covers. Values that the database
    /// computes are left out: the time of an entry, and the revision in a stored answer.
    fn of(kind: RowKind, row: &'a Row) -> Self {
        let mut covered = Self::whole(row);
        match kind {
            // A core without released items has no list of them, or an empty one.
            RowKind::Core => {
                covered.0.retain(|(name, value)| *name != "released" || **value != json!([]));
            }
            RowKind::Recall => covered.0.retain(|(name, _)| *name != "at_ms"),
            RowKind::Passages => covered.0.retain(|(name, _)| *name != "embedding"),
            RowKind::Answers => {
                let response = covered.0.iter_mut().find(|(name, _)| *name == "response");
                if let Some((_, response)) = response
                    && response.get("_rev").is_some()
                    && let Value::Object(response) = response.to_mut()
                {
                    response.shift_remove("_rev");
                }
            }
            RowKind::Versions
            | RowKind::Messages
            | RowKind::RecallVectors
            | RowKind::Manifests
            | RowKind::Cites
            | RowKind::Derived
            | RowKind::Prompts
            | RowKind::ToolSets
            | RowKind::Packs
            | RowKind::Schedules
            | RowKind::Events => {}
        }
        covered
    }

    /// Adds an attribute, in place of one with the same name.
    fn put(&mut self, name: &'a str, value: &'a Value) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, Cow::Borrowed(value)));
    }

    /// Takes the attributes with the given names out.
    fn split_off(&mut self, names: &[&str]) -> Self {
        let all = std::mem::take(&mut self.0);
        let (taken, kept) = all.into_iter().partition(|(name, _)| names.contains(name));
        self.0 = kept;
        Self(taken)
    }
}

/// Returns the identity of a row in the form of an export.
fn id_of(kind: RowKind, row: &Row) -> Result<String, String> {
    let number = |name: &str| {
        let number = row.get(name).and_then(Value::as_u64);
        number.map(|n| n.to_string()).ok_or_else(|| format!("has no whole number `{name}`"))
    };
    let text = |name: &str| {
        row.get(name).and_then(Value::as_str).ok_or_else(|| format!("has no text `{name}`"))
    };
    Ok(match kind {
        RowKind::Core | RowKind::Events => String::new(),
        RowKind::Versions => number("version")?,
        RowKind::Messages | RowKind::Recall => number("seq")?,
        RowKind::RecallVectors => format!("{}.{}", number("seq")?, number("passage")?),
        RowKind::Manifests => named(&[text("doc_id")?]),
        RowKind::Passages => named(&[text("doc_id")?, text("chunk_id")?]),
        RowKind::Cites => named(&[text("message")?, text("doc_id")?, text("chunk_id")?]),
        RowKind::Derived => {
            let ends: Row = ["chunk", "version", "message", "before"]
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), row.get(*name)?.clone())))
                .collect();
            named(&[&canonical_json(&Value::Object(ends))])
        }
        RowKind::Prompts => number("turn")?,
        RowKind::ToolSets | RowKind::Packs => text("digest")?.to_owned(),
        RowKind::Answers => {
            let part = row.get("part").and_then(Value::as_u64);
            named(&[text("key")?, &part.map_or_else(String::new, |part| part.to_string())])
        }
        RowKind::Schedules => named(&[text("name")?]),
    })
}

/// Returns a digest of names, so that the ledger contains no name.
fn named(names: &[&str]) -> String {
    short(&Sha256::digest(names.join("\0").as_bytes()))
}
