//! What one place does when an agent moves: it lets go of it, or takes it in; and what the home place knows of where everybody is.

use std::fs::File;
use std::time::Duration;

use super::executor::{Directory, Executor, leaving, no_agent, patience};
use super::export::lost;
use super::import::{Last, Order, check, compared};
use crate::store::{
    self, Arrival, Broken, DueMove, Dump, Found, Located, MoveBegun, MoveLook, Row, Settle,
};
use vctx_base::clock::{self, iso8601};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    EXPORT_TRIES_MAX, IMPORT_LEASE_MS, MOVE_BUSY_MS_MAX, MOVE_MANIFESTS_MAX, MOVE_SETTLE_MS,
};
use vctx_core::memory::core::Leaving;
use vctx_core::memory::export::Checked;
use vctx_core::policy::Scope;

/// An agent on its way from one place to another: everything that it is, in a file that lies on no path.
pub struct Carried {
    file: File,
    checked: Checked,
    forgets: Vec<Row>,
    /// Records of calls that had to stay, since they were written before their keys were kept.
    pub left: u64,
}

impl Carried {
    /// Hash over all that the agent is; the same wherever it lies.
    pub fn state(&self) -> &str {
        &self.checked.state
    }

    /// Rows that it consists of.
    pub fn rows(&self) -> u64 {
        self.checked.rows
    }
}

/// The refusal where the directory says another place.
pub(super) fn elsewhere() -> Error {
    Error::new(Code::AgentElsewhere, "the directory knows this agent in another place: ask there")
}

/// What is known of where agents are. All of this is asked of the home place.
impl Executor {
    /// Notes that an agent is here, or will be made here; refused where it is known elsewhere.
    pub async fn register(&self, scope: &Scope) -> Result<()> {
        let home = match &self.directory {
            Directory::None => return Ok(()),
            Directory::Own => self,
            Directory::Of(home) => home,
        };
        // Where somebody else notes it at the same moment, what is noted stands.
        let claim = || store::claim_place(&home.rw, scope, &home.place, &self.place);
        let located = home.unraced(claim).await?;
        match located {
            Located { place, .. } if place != self.place => Err(elsewhere()),
            Located { moving: Some(_), .. } => Err(leaving()),
            Located { .. } => Ok(()),
        }
    }

    /// Where an agent is.
    pub async fn located(&self, scope: &Scope) -> Result<Found> {
        self.patiently(|| store::located(&self.ro, scope)).await
    }

    /// Begins a move under a name of its own, or takes one up whose mover has not been heard of.
    pub async fn move_begun(&self, scope: &Scope, by: &str, to: &str) -> Result<MoveBegun> {
        self.unraced(|| store::begin_move(&self.rw, scope, by, to)).await
    }

    /// Says that the mover lives.
    pub async fn move_renewed(&self, scope: &Scope, by: &str) -> Result<bool> {
        self.unraced(|| store::renew_move(&self.rw, scope, by)).await
    }

    /// Says that the agent is where it was moved to.
    pub async fn move_flipped(&self, scope: &Scope, by: &str) -> Result<bool> {
        self.unraced(|| store::flip_move(&self.rw, scope, by)).await
    }

    /// Ends a move.
    pub async fn move_ended(&self, scope: &Scope, by: &str) -> Result<bool> {
        self.unraced(|| store::end_move(&self.rw, scope, by)).await
    }

    /// Moves whose mover has not been heard of.
    pub async fn due_moves(&self) -> Result<Vec<DueMove>> {
        self.patiently(|| store::due_moves(&self.ro)).await
    }

    /// A name for a mover.
    pub fn mover(&self) -> String {
        self.ids.key()
    }
}

/// The side that an agent leaves.
impl Executor {
    /// What this place knows of an agent.
    pub async fn move_look(&self, scope: &Scope) -> Result<MoveLook> {
        self.patiently(|| store::look_at_move(&self.rw, scope)).await
    }

