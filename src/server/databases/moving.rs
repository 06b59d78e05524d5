//! Moves an agent from a source database to a target database.
//!
//! A move blocks writes to the agent, copies all its rows, moves the core, and deletes the rows
//! left in the source.
//!
//! The mover is the server that carries out the move. Every removal of rows requires the mover's
//! name, so that a mover whose move was taken over removes nothing. A move can be undone until the
//! core in the source is removed. After this removal, the move can only be completed.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::database::Database;
use super::fleet::Fleet;
use crate::executor::{Executor, Move, MovePhase, no_agent, superseded};
use crate::http::IntoProblem as _;
use crate::http::{bytes_within, check_operator, json_answer, object_of};
use crate::jobs::Job;
use crate::limits::{MOVE_BUSY_MS_MAX, MOVE_LEASE_MS};
use vctx_base::clock;
use vctx_base::metric;
use vctx_base::socket::PeerActor;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::BODY_BYTES_MAX;
use vctx_core::tools::decode_as;
use vctx_core::trust::Scope;

/// Pause between two searches for interrupted moves, in milliseconds.
const MOVES_PAUSE_MS: u64 = 1_000;
/// Maximum number of times that one move copies the rows of an agent. A concurrent write that does
/// not change the core makes another copy necessary.
const MOVE_TRIES_MAX: u32 = 5;

/// Body of a request to move an agent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MoveCall {
    /// Name of the target database.
    to: String,
}

/// Moves an agent as an operator requested. The move continues if the caller disconnects.
pub(super) async fn move_agent(
    State(fleet): State<Arc<Fleet>>,
    Extension(peer): Extension<PeerActor>,
    Path(agent): Path<String>,
    body: Body,
) -> Response {
    let asked = async {
        check_operator(peer)?;
        let (bytes, _room) = bytes_within(body, BODY_BYTES_MAX).await?;
        let call: MoveCall = decode_as(object_of(&bytes)?)?;
        Ok::<_, Error>((call.to, fleet.scope(&agent)?))
    };
    let (to, scope) = match asked.await {
        Ok(asked) => asked,
        Err(error) => return error.into_problem(),
    };
    let moved = tokio::spawn(async move { Box::pin(fleet.moved(&scope, &to)).await });
    match moved.await {
        Ok(Ok(told)) => json_answer(StatusCode::OK, &told),
        Ok(Err(error)) => error.into_problem(),
        Err(error) => {
            tracing::error!(%error, "a move panicked");
            let text =
                "the server has an internal error; the move continues, ask where the agent is";
            Error::new(Code::Internal, text).into_problem()
        }
    }
}

/// The result of an agent's move.
#[derive(Default)]
struct Moved {
    state: String,
    rows: u64,
    left: u64,
    rev: Option<String>,
}

/// Where a failed move of an agent stopped.
enum MoveFault {
    /// A fault before the source's core was removed: the move may be undone.
    Undo(Error),
    /// A fault after the source's core was removed: a later mover continues the move.
    Resume(Error),
}

impl From<Error> for MoveFault {
    fn from(error: Error) -> Self {
        Self::Resume(error)
    }
}

impl Fleet {
    /// Moves an agent to another database, unless the agent is already there.
    async fn moved(&self, scope: &Scope, to: &str) -> Result<Value> {
        let begun = clock::now();
        let target =
            self.places.by_name(to).map_err(|error| Error::argument("to", error.message))?;
        target.opened()?;
        let _turn = self.moves.try_acquire().map_err(|_| {
            Error::new(Code::Overloaded, "too many moves are under way: try again later")
        })?;
        let home = self.home()?;
        let found = self.whereabouts(scope).await?;
        let told = |from: &str, moved: &Moved, made: bool| {
            let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            json!({"agent": scope.agent(), "from": from, "to": to, "moved": made, "state": moved.state, "rows": moved.rows,
                "records_left": moved.left, "_rev": moved.rev, "took_ms": ms})
        };
        let source = self.places.by_name(&found.place)?.opened()?.executor;
        if !found.moving {
            // To be moved, an agent must exist and be in the directory.
            if source.transfers().move_look(scope).await?.core.is_none() {
                return Err(no_agent());
            }
            source.transfers().register(scope).await?;
        }
        if found.place == to && !found.moving {
            return Ok(told(&found.place, &Moved::default(), false));
        }
        let by = home.transfers().mover();
        let begun = home.transfers().move_begun(scope, &by, to).await?;
        let Some(taken) = begun.moving else {
            let text = "another move of this agent is under way: wait until it is done";
            return Err(Error::new(Code::MoveBusy, text));
        };
        let other = (taken.to != to).then(|| taken.to.clone());
        let from = taken.from.clone();
        let moved = Box::pin(self.drive(scope, &taken)).await?;
        match other {
            None => Ok(told(&from, &moved, true)),
            Some(other) => Err(Error::new(
                Code::MoveBusy,
                format!("an earlier move to {other} is complete now: move the agent again"),
            )),
        }
    }

