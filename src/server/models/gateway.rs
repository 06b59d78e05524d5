//! Asks a model for summaries and other short answers, in the form of its server's API.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::chat::{ChatModel, ChatRequest, ChatServer, Delta, Finish};
use vctx_core::error::{Code, Error, Result};
use vctx_core::model_api::ModelRequest;
use vctx_core::policy::Line;

/// A client of a model for a task beside the chat.
pub struct Gateway {
    model: Arc<dyn ChatModel>,
    /// Name of the request field that limits the answer's tokens.
    tokens_field: &'static str,
    /// Whether requests may set the temperature.
    takes_temperature: bool,
    /// Time limit for one answer, including all attempts.
    limit: Duration,
}

/// A request to a model for a task.
struct TaskText<'a> {
    instruction: &'a str,
    text: &'a str,
    tokens_max: u64,
    temperature: f64,
    /// Whether the model is asked again after a failure.
    is_repeated: bool,
}

/// An answer of a model.
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
    /// Makes a client of a model that the settings name, which is asked with the given key; `None`
    /// if they name none. An answer may take at most `limit`. An error begins with the setting that
    /// is wrong.
    pub(super) fn open(
        server: ChatServer<'_>,
        key: Option<String>,
        variable: &'static str,
        limit: Duration,
    ) -> std::result::Result<Option<Self>, String> {
        let model = server.open(key, variable, limit, false)?;
        let tokens_field = server.tokens_field();
        let takes_temperature = server.takes_temperature();
        Ok(model.map(|model| Self { model, tokens_field, takes_temperature, limit }))
    }

    /// Returns the time limit for one answer.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Asks the model once, with an instruction and a text. The answer has about `tokens_max`
    /// tokens at most.
    pub async fn ask(&self, instruction: &str, text: &str, tokens_max: u64) -> Result<Summarised> {
        let is_repeated = false;
        self.send(TaskText { instruction, text, tokens_max, temperature: 0.0, is_repeated }).await
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
        let is_repeated = true;
        let (instruction, text) = (prompt.as_str(), text.as_str());
        self.send(TaskText { instruction, text, tokens_max, temperature, is_repeated }).await
    }

    async fn send(&self, task: TaskText<'_>) -> Result<Summarised> {
        let mut options = Map::new();
        options.insert("stream".into(), false.into());
        options.insert(self.tokens_field.to_owned(), task.tokens_max.into());
        if self.takes_temperature {
            options.insert("temperature".into(), task.temperature.into());
        }
        let messages: [Value; 2] = [
            json!({"role": "system", "content": task.instruction}),
            json!({"role": "user", "content": task.text}),
        ];
        let model = self.model.model();
        let request = ModelRequest { model, messages: &messages, tools: None, options: &options };
        let request = ChatRequest { body: request.text(self.model.api()) };
        let mut deltas = |delta: Delta| match delta {
            Delta::Waiting { .. } if !task.is_repeated => ControlFlow::Break(()),
            Delta::Waiting { .. } | Delta::Text(_) => ControlFlow::Continue(()),
        };
        let answer = tokio::time::timeout(self.limit, self.model.complete(&request, &mut deltas));
        let answer = answer.await.map_err(|e| {
            Error::new(Code::Timeout, "the model did not answer in time").caused_by(e)
        })??;
        let is_cut = answer.finish == Finish::Length;
        Ok(Summarised { text: answer.content.unwrap_or_default(), is_cut })
    }
}
