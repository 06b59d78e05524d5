//! What runs need beside calls: the window as values, what a key was answered before, a counter, ids and the time.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::executor::{Executor, no_agent, patience};
use super::prompt::ExpiredRun;
use super::request::{CallRequest, replay_key};
use crate::store;
use vctx_core::context::{Window, assemble};
use vctx_core::error::Result;
use vctx_core::limits::QUEUE_ROWS_MAX;
use vctx_core::memory::core::Core;
use vctx_core::memory::message::Message;
use vctx_core::memory::run::RunReason;
use vctx_core::memory::{Encoding, TokenCounter};
use vctx_core::policy::{Actor, Principal, admit};
use vctx_core::tools::{Call, EndRun};

impl Executor {
    /// The core as it is now, and what a call with that key was answered, if there was one.
    pub async fn peek(
        &self,
        principal: &Principal,
        agent: &str,
        key: &str,
    ) -> Result<(Arc<Core>, Option<Value>)> {
        let scope = admit(principal, agent)?;
        let (core, replay) = self.fresh(&scope, &replay_key(&scope, key), patience()).await?;
        Ok((core, replay.map(|replay| replay.response)))
    }

    /// The core and its rendered window.
    pub async fn window(&self, principal: &Principal, agent: &str) -> Result<(Core, Window)> {
        let scope = admit(principal, agent)?;
        let loaded =
            self.patiently(|| store::load_context(&self.ro, &scope, QUEUE_ROWS_MAX)).await?;
        let (core, queue) = loaded.ok_or_else(no_agent)?;
        let window = assemble(&core, &queue);
        Ok((core, window))
    }

    /// Messages from a seq on, so many at most.
    pub async fn said_from(
        &self,
        principal: &Principal,
        agent: &str,
        from_seq: u64,
        limit: u64,
    ) -> Result<Vec<Message>> {
        let scope = admit(principal, agent)?;
        let rows = self.patiently(|| store::page(&self.ro, &scope, from_seq, limit)).await?;
        Ok(rows.into_iter().map(|row| row.message).collect())
    }

    /// Ends a run whose lease is over, by a write like any other; true if it was ended here. The same request may still go on with it.
    pub async fn end_expired(&self, dead: &ExpiredRun, actor: &Actor) -> Result<bool> {
        let call = EndRun {
            run: dead.run.clone(),
            owner: None,
            reason: RunReason::Cancelled,
            told: Map::from_iter([("by".to_owned(), "sweep".into())]),
        };
        let request = CallRequest {
            principal: Principal { actor: actor.clone(), tenant: dead.tenant.clone() },
            agent: dead.agent.clone(),
            call: Call::EndRun(Box::new(call)),
            arguments: Map::from_iter([("run".to_owned(), dead.run.as_str().into())]),
            key: None,
            guard: None,
            capture: None,
            wording: None,
        };
        let reply = self.call(&request).await?;
        Ok(reply.body["result"]["ended"] == true)
    }

    /// The counter of an encoding.
    pub fn counter(&self, encoding: Encoding) -> Arc<dyn TokenCounter> {
        Arc::clone(self.counters.of(encoding))
    }

    /// A name that nothing else has.
    pub fn fresh_id(&self) -> String {
        self.ids.key()
    }

    /// Server time in milliseconds.
    pub fn unix_ms(&self) -> u64 {
        self.clock.unix_ms()
    }
}
