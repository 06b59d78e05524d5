//! Loads prompts with all parts of their windows, lists prompts, and lists runs with an expired
//! lease.

use serde::Deserialize;
use serde_json::Value;

use super::core::parsed;
use super::db::{Ro, binds};
use super::fault::Result;
use super::query::queries;
use vctx_core::limits::{CLOCK_SKEW_MS_MAX, LEASE_MS_BOUNDS};
use vctx_core::memory::core::Core;
use vctx_core::memory::held;
use vctx_core::memory::message::Message;
use vctx_core::memory::pack::ContextPack;
use vctx_core::memory::prompt::{Prompt, Texts, ToolSet};
use vctx_core::trust::Scope;

queries! {
    EXPIRED = "core_expired_runs",
    LOAD = "prompt_load",
    LIST = "prompt_list",
}

/// A run with an expired lease.
#[derive(Clone, Debug, Deserialize)]
pub struct ExpiredRun {
    /// Key of the agent's core.
    pub key: String,
    /// Tenant of the agent.
    pub tenant: String,
    /// Key of the run.
    pub run: String,
    /// Position (`seq`) of the message that began the run.
    pub cause_seq: u64,
    /// When the run's lease ends, in milliseconds since 1970.
    pub until_ms: u64,
}

/// A prompt with everything that its window showed.
#[derive(Clone, Debug)]
pub struct LoadedPrompt {
    /// The current core; `None` if there is no such agent.
    pub core: Option<Core>,
    /// The prompt; `None` if there is no such prompt.
    pub prompt: Option<Prompt>,
    /// The core's texts at the time of the prompt.
    pub texts: Option<Texts>,
    /// The offered tools, if any.
    pub tools: Option<ToolSet>,
    /// The context pack that the prompt showed, if any.
    pub pack: Option<ContextPack>,
    /// The messages that the context pack shows.
    pub packed: Vec<Message>,
    /// The messages that were in the queue at the time of the prompt.
    pub queue: Vec<Message>,
}

/// Returns the runs whose lease ended before `now_ms`, or ends later than any lease can, the oldest
/// first.
pub async fn expired_runs(ro: &Ro, now_ms: u64, limit: u64) -> Result<Vec<ExpiredRun>> {
    let latest_ms = now_ms + LEASE_MS_BOUNDS.1 + CLOCK_SKEW_MS_MAX;
    ro.rows(EXPIRED, binds!(none; now_ms, latest_ms, limit)).await
}

/// Loads a prompt with all its parts in one request.
pub async fn load_prompt(
    ro: &Ro,
    scope: &Scope,
    turn: u64,
    limit: u64,
) -> Result<Option<LoadedPrompt>> {
    #[derive(Deserialize)]
    struct Row {
        core: Option<Core>,
        prompt: Option<Prompt>,
        texts: Option<Value>,
        sources: Vec<Value>,
        tools: Option<ToolSet>,
        pack: Option<ContextPack>,
        packed: Vec<Message>,
        queue: Vec<Message>,
    }
    let Some(row) = ro.row::<Row>(LOAD, binds!(scope; turn, limit)).await? else { return Ok(None) };
    let Row { core, prompt, texts, sources, tools, pack, packed, queue } = row;
    let texts = texts.map(|texts| parsed(held::whole(texts, &sources))).transpose()?;
    Ok(Some(LoadedPrompt { core, prompt, texts, tools, pack, packed, queue }))
}

/// Returns a page of prompts from the given turn on, with the agent's core; `None` if there is no
/// such agent.
pub async fn prompts(
    ro: &Ro,
    scope: &Scope,
    from_turn: u64,
    limit: u64,
) -> Result<Option<(Core, Vec<Prompt>)>> {
    #[derive(Deserialize)]
    struct Row {
        core: Core,
        prompts: Vec<Prompt>,
    }
    let binds = binds!(scope; from_turn, limit);
    Ok(ro.row::<Row>(LIST, binds).await?.map(|row| (row.core, row.prompts)))
}
