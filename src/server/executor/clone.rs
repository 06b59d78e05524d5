//! Makes a clone of an agent: another agent with the same memory and a ledger of its own. The rows
//! take the way of an export and an import, so the clone appears whole or not at all.

use std::fs::File;

use serde_json::Value;

use super::executor::Executor;
use super::export::{Lines, READ_AGAIN};
use super::import::{FileLines, Order, checked, refused};
use super::kernel::{Kernel, no_agent, patience};
use super::quota::check_blocks;
use super::request::ReplayKeys;
use crate::store::{self, ImportWriter};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::core::{CloneSource, Core};
use vctx_core::memory::export::{CloneRows, Header, RowKind, entry_of, parted};
use vctx_core::memory::forget::Phase;
use vctx_core::trust::{Principal, Scope, admit, check_name, numbered};

/// The error message if the temporary file of a clone cannot be read.
const UNREADABLE: &str = "the server cannot read the temporary file of a clone";

impl Executor {
    /// Makes a clone of the agent with the local key `agent` under a new name. Returns `true` if
    /// this call made it, and the clone's state. A repetition with the same idempotency key finds
    /// it.
    pub async fn clone_agent(
        &self,
        principal: &Principal,
        agent: &str,
        name: &str,
        key: &str,
    ) -> Result<(bool, Value)> {
        check_name("agent", name)?;
        let source = admit(principal, agent)?;
        let mut own = principal.clone();
        let local = self.calling(&mut own, name);
        let target = admit(&own, &local)?;
        let by = ReplayKeys::of(&source, key).key;
        self.kernel.checked(&source, &[], patience()).await?;
        if let Some(core) = self.cloned_before(&target, &by).await? {
            return Ok((false, self.state_of(&target, &core)));
        }
        self.room_for(&target).await?;
        let made = self.transfers().cloned(&source, &target, &by).await;
        if let Err(error) = made {
            // Another attempt of the call may have made the clone meanwhile.
            return match self.cloned_before(&target, &by).await? {
                Some(core) => Ok((false, self.state_of(&target, &core))),
                None => Err(error),
            };
        }
        self.quota.add(target.tenant());
        // If the server dies before this, the clone's first write begins its ledger.
        self.kernel.cores.drop(target.key());
        store::adopt(&self.kernel.rw, &target).await.map_err(Error::from)?;
        let (core, _) = self.kernel.fresh(&target, &[], patience()).await?;
        tracing::info!(agent = target.key(), source = source.key(), "cloned");
        Ok((true, self.state_of(&target, &core)))
    }

    /// Returns the core of a clone that an earlier attempt of the call made; refuses the name of
    /// any other agent.
    async fn cloned_before(&self, target: &Scope, by: &str) -> Result<Option<Core>> {
        let (core, _) = match self.kernel.fresh(target, &[], patience()).await {
            Ok(found) => found,
            Err(error) if error.code == Code::AgentNotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match core.cloned.as_ref().is_some_and(|source| source.by == by) {
            true => Ok(Some((*core).clone())),
            false => Err(Error::new(
                Code::AgentExists,
                "an agent of that name exists: choose another name for the clone",
            )),
        }
    }
}

impl super::export::Transfers<'_> {
    /// Writes all rows of a clone, and publishes it.
    async fn cloned(&self, source: &Scope, target: &Scope, by: &str) -> Result<()> {
        let _permit = self.exports.permit()?;
        let forgotten = manifests(self.kernel, source).await?;
        let (file, ..) =
            self.read_again(READ_AGAIN, || self.exported(source, &|| async { Ok(()) })).await?;
        // A text that is being forgotten must not survive in the clone.
        let check_forgotten = || async {
            match manifests(self.kernel, source).await? == forgotten {
                true => Ok(()),
                false => Err(forgetting()),
            }
        };
        check_forgotten().await?;
        let into = self.exports.file()?;
        let (from, key, by) = (source.key().to_owned(), target.key().to_owned(), by.to_owned());
        let name = numbered(target.local_key()).0.to_owned();
        let turned = tokio::task::spawn_blocking(move || {
            let origin = CloneSource { from, by, ..CloneSource::default() };
            turned(file, into, (&name, &key), origin)
        });
        let file = turned
            .await
            .map_err(|e| Error::new(Code::Internal, "the clone ended early").caused_by(e))??;
        let plan = checked(&file, UNREADABLE).await?;
        check_blocks(&plan.core, self.kernel.blocks_bytes_max)?;
        self.directory.register(self.kernel, target).await?;
        let owner = self.owner_of(target, &plan).await?;
        let order = Order { scope: target, checked: &plan, owner };
        let by = self.kernel.ids.key();
        let writer = ImportWriter { moving: false, ..self.writer(target, &by) };
        let mark = self.take_place(&writer, &order).await?;
        let written = async {
            let rows = self.laid(&writer, &order, &mark, file, u64::MAX).await?;
            check_forgotten().await?;
            self.finished(&writer, &order, rows).await
        };
        match written.await {
            Ok(_) => {
                self.archive.nudge();
                Ok(())
            }
            Err(error) => {
                if let Err(fault) = self.take_back(&writer).await {
                    tracing::warn!(%fault, agent = target.key(), "rows of a clone are left for the next attempt to remove");
                }
                Err(error)
            }
        }
    }
}

