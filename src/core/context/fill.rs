//! Values the units of a context that fills a number of tokens: in the order in which the looks
//! found their texts.

use std::collections::HashMap;

use super::candidate::Candidate;
use super::condense::Unit;
use super::intent::Breadth;

/// Tokens of a small context, and the bounds of its depth. The depth says how much a further unit
/// of a text is worth beside the unit before it, and how much the words of a text count beside its
/// place: a small context answers from a few texts, and a large one shows more of them.
const SMALL_TOKENS: f64 = 512.0;
const DEPTH_MIN: f64 = 0.3;
const DEPTH_MAX: f64 = 0.7;
/// Weights of a text's lead in its search, in a small context: for all of its units, and for the
/// units after its best one, as a text that is far ahead is shown more fully.
const LEAD: f64 = 0.2;
const LEAD_DEPTH: f64 = 1.0;
/// Bounds of a lead that counts.
const LEADS: (f64, f64) = (-1.0, 3.0);
/// Smallest share of the most valuable unit that a text counts with.
const WORDS_MIN: f64 = 0.01;
/// Smallest depth for an order or an overview, which need something of many texts.
const DEPTH_MIN_MANY: f64 = 0.1;
/// How much a long unit is worth less than a short one: the exponent of its length. With 1, a unit
/// is worth its value for each of its bytes.
const LENGTH: f64 = 0.5;
const LENGTH_MANY: f64 = 1.0;
/// Length of a unit in bytes that changes no value.
const LENGTH_USUAL: f64 = 100.0;
/// Weight of what the model said itself, beside what it was told: for an answer, for the order in
/// which the asker brought things up, and for an overview.
const OWN_WORDS: f64 = 0.6;
const OWN_WORDS_ORDER: f64 = 0.1;
const OWN_WORDS_OVERVIEW: f64 = 1.0;

/// Values the units of texts that looks found. The search orders texts by more than their words, so
/// its order decides between texts, and the units' own values decide within a text. The most
/// valuable unit keeps its value, beside units of given documents. `tokens_max` is the number of
/// tokens to fill. The constants were chosen on the development halves of LoCoMo, BEAM and BFCL
/// memory.
pub fn by_place(units: &mut [Unit], candidates: &[Candidate], tokens_max: u64, breadth: Breadth) {
    let (own_words, depth_min, length_power) = match breadth {
        Breadth::Answer => (OWN_WORDS, DEPTH_MIN, LENGTH),
        Breadth::OrderOfAsker => (OWN_WORDS_ORDER, DEPTH_MIN_MANY, LENGTH_MANY),
        Breadth::Overview => (OWN_WORDS_OVERVIEW, DEPTH_MIN_MANY, LENGTH_MANY),
    };
    let small = (SMALL_TOKENS / tokens_max.max(1) as f64).min(1.0);
    let depth = small.clamp(depth_min, DEPTH_MAX);
    let found = |unit: &Unit| candidates[unit.candidate].found;
    let mut order: Vec<usize> = (0..units.len()).filter(|at| found(&units[*at]) > 0.0).collect();
    order.sort_by(|a, b| units[*b].value.total_cmp(&units[*a].value));
    let Some(most) = order.first().map(|at| units[*at].value.max(f64::MIN_POSITIVE)) else {
        return;
    };
    let first = order.iter().map(|at| found(&units[*at])).fold(f64::MIN_POSITIVE, f64::max);
    // For each text, the value of its best unit and the number of units valued so far.
    let mut seen: HashMap<usize, (f64, i32)> = HashMap::new();
    for at in order {
        let unit = &mut units[at];
        let (best, before) = seen.entry(unit.candidate).or_insert((unit.value, 0));
        let lead = candidates[unit.candidate].lead.unwrap_or_default().clamp(LEADS.0, LEADS.1);
        let lead = small * small * lead;
        let further = 1.0 - (1.0 - depth) * (-LEAD_DEPTH * lead.max(0.0)).exp();
        let within = if *best > 0.0 { unit.value / *best } else { 1.0 } * further.powi(*before);
        let words = (*best / most).max(WORDS_MIN).powf(depth);
        let length = (unit.range.len().max(1) as f64 / LENGTH_USUAL).powf(-length_power);
        let told = if candidates[unit.candidate].is_own() { own_words } else { 1.0 };
        let led = (LEAD * lead).exp();
        unit.value = most * found(unit) / first * led * within * words * length * told;
        *before += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the values of units of a text that was found first, one that was found tenth, and a
    /// given document.
    fn valued(values: [(usize, f64); 4]) -> Vec<f64> {
        let found = |found: f64| Candidate { found, ..Candidate::given("d", "") };
        let candidates = [found(1.0), found(0.5), found(0.0)];
        let unit = |(candidate, value): (usize, f64)| Unit {
            candidate,
            range: 0..100,
            value,
            ..Unit::default()
        };
        let mut units: Vec<Unit> = values.into_iter().map(unit).collect();
        by_place(&mut units, &candidates, 1_024, Breadth::Answer);
        units.into_iter().map(|unit| unit.value).collect()
    }

    #[test]
    fn the_place_decides_between_texts_and_the_words_within_a_text() {
        let values = valued([(0, 1.0), (0, 2.0), (1, 2.0), (2, 1.5)]);
        assert_eq!(values[1], 2.0, "the most valuable unit keeps its value");
        assert!(values[2] < values[1] && values[2] > values[0], "{values:?}");
        assert_eq!(values[3], 1.5, "a given document keeps its value");
    }

    #[test]
    fn a_small_context_shows_more_of_a_text_that_is_ahead_in_its_search() {
        let of = |lead, tokens_max| {
            let led = Candidate { lead, found: 1.0, ..Candidate::given("d", "") };
            let all = [led, Candidate { found: 0.9, ..Candidate::given("e", "") }];
            let unit =
                |candidate, value| Unit { candidate, range: 0..100, value, ..Unit::default() };
            let mut units = [unit(0, 2.0), unit(0, 1.5), unit(1, 1.5)];
            by_place(&mut units, &all, tokens_max, Breadth::Answer);
            units.map(|unit| unit.value)
        };
        let (plain, ahead, large) = (of(None, 512), of(Some(2.0), 512), of(Some(2.0), 65_536));
        assert!(plain[1] < plain[2], "{plain:?}");
        assert!(ahead[1] > ahead[2] && ahead[1] < ahead[0], "{ahead:?}");
        assert!(large[1] < large[2], "{large:?}");
    }

    #[test]
    fn a_text_without_the_words_of_the_question_is_worth_something() {
        let values = valued([(0, 0.0), (1, 2.0), (1, 0.0), (2, 0.0)]);
        assert!(values[0] > 0.0 && values[0] < values[1], "{values:?}");
        assert_eq!(values[3], 0.0);
    }
}
