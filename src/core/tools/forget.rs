//! The end of what is to be forgotten: no tool of a model, but a write like any other, that begins it, and a write for each of its steps.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::spec::Step;
use crate::error::{Code, Error, Result};
use crate::limits::{FORGET_MATCH_BYTES, FORGET_MESSAGES_MAX};
use crate::memory::core::Core;
use crate::policy::{Answers, Draft, ForgetAsked, ForgetFound, Question, Surroundings};

/// What is to be forgotten: name it in one way.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forget {
    /// Places of messages (`seq`).
    #[serde(default)]
    pub seqs: Vec<u64>,
    /// Ids of messages.
    #[serde(default)]
    pub ids: Vec<String>,
    /// A document of the archive.
    #[serde(default)]
    pub doc_id: Option<String>,
    /// A text: messages, documents, schedules, offered tools, copies and stored answers that hold exactly this go.
    #[serde(default, rename = "match")]
    pub text: Option<String>,
    /// The whole agent, with every row of it. Its name is not used again.
    #[serde(default)]
    pub all: bool,
    /// Blocks that quote it go too; else they are only told.
    #[serde(default)]
    pub blocks: bool,
    /// Nothing goes: what would is told.
    #[serde(default)]
    pub dry_run: bool,
}

impl Forget {
    /// The same, if it names something in one way.
    pub fn checked(self) -> Result<Self> {
        let named = [
            !self.seqs.is_empty(),
            !self.ids.is_empty(),
            self.doc_id.is_some(),
            self.text.is_some(),
            self.all,
        ];
        if named.iter().filter(|one| **one).count() != 1 {
            let text = "name what is to be forgotten in one way: seqs, ids, doc_id, match or all";
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

    fn asked(&self) -> ForgetAsked {
        ForgetAsked {
            seqs: self.seqs.clone(),
            ids: self.ids.clone(),
            doc_id: self.doc_id.clone(),
            text: self.text.clone(),
            blocks: self.blocks,
        }
    }

    /// Thinks: what goes, and the row that says so.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let asked = self.asked();
        let Some(found) = &answers.forget else {
            return Ok(Step::Ask(Question::Forget(Box::new(asked))));
        };
        if found.is_empty() {
            let (code, text) = match &self.doc_id {
                Some(_) => (Code::DocumentNotFound, "no such document in the archive"),
                None => (
                    Code::InvalidArgument,
                    "nothing of that is there: look at GET /v1/agents/{agent}/messages",
                ),
            };
            return Err(Error::new(code, text));
        }
        if found.messages.len() > FORGET_MESSAGES_MAX {
            return Err(too_many());
        }
        if self.dry_run {
            return Ok(Step::Read(preview(&asked, found)));
        }
        let mut draft = Draft::new(around, core);
        draft.begin_forgetting(around.key_hash, &asked, found);
        let result = Map::from_iter([("id".to_owned(), Value::from(around.key_hash))]);
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }
}

fn too_many() -> Error {
    let text = format!("more than {FORGET_MESSAGES_MAX} messages: forget some of them at a time");
    Error::argument("forget", text)
}

/// What would go.
fn preview(asked: &ForgetAsked, found: &ForgetFound) -> Map<String, Value> {
    let of = |kind: &str| found.messages.iter().filter(|one| one.kind == kind).count();
    let kinds: Map<String, Value> = ["turn", "event", "copy", "recall", "spool"]
        .iter()
        .map(|kind| ((*kind).to_owned(), of(kind).into()))
        .collect();
    let seqs: Vec<u64> = found.messages.iter().map(|one| one.seq).collect();
    let blocks = if asked.blocks { found.quoted.blocks.clone() } else { Vec::new() };
    let value = json!({"dry_run": true, "messages": found.messages.len(), "kinds": kinds, "seqs": seqs, "documents": found.documents,
        "schedules": found.schedules, "tool_sets": found.tool_sets.len(), "copies_of_texts": found.versions.len(),
        "stored_answers": found.answers.len(), "summary": found.in_summary, "blocks": blocks, "quoted": found.quoted});
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The next step of a forgetting.
#[derive(Clone, Debug)]
pub struct ForgetStep {
    /// Its key.
    pub key: String,
}

impl ForgetStep {
    /// Thinks: what the step takes away. Nothing, if all is gone.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let Some(look) = &answers.forget_step else {
            return Ok(Step::Ask(Question::ForgetStep { key: self.key.clone() }));
        };
        let Some(row) = look.row.as_ref().filter(|row| !row.done()) else {
            return Ok(Step::Read(Map::from_iter([("done".to_owned(), true.into())])));
        };
        let mut draft = Draft::new(around, core);
        draft.go_on_forgetting(row, look);
        let result = Map::from_iter([("step".to_owned(), Value::from(row.step + 1))]);
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_way_of_naming_it_is_wanted() {
        let good = [
            Forget { seqs: vec![1], ..Forget::default() },
            Forget { all: true, ..Forget::default() },
            Forget { text: Some("a secret".into()), ..Forget::default() },
        ];
        for forget in good {
            assert!(forget.checked().is_ok());
        }
        let bad = [
            Forget::default(),
            Forget { seqs: vec![1], all: true, ..Forget::default() },
            Forget { text: Some("x".into()), ..Forget::default() },
            Forget { seqs: vec![1; FORGET_MESSAGES_MAX + 1], ..Forget::default() },
        ];
        for forget in bad {
            assert_eq!(forget.checked().unwrap_err().code, Code::InvalidArgument);
        }
    }
}
