//! What runs need beside calls: the window as values, what a key was answered before, a counter, ids and the time.

use std::sync::Arc;

use serde_json::Value;

use super::executor::{Executor, no_agent, patience};
use super::request::replay_key;
use crate::context::{Window, assemble};
use crate::error::Result;
use crate::limits::QUEUE_ROWS_MAX;
use crate::memory::core::Core;
use crate::memory::message::Message;
use crate::memory::{Encoding, TokenCounter};
use crate::policy::{Principal, admit};
use crate::store;

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
