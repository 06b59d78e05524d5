//! Reads the answer of a build.

use std::ops::Range;

use serde_json::Value;

/// Returns the items that a context shows.
pub(super) fn items(told: &Value) -> impl Iterator<Item = &Value> {
    let sections = told["sections"].as_array().into_iter().flatten();
    sections.flat_map(|section| section["items"].as_array().into_iter().flatten())
}

/// Returns the items that a context shows or, in an answer with `explain`, leaves out.
pub(super) fn candidates(told: &Value) -> impl Iterator<Item = &Value> {
    items(told).chain(told["left_out"].as_array().into_iter().flatten())
}

/// Returns the spans of all documents in a context.
pub(super) fn spans(told: &Value) -> Vec<Range<usize>> {
    let spans = items(told).flat_map(|item| item["spans"].as_array().into_iter().flatten());
    let place = |value: &Value| usize::try_from(value.as_u64().unwrap_or(0)).unwrap_or(0);
    spans.map(|span| place(&span["start"])..place(&span["end"])).collect()
}

/// Returns the text of a context.
pub(super) fn text(told: &Value) -> &str {
    told["text"].as_str().unwrap_or_default()
}

/// Returns a text field; empty if the field is missing.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// Returns for each value of `good` the share of `bad` below it; equal ones count half. The mean is
/// the area under the ROC curve.
pub(super) fn areas(good: &[f64], bad: &[f64]) -> Vec<f64> {
    let area = |one: &f64| {
        let worse = bad.iter().filter(|other| *other < one).count() as f64;
        let equal = bad.iter().filter(|other| *other == one).count() as f64;
        (worse + equal / 2.0) / bad.len().max(1) as f64
    };
    good.iter().map(area).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shown_and_left_out_texts_are_candidates() {
        let told = json!({"text": "a", "left_out": [{"grade": 0.7}], "sections": [
            {"items": [{"grade": 0.5, "spans": [{"start": 3, "end": 9}]}]}, {"items": []}]});
        assert_eq!((items(&told).count(), candidates(&told).count()), (1, 2));
        assert_eq!(text(&told), "a");
        assert_eq!(spans(&told).first(), Some(&(3..9)));
        assert_eq!(candidates(&json!({})).count(), 0);
    }

    #[test]
    fn the_area_counts_pairs() {
        assert_eq!(areas(&[0.9, 0.2], &[0.1, 0.2]), [1.0, 0.75]);
        assert_eq!(areas(&[0.9], &[]), [0.0]);
    }
}
