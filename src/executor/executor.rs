//! What all calls share: the sockets, the counters, the caches; how a core is loaded, and what a step may lean on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::archive_index::{ARCHIVE_SETTINGS, ArchiveIndex, ArchiveSettings};
use super::cache::Cores;
use super::measures::Measures;
use super::refusals::Refusals;
use super::reindex::ReindexNotes;
use super::request::CallRequest;
use super::turns::Turns;
use crate::clock::{self, Clock};
use crate::error::{Code, Error, Result};
use crate::ids::Ids;
use crate::limits::{ATTEMPTS_MAX, BACKOFF_MS, CALL_MS_MAX, SESSION_IDLE_MS};
use crate::memory::core::Core;
use crate::memory::heartbeat::HeartbeatLimits;
use crate::memory::{Encoding, TokenCounter};
use crate::models::{Embedders, Gateway, Tiktoken};
use crate::policy::{RecallSettings, Retention, Scope, Surroundings};
use crate::store::{Admin, Fault, Replay, Ro, Rw, WriteMode, load};
use crate::tools::Call;

/// Everything a call needs; shared by all connections.
pub struct Executor {
    pub(super) ro: Ro,
    pub(super) rw: Rw,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) counters: Counters,
    /// What new agents may.
    pub(super) heartbeat: HeartbeatLimits,
    pub(super) model: Option<Gateway>,
    pub(super) embedders: Embedders,
    pub(super) mode: WriteMode,
    pub(super) cores: Cores,
    pub(super) turns: Turns,
    pub(super) archive: Arc<ArchiveIndex>,
    pub(super) recall: RecallSettings,
    pub(super) refusals: Refusals,
    /// This server among others on one database.
    pub(super) instance: String,
    pub(super) measures: Measures,
    pub(super) reindex: ReindexNotes,
    /// Quiet time that ends a session, in milliseconds.
    pub(super) session_idle_ms: u64,
    /// How long what left the window stays.
    pub(super) retention: Retention,
}

/// One counter for each encoding.
pub(super) struct Counters {
    o200k: Arc<dyn TokenCounter>,
    cl100k: Arc<dyn TokenCounter>,
}

impl Counters {
    /// The counter of an encoding.
    pub(super) fn of(&self, encoding: Encoding) -> &Arc<dyn TokenCounter> {
        match encoding {
            Encoding::O200kBase => &self.o200k,
            Encoding::Cl100kBase => &self.cl100k,
        }
    }
}

impl Executor {
    /// Puts the parts together.
    pub fn new(
        ro: Ro,
        rw: Rw,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        model: Option<Gateway>,
        mode: WriteMode,
    ) -> Self {
        let counter = |encoding| Arc::new(Tiktoken::new(encoding)) as Arc<dyn TokenCounter>;
        let counters =
            Counters { o200k: counter(Encoding::O200kBase), cl100k: counter(Encoding::Cl100kBase) };
        let instance = ids.key();
        Self {
            ro,
            rw,
            clock,
            ids,
            counters,
            heartbeat: HeartbeatLimits::default(),
            model,
            embedders: Embedders::default(),
            mode,
            cores: Cores::default(),
            turns: Turns::default(),
            archive: ArchiveIndex::new(None, ARCHIVE_SETTINGS),
            recall: RecallSettings::default(),
            refusals: Refusals::default(),
            instance,
            measures: Measures::default(),
            reindex: ReindexNotes::default(),
            session_idle_ms: SESSION_IDLE_MS,
            retention: Retention::default(),
        }
    }

    /// The same, with a user that may make the vector index, and with other bounds for it.
    #[must_use]
    pub fn with_archive(self, admin: Admin, settings: ArchiveSettings) -> Self {
        Self { archive: ArchiveIndex::new(Some(admin), settings), ..self }
    }

    /// The same, with other bounds of searches of recall storage.
    #[must_use]
    pub fn with_recall(self, recall: RecallSettings) -> Self {
        Self { recall, ..self }
    }

    /// The same, with an embedder beside the lexical one.
    #[must_use]
    pub fn with_embedders(self, embedders: Embedders) -> Self {
        Self { embedders, ..self }
    }

    /// The same, with sessions that end after another quiet time.
    #[must_use]
    pub fn with_sessions(mut self, idle_ms: u64) -> Self {
        self.session_idle_ms = idle_ms;
        self
    }

    /// The same, with limits of heartbeats for the agents it will make.
    #[must_use]
    pub fn with_heartbeat(self, heartbeat: HeartbeatLimits) -> Self {
        Self { heartbeat, ..self }
    }

    /// Loads the rank table of an encoding, so that the first call does not wait for it.
    pub fn warm(&self, encoding: Encoding) {
        self.counters.of(encoding).count("warm");
    }

    /// Loads a core, repeating while the database is silent, until the deadline.
    pub(super) async fn fresh(
        &self,
        scope: &Scope,
        replay_key: &str,
        deadline: Instant,
    ) -> Result<(Arc<Core>, Option<Replay>)> {
        let mut faults = 0;
        loop {
            match load(&self.ro, scope, replay_key).await {
                Ok(loaded) => {
                    let Some(core) = loaded.core else { return Err(no_agent()) };
                    return Ok((Arc::new(core), loaded.replay));
                }
                Err(fault) => {
                    self.pause(fault, &mut faults, deadline).await?;
                }
            }
        }
    }

    /// Waits before a repetition (exponential, jittered, capped), or gives the fault back when it will not pass in time.
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

    /// What a step may lean on; a change of encoding counts in the new one.
    pub(super) fn surroundings<'a>(
        &'a self,
        scope: &'a Scope,
        request: &'a CallRequest,
        core: &Core,
        key_hash: &'a str,
        asked: &'a str,
    ) -> Surroundings<'a> {
        let encoding = match &request.call {
            Call::PatchAgent(patch) => patch.encoding().unwrap_or(core.encoding),
            _ => core.encoding,
        };
        Surroundings {
            counter: &**self.counters.of(encoding),
            unix_ms: self.clock.unix_ms(),
            ids: &*self.ids,
            scope,
            actor: &request.principal.actor,
            tool: request.call.name(),
            embedder: self.embedders.fingerprint(),
            next_embedder: self.embedders.next(),
            key_hash,
            asked,
            capture: request.capture.as_ref(),
        }
    }
}

/// The end of a call that begins now and asks no model.
pub(super) fn patience() -> Instant {
    clock::now() + Duration::from_millis(CALL_MS_MAX)
}

pub(super) fn no_agent() -> Error {
    Error::new(Code::AgentNotFound, "no such agent: create it with PUT /v1/agents/{agent}")
}
