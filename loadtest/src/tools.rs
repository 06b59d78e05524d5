//! Calls of vctx as a runtime makes them: an agent for each client, a new key for each call, any revision.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Fault;
use crate::client::Client;
use crate::load::Operation;

/// The window of agents whose queue shall never fill during a round, in tokens.
const WINDOW_WIDE: u64 = 4_000_000;
/// The window of agents that are evicted from, in tokens.
const WINDOW_SMALL: u64 = 8_192;
/// Messages appended before each eviction: some 65 tokens each, so that a window never flushes by itself before it is asked to.
const EVICTED_MESSAGES: usize = 48;
/// Bytes of the body that every call carries.
pub(crate) const BODY_BYTES: usize = 300;

/// Which call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Append,
    StoreCore,
    Evict,
}

impl Tool {
    /// Its name in the API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Append => "append_fifo",
            Self::StoreCore => "store_core",
            Self::Evict => "evict_fifo",
        }
    }
}

/// A text of plain words that no two numbers share, so long that the whole body has [`BODY_BYTES`].
fn body(number: usize, before: &str, after: &str) -> Vec<u8> {
    const WORDS: &[&str] = &[
        "the",
        "harbour",
        "we",
        "planned",
        "morning",
        "boat",
        "with",
        "paint",
        "rope",
        "before",
        "and",
        "seventeen",
        "engine",
        "tide",
        "was",
        "left",
        "again",
        "letter",
        "north",
        "while",
    ];
    let room = BODY_BYTES - before.len() - after.len();
    let mut text = format!("{number}");
    let mut next = number as u64;
    while text.len() < room {
        // Knuth's MMIX generator: the same texts in every run.
        next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push(' ');
        text.push_str(WORDS[(next >> 33) as usize % WORDS.len()]);
    }
    text.truncate(room);
    format!("{before}{text}{after}").into_bytes()
}

/// The body of an append, which is the echo's body and the log's record too.
pub(crate) fn append_body(number: usize) -> Vec<u8> {
    body(number, r#"{"message":""#, r#"","role":"user"}"#)
}

fn store_body(number: usize) -> Vec<u8> {
    body(number, r#"{"block_id":"human","content":""#, r#""}"#)
}

/// One agent and the connection of its client.
pub(crate) struct Agent {
    client: Client,
    name: String,
    calls: usize,
}

impl Agent {
    /// Makes an agent that did not exist.
    pub(crate) fn create(socket: &Path, name: &str, tool: Tool) -> Result<Self, Fault> {
        let mut client = Client::connect(socket)?;
        let window = if tool == Tool::Evict { WINDOW_SMALL } else { WINDOW_WIDE };
        let body = json!({"context_window": window, "system": "You are a bench."}).to_string();
        let path = format!("/v1/agents/{name}");
        let answer = client.call("PUT", &path, "", body.as_bytes())?;
        if answer.status != 201 {
            return Err(refused(&path, answer.status, answer.body));
        }
        Ok(Self { client, name: name.to_owned(), calls: 0 })
    }

    fn call(&mut self, tool: Tool, body: &[u8]) -> Result<(Duration, &[u8]), Fault> {
        self.calls += 1;
        let path = format!("/v1/agents/{}/tools/{}", self.name, tool.name());
        let headers = format!("idempotency-key: {}-{}\r\nif-match: *\r\n", self.name, self.calls);
        let begun = Instant::now();
        let answer = self.client.call("POST", &path, &headers, body)?;
        let took = begun.elapsed();
        if answer.status != 200 {
            return Err(refused(&path, answer.status, answer.body));
        }
        Ok((took, answer.body))
    }

    /// What must have been done before the next call of a tool: evictions need a queue.
    pub(crate) fn prepare(&mut self, tool: Tool) -> Result<(), Fault> {
        if tool == Tool::Evict {
            for _ in 0..EVICTED_MESSAGES {
                let body = append_body(self.calls);
                self.call(Tool::Append, &body)?;
            }
        }
        Ok(())
    }

    /// One call; how long it took.
    pub(crate) fn make(&mut self, tool: Tool) -> Result<Duration, Fault> {
        let body = match tool {
            Tool::Append => append_body(self.calls),
            Tool::StoreCore => store_body(self.calls),
            Tool::Evict => br#"{"target_tokens":2048}"#.to_vec(),
        };
        let (took, answer) = self.call(tool, &body)?;
        if tool == Tool::Evict {
            let answer: Value = serde_json::from_slice(answer)?;
            if answer["result"]["evicted_count"].as_u64().unwrap_or(0) == 0 {
                return Err(format!("an eviction moved nothing: {answer}").into());
            }
        }
        Ok(took)
    }

    /// The calls of a client.
    pub(crate) fn operation(mut self, tool: Tool) -> Operation {
        Box::new(move || {
            self.prepare(tool)?;
            self.make(tool)
        })
    }
}

fn refused(path: &str, status: u16, body: &[u8]) -> Fault {
    format!("{path} answered {status}: {}", String::from_utf8_lossy(body)).into()
}

/// The calls of the echo's client.
pub(crate) fn echo(socket: &Path, number: usize) -> Result<Operation, Fault> {
    let mut client = Client::connect(socket)?;
    let body = append_body(number);
    Ok(Box::new(move || {
        let begun = Instant::now();
        let answer = client.call("POST", "/echo", "", &body)?;
        let took = begun.elapsed();
        match (answer.status, answer.body.len()) {
            (200, BODY_BYTES) => Ok(took),
            (status, length) => Err(format!("the echo answered {status}, {length} bytes").into()),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_of_one_length_and_differ() {
        for number in [0, 1, 99_999] {
            for body in [append_body(number), store_body(number)] {
                assert_eq!(body.len(), BODY_BYTES);
                serde_json::from_slice::<Value>(&body).unwrap();
            }
        }
        assert_ne!(append_body(1), append_body(2));
    }
}
