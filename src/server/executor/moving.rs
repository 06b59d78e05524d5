//! Runs the steps of an agent's move in the source or target database, and updates the directory in
//! the home database.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::executor::Executor;
use super::export::{READ_AGAIN, Transfers, disk};
use super::import::{Last, Order, checked, compared};
use super::kernel::{Kernel, leaving, no_agent};
use super::names::outdated;
use crate::executor::limits::IMPORT_LEASE_MS;
use crate::limits::{MOVE_BUSY_MS_MAX, MOVE_MANIFESTS_MAX};
use crate::store::{
    self, AgentLocation, Arrival, DueMove, Dump, ImportStart, ImportWriter, Located, MoveBegun,
    MoveLook, Row,
};
use vctx_base::clock::{self, iso8601};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::core::Leaving;
use vctx_core::memory::export::ImportPlan;
use vctx_core::trust::Scope;

/// Pause after a move has blocked writes, in milliseconds, so that writes that began earlier can
/// end.
const MOVE_DRAIN_MS: u64 = 20;
/// The error message if the temporary file of a move cannot be read.
const UNREADABLE: &str = "the server cannot read the temporary file of a move";
/// Default name of the home database.
const HOME_PLACE: &str = "home";

/// A moving agent as exported: a file without a path, with all rows of the agent.
pub struct Carried {
    file: File,
    checked: ImportPlan,
    forgets: Vec<Row>,
    /// Number of entries of the ledger that an import brought along.
    imported_entries: u64,
    /// The names that the agent was given.
    names: Vec<String>,
    /// Number of call records that cannot move, since an old release of vctx wrote them without the
    /// calls' idempotency keys.
    pub left: u64,
}

impl Carried {
    /// Returns a hash over all rows of the agent, which is the same in every database.
    pub fn state(&self) -> &str {
        &self.checked.state
    }

    /// Returns the number of the agent's rows.
    pub fn rows(&self) -> u64 {
        self.checked.rows
    }
}

/// Returns the error for a call in a database other than the one that the directory names for the
/// agent.
pub(super) fn elsewhere() -> Error {
    Error::new(Code::AgentElsewhere, "the directory names another database: send the call there")
}

/// The name of this executor's database, and where the directory of all agents is.
pub(super) struct Directory {
    pub(super) place: String,
    /// Whether the server has several databases.
    pub(super) several: bool,
    /// The home database, which has the directory; `None` if this executor's database has it.
    pub(super) home: Option<Arc<Executor>>,
}

impl Default for Directory {
    fn default() -> Self {
        Self { place: HOME_PLACE.to_owned(), several: false, home: None }
    }
}

impl Directory {
    /// Registers an agent of this database, or an agent that is about to be written to this
    /// database. Fails if the directory names another database.
    ///
    /// A single database has a directory too, whose rows name no database: an agent and a name of
    /// another agent then cannot be made under one key at the same time.
    pub(super) async fn register(&self, kernel: &Kernel, scope: &Scope) -> Result<()> {
        let home = self.home(kernel);
        let at = self.several.then(|| self.home_name());
        let place = self.several.then_some(self.place.as_str());
        // If another server registered the agent at the same time, its registration stays.
        let claim = || store::claim_place(&home.rw, scope, at, place);
        let located = home.unraced(claim).await?;
        if let Some(named) = located.named {
            kernel.names.note(scope.key(), &named);
            return Err(outdated());
        }
        if located.giving.is_some() {
            let text = "the name is being given to another agent: choose another name, or repeat the rename that reserved it";
            return Err(Error::new(Code::AgentExists, text));
        }
        if !self.several {
            return Ok(());
        }
        match located {
            Located { place: Some(place), .. } if place != self.place => Err(elsewhere()),
            Located { moving: Some(_), .. } => Err(leaving()),
            Located { .. } => Ok(()),
        }
    }

    /// Returns the kernel of the home database; `kernel` is the kernel of this database.
    pub(super) fn home<'a>(&'a self, kernel: &'a Kernel) -> &'a Kernel {
        self.home.as_ref().map_or(kernel, |home| &home.kernel)
    }

    fn home_name(&self) -> &str {
        self.home.as_ref().map_or(self.place.as_str(), |home| home.database_name())
    }
}

