//! Tests that the report names the weakest term and contains all counts from which the score can be
//! recomputed.

use serde_json::{Map, Value, json};
use vctx_core::conveyance::{Considered, Inputs, Ratio, Tier, Why, report};

use super::inputs::healthy;

fn told(inputs: &Inputs) -> Map<String, Value> {
    let considered = Considered {
        of: "session",
        since: "a".into(),
        until: "b".into(),
        events: 3,
        events_cut: false,
    };
    report(inputs, &considered)
}

#[test]
fn the_weakest_term_is_named_with_a_next_step() {
    let report = told(&healthy());
    assert_eq!(report["weakest"]["term"], "A");
    assert!(report["weakest"]["advice"].as_str().unwrap().contains("flush"));
    assert_eq!(report["missing"], json!([]));
}

#[test]
fn each_term_says_what_good_is_and_what_it_would_add() {
    let inputs = healthy();
    let (report, a) = (told(&inputs), inputs.flushes);
    let terms = &report["terms"];
    for term in ["W", "R", "H", "T", "L", "I", "A", "G"] {
        let (worth, gain) = (terms[term]["worth"].as_f64(), terms[term]["gain"].as_f64());
        assert!(worth.is_some_and(|worth| (0.0..=1.0).contains(&worth)), "{term}: {worth:?}");
        assert!(gain.is_some_and(|gain| gain >= 1.0), "{term}: {gain:?}");
        assert!(terms[term]["good"].as_str().is_some_and(|text| !text.is_empty()), "{term}");
    }
    // With the named gain, the score of better flushes is foretold.
    let better = Inputs { flushes: Ratio::of(a.denominator, a.denominator), ..inputs };
    let c = |report: &Map<String, Value>| report["c"].as_f64().unwrap();
    let gain = terms["A"]["gain"].as_f64().unwrap();
    assert!((c(&report) * gain - c(&told(&better))).abs() < 1e-12);
    assert_eq!(report["weakest"]["gain"], gain);
}

#[test]
fn what_makes_zero_is_named_and_what_is_missing_too() {
    let inputs = Inputs {
        zero: vec![Why::TierDown(Tier::Archival), Why::NaiveChunking],
        chains: Ratio::default(),
        ..healthy()
    };
    let report = told(&inputs);
    assert_eq!(report["c"], 0.0);
    assert_eq!(report["zero"], json!(["tier_down_archival", "naive_chunking"]));
    assert_eq!(report["missing"], json!([{"term": "H", "lacks": ["chains"]}]));
    assert_eq!(report["weakest"]["term"], "I");
    assert!(report["weakest"]["advice"].as_str().unwrap().contains("misses its probes"));
    let report = told(&Inputs { chains: Ratio::default(), ..healthy() });
    assert_eq!(report["weakest"]["term"], "H");
    assert_eq!(
        report["weakest"]["advice"],
        "the term has no counts yet: use the function that `lacks` names once, or ask for the agent's life (`--life`)"
    );
}

#[test]
fn the_sum_can_be_done_again_from_what_is_printed() {
    let report = told(&healthy());
    let value = |term: &str| report["terms"][term]["value"].as_f64().unwrap();
    let context = ["L", "I", "A", "G"].map(value).iter().sum::<f64>() / 4.0;
    let c = value("W") * value("R") * value("H") / value("T") * context.powf(1.7);
    assert!((c - report["c"].as_f64().unwrap()).abs() < 1e-12);
}