fn forgetting() -> Error {
    let text = "the agent is forgetting something: clone it after the forget operation";
    Error::new(Code::Conflict, text)
}

/// Returns the ids of the forget operations of an agent; refuses an agent that is forgetting.
async fn manifests(kernel: &Kernel, scope: &Scope) -> Result<Vec<String>> {
    let rows = kernel.read(|ro| store::forgettings(ro, scope)).await?;
    match rows.iter().all(|row| row.phase == Phase::Done) {
        true => Ok(rows.into_iter().map(|row| row.key).collect()),
        false => Err(forgetting()),
    }
}

/// Writes the rows of a clone, made from the rows of the source's export, as a file in the form of
/// an export.
fn turned(file: File, into: File, (name, key): (&str, &str), origin: CloneSource) -> Result<File> {
    let (origin, chain_head) = looked_through(&file, key, origin)?;
    let mut rows = CloneRows::new(key, origin, &chain_head);
    let mut lines = FileLines::of(file)?;
    let first = lines.next()?.ok_or_else(no_agent)?;
    let header: Header = serde_json::from_str(first).map_err(|e| broken(&e.to_string()))?;
    let header = Header { agent: name.to_owned(), sealed_as: key.to_owned(), ..header };
    let mut written = Lines::begun(into, &header)?;
    while let Some(line) = lines.next()? {
        if !line.starts_with("{\"in\":") {
            break;
        }
        let (part, row) = parted(line).map_err(refused)?;
        if let Some(row) = rows.row(part, row).map_err(|why| broken(&why))? {
            written.row(part, &row)?;
        }
    }
    Ok(written.finished(rows.chain_head())?.0)
}

/// Reads a source's export for what the clone's core, its first row, says: the newest entry of the
/// source's ledger, and the head of the clone's chain.
fn looked_through(
    file: &File,
    key: &str,
    mut origin: CloneSource,
) -> Result<(CloneSource, String)> {
    let mut rows = CloneRows::new(key, origin.clone(), "");
    let again = file.try_clone().map_err(|e| broken(&e.to_string()))?;
    let mut lines = FileLines::of(again)?;
    lines.next()?;
    while let Some(line) = lines.next()? {
        if !line.starts_with("{\"in\":") {
            break;
        }
        let (part, row) = parted(line).map_err(refused)?;
        if let Some((n, hash)) = entry_of(part, &row).filter(|(n, _)| *n > origin.n) {
            (origin.n, origin.hash) = (n, hash);
        }
        if part == RowKind::Messages {
            rows.row(part, row).map_err(|why| broken(&why))?;
        }
    }
    Ok((origin, rows.chain_head().to_owned()))
}

fn broken(why: &str) -> Error {
    Error::new(Code::Internal, "the rows of the agent cannot be cloned: run `vctx verify`")
        .caused_by(std::io::Error::other(why.to_owned()))
}
