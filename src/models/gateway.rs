//! A model behind an OpenAI-compatible endpoint on a Unix socket, asked for summaries; it answers and never decides.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use hyperlocal::UnixConnector;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Code, Error, Result};
use crate::limits::{MODEL_ANSWER_BYTES_MAX, MODEL_MS_MAX};
use crate::policy::Line;

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
    client: Client<UnixConnector, Full<Bytes>>,
}

/// What the model is told. A list of facts survives recursion better than prose (measured on LoCoMo conversations).
const PROMPT: &str = "Fold the previous summary and the conversation below into one new summary: a list of short facts, one per line, \
    with names, numbers and dates kept as they are. No introduction, no comment. Stay below the given number of tokens.";

/// What it is told besides when its last answer was too far from its sources.
const AGAIN: &str = "An earlier answer was too far from the text: stay with the words of the text and leave none of its subjects out.";

impl Gateway {
    /// A client; nothing is sent yet.
    pub fn new(settings: GatewaySettings) -> Self {
        Self { settings, client: Client::builder(TokioExecutor::new()).build(UnixConnector) }
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
        let uri: hyper::Uri =
            hyperlocal::Uri::new(&self.settings.socket, "/v1/chat/completions").into();
        let request = Request::post(uri)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|e| fault(e.into()))?;
        let response = self.client.request(request).await.map_err(|e| fault(e.into()))?;
        let status = response.status();
        let bytes = Limited::new(response.into_body(), MODEL_ANSWER_BYTES_MAX)
            .collect()
            .await
            .map_err(fault)?
            .to_bytes();
        if !status.is_success() {
            return Err(Error::new(
                Code::Internal,
                format!("the model's server answered {status}"),
            ));
        }
        serde_json::from_slice(&bytes).map_err(|e| fault(e.into()))
    }
}
