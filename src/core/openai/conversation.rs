//! A request in either form, as it is understood: who is meant, what was said, what the client's own tools are, how it wants to be answered.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::limits::{NAME_BYTES_MAX, THREAD_MESSAGES_MAX};
use crate::memory::message::Role;
use crate::memory::thread::Seen;
use crate::policy::check_name;

/// A conversation as its client sends it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// Model as the client names it; it stands in the answer.
    pub model: String,
    /// The system text, where there is one: it stands at the beginning and is no message.
    pub system: Option<String>,
    /// What was said, oldest first.
    pub said: Vec<Seen>,
    /// The client's own tools, in chat's form.
    pub tools: Vec<Value>,
    /// What is passed on to the model as it is.
    pub options: Map<String, Value>,
    /// Whether the answer is wanted in pieces.
    pub stream: bool,
    /// Whether the last piece is to tell what was used.
    pub usage: bool,
    /// `user` of the request: conversations of two are never one.
    pub user: Option<String>,
    /// Digest of the place that it goes on from, where the client names one instead of sending everything.
    pub previous: Option<String>,
    /// What comes back with the answer as it is.
    pub echo: Map<String, Value>,
}

/// How an agent was named, if it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub agent: Option<String>,
}

/// What a model's name begins with that is an agent's.
const MODEL_PREFIX: &str = "vctx/";

impl Named {
    /// The agent that a path, the name of a model or a header names, in this order.
    pub fn of(path: Option<&str>, model: &str, header: Option<&str>) -> Result<Self> {
        let agent = path.or_else(|| model.strip_prefix(MODEL_PREFIX)).or(header);
        if let Some(agent) = agent {
            check_name("agent", agent)?;
        }
        Ok(Self { agent: agent.map(str::to_owned) })
    }
}

impl Conversation {
    /// Whether the client has a tool of that name.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool["function"]["name"] == name)
    }

    /// Takes the first system text out of what was said, leaves out what says nothing, and checks the rest; `list` names the messages in faults.
    pub(super) fn settled(mut self, list: &str) -> Result<Self> {
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
        // An answer of which nothing came says nothing, and so does an empty message of the runtime.
        let silent = |seen: &Seen| seen.is_empty() && seen.role != Role::User;
        self.said.retain(|seen| !silent(seen));
        if self.said.len() > THREAD_MESSAGES_MAX {
            return Err(Error::argument(list, format!("more than {THREAD_MESSAGES_MAX}")));
        }
        match self.said.last() {
            None => Err(Error::argument(
                list,
                "says nothing: give at least one message beside the system text",
            )),
            Some(last) if last.role == Role::Assistant => Err(Error::argument(
                list,
                "ends with an answer: end it with what is to be answered",
            )),
            Some(_) => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_before_the_name_of_a_model_and_that_before_a_header() {
        for (path, model, header, agent) in [
            (Some("a"), "vctx/b", Some("c"), Some("a")),
            (None, "vctx/b", Some("c"), Some("b")),
            (None, "gpt", Some("c"), Some("c")),
            (None, "gpt", None, None),
        ] {
            let named = Named::of(path, model, header).unwrap();
            assert_eq!(named.agent.as_deref(), agent, "{path:?} {model} {header:?}");
        }
        assert!(Named::of(None, "vctx/a b", None).is_err());
        assert!(Named::of(None, "vctx/", None).is_err());
    }
}
