//! The score as JSON: every raw input beside what it comes to, so that a second program can do the sum again.

use serde_json::{Map, Value, json};

use super::advice::{NOTHING_COUNTED, advice};
use super::formula::{ALPHA, Score, TIME_FLOOR, Term, score};
use super::inputs::{Inputs, Path, PathTime, Ratio, Why};

/// What was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Considered {
    /// `session` or `life`.
    pub of: &'static str,
    /// When it began, in ISO form.
    pub since: String,
    /// When it was looked at.
    pub until: String,
    /// Events that were counted.
    pub events: u64,
    /// Whether older ones were left out because there are too many.
    pub events_cut: bool,
}

/// The score with everything that it comes from.
pub fn report(inputs: &Inputs, considered: &Considered) -> Map<String, Value> {
    let found = score(&inputs.terms(), !inputs.zero.is_empty());
    let zero: Vec<&str> = inputs.zero.iter().map(|why| why.text()).collect();
    let missing: Vec<Value> = found
        .missing
        .iter()
        .map(|term| json!({"term": term.text(), "lacks": inputs.lacks(*term)}))
        .collect();
    let report = json!({
        "c": found.c, "alpha": ALPHA, "zero": zero, "missing": missing, "flags": flags(inputs, &found),
        "terms": terms(inputs, &found), "weakest": weakest(inputs, &found),
        "considered": {"of": considered.of, "since": considered.since, "until": considered.until,
            "events": considered.events, "events_cut": considered.events_cut,
            "messages_from_seq": inputs.places.from_seq, "messages_next_seq": inputs.places.next_seq},
    });
    match report {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// What a reader should know beside the figure.
fn flags(inputs: &Inputs, found: &Score) -> Vec<&'static str> {
    let mut flags = Vec::new();
    if found.time_floored {
        flags.push("time_floored");
    }
    if inputs.places.doubled() > 0 {
        flags.push("message_doubled");
    }
    if inputs.places.from_seq > 1 {
        flags.push("newest_messages_only");
    }
    if inputs.times.iter().any(|time| !time.of_session && time.times.samples() > 0) {
        flags.push("time_of_server");
    }
    if !inputs.store_requests_of_session {
        flags.push("requests_of_server");
    }
    flags
}

fn share(ratio: Ratio) -> Value {
    json!({"numerator": ratio.numerator, "denominator": ratio.denominator, "value": ratio.value()})
}

fn terms(inputs: &Inputs, found: &Score) -> Value {
    let values = inputs.terms();
    let one = |term: Term, ratio: Ratio| json!({"value": values.get(term), "numerator": ratio.numerator, "denominator": ratio.denominator});
    let places = &inputs.places;
    let times: Map<String, Value> =
        inputs.times.iter().map(|time| (time.path.text().to_owned(), way(time))).collect();
    json!({
        "W": {"value": values.get(Term::W), "conservation": share(places.conservation()), "recall_hit_rate": share(inputs.recall_hits),
            "messages": {"stored": places.stored, "queued": places.queued, "logged": places.logged, "copies": places.copies, "expired": places.expired}},
        "R": one(Term::R, inputs.store_requests),
        "H": one(Term::H, inputs.chains),
        "T": {"value": found.time, "measured": values.get(Term::T), "floor": TIME_FLOOR, "floored": found.time_floored, "paths": times},
        "L": one(Term::L, inputs.chunks),
        "I": one(Term::I, inputs.probes),
        "A": one(Term::A, inputs.flushes),
        "G": {"value": values.get(Term::G), "guards": share(inputs.guards), "audited_writes": share(inputs.audited)},
        "Ctx": {"value": found.ctx},
    })
}

fn way(time: &PathTime) -> Value {
    let buckets: Vec<Value> =
        time.times.buckets().into_iter().map(|(end_ms, count)| json!([end_ms, count])).collect();
    json!({"p99_ms": time.times.p99_ms(), "allowed_ms": time.path.allowed_ms(), "cost": time.cost(),
        "samples": time.times.samples(), "longest_ms": time.times.longest_ms(),
        "of": if time.of_session { "session" } else { "server" }, "buckets": buckets})
}

/// The term to look at: the one that makes the score zero, else a missing one, else the lowest; a time cost of more than 1 counts as its
/// inverse.
fn weakest(inputs: &Inputs, found: &Score) -> Value {
    let values = inputs.terms();
    let worth = |term: Term| match term {
        Term::T => found.time.map_or(0.0, |time| 1.0 / time.max(1.0)),
        other => values.get(other).unwrap_or(0.0),
    };
    let lowest = Term::ALL.into_iter().min_by(|a, b| worth(*a).total_cmp(&worth(*b)));
    let zero = inputs.zero.first().map(|why| match why {
        Why::TierDown(_) => Term::I,
        Why::NaiveChunking => Term::L,
    });
    let missing = found.missing.first().copied();
    let Some(term) = zero.or(missing).or(lowest) else { return Value::Null };
    if zero.is_none() && missing.is_none() && worth(term) >= 1.0 {
        return Value::Null;
    }
    let advice = match zero {
        None if missing.is_some() => NOTHING_COUNTED,
        _ => advice(term),
    };
    let slowest = inputs
        .times
        .iter()
        .filter_map(|time| Some((time.path, time.cost()?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(path, _): (Path, f64)| path.text());
    json!({"term": term.text(), "missing": found.missing.contains(&term), "advice": advice,
        "slowest_path": slowest.filter(|_| term == Term::T)})
}

#[cfg(test)]
mod tests {
    use super::super::inputs::Tier;
    use super::super::inputs::tests::healthy;
    use super::*;

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
        assert_eq!(report["weakest"]["advice"], NOTHING_COUNTED);
    }

    #[test]
    fn the_sum_can_be_done_again_from_what_is_printed() {
        let report = told(&healthy());
        let value = |term: &str| report["terms"][term]["value"].as_f64().unwrap();
        let context = ["L", "I", "A", "G"].map(value).iter().sum::<f64>() / 4.0;
        let c = value("W") * value("R") * value("H") / value("T") * context.powf(1.7);
        assert!((c - report["c"].as_f64().unwrap()).abs() < 1e-12);
    }
}
