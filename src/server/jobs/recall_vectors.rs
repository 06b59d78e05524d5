//! Makes vectors for entries of recall storage and for messages of queues in the background, and
//! removes vectors of removed entries.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, watch};

use super::runner::Job;
use crate::executor::{Embedded, Executor};
use vctx_base::clock;
use vctx_core::error::Result;
use vctx_core::trust::Actor;

/// Pause between two searches for entries without vectors, in milliseconds.
const RECALL_EMBED_PAUSE_MS: u64 = 500;
/// Time after which a round of the job starts work on no further entry, in milliseconds; well below
/// `JOB_MS_MAX`.
const RECALL_EMBED_MS: u64 = 20_000;
/// Maximum number of agents that the job reads in one page.
const RECALL_AGENTS_LOOKED: u64 = 256;
/// Maximum number of agents for which the job remembers how far their vectors were made; a full map
/// is emptied.
const RECALL_VERSIONS_KEPT: usize = 65_536;
/// Maximum number of vectors that one round of the job checks for removed entries.
const RECALL_TRIM_ROWS: u64 = 256;
/// Pause between two checks of recall storage's vector index, in milliseconds.
const RECALL_INDEX_MS: u64 = 30_000;

/// The job that makes the vectors of recall storage. Every server runs it; only one server at a
/// time works on an agent. A vector is the same, whichever server computes it.
pub struct RecallVectors {
    executor: Arc<Executor>,
    /// The actor that the job's events name: this server.
    actor: Actor,
    cursor: Mutex<Cursor>,
}

/// Where the job's next round continues. The position is not stored: after a start, a server checks
/// every agent once.
#[derive(Default)]
struct Cursor {
    /// Key of the last agent checked in the current pass over all agents.
    after: String,
    /// For each agent, the version at which all its entries had vectors.
    embedded: HashMap<String, u64>,
    /// For each agent, the position up to which the queue's messages had vectors.
    queued: HashMap<String, u64>,
    /// Agent and position after which the check for removed entries continues.
    trim_after: String,
    trim_seq: u64,
    /// Time of the last check of recall storage's vector index.
    index_at: Option<Instant>,
}

impl RecallVectors {
    /// Makes the recall vectors job for this server.
    pub fn new(executor: Arc<Executor>, actor: Actor) -> Self {
        Self { executor, actor, cursor: Mutex::default() }
    }

    /// Makes vectors for one page of agents. Skips an agent that has not changed since all its
    /// entries had vectors. A failure ends this round; the next one begins with the next agent.
    async fn embed(&self, cursor: &mut Cursor, stopping: &watch::Receiver<bool>) -> Result<()> {
        let until = clock::now() + Duration::from_millis(RECALL_EMBED_MS);
        let agents = self.executor.agents_behind(&cursor.after, RECALL_AGENTS_LOOKED).await?;
        let last_page = (agents.len() as u64) < RECALL_AGENTS_LOOKED;
        for agent in agents {
            if *stopping.borrow() || clock::now() >= until {
                return Ok(());
            }
            // The position advances before the work, so that the next round skips this agent even
            // if the work fails.
            cursor.after.clone_from(&agent.key);
            if cursor.embedded.get(&agent.key) == Some(&agent.version) {
                continue;
            }
            let logged = self.executor.embed_recall(&agent, &self.actor, until).await?;
            let from = cursor.queued.get(&agent.key).copied().unwrap_or(0);
            let (next, queued) =
                self.executor.embed_queue(&agent, &self.actor, from, until).await?;
            if cursor.embedded.len().max(cursor.queued.len()) >= RECALL_VERSIONS_KEPT {
                cursor.embedded.clear();
                cursor.queued.clear();
            }
            cursor.queued.insert(agent.key.clone(), next);
            // Otherwise entries still lack vectors, or another server works on this agent.
            if logged == Embedded::All && queued == Embedded::All {
                cursor.embedded.insert(agent.key, agent.version);
            }
        }
        if last_page {
            cursor.after.clear();
        }
        Ok(())
    }

    /// For one agent, removes a few vectors that belong to removed entries.
    async fn trim(&self, cursor: &mut Cursor) -> Result<()> {
        let next = self.executor.agents_behind(&cursor.trim_after, 1).await?;
        let Some(agent) = next.into_iter().next() else {
            cursor.trim_after.clear();
            return Ok(());
        };
        let looked = self.executor.trim_recall_vectors(
            &agent,
            &self.actor,
            cursor.trim_seq,
            RECALL_TRIM_ROWS,
        );
        match looked.await? {
            Some(seq) => cursor.trim_seq = seq,
            None => {
                cursor.trim_seq = 0;
                cursor.trim_after = agent.key;
            }
        }
        Ok(())
    }

    async fn maintain_index(&self, cursor: &mut Cursor) -> Result<()> {
        let pause = Duration::from_millis(RECALL_INDEX_MS);
        if cursor.index_at.is_some_and(|at| at.elapsed() < pause) {
            return Ok(());
        }
        cursor.index_at = Some(clock::now());
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
        let mut cursor = self.cursor.lock().await;
        let mut stop = stopping.clone();
        let work = async {
            self.maintain_index(&mut cursor).await?;
            self.embed(&mut cursor, stopping).await?;
            self.trim(&mut cursor).await
        };
        tokio::select! {
            outcome = work => outcome,
            // An interruption is harmless: every write is atomic, and the next round finds the
            // entries that still lack vectors.
            _ = stop.wait_for(|stop| *stop) => Ok(()),
        }
    }
}
