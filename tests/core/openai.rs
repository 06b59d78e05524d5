//! Tests of the OpenAI API: how request bodies are parsed and how answers are formatted.

use serde_json::json;
use vctx_core::memory::conversation::{ClientCall, ClientMessage};
use vctx_core::memory::message::Role;
use vctx_core::openai::{Answer, Ending, Head};

mod answer;
mod chat;
mod compaction;
mod continuation;
mod conversation;
mod embeddings;
mod responses;
mod streams;

/// Returns a call to the client's tool `look`.
fn call(id: &str) -> ClientCall {
    ClientCall { id: id.into(), name: "look".into(), arguments: "{}".into() }
}

/// Returns a model's answer with a text and tool calls.
fn answer(text: &str, calls: Vec<ClientCall>, ending: Ending) -> Answer {
    let head = Head {
        thread: "d".into(),
        created_s: 7,
        model: "m".into(),
        told: json!({"agent": "a"}),
        echo: Default::default(),
    };
    let seen = ClientMessage { calls, ..ClientMessage::text(Role::Assistant, text) };
    Answer { head, seen, ending, usage: Some((3, 4)) }
}
