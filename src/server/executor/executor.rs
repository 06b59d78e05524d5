//! What all calls share: the sockets, the counters, the caches; how a core is loaded, and what a step may lean on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Semaphore};

use super::archive_index::{ARCHIVE_SETTINGS, ArchiveIndex, ArchiveSettings};
use super::cache::Cores;
use super::measures::Measures;
use super::refusals::Refusals;
use super::reindex::ReindexNotes;
use super::request::CallRequest;
use super::turns::Turns;
use crate::models::{Embedders, Gateway};
use crate::store::{Admin, Fault, Leftovers, Replay, Ro, Rw, WriteMode, load};
use vctx_base::clock::{self, Clock};
use vctx_base::ids::Ids;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    ATTEMPTS_MAX, BACKOFF_MS, CALL_MS_MAX, EXPORTS_AT_ONCE, HOME_PLACE, SESSION_IDLE_MS,
};
use vctx_core::memory::core::Core;
use vctx_core::memory::heartbeat::HeartbeatLimits;
use vctx_core::memory::{Encoding, TokenCounter};
use vctx_core::policy::{RecallSettings, Retention, Scope, Surroundings, TaintMode};
use vctx_core::text::Tiktoken;
use vctx_core::tools::Call;

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
    /// Transactions that somebody may have left behind.
    pub(super) leftovers: Mutex<Leftovers>,
    /// This server among others on one database.
    pub(super) instance: String,
    pub(super) measures: Measures,
    pub(super) reindex: ReindexNotes,
    /// Quiet time that ends a session, in milliseconds.
    pub(super) session_idle_ms: u64,
    /// How long what left the window stays.
    pub(super) retention: Retention,
    /// What is done about tainted text.
    pub(super) taint: TaintMode,
    /// Places of exports and imports.
    pub(super) exports: Arc<Semaphore>,
    /// Where their files lie, which have no names; none: where the system wants them.
    pub(super) spool: Option<PathBuf>,
    /// Name of the place that its database is.
    pub(super) place: String,
    /// Who knows where agents are; nobody where there is one place alone.
    pub(super) directory: Directory,
}

/// Who knows where agents are.
#[derive(Clone, Default)]
pub(super) enum Directory {
    /// There is one place alone.
    #[default]
    None,
    /// Its own database.
    Own,
    /// That of the home place.
    Of(Arc<Executor>),
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
            leftovers: Mutex::default(),
            instance,
            measures: Measures::default(),
            reindex: ReindexNotes::default(),
            session_idle_ms: SESSION_IDLE_MS,
            retention: Retention::default(),
            taint: TaintMode::default(),
            exports: Arc::new(Semaphore::new(EXPORTS_AT_ONCE)),
            spool: None,
            place: HOME_PLACE.to_owned(),
            directory: Directory::None,
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

    /// The same, with another way of dealing with tainted text.
    #[must_use]
    pub fn with_taint(mut self, taint: TaintMode) -> Self {
        self.taint = taint;
        self
    }

    /// The same, with a directory for the files of exports and imports.
    #[must_use]
    pub fn with_spool(self, directory: PathBuf) -> Self {
        Self { spool: Some(directory), ..self }
    }

    /// The same, as the place of that name; with several places the directory lies in `home`, or here where none is given.
    #[must_use]
    pub fn at_place(self, place: &str, home: Option<Arc<Self>>, several: bool) -> Self {
        let directory = match home {
            Some(home) => Directory::Of(home),
            None if several => Directory::Own,
            None => Directory::None,
        };
        Self { place: place.to_owned(), directory, ..self }
    }

    /// Name of the place that its database is.
    pub fn place(&self) -> &str {
        &self.place
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
            wording: request.wording.as_deref(),
            asked,
            capture: request.capture.as_ref(),
            taint: self.taint,
        }
    }
}

/// The end of a call that begins now and asks no model.
pub(super) fn patience() -> Instant {
    clock::now() + Duration::from_millis(CALL_MS_MAX)
}

/// The refusal of a write to an agent that is leaving.
pub(super) fn leaving() -> Error {
    let text = "the agent is being moved to another place: retry with the same key";
    Error::new(Code::AgentMoving, text).with("retry_after_ms", 100)
}

pub(super) fn no_agent() -> Error {
    Error::new(Code::AgentNotFound, "no such agent: create it with PUT /v1/agents/{agent}")
}
