//! The state that all requests of one listener share.

use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "conformance")]
use tokio::runtime::Handle;

use crate::Engine;

use super::auth::Auth;
#[cfg(feature = "conformance")]
use super::conformance;
use super::cursors::Cursors;
use super::faults::Faults;
use super::limits::ANSWER_STALL;
use super::own_threads::OwnThreads;
use super::pool::Pool;
use super::read_only::ReadStreams;
use super::server::Mode;

/// The state of one listener, such as its engine, users, cursors and threads.
pub(super) struct Front {
    pub(super) engine: Arc<Engine>,
    pub(super) auth: Auth,
    pub(super) mode: Mode,
    pub(super) cursors: Cursors,
    #[cfg(feature = "conformance")]
    pub(super) conformance: conformance::State,
    pub(super) started: Instant,
    pub(super) pool: Pool,
    pub(super) own_threads: OwnThreads,
    pub(super) read_streams: ReadStreams,
    pub(super) faults: Faults,
    /// Time after which a connection is closed if the client reads nothing of its answer.
    pub(super) answer_stall: Duration,
}

impl Front {
    /// Whether all writes are refused: the listener is read-only, or an earlier write to the store
    /// failed.
    pub(super) fn is_read_only(&self) -> bool {
        self.mode == Mode::ReadOnly || !self.engine.takes_writes()
    }

    /// Returns the initial state of a listener; must run in the listener's event loop.
    pub(super) fn new(engine: Arc<Engine>, auth: Auth, mode: Mode) -> Self {
        let faults = Faults::new(engine.options().faults);
        Self {
            faults,
            engine,
            auth,
            mode,
            cursors: Cursors::new(),
            #[cfg(feature = "conformance")]
            conformance: conformance::State::new(Handle::current()),
            started: Instant::now(),
            pool: Pool::new(),
            own_threads: OwnThreads::new(),
            read_streams: ReadStreams::default(),
            answer_stall: ANSWER_STALL,
        }
    }
}
