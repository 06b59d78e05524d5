//! A model behind an OpenAI-compatible endpoint on a Unix socket, asked for summaries; it answers and never decides.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::wire::{Way, Wire};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{MODEL_ANSWER_BYTES_MAX, MODEL_MS_MAX};
use vctx_core::policy::Line;

/// Where the model answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewaySettings {
    /// Unix socket of an OpenAI-compatible server.
    pub socket: std::path::PathBuf,
    /// Model name sent with each request.
    pub model: String,
}

/// The client of that endpoint.
pub struct Gateway {
    settings: GatewaySettings,
    wire: Wire,
}

/// What the model is told. A list of facts survives recursion better than prose (measured on LoCoMo conversations).
const PROMPT: &str = "Fold the previous summary and the conversation below into one new summary: a list of short facts, one per line, \
    with names, numbers and dates kept as they are. No introduction, no comment. Stay below the given number of tokens.";

/// What it is told besides when its last answer was too far from its sources.
const AGAIN: &str = "An earlier answer was too far from the text: stay with the words of the text and leave none of its subjects out.";

impl Gateway {
    /// A client; nothing is sent yet.
    pub fn new(settings: GatewaySettings) -> Self {
        let wire = Wire::new(Way::Unix(settings.socket.clone()), None);
        Self { settings, wire }
    }

    /// Asks for a summary of at most about `tokens_max` tokens; the caller enforces the cap. From the second `attempt` on the model is
    /// told what was wrong, and may answer otherwise than before.
    pub async fn summarise(
        &self,
        previous: &str,
        lines: &[Line],
        tokens_max: u64,
        attempt: usize,
    ) -> Result<String> {
        let said: Vec<String> =
            lines.iter().map(|l| format!("{}: {}", l.speaker, l.text)).collect();
        let text = format!(
            "Tokens at most: {tokens_max}\n\nPrevious summary:\n{previous}\n\nConversation:\n{}",
            said.join("\n")
        );
        let (prompt, temperature) = match attempt {
            0 | 1 => (PROMPT.to_owned(), 0.0),
            _ => (format!("{PROMPT} {AGAIN}"), 0.4),
        };
        let body = json!({"model": self.settings.model, "temperature": temperature, "max_tokens": tokens_max,
            "messages": [{"role": "system", "content": prompt}, {"role": "user", "content": text}]});
        let limit = Duration::from_millis(MODEL_MS_MAX);
        let answer = tokio::time::timeout(limit, self.post(&body)).await.map_err(|e| {
            Error::new(Code::Timeout, "the model did not answer in time").caused_by(e)
        })??;
        let content = answer["choices"][0]["message"]["content"].as_str();
        content
            .map(str::to_owned)
            .ok_or_else(|| Error::new(Code::Internal, "the model's answer has no text"))
    }

    async fn post(&self, body: &Value) -> Result<Value> {
        let fault = |e: Box<dyn std::error::Error + Send + Sync>| {
            Error::new(Code::Internal, "ask the model").caused_by(e)
        };
        let bytes = self.wire.post("/v1/chat/completions", body, MODEL_ANSWER_BYTES_MAX).await;
        let bytes = bytes.map_err(|fault| fault.into_error(Code::Internal))?;
        serde_json::from_slice(&bytes).map_err(|e| fault(e.into()))
    }
}
