//! Commands that forget messages, documents or a text, together with all data made from them. A
//! forget operation takes several writes, each made in the same way as the write of a tool. Models
//! cannot call these commands.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::spec::{Access, Command, Spec};
use crate::error::{Code, Error, Result};
use crate::limits::FORGET_MESSAGES_MAX;
use crate::policy::{Ctx, Depends, ForgetAsked, ForgetFound, Question, Step, Stop};
use crate::text::may_write;

/// Minimum and maximum length of a text to forget, in bytes; a shorter text would occur almost
/// everywhere.
const FORGET_MATCH_BYTES: (usize, usize) = (4, 4_096);

/// The item to forget, named in exactly one way.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forget {
    /// Positions of messages (`seq`).
    #[serde(default)]
    pub seqs: Vec<u64>,
    /// Ids of messages.
    #[serde(default)]
    pub ids: Vec<String>,
    /// A document of the archive.
    #[serde(default)]
    pub doc_id: Option<String>,
    /// A text: messages, documents, schedules, offered tools, copies and stored answers that
    /// contain exactly this text are removed.
    #[serde(default, rename = "match")]
    pub text: Option<String>,
    /// Whether to forget the whole agent, with all its rows. The agent's name cannot be used again.
    #[serde(default)]
    pub all: bool,
    /// Whether blocks that quote the text are also removed; by default, such blocks are only
    /// listed.
    #[serde(default)]
    pub blocks: bool,
    /// Whether the call only lists the data that it would remove, and removes nothing.
    #[serde(default)]
    pub dry_run: bool,
}

impl Command for Forget {
    const SPEC: Spec = Spec::command("forget", Access::Write);

    fn writes(&self) -> bool {
        !self.dry_run
    }

    fn depends(&self) -> Depends {
        Depends::All
    }

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let asked = self.selection();
        let found = ctx.answers.forget(|| Question::Forget(Box::new(asked.clone())))?;
        if found.is_empty() {
            let (code, text) = match &self.doc_id {
                Some(_) => (Code::DocumentNotFound, "no such document in the archive"),
                None => (
                    Code::InvalidArgument,
                    "no such message or text: see GET /v1/agents/{agent}/messages",
                ),
            };
            return Err(Error::new(code, text).into());
        }
        if found.messages.len() > FORGET_MESSAGES_MAX {
            return Err(too_many().into());
        }
        if self.dry_run {
            return Ok(Step::Read(preview(&asked, found)));
        }
        let mut draft = ctx.draft();
        draft.begin_forgetting(ctx.around.key_hash, &asked, found);
        let result = Map::from_iter([("id".to_owned(), Value::from(ctx.around.key_hash))]);
        ctx.finish(draft, result)
    }
}

impl Forget {
    /// Checks the arguments; the request must name the item to forget in exactly one way.
    pub fn checked(self) -> Result<Self> {
        let named = [
            !self.seqs.is_empty(),
            !self.ids.is_empty(),
            self.doc_id.is_some(),
            self.text.is_some(),
            self.all,
        ];
        if named.iter().filter(|one| **one).count() != 1 {
            let text = "name the item to forget in one way: seqs, ids, doc_id, match or all";
            return Err(Error::argument("forget", text));
        }
        if self.seqs.len().max(self.ids.len()) > FORGET_MESSAGES_MAX {
            return Err(too_many());
        }
        let (least, most) = FORGET_MATCH_BYTES;
        if self.text.as_ref().is_some_and(|text| !(least..=most).contains(&text.trim().len())) {
            return Err(Error::argument("match", format!("use {least} to {most} bytes")));
        }
        Ok(self)
    }

    fn selection(&self) -> ForgetAsked {
        ForgetAsked {
            seqs: self.seqs.clone(),
            ids: self.ids.clone(),
            doc_id: self.doc_id.clone(),
            text: self.text.clone(),
            blocks: self.blocks,
            counted: self.dry_run,
            renews: self.text.as_deref().is_none_or(|text| !may_write(text)),
        }
    }
}

fn too_many() -> Error {
    let text = format!("more than {FORGET_MESSAGES_MAX} messages: forget some of them at a time");
    Error::argument("forget", text)
}

/// Returns the answer to a call with `dry_run`, which lists the data that would be removed.
fn preview(asked: &ForgetAsked, found: &ForgetFound) -> Map<String, Value> {
    let of = |kind: &str| found.messages.iter().filter(|one| one.kind == kind).count();
    let kinds: Map<String, Value> = ["turn", "event", "copy", "recall", "spool"]
        .iter()
        .map(|kind| ((*kind).to_owned(), of(kind).into()))
        .collect();
    let seqs: Vec<u64> = found.messages.iter().map(|one| one.seq).collect();
    let blocks = if asked.blocks { found.quoted.blocks.clone() } else { Vec::new() };
    let counted = found.preview.clone().unwrap_or_default();
    let value = json!({"dry_run": true, "messages": found.messages.len(), "kinds": kinds, "seqs": seqs, "documents": found.documents,
        "schedules": found.schedules, "tool_sets": found.tool_sets.len(), "summary": counted.summary, "places": counted.places,
        "blocks": blocks, "quoted": found.quoted});
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The command for the next step of a forget operation that [`Forget`] began.
#[derive(Clone, Debug)]
pub struct ForgetStep {
    /// Key of the row that records the forget operation.
    pub key: String,
}

impl Command for ForgetStep {
    const SPEC: Spec = Spec::command("forget_step", Access::Signal);

    /// Removes the next portion of data; does nothing if all data is already removed.
    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let look = ctx.answers.forget_step(|| Question::ForgetStep { key: self.key.clone() })?;
        let Some(row) = look.row.as_ref().filter(|row| !row.is_done()) else {
            return Ok(Step::Read(Map::from_iter([("done".to_owned(), true.into())])));
        };
        let mut draft = ctx.draft();
        draft.go_on_forgetting(row, look);
        if look.renews_summary(row, ctx.core.queue.head_seq) {
            let left = ctx.answers.evicted(|| Question::Evicted { since: String::new() })?;
            draft.renew_forgotten(row, left, ctx.answers)?;
        }
        let result = Map::from_iter([("step".to_owned(), Value::from(row.step + 1))]);
        ctx.finish(draft, result)
    }
}
