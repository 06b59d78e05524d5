//! A parsed request of the chat, responses or messages form, with messages, client tools and
//! options, and the agent that the request names.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::limits::NAME_BYTES_MAX;
use crate::memory::Labels;
use crate::memory::conversation::ClientMessage;
use crate::memory::message::Role;
use crate::trust::check_address;

/// Maximum number of messages in one request.
const THREAD_MESSAGES_MAX: usize = 32_768;

/// A conversation as a client of the OpenAI API or of the messages API sends it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// Model name in the request; the answer repeats the name.
    pub model: String,
    /// The system text at the beginning of the request; `said` does not include it.
    pub system: Option<String>,
    /// The messages of the request, oldest first.
    pub said: Vec<ClientMessage>,
    /// The client's tools, in chat form.
    pub tools: Vec<Value>,
    /// Fields of the request that are passed to the model.
    pub options: Map<String, Value>,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Whether the last event of a streamed answer contains token counts.
    pub usage: bool,
    /// The request's fields `user` and `metadata`, as labels of its messages. Conversations of
    /// different users never continue each other.
    pub labels: Labels,
    /// The thread position to continue, if the client names a position instead of sending all
    /// messages.
    pub previous: Option<Previous>,
    /// Fields of the request that the answer repeats.
    pub echo: Map<String, Value>,
}

/// A thread position that a request continues; the request does not contain the messages up to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Previous {
    /// The answer to the message at the position with this digest.
    AnswerTo(String),
    /// The message at the position with this digest, up to which a compaction stands for the
    /// conversation.
    Compacted(String),
}

/// The agent that a request names, if any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedAgent {
    /// Name of the agent.
    pub agent: Option<String>,
}

/// Prefix of a model name that requests an agent; the rest of the model name is the agent's name.
const MODEL_PREFIX: &str = "vctx/";

impl RequestedAgent {
    /// Returns the agent that the request names. The path has priority, then the field `model`,
    /// then a header.
    pub fn of(path: Option<&str>, model: &str, header: Option<&str>) -> Result<Self> {
        let agent = path.or_else(|| model.strip_prefix(MODEL_PREFIX)).or(header);
        if let Some(agent) = agent {
            check_address("agent", agent)?;
        }
        Ok(Self { agent: agent.map(str::to_owned) })
    }
}

impl Conversation {
    /// Returns whether the client's request contains a tool with the given name.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool["function"]["name"] == name)
    }

    /// Moves a system text at the beginning out of the messages, drops messages without content,
    /// and checks the number of messages. `list` is the name of the request's field with the
    /// messages; errors contain this name.
    pub(crate) fn tidied(mut self, list: &str) -> Result<Self> {
        if self.model.len() > NAME_BYTES_MAX * 2 {
            return Err(Error::argument(
                "model",
                format!("longer than {} bytes", NAME_BYTES_MAX * 2),
            ));
        }
        if self.system.is_none()
            && self.said.first().is_some_and(|first| first.role == Role::System)
        {
            self.system = Some(self.said.remove(0).text);
        }
        // Messages without content are dropped, except user messages.
        let silent = |seen: &ClientMessage| seen.is_empty() && seen.role != Role::User;
        self.said.retain(|seen| !silent(seen));
        if self.said.len() > THREAD_MESSAGES_MAX {
            return Err(Error::argument(list, format!("more than {THREAD_MESSAGES_MAX}")));
        }
        Ok(self)
    }

    /// Tidies the messages, and checks that the last one can be answered.
    pub(crate) fn settled(self, list: &str) -> Result<Self> {
        let tidied = self.tidied(list)?;
        match tidied.said.last() {
            None => Err(Error::argument(
                list,
                "has no message: give at least one message besides the system text",
            )),
            Some(last) if last.role == Role::Assistant => {
                Err(Error::argument(list, "ends with an answer: end it with a message to answer"))
            }
            Some(_) => Ok(tidied),
        }
    }
}
