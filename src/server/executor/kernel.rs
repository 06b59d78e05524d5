//! The kernel: the state that all calls and features of a server share, such as sockets, clock,
//! ids, counters, models and cached cores.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::cache::Cores;
use super::limits::ATTEMPTS_MAX;
use super::names::KnownNames;
use super::signing::Search;
use super::turns::Turns;
use crate::checkpoints::Checkpoints;
use crate::models::{Embedders, Gateway, ModelServer, RoleModels};
use crate::store::{self, Fault, Replay, Ro, Rw, WriteMode, load};
use vctx_base::clock::{self, Clock};
use vctx_base::ids::Ids;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::CALL_MS_MAX;
use vctx_core::memory::core::Core;
use vctx_core::memory::{Encoding, TokenCounter};
use vctx_core::text::Tiktoken;
use vctx_core::trust::Scope;

/// First and longest pause before a database request is repeated, in milliseconds.
const BACKOFF_MS: (u64, u64) = (5, 1_000);
/// Maximum number of attempts of a small write that conflicts with other writes.
const WRITE_RACES_MAX: u32 = 32;

/// State shared by all features of the executor.
pub(super) struct Kernel {
    pub(super) ro: Ro,
    pub(super) rw: Rw,
    pub(super) mode: WriteMode,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    /// Id that distinguishes this server from the other servers of the database.
    pub(super) instance: String,
    pub(super) counters: Counters,
    pub(super) model: Option<Gateway>,
    /// The models that take over steps of context builds.
    pub(super) roles: Arc<RoleModels>,
    pub(super) embedders: Embedders,
    /// The model servers that the configuration names.
    pub(super) models: Vec<ModelServer>,
    /// Maximum number of tokens of an agent's prompts and answers per day; 0 means no limit.
    pub(super) tokens_per_day: u64,
    pub(super) cores: Cores,
    /// The names of agents with another key; all databases of a server share them.
    pub(super) names: Arc<KnownNames>,
    pub(super) turns: Turns,
    /// Maximum length of the texts of all blocks of an agent together, in bytes.
    pub(super) blocks_bytes_max: u64,
    /// Checkpoints of the ledgers; `None` if this server signs none.
    pub(super) checkpoints: Option<Arc<Checkpoints>>,
    /// How far this server has looked for unsigned entries since it started.
    pub(super) search: Mutex<Search>,
}

/// A token counter for each encoding.
pub(super) struct Counters {
    o200k: Arc<dyn TokenCounter>,
    cl100k: Arc<dyn TokenCounter>,
}

impl Default for Counters {
    fn default() -> Self {
        let counter = |encoding| Arc::new(Tiktoken::new(encoding)) as Arc<dyn TokenCounter>;
        Self { o200k: counter(Encoding::O200kBase), cl100k: counter(Encoding::Cl100kBase) }
    }
}

impl Counters {
    /// Returns the token counter for an encoding.
    pub(super) fn of(&self, encoding: Encoding) -> &Arc<dyn TokenCounter> {
        match encoding {
            Encoding::O200kBase => &self.o200k,
            Encoding::Cl100kBase => &self.cl100k,
        }
    }
}

impl Kernel {
    /// Loads a core as it is in the database, to look at it; see [`Self::checked`] for a core that
    /// goes to a model or into a write. Repeats the request while the database does not answer,
    /// until the deadline.
    pub(super) async fn fresh(
        &self,
        scope: &Scope,
        replay_keys: &[&str],
        deadline: Instant,
    ) -> Result<(Arc<Core>, Option<Replay>)> {
        let mut faults = 0;
        loop {
            match load(&self.ro, scope, replay_keys).await {
                Ok(loaded) => {
                    let Some(core) = loaded.core else { return Err(no_agent()) };
                    return Ok((Arc::new(core), loaded.replay));
                }
                Err(fault) => self.pause(fault, &mut faults, deadline).await?,
            }
        }
    }

    /// Waits before a request is repeated; the pauses are random, grow exponentially and have a
    /// limit. Returns the fault if the deadline leaves no time for another request.
    pub(super) async fn pause(
        &self,
        fault: Fault,
        faults: &mut u32,
        deadline: Instant,
    ) -> Result<()> {
        *faults += 1;
        let (first, longest) = BACKOFF_MS;
        let ceiling = (first << (*faults).min(16)).min(longest);
        let wait = Duration::from_millis(ceiling / 2 + self.ids.below(ceiling / 2 + 1));
        if !fault.passing() || *faults > ATTEMPTS_MAX || clock::now() + wait > deadline {
            return Err(fault.into());
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Sends a request to the database. Repeats the request while the database does not answer, but
    /// no longer than one call may take.
    pub(super) async fn patiently<T, F: Future<Output = store::Result<T>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T> {
        let mut faults = 0;
        let deadline = patience();
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(fault) => self.pause(fault, &mut faults, deadline).await?,
            }
        }
    }

    /// Sends a query to the read socket, and repeats it while the database does not answer.
    pub(super) async fn read<'k, T, F: Future<Output = store::Result<T>>>(
        &'k self,
        ask: impl Fn(&'k Ro) -> F,
    ) -> Result<T> {
        self.patiently(|| ask(&self.ro)).await
    }

    /// Sends a small write to the write socket, and repeats it while it conflicts with other
    /// writes.
    pub(super) async fn write<'k, T, F: Future<Output = store::Result<T>>>(
        &'k self,
        write: impl Fn(&'k Rw) -> F,
    ) -> Result<T> {
        self.unraced(|| write(&self.rw)).await
    }

    /// Runs a write to a document that other writers may change at the same time. After a conflict,
    /// repeats the write after a short pause; also repeats it while the database does not answer.
    pub(super) async fn contended<T, F: Future<Output = store::Result<T>>>(
        &self,
        write: impl Fn() -> F,
    ) -> Result<T> {
        let (mut faults, deadline) = (0, patience());
        loop {
            match write().await {
                Ok(written) => return Ok(written),
                Err(fault) if fault.raced() && faults < ATTEMPTS_MAX => {
                    faults += 1;
                    tokio::time::sleep(Duration::from_millis(1 + self.ids.below(8))).await;
                }
                Err(fault) => self.pause(fault, &mut faults, deadline).await?,
            }
        }
    }

    /// Repeats a small write while it conflicts with other writes.
    pub(super) async fn unraced<T, F: Future<Output = store::Result<T>>>(
        &self,
        write: impl Fn() -> F,
    ) -> Result<T> {
        for _ in 0..WRITE_RACES_MAX {
            let written = self
                .patiently(|| async {
                    match write().await {
                        Err(fault) if fault.raced() => Ok(None),
                        other => other.map(Some),
                    }
                })
                .await?;
            if let Some(written) = written {
                return Ok(written);
            }
            tokio::time::sleep(Duration::from_millis(1 + self.ids.below(16))).await;
        }
        Err(Error::new(
            Code::Conflict,
            "at each attempt, another write changed the memory first: try again",
        )
        .with("retry_after_ms", 50))
    }
}

/// Returns the deadline of a call that begins now and needs no model.
pub(super) fn patience() -> Instant {
    clock::now() + Duration::from_millis(CALL_MS_MAX)
}

/// Returns the error for a write to an agent that is being moved.
pub(super) fn leaving() -> Error {
    let text = "the agent is being moved to another database: retry with the same key";
    Error::new(Code::AgentMoving, text).with("retry_after_ms", 100)
}

pub(crate) fn no_agent() -> Error {
    Error::new(Code::AgentNotFound, "no such agent: create it with PUT /v1/agents/{agent}")
}
