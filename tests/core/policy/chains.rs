//! Tests an agent's heartbeats: what ends a chain, and at which moment a heartbeat is checked
//! against the limits.

use serde_json::{Map, Value, json};
use vctx_core::limits::BLOCKS_BYTES_MAX;
use vctx_core::memory::engineer::ContextSettings;
use vctx_core::memory::event::{Event, EventType};
use vctx_core::memory::message::{Kind, Role};
use vctx_core::memory::model_role::ModelRoles;
use vctx_core::policy::{
    Answers, Draft, Flush, Intent, Question, Step, Stop, SummaryAnswer, SummarySettings,
    Surroundings, Unobserved,
};
use vctx_core::text::lexical;
use vctx_core::tools::{Call, PostEvent, decode_as};
use vctx_core::trust::TaintMode;
use vctx_core::window::tokens;

use super::said;
use crate::world::{FourBytes, World};

/// Returns the events of all heartbeat chains as texts: the beginning of each chain, and its end
/// with the reason.
pub(super) fn beats(world: &World) -> Vec<String> {
    let beat = |event: &&Event| matches!(event.kind, EventType::HbStart | EventType::HbEnd);
    let told = |event: &Event| match event.kind {
        EventType::HbStart => "start".to_owned(),
        _ => format!(
            "{} by {} at {}",
            event.details["reason"].as_str().unwrap(),
            event.details["closed_by"].as_str().unwrap(),
            event.details["chain_depth"]
        ),
    };
    world.events.iter().filter(beat).map(told).collect()
}

#[test]
fn an_event_from_outside_ends_a_chain_and_a_write_inside_does_not() {
    let go = json!({"state": "continue"});
    let mut world = World::new(4_000, "");
    world.call("record_heartbeat", go.clone()).unwrap();
    world.call("store_core", json!({"block_id": "b", "content": "x"})).unwrap();
    world.call("append_fifo", json!({"message": "I look.", "role": "assistant"})).unwrap();
    world.call("write_recall", json!({"entries": [{"content": "y"}]})).unwrap();
    let second = world.call("record_heartbeat", go.clone()).unwrap();
    assert_eq!(second["result"]["chain_depth"], 2);
    let told = world.call("append_fifo", said(10)).unwrap()["heartbeat"].clone();
    assert_eq!(
        (&told["terminated_reason"], &told["closed_by"], &told["chain_depth"]),
        (&json!("explicit_yield"), &json!("event"), &json!(2))
    );
    let third = world.call("record_heartbeat", go.clone()).unwrap();
    assert_eq!(third["result"]["chain_depth"], 1, "a new chain");
    let event = decode_as::<PostEvent>(
        json!({"class": "scheduled", "content": "tick"}).as_object().cloned().unwrap(),
    );
    world.run(&Call::from(event.unwrap())).unwrap();
    world.call("append_fifo", said(10)).unwrap();
    assert_eq!(
        beats(&world),
        ["start", "explicit_yield by event at 2", "start", "explicit_yield by event at 1"]
    );
}

/// Appends a message of the given number of tokens in a call that also requests a heartbeat, and
/// runs this call to its end.
fn beats_with(world: &mut World, cost: u64) -> Value {
    world.unix_ms += 1;
    let mut answers = Answers::default();
    loop {
        let around = Surroundings {
            counter: &FourBytes,
            unix_ms: world.unix_ms,
            ids: &world.ids,
            scope: &world.scope,
            actor: &world.actor,
            tool: "search_recall",
            embedder: &lexical::OWN,
            next_embedder: None,
            key_hash: "k",
            wording: None,
            told: None,
            asked: "",
            capture: None,
            taint: TaintMode::default(),
            summary: SummarySettings::default(),
            context: ContextSettings::default(),
            stages: &Unobserved,
            blocks_bytes_max: BLOCKS_BYTES_MAX,
            tokens_per_day: 0,
            roles: ModelRoles::default(),
        };
        let mut draft = Draft::new(around, &world.core);
        let text = "x".repeat(usize::try_from((cost - 4) * 4).unwrap());
        draft.push(Kind::Turn, Role::User, text, Map::new());
        draft.beat(Intent::Continue);
        let target = world.core.token_budget.target;
        let flush = Flush { always: false, target, summarize: true, may_wait: false };
        let question = match draft.finish(flush, &answers, Map::new()) {
            Ok(Step::Write(change)) => {
                world.write(&change);
                return change.envelope["heartbeat"].clone();
            }
            Err(Stop::Ask(question)) => *question,
            other => panic!("{other:?}"),
        };
        match question {
            Question::Queue { .. } => answers.queue = Some(world.messages.clone()),
            Question::Summary { of, .. } => {
                let content = "What was said.".into();
                answers.summary = Some(SummaryAnswer { of, content, details: Map::new() });
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_beat_is_weighed_on_what_is_left_after_the_eviction() {
    let mut world = World::new(1_000, "");
    for _ in 0..30 {
        world.call("append_fifo", said(20)).unwrap();
    }
    let lives = beats_with(&mut world, 20);
    assert_eq!((&lives["granted"], &lives["chain_depth"]), (&json!(true), &json!(1)));
    assert!(tokens(&world.core).free >= 256);
    let ended = beats_with(&mut world, 80);
    assert!(tokens(&world.core).free < 256 && world.core.counters.flushes == 0);
    assert_eq!(ended["terminated_reason"], "tokens");
    assert_eq!(ended["tokens_remaining"], tokens(&world.core).free);
    // This call first flushes the window, which makes room for the heartbeat.
    world.unix_ms += 1_000;
    let lives = beats_with(&mut world, 150);
    assert_eq!(world.core.counters.flushes, 1);
    assert_eq!((&lives["granted"], &lives["opportunity"]), (&json!(true), &json!(true)));
    assert_eq!(beats(&world), ["start", "tokens by beat at 1", "start"]);
}
