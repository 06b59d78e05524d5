//! The end of a chain of heartbeats that nobody went on with: no tool of a model, but a write like any other.

use serde_json::{Map, Value};

use super::append_fifo::own_flush;
use super::spec::Step;
use crate::error::Result;
use crate::memory::core::Core;
use crate::memory::heartbeat::ClosedBy;
use crate::policy::{Answers, Draft, Surroundings};

/// Which chain is meant.
#[derive(Clone, Debug)]
pub struct BuryChain {
    /// Its id.
    pub chain: String,
}

impl BuryChain {
    /// Thinks: what the call does to this core. Nothing, if the chain ended meanwhile or lives longer now.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let meant = core.heartbeat.chain.as_ref().is_some_and(|chain| chain.id == self.chain);
        let mut draft = Draft::new(around, core);
        if !meant || !draft.bury_chain(ClosedBy::Sweep) {
            return Ok(Step::Read(result(false)));
        }
        Ok(draft.finish(own_flush(core), answers, result(true))?.into())
    }
}

fn result(closed: bool) -> Map<String, Value> {
    Map::from_iter([("closed".to_owned(), Value::Bool(closed))])
}
