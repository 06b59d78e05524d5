//! What all requests of one listener share.

use std::sync::Arc;

use crate::Engine;

use super::auth::Auth;
use super::cursors::Cursors;
use super::jobs::Jobs;
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
    pub(super) plans: PlanCache,
    pub(super) read_streams: ReadStreams,
}

impl Front {
    /// A front without cursors yet.
    pub(super) fn new(engine: Arc<Engine>, auth: Auth, mode: Mode) -> Self {
        Self {
            engine,
            auth,
            mode,
            cursors: Cursors::new(),
            jobs: Jobs::default(),
            running: Running::default(),
            settings: Settings::default(),
            pool: Pool::new(),
            plans: PlanCache::default(),
            read_streams: ReadStreams::default(),
        }
    }
}
