//! Writes the Conveyance score as JSON with every input, so that another program can compute the
//! score again.

use serde_json::{Map, Value, json};

use super::advice::{NOTHING_COUNTED, advice, good};
use super::formula::{ALPHA, Score, TIME_FLOOR, Term, score};
use super::inputs::{Inputs, Path, PathTime, Ratio, Why};

/// The session or time span that the Conveyance score covers.
#[derive(Clone, Debug, PartialEq)]
pub struct Considered {
    /// `session` or `life`.
    pub of: &'static str,
    /// Start of the session or time span, ISO 8601.
    pub since: String,
    /// End of the session or time span, ISO 8601.
    pub until: String,
    /// Number of counted events.
    pub events: u64,
    /// Whether the counts leave out the oldest events.
    pub events_cut: bool,
}

/// Returns the Conveyance score with all inputs.
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

/// Returns the names of the remarks about the score, for example that the time term was raised to
/// its minimum.
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
    let mut told = json!({
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
    });
    for term in Term::ALL {
        let entry = &mut told[term.text()];
        entry["worth"] = json!(found.worth(&values, term));
        entry["gain"] = json!(found.gain(&values, term));
        entry["good"] = good(term).into();
    }
    told
}

fn way(time: &PathTime) -> Value {
    let buckets: Vec<Value> =
        time.times.buckets().into_iter().map(|(end_ms, count)| json!([end_ms, count])).collect();
    json!({"p99_ms": time.times.p99_ms(), "allowed_ms": time.path.allowed_ms(), "cost": time.cost(),
        "samples": time.times.samples(), "longest_ms": time.times.longest_ms(),
        "of": if time.of_session { "session" } else { "server" }, "buckets": buckets})
}

/// Returns the term of the score that the operator should improve first, with advice. A term that
/// makes the score zero comes first, then a missing term, then the lowest term. T is the only term
/// whose large values are bad. Therefore a value of T above 1 is compared by its inverse, and a
/// smaller value counts as 1.
fn weakest(inputs: &Inputs, found: &Score) -> Value {
    let values = inputs.terms();
    let worth = |term: Term| found.worth(&values, term).unwrap_or(0.0);
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
        "worth": found.worth(&values, term), "gain": found.gain(&values, term),
        "slowest_path": slowest.filter(|_| term == Term::T)})
}
