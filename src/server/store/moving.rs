//! Stores moves of agents between databases: the directory of all agents, and the steps in the
//! source and the target.
//!
//! Only the home database has the directory. The steps of a move, in this order: (1) The source
//! stops accepting writes to the agent (`move_leave`). (2) All rows of the agent are written to the
//! target, where no caller sees them yet (`import.rs`, `move_hold`). (3) The core is removed from
//! the source (`move_depart`). (4) The core appears in the target (`move_arrive`). (5) The
//! directory names the target (`directory_flip`). (6) The remaining rows are removed from the
//! source (`move_rest`, `import_trim`). Before step 3, the move can still be undone. From step 3
//! on, the move is always completed, since the target has all rows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::beside::{Beside, beside};
use super::db::{Ro, Rw, binds, must};
use super::dump::Row;
use super::fault::Result;
use super::import::ImportWriter;
use super::ledger::Touched;
use super::names::Giving;
use super::query::queries;
use crate::limits::{MOVE_LEASE_MS, MOVE_MANIFESTS_MAX};
use crate::store::limits::IMPORT_TRIM_ROWS;
use vctx_core::ledger::Item;
use vctx_core::memory::core::{Core, Leaving};
use vctx_core::memory::forget::tombstone_key;
use vctx_core::trust::Scope;

/// Maximum number of interrupted moves that one search returns.
const MOVES_DUE_MAX: u64 = 16;

queries! {
    FIND = "directory_find",
    CLAIM = "directory_claim",
    BEGIN = "directory_begin",
    RENEW = "directory_renew",
    FLIP = "directory_flip",
    END = "directory_end",
    DUE = "directory_due",
    LOOK = "move_look",
    LEAVE = "move_leave",
    STAY = "move_stay",
    DEPART = "move_depart",
    REST = "move_rest",
    HOLD = "move_hold",
    ARRIVE = "move_arrive",
    MANIFESTS = "move_manifests",
}

/// The phase of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MovePhase {
    /// The agent is still in the source and is being copied.
    Copy,
    /// The agent is in the target, and its remaining rows are being removed from the source.
    Sweep,
}

/// A move in progress.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Move {
    /// Name of the mover, the server that performs the move. A server that takes over the move uses
    /// a new name.
    pub by: String,
    /// Name of the source database.
    pub from: String,
    /// Name of the target database.
    pub to: String,
    /// Phase of the move.
    pub phase: MovePhase,
}

/// An agent's row in the directory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Located {
    /// Name of the agent's database; `None` for the home database.
    pub place: Option<String>,
    /// The agent's move in progress, if any.
    pub moving: Option<Move>,
    /// Key of the agent that the name means now, if it is another one.
    #[serde(default)]
    pub named: Option<String>,
    /// A reservation of the name for another agent.
    #[serde(default)]
    pub giving: Option<Giving>,
}

/// What the home database knows about an agent's location.
#[derive(Clone, Debug, Deserialize)]
pub struct AgentLocation {
    /// The agent's row in the directory, if any.
    pub row: Option<Located>,
    /// Whether the agent has no row in the directory but is in the home database, because the agent
    /// was created when the home database was the only one.
    pub here: bool,
}

/// Outcome of beginning a move.
#[derive(Clone, Debug, Deserialize)]
pub struct MoveBegun {
    /// The agent's row in the directory before this call, if any.
    pub row: Option<Located>,
    /// The move, if the caller now owns it.
    pub moving: Option<Move>,
}

/// A move whose lease has expired.
#[derive(Clone, Debug, Deserialize)]
pub struct DueMove {
    /// Key of the agent's core.
    pub agent_id: String,
    /// Tenant of the agent.
    pub tenant: String,
    /// Name of the target database.
    pub to: String,
    /// Time since the lease expired, in milliseconds.
    pub late_ms: f64,
}

/// The progress of an agent's move, as seen in one database.
#[derive(Clone, Debug, Deserialize)]
pub struct MoveLook {
    /// Core of the agent, if it is in this database.
    pub core: Option<Core>,
    /// Name of the database to which the agent has moved from here, if it has.
    pub departed: Option<String>,
    /// The marker of the agent's import into this database, if any.
    pub mark: Option<MoveMark>,
    /// Whether a forget operation of the agent is in progress.
    pub forgetting: bool,
}

/// The marker of a moving agent's import.
#[derive(Clone, Debug, Deserialize)]
pub struct MoveMark {
    /// Hash of the imported state.
    pub state: String,
    /// Whether all rows of the agent have been written to this database.
    pub complete: bool,
}

/// Returns what the home database knows about an agent's location.
pub async fn located(ro: &Ro, scope: &Scope) -> Result<AgentLocation> {
    must(ro.row(FIND, binds!(scope; tombstone = tombstone_key(scope.key()))).await?, FIND)
}

/// Registers the database of a new agent in the home database's directory, unless the directory
/// already has a row for the agent. Returns the agent's row.
pub async fn claim_place(
    rw: &Rw,
    scope: &Scope,
    home: Option<&str>,
    place: Option<&str>,
) -> Result<Located> {
    let binds = binds!(scope;
        tombstone = tombstone_key(scope.key()), tenant = scope.tenant(), home, place,
        sync = rw.sync
    );
    must(rw.row(CLAIM, binds).await?, CLAIM)
}

/// Begins or takes over a move in the directory. This and all other functions of the directory use
/// a connection to the home database.
pub async fn begin_move(
    rw: &Rw,
    scope: &Scope,
    by: &str,
    to: &str,
    home: &str,
) -> Result<MoveBegun> {
    let binds = binds!(scope; by, to, home, lease_ms = MOVE_LEASE_MS, sync = rw.sync);
    must(rw.row(BEGIN, binds).await?, BEGIN)
}

