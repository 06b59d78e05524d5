//! Tests tool calls and their results in a rendered window: a provider accepts the window,
//! whichever messages were appended and evicted.

use proptest::prelude::*;
use serde_json::{Value, json};
use vctx_core::error::Code;
use vctx_core::memory::capture::Capture;
use vctx_core::memory::message::{Message, outside_fence_of};
use vctx_core::policy::{Answers, Draft, Flush, Question, Step, Stop, SummaryAnswer};
use vctx_core::window::{Section, assemble, tokens};

use super::{World, said};
use crate::share;

fn call(ids: &[&str]) -> Value {
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "slow_job", "arguments": "{}"}}))
        .collect();
    json!({"message": {"content": "", "tool_calls": calls}, "role": "assistant"})
}

fn result(id: &str, text: &str) -> Value {
    json!({"message": {"content": text, "tool_call_id": id}, "role": "tool"})
}

/// Returns the messages of the queue as the window renders them, without the line before them.
fn shown(world: &World) -> Vec<Value> {
    let standing = |m: &&Message| m.seq >= world.core.queue.head_seq && m.kind.queued();
    let queue: Vec<Message> = world.messages.iter().filter(standing).cloned().collect();
    let window = assemble(&world.core, &queue);
    let items = window.manifest["items"].as_array().expect("items").clone();
    let pairs = items.into_iter().zip(window.messages);
    pairs
        .filter(|(item, _)| item["section"] == "fifo" && item["id"] != "opening")
        .map(|(_, message)| message)
        .collect()
}

/// Returns each rendered message as its role and a text that identifies it.
fn told(world: &World) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |m: Value| {
        let calls = m["tool_calls"].as_array().into_iter().flatten();
        let calls: Vec<String> = calls.map(|call| text(&call["id"])).collect();
        let tail = if calls.is_empty() { text(&m["content"]) } else { calls.join(",") };
        (text(&m["role"]), tail)
    };
    shown(world).into_iter().map(one).collect()
}

fn pair(role: &str, text: &str) -> (String, String) {
    (role.to_owned(), text.to_owned())
}

const NO_RESULT: &str = "[no result yet]";

/// Returns how the window shows a late result: below a heading, between two lines with an id.
fn set_apart(world: &World, heading: &str, text: &str) -> String {
    let message = world.messages.iter().find(|m| m.content == text).unwrap();
    let fence = message.meta["outside"].as_str().unwrap();
    assert!(fence == outside_fence_of(&message.key) && fence.len() == 9);
    format!(
        "{heading}\n[text from outside {fence}; not said by the user]\n{text}\n[end of text from outside {fence}]"
    )
}

#[test]
fn a_result_whose_call_has_left_is_no_message_of_a_tool() {
    let mut world = World::new(1000, "");
    world.call("append_fifo", call(&["A"])).unwrap();
    while world.core.queue.head_seq == 1 {
        world.call("append_fifo", said(30)).unwrap();
    }
    world.call("append_fifo", result("A", "It rains.")).unwrap();
    let last = shown(&world).pop().unwrap();
    let heading = "[late result of tool call A: no call in view waits for it]";
    let text = set_apart(&world, heading, "It rains.");
    assert_eq!(last, json!({"role": "system", "content": text}));
    assert_eq!(world.messages.last().unwrap().content, "It rains.", "kept as it came");
}

#[test]
fn a_second_result_and_one_that_names_no_call_stand_alone() {
    let mut world = World::new(1000, "");
    world.call("append_fifo", call(&["A"])).unwrap();
    world.call("append_fifo", result("A", "first")).unwrap();
    world.call("append_fifo", said(10)).unwrap();
    world.call("append_fifo", result("A", "second")).unwrap();
    world.call("append_fifo", json!({"message": "third", "role": "tool"})).unwrap();
    let heading = "[late result of tool call A: no call in view waits for it]";
    let second = &*set_apart(&world, heading, "second");
    let third = &*set_apart(&world, "[result of a tool call that is not in view]", "third");
    let told = told(&world);
    assert_eq!(told[..2], [pair("assistant", "A"), pair("tool", "first")]);
    assert_eq!(told[3..], [pair("system", second), pair("system", third)]);
}

