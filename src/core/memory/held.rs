//! Texts of a core that later stored versions refer to: which version holds each text, and how a
//! version gets its texts back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::core::{Block, Core};
use super::receipt;
use crate::limits::HELD_BYTES_MIN;

/// Number of hex digits of the salt and of the digest of a stored text: 128 bits.
const DIGITS: usize = 32;

/// The version that holds a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldText {
    /// Number of the stored version that contains the text.
    pub at: u64,
    /// Digest of the text with the salt that is stored with the text. It confirms no guess of the
    /// text after text and salt are removed.
    pub digest: String,
}

/// For each long text of a core, the stored version that holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldTexts {
    /// The system text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<HeldText>,
    /// The summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<HeldText>,
    /// The blocks, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blocks: BTreeMap<String, HeldText>,
}

/// A text of a stored version that is no longer stored where the version refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostText {
    /// The text: `system`, or `block` and a block's name.
    pub of: String,
    /// Number of the version that held the text.
    pub at: u64,
    /// Time when the text was removed; `None` if the time is unknown.
    pub expired_at: Option<String>,
    /// Time when a forget operation removed the text.
    pub forgotten_at: Option<String>,
}

/// A text of a stored version that does not match its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedText {
    /// The text: `system`, `summary`, or `block` and a block's name.
    pub of: String,
    /// Digest of the text when the version was written.
    pub expected: String,
    /// Digest of the text as it is now.
    pub found: String,
}

impl Core {
    /// Whether a write from `before` to this core also writes a stored version.
    pub fn writes_version(&self, before: &Self) -> bool {
        self.system != before.system
            || self.working_blocks != before.working_blocks
            || self.queue_head_summary != before.queue_head_summary
            || self.context_window != before.context_window
            || self.encoding != before.encoding
    }

    /// Notes for each long text which stored version holds it: this one, or the one that held the
    /// same text before. A core without such notes gets a version with all texts.
    pub fn hold_texts(&mut self, before: Option<&Self>) {
        if before.is_some_and(|before| !self.writes_version(before)) {
            return;
        }
        let known = self.held.take().filter(|_| before.is_some()).unwrap_or_default();
        let hold = |of: &str, text: &str, known: Option<HeldText>, changed_at: u64| {
            let long = text.len() >= HELD_BYTES_MIN;
            // A server of an earlier release changes texts and leaves the notes as they are.
            let known = known.filter(|known| known.at >= changed_at);
            long.then(|| known.unwrap_or_else(|| self.held_here(of, text)))
        };
        let system = known
            .system
            .filter(|_| before.is_some_and(|before| before.system.content == self.system.content));
        let now = &self.queue_head_summary;
        let summary = known.summary.filter(|_| {
            let before = before.map(|before| &before.queue_head_summary);
            before.is_some_and(|old| old.content == now.content && old.revision == now.revision)
        });
        let mut held = HeldTexts {
            system: hold("system", &self.system.content, system, self.system.changed_at_version),
            summary: hold("summary", &now.content, summary, now.changed_at_version),
            blocks: BTreeMap::new(),
        };
        for block in &self.working_blocks {
            let old = before.and_then(|before| before.block(&block.id));
            let same = old.is_some_and(|old| old.texts().eq(block.texts()));
            let known = known.blocks.get(&block.id).filter(|_| same).cloned();
            let held_text =
                hold(&of_block(&block.id), &block.content, known, block.changed_at_version);
            held.blocks.extend(held_text.map(|held| (block.id.clone(), held)));
        }
        self.held = Some(held).filter(|held| *held != HeldTexts::default());
    }

    fn held_here(&self, of: &str, text: &str) -> HeldText {
        HeldText { at: self.version, digest: text_digest(&text_salt(&self.salt, of), text) }
    }

    /// Returns the system text as the stored version of this core contains it.
    pub fn kept_system(&self) -> Value {
        let held = self.held.as_ref().and_then(|held| held.system.as_ref());
        self.kept_text("system", json!(self.system), held)
    }

    /// Returns the summary as the stored version of this core contains it.
    pub fn kept_summary(&self) -> Value {
        let held = self.held.as_ref().and_then(|held| held.summary.as_ref());
        self.kept_text("summary", json!(self.queue_head_summary), held)
    }

    /// Returns the blocks as the stored version of this core contains them.
    pub fn kept_blocks(&self) -> Value {
        let held = |block: &Block| self.held.as_ref().and_then(|held| held.blocks.get(&block.id));
        let blocks = self.working_blocks.iter();
        blocks.map(|one| self.kept_text(&of_block(&one.id), json!(one), held(one))).collect()
    }

    /// Replaces the content of a text by a reference if an earlier version holds it. A text that
    /// stays gets a salt and a digest of its own, so that the rest of a version can be checked
    /// after one of its texts is removed.
    fn kept_text(&self, of: &str, mut part: Value, held: Option<&HeldText>) -> Value {
        match held {
            Some(held) if held.at != self.version => {
                if let Value::Object(part) = &mut part {
                    part.shift_remove("content");
                }
                part["at"] = held.at.into();
                part["digest"] = held.digest.as_str().into();
            }
            _ if part["content"] == "" => {}
            held => {
                let salt = text_salt(&self.salt, of);
                part["digest"] = match held {
                    Some(held) => held.digest.as_str().into(),
                    None => text_digest(&salt, part["content"].as_str().unwrap_or_default()).into(),
                };
                part["salt"] = salt.into();
            }
        }
        part
    }
}