    /// Lets nobody write to the agent any more. A run that is under way, and what it is forgetting, is waited for first.
    pub async fn leave(&self, scope: &Scope, by: &str, to: &str) -> Result<()> {
        let until = clock::now() + Duration::from_millis(MOVE_BUSY_MS_MAX);
        let mut busy = "written to all the time";
        while clock::now() < until {
            let look = self.move_look(scope).await?;
            let Some(mut core) = look.core else { return Err(no_agent()) };
            // The answer to an earlier try was lost.
            if core.moving.as_ref().is_some_and(|leaving| leaving.by == by) {
                return Ok(());
            }
            let runs = core.run.as_ref().is_some_and(|run| run.until_ms > self.clock.unix_ms());
            if !runs && !look.forgetting {
                // Whoever knows the revision of now finds in the next one what it stood for.
                let (rev, version) = (core.rev.clone(), core.version);
                core.recent_revisions.push(&rev, version, vctx_core::limits::REVISIONS_KEPT);
                let leaving = Leaving { by: by.to_owned(), to: to.to_owned() };
                if self.unraced(|| store::leave(&self.rw, scope, &core, &leaving)).await? {
                    self.cores.drop(scope.key());
                    tokio::time::sleep(Duration::from_millis(MOVE_SETTLE_MS)).await;
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

    /// Lets the agent be written to again, if it is this mover's.
    pub async fn stay(&self, scope: &Scope, by: &str) -> Result<bool> {
        self.cores.drop(scope.key());
        self.unraced(|| store::stay(&self.rw, scope, by)).await
    }

    /// Everything that an agent is, in a file.
    pub async fn carried(&self, scope: &Scope) -> Result<Carried> {
        let mut faults = 0;
        for _ in 0..EXPORT_TRIES_MAX {
            let (file, _, _, left) = match self.exported(scope).await {
                Ok(exported) => exported,
                Err(Broken::Store(fault)) if lost(fault.kind) => {
                    self.pause(fault, &mut faults, patience()).await?;
                    continue;
                }
                Err(broken) => return Err(broken.into()),
            };
            let forgets = self.patiently(|| store::manifests(&self.rw, scope)).await?;
            if forgets.len() as u64 > MOVE_MANIFESTS_MAX {
                let text =
                    format!("it has more than {MOVE_MANIFESTS_MAX} manifests of what it forgot");
                return Err(Error::new(Code::MoveBusy, text));
            }
            let again = file.try_clone().map_err(|e| {
                Error::new(Code::Internal, "the file of a move cannot be read again").caused_by(e)
            })?;
            let checked =
                tokio::task::spawn_blocking(move || check(again)).await.map_err(|e| {
                    Error::new(Code::Internal, "the check of the file ended early").caused_by(e)
                })??;
            return Ok(Carried { file, checked, forgets, left });
        }
        Err(let_go())
    }

    /// Whether the agent is here just as it is carried.
    pub async fn is_as(&self, scope: &Scope, carried: &Carried) -> Result<bool> {
        let mut faults = 0;
        for _ in 0..EXPORT_TRIES_MAX {
            let mut dump = self.patiently(|| Dump::begin(&self.ro, &self.rw, scope)).await?;
            let found = compared(&mut dump, &carried.checked).await;
            dump.end().await;
            match found {
                Err(Broken::Store(fault)) if lost(fault.kind) => {
                    self.pause(fault, &mut faults, patience()).await?;
                }
                found => return Ok(found? == Some(true)),
            }
        }
        Err(let_go())
    }

    /// Takes the core away; from now on the agent is nowhere but in what the other side holds. False where another mover has it.
    pub async fn depart(&self, scope: &Scope, by: &str, to: &str) -> Result<bool> {
        let at = iso8601(self.clock.unix_ms());
        let settle = self.settle(scope, by);
        let gone = self.unraced(|| settle.depart(to, &at)).await?;
        self.cores.drop(scope.key());
        Ok(gone)
    }

    /// Takes away everything that the agent left behind.
    pub async fn sweep(&self, scope: &Scope, by: &str) -> Result<()> {
        let settle = self.settle(scope, by);
        let until = || self.clock.unix_ms() + IMPORT_LEASE_MS;
        let begun = self.unraced(|| settle.begin("swept", self.clock.unix_ms(), until())).await?;
        if !begun.taken {
            return Err(Error::new(Code::Conflict, "the agent is back where it is swept away"));
        }
        loop {
            match self.unraced(|| settle.trim_rest(until())).await? {
                Some(0) => break,
                // Each round takes rows away, so this ends.
                Some(_) => {}
                None => return Err(superseded()),
            }
        }
        self.unraced(|| self.take_back(&settle)).await
    }

    fn settle<'a>(&'a self, scope: &'a Scope, by: &'a str) -> Settle<'a> {
        Settle { rw: &self.rw, scope, by, mode: self.mode, moving: true }
    }
}

/// The side that an agent comes to.
impl Executor {
    /// Writes an agent where nobody sees it, all of it. What another mover wrote of the same state is gone on with.
    pub async fn take_in(&self, scope: &Scope, by: &str, carried: &Carried) -> Result<()> {
        let settle = self.settle(scope, by);
        let owner = self.owner_of(scope, &carried.checked).await?;
        let order = Order { scope, checked: &carried.checked, owner };
        let mark = self.take_place(&settle, &order).await?;
        let file = carried.file.try_clone().map_err(|e| {
            Error::new(Code::Internal, "the file of a move cannot be read again").caused_by(e)
        })?;
        let rows = self.laid(&settle, &order, &mark, file).await?;
        let Last { core, first, schedules, number } = order.last()?;
        let arrival = Arrival { core, first, schedules, forgets: carried.forgets.clone() };
        let until = || self.clock.unix_ms() + IMPORT_LEASE_MS;
        let held = self.unraced(|| settle.hold(&arrival, rows, number, until())).await?;
        match (held.held, held.serves) {
            (true, _) => Ok(()),
            (false, false) => Err(Error::new(
                Code::Conflict,
                "other vectors serve there since the move began: move it again",
            )),
            (false, true) => Err(superseded()),
        }
    }

    /// Takes back what was written of an agent that stays where it is.
    pub async fn take_out(&self, scope: &Scope, by: &str) -> Result<()> {
        let settle = self.settle(scope, by);
        let until = self.clock.unix_ms() + IMPORT_LEASE_MS;
        let begun = self.unraced(|| settle.begin("", self.clock.unix_ms(), until)).await?;
        match begun.taken {
            true => self.unraced(|| self.take_back(&settle)).await,
            false => Ok(()),
        }
    }

    /// Lets the agent be, whoever wrote it; gives its revision, or none if it is there already.
    pub async fn arrive(&self, scope: &Scope, by: &str) -> Result<Option<String>> {
        let settle = self.settle(scope, by);
        let until = self.clock.unix_ms() + IMPORT_LEASE_MS;
        let begun = self.unraced(|| settle.begin("", self.clock.unix_ms(), until)).await?;
        if begun.there {
            return Ok(None);
        }
        let arrived = self.unraced(|| settle.arrive()).await?;
        self.archive.nudge();
        match (arrived.rev, arrived.there) {
            (Some(rev), _) => Ok(Some(rev)),
            (None, true) => Ok(None),
            (None, false) => {
                // Nothing stood there: neither does the mark that was just made.
                self.unraced(|| self.take_back(&settle)).await?;
                Err(superseded())
            }
        }
    }
}

fn let_go() -> Error {
    let text = "the database let go of what was read each time: try again in a moment";
    Error::new(Code::StoreUnavailable, text)
}

/// Another mover has it.
fn superseded() -> Error {
    Error::new(Code::MoveBusy, "another server goes on with this move: ask where the agent is")
}