#[test]
fn an_id_that_no_call_ever_had_is_refused_by_its_name() {
    let mut world = World::new(1000, "");
    world.call("append_fifo", call(&["A"])).unwrap();
    let before = world.core.clone();
    let refused = world.call("append_fifo", result("B", "x")).unwrap_err();
    assert_eq!(refused.code, Code::InvalidArgument);
    assert!(refused.message.contains("`B`"), "{}", refused.message);
    assert_eq!(world.core, before);
    // A captured call still runs if its result cannot become a tool message, because the effect of
    // the call matters more than the form of the message.
    world.capture = Some(Capture::answering("B"));
    world.call("store_core", json!({"block_id": "b", "content": "x"})).unwrap();
    let (role, text) = told(&world).pop().unwrap();
    assert_eq!(role, "system");
    assert!(text.starts_with("[late result of tool call B:"), "{text}");
}

#[test]
fn a_call_that_waits_has_something_in_the_place_of_its_result() {
    let mut world = World::new(1000, "");
    world.call("append_fifo", call(&["A", "B"])).unwrap();
    world.call("append_fifo", said(10)).unwrap();
    let waiting = world.occupancy();
    assert_eq!(
        told(&world)[..3],
        [pair("assistant", "A,B"), pair("tool", NO_RESULT), pair("tool", NO_RESULT)]
    );
    world.call("append_fifo", result("B", NO_RESULT)).unwrap();
    assert_eq!(world.occupancy(), waiting, "a result of the same text costs the same");
    let ids: Vec<Value> = shown(&world).iter().map(|m| m["tool_call_id"].clone()).collect();
    assert_eq!(ids[1..3], ["B", "A"], "what came before what did not");
    world.call("append_fifo", result("A", "sun")).unwrap();
    assert_eq!(
        told(&world)[..3],
        [pair("assistant", "A,B"), pair("tool", NO_RESULT), pair("tool", "sun")]
    );
    assert_eq!(world.core.open_calls, Some(Vec::new()));
}

#[test]
fn a_result_answers_the_newest_call_of_its_id() {
    let mut world = World::new(1000, "");
    world.call("append_fifo", call(&["A"])).unwrap();
    world.call("append_fifo", call(&["A"])).unwrap();
    world.call("append_fifo", result("A", "sun")).unwrap();
    world.call("append_fifo", result("A", "rain")).unwrap();
    let heading = "[late result of tool call A: no call in view waits for it]";
    let late = &*set_apart(&world, heading, "rain");
    let expected = [
        pair("assistant", "A"),
        pair("tool", NO_RESULT),
        pair("assistant", "A"),
        pair("tool", "sun"),
        pair("system", late),
    ];
    assert_eq!(told(&world), expected);
}

#[test]
fn a_call_that_waits_stays_for_as_long_as_the_window_holds_the_rest() {
    let mut world = World::new(1000, "");
    world.call("append_fifo", call(&["A"])).unwrap();
    let mut fullest = 0;
    while world.core.queue.head_seq == 1 {
        fullest = world.occupancy() - tokens(&world.core)[Section::Notices];
        world.call("append_fifo", said(40)).unwrap();
    }
    assert!(fullest + 40 > 1000, "{fullest} were in use, and the next message would have fitted");
    assert!(world.occupancy() <= 500, "{}", world.occupancy());
}

#[test]
fn a_core_of_before_cores_knew_what_waits_still_takes_the_result() {
    let mut world = World::new(1000, "");
    world.call("append_fifo", call(&["A"])).unwrap();
    world.core.open_calls = None;
    world.call("append_fifo", result("A", "sun")).unwrap();
    assert_eq!(told(&world), [pair("assistant", "A"), pair("tool", "sun")]);
}

