//! Makes vectors for what was logged into recall storage, behind the back of appends and evictions; takes away those whose entries are gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, watch};

use super::runner::Job;
use crate::executor::{Embedded, Executor};
use vctx_base::clock;
use vctx_core::error::Result;
use vctx_core::limits::{
    RECALL_AGENTS_LOOKED, RECALL_EMBED_MS, RECALL_EMBED_PAUSE_MS, RECALL_INDEX_MS,
    RECALL_TRIM_ROWS, RECALL_VERSIONS_KEPT,
};
use vctx_core::policy::Actor;

/// The job. Every server runs it: of two, one makes the vectors of an agent at a time, and vectors that both made would be the same.
pub struct RecallVectors {
    executor: Arc<Executor>,
    /// The server itself.
    actor: Actor,
    place: Mutex<Place>,
}

/// Where the next run goes on. It is a guess that saves looks: a new server begins with nothing and looks at every agent once.
#[derive(Default)]
struct Place {
    /// Agents up to this key were looked at in this round.
    after: String,
    /// Versions of the agents at which everything was embedded.
    seen: HashMap<String, u64>,
    /// Agent and place at which the look for vectors without entries goes on.
    trim_after: String,
    trim_seq: u64,
    /// When the vector index was looked after last.
    index_at: Option<Instant>,
}

impl RecallVectors {
    /// A job of this server.
    pub fn new(executor: Arc<Executor>, actor: Actor) -> Self {
        Self { executor, actor, place: Mutex::default() }
    }

    /// One page of agents: what changed since it was last complete is looked at. A failure ends the run, and the next one begins with the next
    /// agent.
    async fn embed(&self, place: &mut Place, stopping: &watch::Receiver<bool>) -> Result<()> {
        let until = clock::now() + Duration::from_millis(RECALL_EMBED_MS);
        let agents = self.executor.agents_behind(&place.after, RECALL_AGENTS_LOOKED).await?;
        let last_page = (agents.len() as u64) < RECALL_AGENTS_LOOKED;
        for agent in agents {
            if *stopping.borrow() || clock::now() >= until {
                return Ok(());
            }
            // The others have their turn before this one goes on, however its own ends, and if it is cut off.
            place.after.clone_from(&agent.key);
            if place.seen.get(&agent.key) == Some(&agent.version) {
                continue;
            }
            match self.executor.embed_recall(&agent, &self.actor, until).await? {
                Embedded::All => {
                    if place.seen.len() >= RECALL_VERSIONS_KEPT {
                        place.seen.clear();
                    }
                    place.seen.insert(agent.key, agent.version);
                }
                // There is more, or another server makes them.
                Embedded::Some => {}
            }
        }
        if last_page {
            place.after.clear();
        }
        Ok(())
    }

    /// A few vectors of one agent: those whose entries are gone go.
    async fn trim(&self, place: &mut Place) -> Result<()> {
        let next = self.executor.agents_behind(&place.trim_after, 1).await?;
        let Some(agent) = next.into_iter().next() else {
            place.trim_after.clear();
            return Ok(());
        };
        let looked = self.executor.trim_recall_vectors(
            &agent,
            &self.actor,
            place.trim_seq,
            RECALL_TRIM_ROWS,
        );
        match looked.await? {
            Some(seq) => place.trim_seq = seq,
            None => {
                place.trim_seq = 0;
                place.trim_after = agent.key;
            }
        }
        Ok(())
    }

    async fn look_after_index(&self, place: &mut Place) -> Result<()> {
        let pause = Duration::from_millis(RECALL_INDEX_MS);
        if place.index_at.is_some_and(|at| at.elapsed() < pause) {
            return Ok(());
        }
        place.index_at = Some(clock::now());
        self.executor.look_after_recall_index().await
    }
}

impl Job for RecallVectors {
    const NAME: &'static str = "recall_vectors";
    const PAUSE: Duration = Duration::from_millis(RECALL_EMBED_PAUSE_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        if !self.executor.embeds_recall() {
            return Ok(());
        }
        let mut place = self.place.lock().await;
        let mut stop = stopping.clone();
        let work = async {
            self.look_after_index(&mut place).await?;
            self.embed(&mut place, stopping).await?;
            self.trim(&mut place).await
        };
        tokio::select! {
            outcome = work => outcome,
            // Each write is whole, and what is missing is found again.
            _ = stop.wait_for(|stop| *stop) => Ok(()),
        }
    }
}
