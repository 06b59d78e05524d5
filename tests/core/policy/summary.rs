//! Tests that the window always keeps room for the summary.

use proptest::prelude::*;
use serde_json::json;
use vctx_core::error::Code;
use vctx_core::memory::event::EventType;
use vctx_core::memory::form::Form;
use vctx_core::memory::{Encoding, TokenCounter as _};
use vctx_core::policy::SummarySettings;
use vctx_core::text::Tiktoken;
use vctx_core::window::{
    OLD_SUMMARY_PERCENT, Section, opening_tokens, summary_cost, summary_tokens_max,
    summary_tokens_min, tokens,
};

use super::said;
use crate::share;
use crate::world::World;

/// Returns an agent with a summary of facts, and with more facts in the queue than the summary can
/// contain.
fn remembering(window: u64) -> World {
    let mut world = World::new(window, "");
    world.checks = false;
    let mut number = 0;
    while world.core.counters.flushes < 3 || world.core.queue.count < 5 {
        number += 1;
        let (tide, berth, price) = (number * 7, number * 3, number * 11);
        let fact = format!("Captain {tide} sold boat {berth} in Oslo for {price} crowns.");
        world.call("append_fifo", json!({"message": fact, "role": "user"})).unwrap();
    }
    world.checks = true;
    world
}

/// Returns the number of tokens that a call may use if all messages leave the window and the
/// summary shrinks to its minimum.
fn room_beside_summary(world: &World) -> u64 {
    let now = tokens(&world.core);
    let stays = [Section::System, Section::Working, Section::Tools, Section::Clock];
    let fixed: u64 =
        stays.iter().map(|section| now[*section]).sum::<u64>() + opening_tokens(&world.core);
    world.core.token_budget.max - fixed - summary_tokens_min(&world.core)
}

/// Checks that a message of exactly `room` tokens fits, and that a larger message is refused with
/// an error that reports the exact number of missing tokens.
fn fits_to_the_token(world: &mut World, room: u64) {
    let before = world.core.clone();
    for over in [1, 2, 77] {
        let error = world.call("append_fifo", said(room + over)).unwrap_err();
        assert_eq!(error.code, Code::TokenBudgetExceeded);
        assert_eq!(error.fields["required_headroom"], over);
        assert_eq!(world.core, before);
    }
    world.call("append_fifo", said(room)).unwrap();
}

#[test]
fn a_message_that_just_fits_leaves_the_summary_its_room() {
    for window in [1000, 4096, 8192] {
        let mut world = remembering(window);
        let mut firm = 0;
        for _ in 0..6 {
            let old = world.core.queue_head_summary.clone();
            let (room, least) = (room_beside_summary(&world), summary_tokens_min(&world.core));
            assert!(least > window / 25, "there is a summary to lose: {old:?}");
            fits_to_the_token(&mut world, room);
            let new = &world.core.queue_head_summary;
            if old.token_estimate == least {
                firm += 1;
                assert!(new.token_estimate >= least, "{old:?} became {new:?}");
                assert_eq!(tokens(&world.core).free, 0);
            }
            assert!(new.token_estimate * 2 > least, "{old:?} became {new:?}");
            assert_eq!(new.revision, old.revision + 1);
            world.call("append_fifo", said(20)).unwrap();
        }
        assert!(firm >= 5, "{firm} in a window of {window}");
    }
}

#[test]
fn a_full_summary_shrinks_to_its_floor_and_no_further() {
    let mut world = remembering(4096);
    let cap = summary_tokens_max(4096);
    let lines: Vec<String> = (0..200).map(|n| format!("user: berth {n} tide {}", n * 7)).collect();
    world.summariser = Some(lines.join("\n"));
    world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
    world.summariser = None;
    let old = world.core.queue_head_summary.clone();
    let floor = summary_tokens_min(&world.core);
    assert!(old.token_estimate > floor && old.token_estimate <= cap, "{old:?}");
    assert_eq!(floor, cap * OLD_SUMMARY_PERCENT / 100);
    world.call("append_fifo", said(20)).unwrap();
    let room = room_beside_summary(&world);
    fits_to_the_token(&mut world, room);
    let new = &world.core.queue_head_summary;
    let kept = new.content.matches("berth").count();
    assert!(new.token_estimate <= floor && kept > 20, "{kept} of {} lines", lines.len());
}

