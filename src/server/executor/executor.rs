//! The executor, which runs all calls, with the sockets, counters and caches that they share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::archive_index::{ARCHIVE_SETTINGS, ArchiveIndex, ArchiveSettings};
use super::cache::Cores;
use super::export::{Exports, Transfers};
use super::kernel::{Counters, Kernel};
use super::measures::Measures;
use super::moving::Directory;
use super::quota::AgentQuota;
use super::refine::{Refines, SummaryHealth};
use super::refusals::Refusals;
use super::reindex::{Reindex, ReindexNotes};
use super::request::CallRequest;
use super::score::Scores;
use super::turns::Turns;
use crate::checkpoints::Checkpoints;
use crate::models::{Embedders, Gateway};
use crate::store::{Admin, Ro, Rw, WriteMode};
use vctx_base::clock::Clock;
use vctx_base::ids::Ids;
use vctx_core::ledger::Secret;
use vctx_core::limits::BLOCKS_BYTES_MAX;
use vctx_core::memory::Encoding;
use vctx_core::memory::core::Core;
use vctx_core::memory::engineer::ContextSettings;
use vctx_core::memory::heartbeat::HeartbeatLimits;
use vctx_core::policy::{Retention, Stages, SummarySettings, Surroundings};
use vctx_core::search::RecallSettings;
use vctx_core::tools::{Call, Tool};
use vctx_core::trust::{Scope, TaintMode};

/// The parts of the server that a call needs; all connections share them.
pub struct Executor {
    pub(super) kernel: Kernel,
    /// Heartbeat limits of new agents.
    pub(super) heartbeat: HeartbeatLimits,
    pub(super) archive: Arc<ArchiveIndex>,
    pub(super) recall: RecallSettings,
    pub(super) refusals: Refusals,
    pub(super) measures: Measures,
    pub(super) reindex: ReindexNotes,
    /// Retention policy for evicted and replaced texts.
    pub(super) retention: Retention,
    /// Policy for tainted text.
    pub(super) taint: TaintMode,
    /// How many messages one summary takes in.
    pub(super) summary: SummarySettings,
    /// How contexts are built.
    pub(super) context: ContextSettings,
    pub(super) exports: Exports,
    pub(super) directory: Directory,
    /// Maximum number of agents of a tenant.
    pub(super) quota: AgentQuota,
    /// Evictions whose summaries a model may write again.
    pub(super) refines: Refines,
    /// Whether the summary model works.
    pub(super) summary_health: SummaryHealth,
}

impl Executor {
    /// Makes an executor with default settings.
    pub fn new(
        ro: Ro,
        rw: Rw,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        model: Option<Gateway>,
        mode: WriteMode,
    ) -> Self {
        let kernel = Kernel {
            ro,
            rw,
            mode,
            clock,
            instance: ids.key(),
            ids,
            counters: Counters::default(),
            model,
            roles: Arc::default(),
            embedders: Embedders::default(),
            models: Vec::new(),
            tokens_per_day: 0,
            cores: Cores::default(),
            names: Arc::default(),
            turns: Turns::default(),
            blocks_bytes_max: BLOCKS_BYTES_MAX,
            checkpoints: None,
            search: Mutex::default(),
        };
        Self {
            kernel,
            heartbeat: HeartbeatLimits::default(),
            archive: ArchiveIndex::new(None, ARCHIVE_SETTINGS),
            recall: RecallSettings::default(),
            refusals: Refusals::default(),
            measures: Measures::default(),
            reindex: ReindexNotes::default(),
            retention: Retention::default(),
            taint: TaintMode::default(),
            summary: SummarySettings::default(),
            context: ContextSettings::default(),
            exports: Exports::default(),
            directory: Directory::default(),
            quota: AgentQuota::default(),
            refines: Refines::default(),
            summary_health: SummaryHealth::default(),
        }
    }

    /// Sets the checkpoints that sign the heads of ledgers, and the secret of the database's
    /// servers. Until this server has looked once at all agents that its checkpoints name, entries
    /// of earlier program versions are signed without the secret. The executor must have the name
    /// of its database already.
    #[must_use]
    pub fn with_checkpoints(mut self, checkpoints: Arc<Checkpoints>, secret: Arc<Secret>) -> Self {
        let is_unsearched = checkpoints.is_unsearched(self.database_name(), &secret);
        self.kernel.rw.heads.set_lenient(is_unsearched);
        self.kernel.rw.heads.set_trust(secret, Arc::<Checkpoints>::clone(&checkpoints));
        self.kernel.checkpoints = Some(checkpoints);
        self
    }

    /// Sets the connection that may create the vector index, and the archive's settings.
    #[must_use]
    pub fn with_archive(self, admin: Admin, settings: ArchiveSettings) -> Self {
        Self { archive: ArchiveIndex::new(Some(admin), settings), ..self }
    }

