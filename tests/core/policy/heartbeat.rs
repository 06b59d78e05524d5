//! Tests heartbeat chains with a clock that the test sets: the limits of depth, duration, tokens,
//! rate and cooldown.

use serde_json::{Value, json};
use vctx_core::limits::WINDOW_TOKENS_MAX;
use vctx_core::memory::heartbeat::{ClosedBy, EndedChain, Heartbeat, HeartbeatLimits};
use vctx_core::policy::{
    BeatResult, Intent, beat, bury, check_limits, interrupt, report, retune, spare_yield,
};

/// The heartbeat state of an agent.
struct Heart {
    state: Heartbeat,
    free: u64,
    chains: u32,
}

fn heart(limits: HeartbeatLimits) -> Heart {
    Heart { state: Heartbeat { limits, ..Heartbeat::default() }, free: 10_000, chains: 0 }
}

/// Limits whose rate limit is so high that the tests reach the other limits first.
fn unhurried() -> HeartbeatLimits {
    HeartbeatLimits { rps_limit: 64, ..HeartbeatLimits::default() }
}

/// Time at which the tests begin, in milliseconds since 1970.
const T0: u64 = 1_800_000_000_000;

impl Heart {
    fn at(&mut self, ms: u64, intent: Intent) -> String {
        self.chains += 1;
        let id = format!("c{}", self.chains);
        let said = told(&beat(&mut self.state, T0 + ms, self.free, intent, || id));
        let limit = usize::try_from(self.state.limits.rps_limit).unwrap();
        assert!(self.state.recent_ms.len() <= limit, "{:?}", self.state.recent_ms);
        said
    }

    fn go(&mut self, ms: u64) -> String {
        self.at(ms, Intent::Continue)
    }

    fn give_back(&mut self, ms: u64) -> String {
        self.at(ms, Intent::Yield)
    }
}

fn told(outcome: &BeatResult) -> String {
    match outcome {
        BeatResult::Granted { first, depth, duration_ms, .. } => {
            let first = if *first { "first " } else { "" };
            format!("{first}granted {depth} after {duration_ms}")
        }
        BeatResult::Ended { chain, .. } => over(chain),
        BeatResult::Idle => "idle".into(),
        BeatResult::Limited { retry_after_ms } => format!("limited {retry_after_ms}"),
        BeatResult::Cooling { retry_after_ms } => format!("cooling {retry_after_ms}"),
    }
}

fn over(chain: &EndedChain) -> String {
    format!("{} {} after {}", chain.reason.text(), chain.depth, chain.duration_ms)
}

#[test]
fn the_ninth_beat_is_refused_and_with_a_depth_of_five_the_sixth() {
    for depth in [1, 5, 8] {
        let mut ada = heart(HeartbeatLimits { max_chain_depth: depth, ..unhurried() });
        assert_eq!(ada.go(0), "first granted 1 after 0");
        for link in 2..=depth {
            assert_eq!(ada.go(link), format!("granted {link} after {link}"));
        }
        assert_eq!(ada.go(depth + 1), format!("depth {depth} after {}", depth + 1));
        assert_eq!(ada.state.chain, None);
    }
    assert_eq!(HeartbeatLimits::default().max_chain_depth, 8);
}

#[test]
fn a_chain_lives_sixty_seconds_and_not_a_millisecond_more() {
    let mut ada = heart(unhurried());
    ada.go(0);
    assert_eq!(ada.go(60_000), "granted 2 after 60000");
    assert_eq!(ada.go(60_001), "duration 2 after 60001");
    let mut bob = heart(unhurried());
    bob.go(0);
    assert_eq!(bob.give_back(60_001), "duration 1 after 60001", "a yield does not hide it");
}

#[test]
fn the_chain_ends_with_255_free_tokens_and_lives_with_256() {
    let mut ada = heart(unhurried());
    ada.free = 256;
    ada.go(0);
    assert_eq!(ada.go(1), "granted 2 after 1");
    ada.free = 255;
    assert_eq!(ada.go(2), "tokens 2 after 2");
    assert_eq!(ada.go(3), "tokens 0 after 0", "a chain without room never gets a beat");
    ada.free = 256;
    assert_eq!(ada.go(4), "first granted 1 after 0", "and nothing cools after that");
}

