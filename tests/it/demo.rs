//! Runs the demo with its defaults: the shipped conversation passes through the default window, the
//! demo kills the server and the engine once each, and three facts are found again.

use serde_json::{Value, json};

use crate::home::Home;

/// Number of facts that the demo searches for after they have left the window.
const ASKED: u64 = 3;

#[test]
fn the_shipped_conversation_is_conserved_and_three_facts_that_left_it_are_found() {
    let home = Home::new();
    let output = home.run(&["demo", "--json"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let told = said.lines().next_back().unwrap_or_default();
    let told: Value = serde_json::from_str(told).unwrap_or_else(|e| {
        panic!("no JSON ({e}): {said}\n{}", String::from_utf8_lossy(&output.stderr))
    });
    assert!(output.status.success(), "{told:#}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(told["window"], 8192);
    assert_eq!((&told["facts_asked"], &told["facts_recalled"]), (&json!(ASKED), &json!(ASKED)));
    assert_eq!(told["facts_stored"], told["facts_planted"]);
    let number = |name: &str| told[name].as_u64().unwrap_or_else(|| panic!("{name}: {told:#}"));
    assert!(number("facts_in_window") + ASKED <= number("facts_planted"), "{told:#}");
    for none in ["lost", "doubled", "out_of_order"] {
        assert_eq!(number(none), 0, "{told:#}");
    }
    assert_eq!(number("messages_kept") + number("messages_evicted"), number("messages_sent"));
    assert_eq!((number("kills"), &told["verify"]), (2, &json!(true)));
    assert!(number("flushes") > 0 && number("occupancy_max") <= 8192, "{told:#}");
}