#[test]
fn no_call_takes_the_room_of_the_summary() {
    let mut world = remembering(4096);
    // No message stays in the queue, so the line before the queue needs no room.
    let room = room_beside_summary(&world) + opening_tokens(&world.core);
    let before = world.core.clone();
    let block = |length: u64| {
        let content = "x".repeat(usize::try_from(length).unwrap());
        json!({"block_id": "b", "content": content})
    };
    // The text alone costs all `room` tokens, so the text with its frame costs more than `room`.
    // Four bytes count as one token.
    let error = world.call("store_core", block(4 * room)).unwrap_err();
    let over = error.fields["required_headroom"].as_u64().unwrap();
    let error = world.call("store_core", block(4 * (room - over + 1))).unwrap_err();
    assert_eq!(
        (error.code, &error.fields["required_headroom"]),
        (Code::TokenBudgetExceeded, &json!(1))
    );
    assert_eq!(world.core, before);
    world.call("store_core", block(4 * (room - over))).unwrap();
    assert!(world.core.counters.flushes > before.counters.flushes);
    let (old, new) = (&before.queue_head_summary, &world.core.queue_head_summary);
    let least = summary_tokens_min(&before);
    assert!(new.token_estimate * 2 > least, "{old:?} became {new:?}");
}

#[test]
fn a_flush_in_parts_lets_the_summary_grow_no_further_than_the_message_leaves_room() {
    let mut world = World::new(30_000, "");
    world.checks = false;
    for number in 0..2_400 {
        let fact = format!("boat{number} tide{}", number * 7);
        world.call("append_fifo", json!({"message": fact, "role": "user"})).unwrap();
    }
    assert_eq!(world.core.counters.flushes, 0);
    world.checks = true;
    let room = room_beside_summary(&world);
    world.call("append_fifo", said(room - 300)).unwrap();
    assert_eq!(world.core.counters.flushes, 2, "2000 and the rest");
    let summary = tokens(&world.core)[Section::Summary];
    assert!((150..=300).contains(&summary), "{summary}");
}

#[test]
fn the_batch_of_a_summary_is_a_setting() {
    // About 130 of the messages leave.
    let summaries = |batch_messages: usize| {
        let mut world = World::new(8_000, "");
        world.batch = SummarySettings { batch_messages };
        for _ in 0..160 {
            world.call("append_fifo", said(30)).unwrap();
        }
        world.call("evict_fifo", json!({"target_tokens": 1_000})).unwrap();
        let told: Vec<u64> = world
            .events
            .iter()
            .filter(|event| event.kind == EventType::Flush)
            .map(|event| event.details["evicted_count"].as_u64().unwrap())
            .collect();
        assert!(told.iter().all(|count| *count <= batch_messages as u64), "{told:?}");
        let summarised =
            world.events.iter().filter(|event| event.kind == EventType::Summarize).count();
        assert_eq!(summarised, told.len());
        told.len()
    };
    let (whole, small) = (summaries(2_000), summaries(16));
    assert_eq!(whole, 1);
    assert!((7..=10).contains(&small), "{small}");
}

#[test]
fn a_batch_has_bounds() {
    for (batch_messages, fits) in [(15, false), (16, true), (2_000, true), (2_001, false)] {
        let fault = SummarySettings { batch_messages }.fault();
        assert_eq!(fault.is_none(), fits, "{batch_messages}: {fault:?}");
    }
}

