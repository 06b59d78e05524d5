//! Moving an agent from one database to another: the directory that says where it is, and what each side does.
//!
//! The directory lies in one place alone, the home place. An agent leaves in this order: nobody writes to it any more (`move_leave`), all of
//! it is written to the other side where nobody sees it (`settle.rs`, `move_hold`), its core goes (`move_depart`), it is there
//! (`move_arrive`), the directory says so (`directory_flip`), what it left behind is swept (`move_rest`, `import_trim`). Until its core is gone
//! it can stay after all; from then on all of it is on the other side.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::db::{Binds, Ro, Rw};
use super::dump::Row;
use super::fault::{Fault, FaultKind};
use super::query::{Query, query};
use super::settle::Settle;
use vctx_core::limits::{IMPORT_TRIM_ROWS, MOVE_LEASE_MS, MOVE_MANIFESTS_MAX, MOVES_DUE_MAX};
use vctx_core::memory::core::{Core, Leaving};
use vctx_core::memory::forget::tombstone_key;
use vctx_core::policy::Scope;

/// Where an agent is.
pub(super) const FIND: Query = query!("directory_find");
/// Where it will be.
pub(super) const CLAIM: Query = query!("directory_claim");
/// A move begins.
pub(super) const BEGIN: Query = query!("directory_begin");
/// Its mover lives.
pub(super) const RENEW: Query = query!("directory_renew");
/// It is elsewhere.
pub(super) const FLIP: Query = query!("directory_flip");
/// The move is over.
pub(super) const END: Query = query!("directory_end");
/// Moves that stand still.
pub(super) const DUE: Query = query!("directory_due");
/// What one side knows.
pub(super) const LOOK: Query = query!("move_look");
/// Nobody writes any more.
pub(super) const LEAVE: Query = query!("move_leave");
/// It stays after all.
pub(super) const STAY: Query = query!("move_stay");
/// It is gone.
pub(super) const DEPART: Query = query!("move_depart");
/// What it left behind.
pub(super) const REST: Query = query!("move_rest");
/// All of it is here.
pub(super) const HOLD: Query = query!("move_hold");
/// It is here.
pub(super) const ARRIVE: Query = query!("move_arrive");
/// What it forgot.
pub(super) const MANIFESTS: Query = query!("move_manifests");

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MovePhase {
    /// It is still where it was, or on its way.
    Copy,
    /// It is there; what it left behind is swept.
    Sweep,
}

/// A move that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Move {
    /// Who moves it, new with each that takes it up.
    pub by: String,
    /// Where it was.
    pub from: String,
    /// Where it will be.
    pub to: String,
    /// How far it is.
    pub phase: MovePhase,
}

/// What the directory says of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Located {
    /// The place that it is in.
    pub place: String,
    /// The move that is under way.
    pub moving: Option<Move>,
}

/// What the home place knows of where an agent is.
#[derive(Clone, Debug, Deserialize)]
pub struct Found {
    /// Its row in the directory.
    pub row: Option<Located>,
    /// It has none, and the home place holds it, from before there were further places.
    pub here: bool,
}

/// What became of a move that was to begin.
#[derive(Clone, Debug, Deserialize)]
pub struct MoveBegun {
    /// The row as it was.
    pub row: Option<Located>,
    /// The move, if it is the caller's.
    pub moving: Option<Move>,
}

/// A move whose mover has not been heard of.
#[derive(Clone, Debug, Deserialize)]
pub struct DueMove {
    /// Key of the agent's core.
    pub agent_id: String,
    /// Its tenant.
    pub tenant: String,
    /// Where it goes.
    pub to: String,
    /// How long its mover has not been heard of beyond its lease, in milliseconds.
    pub late_ms: f64,
}

/// What one side knows of an agent that is moved.
#[derive(Clone, Debug, Deserialize)]
pub struct MoveLook {
    /// Its core.
    pub core: Option<Core>,
    /// Where it went from here.
    pub departed: Option<String>,
    /// What an import wrote of it here.
    pub mark: Option<MoveMark>,
    /// Whether it is forgetting something.
    pub forgetting: bool,
}

