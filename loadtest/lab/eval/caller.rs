//! Calls the public API for one agent, and repeats a call with an unchanged idempotency key while
//! the server is busy.

use std::time::Duration;

use serde_json::{Value, json};

use vctx_cli::exit::Failure;
use vctx_client::{Client, MESSAGES_PER_PAGE_MAX, NewAgent, Problem, Write};

/// Maximum number of attempts of a call while the server answers with a retryable error.
const ATTEMPTS_MAX: u32 = 8;
/// Pause before the second attempt of a call; each further pause is twice as long.
const PAUSE: Duration = Duration::from_millis(50);

/// A client of one agent.
pub(super) struct Caller {
    client: Client,
    /// The agent.
    pub(super) agent: String,
}

impl Caller {
    /// Creates the agent on the server, and the client for the agent.
    pub(super) async fn create(
        client: Client,
        agent: String,
        window: u64,
    ) -> Result<Caller, Failure> {
        let new = NewAgent::with_window(window);
        client.create_agent(&agent, &new).await?;
        Ok(Caller { client, agent })
    }

    /// Returns the agent's state.
    pub(super) async fn state(&self) -> Result<Value, Failure> {
        Ok(self.client.state(&self.agent).await?)
    }

    /// Returns the context window as a model would receive it.
    pub(super) async fn context(&self) -> Result<Value, Failure> {
        Ok(self.client.context(&self.agent).await?)
    }

    /// Builds a context.
    pub(super) async fn build_context(&self, body: &Value) -> Result<Value, Failure> {
        Ok(self.client.build_context(&self.agent, body).await?)
    }

    /// Returns all messages of the agent, oldest first.
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

    /// Appends a message; returns the message's sequence number and the server's answer.
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

    /// Evicts the whole queue without a summary.
    pub(super) async fn evict_all(&self) -> Result<(), Failure> {
        let arguments = json!({"target_tokens": 0, "summarize": false});
        self.tool("evict_fifo", &arguments).await?;
        let state = self.state().await?;
        match state.pointer("/tokens/fifo").and_then(Value::as_u64) {
            Some(0) => Ok(()),
            left => Err(Failure::data(format!(
                "after an eviction of the whole queue, the queue of {} still has {left:?} tokens",
                self.agent
            ))),
        }
    }
}
