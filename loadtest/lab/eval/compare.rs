//! Compares two runs question by question: computes paired differences with 95 % intervals.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::bootstrap::interval;
use super::locomo::ADVERSARIAL;
use super::measures::measure_index;
use super::report::{Section, percent};

/// Measures that are compared between two runs.
const COMPARED: [&str; 7] = ["R@5", "R@10", "R@20", "MRR", "T512", "T1024", "T2048"];

/// Returns a table of the differences between the saved runs `before` and `now`. Returns `None` if
/// the two runs share no question.
pub(super) fn section(title: &str, before: &[Value], now: &[Value]) -> Option<Section> {
    let known: HashMap<(String, u64), &Value> =
        before.iter().filter_map(|one| Some((key(one)?, one))).collect();
    let mut differences: BTreeMap<String, Vec<Vec<f64>>> = BTreeMap::new();
    for one in now {
        let Some(other) = key(one).and_then(|key| known.get(&key).copied()) else { continue };
        let is_apart = one["benchmark"] == "locomo" && one["group"] == ADVERSARIAL;
        if is_apart || one["group"] != other["group"] {
            continue;
        }
        let name = one["benchmark"].as_str().unwrap_or_default().to_owned();
        let score =
            |of: &Value, name: &str| of["scores"][measure_index(name)].as_f64().unwrap_or(0.0);
        let own = COMPARED.iter().map(|name| score(one, name) - score(other, name)).collect();
        differences.entry(name).or_default().push(own);
    }
    if differences.is_empty() {
        return None;
    }
    let mut rows = Vec::new();
    for (benchmark, all) in &differences {
        for (at, measure) in COMPARED.iter().enumerate() {
            let values: Vec<f64> = all.iter().map(|own| own[at]).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let (low, high) = interval(&values).unwrap_or_default();
            let told = if low > 0.0 {
                "better"
            } else if high < 0.0 {
                "worse"
            } else {
                ""
            };
            rows.push(vec![
                format!("{benchmark} {measure}"),
                values.len().to_string(),
                percent(mean),
                percent(low),
                percent(high),
                told.to_owned(),
            ]);
        }
    }
    let heads = ["measure", "n", "difference", "from", "to", "certain"];
    Some(Section {
        title: title.to_owned(),
        heads: heads.map(str::to_owned).into(),
        rows,
        notes: vec!["points; paired bootstrap over questions, 95 % intervals".into()],
        bars: Vec::new(),
    })
}

fn key(one: &Value) -> Option<(String, u64)> {
    Some((one["benchmark"].as_str()?.to_owned(), one["question"].as_u64()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::measures::NAMES;
    use serde_json::json;

    fn run(scores: &[f64]) -> Vec<Value> {
        let one = |(at, score): (usize, &f64)| {
            let mut all = [0.0; NAMES.len()];
            all[measure_index("R@10")] = *score;
            json!({"benchmark": "beam", "question": at, "group": "g", "scores": all})
        };
        scores.iter().enumerate().map(one).collect()
    }

    #[test]
    fn differences_are_paired_and_told_with_their_certainty() {
        let before = run(&[0.0; 30]);
        let section = section("t", &before, &run(&[1.0; 20])).unwrap();
        let row = &section.rows[1];
        assert_eq!(row, &["beam R@10", "20", "100.0", "100.0", "100.0", "better"]);
        assert_eq!(section.rows[0][5], "");
        assert!(super::section("t", &[], &run(&[1.0])).is_none());
    }
}
