//! Orders the writes to an agent: this server runs them one at a time, in order of arrival.
//!
//! Writes are correct even without this order, since each write checks the core's revision.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use vctx_core::error::{Code, Error, Result};

/// Maximum number of calls on this server that wait to write to one agent.
const WAITERS_PER_AGENT_MAX: usize = 256;

/// One queue of waiting calls for each agent.
#[derive(Default)]
pub(super) struct Turns {
    agents: Mutex<HashMap<String, Arc<Line>>>,
}

struct Line {
    /// Permit of the running call; tokio's semaphore grants permits in order of request.
    turn: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

/// A call's turn to write to an agent. When it is dropped, the next waiting call starts.
pub(super) struct Turn {
    _turn: OwnedSemaphorePermit,
    _room: OwnedSemaphorePermit,
}

impl Turns {
    /// Waits until this call may write to the agent, or fails immediately if too many calls are
    /// already waiting.
    pub(super) async fn take(&self, key: &str) -> Result<Turn> {
        let line = self.line(key);
        let crowded = || {
            Error::new(Code::Overloaded, format!("more than {WAITERS_PER_AGENT_MAX} calls wait for this agent: retry later with the same key"))
                .with("retry_after_ms", 100)
        };
        let room = Arc::clone(&line.room).try_acquire_owned().map_err(|_| crowded())?;
        let turn = Arc::clone(&line.turn).acquire_owned().await.map_err(|_| crowded())?;
        Ok(Turn { _turn: turn, _room: room })
    }

    fn line(&self, key: &str) -> Arc<Line> {
        let mut agents = self.agents.lock().expect("no holder panics");
        if agents.len() > WAITERS_PER_AGENT_MAX {
            agents.retain(|_, line| {
                Arc::strong_count(line) > 1 || line.room.available_permits() < WAITERS_PER_AGENT_MAX
            });
        }
        let fresh = || {
            let (turn, room) = (Semaphore::new(1), Semaphore::new(WAITERS_PER_AGENT_MAX));
            Arc::new(Line { turn: Arc::new(turn), room: Arc::new(room) })
        };
        Arc::clone(agents.entry(key.to_owned()).or_insert_with(fresh))
    }
}
