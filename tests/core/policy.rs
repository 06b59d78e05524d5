//! Tests the rules of the token budget on an agent in memory: warnings, flushes, evictions, and
//! random calls.

use proptest::prelude::*;
use serde_json::{Value, json};
use vctx_core::clock::iso8601;
use vctx_core::error::Code;
use vctx_core::memory::event::EventType;
use vctx_core::memory::message::Kind;
use vctx_core::policy::{Depends, changed_since};
use vctx_core::window::tokens;

use super::world::World;
use crate::share;

mod appended;
mod blocks;
mod captured;
mod chains;
mod heartbeat;
mod paired;
mod passages;
pub(crate) mod provider;
mod recall;
mod removal;
mod summary;
mod tainted;
mod turn;

fn said(tokens: u64) -> Value {
    // The frame of a message costs 3 tokens, and the role `user` costs 1 token, so this message
    // costs exactly `tokens` tokens.
    json!({"message": "x".repeat(usize::try_from((tokens - 4) * 4).unwrap()), "role": "user"})
}

#[test]
fn a_flush_warns_first_and_ends_at_half() {
    let mut world = World::new(1000, "Be kind.");
    while world.core.counters.flushes == 0 {
        let before = world.occupancy();
        world.call("append_fifo", said(20)).unwrap();
        let stands = world.core.notices.iter().any(|n| n.kind == "pressure");
        assert_eq!(stands, world.occupancy() >= 700, "from {before} to {}", world.occupancy());
    }
    assert!(world.occupancy() <= 500, "{}", world.occupancy());
    assert_eq!(
        (
            world.count(EventType::Warning),
            world.count(EventType::Flush),
            world.count(EventType::Summarize)
        ),
        (1, 1, 1)
    );
}

#[test]
fn each_upward_crossing_warns_once() {
    let mut world = World::new(1000, "");
    for _ in 0..200 {
        world.call("append_fifo", said(23)).unwrap();
    }
    assert_eq!(world.core.counters.warnings, world.count(EventType::Warning) as u64);
    let standing = u64::from(world.core.notices.iter().any(|n| n.kind == "pressure"));
    assert_eq!(world.core.counters.warnings, world.core.counters.flushes + standing);
    assert!(world.core.counters.flushes > 5);
}

#[test]
fn one_token_over_the_window_is_short_of_one() {
    let mut world = World::new(1000, "");
    let free = tokens(&world.core).free;
    let frame = {
        let mut probe = World::new(1000, "");
        let answer = probe.call("store_core", json!({"block_id": "b", "content": ""})).unwrap();
        answer["result"]["token_estimate"].as_u64().unwrap()
    };
    // The text of a block is counted together with its frame, so the test searches for the largest
    // text that fits.
    let fits = |length: usize| {
        let mut probe = World::new(1000, "");
        probe.call("store_core", json!({"block_id": "b", "content": "x".repeat(length)}))
    };
    let mut length = usize::try_from((free - frame) * 4).unwrap() - 64;
    while fits(length + 1).is_ok() {
        length += 1;
    }
    let before = world.core.clone();
    world.call("store_core", json!({"block_id": "b", "content": "x".repeat(length)})).unwrap();
    assert_eq!(tokens(&world.core).free, 0);
    let error = fits(length + 1).unwrap_err();
    assert_eq!(error.code, Code::TokenBudgetExceeded);
    assert_eq!(error.fields["required_headroom"], 1);
    let mut unchanged = World::new(1000, "");
    unchanged
        .call("store_core", json!({"block_id": "b", "content": "x".repeat(length + 1)}))
        .unwrap_err();
    assert_eq!(unchanged.core, before);
}

#[test]
fn pins_take_a_quarter_and_not_one_token_more() {
    let pin = |length: usize, pinned: bool| json!({"block_id": "b", "content": "x".repeat(length), "policy": {"pinned": pinned}});
    let mut length = 4 * 2048;
    while World::new(8192, "").call("store_core", pin(length, true)).is_err() {
        length -= 1;
    }
    let mut world = World::new(8192, "");
    let answer = world.call("store_core", pin(length, true)).unwrap();
    assert_eq!(answer["result"]["token_estimate"], 2048);
    let error = World::new(8192, "").call("store_core", pin(length + 4, true)).unwrap_err();
    assert_eq!(error.code, Code::PinLimitExceeded);
    let mut later = World::new(8192, "");
    later.call("store_core", pin(length + 4, false)).unwrap();
    let error = later.call(
        "store_core",
        json!({"block_id": "b", "content": "x".repeat(length + 4), "policy": {"pinned": true}}),
    );
    assert_eq!(error.unwrap_err().code, Code::PinLimitExceeded, "pinning what is there counts too");
}

