//! Handles conversation threads of clients that send the whole conversation with each request:
//! finds known messages, marks answers, and creates branches of an agent.

use super::executor::Executor;
use super::kernel::patience;
use crate::store::{self, ThreadRow};
use vctx_core::error::Result;
use vctx_core::memory::conversation::ThreadPosition;
use vctx_core::memory::core::Branch;
use vctx_core::tools::branch_core;
use vctx_core::trust::{Principal, Scope, admit};

/// Number of positions in the first query for a conversation, newest first; each further query has
/// [`THREAD_LOOK_GROWTH`] times as many.
const THREAD_LOOK: usize = 64;
/// Factor by which [`THREAD_LOOK`] grows with each query; four queries cover the longest
/// conversation.
const THREAD_LOOK_GROWTH: usize = 8;

/// A message of a client's conversation that an agent already has.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Name of the agent that has the message.
    pub agent: String,
    /// The message; its position `at` counts from the beginning of the conversation.
    pub row: ThreadRow,
}

impl Executor {
    /// Finds the newest position of a conversation that is known to an agent, and returns the
    /// messages at this position. Searches all agents of the tenant, or only the agent `within`.
    /// The first query covers few positions, later ones more.
    pub async fn threads(
        &self,
        principal: &Principal,
        places: &[ThreadPosition],
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
            let rows = self.kernel.read(|ro| store::threads(ro, tenant, key, look, system)).await?;
            if !rows.is_empty() {
                let last = newest.len() - 1 - from;
                return Ok(rows
                    .into_iter()
                    .filter_map(|row| position_of(tenant, row, last))
                    .collect());
            }
            from += look.len();
            many *= THREAD_LOOK_GROWTH;
        }
        Ok(Vec::new())
    }

    /// Stores where an answer belongs in the client's conversation thread.
    pub async fn mark_thread(
        &self,
        principal: &Principal,
        agent: &str,
        seq: u64,
        place: &ThreadPosition,
    ) -> Result<()> {
        let scope = admit(principal, agent)?;
        self.kernel.contended(|| store::mark_thread(&self.kernel.rw, &scope, seq, place)).await
    }

    /// Creates a branch of an agent; the branch begins after one of the agent's messages. The
    /// branch gets the agent's blocks as they were at that message, but no messages. It gets the
    /// given system text, or else the agent's system text at that time. If the branch already
    /// exists, it stays unchanged.
    pub async fn branch(
        &self,
        principal: &Principal,
        agent: &str,
        from: &Placed,
        system: Option<&str>,
    ) -> Result<()> {
        let scope = admit(principal, agent)?;
        let parent_scope = admit(principal, &from.agent)?;
        let (parent, _) = self.kernel.checked(&parent_scope, &[], patience()).await?;
        // Changes made before the next message belong to both the agent and the branch; later
        // changes belong only to the agent.
        let next = from.row.next.iter().min_by_key(|next| next.seq);
        let moment = next.map_or(parent.updated_at.as_str(), |next| next.created_at.as_str());
        let texts = self.kernel.read(|ro| store::texts_before(ro, &parent_scope, moment)).await?;
        let (then, blocks) = match texts {
            Some(texts) => (texts.system.content, texts.working_blocks),
            None => (parent.system.content.clone(), Vec::new()),
        };
        let texts = (system.map_or(then, str::to_owned), blocks);
        let branch = Branch { parent: from.agent.clone(), seq: from.row.seq };
        let counter = self.kernel.counters.of(parent.encoding);
        let now = self.kernel.clock.unix_ms();
        let core = branch_core(&scope, &parent, texts, &**counter, now, branch)?;
        self.made(&scope, &core, principal).await.map(drop)
    }
}

/// Returns a found message with its agent's name and its index from the beginning of the
/// conversation. `last` is the index, in the conversation, of the newest position that the query
/// contained.
fn position_of(tenant: &str, row: ThreadRow, last: usize) -> Option<Placed> {
    let agent = match tenant {
        "" => Some(row.agent_id.as_str()).filter(|key| !key.contains(':')),
        tenant => row.agent_id.strip_prefix(tenant).and_then(|rest| rest.strip_prefix(':')),
    };
    let agent = agent?.to_owned();
    Some(Placed { agent, row: ThreadRow { at: last - row.at, ..row } })
}