    /// Carries out the move that a caller requested, and meanwhile renews the move's lease in the
    /// directory.
    async fn drive(&self, scope: &Scope, this: &Move) -> Result<Moved> {
        let home = self.home()?;
        let driven = tokio::select! {
            driven = self.steps(scope, this, &home) => driven,
            lost = renewed(&home, scope, &this.by) => Err(MoveFault::Resume(lost)),
        };
        let (outcome, driven) = match driven {
            Ok(moved) => ("done", Ok(moved)),
            Err(MoveFault::Resume(error)) => ("cut", Err(error)),
            Err(MoveFault::Undo(error)) => {
                let stays = self.undo(scope, this, &home, &error).await;
                (if stays { "stayed" } else { "cut" }, Err(error))
            }
        };
        metrics::counter!(metric::MOVES, "outcome" => outcome).increment(1);
        driven
    }

    async fn steps(
        &self,
        scope: &Scope,
        this: &Move,
        home: &Arc<Executor>,
    ) -> std::result::Result<Moved, MoveFault> {
        let (from, to) = (self.places.by_name(&this.from)?, self.places.by_name(&this.to)?);
        let mut moved = Moved::default();
        if this.phase == MovePhase::Copy {
            moved = self.copy(scope, this, from, to).await.map_err(MoveFault::Undo)?;
            // All databases of a server have the same checkpoints, so the source must not sign
            // after the first write in the target that the agent is gone.
            if let Err(error) = from.opened()?.executor.sign_heads().await {
                tracing::warn!(error = error.chain(), "the departure is signed later");
            }
            let target = to.opened()?.executor;
            moved.rev = target.transfers().arrive(scope, &this.by).await?;
            if !home.transfers().move_flipped(scope, &this.by).await? {
                return Err(superseded().into());
            }
        }
        self.note(scope, &this.to);
        from.opened()?.executor.transfers().sweep(scope, &this.by).await?;
        home.transfers().move_ended(scope, &this.by).await?;
        tracing::info!(
            agent = scope.key(),
            from = this.from,
            to = this.to,
            rows = moved.rows,
            "moved"
        );
        Ok(moved)
    }

    /// Copies the agent until both databases have equal rows, then removes the agent's core from
    /// the source. Copies nothing if an earlier attempt has already removed this core.
    async fn copy(
        &self,
        scope: &Scope,
        this: &Move,
        from: &Database,
        to: &Database,
    ) -> Result<Moved> {
        let (source, by) = (from.opened()?.executor, this.by.as_str());
        if source.transfers().move_look(scope).await?.core.is_none() {
            return Ok(Moved::default());
        }
        let target = to.opened()?.executor;
        source.transfers().leave(scope, by, &this.to).await?;
        for _ in 0..MOVE_TRIES_MAX {
            let carried = source.transfers().carried(scope).await?;
            target.transfers().take_in(scope, by, &carried).await?;
            // A write that does not change the agent's core may have begun before the move blocked
            // writes.
            if !source.transfers().is_as(scope, &carried).await? {
                continue;
            }
            if !source.transfers().depart(scope, by, &this.to).await? {
                // The response to an earlier attempt of this step may have been lost.
                let look = source.transfers().move_look(scope).await?;
                if look.core.is_some() || look.departed.as_deref() != Some(this.to.as_str()) {
                    return Err(superseded());
                }
            }
            return Ok(Moved {
                state: carried.state().to_owned(),
                rows: carried.rows(),
                left: carried.left,
                rev: None,
            });
        }
        let text = "writes changed the agent during each copy: try again later";
        Err(Error::new(Code::MoveBusy, text))
    }