#[test]
fn a_message_larger_than_the_window_changes_nothing() {
    let mut world = World::new(1000, "");
    world.call("append_fifo", said(50)).unwrap();
    let before = world.core.clone();
    let error = world.call("append_fifo", said(1001)).unwrap_err();
    assert_eq!(error.code, Code::TokenBudgetExceeded);
    // The start of the reply costs 3 tokens, the clock 14, and the line before the queue 16. All
    // other messages could be evicted.
    assert_eq!(error.fields["required_headroom"], 34);
    assert_eq!(world.core, before);
}

#[test]
fn an_eviction_of_more_than_one_transaction_holds_reaches_its_target_in_parts() {
    let mut world = World::new(30_000, "");
    world.checks = false;
    for _ in 0..4_500 {
        world.call("append_fifo", said(5)).unwrap();
    }
    world.checks = true;
    let before = world.core.clone();
    let error = world.call("append_fifo", said(29_999)).unwrap_err();
    assert_eq!(error.code, Code::TokenBudgetExceeded);
    assert_eq!(world.core, before, "a call that is refused in the end makes no part first");

    world.call("evict_fifo", json!({"target_tokens": 6_000})).unwrap();
    assert!(world.occupancy() <= 6_000, "{}", world.occupancy());
    assert!(world.core.counters.flushes > 1);
    assert_eq!(world.logged.len() as u64, world.core.queue.head_seq - 1);
}

#[test]
fn a_target_above_the_warning_counts_the_notice() {
    let mut world = World::new(1000, "");
    while world.occupancy() < 880 {
        world.call("append_fifo", said(10)).unwrap();
    }
    world.call("evict_fifo", json!({"target_tokens": 800, "summarize": false})).unwrap();
    assert!((790..=800).contains(&world.occupancy()), "{}", world.occupancy());
}

#[test]
fn a_removed_block_is_a_change_to_those_who_saw_it() {
    let mut world = World::new(1000, "");
    world.call("store_core", json!({"block_id": "b", "content": "x"})).unwrap();
    let seen = world.core.version;
    let remove = json!({"block_id": "b", "content": "", "policy": {"mode": "delete"}});
    world.call("store_core", remove).unwrap();
    let block = |id: &str| Depends::Block(id.into());
    assert_eq!(changed_since(&world.core, Some(seen), &block("b")), ["block:b"]);
    assert!(changed_since(&world.core, Some(world.core.version), &block("b")).is_empty());
    assert!(changed_since(&world.core, Some(seen), &block("c")).is_empty());
}

#[test]
fn an_eviction_without_summary_leaves_the_summary_alone() {
    let mut world = World::new(2000, "");
    for _ in 0..40 {
        world.call("append_fifo", said(30)).unwrap();
    }
    let before = world.core.queue_head_summary.clone();
    let answer =
        world.call("evict_fifo", json!({"target_tokens": 300, "summarize": false})).unwrap();
    assert!(answer["result"]["evicted_count"].as_u64().unwrap() > 20);
    assert_eq!(world.core.queue_head_summary, before);
    assert!(world.occupancy() <= 300);
}

#[test]
fn a_narrower_window_evicts_and_says_that_the_invariant_was_broken() {
    let mut world = World::new(4000, "");
    for _ in 0..60 {
        world.call("append_fifo", said(40)).unwrap();
    }
    world.patch(json!({"context_window": 1000})).unwrap();
    assert_eq!(world.count(EventType::Error), 1);
    assert!(world.occupancy() <= 500, "{}", world.occupancy());
    let error =
        World::new(4000, &"x".repeat(8000)).patch(json!({"context_window": 1000})).unwrap_err();
    assert_eq!(error.code, Code::WindowTooSmall);
}

#[test]
fn time_never_stands_still_between_two_messages() {
    let mut world = World::new(1000, "");
    world.unix_ms = 9_000;
    world.call("append_fifo", said(10)).unwrap();
    world.unix_ms = 5_000;
    world.call("append_fifo", said(10)).unwrap();
    assert_eq!(world.messages[1].created_at, iso8601(9_002));
}

