//! A client that uses an agent as an agent runtime does, with unique idempotency keys.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::wire::{Answer, Lost, Wire};

/// Number of messages that the client reads per page.
const PAGE: u64 = 1_000;
/// Maximum number of pages that the client reads.
const PAGES_MAX: usize = 100;
/// Maximum number of messages that the client appends in one write (`APPENDED_MAX`).
const APPENDED_MAX: usize = 256;

/// Returns a unique idempotency key.
pub(crate) fn key() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("key-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// An agent on a server.
pub(crate) struct Agent {
    pub(crate) wire: Wire,
    pub(crate) name: String,
}

impl Agent {
    /// Returns a client of an existing agent.
    pub(crate) fn at(wire: Wire, name: &str) -> Agent {
        Agent { wire, name: name.into() }
    }

    /// Creates an agent and returns its client.
    pub(crate) async fn create(wire: Wire, name: &str, window: u64, system: &str) -> Agent {
        let agent = Agent::at(wire, name);
        let body = json!({"context_window": window, "system": system});
        agent.wire.put(&agent.path(), &body).await.ok();
        agent
    }

    /// Returns a client of the same agent on a separate connection.
    pub(crate) fn again(&self) -> Agent {
        Agent::at(self.wire.again(), &self.name)
    }

    pub(crate) fn path(&self) -> String {
        format!("/v1/agents/{}", self.name)
    }

    /// Makes one attempt of a tool call.
    pub(crate) async fn attempt(
        &self,
        tool: &str,
        arguments: &Value,
        key: &str,
        revision: &str,
    ) -> Result<Answer, Lost> {
        let path = format!("{}/tools/{tool}", self.path());
        let headers = [("idempotency-key", key), ("if-match", revision)];
        self.wire.try_call("POST", &path, &headers, arguments.to_string()).await
    }

    /// Calls a tool; the call must be answered, with any status.
    pub(crate) async fn tool(&self, tool: &str, arguments: &Value, key: &str, rev: &str) -> Answer {
        self.attempt(tool, arguments, key, rev)
            .await
            .unwrap_or_else(|lost| panic!("{tool} on {}: {}", self.name, lost.0))
    }

    /// Calls a tool with a new key and the revision `*`; the call must succeed.
    pub(crate) async fn done(&self, tool: &str, arguments: &Value) -> Value {
        self.tool(tool, arguments, &key(), "*").await.ok()
    }

    /// Appends a message; the call must succeed.
    pub(crate) async fn append(&self, role: &str, message: impl Into<Value>) -> Value {
        let message: Value = message.into();
        self.done("append_fifo", &json!({"message": message, "role": role})).await
    }

    /// Appends texts of the user, as few writes as their number and the window allow.
    pub(crate) async fn append_all(&self, texts: &[String]) {
        let said = |text: &String| json!({"role": "user", "content": text});
        let path = format!("{}/messages", self.path());
        let mut rest = texts;
        while !rest.is_empty() {
            let part = &rest[..rest.len().min(APPENDED_MAX)];
            let body = json!({"messages": part.iter().map(said).collect::<Vec<Value>>()});
            let headers = [("idempotency-key", &*key()), ("if-match", "*")];
            let answer = self.wire.call("POST", &path, &headers, body.to_string()).await.ok();
            let appended = answer["result"]["appended"].as_array().expect("messages").len();
            assert!(appended > 0, "a write appends at least one message: {answer}");
            rest = &rest[appended..];
        }
    }

    pub(crate) async fn state(&self) -> Value {
        self.wire.get(&self.path()).await.ok()
    }

    pub(crate) async fn revision(&self) -> String {
        self.state().await["_rev"].as_str().expect("a revision").into()
    }

    pub(crate) async fn context(&self) -> Value {
        self.wire.get(&format!("{}/context", self.path())).await.ok()
    }

    /// Returns all messages in the agent's log.
    pub(crate) async fn messages(&self) -> Vec<Value> {
        let (mut all, mut from) = (Vec::new(), 1);
        for _ in 0..PAGES_MAX {
            let path = format!("{}/messages?from_seq={from}&limit={PAGE}", self.path());
            let page = self.wire.get(&path).await.ok();
            all.extend(page["messages"].as_array().expect("messages").iter().cloned());
            match page["next_seq"].as_u64() {
                Some(next) => from = next,
                None => return all,
            }
        }
        panic!("more than {PAGES_MAX} pages of messages")
    }
}

/// Returns role and text of each message, in order.
pub(crate) fn said(messages: &[Value]) -> Vec<(String, String)> {
    let text = |message: &Value, name: &str| message[name].as_str().unwrap_or_default().to_owned();
    messages.iter().map(|m| (text(m, "role"), text(m, "content"))).collect()
}

/// Checks that a page of events has only the types and the ends of chains of the closed sets, and
/// no entry of a write beside calls.
pub(crate) fn assert_closed(page: &Value) {
    let types = ["warning", "flush", "hb_start", "hb_end", "summarize", "error", "audit"];
    let reasons = ["depth", "duration", "tokens", "explicit_yield"];
    for event in page["events"].as_array().expect("events") {
        let (kind, details) = (event["type"].as_str().expect("a type"), &event["details"]);
        assert!(types.contains(&kind), "{event}");
        assert!(kind != "hb_end" || reasons.iter().any(|r| details["reason"] == *r), "{event}");
        assert!(details["beside"].is_null(), "{event}");
    }
}

/// Returns the beginnings and ends of an agent's runs, oldest first.
pub(crate) async fn run_events(agent: &Agent) -> Vec<Value> {
    let page = agent.wire.get(&format!("{}/events?limit=1000", agent.path())).await.ok();
    let events = page["events"].as_array().expect("events").iter();
    events.flat_map(|e| e["details"]["runs"].as_array().cloned().unwrap_or_default()).collect()
}