    /// Undoes a failed move if the source still has the core, and returns whether the move was
    /// undone. Otherwise the next mover undoes or completes the move.
    async fn undo(&self, scope: &Scope, this: &Move, home: &Executor, error: &Error) -> bool {
        let back = async {
            let source = self.places.by_name(&this.from)?.opened()?.executor;
            let there = source.transfers().move_look(scope).await?.core.is_some();
            if there {
                source.transfers().stay(scope, &this.by).await?;
                home.transfers().move_ended(scope, &this.by).await?;
                // Deletes the rows that the failed move wrote to the target, within a time limit;
                // rows that remain are deleted by the agent's next move.
                let target = self.places.by_name(&this.to)?.opened()?.executor;
                let transfers = target.transfers();
                let tidied = transfers.take_out(scope, &this.by);
                let most = Duration::from_millis(MOVE_BUSY_MS_MAX);
                if !matches!(tokio::time::timeout(most, tidied).await, Ok(Ok(()))) {
                    tracing::debug!(
                        agent = scope.key(),
                        "a later move removes the rows in the target"
                    );
                }
            }
            Ok::<_, Error>(there)
        };
        match back.await {
            Ok(stays) => {
                let why = error.chain();
                tracing::warn!(agent = scope.key(), stays, error = why, "a move was given up");
                stays
            }
            Err(fault) => {
                let why = fault.chain();
                tracing::warn!(
                    agent = scope.key(),
                    error = why,
                    "a move was interrupted: it will be continued"
                );
                false
            }
        }
    }
}

/// Renews the mover's lease in the directory until another mover takes over the move.
async fn renewed(home: &Executor, scope: &Scope, by: &str) -> Error {
    loop {
        tokio::time::sleep(Duration::from_millis(MOVE_LEASE_MS / 3)).await;
        match home.transfers().move_renewed(scope, by).await {
            Ok(true) => {}
            Ok(false) => return superseded(),
            Err(error) => tracing::debug!(error = error.chain(), "a move was not renewed"),
        }
    }
}

/// Runs the job that continues the moves of dead servers. Every server runs this job; each move has
/// one owner at a time.
pub struct Moves {
    fleet: Arc<Fleet>,
}

impl Moves {
    /// Makes this server's job for interrupted moves.
    pub fn new(fleet: Arc<Fleet>) -> Self {
        Self { fleet }
    }
}

impl Job for Moves {
    const NAME: &'static str = "moves";
    const PAUSE: Duration = Duration::from_millis(MOVES_PAUSE_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let home = self.fleet.home()?;
        let mut first_fault = Ok(());
        let due = home.transfers().due_moves().await?;
        metrics::gauge!(metric::MOVES_STANDING).set(due.len() as f64);
        for due in due {
            if *stopping.borrow() {
                break;
            }
            let prefix =
                if due.tenant.is_empty() { String::new() } else { format!("{}:", due.tenant) };
            let Some(agent) = due.agent_id.strip_prefix(&prefix) else { continue };
            // Skips moves of other tenants; the servers of those tenants continue them.
            let scope = self.fleet.scope_of_key(agent)?;
            if scope.key() != due.agent_id {
                continue;
            }
            let begun =
                home.transfers().move_begun(&scope, &home.transfers().mover(), &due.to).await?;
            let Some(taken) = begun.moving else { continue };
            tracing::info!(agent = scope.key(), to = taken.to, "an interrupted move is continued");
            match Box::pin(self.fleet.drive(&scope, &taken)).await {
                Err(error) if matches!(error.code, Code::MoveBusy | Code::NotReady) => {
                    tracing::debug!(error = error.chain(), "a move waits");
                }
                other => first_fault = first_fault.and(other.map(drop)),
            }
        }
        first_fault
    }
}
