//! Threads of clients that send their whole history: where they are known, the answers they were given, and branches of an agent.

use super::executor::{Executor, patience};
use super::moving::elsewhere;
use super::read::{creation, forgotten};
use crate::store::{self, Created, ThreadRow};
use vctx_core::error::Result;
use vctx_core::limits::{ATTEMPTS_MAX, THREAD_LOOK, THREAD_LOOK_GROWTH};
use vctx_core::memory::core::{Branch, Core};
use vctx_core::memory::thread::Place;
use vctx_core::policy::{Principal, Scope, admit};
use vctx_core::tools::branch_core;

/// A message at one of the places of a conversation.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Name of the agent that has it.
    pub agent: String,
    /// The message; its `at` counts from the beginning of the conversation.
    pub row: ThreadRow,
}

impl Executor {
    /// Where the longest part of a conversation is known: messages at its places, from the newest place that any agent of the tenant knows, or that the
    /// one named in `within` knows. Few places are looked at first, then more.
    pub async fn threads(
        &self,
        principal: &Principal,
        places: &[Place],
        system: &str,
        within: Option<&str>,
    ) -> Result<Vec<Placed>> {
        let within = within.map(|agent| admit(principal, agent)).transpose()?;
        let key = within.as_ref().map(Scope::key);
        let newest: Vec<&str> = places.iter().rev().map(|place| place.thread.as_str()).collect();
        let (mut from, mut many) = (0, THREAD_LOOK);
        while from < newest.len() {
            let look = &newest[from..newest.len().min(from + many)];
            let tenant = principal.tenant.as_str();
            let rows =
                self.patiently(|| store::threads(&self.ro, tenant, key, look, system)).await?;
            if !rows.is_empty() {
                let last = newest.len() - 1 - from;
                return Ok(rows.into_iter().filter_map(|row| named(tenant, row, last)).collect());
            }
            from += look.len();
            many *= THREAD_LOOK_GROWTH;
        }
        Ok(Vec::new())
    }

    /// Gives an answer its place in the thread of its client.
    pub async fn mark_thread(
        &self,
        principal: &Principal,
        agent: &str,
        seq: u64,
        place: &Place,
    ) -> Result<()> {
        let scope = admit(principal, agent)?;
        let (mut faults, deadline) = (0, patience());
        loop {
            match store::mark_thread(&self.rw, &scope, seq, place).await {
                Ok(()) => return Ok(()),
                Err(fault) if fault.raced() && faults < ATTEMPTS_MAX => {
                    faults += 1;
                    self.breathe().await;
                }
                Err(fault) => self.pause(fault, &mut faults, deadline).await?,
            }
        }
    }

    /// Makes a branch of an agent behind one of its messages: with its blocks as they were before the next one was said, and no messages. One that is there
    /// is left as it is. The system text is that of then, unless another one is given.
    pub async fn branch(
        &self,
        principal: &Principal,
        agent: &str,
        from: &Placed,
        system: Option<&str>,
    ) -> Result<()> {
        let scope = admit(principal, agent)?;
        let parent_scope = admit(principal, &from.agent)?;
        let (parent, _) = self.fresh(&parent_scope, "", patience()).await?;
        // What was changed with an answer, or behind it, belongs to what both have; what came of the next message does not.
        let next = from.row.next.iter().min_by_key(|next| next.seq);
        let moment = next.map_or(parent.updated_at.as_str(), |next| next.created_at.as_str());
        let texts = self.patiently(|| store::texts_before(&self.ro, &parent_scope, moment)).await?;
        let (then, blocks) = match texts {
            Some(texts) => (texts.system.content, texts.working_blocks),
            None => (parent.system.content.clone(), Vec::new()),
        };
        let texts = (system.map_or(then, str::to_owned), blocks);
        let branch = Branch { parent: from.agent.clone(), seq: from.row.seq };
        let counter = self.counters.of(parent.encoding);
        let now = self.clock.unix_ms();
        let core = branch_core(&scope, &parent, texts, &**counter, now, branch)?;
        self.make(&scope, &core, principal).await
    }

    async fn make(&self, scope: &Scope, core: &Core, principal: &Principal) -> Result<()> {
        let event = creation(core, principal);
        self.register(scope).await?;
        let (mut faults, deadline) = (0, patience());
        loop {
            match store::create(&self.rw, scope, core, &event, &self.place).await {
                Ok(Created::Forgotten) => return Err(forgotten()),
                Ok(Created::Elsewhere) => return Err(elsewhere()),
                Ok(Created::Made(_) | Created::Taken) => return Ok(()),
                // Another creation of the same agent is on its way: its end decides.
                Err(fault) if fault.raced() && faults < ATTEMPTS_MAX => {
                    faults += 1;
                    self.breathe().await;
                }
                Err(fault) => self.pause(fault, &mut faults, deadline).await?,
            }
        }
    }

    async fn breathe(&self) {
        tokio::time::sleep(std::time::Duration::from_millis(1 + self.ids.below(8))).await;
    }
}

/// A row with the name of its agent, and counted from the beginning: `last` is the place that the newest of this look has there.
fn named(tenant: &str, row: ThreadRow, last: usize) -> Option<Placed> {
    let agent = match tenant {
        "" => Some(row.agent_id.as_str()).filter(|key| !key.contains(':')),
        tenant => row.agent_id.strip_prefix(tenant).and_then(|rest| rest.strip_prefix(':')),
    };
    let agent = agent?.to_owned();
    Some(Placed { agent, row: ThreadRow { at: last - row.at, ..row } })
}
