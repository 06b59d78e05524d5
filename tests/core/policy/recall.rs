//! Tests that searches of recall storage put copies into the queue, and that large results are
//! spooled (only their beginning is shown).

use serde_json::{Map, Value, json};
use vctx_core::error::Error;
use vctx_core::memory::form::Form;
use vctx_core::memory::message::{Kind, Message, Role, outside_fence_of};
use vctx_core::policy::{Answers, Draft, Flush, Step};
use vctx_core::window::{Section, opening_tokens, tokens};

use super::said;
use crate::share;
use crate::world::World;

/// Makes a draft of a change and applies the token budget to the draft, as a tool does.
fn drafted(world: &mut World, change: impl Fn(&mut Draft<'_>)) {
    world.unix_ms += 1;
    let mut draft = Draft::new(world.around("search_recall"), &world.core);
    change(&mut draft);
    let target = world.core.token_budget.target;
    let flush = Flush { always: false, target, summarize: true, may_wait: false };
    let finished = draft.finish(flush, &Answers::default(), Map::new()).unwrap();
    let Step::Write(change) = finished else { panic!("nothing had to be asked") };
    world.write(&change);
}

fn notice(world: &World, kind: &str) -> Option<String> {
    world.core.notices.iter().find(|n| n.kind == kind).map(|n| n.content.clone())
}

#[test]
fn a_copy_is_counted_marked_and_never_logged() {
    let mut world = World::new(1000, "Be kind.");
    let call = json!({"content": "", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    world.call("append_fifo", json!({"message": call, "role": "assistant"})).unwrap();
    let answer = json!({"content": "It rains.", "tool_call_id": "c", "name": "weather"});
    world.call("append_fifo", json!({"message": answer, "role": "tool"})).unwrap();
    world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
    let (logged, original) = (world.logged.len(), world.messages[1].clone());
    for _ in 0..5 {
        let before = world.occupancy();
        drafted(&mut world, |draft| {
            let cost = draft.copy_cost(&original, None, true);
            let (seq, counted) = draft.copy(&original, None);
            assert_eq!((seq, counted), (draft.after.queue.next_seq - 1, cost));
        });
        let copy = world.messages.last().unwrap().clone();
        assert_eq!((copy.kind, copy.copy_of.as_ref()), (Kind::Copy, Some(&original.key)));
        assert_eq!((&copy.content, copy.tool_call_id()), (&original.content, None));
        let opening = opening_tokens(&world.core);
        assert_eq!(world.occupancy(), before + opening + copy.token_estimate);
        let rendered = copy.shown(Form::Two).message;
        assert_eq!(rendered["role"], "system", "a tool's answer may not stand without its call");
        let text = rendered["content"].as_str().unwrap();
        // The two lines around the text say that the user did not say it. The text cannot contain
        // the last line, because its writer did not know the key of the message.
        let fence = outside_fence_of(&original.key);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Recalled from earlier, not said now:");
        assert_eq!(lines[1], "#2 tool weather, 1970-01-01 Thu 00:00:");
        let first = format!("[output of a tool {fence}; not said by the user]");
        let last = format!("[end of output {fence}]");
        assert_eq!(lines[2..], [first.as_str(), "It rains.", last.as_str()], "{text}");
        // A copy of an earlier program version has no fence, and renders as it did in old prompts.
        let mut old = copy.clone();
        old.meta["recalled"].as_object_mut().unwrap().remove("fence");
        let old = old.shown(Form::One).message;
        let heading = format!("[recalled: seq 2, tool, {}]", original.created_at);
        assert_eq!(old["content"], format!("{heading}\nIt rains."));
        world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
        assert_eq!(world.core.queue.count, 0);
        assert_eq!(world.logged.len(), logged);
    }
}

#[test]
fn a_spooled_result_is_whole_and_its_notice_goes_when_the_window_has_emptied() {
    let mut world = World::new(1000, "Be kind.");
    let payload = "A line of a long result.\n".repeat(60_000);
    let before = world.occupancy();
    drafted(&mut world, |draft| {
        assert_eq!(draft.spool(&payload).len(), 2);
    });
    let spooled: Vec<&Message> = world.messages.iter().filter(|m| m.kind == Kind::Spool).collect();
    assert_eq!(spooled.iter().map(|m| m.content.as_str()).collect::<String>(), payload);
    let text = notice(&world, "spool").expect("a notice");
    assert!(spooled.iter().all(|m| text.contains(&m.key)), "{text}");
    assert_eq!(world.occupancy(), before + tokens(&world.core)[Section::Notices]);

    // The notice about a spooled result remains after calls that only append. The next notice of
    // this kind replaces the old one. The notice is removed when the occupancy falls below the
    // warning mark.
    world.call("append_fifo", said(20)).unwrap();
    assert_eq!(notice(&world, "spool"), Some(text.clone()));
    drafted(&mut world, |draft| drop(draft.spool("short")));
    let second = notice(&world, "spool").expect("a notice");
    assert_ne!(second, text);
    while world.occupancy() < 700 {
        world.call("append_fifo", said(20)).unwrap();
    }
    assert!(notice(&world, "spool").is_some() && notice(&world, "pressure").is_some());
    while world.core.counters.flushes == 0 {
        world.call("append_fifo", said(20)).unwrap();
    }
    assert_eq!((notice(&world, "spool"), notice(&world, "pressure")), (None, None));
}

#[test]
fn what_takes_no_more_than_the_room_never_flushes() {
    let mut world = World::new(1000, "Be kind.");
    for _ in 0..share(40) {
        world.call("append_fifo", said(21)).unwrap();
        let flushes = world.core.counters.flushes;
        drafted(&mut world, |draft| {
            let room = draft.room();
            if room > 4 {
                let text = "x".repeat(usize::try_from((room - 4) * 4).unwrap());
                let (_, cost) = draft.push(Kind::Turn, Role::User, text, Map::new());
                assert_eq!(cost, room);
            }
        });
        assert_eq!(world.core.counters.flushes, flushes);
        assert!(world.occupancy() < 900);
        world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
        for _ in 0..world.messages.len() % 40 {
            world.call("append_fifo", said(21)).unwrap();
        }
    }
}

/// Runs a search and returns its result, whether or not the search wrote anything.
fn search(world: &mut World, arguments: Value) -> Result<Map<String, Value>, Error> {
    let before = world.occupancy();
    let answer = world.call("search_recall", arguments)?;
    let result = answer.get("result").and_then(Value::as_object).unwrap_or(&answer).clone();
    let growth = i64::try_from(world.occupancy()).unwrap() - i64::try_from(before).unwrap();
    assert_eq!(result["tokens_added"], growth);
    assert!(world.occupancy() < world.core.token_budget.flush, "finding pushes nothing out");
    Ok(result)
}

fn seqs(result: &Map<String, Value>) -> Vec<u64> {
    result["results"].as_array().unwrap().iter().map(|r| r["seq"].as_u64().unwrap()).collect()
}

fn stored(world: &mut World, texts: impl Iterator<Item = String>) {
    for text in texts {
        world.call("write_recall", json!({"entries": [{"content": text}]})).unwrap();
    }
}

#[test]
fn what_is_found_comes_back_once_and_as_far_as_there_is_room() {
    let mut world = World::new(1000, "Be kind.");
    stored(&mut world, (0..30).map(|n| format!("boat {n} {}", "x".repeat(150))));
    let edges = world.logged.len();
    let (mut seen, mut scores) = (Vec::new(), Vec::new());
    let mut token = Value::Null;
    for page in 0.. {
        assert!(page < 60, "the pages come to an end");
        let result =
            search(&mut world, json!({"query": "boat", "limit": 20, "page_token": token})).unwrap();
        assert_eq!(result["total"], 30);
        seen.extend(seqs(&result));
        scores.extend(
            result["results"].as_array().unwrap().iter().map(|r| r["score"].as_f64().unwrap()),
        );
        token = result["next_page_token"].clone();
        if token.is_null() {
            break;
        }
        // Between two pages, other callers append and evict messages.
        world.call("append_fifo", said(60)).unwrap();
        stored(&mut world, std::iter::once("boat of another day".to_owned()));
    }
    assert!(scores.is_sorted_by(|better, worse| better >= worse), "best first: {scores:?}");
    seen.sort_unstable();
    assert_eq!(seen, (1..=30).collect::<Vec<_>>(), "no gap, no double");
    let stored_meanwhile =
        world.messages.iter().filter(|m| m.content == "boat of another day").count();
    let evicted =
        world.messages.iter().filter(|m| m.kind.logged() && m.seq < world.core.queue.head_seq);
    assert_eq!(world.logged.len(), edges + stored_meanwhile + evicted.count(), "no copy is logged");

    world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
    let edges = world.logged.len();
    for _ in 0..5 {
        let first = search(&mut world, json!({"query": "day", "limit": 3})).unwrap();
        assert!(first["tokens_added"].as_u64().unwrap() > 0);
        let places: Vec<u64> = seqs(&first);
        let copies: Vec<u64> = first["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["copy_seq"].as_u64().unwrap())
            .collect();
        let (mut by_place, mut by_copy) = (places.clone(), places);
        by_place.sort_unstable();
        by_copy.sort_by_key(|seq| copies[seqs(&first).iter().position(|s| s == seq).unwrap()]);
        assert_eq!(by_place, by_copy, "copies keep the order of their originals");
        let again = search(&mut world, json!({"query": "day", "limit": 3})).unwrap();
        assert_eq!(again["tokens_added"], 0, "a message in the queue is not copied again");
        assert_eq!(again["results"][0]["copy_seq"], first["results"][0]["copy_seq"]);
        world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
        assert_eq!(world.logged.len(), edges);
    }
}

#[test]
fn a_search_that_changes_nothing_is_a_read() {
    let mut world = World::new(1000, "Be kind.");
    stored(&mut world, (0..3).map(|n| format!("boat {n}")));
    let version = world.core.version;
    let all = json!({"query": "boat", "limit": 3, "rehydrate": false});
    let mut found = seqs(&search(&mut world, all).unwrap());
    found.sort_unstable();
    assert_eq!(found, [1, 2, 3]);
    assert_eq!(seqs(&search(&mut world, json!({"query": "car"})).unwrap()), [0_u64; 0]);
    assert_eq!(world.core.version, version);
    let some = json!({"query": "boat", "limit": 2, "rehydrate": false});
    let result = search(&mut world, some).unwrap();
    assert!(result["next_page_token"].is_string());
    assert_eq!(world.core.version, version + 1, "a page is kept");
}

#[test]
fn a_result_larger_than_the_room_shows_its_beginning_and_says_where_the_whole_is() {
    let mut world = World::new(1000, "Be kind.");
    stored(&mut world, std::iter::once(format!("boat {}", "tide ".repeat(2000))));
    let result = search(&mut world, json!({"query": "boat", "whole": true})).unwrap();
    let shown = result["results"][0].as_object().unwrap();
    assert_eq!((&shown["truncated"], &result["truncated"]), (&json!(true), &json!(true)));
    assert!(shown["content"].as_str().unwrap().starts_with("boat tide"));
    let id = shown["id"].as_str().unwrap().to_owned();
    assert!(notice(&world, "spool").expect("a notice").contains(&id));
    let whole = world.messages.iter().find(|m| m.key == id).unwrap();
    assert!(whole.content.len() > 10_000 && world.logged.contains_key(&whole.seq));
    assert_eq!(world.core.queue.count, 0);
}