    /// Sets the limits of searches in recall storage.
    #[must_use]
    pub fn with_recall(self, recall: RecallSettings) -> Self {
        Self { recall, ..self }
    }

    /// Sets the embedders, for example a model in addition to the lexical embedder.
    #[must_use]
    pub fn with_embedders(mut self, embedders: Embedders) -> Self {
        self.kernel.embedders = embedders;
        self
    }

    /// Sets the time without calls after which a session ends.
    #[must_use]
    pub fn with_sessions(mut self, idle_ms: u64) -> Self {
        self.measures.idle_ms = idle_ms;
        self
    }

    /// Sets the policy for tainted text.
    #[must_use]
    pub fn with_taint(mut self, taint: TaintMode) -> Self {
        self.taint = taint;
        self
    }

    /// Sets how contexts are built.
    #[must_use]
    pub fn with_context(mut self, context: ContextSettings) -> Self {
        self.context = context;
        self
    }

    /// Sets the number of messages that one summary takes in.
    #[must_use]
    pub fn with_summary(mut self, summary: SummarySettings) -> Self {
        self.summary = summary;
        self
    }

    /// Sets the directory of the temporary files for exports and imports.
    #[must_use]
    pub fn with_spool(mut self, directory: PathBuf) -> Self {
        self.exports.spool = Some(directory);
        self
    }

    /// Sets the name of the executor's database, and whether there are several. `home` is the
    /// executor of the home database, which has the directory of all agents and names. Without
    /// `home`, the executor's own database has the directory.
    #[must_use]
    pub fn at_place(mut self, place: &str, home: Option<Arc<Self>>, several: bool) -> Self {
        if let Some(home) = &home {
            self.kernel.names = Arc::clone(&home.kernel.names);
        }
        Self { directory: Directory { place: place.to_owned(), several, home }, ..self }
    }

    /// Returns the kernel of the home database, which has the directory.
    pub(super) fn home_kernel(&self) -> &Kernel {
        self.directory.home(&self.kernel)
    }

    /// Returns the name of the database that the executor serves.
    pub fn database_name(&self) -> &str {
        &self.directory.place
    }

    /// Sets the heartbeat limits of new agents.
    #[must_use]
    pub fn with_heartbeat(self, heartbeat: HeartbeatLimits) -> Self {
        Self { heartbeat, ..self }
    }

    /// Returns the handler for reindexing.
    pub fn reindex(&self) -> Reindex<'_> {
        Reindex { kernel: &self.kernel, archive: &self.archive, notes: &self.reindex }
    }

    /// Returns the handler for agents' scores and this server's measurements.
    pub fn scores(&self) -> Scores<'_> {
        Scores {
            kernel: &self.kernel,
            archive: &self.archive,
            measures: &self.measures,
            retention: self.retention,
        }
    }

    /// Returns the handler for exports, imports and moves of agents.
    pub fn transfers(&self) -> Transfers<'_> {
        Transfers {
            kernel: &self.kernel,
            archive: &self.archive,
            exports: &self.exports,
            directory: &self.directory,
        }
    }

    /// Loads the rank table of an encoding, so that the first call need not wait for it.
    pub fn warm(&self, encoding: Encoding) {
        self.kernel.counters.of(encoding).count("warm");
    }

    /// Returns what a step of the call may use, such as the token counter, the time, new ids, the
    /// agent and the caller. For a call that changes the encoding, the counter already uses the new
    /// encoding.
    pub(super) fn surroundings<'a>(
        &'a self,
        scope: &'a Scope,
        request: &'a CallRequest,
        core: &Core,
        key_hash: &'a str,
        asked: &'a str,
        stages: &'a dyn Stages,
    ) -> Surroundings<'a> {
        let encoding = match &request.call {
            Call::PatchAgent(patch) => patch.encoding().unwrap_or(core.encoding),
            _ => core.encoding,
        };
        Surroundings {
            counter: &**self.kernel.counters.of(encoding),
            unix_ms: self.kernel.clock.unix_ms(),
            ids: &*self.kernel.ids,
            scope,
            actor: &request.principal.actor,
            tool: request.call.name(),
            embedder: self.kernel.embedders.fingerprint(),
            next_embedder: self.kernel.embedders.next(),
            key_hash,
            wording: request.wording.as_deref(),
            told: Tool::by_name(request.call.name()).ok().map(|tool| tool.card().told),
            asked,
            capture: request.capture.as_ref(),
            taint: self.taint,
            summary: self.summary,
            context: self.context,
            stages,
            blocks_bytes_max: self.kernel.blocks_bytes_max,
            tokens_per_day: self.kernel.tokens_per_day,
            roles: self.kernel.roles_of(core),
        }
    }
}
