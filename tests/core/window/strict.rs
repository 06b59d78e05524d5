//! Tests that strict chat templates accept every window in the strict form, and that its parts cost
//! what its messages cost.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};
use vctx_core::error::Code;
use vctx_core::memory::form::Form;
use vctx_core::memory::message::{Kind, Message, Role};
use vctx_core::memory::receipt_check::ReceiptCheck;
use vctx_core::memory::strict::{LINES, filler_tokens};
use vctx_core::memory::tokens::message_cost;
use vctx_core::memory::{Encoding, TokenCounter};
use vctx_core::policy::{CallPlace, paired_with};
use vctx_core::text::Tiktoken;
use vctx_core::tools::{Call, PostEvent, decode_as};
use vctx_core::window::{assemble, tokens};

use crate::policy::provider;
use crate::sample;
use crate::world::World;

/// A fast counter with the two properties on which the strict form depends: a line that begins a
/// part costs as much as a message, and no token goes across a line end before `[` or `#`.
struct Parts;

impl TokenCounter for Parts {
    fn encoding(&self) -> Encoding {
        Encoding::O200kBase
    }

    fn count(&self, text: &str) -> u64 {
        let line = |line: &str| match line {
            "user" | "assistant" | "system" | "tool" => 1,
            line if LINES.contains(&line) => 4,
            line => line.len().div_ceil(4) as u64,
        };
        text.split_inclusive('\n').map(line).sum()
    }
}

static O200K: LazyLock<Tiktoken> = LazyLock::new(|| Tiktoken::new(Encoding::O200kBase));
static CL100K: LazyLock<Tiktoken> = LazyLock::new(|| Tiktoken::new(Encoding::Cl100kBase));

/// Texts that a template, or the count of joined texts, could take badly.
const TEXTS: [&str; 10] = [
    "boat",
    "boat\n",
    "/boat",
    "\n\nboat",
    "\r\n",
    "  ",
    "[the user]\nboat",
    "# boat)",
    "The boat 🦀 costs 14.",
    "[2020-01-01 Wed] boat\n ",
];

