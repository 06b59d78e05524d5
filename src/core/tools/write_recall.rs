//! `write_recall`: writes entries straight into recall storage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::append_fifo::{Parts, checked_parts, meta_of, own_flush};
use super::spec::Step;
use crate::error::{Error, Result};
use crate::limits::{BODY_BYTES_MAX, RECALL_ENTRIES_MAX};
use crate::memory::core::Core;
use crate::memory::message::{Role, SUMMARY};
use crate::policy::{Answers, Draft, Surroundings};

/// Arguments of `write_recall`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteRecall {
    /// What to keep, in order; at least one.
    #[schemars(length(min = 1, max = 256))]
    pub entries: Vec<Entry>,
}

/// One entry.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The text.
    pub content: String,
    /// Who said it; the model itself unless given.
    #[serde(default = "assistant")]
    pub role: Role,
    /// Name of the speaker.
    #[serde(default)]
    pub name: Option<String>,
    /// When it was said, by the client's clock; free text.
    #[serde(default)]
    pub said_at: Option<String>,
    /// Whether it sums up what was said, rather than being it.
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
            ..Parts::default()
        }
    }
}

impl WriteRecall {
    /// The same, checked beyond its types; a fault names the argument.
    pub(super) fn checked(self) -> Result<Self> {
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

    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let mut draft = Draft::new(around, core);
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
        let result = result.as_object().cloned().unwrap_or_default();
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }
}