/// Renews the lease on a move. Returns `false` if another mover owns the move.
pub async fn renew_move(rw: &Rw, scope: &Scope, by: &str) -> Result<bool> {
    rw.wrote(RENEW, binds!(scope; by, lease_ms = MOVE_LEASE_MS, sync = rw.sync)).await
}

/// Records in the directory that the target database now holds the agent. Returns `false` if
/// another mover owns the move.
pub async fn flip_move(rw: &Rw, scope: &Scope, by: &str) -> Result<bool> {
    rw.wrote(FLIP, binds!(scope; by, sync = rw.sync)).await
}

/// Ends a move in the directory. Returns `false` if another mover owns the move.
pub async fn end_move(rw: &Rw, scope: &Scope, by: &str) -> Result<bool> {
    rw.wrote(END, binds!(scope; by, sync = rw.sync)).await
}

/// Returns the moves whose lease has expired.
pub async fn due_moves(ro: &Ro) -> Result<Vec<DueMove>> {
    ro.rows(DUE, binds!(none; limit = MOVES_DUE_MAX, lease_ms = MOVE_LEASE_MS)).await
}

/// Returns the progress of an agent's move, as seen in one database. Reads on the write socket,
/// since decisions must not depend on outdated rows.
pub async fn look_at_move(rw: &Rw, scope: &Scope) -> Result<MoveLook> {
    must(rw.row(LOOK, binds!(scope; mark_key = ImportWriter::mark_key_of(scope))).await?, LOOK)
}

/// Blocks writes to an agent. Returns `false` if its revision has changed.
pub async fn leave(rw: &Rw, scope: &Scope, core: &Core, leaving: &Leaving) -> Result<bool> {
    let binds = binds!(scope;
        rev = core.rev, moving = leaving, recent_revisions = core.recent_revisions, sync = rw.sync
    );
    let work = Beside { what: "move", writes: &["core_memory"], query: LEAVE, binds };
    beside(rw, scope, work, |rows: Vec<Touched>, written| {
        let any = !rows.is_empty();
        written.touched(rows)?;
        Ok(any)
    })
    .await
}

/// Unblocks writes to an agent whose move was undone. Returns `false` if this mover had not blocked
/// them.
pub async fn stay(rw: &Rw, scope: &Scope, by: &str) -> Result<bool> {
    let binds = binds!(scope; by, sync = rw.sync);
    let work = Beside { what: "stay", writes: &["core_memory"], query: STAY, binds };
    beside(rw, scope, work, |rows: Vec<Touched>, written| {
        let any = !rows.is_empty();
        written.touched(rows)?;
        if any {
            written.item(&Item::moved_no_more());
        }
        Ok(any)
    })
    .await
}

/// Returns the manifests of an agent's forget operations, as rows that a move copies.
pub async fn manifests(rw: &Rw, scope: &Scope) -> Result<Vec<Row>> {
    rw.rows(MANIFESTS, binds!(scope; limit = MOVE_MANIFESTS_MAX + 1)).await
}

/// The rows that publish an agent; they are written after all other rows of the agent.
#[derive(Clone, Debug, Serialize)]
pub struct Arrival {
    /// Core of the agent.
    pub core: Row,
    /// Version 1 of the agent's core.
    pub first: Row,
    /// Schedules of the agent.
    pub schedules: Vec<Row>,
    /// Manifests of the agent's forget operations.
    pub forgets: Vec<Row>,
}

/// Outcome of [`ImportWriter::hold`].
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct HoldOutcome {
    /// Whether the agent's vectors belong to the current vector setting of the target.
    pub serves: bool,
    /// Whether the marker now says that all rows are written.
    pub held: bool,
}

/// Outcome of publishing an agent.
#[derive(Clone, Debug, Deserialize)]
pub struct Arrived {
    /// Whether the agent already existed in the target.
    pub there: bool,
    /// Revision of the core; `None` if this call did not publish the agent.
    pub rev: Option<String>,
}

impl ImportWriter<'_> {
    /// Removes the core from the source, so that only the target has the agent. Returns `false` if
    /// another mover owns the move.
    pub async fn depart(&self, to: &str, at: &str) -> Result<bool> {
        let binds = binds!(self.scope; by = self.by, to, at, sync = self.rw.sync);
        let done = self.one::<Value>(DEPART, binds).await?.is_some();
        if done {
            self.rw.heads.gone(self.scope);
        }
        Ok(done)
    }

    /// Stores in the marker the rows that will publish the agent. For an agent with documents,
    /// `number` identifies the vector setting of the documents' vectors.
    pub async fn hold(
        &self,
        arrival: &Arrival,
        rows: u64,
        number: Option<u64>,
        until_ms: u64,
    ) -> Result<HoldOutcome> {
        let binds = binds!(self.scope;
            mark_key = Self::mark_key_of(self.scope), by = self.by, rows, number, arrival, until_ms,
            sync = self.rw.sync
        );
        self.must(HOLD, binds).await
    }

    /// Publishes the agent in the target.
    pub async fn arrive(&self) -> Result<Arrived> {
        let binds = binds!(self.scope;
            mark_key = Self::mark_key_of(self.scope), by = self.by, sync = self.rw.sync
        );
        self.must(ARRIVE, binds).await
    }

    /// Removes a batch of the agent's rows from the source. These rows are in collections to which
    /// an import does not write. Returns the number of removed rows, or `None` if another mover
    /// owns the marker.
    pub async fn trim_rest(&self, until_ms: u64) -> Result<Option<u64>> {
        let binds = binds!(self.scope;
            mark_key = Self::mark_key_of(self.scope), by = self.by, until_ms,
            limit = IMPORT_TRIM_ROWS, sync = self.rw.sync
        );
        self.trimmed(REST, binds).await
    }
}
