//! What all requests of one listener share.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::Engine;

use super::auth::Auth;
use super::cursors::Cursors;
use super::faults::Faults;
use super::jobs::Jobs;
use super::limits::ANSWER_STALL;
use super::own_threads::OwnThreads;
use super::plan_cache::PlanCache;
use super::pool::Pool;
use super::read_only::ReadStreams;
use super::running::Running;
use super::server::Mode;
use super::server_calls::Settings;

/// Engine, users, cursors and threads behind one listener.
pub(super) struct Front {
    pub(super) engine: Arc<Engine>,
    pub(super) auth: Auth,
    pub(super) mode: Mode,
    pub(super) cursors: Cursors,
    pub(super) jobs: Jobs,
    pub(super) running: Running,
    pub(super) settings: Settings,
    pub(super) pool: Pool,
    pub(super) own_threads: OwnThreads,
    /// The listener's event loop, for what outlives a connection.
    pub(super) events: Handle,
    pub(super) plans: PlanCache,
    pub(super) read_streams: ReadStreams,
    pub(super) faults: Faults,
    /// Longest time in which a client takes nothing of an answer that waits for it.
    pub(super) answer_stall: Duration,
}

impl Front {
    /// Whether every write is refused: by the mode of the listener, or because one has failed.
    pub(super) fn is_read_only(&self) -> bool {
        self.mode == Mode::ReadOnly || !self.engine.takes_writes()
    }

    /// A front without cursors yet, on the event loop that it is made on.
    pub(super) fn new(engine: Arc<Engine>, auth: Auth, mode: Mode) -> Self {
        let faults = Faults::new(engine.options().faults);
        Self {
            faults,
            engine,
            auth,
            mode,
            cursors: Cursors::new(),
            jobs: Jobs::default(),
            running: Running::default(),
            settings: Settings::default(),
            pool: Pool::new(),
            own_threads: OwnThreads::new(),
            events: Handle::current(),
            plans: PlanCache::default(),
            read_streams: ReadStreams::default(),
            answer_stall: ANSWER_STALL,
        }
    }
}