/// A step of a random history.
#[derive(Clone, Debug)]
enum Act {
    Say { role: &'static str, text: usize, named: bool },
    Call { ids: Vec<&'static str>, text: usize },
    Answer { id: &'static str, text: usize },
    Event { class: &'static str, text: usize },
    Search,
    Evict(u64),
    Forget(usize),
    Form(bool),
    Block { text: usize, deletes: bool },
    System(&'static str),
}

fn act() -> impl Strategy<Value = Act> {
    let text = || 0..TEXTS.len();
    let id = || prop::sample::select(vec!["A", "B", "C"]);
    let role = prop::sample::select(vec!["user", "user", "assistant", "assistant", "system"]);
    let class = prop::sample::select(vec!["user", "system"]);
    prop_oneof![
        8 => (role, text(), any::<bool>())
            .prop_map(|(role, text, named)| Act::Say { role, text, named }),
        5 => (prop::collection::btree_set(id(), 1..3), text())
            .prop_map(|(ids, text)| Act::Call { ids: ids.into_iter().collect(), text }),
        6 => (id(), text()).prop_map(|(id, text)| Act::Answer { id, text }),
        2 => (class, text()).prop_map(|(class, text)| Act::Event { class, text }),
        1 => Just(Act::Search),
        1 => (0..900_u64).prop_map(Act::Evict),
        3 => any::<usize>().prop_map(Act::Forget),
        1 => any::<bool>().prop_map(Act::Form),
        1 => (text(), any::<bool>()).prop_map(|(text, deletes)| Act::Block { text, deletes }),
        1 => prop::sample::select(vec!["", "You are Ada."]).prop_map(Act::System),
    ]
}

/// Forgets a message with the results of its calls, as the steps of a request to forget do.
fn forget(world: &mut World, at: usize) {
    let stands = |m: &Message| m.kind.queued() && m.forgotten_at.is_none();
    let live: Vec<u64> = world.messages.iter().filter(|m| stands(m)).map(|m| m.seq).collect();
    let Some(seq) = live.get(at.checked_rem(live.len()).unwrap_or(0)).copied() else { return };
    let places: Vec<CallPlace> = world.messages.iter().map(CallPlace::from).collect();
    let gone: Vec<u64> = paired_with(seq, &places).into_iter().chain([seq]).collect();
    let head_seq = world.core.queue.head_seq;
    for message in world.messages.iter_mut().filter(|m| gone.contains(&m.seq) && stands(m)) {
        if message.seq >= head_seq {
            let queue = &mut world.core.queue;
            queue.count -= u64::from(message.frame_tokens == 0);
            queue.tokens -= message.token_estimate - message.frame_tokens;
        }
        message.token_estimate = message.frame_tokens;
        message.expired_at = Some("now".into());
        message.forgotten_at.clone_from(&message.expired_at);
        message.content.clear();
        message.meta.clear();
        message.salt.clear();
        message.stamp = None;
    }
    world.core.forgotten.messages += gone.len() as u64;
    if let Some(calls) = &mut world.core.open_calls {
        calls.retain(|call| !gone.contains(&call.seq));
    }
}

fn append(role: &str, text: usize, more: (&str, Value)) -> Value {
    let mut message = json!({"content": TEXTS[text]});
    message[more.0] = more.1;
    json!({"role": role, "message": message})
}

fn run(world: &mut World, act: Act) {
    let done = match act {
        Act::Say { role, text, named: false } => {
            world.call("append_fifo", json!({"role": role, "message": TEXTS[text]}))
        }
        Act::Say { role, text, named: true } => {
            world.call("append_fifo", append(role, text, ("name", "/Bea".into())))
        }
        Act::Call { ids, text } => {
            let function = json!({"name": "f", "arguments": "{}"});
            let one = |id: &&str| json!({"id": id, "type": "function", "function": function});
            let calls: Value = ids.iter().map(one).collect();
            let mut call = append("assistant", text, ("tool_calls", calls));
            if text < 4 {
                call["message"]["content"] = "".into();
            }
            world.call("append_fifo", call)
        }
        Act::Answer { id, text } => {
            world.call("append_fifo", append("tool", text, ("tool_call_id", id.into())))
        }
        Act::Event { class, text } => {
            let event = json!({"class": class, "content": TEXTS[text]});
            let event: PostEvent = decode_as(event.as_object().cloned().unwrap()).unwrap();
            world.run(&Call::from(event.checked().unwrap()))
        }
        Act::Search => world.call("search_recall", json!({"query": "boat"})),
        Act::Evict(target) => world.call("evict_fifo", json!({"target_tokens": target})),
        Act::Forget(at) => {
            forget(world, at);
            return;
        }
        Act::Form(is_strict) => {
            let form = if is_strict { "strict" } else { "2" };
            world.patch(json!({"form": form}))
        }
        Act::Block { deletes: true, .. } => {
            let block = json!({"block_id": "b", "content": "", "policy": {"mode": "delete"}});
            world.call("store_core", block)
        }
        Act::Block { text, deletes: false } => {
            world.call("store_core", json!({"block_id": "b", "content": TEXTS[text]}))
        }
        Act::System(text) => world.patch(json!({"system": text})),
    };
    if let Err(error) = done {
        let expected = [Code::InvalidArgument, Code::TokenBudgetExceeded, Code::BlockNotFound];
        assert!(expected.contains(&error.code), "{error}");
    }
}

/// Checks the window: what it costs, who speaks in it, and what its receipt proves.
fn check(world: &World) {
    let queue = world.queue();
    assert_eq!(queue.len() as u64, world.core.queue.count, "the messages of the queue");
    let window = assemble(&world.core, &queue);
    let cost: u64 = window.messages.iter().map(|m| message_cost(world.counter, m)).sum();
    assert_eq!(cost + 3, tokens(&world.core).occupancy, "{:#?}", window.messages);
    let answer = json!({"agent": "ada", "manifest": window.manifest, "messages": window.messages,
        "context_digest": window.context_digest});
    let mut check = ReceiptCheck::new(&answer).unwrap();
    world.messages.iter().for_each(|m| check.message(&Value::Object(m.public())));
    assert_eq!(check.finish().mismatches, [], "{answer:#}");
    if world.core.form != Form::Strict {
        return;
    }
    assert_eq!(provider::strict_fault(&window.messages), None, "{:#?}", window.messages);
    let speaks = |m: &&Message| m.kind != Kind::Copy && m.forgotten_at.is_none();
    let newest = queue.iter().rfind(|m| m.role == Role::User && speaks(m));
    // A filler stays even if the calls before it are forgotten.
    let answers = |m: &Message| m.role == Role::Assistant || m.frame_tokens > 0;
    let answered = |user: &Message| {
        queue.iter().any(|m| m.seq > user.seq && answers(m) && m.kind != Kind::Copy)
    };
    if let Some(user) = newest.filter(|user| !answered(user)) {
        let last = window.messages.iter().rfind(|m| m["role"] == "user").unwrap();
        let text = last["content"].as_str().unwrap();
        assert!(text.contains(user.content.trim()), "{text:?} without {:?}", user.content);
        assert!(text.contains("Now: "), "the clock stands with the newest user message");
    }
}

fn history(counter: &'static dyn TokenCounter, acts: Vec<Act>) {
    let mut world = World::with(1_500, "You are Ada.", Form::Strict, counter);
    world.checks = false;
    world.core.encoding = counter.encoding();
    for act in acts {
        run(&mut world, act);
        check(&world);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(sample(10_000)))]

    #[test]
    fn strict_templates_accept_every_window(acts in prop::collection::vec(act(), 1..40)) {
        history(&Parts, acts);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(sample(500)))]

    #[test]
    fn the_parts_of_a_window_cost_what_its_messages_cost(
        acts in prop::collection::vec(act(), 1..40),
    ) {
        history(&*O200K, acts.clone());
        history(&*CL100K, acts);
    }
}

#[test]
fn a_line_that_begins_a_part_costs_as_much_as_a_message() {
    for counter in [&*O200K, &*CL100K] {
        for line in LINES {
            assert_eq!(counter.count(line), 4, "{line:?} in {}", counter.encoding());
        }
        for role in ["system", "user", "assistant"] {
            assert_eq!(message_cost(counter, &json!({"role": role, "content": ""})), 4);
        }
        assert_eq!(filler_tokens(counter), 5, "no answer with a text costs less");
    }
}

/// Returns the roles and contents of the window, without the system message.
fn told(world: &World) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let messages = assemble(&world.core, &world.queue()).messages;
    messages[1..].iter().map(|m| (text(&m["role"]), text(&m["content"]))).collect()
}

#[test]
fn a_turn_with_calls_reads_like_this() {
    let mut world = World::with(8_000, "You are Ada.", Form::Strict, &Parts);
    let function = json!({"name": "tide", "arguments": "{}"});
    let calls = json!([{"id": "A", "type": "function", "function": function}]);
    for (role, message) in [
        ("user", json!({"content": "When is high tide?", "name": "Bea"})),
        ("assistant", json!({"content": "", "tool_calls": calls})),
        ("tool", json!({"content": "At seven.", "tool_call_id": "A"})),
        ("system", json!("The run was stopped.")),
        ("user", json!("And tomorrow?")),
    ] {
        world.call("append_fifo", json!({"role": role, "message": message})).unwrap();
    }
    let expected = [
        (
            "user",
            "[not said by the user]\nThe conversation goes on from 1970-01-01 Thu:\n\
             [the user]\n[1970-01-01 Thu 00:00]\nBea: When is high tide?\n\
             [system event]\n[not said by the user]\nThe run was stopped.\n",
        ),
        ("assistant", ""),
        ("tool", "At seven."),
        ("assistant", ".\n"),
        (
            "user",
            "[not said by the user]\nNow: 1970-01-01 Thu 00:00 UTC\n[the user]\nAnd tomorrow?\n",
        ),
    ];
    let expected = expected.map(|(role, text)| (role.to_owned(), text.to_owned()));
    assert_eq!(told(&world), expected);
}