fn of_block(id: &str) -> String {
    format!("block {id}")
}

/// Returns the salt of one text of a version, made from the salt of the version. The salt of the
/// version is renewed when a text of it is removed, so the salt cannot be made again.
fn text_salt(salt: &str, of: &str) -> String {
    cut(receipt::digest(salt, of))
}

fn text_digest(salt: &str, text: &str) -> String {
    cut(receipt::digest(salt, text))
}

fn cut(mut digest: String) -> String {
    digest.truncate(DIGITS);
    digest
}

/// Returns the numbers of the versions to which a row of `core_versions` refers.
pub fn referred(row: &Map<String, Value>) -> impl Iterator<Item = u64> {
    let one = |name: &str| row.get(name).and_then(|part| part["at"].as_u64());
    let blocks = row.get("working_blocks").and_then(Value::as_array).into_iter().flatten();
    let blocks = blocks.filter_map(|block| block["at"].as_u64());
    [one("system"), one("queue_head_summary")].into_iter().flatten().chain(blocks)
}

/// Puts the texts of other versions into a row of `core_versions` that refers to them. `sources`
/// are these versions. The attributes `lost` and `changed` list the texts that are missing there
/// and the texts that do not match their digests, if there are any.
pub fn whole(mut row: Value, sources: &[Value]) -> Value {
    let mut found = TextFaults::default();
    if let Some(system) = row.get_mut("system") {
        found.fill(system, "system", sources, |source| Some(&source["system"]));
    }
    if let Some(Value::Array(blocks)) = row.get_mut("working_blocks") {
        for block in blocks {
            let id = block["id"].clone();
            let of = of_block(id.as_str().unwrap_or_default());
            found.fill(block, &of, sources, |source| {
                source["working_blocks"].as_array()?.iter().find(|held| held["id"] == id)
            });
        }
    }
    if let Some(summary) = row.get_mut("queue_head_summary") {
        found.fill(summary, "summary", sources, |source| Some(&source["queue_head_summary"]));
        // The row itself says when its summary was removed, as if it had held the text.
        if let Some(at) = found.lost.iter().position(|lost| lost.of == "summary") {
            let lost = found.lost.remove(at);
            summary["content"] = Value::Null;
            if let Some(forgotten_at) = lost.forgotten_at {
                summary["forgotten_at"] = forgotten_at.into();
            }
            if let Some(expired_at) = lost.expired_at.filter(|_| row["expired_at"].is_null()) {
                row["expired_at"] = expired_at.into();
            }
        }
    }
    if !found.lost.is_empty() {
        row["lost"] = json!(found.lost);
    }
    if !found.changed.is_empty() {
        row["changed"] = json!(found.changed);
    }
    row
}

/// The texts of a version that are missing or do not match their digests.
#[derive(Default)]
struct TextFaults {
    lost: Vec<LostText>,
    changed: Vec<ChangedText>,
}

impl TextFaults {
    /// Puts the content of a text into its part of a version, and removes what only the stored
    /// form has.
    fn fill<'s>(
        &mut self,
        part: &mut Value,
        of: &str,
        sources: &'s [Value],
        held: impl Fn(&'s Value) -> Option<&'s Value>,
    ) {
        let Value::Object(part) = part else { return };
        let at = part.shift_remove("at").and_then(|at| at.as_u64());
        let (expected, mut salt) = (part.shift_remove("digest"), part.shift_remove("salt"));
        if let Some(at) = at {
            let source = sources.iter().find(|source| source["version"] == at);
            let held = source.and_then(held);
            let content = held.and_then(|held| held["content"].as_str());
            let content = content.filter(|content| !content.is_empty());
            if content.is_none() {
                let time = |name: &str| Some(source?[name].as_str()?.to_owned());
                // A summary has the time of its own removal.
                let own = held.and_then(|held| held["forgotten_at"].as_str()).map(str::to_owned);
                let whole = time("forgotten_at").filter(|_| of != "summary");
                self.lost.push(LostText {
                    of: of.to_owned(),
                    at,
                    expired_at: time("expired_at"),
                    forgotten_at: own.or(whole),
                });
            }
            part.insert("content".into(), content.unwrap_or_default().into());
            salt = held.map(|held| held["salt"].clone()).filter(|_| content.is_some());
        }
        let text = |value: &Option<Value>| Some(value.as_ref()?.as_str()?.to_owned());
        let content = part.get("content").and_then(Value::as_str);
        if let (Some(expected), Some(salt), Some(content)) = (text(&expected), text(&salt), content)
        {
            let found = text_digest(&salt, content);
            if found != expected {
                self.changed.push(ChangedText { of: of.to_owned(), expected, found });
            }
        }
    }
}