/// Generates a random tool call.
fn any_call() -> impl Strategy<Value = (&'static str, Value)> {
    let text = prop_oneof!["[a-z ]{0,400}", "\\PC{0,60}", Just("日本語のテキスト🙂".repeat(9))];
    let role = prop_oneof![Just("user"), Just("assistant"), Just("system")];
    let words = text.prop_filter("not empty", |t| !t.is_empty());
    prop_oneof![
        12 => (words.clone(), role).prop_map(|(t, r)| ("append_fifo", json!({"message": t, "role": r}))),
        3 => (0..6u8, words.clone()).prop_map(|(id, t)| {
            let calls = json!([{"id": format!("c{id}"), "type": "function", "function": {"name": "f", "arguments": t}}]);
            ("append_fifo", json!({"message": {"content": "", "tool_calls": calls}, "role": "assistant"}))
        }),
        3 => (0..6u8, words.clone()).prop_map(|(id, t)| {
            ("append_fifo", json!({"message": {"content": t, "tool_call_id": format!("c{id}")}, "role": "tool"}))
        }),
        3 => prop_oneof![3 => Just("continue"), 1 => Just("yield")]
            .prop_map(|state| ("record_heartbeat", json!({"state": state}))),
        2 => (0..4u8, words.clone(), any::<bool>(), any::<bool>()).prop_map(|(id, t, pinned, append)| {
            let mode = if append { "append" } else { "replace" };
            ("store_core", json!({"block_id": format!("b{id}"), "content": t, "policy": {"pinned": pinned, "mode": mode}}))
        }),
        1 => (0..900u64, any::<bool>()).prop_map(|(t, s)| ("evict_fifo", json!({"target_tokens": t, "summarize": s}))),
        1 => words.clone().prop_map(|t| ("write_recall", json!({"entries": [{"content": t}]}))),
        2 => words.prop_map(|t| ("write_recall", json!({"entries": [{"content": format!("boat {t}")}]}))),
        3 => (1..20u64, any::<bool>(), any::<bool>()).prop_map(|(limit, rehydrate, heartbeat)| {
            ("search_recall", json!({"query": "boat", "limit": limit, "rehydrate": rehydrate, "heartbeat": heartbeat}))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(share(48)))]

    #[test]
    fn no_row_of_calls_breaks_the_window_or_loses_a_message(
        window in 400..3000u64,
        calls in prop::collection::vec(any_call(), 1..120),
    ) {
        let mut world = World::new(window, "You are Ada.");
        let mut appended = 0;
        for (tool, arguments) in calls {
            let before = world.core.clone();
            if tool == "search_recall" {
                let flushes = before.counters.flushes;
                let growth = world.call(tool, arguments).unwrap();
                let result = growth.get("result").and_then(Value::as_object).unwrap_or(&growth);
                let grew = i128::from(tokens(&world.core).occupancy) - i128::from(tokens(&before).occupancy);
                prop_assert_eq!(result["tokens_added"].as_i64().map(i128::from), Some(grew));
                // A search may cause an eviction only if the window was already above its flush
                // mark before the search.
                if tokens(&before).occupancy < before.token_budget.flush {
                    prop_assert_eq!(world.core.counters.flushes, flushes, "finding pushes nothing out");
                }
                continue;
            }
            match world.call(tool, arguments) {
                Ok(_) => appended += usize::from(matches!(tool, "append_fifo" | "write_recall")),
                Err(error) => {
                    let expected = [Code::TokenBudgetExceeded, Code::PinLimitExceeded,
                        Code::HeartbeatRateLimited, Code::HeartbeatCooldown];
                    // A tool result for an unknown call is refused.
                    let uncalled = tool == "append_fifo" && error.code == Code::InvalidArgument;
                    // A random text may contain invisible characters, which count as tainted.
                    let tainted = tool == "store_core" && error.code == Code::TaintedContent;
                    prop_assert!(tainted || uncalled || expected.contains(&error.code), "{error}");
                    // A call can be refused after the first part of a flush was written. The call
                    // itself has no effect.
                    prop_assert_eq!(before.chain, world.core.chain.clone());
                }
            }
        }
        let copies = world.messages.iter().filter(|m| m.kind == Kind::Copy).count();
        prop_assert_eq!(world.messages.len() - copies, appended);
        let (started, ended) = (world.count(EventType::HbStart), world.count(EventType::HbEnd));
        prop_assert_eq!(started, ended + usize::from(world.core.heartbeat.chain.is_some()));
    }
}
