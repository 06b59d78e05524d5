//! Forgets whole agents: removes the core, then the other rows, and keeps a tombstone.

use serde_json::{Value, json};

use super::executor::Executor;
use super::forget_preview::whole_preview;
use super::kernel::{leaving, no_agent, patience};
use super::request::{CallRequest, Guard, ReplayKeys, key_of, request_hash_of};
use crate::store;
use vctx_base::clock::iso8601;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::forget::{Forgetting, Phase, tombstone_key};
use vctx_core::trust::Scope;

impl Executor {
    /// Forgets a whole agent: first removes the agent's core, then the agent's other rows. Once the
    /// core is removed, no call can read or write the agent.
    pub(super) async fn forget_whole(
        &self,
        request: &CallRequest,
        scope: &Scope,
        dry_run: bool,
    ) -> Result<Value> {
        if dry_run {
            let (core, _) = self.kernel.fresh(scope, &[], patience()).await?;
            return Ok(whole_preview(scope, &core));
        }
        let (key, _) = key_of(request, || self.kernel.ids.key())?;
        let keys = ReplayKeys::of(scope, &key);
        super::request::check_guarded(request)?;
        self.check_forgets_this(&request.principal, scope, &key).await?;
        let now = self.kernel.clock.unix_ms();
        let row = Forgetting {
            key: tombstone_key(scope.key()),
            agent_id: scope.key().to_owned(),
            tenant: scope.tenant().to_owned(),
            what: "agent".into(),
            phase: Phase::Rows,
            by: json!(request.principal.actor),
            begun_at: iso8601(now),
            touched_ms: now,
            answer_key: keys.key.clone(),
            request_hash: request_hash_of(request),
            ..Forgetting::default()
        };
        let rev = match &request.guard {
            Some(Guard::Rev(rev)) => Some(rev.as_str()),
            Some(Guard::Any | Guard::Absent) | None => None,
        };
        let begun = self.kernel.write(|rw| store::forget_agent(rw, scope, &row, rev)).await?;
        self.kernel.cores.drop(scope.key());
        let replayed = match (&begun.seen, begun.done, &begun.rev) {
            (Some(seen), ..) if keys.all().contains(&&*seen.answer_key) => true,
            (Some(_), ..) | (None, false, None) => return Err(no_agent()),
            (None, true, _) => false,
            (None, false, Some(_)) if begun.moving => return Err(leaving()),
            (None, false, Some(now)) => {
                let text = "the memory changed since the given revision: check again what will be removed, and send the new _rev";
                return Err(Error::new(Code::RevisionStale, text).with("_rev", now.as_str()));
            }
        };
        tracing::info!(agent = request.agent, replayed, "a whole agent is forgotten");
        let row = self.go_on(&request.principal, &request.agent, scope, &row.key).await?;
        let mut told = Value::Object(row.manifest());
        told["agent"] = scope.agent().into();
        told["replayed"] = replayed.into();
        Ok(told)
    }

    /// Ends a forget operation because another one has forgotten the whole agent.
    pub(super) async fn end_with_agent(
        &self,
        scope: &Scope,
        key: &str,
        gone: Error,
    ) -> Result<Forgetting> {
        let tomb = tombstone_key(scope.key());
        if self.kernel.read(|ro| store::forgetting(ro, scope, &tomb)).await?.is_none() {
            return Err(gone);
        }
        let row = self.kernel.read(|ro| store::forgetting(ro, scope, key)).await?;
        let row = row.ok_or(gone)?;
        // The tombstone may already name the ended manifest.
        if row.is_done() { Ok(row) } else { self.ended(scope, row).await }
    }

    async fn ended(&self, scope: &Scope, mut row: Forgetting) -> Result<Forgetting> {
        let at = row.step;
        row.step += 1;
        row.end(&iso8601(self.kernel.clock.unix_ms()));
        self.kernel.write(|rw| store::note_rows(rw, scope, &row, at)).await?;
        Ok(row)
    }

    /// Removes a batch of rows of a whole agent; the step that finds no rows ends the forget
    /// operation.
    pub(super) async fn rows_step(&self, scope: &Scope, mut row: Forgetting) -> Result<()> {
        let sealed = store::is_sealed(&self.kernel.rw, &row);
        let gone = self.kernel.write(|rw| store::forget_rows(rw, scope)).await?;
        let at = row.step;
        row.step += 1;
        row.touched_ms = self.kernel.clock.unix_ms();
        let none = gone.values().all(|count| *count == 0);
        for (collection, count) in gone {
            row.count(&collection, count);
        }
        if none && row.kept.is_some() {
            // The server that forgot the agent ended its other forget operations and counted their
            // manifests. A manifest that was changed since must not get a new digest.
            row.end(&iso8601(row.touched_ms));
        } else if none {
            // An earlier program version forgot the agent.
            let rw = &self.kernel.rw;
            let others = self.kernel.patiently(|| store::other_manifests(rw, scope, None)).await?;
            if others.unended.is_empty() {
                row.end(&iso8601(row.touched_ms));
                row.kept = Some(others.kept);
            }
            for other in others.unended {
                self.ended(scope, other).await?;
            }
        }
        row.code = None;
        // The code of a tombstone that another program wrote is not made good.
        if sealed {
            store::seal(&self.kernel.rw, &mut row);
        }
        // If another server has already recorded this step, the number of rows that it recorded
        // stays.
        self.kernel.write(|rw| store::note_rows(rw, scope, &row, at)).await?;
        Ok(())
    }
}