/// A reserve for the longest summary (614 tokens here) would be larger than the whole target.
#[test]
fn an_explicit_eviction_evicts_no_more_than_its_target_needs() {
    for (target, kept) in [(500, 3), (1_000, 7), (2_000, 25)] {
        let mut world = World::new(4096, "");
        for _ in 0..40 {
            world.call("append_fifo", said(50)).unwrap();
        }
        world.call("evict_fifo", json!({"target_tokens": target})).unwrap();
        let now = tokens(&world.core);
        assert!(now.occupancy <= target, "{now:?} for {target}");
        assert!(world.core.queue.count >= kept, "{} stay for {target}", world.core.queue.count);
        // The summary may use what the messages leave of the target.
        let summary = world.events.iter().rfind(|e| e.kind == EventType::Summarize).unwrap();
        let most = summary.details["tokens_max"].as_u64().unwrap();
        assert!(now.without(&[Section::Summary]) + most <= target, "{most} for {target}");
    }
}

#[test]
fn an_answer_without_text_leaves_the_old_summary_and_raises_the_alarm() {
    let mut world = remembering(1000);
    let old = world.core.queue_head_summary.clone();
    for answer in ["", " \n\t\n"] {
        world.summariser = Some(answer.into());
        world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
        let new = &world.core.queue_head_summary;
        assert_eq!((&new.content, new.token_estimate), (&old.content, old.token_estimate));
        for kind in [EventType::Flush, EventType::Summarize] {
            let told = &world.events.iter().rev().find(|e| e.kind == kind).unwrap().details;
            assert_eq!((&told["drift_alarm"], &told["alarm"]), (&json!(true), &json!("lost")));
        }
        world.call("append_fifo", said(20)).unwrap();
    }
}

#[test]
fn the_frame_of_a_summary_costs_the_same_around_every_text() {
    for encoding in [Encoding::O200kBase, Encoding::Cl100kBase] {
        let counter = Tiktoken::new(encoding);
        for form in [Form::Two, Form::Strict] {
            let frame = summary_cost(&counter, form, "x") - counter.count("x");
            for text in
                ["user: tide", "- tide", "4711", "\"so\"", "对花生过敏", "🦀 crab", "(b)", "# A"]
            {
                // In the strict form, the last sign may be one token with the line end.
                let saved = u64::from(form == Form::Strict && text.ends_with(['"', ')']));
                let cost = summary_cost(&counter, form, text);
                assert_eq!(cost, frame + counter.count(text) - saved, "{text} in {encoding:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(share(64)))]

    /// A message may use every token except the tokens of the fixed content and of the summary's
    /// minimum. No summary is dropped to make room for the message. The eviction that the call
    /// reports equals the eviction that it writes (`check_report`).
    #[test]
    fn a_message_fits_beside_the_summary_or_is_short_of_exactly_the_rest(
        window in 600..6000_u64,
        facts in prop::collection::vec("[a-z]{3,9} [a-z]{3,9} [0-9]{1,4} [a-z ]{0,90}", 20..160),
        over in -120_i64..120,
    ) {
        let mut world = World::new(window, "You are Ada.");
        for fact in facts {
            world.call("append_fifo", json!({"message": fact, "role": "user"})).unwrap();
        }
        prop_assume!(world.core.queue.count > 0);
        let before = world.core.clone();
        let cost = room_beside_summary(&world).checked_add_signed(over).unwrap();
        match world.call("append_fifo", said(cost)) {
            Ok(_) => {
                prop_assert!(over <= 0);
                let (old, new) = (&before.queue_head_summary, &world.core.queue_head_summary);
                let least = old.token_estimate.min(summary_tokens_min(&before));
                prop_assert!(old.content.is_empty() || new.token_estimate * 2 > least, "{old:?} became {new:?}");
            }
            Err(error) => {
                prop_assert_eq!(&error.fields["required_headroom"], &json!(over));
                prop_assert_eq!(&world.core, &before);
            }
        }
    }
}
