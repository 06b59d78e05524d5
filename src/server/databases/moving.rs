//! An agent moves: nobody writes to it, all of it is written on the other side, its core goes here and is there, what is left is swept.
//!
//! The mover has a name of its own, and every step that takes something away is guarded by it, so that a mover which was thought dead does
//! no harm. Until the core is gone the agent can stay after all; from then on whoever takes the move up can only finish it.

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

use super::fleet::Fleet;
use super::place::Place;
use crate::executor::{Executor, Move, MovePhase};
use crate::http::IntoProblem as _;
use crate::http::{bytes_within, check_operator, json_answer, object_of};
use crate::jobs::Job;
use vctx_base::clock;
use vctx_base::metric;
use vctx_base::socket::PeerActor;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    BODY_BYTES_MAX, MOVE_BUSY_MS_MAX, MOVE_LEASE_MS, MOVE_TRIES_MAX, MOVES_PAUSE_MS,
};
use vctx_core::policy::Scope;
use vctx_core::tools::decode_as;

/// Where an agent is to go.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MoveCall {
    /// Name of the place.
    to: String,
}

/// Moves an agent. It goes on if the caller leaves.
pub(super) async fn move_agent(
    State(fleet): State<Arc<Fleet>>,
    Extension(peer): Extension<PeerActor>,
    Path(agent): Path<String>,
    body: Body,
) -> Response {
    let asked = async {
        check_operator(peer)?;
        let call: MoveCall = decode_as(object_of(&bytes_within(body, BODY_BYTES_MAX).await?)?)?;
        Ok::<_, Error>((call.to, fleet.scope(&agent)?))
    };
    let (to, scope) = match asked.await {
        Ok(asked) => asked,
        Err(error) => return error.into_problem(),
    };
    let moved = tokio::spawn(async move { fleet.moved(&scope, &to).await });
    match moved.await {
        Ok(Ok(told)) => json_answer(StatusCode::OK, &told),
        Ok(Err(error)) => error.into_problem(),
        Err(error) => {
            tracing::error!(%error, "a move panicked");
            let text =
                "the server made a mistake; the move is gone on with, ask where the agent is";
            Error::new(Code::Internal, text).into_problem()
        }
    }
}

/// What came of a move.
#[derive(Default)]
struct Moved {
    state: String,
    rows: u64,
    left: u64,
    rev: Option<String>,
}

/// Why a move did not come to its end.
enum Stood {
    /// It may have to go back.
    Back(Error),
    /// Whoever takes it up goes on.
    Still(Error),
}

impl From<Error> for Stood {
    fn from(error: Error) -> Self {
        Self::Still(error)
    }
}

impl Fleet {
    /// Moves an agent to another place; one that is there already stays.
    async fn moved(&self, scope: &Scope, to: &str) -> Result<Value> {
        let begun = clock::now();
        let target = self.places.named(to).map_err(|error| Error::argument("to", error.message))?;
        target.opened()?;
        let _turn = self.moves.try_acquire().map_err(|_| {
            Error::new(Code::Overloaded, "as many moves are under way as may be: try again later")
        })?;
        let home = self.home()?;
        let found = self.whereabouts(scope).await?;
        let told = |from: &str, moved: &Moved, made: bool| {
            let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            json!({"agent": scope.agent(), "from": from, "to": to, "moved": made, "state": moved.state, "rows": moved.rows,
                "records_left": moved.left, "_rev": moved.rev, "took_ms": ms})
        };
        let source = self.places.named(&found.place)?.opened()?.executor;
        if !found.moving {
            // It must be somewhere, and the directory must know it.
            if source.move_look(scope).await?.core.is_none() {
                let text = "no such agent: create it with PUT /v1/agents/{agent}";
                return Err(Error::new(Code::AgentNotFound, text));
            }
            source.register(scope).await?;
        }
        if found.place == to && !found.moving {
            return Ok(told(&found.place, &Moved::default(), false));
        }
        let by = home.mover();
        let begun = home.move_begun(scope, &by, to).await?;
        let Some(taken) = begun.moving else {
            let text = "another move of this agent is under way: wait until it is done";
            return Err(Error::new(Code::MoveBusy, text));
        };
        let other = (taken.to != to).then(|| taken.to.clone());
        let from = taken.from.clone();
        let moved = self.driven(scope, &taken).await?;
        match other {
            None => Ok(told(&from, &moved, true)),
            Some(other) => Err(Error::new(
                Code::MoveBusy,
                format!("a move to {other} that was begun before is done now: move it again"),
            )),
        }
    }