#[test]
fn three_beats_in_any_second_and_no_fourth() {
    let mut ada = heart(HeartbeatLimits::default());
    let mut bob = heart(HeartbeatLimits::default());
    for (ms, said) in [
        (0, "first granted 1 after 0"),
        (400, "granted 2 after 400"),
        (900, "granted 3 after 900"),
        (950, "limited 50"),
        (999, "limited 1"),
        // The rate limit has a sliding window: the heartbeat at 0 ms is now a second old and no
        // longer counts, but the heartbeats at 400 and 900 ms still count.
        (1_000, "granted 4 after 1000"),
        (1_001, "limited 399"),
        (1_399, "limited 1"),
        (1_400, "granted 5 after 1400"),
        (1_401, "limited 499"),
    ] {
        assert_eq!(ada.go(ms), said, "at {ms}");
    }
    assert_eq!(bob.go(1_401), "first granted 1 after 0", "another agent has a rate of its own");
    assert!(ada.state.chain.is_some(), "what waits is not over");
    assert_eq!(ada.give_back(1_402), "explicit_yield 5 after 1402", "a yield never waits");
    assert_eq!(ada.go(1_403), "limited 497", "a new chain does not buy new beats");
}

#[test]
fn yields_without_a_chain_have_the_rate_of_beats() {
    let mut ada = heart(HeartbeatLimits::default());
    for (ms, wait) in [(0, 0), (400, 0), (900, 0), (950, 50), (999, 1), (1_000, 0), (1_001, 399)] {
        assert_eq!(spare_yield(&mut ada.state, T0 + ms), wait, "at {ms}");
    }
    assert_eq!(ada.go(1_002), "limited 398", "they count like beats");
    assert_eq!(ada.go(1_400), "first granted 1 after 0");
    // A yield that ends a chain never waits.
    assert_eq!(spare_yield(&mut ada.state, T0 + 1_401), 0);
    assert_eq!(ada.give_back(1_401), "explicit_yield 1 after 1");
    assert_eq!(spare_yield(&mut ada.state, T0 + 1_402), 498);
}

#[test]
fn a_refused_beat_takes_no_place_in_the_second() {
    let mut ada = heart(HeartbeatLimits { rps_limit: 1, ..HeartbeatLimits::default() });
    ada.go(0);
    for ms in 1..1_000 {
        assert_eq!(ada.go(ms), format!("limited {}", 1_000 - ms));
    }
    assert_eq!(ada.go(1_000), "granted 2 after 1000");
}

#[test]
fn the_cool_down_is_750_ms_after_depth_and_duration_only() {
    let shallow = HeartbeatLimits { max_chain_depth: 1, ..unhurried() };
    for end in [1, 60_001] {
        let mut ada = heart(shallow);
        ada.go(0);
        let reason = ada.go(end);
        assert!(reason.starts_with(if end == 1 { "depth" } else { "duration" }), "{reason}");
        assert_eq!(ada.go(end), "cooling 750");
        assert_eq!(ada.go(end + 749), "cooling 1");
        assert_eq!(ada.give_back(end + 749), "idle");
        assert_eq!(ada.go(end + 750), "first granted 1 after 0");
    }
    let mut bob = heart(shallow);
    bob.go(0);
    assert_eq!(bob.give_back(1), "explicit_yield 1 after 1");
    assert_eq!(bob.go(1), "first granted 1 after 0");
    bob.free = 0;
    assert_eq!(bob.go(2), "tokens 1 after 1");
    bob.free = 256;
    assert_eq!(bob.go(2), "first granted 1 after 0");
}

#[test]
fn an_event_ends_a_chain_and_the_next_beat_starts_another() {
    let mut ada = heart(unhurried());
    assert_eq!(interrupt(&mut ada.state, T0), None);
    ada.go(0);
    ada.go(5);
    let ended = interrupt(&mut ada.state, T0 + 9).unwrap();
    assert_eq!(
        (over(&ended).as_str(), ended.closed_by),
        ("explicit_yield 2 after 9", ClosedBy::Event)
    );
    assert_eq!(ada.go(10), "first granted 1 after 0");
    let ended = interrupt(&mut ada.state, T0 + 60_011).unwrap();
    assert_eq!(over(&ended), "duration 1 after 60001", "a dead chain did not yield");
}

#[test]
fn only_a_dead_chain_is_buried() {
    let mut ada = heart(unhurried());
    ada.go(0);
    assert_eq!(bury(&mut ada.state, T0 + 60_000, ClosedBy::Sweep), None);
    let ended = bury(&mut ada.state, T0 + 60_001, ClosedBy::Sweep).unwrap();
    assert_eq!(
        (over(&ended).as_str(), ended.closed_by),
        ("duration 1 after 60001", ClosedBy::Sweep)
    );
    assert_eq!(bury(&mut ada.state, T0 + 99_999, ClosedBy::Sweep), None);
}