/// Requests that a move sends to the directory, in the home database.
impl Transfers<'_> {
    /// Registers an agent of this database in the directory. Fails if the directory names another
    /// database.
    pub async fn register(&self, scope: &Scope) -> Result<()> {
        self.directory.register(self.kernel, scope).await
    }

    /// Returns an agent's row in the directory.
    pub async fn located(&self, scope: &Scope) -> Result<AgentLocation> {
        self.kernel.read(|ro| store::located(ro, scope)).await
    }

    /// Begins an agent's move under the mover's name, or takes over a move whose lease has expired.
    pub async fn move_begun(&self, scope: &Scope, by: &str, to: &str) -> Result<MoveBegun> {
        let home = &self.directory.place;
        self.kernel.write(|rw| store::begin_move(rw, scope, by, to, home)).await
    }

    /// Renews the mover's lease on the agent's move.
    pub async fn move_renewed(&self, scope: &Scope, by: &str) -> Result<bool> {
        self.kernel.write(|rw| store::renew_move(rw, scope, by)).await
    }

    /// Records in the directory that the move's target is now the agent's database.
    pub async fn move_flipped(&self, scope: &Scope, by: &str) -> Result<bool> {
        self.kernel.write(|rw| store::flip_move(rw, scope, by)).await
    }

    /// Records in the directory that a move has ended.
    pub async fn move_ended(&self, scope: &Scope, by: &str) -> Result<bool> {
        self.kernel.write(|rw| store::end_move(rw, scope, by)).await
    }

    /// Returns the moves whose lease has expired.
    pub async fn due_moves(&self) -> Result<Vec<DueMove>> {
        self.kernel.read(store::due_moves).await
    }

    /// Returns a new name for a mover.
    pub fn mover(&self) -> String {
        self.kernel.ids.key()
    }
}

/// The steps of a move in the source.
impl Transfers<'_> {
    /// Returns the progress of an agent's move, judged by the agent's rows in this database.
    pub async fn move_look(&self, scope: &Scope) -> Result<MoveLook> {
        self.kernel.patiently(|| store::look_at_move(&self.kernel.rw, scope)).await
    }

    /// Blocks writes to the agent, after waiting for its active run and forget operations to end.
    pub async fn leave(&self, scope: &Scope, by: &str, to: &str) -> Result<()> {
        let until = clock::now() + Duration::from_millis(MOVE_BUSY_MS_MAX);
        let mut busy = "written to all the time";
        while clock::now() < until {
            let look = self.move_look(scope).await?;
            let Some(mut core) = look.core else { return Err(no_agent()) };
            // An earlier attempt has already blocked the writes, but its answer was lost.
            if core.moving.as_ref().is_some_and(|leaving| leaving.by == by) {
                return Ok(());
            }
            if !self.kernel.agrees(scope, &core).await? {
                continue;
            }
            let runs =
                core.run.as_ref().is_some_and(|run| run.until_ms > self.kernel.clock.unix_ms());
            if !runs && !look.forgetting {
                // Keeps the core's current revision, so that callers can still send it as a guard
                // after the move.
                let (rev, version) = (core.rev.clone(), core.version);
                core.recent_revisions.push(&rev, version, vctx_core::limits::REVISIONS_KEPT);
                let leaving = Leaving { by: by.to_owned(), to: to.to_owned() };
                if self.kernel.write(|rw| store::leave(rw, scope, &core, &leaving)).await? {
                    self.kernel.cores.drop(scope.key());
                    tokio::time::sleep(Duration::from_millis(MOVE_DRAIN_MS)).await;
                    return Ok(());
                }
                continue;
            }
            busy = if runs { "in a run" } else { "forgetting something" };
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let text = format!("the agent was {busy} for {MOVE_BUSY_MS_MAX} ms: try again later");
        Err(Error::new(Code::MoveBusy, text))
    }

    /// Unblocks writes to the agent, if this mover blocked them.
    pub async fn stay(&self, scope: &Scope, by: &str) -> Result<bool> {
        self.kernel.cores.drop(scope.key());
        self.kernel.write(|rw| store::stay(rw, scope, by)).await
    }

    /// Exports all rows of an agent to a file.
    pub async fn carried(&self, scope: &Scope) -> Result<Carried> {
        let (file, _, _, left) =
            self.read_again(READ_AGAIN, || self.exported(scope, &|| async { Ok(()) })).await?;
        let forgets = self.kernel.patiently(|| store::manifests(&self.kernel.rw, scope)).await?;
        if forgets.len() as u64 > MOVE_MANIFESTS_MAX {
            let text =
                format!("the agent has more than {MOVE_MANIFESTS_MAX} forget operations on record");
            return Err(Error::new(Code::MoveBusy, text));
        }
        let loaded = self.kernel.patiently(|| store::load(&self.kernel.ro, scope, &[])).await?;
        let (imported_entries, names) =
            loaded.core.map_or_else(Default::default, |core| (core.imported_entries, core.names));
        let is_imported = || store::is_imported(&self.kernel.rw, scope, imported_entries);
        if imported_entries > 0 && !self.kernel.patiently(is_imported).await? {
            let text = "the core names more imported entries than there are: run `vctx verify`";
            return Err(Error::new(Code::LedgerContradicted, text));
        }
        let checked = checked(&file, UNREADABLE).await?;
        Ok(Carried { file, checked, forgets, imported_entries, names, left })
    }

    /// Returns whether the agent's rows in this database equal the exported rows.
    pub async fn is_as(&self, scope: &Scope, carried: &Carried) -> Result<bool> {
        let found = self.read_again(READ_AGAIN, || async {
            let begun = || Dump::begin(&self.kernel.ro, &self.kernel.rw, scope);
            let mut dump = self.kernel.patiently(begun).await?;
            let found = compared(&mut dump, &carried.checked).await;
            dump.end().await;
            found
        });
        Ok(found.await? == Some(true))
    }

    /// Removes the agent's core from the source, so that only the target has the agent. Returns
    /// `false` if another mover owns the move.
    pub async fn depart(&self, scope: &Scope, by: &str, to: &str) -> Result<bool> {
        let at = iso8601(self.kernel.clock.unix_ms());
        let writer = self.writer(scope, by);
        let gone = self.kernel.unraced(|| writer.depart(to, &at)).await?;
        self.kernel.cores.drop(scope.key());
        Ok(gone)
    }

    /// Removes the agent's remaining rows from the source.
    pub async fn sweep(&self, scope: &Scope, by: &str) -> Result<()> {
        let writer = self.writer(scope, by);
        let until = || self.kernel.clock.unix_ms() + IMPORT_LEASE_MS;
        let begun = self.begun(&writer, "swept").await?;
        if !begun.taken {
            return Err(Error::new(
                Code::Conflict,
                "the agent is back in the database whose rows are being removed",
            ));
        }
        loop {
            match self.kernel.unraced(|| writer.trim_rest(until())).await? {
                Some(0) => break,
                // The loop ends, since each round removes rows.
                Some(_) => {}
                None => return Err(superseded()),
            }
        }
        self.kernel.unraced(|| self.take_back(&writer)).await
    }

    /// Reserves the agent's name for a mover.
    async fn begun(&self, writer: &ImportWriter<'_>, state: &str) -> Result<ImportStart> {
        let now = || self.kernel.clock.unix_ms();
        let until = now() + IMPORT_LEASE_MS;
        self.kernel.unraced(|| writer.begin(state, now(), until)).await
    }

    pub(super) fn writer<'a>(&'a self, scope: &'a Scope, by: &'a str) -> ImportWriter<'a> {
        ImportWriter { rw: &self.kernel.rw, scope, by, mode: self.kernel.mode, moving: true }
    }
}

