//! Tests that a reader of a rendered window knows the day of each message.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use vctx_core::clock::iso8601;
use vctx_core::memory::message::{Kind, Message};
use vctx_core::window::assemble;

use crate::sample;
use crate::world::World;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A step of a random history.
#[derive(Clone, Debug)]
enum Act {
    Say { role: usize, said: usize, text: usize },
    Call,
    Answer { said: usize },
    Evict(u64),
    Search,
}

/// The client's time of a message: none, of another day, or not a time.
const SAID: [&str; 9] = [
    "",
    "2026-05-05T09:14:00Z",
    "2026-05-05T23:50:00Z",
    "2026-05-06",
    "2024-02-29 08:00",
    "1:56 pm on 8 May, 2023",
    "2026-02-31",
    "soon",
    "2026-05-06T01:10:00+03:00",
];

/// The day of each text of `SAID`, or an empty text if the message has the day of the server.
const DAYS: [&str; 9] = [
    "",
    "2026-05-05",
    "2026-05-05",
    "2026-05-06",
    "2024-02-29",
    "2023-05-08",
    "",
    "",
    "2026-05-05",
];

/// Beginnings of texts, some of which look like times of the window.
const TEXTS: [&str; 5] =
    ["boat", "[2020-01-01 Wed] boat", " [2020-01-01 Wed 10:00]\nboat", "[10:00]\nboat", "\n[boat]"];

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..3_usize, 0..SAID.len(), 0..TEXTS.len())
            .prop_map(|(role, said, text)| Act::Say { role, said, text }),
        1 => Just(Act::Call),
        2 => (0..SAID.len()).prop_map(|said| Act::Answer { said }),
        1 => (0..600_u64).prop_map(Act::Evict),
        1 => Just(Act::Search),
    ]
}

/// Reads the day of each message from a rendered window, as a model could: the line before the
/// conversation gives the first day, and the first line of a message a new one. The day of a tool's
/// result counts for the result alone.
fn read(messages: &[Value]) -> BTreeMap<String, String> {
    let (mut day, mut days) = (String::new(), BTreeMap::new());
    for message in messages {
        let text = message["content"].as_str().unwrap_or_default();
        if let Some(rest) = text.strip_prefix("The conversation goes on from ") {
            day = rest[..10].to_owned();
        }
        for line in text.lines().filter(|line| line.starts_with('#')) {
            let (row, told) = line[1..].split_once(", ").unwrap();
            let seq = row.split(' ').next().unwrap();
            days.insert(format!("copy of {seq}"), told[..10].to_owned());
        }
        let first = text.lines().next().unwrap_or_default();
        let own = first.strip_prefix('[').filter(|rest| rest.as_bytes().get(4) == Some(&b'-'));
        let is_result = message["role"] == "tool";
        let own = own.map(|rest| rest[..10].to_owned());
        if let Some(own) = own.clone().filter(|_| !is_result) {
            day = own;
        }
        if let Some(tag) = text.split_whitespace().find(|word| word.starts_with("tag")) {
            days.insert(tag.to_owned(), own.unwrap_or_else(|| day.clone()));
        }
    }
    days
}

/// Returns a call that appends a message with a text that contains `tag`.
fn message(role: &str, said: usize, text: &str, call: Option<&str>) -> Value {
    let mut parts = json!({"content": text});
    if !SAID[said].is_empty() {
        parts["said_at"] = SAID[said].into();
    }
    if let Some(call) = call {
        parts["tool_call_id"] = call.into();
    }
    json!({"role": role, "message": parts})
}

fn check(world: &World, days: &BTreeMap<String, String>) {
    let shown = |m: &&Message| m.seq >= world.core.queue.head_seq && m.kind.queued();
    let queue: Vec<Message> = world.messages.iter().filter(shown).cloned().collect();
    let read = read(&assemble(&world.core, &queue).messages);
    let tag = |m: &Message| {
        m.content.split_whitespace().find(|w| w.starts_with("tag")).unwrap().to_owned()
    };
    for message in queue.iter().filter(|m| !m.content.is_empty()) {
        let tag = tag(message);
        let name = match message.kind {
            Kind::Copy => format!("copy of {}", message.meta["recalled"]["seq"]),
            _ => tag.clone(),
        };
        assert_eq!(read.get(&name), days.get(&tag), "{name}: {}", message.content);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(sample(10_000)))]

    #[test]
    fn the_day_of_each_message_can_be_read_from_the_window(
        acts in prop::collection::vec((act(), 0..3 * DAY_MS), 1..40),
    ) {
        let mut world = World::new(900, "You are Ada.");
        world.checks = false;
        let (mut days, mut open) = (BTreeMap::new(), Vec::new());
        for (number, (act, later)) in acts.into_iter().enumerate() {
            world.unix_ms += later;
            let tag = format!("tag{number}");
            let now = iso8601(world.unix_ms + 1)[..10].to_owned();
            let day = |said: usize| match DAYS[said] {
                "" => now.clone(),
                day => day.to_owned(),
            };
            let call = match act {
                Act::Say { role, said, text } => {
                    days.insert(tag.clone(), day(said));
                    let role = ["user", "assistant", "system"][role];
                    message(role, said, &format!("{} {tag}", TEXTS[text]), None)
                }
                Act::Call => {
                    let calls = json!([{"id": tag, "function": {"name": "f", "arguments": "{}"}}]);
                    open.push(tag);
                    json!({"role": "assistant", "message": {"content": "", "tool_calls": calls}})
                }
                Act::Answer { said } => {
                    let Some(call) = open.pop() else { continue };
                    days.insert(tag.clone(), day(said));
                    message("tool", said, &format!("boat {tag}"), Some(&call))
                }
                Act::Evict(target) => {
                    world.call("evict_fifo", json!({"target_tokens": target})).unwrap();
                    check(&world, &days);
                    continue;
                }
                Act::Search => {
                    world.call("search_recall", json!({"query": "boat"})).unwrap();
                    check(&world, &days);
                    continue;
                }
            };
            world.call("append_fifo", call).unwrap();
            check(&world, &days);
        }
    }
}