    /// Drives a move that is the caller's to its end, with the directory told all the time that its mover lives.
    async fn driven(&self, scope: &Scope, this: &Move) -> Result<Moved> {
        let home = self.home()?;
        let driven = tokio::select! {
            driven = self.steps(scope, this, &home) => driven,
            lost = renewed(&home, scope, &this.by) => Err(Stood::Still(lost)),
        };
        let (outcome, driven) = match driven {
            Ok(moved) => ("done", Ok(moved)),
            Err(Stood::Still(error)) => ("cut", Err(error)),
            Err(Stood::Back(error)) => {
                let stays = self.given_up(scope, this, &home, &error).await;
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
    ) -> std::result::Result<Moved, Stood> {
        let (from, to) = (self.places.named(&this.from)?, self.places.named(&this.to)?);
        let mut moved = Moved::default();
        if this.phase == MovePhase::Copy {
            moved = self.brought(scope, this, from, to).await.map_err(Stood::Back)?;
            let target = to.opened()?.executor;
            moved.rev = target.arrive(scope, &this.by).await?;
            if !home.move_flipped(scope, &this.by).await? {
                return Err(superseded().into());
            }
        }
        self.note(scope, &this.to);
        from.opened()?.executor.sweep(scope, &this.by).await?;
        home.move_ended(scope, &this.by).await?;
        tracing::info!(
            agent = scope.key(),
            from = this.from,
            to = this.to,
            rows = moved.rows,
            "moved"
        );
        Ok(moved)
    }

    /// Copies the agent until nothing is left to copy, and takes its core away. One that is gone already is brought.
    async fn brought(&self, scope: &Scope, this: &Move, from: &Place, to: &Place) -> Result<Moved> {
        let (source, by) = (from.opened()?.executor, this.by.as_str());
        if source.move_look(scope).await?.core.is_none() {
            return Ok(Moved::default());
        }
        let target = to.opened()?.executor;
        source.leave(scope, by, &this.to).await?;
        for _ in 0..MOVE_TRIES_MAX {
            let carried = source.carried(scope).await?;
            target.take_in(scope, by, &carried).await?;
            // Something that is written beside the core may have begun before the agent was about to leave.
            if !source.is_as(scope, &carried).await? {
                continue;
            }
            if !source.depart(scope, by, &this.to).await? {
                // The answer to a first try may have been lost.
                let look = source.move_look(scope).await?;
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
        let text = "the agent was different each time that it was copied: try again later";
        Err(Error::new(Code::MoveBusy, text))
    }

    /// Lets an agent stay whose move failed before its core was gone; whether it does. Where that cannot be done now, the next one that
    /// takes the move up does it, or finishes it.
    async fn given_up(&self, scope: &Scope, this: &Move, home: &Executor, error: &Error) -> bool {
        let back = async {
            let source = self.places.named(&this.from)?.opened()?.executor;
            let there = source.move_look(scope).await?.core.is_some();
            if there {
                source.stay(scope, &this.by).await?;
                home.move_ended(scope, &this.by).await?;
                // A later move takes over what is left of this one: here it is only tidied up.
                let target = self.places.named(&this.to)?.opened()?.executor;
                let tidied = target.take_out(scope, &this.by);
                let most = Duration::from_millis(MOVE_BUSY_MS_MAX);
                if !matches!(tokio::time::timeout(most, tidied).await, Ok(Ok(()))) {
                    tracing::debug!(
                        agent = scope.key(),
                        "what was written there is left for a later move"
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
                    "a move stands still: it is taken up again"
                );
                false
            }
        }
    }
}

/// Says again and again that the mover lives; ends when another one has the move.
async fn renewed(home: &Executor, scope: &Scope, by: &str) -> Error {
    loop {
        tokio::time::sleep(Duration::from_millis(MOVE_LEASE_MS / 3)).await;
        match home.move_renewed(scope, by).await {
            Ok(true) => {}
            Ok(false) => return superseded(),
            Err(error) => tracing::debug!(error = error.chain(), "a move is not renewed"),
        }
    }
}

fn superseded() -> Error {
    Error::new(Code::MoveBusy, "another server goes on with this move: ask where the agent is")
}

/// Goes on with moves whose server died. Every server runs it; of several, one has the move.
pub struct Moves {
    fleet: Arc<Fleet>,
}

impl Moves {
    /// A job of this server.
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
        let due = home.due_moves().await?;
        metrics::gauge!(metric::MOVES_STANDING).set(due.len() as f64);
        for due in due {
            if *stopping.borrow() {
                break;
            }
            let prefix =
                if due.tenant.is_empty() { String::new() } else { format!("{}:", due.tenant) };
            let Some(agent) = due.agent_id.strip_prefix(&prefix) else { continue };
            // Those of other tenants have servers of their own.
            let scope = self.fleet.scope(agent)?;
            if scope.key() != due.agent_id {
                continue;
            }
            let begun = home.move_begun(&scope, &home.mover(), &due.to).await?;
            let Some(taken) = begun.moving else { continue };
            tracing::info!(
                agent = scope.key(),
                to = taken.to,
                "a move that stood still is taken up"
            );
            match self.fleet.driven(&scope, &taken).await {
                Err(error) if matches!(error.code, Code::MoveBusy | Code::NotReady) => {
                    tracing::debug!(error = error.chain(), "a move waits");
                }
                other => first_fault = first_fault.and(other.map(drop)),
            }
        }
        first_fault
    }
}