#[test]
fn limits_that_change_hold_for_the_chain_that_runs() {
    let mut ada = heart(unhurried());
    ada.go(0);
    ada.go(1);
    retune(&mut ada.state, HeartbeatLimits { max_chain_duration_ms: 500, ..unhurried() });
    assert_eq!(ada.go(500), "granted 3 after 500");
    retune(&mut ada.state, HeartbeatLimits { max_chain_depth: 3, ..unhurried() });
    assert_eq!(ada.go(501), "depth 3 after 501");
    let mut bob = heart(unhurried());
    for ms in 0..8 {
        bob.go(ms);
    }
    retune(&mut bob.state, HeartbeatLimits::default());
    assert_eq!(bob.give_back(9), "explicit_yield 8 after 9");
    assert_eq!(bob.go(10), "limited 995", "of many beats the last three count");
}

#[test]
fn a_clock_that_lags_waits_and_one_that_was_wrong_is_forgotten() {
    let mut ada = heart(HeartbeatLimits::default());
    ada.go(2_000);
    assert_eq!(ada.go(0), "granted 2 after 0", "2 s behind: no time has passed");
    assert_eq!(ada.go(1_000), "granted 3 after 0");
    assert_eq!(ada.go(1_999), "limited 1000");
    assert_eq!(ada.go(3_000), "granted 4 after 1000");

    let mut bob = heart(HeartbeatLimits { max_chain_depth: 2, ..HeartbeatLimits::default() });
    let hour = 3_600_000;
    bob.go(hour);
    assert_eq!(bob.go(0), "granted 2 after 0", "the chain begins anew, and so does its cap");
    assert_eq!(bob.go(60_001), "duration 2 after 60001");
    let mut eve = heart(HeartbeatLimits { max_chain_depth: 1, ..HeartbeatLimits::default() });
    eve.go(hour);
    assert_eq!(eve.go(hour), "depth 1 after 0");
    assert_eq!(eve.go(0), "first granted 1 after 0", "a cool-down of the future cools nobody");
}

#[test]
fn an_answer_tells_whether_a_beat_would_be_granted() {
    let mut ada = heart(HeartbeatLimits { max_chain_depth: 4, ..HeartbeatLimits::default() });
    let shown = |ada: &Heart, ms: u64| {
        let map = report(&ada.state, T0 + ms, ada.free);
        format!(
            "{} {} {} wait {}",
            map["opportunity"],
            map["chain_depth"],
            map["duration_ms"],
            map.get("retry_after_ms").unwrap_or(&Value::Null)
        )
    };
    assert_eq!(shown(&ada, 0), "true 0 0 wait null");
    for ms in 0..3 {
        ada.go(ms);
    }
    assert_eq!(shown(&ada, 10), "true 3 10 wait 990", "after a wait it would");
    ada.free = 255;
    assert_eq!(shown(&ada, 10), "false 3 10 wait null");
    ada.free = 256;
    ada.go(1_000);
    assert_eq!(shown(&ada, 1_500), "false 4 1500 wait null");
    assert_eq!(ada.go(1_500), "depth 4 after 1500");
    assert_eq!(shown(&ada, 1_600), "false 0 0 wait 650");
    assert_eq!(shown(&ada, 2_250), "true 0 0 wait null");
    let last = report(&ada.state, T0 + 2_250, ada.free)["last_ended"].clone();
    assert_eq!((&last["reason"], &last["chain_depth"]), (&json!("depth"), &json!(4)));
}

#[test]
fn limits_have_bounds() {
    check_limits(&HeartbeatLimits::default()).unwrap();
    let good = HeartbeatLimits::default();
    for (name, bad) in [
        ("max_chain_depth", HeartbeatLimits { max_chain_depth: 0, ..good }),
        ("max_chain_depth", HeartbeatLimits { max_chain_depth: 1_025, ..good }),
        ("max_chain_duration_ms", HeartbeatLimits { max_chain_duration_ms: 99, ..good }),
        ("max_chain_duration_ms", HeartbeatLimits { max_chain_duration_ms: 3_600_001, ..good }),
        ("floor_tokens", HeartbeatLimits { floor_tokens: WINDOW_TOKENS_MAX + 1, ..good }),
        ("rps_limit", HeartbeatLimits { rps_limit: 0, ..good }),
        ("rps_limit", HeartbeatLimits { rps_limit: 65, ..good }),
        ("cooldown_ms", HeartbeatLimits { cooldown_ms: 60_001, ..good }),
    ] {
        let error = check_limits(&bad).unwrap_err();
        assert_eq!(error.fields["field"], format!("heartbeat.{name}"));
    }
}
