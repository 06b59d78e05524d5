//! Prompts: one with everything that it was made of, pages of them, and the runs whose lease has passed.

use serde::Deserialize;

use super::db::{Binds, Ro};
use super::fault::Fault;
use super::query::{Query, query};
use vctx_core::memory::core::Core;
use vctx_core::memory::message::Message;
use vctx_core::memory::prompt::{Prompt, Texts, ToolSet};
use vctx_core::policy::Scope;

/// Runs that nobody holds.
pub(super) const EXPIRED: Query = query!("core_expired_runs");
/// A prompt with its parts.
pub(super) const LOAD: Query = query!("prompt_load");
/// A page of prompts.
pub(super) const LIST: Query = query!("prompt_list");

/// A run whose lease has passed.
#[derive(Clone, Debug, Deserialize)]
pub struct ExpiredRun {
    /// Key of the core.
    pub key: String,
    /// Tenant of the agent.
    pub tenant: String,
    /// Key of the run.
    pub run: String,
    /// Seq of the message that began it.
    pub cause_seq: u64,
    /// Last millisecond of its lease.
    pub until_ms: u64,
}

/// A prompt and everything that it was made of.
#[derive(Clone, Debug, Deserialize)]
pub struct LoadedPrompt {
    /// The core as it is; none: no such agent.
    pub core: Option<Core>,
    /// The row; none: no such prompt.
    pub prompt: Option<Prompt>,
    /// The texts as they were.
    pub texts: Option<Texts>,
    /// The tools that were offered.
    pub tools: Option<ToolSet>,
    /// The messages that stood in the queue.
    pub queue: Vec<Message>,
}

/// Runs whose lease ended before a moment of server time, the oldest first.
pub async fn expired_runs(ro: &Ro, now_ms: u64, limit: u64) -> Result<Vec<ExpiredRun>, Fault> {
    let binds = Binds::unscoped([("now_ms", now_ms.into()), ("limit", limit.into())]);
    ro.rows(EXPIRED, binds).await
}

/// A prompt with its parts, in one trip.
pub async fn load_prompt(
    ro: &Ro,
    scope: &Scope,
    turn: u64,
    limit: u64,
) -> Result<Option<LoadedPrompt>, Fault> {
    let binds = Binds::of(scope, [("turn", turn.into()), ("limit", limit.into())]);
    let rows: Vec<LoadedPrompt> = ro.rows(LOAD, binds).await?;
    Ok(rows.into_iter().next())
}

/// A page of prompts from a turn on, with the agent's core; none: no such agent.
pub async fn prompts(
    ro: &Ro,
    scope: &Scope,
    from_turn: u64,
    limit: u64,
) -> Result<Option<(Core, Vec<Prompt>)>, Fault> {
    #[derive(Deserialize)]
    struct Row {
        core: Core,
        prompts: Vec<Prompt>,
    }
    let binds = Binds::of(scope, [("from_turn", from_turn.into()), ("limit", limit.into())]);
    let rows: Vec<Row> = ro.rows(LIST, binds).await?;
    Ok(rows.into_iter().next().map(|row| (row.core, row.prompts)))
}
