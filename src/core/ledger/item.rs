//! A row as an entry of the ledger names it: kind, identity and digest.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::memory::export::{Owner, RowKind, carried};
use crate::memory::receipt::canonical_json;
use crate::trust::Scope;

type Row = Map<String, Value>;

/// Number of bytes of a digest in an entry. Finding another row with the same 128 bits takes about
/// 2^128 attempts, and the salt of a row prevents that two rows are prepared beforehand.
const DIGEST_BYTES: usize = 16;

/// What an item describes: a whole row, or the outcome of a prompt, which is added to the row of
/// the prompt without reading this row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// A row of this kind; for a prompt, without the attributes of its outcome.
    Row(RowKind),
    /// The attributes that the outcome of a prompt adds to the row of the prompt.
    PromptEnd,
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
    const ALL: [(char, Self); 15] = [
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
        ('i', Self::Row(RowKind::Answers)),
        ('s', Self::Row(RowKind::Schedules)),
        ('e', Self::Row(RowKind::Events)),
    ];

    fn letter(self) -> char {
        Self::ALL.iter().find(|(_, shape)| *shape == self).map_or('?', |(letter, _)| *letter)
    }

    fn by_letter(letter: char) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == letter).map(|(_, shape)| *shape)
    }

    /// Returns the kind of row that the item describes as a whole or in part.
    pub fn kind(self) -> RowKind {
        match self {
            Self::Row(kind) => kind,
            Self::PromptEnd => RowKind::Prompts,
        }
    }
}

/// State of a row after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowState {
    /// The row exists and has this digest. If it expires, `until` is the time in seconds since 1970
    /// after which the row may be missing.
    Is { digest: String, until: Option<u64> },
    /// The row was removed.
    Gone,
}

/// A row that a write changed. An entry stores an item as a text: the letter of the shape, the
/// identity, a space and the digest, and for a row that expires a space and the time. The text of a
/// removed row has no digest.
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
        match &self.state {
            RowState::Gone => Ok(()),
            RowState::Is { digest, until: None } => write!(f, " {digest}"),
            RowState::Is { digest, until: Some(until) } => write!(f, " {digest} {until}"),
        }
    }
}

impl Item {
    /// Parses the text of an item.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let name = words.next()?;
        let shape = Shape::by_letter(name.chars().next()?)?;
        let id = name[1..].to_owned();
        let state = match (words.next(), words.next(), words.next()) {
            (None, None, None) => RowState::Gone,
            (Some(digest), None, None) => RowState::Is { digest: digest.to_owned(), until: None },
            (Some(digest), Some(until), None) => {
                RowState::Is { digest: digest.to_owned(), until: Some(until.parse().ok()?) }
            }
            _ => return None,
        };
        Some(Self { shape, id, state })
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
        Self::of_export(kind, &carried(kind, row, &owner)?, salt)
    }

    /// Returns the items of a row in the form of an export.
    pub fn of_export(kind: RowKind, row: &Row, salt: Option<&str>) -> Result<Vec<Self>, String> {
        let id = id_of(kind, row)?;
        let until = match kind {
            RowKind::Answers => row.get("expires_at").and_then(Value::as_u64),
            _ => None,
        };
        let mut covered = covered(kind, row);
        if let Some(salt) = salt {
            covered.insert("salt".into(), salt.into());
        }
        let mut items = Vec::with_capacity(1);
        if kind == RowKind::Prompts {
            let end = covered.keys().filter(|name| PROMPT_END.contains(&name.as_str())).cloned();
            let end: Vec<String> = end.collect();
            let end: Row = end.iter().filter_map(|name| covered.shift_remove_entry(name)).collect();
            if !covered.is_empty() && covered.keys().any(|name| name != "turn") {
                items.push(Self::is(Shape::Row(kind), id.clone(), &covered, until));
            }
            if !end.is_empty() {
                items.push(Self::is(Shape::PromptEnd, id, &end, until));
            }
        } else {
            items.push(Self::is(Shape::Row(kind), id, &covered, until));
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

    fn is(shape: Shape, id: String, covered: &Row, until: Option<u64>) -> Self {
        let digest = Sha256::digest(canonical_json(&Value::Object(covered.clone())).as_bytes());
        let digest = URL_SAFE_NO_PAD.encode(&digest[..DIGEST_BYTES]);
        Self { shape, id, state: RowState::Is { digest, until } }
    }
}

/// Returns the attributes of an exported row that its digest covers. Null attributes are left out,
/// because some writes remove an attribute and others set it to null. Values that the database
/// computes are left out too: the time of an entry, and the revision in a stored answer.
fn covered(kind: RowKind, row: &Row) -> Row {
    let mut kept: Row = row
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    match kind {
        // A core without released items has no list of them, or an empty one.
        RowKind::Core if kept.get("released").is_some_and(|list| list == &json!([])) => {
            drop(kept.shift_remove("released"));
        }
        RowKind::Recall => drop(kept.shift_remove("at_ms")),
        RowKind::Passages => drop(kept.shift_remove("embedding")),
        RowKind::Answers => {
            if let Some(Value::Object(response)) = kept.get_mut("response") {
                response.shift_remove("_rev");
            }
        }
        RowKind::Core
        | RowKind::Versions
        | RowKind::Messages
        | RowKind::RecallVectors
        | RowKind::Manifests
        | RowKind::Cites
        | RowKind::Derived
        | RowKind::Prompts
        | RowKind::ToolSets
        | RowKind::Schedules
        | RowKind::Events => {}
    }
    kept
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
        RowKind::ToolSets => text("digest")?.to_owned(),
        RowKind::Answers => {
            let part = row.get("part").and_then(Value::as_u64);
            named(&[text("key")?, &part.map_or_else(String::new, |part| part.to_string())])
        }
        RowKind::Schedules => named(&[text("name")?]),
    })
}

/// Returns a digest of names, so that the ledger contains no name.
fn named(names: &[&str]) -> String {
    let digest = Sha256::digest(names.join("\0").as_bytes());
    URL_SAFE_NO_PAD.encode(&digest[..DIGEST_BYTES])
}
