//! Threads: a conversation as the client of a chat API sees it, and a digest for each prefix of it.
//!
//! Such a client sends its whole history with every call. Each of its messages has a place, named by the digest of everything up to it, so that what
//! is known already is found by the digest of its end. What is left out when it is empty, white space around a text, and the order of names in
//! arguments make no other message: clients write them back as they like.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::message::Role;
use super::receipt::{canonical_json, sha256};

/// A message as a client of a chat API sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Who speaks.
    pub role: Role,
    /// The text; may be empty beside calls, and of a tool's answer.
    pub text: String,
    /// Name of the speaker.
    pub name: Option<String>,
    /// Calls of the client's own tools.
    pub calls: Vec<SeenCall>,
    /// The call that it answers.
    pub call_id: Option<String>,
}

/// A call of a tool as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, a JSON text.
    pub arguments: String,
}

/// Where a message stands in a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Digest of the prefix that ends with it.
    pub thread: String,
    /// Digest of the prefix that it follows.
    pub follows: String,
}

impl Seen {
    /// Just a text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into(), name: None, calls: Vec::new(), call_id: None }
    }

    /// Whether it says anything.
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.calls.is_empty() && self.call_id.is_none()
    }

    /// Its canonical text.
    pub fn canonical(&self) -> String {
        let mut map = Map::new();
        map.insert("role".into(), self.role.text().into());
        let text = self.text.trim();
        if !text.is_empty() {
            map.insert("text".into(), text.into());
        }
        let calls: Vec<Value> = self.calls.iter().map(SeenCall::canonical).collect();
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

impl SeenCall {
    /// Arguments that are JSON count by their value: many a client takes them apart and puts them together again.
    fn canonical(&self) -> Value {
        let arguments = match serde_json::from_str::<Value>(&self.arguments) {
            Ok(value) => canonical_json(&value),
            Err(_) => self.arguments.clone(),
        };
        json!({"id": self.id, "name": self.name, "arguments": arguments})
    }
}

/// Digest of a conversation in which nothing was said yet, for a tenant and a user of the machine; `agent` where one is named, `user` as the request has it.
pub fn beginning(tenant: &str, uid: u32, agent: Option<&str>, user: Option<&str>) -> String {
    let who = json!(["vctx thread 1", tenant, uid, agent, user]);
    sha256(&canonical_json(&who))
}

/// Digest of a prefix and the message after it.
pub fn after(follows: &str, seen: &Seen) -> String {
    sha256(&format!("{follows}\0{}", seen.canonical()))
}

/// The places of messages that follow a prefix, one after the other.
pub fn places(beginning: &str, seen: &[Seen]) -> Vec<Place> {
    let mut follows = beginning.to_owned();
    let place = |one| {
        let place = Place { thread: after(&follows, one), follows: follows.clone() };
        follows.clone_from(&place.thread);
        place
    };
    seen.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> Seen {
        let call = SeenCall { id: "c1".into(), name: "look".into(), arguments: arguments.into() };
        Seen { calls: vec![call], ..Seen::text(Role::Assistant, "") }
    }

    #[test]
    fn what_is_empty_and_the_order_of_arguments_make_no_other_message() {
        let named = Seen { name: Some(String::new()), ..Seen::text(Role::User, " hi\n") };
        assert_eq!(named.canonical(), r#"{"role":"user","text":"hi"}"#);
        assert_eq!(
            call(r#"{"a":1,"b":2}"#).canonical(),
            call(r#"{ "b": 2.0, "a": 1 }"#).canonical()
        );
        assert_ne!(call(r#"{"a":1}"#).canonical(), call(r#"{"a":2}"#).canonical());
        assert_eq!(call("not json").canonical(), call("not json").canonical());
        assert_ne!(call("not json").canonical(), call("not  json").canonical());
    }

    #[test]
    fn every_part_of_a_message_counts() {
        let plain = Seen::text(Role::User, "hi");
        let others = [
            Seen { role: Role::System, ..plain.clone() },
            Seen { text: "hi there".into(), ..plain.clone() },
            Seen { name: Some("ada".into()), ..plain.clone() },
            Seen { call_id: Some("c1".into()), ..plain.clone() },
            call("{}"),
        ];
        let mut all: Vec<String> = others.iter().map(Seen::canonical).collect();
        all.push(plain.canonical());
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn a_place_is_named_by_all_that_was_said_up_to_it_and_by_whose_it_is() {
        let said = [
            Seen::text(Role::User, "a"),
            Seen::text(Role::Assistant, "b"),
            Seen::text(Role::User, "a"),
        ];
        let of = |uid, agent, user| places(&beginning("", uid, agent, user), &said);
        let mine = of(1, None, None);
        assert_eq!(mine[1].follows, mine[0].thread);
        assert_eq!(mine[2].follows, mine[1].thread);
        assert_ne!(mine[2].thread, mine[0].thread, "the same words at another place");
        assert_eq!(mine, of(1, None, None));
        for other in [of(2, None, None), of(1, Some("a"), None), of(1, None, Some("a"))] {
            assert!(other.iter().all(|place| mine.iter().all(|own| own.thread != place.thread)));
        }
        assert_eq!(
            places(&mine[0].thread, &said[1..]),
            mine[1..],
            "a chain goes on from any place"
        );
    }
}
