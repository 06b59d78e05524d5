//! One agent's calls: tools through the public API, again with the same key while the server is busy.

use std::time::Duration;

use serde_json::{Value, json};

use vctx_cli::exit::Failure;
use vctx_client::{Client, MESSAGES_PER_PAGE_MAX, NewAgent, Problem, Write};

/// Times a call is made while the server says that it could succeed later.
const ATTEMPTS_MAX: u32 = 8;
/// Pause before the second attempt; it doubles.
const PAUSE: Duration = Duration::from_millis(50);

/// A client that speaks for one agent.
pub(super) struct Caller {
    client: Client,
    /// The agent.
    pub(super) agent: String,
}

impl Caller {
    /// Makes the agent.
    pub(super) async fn create(
        client: Client,
        agent: String,
        window: u64,
    ) -> Result<Caller, Failure> {
        let new = NewAgent { context_window: window, system: None, encoding: None };
        client.create_agent(&agent, &new).await?;
        Ok(Caller { client, agent })
    }

    /// The agent's state.
    pub(super) async fn state(&self) -> Result<Value, Failure> {
        Ok(self.client.state(&self.agent).await?)
    }

    /// The window as a model would get it.
    pub(super) async fn context(&self) -> Result<Value, Failure> {
        Ok(self.client.context(&self.agent).await?)
    }

    /// All messages ever said, oldest first.
    pub(super) async fn messages(&self) -> Result<Vec<Value>, Failure> {
        let (mut all, mut from) = (Vec::new(), 1);
        loop {
            let (page, next) =
                self.client.messages(&self.agent, from, MESSAGES_PER_PAGE_MAX).await?;
            all.extend(page);
            match next {
                Some(next) => from = next,
                None => return Ok(all),
            }
        }
    }

    /// Changes the agent's configuration.
    pub(super) async fn patch(&self, change: &Value) -> Result<(), Failure> {
        self.client.patch_agent(&self.agent, change, &Write::any()).await?;
        Ok(())
    }

    /// Appends a message; gives its sequence number and the whole answer.
    pub(super) async fn append(
        &self,
        role: &str,
        message: &Value,
    ) -> Result<(u64, Value), Failure> {
        let arguments = json!({"message": message, "role": role});
        let answer = self.tool("append_fifo", &arguments).await?;
        let seq = answer.pointer("/receipt/seq").and_then(Value::as_u64);
        let seq =
            seq.ok_or_else(|| Failure::internal("an append was answered without a receipt"))?;
        Ok((seq, answer))
    }

    /// Calls a tool.
    pub(super) async fn tool(&self, tool: &str, arguments: &Value) -> Result<Value, Problem> {
        let write = Write::any();
        let mut attempt = 1;
        loop {
            match self.client.tool(&self.agent, tool, arguments, &write).await {
                Err(problem) if problem.is_passing() && attempt < ATTEMPTS_MAX => {
                    tokio::time::sleep(PAUSE * 2u32.pow(attempt - 1)).await;
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Moves everything out of the queue, without a summary.
    pub(super) async fn evict_all(&self) -> Result<(), Failure> {
        let arguments = json!({"target_tokens": 0, "summarize": false});
        self.tool("evict_fifo", &arguments).await?;
        let state = self.state().await?;
        match state.pointer("/tokens/fifo").and_then(Value::as_u64) {
            Some(0) => Ok(()),
            left => Err(Failure::data(format!(
                "after an eviction down to nothing the queue of {} still takes {left:?} tokens",
                self.agent
            ))),
        }
    }
}
