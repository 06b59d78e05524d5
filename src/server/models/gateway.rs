//! Asks a model for summaries, in the form of its server's API.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::address::Address;
use super::chat::{ChatModel, ChatRequest, ChatServer, Delta, Finish};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::MODEL_MS_MAX;
use vctx_core::model_api::ModelRequest;
use vctx_core::policy::Line;

/// Variable with the key for the server of the summary model.
pub const SUMMARISER_KEY: &str = "VCTX_SUMMARISER_KEY";

/// Settings of the model that writes summaries.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SummariserSettings {
    /// Name of the model's provider, which decides the address and the API, or empty. If this,
    /// `url` and `socket` are empty, the local summariser writes all summaries.
    pub provider: String,
    /// URL of the model's server, or empty.
    pub url: String,
    /// Unix socket of the model's server, or empty.
    pub socket: PathBuf,
    /// API of the model's server: `chat`, `responses` or `messages`; if empty, that of the
    /// provider, or else `chat`.
    pub api: String,
    /// HTTP path and query of requests to the model; if empty, that of the API.
    pub path: String,
    /// File with further trusted certificates (PEM), or empty.
    pub ca_file: PathBuf,
    /// URL of an HTTP proxy, or empty.
    pub proxy: String,
    /// Model name that requests contain.
    pub model: String,
}

impl SummariserSettings {
    /// Returns whether a model is configured.
    pub fn is_set(&self) -> bool {
        self.server().is_set()
    }

    /// Returns one sentence for each invalid setting, beginning with the setting's key.
    pub fn faults(&self) -> Vec<String> {
        let faults = self.server().faults();
        faults.into_iter().map(|text| format!("summariser.{text}")).collect()
    }

    /// Returns the address of the model's server, if one is configured.
    pub fn address(&self) -> Option<Address> {
        self.server().address()
    }

    /// Makes a client of the model, if one is configured, which is asked with the given key. An
    /// error begins with the setting that is wrong.
    pub fn open(&self, key: Option<String>) -> std::result::Result<Option<Gateway>, String> {
        let server = self.server();
        let limit = Duration::from_millis(MODEL_MS_MAX);
        let model = server.open(key, SUMMARISER_KEY, limit, false)?;
        let tokens_field = server.tokens_field().to_owned();
        let takes_temperature = server.takes_temperature();
        Ok(model.map(|model| Gateway { model, tokens_field, takes_temperature }))
    }

    fn server(&self) -> ChatServer<'_> {
        ChatServer {
            provider: &self.provider,
            url: &self.url,
            socket: &self.socket,
            api: &self.api,
            path: &self.path,
            ca_file: &self.ca_file,
            proxy: &self.proxy,
            model: &self.model,
        }
    }
}

/// A client of the summary model.
pub struct Gateway {
    model: Arc<dyn ChatModel>,
    /// Name of the request field that limits the answer's tokens.
    tokens_field: String,
    /// Whether requests may set the temperature.
    takes_temperature: bool,
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
        let mut options = Map::new();
        options.insert("stream".into(), false.into());
        options.insert(self.tokens_field.clone(), tokens_max.into());
        if self.takes_temperature {
            options.insert("temperature".into(), temperature.into());
        }
        let messages: [Value; 2] = [
            json!({"role": "system", "content": prompt}),
            json!({"role": "user", "content": text}),
        ];
        let model = self.model.model();
        let request = ModelRequest { model, messages: &messages, tools: None, options: &options };
        let request = ChatRequest { body: request.text(self.model.api()) };
        let mut ignored = |_: Delta| ControlFlow::Continue(());
        let limit = Duration::from_millis(MODEL_MS_MAX);
        let answer = tokio::time::timeout(limit, self.model.complete(&request, &mut ignored));
        let answer = answer.await.map_err(|e| {
            Error::new(Code::Timeout, "the model did not answer in time").caused_by(e)
        })??;
        let is_cut = answer.finish == Finish::Length;
        Ok(Summarised { text: answer.content.unwrap_or_default(), is_cut })
    }
}
