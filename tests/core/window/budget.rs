//! Tests the marks of a window (warning, flush, target) and the token counts of its sections.

use serde_json::{Value, json};
use vctx_core::memory::core::TokenBudget;
use vctx_core::window::{
    Pressure, Section, budget_for, narrow_window, pressure, summary_tokens_max, tokens,
};

use crate::world::World;

#[test]
fn thresholds_are_floors_of_the_window() {
    for (window, warning, flush, target) in [
        (4096, 2867, 3686, 2048),
        (8192, 5734, 7372, 4096),
        (32768, 22937, 29491, 16384),
        (128_000, 89_600, 115_200, 64_000),
    ] {
        let expected = TokenBudget { warning, flush, target, max: window };
        assert_eq!(budget_for(window), expected);
    }
    assert_eq!(summary_tokens_max(8192), 1228);
}

#[test]
fn the_account_is_reported_in_the_order_that_callers_know() {
    let account = tokens(&World::new(4096, "Be kind.").core);
    let Ok(Value::Object(reported)) = serde_json::to_value(account) else { panic!("no object") };
    let names: Vec<&str> = reported.keys().map(String::as_str).collect();
    let first = ["system", "working", "fifo", "summary", "notices", "tools"];
    assert_eq!(names[..first.len()], first);
    let (sections, sums) = names.split_at(names.len() - 2);
    assert_eq!(sums, ["free", "occupancy"]);
    assert!(sections.iter().all(|name| Section::ALL.iter().any(|one| one.name() == *name)));
    assert!(account[Section::System] > 0 && account[Section::Tools] == 0);
    let told = |one: &Section| reported.get(one.name()).map_or(0, |n| n.as_u64().unwrap());
    assert!(Section::ALL.iter().all(|one| told(one) == account[*one]));
    assert_eq!(
        (&reported["free"], &reported["occupancy"]),
        (&json!(account.free), &json!(account.occupancy))
    );
    for list in [Section::reported().collect::<Vec<_>>(), Section::drawn().collect()] {
        assert_eq!(list.len(), Section::ALL.len());
        assert!(Section::ALL.iter().all(|section| list.contains(section)), "{list:?}");
    }
}

#[test]
fn a_window_too_small_for_its_fixed_part_is_told_with_the_numbers() {
    let mut core = World::new(1_000, "Be kind.").core;
    assert_eq!(narrow_window(&core), None);
    let fixed = tokens(&core).occupancy;
    core.tools.token_estimate = 500 - fixed;
    assert_eq!(narrow_window(&core), None, "half of the window is left");
    core.tools.token_estimate += 1;
    let told = narrow_window(&core).expect("a warning");
    let tools = format!("tools {}", core.tools.token_estimate);
    for part in ["takes 501 of 1000 tokens", "only 499 are left", "1002 tokens or more", &tools] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn reaching_a_threshold_is_crossing_it() {
    let budget = budget_for(8192);
    for (occupancy, expected) in [
        (5733, Pressure::Ok),
        (5734, Pressure::Warning),
        (7371, Pressure::Warning),
        (7372, Pressure::Flush),
    ] {
        assert_eq!(pressure(&budget, occupancy), expected, "{occupancy}");
    }
}