/// What an import wrote.
#[derive(Clone, Debug, Deserialize)]
pub struct MoveMark {
    /// Hash of the state that is written.
    pub state: String,
    /// Whether all of it is here.
    pub complete: bool,
}

fn first<R>(rows: Vec<R>, query: Query) -> Result<R, Fault> {
    let none = || Fault::new(FaultKind::Garbage, format!("no row from {}", query.name));
    rows.into_iter().next().ok_or_else(none)
}

/// Where an agent is; asked of the home place.
pub async fn located(ro: &Ro, scope: &Scope) -> Result<Found, Fault> {
    let binds = Binds::of(scope, [("tombstone", tombstone_key(scope.key()).into())]);
    first(ro.rows(FIND, binds).await?, FIND)
}

/// Notes where an agent will be made, unless that is known; gives where it is. Asked of the home place.
pub async fn claim_place(
    rw: &Rw,
    scope: &Scope,
    home: &str,
    place: &str,
) -> Result<Located, Fault> {
    let binds = Binds::of(
        scope,
        [
            ("tombstone", tombstone_key(scope.key()).into()),
            ("tenant", scope.tenant().into()),
            ("home", home.into()),
            ("place", place.into()),
            ("sync", rw.sync.into()),
        ],
    );
    first(rw.rows(CLAIM, binds).await?, CLAIM)
}

/// Begins a move, or takes one up; asked of the home place, like all of the directory.
pub async fn begin_move(rw: &Rw, scope: &Scope, by: &str, to: &str) -> Result<MoveBegun, Fault> {
    let binds = Binds::of(
        scope,
        [
            ("by", by.into()),
            ("to", to.into()),
            ("lease_ms", MOVE_LEASE_MS.into()),
            ("sync", rw.sync.into()),
        ],
    );
    first(rw.rows(BEGIN, binds).await?, BEGIN)
}

/// Says that the mover lives; false where the move is another's by now.
pub async fn renew_move(rw: &Rw, scope: &Scope, by: &str) -> Result<bool, Fault> {
    let binds = Binds::of(
        scope,
        [("by", by.into()), ("lease_ms", MOVE_LEASE_MS.into()), ("sync", rw.sync.into())],
    );
    Ok(!rw.rows::<Value>(RENEW, binds).await?.is_empty())
}

/// Says that the agent is where it was moved to; false where the move is another's by now.
pub async fn flip_move(rw: &Rw, scope: &Scope, by: &str) -> Result<bool, Fault> {
    let binds = Binds::of(scope, [("by", by.into()), ("sync", rw.sync.into())]);
    Ok(!rw.rows::<Value>(FLIP, binds).await?.is_empty())
}

/// Ends a move; false where it is another's by now.
pub async fn end_move(rw: &Rw, scope: &Scope, by: &str) -> Result<bool, Fault> {
    let binds = Binds::of(scope, [("by", by.into()), ("sync", rw.sync.into())]);
    Ok(!rw.rows::<Value>(END, binds).await?.is_empty())
}

/// Moves whose mover has not been heard of.
pub async fn due_moves(ro: &Ro) -> Result<Vec<DueMove>, Fault> {
    ro.rows(DUE, Binds::unscoped([("limit", MOVES_DUE_MAX.into())])).await
}

/// What a place knows of an agent. Asked on the socket for writes: what is decided on it must not be of a moment ago.
pub async fn look_at_move(rw: &Rw, scope: &Scope) -> Result<MoveLook, Fault> {
    let binds = Binds::of(scope, [("mark_key", Settle::mark_key_of(scope).into())]);
    first(rw.rows(LOOK, binds).await?, LOOK)
}

/// Lets nobody write to an agent any more; false where its revision is another one by now.
pub async fn leave(rw: &Rw, scope: &Scope, core: &Core, leaving: &Leaving) -> Result<bool, Fault> {
    let binds = Binds::of(
        scope,
        [
            ("rev", core.rev.as_str().into()),
            ("moving", json!(leaving)),
            ("recent_revisions", json!(core.recent_revisions)),
            ("sync", rw.sync.into()),
        ],
    );
    Ok(!rw.rows::<Value>(LEAVE, binds).await?.is_empty())
}

