//! Command that gives an agent a further name; models cannot call it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::spec::{Access, Command, Spec};
use crate::error::{Error, Result};
use crate::limits::NAMES_PER_AGENT_MAX;
use crate::memory::core::Core;
use crate::memory::event::named;
use crate::policy::{Ctx, Depends, Step, Stop};
use crate::trust::check_name;

/// Body of `POST /v1/agents/{agent}/rename`.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameAgent {
    /// The new name. Earlier names still reach the agent.
    pub name: String,
}

impl RenameAgent {
    /// Checks the rules for arguments that their types do not express.
    pub fn checked(self) -> Result<Self> {
        check_name("name", &self.name)?;
        Ok(self)
    }

    /// Refuses a further name for an agent that has as many as it may have.
    pub fn check(&self, core: &Core) -> Result<()> {
        if core.names.contains(&self.name) || core.names.len() < NAMES_PER_AGENT_MAX {
            return Ok(());
        }
        let text =
            format!("an agent is given at most {NAMES_PER_AGENT_MAX} names: use one of them");
        Err(Error::argument("name", text))
    }
}

impl Command for RenameAgent {
    const SPEC: Spec = Spec::command("rename_agent", Access::Write);

    fn depends(&self) -> Depends {
        Depends::All
    }

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        self.check(ctx.core)?;
        let mut draft = ctx.draft();
        draft.after.names.retain(|name| *name != self.name);
        draft.after.names.push(self.name.clone());
        draft.let_in("renamed", json!(named(&ctx.core.agent_id, &self.name)));
        let names = json!(draft.after.names);
        ctx.finish(draft, Map::from_iter([("names".to_owned(), names)]))
    }
}
