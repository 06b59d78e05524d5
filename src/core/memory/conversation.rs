//! Conversation threads: conversations as clients of the OpenAI API send them, with a digest for
//! each prefix (the messages up to one message).
//!
//! A client of the OpenAI API sends the whole conversation with every request. In a thread, each
//! message has a position, named by the digest of all messages up to this position. If a digest is
//! known, all messages up to its position are known. When a client sends a message again, empty
//! fields, surrounding white space and the order of argument names may differ. The digests of a
//! thread ignore these differences.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::message::Role;
use super::receipt::{canonical_json, sha256};

/// A message as a client of the OpenAI API sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientMessage {
    /// Role of the message's speaker.
    pub role: Role,
    /// The text of the message, which may be empty in a message with tool calls and in a tool's
    /// answer.
    pub text: String,
    /// Name of the message's speaker.
    pub name: Option<String>,
    /// The message's calls to the client's own tools.
    pub calls: Vec<ClientCall>,
    /// Id of the tool call that the message answers.
    pub call_id: Option<String>,
}

/// A tool call as a client sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCall {
    /// Id of the tool call.
    pub id: String,
    /// Name of the called tool.
    pub name: String,
    /// Arguments of the tool call, as a JSON text.
    pub arguments: String,
}

/// Position of a message in a conversation thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPosition {
    /// Digest of the conversation's prefix that ends with this message.
    pub thread: String,
    /// Digest of the conversation's prefix before this message.
    pub follows: String,
}

impl ClientMessage {
    /// Returns a message with text only.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into(), name: None, calls: Vec::new(), call_id: None }
    }

    /// Whether the message has neither text nor tool calls, and answers no tool call.
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.calls.is_empty() && self.call_id.is_none()
    }

    /// Returns the message as canonical JSON, from which the thread's digest is computed.
    pub fn canonical(&self) -> String {
        let mut map = Map::new();
        map.insert("role".into(), self.role.text().into());
        let text = self.text.trim();
        if !text.is_empty() {
            map.insert("text".into(), text.into());
        }
        let calls: Vec<Value> = self.calls.iter().map(ClientCall::canonical).collect();
        if !calls.is_empty() {
            map.insert("tool_calls".into(), calls.into());
        }
        for (name, value) in [("tool_call_id", &self.call_id), ("name", &self.name)] {
            if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
                map.insert(name.into(), value.into());
            }
        }
        canonical_json(&Value::Object(map))
    }
}

impl ClientCall {
    /// Returns the call's canonical form. The call's arguments are parsed and written again as
    /// canonical JSON, because clients change the format of arguments.
    fn canonical(&self) -> Value {
        let arguments = match serde_json::from_str::<Value>(&self.arguments) {
            Ok(value) => canonical_json(&value),
            Err(_) => self.arguments.clone(),
        };
        json!({"id": self.id, "name": self.name, "arguments": arguments})
    }
}

/// Returns the digest of an empty conversation. It depends on the tenant, on the Unix user id `uid`
/// of the client, and on the names `agent` and `user` in the request.
pub fn beginning(tenant: &str, uid: u32, agent: Option<&str>, user: Option<&str>) -> String {
    let who = json!(["vctx thread 1", tenant, uid, agent, user]);
    sha256(&canonical_json(&who))
}

/// Returns the digest of a prefix that is extended by one message. `follows` is the digest of the
/// prefix before the message.
pub fn after(follows: &str, seen: &ClientMessage) -> String {
    sha256(&format!("{follows}\0{}", seen.canonical()))
}

/// Returns the thread positions of consecutive messages; `beginning` is the digest of the prefix
/// before the first message.
pub fn places(beginning: &str, seen: &[ClientMessage]) -> Vec<ThreadPosition> {
    let mut follows = beginning.to_owned();
    let place = |one| {
        let place = ThreadPosition { thread: after(&follows, one), follows: follows.clone() };
        follows.clone_from(&place.thread);
        place
    };
    seen.iter().map(place).collect()
}
