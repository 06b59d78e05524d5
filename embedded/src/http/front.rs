//! What all requests of one listener share.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::Engine;

use super::auth::Auth;
use super::cursors::Cursors;
use super::own_threads::OwnThreads;
use super::pool::Pool;
use super::read_only::ReadStreams;
use super::server::Mode;

/// Engine, users, cursors and threads behind one listener.
pub(super) struct Front {
    pub(super) engine: Arc<Engine>,
    pub(super) auth: Auth,
    pub(super) mode: Mode,
    pub(super) cursors: Cursors,
    pub(super) pool: Pool,
    pub(super) own_threads: OwnThreads,
    /// The listener's event loop, for what outlives a connection.
    pub(super) events: Handle,
    pub(super) read_streams: ReadStreams,
}

impl Front {
    /// A front without cursors yet, on the event loop that it is made on.
    pub(super) fn new(engine: Arc<Engine>, auth: Auth, mode: Mode) -> Self {
        Self {
            engine,
            auth,
            mode,
            cursors: Cursors::new(),
            pool: Pool::new(),
            own_threads: OwnThreads::new(),
            events: Handle::current(),
            read_streams: ReadStreams::default(),
        }
    }
}
