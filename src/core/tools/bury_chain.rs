//! Command that ends an abandoned heartbeat chain. The command writes in the same way as a tool,
//! but models cannot call it.

use serde_json::{Map, Value};

use super::spec::{Access, Command, Spec};
use crate::error::Result;
use crate::memory::heartbeat::ClosedBy;
use crate::policy::{Ctx, Step, Stop};

/// The chain to end.
#[derive(Clone, Debug)]
pub struct BuryChain {
    /// Id of the chain.
    pub chain: String,
}

impl Command for BuryChain {
    const SPEC: Spec = Spec::command("bury_chain", Access::Signal);

    /// Ends the chain; does nothing if the chain has already ended or now has a later deadline.
    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let meant = ctx.core.heartbeat.chain.as_ref().is_some_and(|chain| chain.id == self.chain);
        let mut draft = ctx.draft();
        if !meant || !draft.bury_chain(ClosedBy::Sweep) {
            return Ok(Step::Read(result(false)));
        }
        ctx.finish(draft, result(true))
    }
}
fn result(closed: bool) -> Map<String, Value> {
    Map::from_iter([("closed".to_owned(), Value::Bool(closed))])
}
