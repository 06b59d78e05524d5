//! The calls of the benchmark, whose bodies all have the same length.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::Fault;
use crate::agent::Agent;
use crate::load::Operation;

/// Size of the window, in tokens, of agents whose window must not fill during a round.
const WINDOW_WIDE: u64 = 4_000_000;
/// Size of the window, in tokens, of agents whose messages the benchmark evicts.
const WINDOW_SMALL: u64 = 8_192;
/// Messages appended before each eviction. Each message has about 65 tokens, so all of them
/// together are too few to cause a flush before the measured eviction.
const EVICTED_MESSAGES: usize = 48;
/// Body size of every call in bytes.
pub(crate) const BODY_BYTES: usize = 300;

/// A kind of call that the benchmark measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Append,
    StoreCore,
    Evict,
}

impl Tool {
    /// Returns the name of the call in the API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Append => "append_fifo",
            Self::StoreCore => "store_core",
            Self::Evict => "evict_fifo",
        }
    }
}

/// Returns a body of [`BODY_BYTES`] with plain words. Each number gives a different text.
fn body(number: usize, before: &str, after: &str) -> Vec<u8> {
    const WORDS: &str = "the harbour we planned morning boat with paint rope before \
                         and seventeen engine tide was left again letter north while";
    let words: Vec<&str> = WORDS.split(' ').collect();
    let room = BODY_BYTES - before.len() - after.len();
    let mut text = format!("{number}");
    let mut next = number as u64;
    while text.len() < room {
        // Knuth's MMIX generator of random numbers: equal values of `number` give equal texts in
        // every run.
        next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push(' ');
        text.push_str(words[(next >> 33) as usize % words.len()]);
    }
    text.truncate(room);
    format!("{before}{text}{after}").into_bytes()
}

/// Returns the body of an append. For comparison, the benchmark also sends these bytes to the echo,
/// and appends these bytes to a log file.
pub(crate) fn append_body(number: usize) -> Vec<u8> {
    body(number, r#"{"message":""#, r#"","role":"user"}"#)
}

fn store_body(number: usize) -> Vec<u8> {
    body(number, r#"{"block_id":"human","content":""#, r#""}"#)
}

/// The calls of one client. The client has a separate agent, sends a new idempotency key with each
/// call, and accepts any revision.
pub(crate) struct Calls {
    agent: Agent,
    tool: Tool,
}

impl Calls {
    /// Creates the client's agent.
    pub(crate) fn new(socket: &Path, name: &str, tool: Tool) -> Result<Self, Fault> {
        let mut agent = Agent::connect(socket, name)?;
        agent.create(if tool == Tool::Evict { WINDOW_SMALL } else { WINDOW_WIDE })?;
        Ok(Self { agent, tool })
    }

    /// Prepares the next call: before an eviction, appends messages to the queue.
    pub(crate) fn prepare(&mut self) -> Result<(), Fault> {
        if self.tool == Tool::Evict {
            for _ in 0..EVICTED_MESSAGES {
                let body = append_body(self.agent.calls);
                self.agent.call(Tool::Append.name(), &body, Some("*"))?;
            }
        }
        Ok(())
    }

    /// Makes one call and returns the duration of the call.
    pub(crate) fn make(&mut self) -> Result<Duration, Fault> {
        let number = self.agent.calls + 1;
        let body = match self.tool {
            Tool::Append => append_body(number),
            Tool::StoreCore => store_body(number),
            Tool::Evict => br#"{"target_tokens":2048}"#.to_vec(),
        };
        let (took, answer) = self.agent.call(self.tool.name(), &body, Some("*"))?;
        if self.tool == Tool::Evict {
            let answer: Value = serde_json::from_slice(answer)?;
            if answer["result"]["evicted_count"].as_u64().unwrap_or(0) == 0 {
                return Err(format!("an eviction evicted no message: {answer}").into());
            }
        }
        Ok(took)
    }

    /// Returns a function that prepares and makes one call.
    pub(crate) fn operation(mut self) -> Operation {
        Box::new(move || {
            self.prepare()?;
            self.make()
        })
    }
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