/// Lets an agent be written to again that was about to leave.
pub async fn stay(rw: &Rw, scope: &Scope, by: &str) -> Result<bool, Fault> {
    let binds = Binds::of(scope, [("by", by.into()), ("sync", rw.sync.into())]);
    Ok(!rw.rows::<Value>(STAY, binds).await?.is_empty())
}

/// Manifests of what an agent forgot.
pub async fn manifests(rw: &Rw, scope: &Scope) -> Result<Vec<Row>, Fault> {
    rw.rows(MANIFESTS, Binds::of(scope, [("limit", (MOVE_MANIFESTS_MAX + 1).into())])).await
}

/// What lets an agent be, written when all else of it is.
#[derive(Clone, Debug, Serialize)]
pub struct Arrival {
    /// Its core.
    pub core: Row,
    /// The first version of its texts.
    pub first: Row,
    /// Its schedules.
    pub schedules: Vec<Row>,
    /// Manifests of what it forgot.
    pub forgets: Vec<Row>,
}

/// What became of holding it.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Held {
    /// Whether its vectors are those that serve.
    pub serves: bool,
    /// Whether all of it is there now.
    pub held: bool,
}

/// What became of an arrival.
#[derive(Clone, Debug, Deserialize)]
pub struct Arrived {
    /// Whether such an agent was there.
    pub there: bool,
    /// Revision of its core, if it is there by this call.
    pub rev: Option<String>,
}

impl Settle<'_> {
    /// Takes the core away, so that the agent is nowhere but in what the other side holds; false where another move has it.
    pub async fn depart(&self, to: &str, at: &str) -> Result<bool, Fault> {
        let binds = Binds::of(
            self.scope,
            [
                ("by", self.by.into()),
                ("to", to.into()),
                ("at", at.into()),
                ("sync", self.rw.sync.into()),
            ],
        );
        Ok(self.one::<Value>(DEPART, binds).await?.is_some())
    }

    /// Keeps what lets the agent be beside the mark. `number` is that of the vectors' setting, of an agent that has documents.
    pub async fn hold(
        &self,
        arrival: &Arrival,
        rows: u64,
        number: Option<u64>,
        until_ms: u64,
    ) -> Result<Held, Fault> {
        let binds = Binds::of(
            self.scope,
            [
                ("mark_key", Self::mark_key_of(self.scope).into()),
                ("by", self.by.into()),
                ("rows", rows.into()),
                ("number", json!(number)),
                ("arrival", json!(arrival)),
                ("until_ms", until_ms.into()),
                ("sync", self.rw.sync.into()),
            ],
        );
        Self::some(self.one(HOLD, binds).await?, HOLD)
    }

    /// Lets the agent be.
    pub async fn arrive(&self) -> Result<Arrived, Fault> {
        let binds = Binds::of(
            self.scope,
            [
                ("mark_key", Self::mark_key_of(self.scope).into()),
                ("by", self.by.into()),
                ("sync", self.rw.sync.into()),
            ],
        );
        Self::some(self.one(ARRIVE, binds).await?, ARRIVE)
    }

    /// Takes some rows away that no import writes; how many, or none if the place is another's.
    pub async fn trim_rest(&self, until_ms: u64) -> Result<Option<u64>, Fault> {
        #[derive(Deserialize)]
        struct Done {
            held: bool,
            gone: u64,
        }
        let binds = Binds::of(
            self.scope,
            [
                ("mark_key", Self::mark_key_of(self.scope).into()),
                ("by", self.by.into()),
                ("until_ms", until_ms.into()),
                ("limit", IMPORT_TRIM_ROWS.into()),
                ("sync", self.rw.sync.into()),
            ],
        );
        let done: Done = Self::some(self.one(REST, binds).await?, REST)?;
        Ok(done.held.then_some(done.gone))
    }
}
