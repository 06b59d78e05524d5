//! `write_recall`: writes entries into recall storage without adding them to the window.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::append_fifo::{Parts, checked_parts, meta_of};
use super::spec::{Access, Arguments, Card, Command, Spec, optional_object};
use super::told;
use crate::error::{Error, Result};
use crate::limits::{BODY_BYTES_MAX, RECALL_ENTRIES_MAX};
use crate::memory::Labels;
use crate::memory::message::{Role, SUMMARY};
use crate::policy::{Ctx, Step, Stop};

/// Arguments of `write_recall`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteRecall {
    /// Entries to store, in order; at least one.
    #[schemars(length(min = 1, max = 256), extend("x-model" = ""))]
    pub entries: Vec<Entry>,
}

/// An entry of recall storage.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The text.
    #[schemars(extend("x-model" = ""))]
    pub content: String,
    /// Role of the speaker; the model itself by default.
    #[serde(default = "assistant")]
    pub role: Role,
    /// Name of the speaker.
    #[serde(default)]
    pub name: Option<String>,
    /// When the text was said, by the client's clock; free text.
    #[serde(default)]
    pub said_at: Option<String>,
    /// User, session, tags and metadata, by which searches select.
    #[serde(default, deserialize_with = "optional_object")]
    pub labels: Option<Labels>,
    /// Whether the entry is a summary of a conversation instead of a message.
    #[serde(default)]
    pub summary: bool,
}

fn assistant() -> Role {
    Role::Assistant
}

impl Entry {
    fn parts(&self) -> Parts {
        Parts {
            content: self.content.clone(),
            name: self.name.clone(),
            said_at: self.said_at.clone(),
            labels: self.labels.clone(),
            ..Parts::default()
        }
    }
}

impl Arguments for WriteRecall {
    const CARD: Card = Card {
        title: "Write to recall",
        description: "Save texts that can be found later, without keeping them in view.",
        in_chat: true,
        example: r#"{"entries": [{"content": "The boat lies at pier 4."}]}"#,
        result: &[
            ("inserted_ids", "array", "ids of the entries, in order"),
            ("total_tokens", "integer", "tokens they would cost in the window"),
        ],
        told: |result| {
            let ids = result.get("inserted_ids").and_then(Value::as_array).map_or(0, Vec::len);
            format!("Saved {}.", told::counted(ids as u64, "text"))
        },
        ..Card::NEW
    };

    fn checked(self) -> Result<Self> {
        if self.entries.is_empty() || self.entries.len() > RECALL_ENTRIES_MAX {
            return Err(Error::argument("entries", format!("give 1 to {RECALL_ENTRIES_MAX}")));
        }
        let bytes: usize = self.entries.iter().map(|e| e.content.len()).sum();
        if bytes > BODY_BYTES_MAX {
            return Err(Error::argument(
                "entries",
                format!("their texts are longer than {BODY_BYTES_MAX} bytes"),
            ));
        }
        for (at, entry) in self.entries.iter().enumerate() {
            checked_parts(&entry.parts(), entry.role, &format!("entries[{at}]."))?;
        }
        Ok(self)
    }
}

impl Command for WriteRecall {
    const SPEC: Spec = Spec::tool("write_recall", Access::Write);

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let mut draft = ctx.draft();
        let mut ids = Vec::with_capacity(self.entries.len());
        let mut total = 0;
        for entry in &self.entries {
            let parts = entry.parts();
            let mut meta = meta_of(&parts);
            if entry.summary {
                meta.insert(SUMMARY.into(), true.into());
            }
            let (id, cost) = draft.record(entry.role, parts.content, meta);
            ids.push(Value::from(id));
            total += cost;
        }
        let result = json!({"inserted_ids": ids, "total_tokens": total});
        ctx.finish(draft, result)
    }
}
