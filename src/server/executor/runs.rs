//! Provides the data that runs read from the executor: the window, stored answers, token counters,
//! ids and the time.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::executor::Executor;
use super::kernel::{no_agent, patience};
use super::request::{CallRequest, ReplayKeys, whose};
use crate::executor::limits::QUEUE_ROWS_MAX;
use crate::store::{self, ExpiredRun};
use vctx_core::error::Result;
use vctx_core::memory::core::Core;
use vctx_core::memory::message::Message;
use vctx_core::memory::run::RunReason;
use vctx_core::memory::{Encoding, TokenCounter};
use vctx_core::tools::EndRun;
use vctx_core::trust::{Actor, Principal, Scope, admit};
use vctx_core::window::{Window, assemble};

impl Executor {
    /// Returns the current core, and the stored answer to an earlier call with the given
    /// idempotency key, if any.
    pub async fn peek(
        &self,
        principal: &Principal,
        agent: &str,
        key: &str,
    ) -> Result<(Arc<Core>, Option<Value>)> {
        let scope = admit(principal, agent)?;
        let keys = ReplayKeys::of(&scope, key);
        let (core, replay) = self.kernel.checked(&scope, &keys.all(), patience()).await?;
        Ok((core, replay.map(|replay| replay.response)))
    }

    /// Returns an agent's core and queue.
    pub(super) async fn queued(
        &self,
        principal: &Principal,
        agent: &str,
    ) -> Result<(Scope, Core, Vec<Message>)> {
        let scope = admit(principal, agent)?;
        let load = |ro| store::load_context(ro, &scope, QUEUE_ROWS_MAX);
        let found = self.kernel.read_checked(&scope, load, |f| f.as_ref().map(|f| &f.0)).await?;
        let (core, queue) = found.ok_or_else(no_agent)?;
        Ok((scope, core, queue))
    }

    /// Returns an agent's core and the rendered window.
    pub async fn window(&self, principal: &Principal, agent: &str) -> Result<(Core, Window)> {
        let (_, core, queue) = self.queued(principal, agent).await?;
        let window = assemble(&core, &queue);
        Ok((core, window))
    }

    /// Returns an agent's messages from the given position on, at most `limit`.
    pub async fn said_from(
        &self,
        principal: &Principal,
        agent: &str,
        from_seq: u64,
        limit: u64,
    ) -> Result<Vec<Message>> {
        let scope = admit(principal, agent)?;
        let rows = self.kernel.read(|ro| store::page(ro, &scope, None, from_seq, limit)).await?;
        Ok(rows.into_iter().map(|row| row.message).collect())
    }

    /// Ends a run with an expired lease by an ordinary write. Returns `true` if this call ended the
    /// run. The run's caller can still continue the run by repeating the request.
    pub async fn end_expired(&self, dead: &ExpiredRun, actor: &Actor) -> Result<bool> {
        let call = EndRun {
            run: dead.run.clone(),
            owner: None,
            reason: RunReason::Cancelled,
            told: Map::from_iter([("by".to_owned(), "sweep".into())]),
        };
        let arguments = [("run", dead.run.as_str().into())];
        let whose = whose(actor, &dead.tenant, &dead.key);
        let request = CallRequest::internal(whose, call, arguments);
        let reply = self.call(&request).await?;
        Ok(reply.body["result"]["ended"] == true)
    }

    /// Returns the token counter of an encoding.
    pub fn counter(&self, encoding: Encoding) -> Arc<dyn TokenCounter> {
        Arc::clone(self.kernel.counters.of(encoding))
    }

    /// Returns a new unique id.
    pub fn fresh_id(&self) -> String {
        self.kernel.ids.key()
    }

    /// Returns the server's time in milliseconds.
    pub fn unix_ms(&self) -> u64 {
        self.kernel.clock.unix_ms()
    }
}