/// The steps of a move in the target.
impl Transfers<'_> {
    /// Writes all rows of an agent, still invisible to readers. Continues after the rows that
    /// another mover wrote for the same state of the agent.
    pub async fn take_in(&self, scope: &Scope, by: &str, carried: &Carried) -> Result<()> {
        let writer = self.writer(scope, by);
        let owner = self.owner_of(scope, &carried.checked).await?;
        let order = Order { scope, checked: &carried.checked, owner };
        let mark = self.take_place(&writer, &order).await?;
        let file = carried.file.try_clone().map_err(|e| disk(e, UNREADABLE))?;
        let rows = self.laid(&writer, &order, &mark, file, carried.imported_entries).await?;
        let Last { mut core, first, schedules, number } = order.last()?;
        if carried.imported_entries > 0 {
            core.insert("imported_entries".into(), carried.imported_entries.into());
        }
        if !carried.names.is_empty() {
            core.insert("names".into(), json!(carried.names));
        }
        let arrival = Arrival { core, first, schedules, forgets: carried.forgets.clone() };
        let until = || self.kernel.clock.unix_ms() + IMPORT_LEASE_MS;
        let outcome = self.kernel.unraced(|| writer.hold(&arrival, rows, number, until())).await?;
        match (outcome.held, outcome.serves) {
            (true, _) => Ok(()),
            (false, false) => Err(Error::new(
                Code::Conflict,
                "the target's vector setting changed during the move: move the agent again",
            )),
            (false, true) => Err(superseded()),
        }
    }

    /// Removes the rows that were written to the target for an agent that stays in the source.
    pub async fn take_out(&self, scope: &Scope, by: &str) -> Result<()> {
        let writer = self.writer(scope, by);
        let begun = self.begun(&writer, "").await?;
        match begun.taken {
            true => self.kernel.unraced(|| self.take_back(&writer)).await,
            false => Ok(()),
        }
    }

    /// Publishes the written agent and returns its revision, or returns `None` if the agent already
    /// exists.
    pub async fn arrive(&self, scope: &Scope, by: &str) -> Result<Option<String>> {
        let writer = self.writer(scope, by);
        let begun = self.begun(&writer, "").await?;
        if begun.there {
            return Ok(None);
        }
        let arrived = self.kernel.unraced(|| writer.arrive()).await?;
        self.archive.nudge();
        match (arrived.rev, arrived.there) {
            (Some(rev), _) => Ok(Some(rev)),
            (None, true) => Ok(None),
            (None, false) => {
                // There were no rows to publish. The agent's name was reserved just now, so the
                // reservation is removed again.
                self.kernel.unraced(|| self.take_back(&writer)).await?;
                Err(superseded())
            }
        }
    }
}

/// Returns the error for a mover that no longer owns the move.
pub(crate) fn superseded() -> Error {
    Error::new(Code::MoveBusy, "another server continues this move: ask where the agent is")
}
