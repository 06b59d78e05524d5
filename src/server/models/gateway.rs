//! Asks a model for summaries at an OpenAI-compatible endpoint on a Unix socket.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::wire::{Way, Wire};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::MODEL_MS_MAX;
use vctx_core::policy::Line;

/// Maximum length of the summary model's answer, in bytes.
const MODEL_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Settings of the summary model.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewaySettings {
    /// Unix socket of an OpenAI-compatible server.
    pub socket: std::path::PathBuf,
    /// Model name that requests contain.
    pub model: String,
}

/// A client of the summary model.
pub struct Gateway {
    settings: GatewaySettings,
    wire: Wire,
}

/// An answer of the summary model.
#[derive(Clone, Debug)]
pub struct Summarised {
    /// The model's text; empty if the model refused to answer.
    pub text: String,
    /// Whether the model stopped at its limit of tokens.
    pub is_cut: bool,
}

/// Number of consecutive words of the instruction by which an answer is recognised that repeats the
/// instruction.
const ECHO_WORDS: usize = 8;

/// Beginnings of lines of the request, by which an answer is recognised that repeats the request.
const FRAME: [&str; 2] = ["Tokens at most:", "Previous summary:"];

/// Whether an answer repeats the instruction or the frame of the request.
pub fn echoes(answer: &str) -> bool {
    let words: Vec<&str> = answer.split_whitespace().collect();
    let said = format!(" {} ", words.join(" "));
    let repeats = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        words.windows(ECHO_WORDS).any(|run| said.contains(&format!(" {} ", run.join(" "))))
    };
    let is_frame = |line: &str| FRAME.iter().any(|frame| line.trim().starts_with(frame));
    repeats(PROMPT) || repeats(AGAIN) || answer.lines().any(is_frame)
}

/// Instruction for a summary. It asks for a list of facts, since facts survive repeated summarising
/// better in a list than in prose (measured on LoCoMo conversations).
const PROMPT: &str = "Fold the previous summary and the conversation below into one new summary: a list of short facts, one per line, \
    each with its day, its number and its speaker, with names, numbers, dates and negations kept as they are. No introduction, no comment. Stay below the given number of tokens.";

/// Addition to the instruction after a summary that was too dissimilar to the summarised texts.
const AGAIN: &str = "An earlier answer was too far from the text: stay with the words of the text and leave none of its subjects out.";

impl Gateway {
    /// Makes a client of the summary model; sends no request yet.
    pub fn new(settings: GatewaySettings) -> Self {
        let wire = Wire::new(Way::Unix(settings.socket.clone()), None);
        Self { settings, wire }
    }

    /// Asks for a summary of at most about `tokens_max` tokens; the caller truncates a longer
    /// summary. From the second `attempt` on, the instruction says what was wrong with the earlier
    /// answer.
    pub async fn summarise(
        &self,
        previous: &str,
        lines: &[Line],
        tokens_max: u64,
        attempt: usize,
    ) -> Result<Summarised> {
        let said: Vec<String> = lines
            .iter()
            .map(|l| format!("{} #{} {}: {}", l.day, l.seq, l.speaker, l.text))
            .collect();
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
        let choice = &answer["choices"][0];
        let text = choice["message"]["content"].as_str().unwrap_or_default().to_owned();
        Ok(Summarised { text, is_cut: choice["finish_reason"] == "length" })
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
