//! Command that releases a tainted message or passage from quarantine after a review, or puts it
//! back; models cannot call it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::spec::{Access, Command, Spec};
use crate::error::{Error, Result};
use crate::policy::{Ctx, Question, Step, Stop};
use crate::trust::{Scope, VertexId, released_name};

/// Maximum number of tainted items of one agent that may be out of quarantine at the same time. The
/// core contains a digest of each such item.
const RELEASED_MAX: usize = 256;

/// Body of `POST /v1/agents/{agent}/quarantine`.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseTainted {
    /// The item: `id` of a message or passage as the list or a search shows it, or the `seq` of a
    /// message as text.
    pub id: String,
    /// Whether to put the item back into quarantine instead of releasing it.
    #[serde(default)]
    pub hold: bool,
}

impl Command for ReleaseTainted {
    const SPEC: Spec = Spec::command("release_tainted", Access::Post);

    /// Releases the item or puts it back; does nothing if the item already has the requested state.
    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let place = tainted_place(&self.id, ctx.around.scope)?;
        let found = ctx.answers.vertices(|| Question::Traced { places: vec![place] })?;
        let item = found.first().ok_or_else(nothing_tainted)?;
        let rules = ctx.around.taint.rules_of_vertex(item);
        if rules.is_empty() && item.parent.is_none() {
            let why = "this item is not tainted: it is not held back";
            return Err(Error::argument("id", why).into());
        }
        let (place, revision) = item.released_as();
        let name = released_name(&place, revision);
        let released = ctx.core.released.contains(&name);
        let result = |changed: bool| -> Map<String, Value> {
            let value = json!({"id": item.id, "seq": item.seq, "doc_id": item.doc_id, "chunk_id": item.chunk_id, "rules": rules,
                "released": !self.hold, "changed": changed});
            value.as_object().cloned().unwrap_or_default()
        };
        if released != self.hold {
            return Ok(Step::Read(result(false)));
        }
        if !self.hold && ctx.core.released.len() >= RELEASED_MAX {
            let why = format!(
                "{RELEASED_MAX} items are released already: hold one back first, or write the needed facts again in plain words"
            );
            return Err(Error::argument("id", why).with("released_max", RELEASED_MAX).into());
        }
        let mut draft = ctx.draft();
        match self.hold {
            true => draft.after.released.retain(|one| *one != name),
            false => draft.after.released.push(name),
        }
        let told =
            json!({"id": item.id, "rules": rules, "chars": item.chars, "released": !self.hold});
        draft.let_in("quarantine", told);
        ctx.finish(draft, result(true))
    }
}
/// Parses an `id`, which must name a message or a chunk.
pub fn tainted_place(id: &str, scope: &Scope) -> Result<VertexId> {
    match VertexId::parse(id, scope) {
        Ok(place @ (VertexId::Seq(_) | VertexId::Message(_) | VertexId::Chunk(_))) => Ok(place),
        Ok(VertexId::Version(_) | VertexId::Agent(_)) | Err(_) => {
            let why =
                "give the id of a message or passage as the list shows it, or the seq of a message";
            Err(Error::argument("id", why))
        }
    }
}

/// Returns the error for a missing item, which is also the error for an item of another agent.
pub fn nothing_tainted() -> Error {
    Error::argument("id", "this agent has no such message or passage: see the list")
}
