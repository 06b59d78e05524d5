//! Out of quarantine, and back: a tainted item is told like any other once somebody has looked at it. No tool of a model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::spec::Step;
use crate::error::{Error, Result};
use crate::limits::RELEASED_MAX;
use crate::memory::core::Core;
use crate::policy::{Answers, Draft, Place, Question, Scope, Surroundings, released_name};

/// Body of `POST /v1/agents/{agent}/quarantine`.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseTainted {
    /// The item: `id` of a message or passage as the list or a search shows it, or the `seq` of a message as text.
    pub id: String,
    /// Whether it is held back again instead.
    #[serde(default)]
    pub hold: bool,
}

impl ReleaseTainted {
    /// Thinks: what the call does to this core. Nothing, if the item stands as it is wanted already.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let Some(found) = &answers.vertices else {
            let place = tainted_place(&self.id, around.scope)?;
            return Ok(Step::Ask(Question::Traced { places: vec![place] }));
        };
        let Some(item) = found.first() else { return Err(nothing_tainted()) };
        let rules = around.taint.rules_of_vertex(item);
        if rules.is_empty() && item.parent.is_none() {
            return Err(Error::argument("id", "this item is not tainted: nothing holds it back"));
        }
        let (place, revision) = item.released_as();
        let name = released_name(&place, revision);
        let released = core.released.contains(&name);
        let result = |changed: bool| -> Map<String, Value> {
            let value = json!({"id": item.id, "seq": item.seq, "doc_id": item.doc_id, "chunk_id": item.chunk_id, "rules": rules,
                "released": !self.hold, "changed": changed});
            value.as_object().cloned().unwrap_or_default()
        };
        if released != self.hold {
            return Ok(Step::Read(result(false)));
        }
        if !self.hold && core.released.len() >= RELEASED_MAX {
            let why = format!(
                "{RELEASED_MAX} items are released already: hold one back first, or write what is needed anew in plain words"
            );
            return Err(Error::argument("id", why).with("released_max", RELEASED_MAX));
        }
        let mut draft = Draft::new(around, core);
        match self.hold {
            true => draft.after.released.retain(|one| *one != name),
            false => draft.after.released.push(name),
        }
        let told =
            json!({"id": item.id, "rules": rules, "chars": item.chars, "released": !self.hold});
        draft.let_in("quarantine", told);
        Ok(draft.finish(own_flush(core), answers, result(true))?.into())
    }
}

/// The message or chunk that an `id` names.
pub fn tainted_place(id: &str, scope: &Scope) -> Result<Place> {
    match Place::parse(id, scope) {
        Ok(place @ (Place::Seq(_) | Place::Message(_) | Place::Chunk(_))) => Ok(place),
        Ok(Place::Version(_) | Place::Agent(_)) | Err(_) => {
            let why =
                "give the id of a message or passage as the list shows it, or the seq of a message";
            Err(Error::argument("id", why))
        }
    }
}

/// The answer for an item that is not there, and for one of somebody else.
pub fn nothing_tainted() -> Error {
    Error::argument("id", "this agent has no such message or passage: look at the list")
}