/// Returns the range of messages for which the policy requests a summary.
fn summary_of(stop: Stop) -> (u64, u64, u64, u64) {
    match stop {
        Stop::Ask(question) => match *question {
            Question::Summary { of, .. } => of,
            other => panic!("{other:?}"),
        },
        Stop::Fail(error) => panic!("{error}"),
    }
}

#[test]
fn a_cut_that_a_slow_summary_was_asked_for_parts_no_pair_that_came_together_meanwhile() {
    let mut world = World::new(4000, "");
    world.call("append_fifo", call(&["A"])).unwrap();
    for _ in 0..70 {
        world.call("append_fifo", said(20)).unwrap();
    }
    let flush = Flush { always: true, target: 1200, summarize: true, may_wait: true };
    let queue = |world: &World| Some(world.messages.clone());
    let decide = |world: &World, answers: &Answers| {
        let draft = Draft::new(world.around("evict_fifo"), &world.core);
        draft.finish(flush, answers, serde_json::Map::new())
    };
    let asked = decide(&world, &Answers { queue: queue(&world), ..Answers::default() });
    let of = summary_of(asked.unwrap_err());
    assert!(of.1 > 1, "the call leaves");
    world.call("append_fifo", result("A", "sun")).unwrap();
    for _ in 0..20 {
        world.call("append_fifo", said(20)).unwrap();
    }
    let content = "It was long.".to_owned();
    let summary = Some(SummaryAnswer { of, content, details: serde_json::Map::new() });
    match decide(&world, &Answers { queue: queue(&world), summary, ..Answers::default() }) {
        Err(stop) => assert!(summary_of(stop).1 > 72),
        // `World::write` checks every state that it writes.
        Ok(Step::Write(change)) => world.write(&change),
        other => panic!("{other:?}"),
    }
}

/// Generates a random step of a conversation with tool calls.
fn any_step() -> impl Strategy<Value = (&'static str, Value, Option<Capture>)> {
    let id = || prop::sample::select(vec!["A", "B", "C", "D"]);
    let append = |arguments: Value| ("append_fifo", arguments, None);
    let block = |text: String| json!({"block_id": "b", "content": text});
    prop_oneof![
        4 => prop::collection::btree_set(id(), 1..3)
            .prop_map(move |ids| append(call(&ids.into_iter().collect::<Vec<_>>()))),
        4 => (id(), "[a-z ]{1,200}").prop_map(move |(id, text)| append(result(id, &text))),
        6 => (4..120u64).prop_map(move |cost| append(said(cost))),
        1 => "[a-z]{1,40}"
            .prop_map(move |text| append(json!({"message": text, "role": "tool"}))),
        1 => (0..600u64).prop_map(|t| ("evict_fifo", json!({"target_tokens": t}), None)),
        2 => (id(), "[a-z]{1,60}")
            .prop_map(move |(id, text)| ("store_core", block(text), Some(Capture::answering(id)))),
        1 => "[a-z]{1,60}".prop_map(move |text| {
            let pair = Capture::Pair { name: "store_core".into(), arguments: "{}".into() };
            ("store_core", block(text), Some(pair))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(share(128)))]

    #[test]
    fn no_row_of_calls_and_results_makes_a_window_that_a_provider_refuses(
        window in 300..1200u64,
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        let mut world = World::new(window, "");
        for (tool, arguments, capture) in steps {
            world.capture = capture;
            if let Err(error) = world.call(tool, arguments) {
                let expected = [Code::TokenBudgetExceeded, Code::InvalidArgument];
                prop_assert!(expected.contains(&error.code), "{error}");
            }
        }
        let late = |m: &Message| m.meta.contains_key("late");
        let said = world.messages.iter().filter(|m| m.role == vctx_core::memory::message::Role::Tool);
        prop_assert!(said.clone().all(|m| late(m) || m.tool_call_id().is_some()));
    }
}
