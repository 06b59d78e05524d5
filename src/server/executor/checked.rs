//! Compares each core that goes to a model or into a write with the agent's ledger.
//!
//! A write lists the whole core as the server computed it. Without this comparison, a change that
//! somebody made in the database would be listed as if the server had made it.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::Executor;
use super::kernel::{Kernel, no_agent, patience};
use crate::store::{self, DescribedCore, Replay};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::core::Core;
use vctx_core::trust::{Principal, Scope, admit};

/// Maximum number of times that a core is read again because another write changed it meanwhile.
const CHECKED_TRIES_MAX: u32 = 16;

impl Kernel {
    /// Loads a core, and refuses it if it is not the one that the ledger describes.
    pub(super) async fn checked(
        &self,
        scope: &Scope,
        replay_keys: &[&str],
        deadline: Instant,
    ) -> Result<(Arc<Core>, Option<Replay>)> {
        for _ in 0..CHECKED_TRIES_MAX {
            let (core, replay) = self.fresh(scope, replay_keys, deadline).await?;
            if self.agrees(scope, &core).await? {
                return Ok((core, replay));
            }
        }
        Err(overtaken())
    }

    /// Reads something that contains a core until the core agrees with the ledger. `core_of`
    /// returns the core; without a core there is nothing to compare.
    pub(super) async fn read_checked<'k, T, F: Future<Output = store::Result<T>>>(
        &'k self,
        scope: &Scope,
        ask: impl Fn(&'k store::Ro) -> F,
        core_of: fn(&T) -> Option<&Core>,
    ) -> Result<T> {
        for _ in 0..CHECKED_TRIES_MAX {
            let read = self.read(&ask).await?;
            match core_of(&read) {
                Some(core) if !self.agrees(scope, core).await? => {}
                _ => return Ok(read),
            }
        }
        Err(overtaken())
    }

    /// Compares a core with the core that this server last wrote or compared, or else with the
    /// ledger. Returns `false` if another write has changed the core since it was read.
    pub(super) async fn agrees(&self, scope: &Scope, core: &Core) -> Result<bool> {
        if self.cores.get(scope.key()).is_some_and(|known| *known == *core) {
            return Ok(true);
        }
        let described = self.read(|ro| store::load_described(ro, scope)).await?;
        let Some(described) = described else { return Err(no_agent()) };
        if described.row.get("_rev").is_some_and(|rev| *rev != core.rev.as_str()) {
            return Ok(false);
        }
        if let Err(error) = self.compare(scope, described).await {
            return Err(self.contradicted(error, scope, &core.rev));
        }
        self.cores.put(Arc::new(core.clone()));
        Ok(true)
    }

    /// Says in an error about a contradiction what to do. Logs each contradicted core once.
    fn contradicted(&self, error: Error, scope: &Scope, rev: &str) -> Error {
        if error.code != Code::LedgerContradicted {
            return error;
        }
        let (agent, why) = (scope.agent(), &error.message);
        if self.cores.is_newly_refused(scope.key(), rev) {
            tracing::error!(agent, why, "the core contradicts the ledger: run `vctx verify`");
        }
        let text = format!(
            "{why}: run `vctx verify --agent {agent}`, and restore the row from a backup, or accept it with --accept {rev}"
        );
        Error::new(Code::LedgerContradicted, text).with("_rev", rev)
    }

    async fn compare(&self, scope: &Scope, described: DescribedCore) -> Result<()> {
        let DescribedCore { row, entry } = described;
        let Some(entry) = entry else {
            // An earlier program version wrote the agent, and its next write begins the ledger.
            let has_salt = row.get("salt").and_then(Value::as_str).is_some_and(|s| !s.is_empty());
            let is_signed = self
                .checkpoints
                .as_ref()
                .and_then(|all| all.signed(scope.key()))
                .is_some_and(|signed| signed.head.is_some());
            return match is_signed || has_salt {
                false => Ok(()),
                true => Err(contradicted("no entry describes the core")),
            };
        };
        let head = entry.check(row, scope).map_err(|why| contradicted(&why))?;
        let part = self.contended(|| store::is_part_of_ledger(&self.rw, scope, &head)).await?;
        match part {
            true => Ok(()),
            false => {
                let why = format!("the last entry does not follow from entry {}", head.n);
                Err(contradicted(&why))
            }
        }
    }
}

impl Executor {
    /// Lists an agent's core in the ledger as it is in the database, if the ledger describes
    /// another one and the core has the revision `rev`. An operator does this after a look at the
    /// core; the entry stays in the agent's events.
    pub async fn accept_core(
        &self,
        principal: &Principal,
        agent: &str,
        rev: &str,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let _turn = self.kernel.turns.take(scope.key()).await?;
        let (core, _) = self.kernel.fresh(&scope, &[], patience()).await?;
        let stale = || {
            let text = "the memory changed since the given revision: look at it again";
            Error::new(Code::RevisionStale, text).with("_rev", core.rev.as_str())
        };
        if core.rev != rev {
            return Err(stale());
        }
        self.kernel.cores.drop(scope.key());
        match self.kernel.agrees(&scope, &core).await {
            Ok(true) => return Ok(json!({"agent": agent, "accepted": false})),
            Ok(false) => return Err(stale()),
            Err(error) if error.code == Code::LedgerContradicted => {}
            Err(error) => return Err(error),
        }
        let accept = || store::accept_core(&self.kernel.rw, &scope, rev);
        if !self.kernel.contended(accept).await? {
            return Err(stale());
        }
        let uid = principal.actor.uid;
        tracing::warn!(agent, uid, "the core was accepted as it is in the database");
        Ok(json!({"agent": agent, "accepted": true}))
    }
}

fn contradicted(why: &str) -> Error {
    Error::new(Code::LedgerContradicted, why)
}

fn overtaken() -> Error {
    let text = "at each attempt, another write changed the memory first: try again";
    Error::new(Code::Conflict, text).with("retry_after_ms", 50)
}
