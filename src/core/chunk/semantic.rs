//! Cuts a text where its sentences begin to be about something else: at the deepest drops of likeness between what stands before and behind.
//!
//! The vectors of the sentences come from outside, so the cuts are as deterministic as what makes them.

use std::ops::Range;

use super::bounds::Level;
use crate::memory::TokenCounter;

/// Sentences before and behind a place that are compared.
const COMPARED: usize = 3;
/// A piece between two drops has at least this share of the limit, so that a single odd sentence is no chunk of its own.
const LEAST_SHARE: u64 = 8;

/// The sentences of a text: they tile it; white space belongs to the sentence before it.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    if text.is_empty() {
        return Vec::new();
    }
    let bounds = Level::Sentence.bounds(text, &(0..text.len()));
    let mut all: Vec<Range<usize>> = Vec::with_capacity(bounds.len());
    for pair in bounds.windows(2) {
        match all.last_mut() {
            Some(last) if text[pair[0]..pair[1]].trim().is_empty() => last.end = pair[1],
            _ => all.push(pair[0]..pair[1]),
        }
    }
    all
}

/// Runs of sentences that are about one thing, as ranges of bytes that tile the text; none is longer than the limit unless it is one sentence.
/// One vector for each sentence.
pub(super) fn runs(
    text: &str,
    sentences: &[Range<usize>],
    vectors: &[Vec<f64>],
    tokens_max: u64,
    counter: &dyn TokenCounter,
) -> Vec<Range<usize>> {
    let tokens: Vec<u64> =
        sentences.iter().map(|place| counter.count(&text[place.clone()])).collect();
    let sums = sums(&tokens);
    let depths = depths(&likeness(vectors));
    let cutoff = cutoff(&depths);
    let least = (tokens_max / LEAST_SHARE).max(1);
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut open: Vec<Range<usize>> = Vec::new();
    open.extend((!sentences.is_empty()).then_some(0..sentences.len()));
    while let Some(run) = open.pop() {
        let too_long = sums[run.end] - sums[run.start] > tokens_max;
        let places = run.start + 1..run.end;
        let sides = |at: usize| (sums[at] - sums[run.start]).min(sums[run.end] - sums[at]);
        let wide = places.clone().filter(|at| sides(*at) >= least);
        let deepest = deepest(wide, &depths).filter(|at| too_long || depths[at - 1] > cutoff);
        // What is too long is parted even where one side is short.
        match deepest.or_else(|| deepest_of_all(places, &depths, too_long)) {
            Some(at) => open.extend([at..run.end, run.start..at]),
            None => runs.push(run),
        }
    }
    runs.iter().map(|run| sentences[run.start].start..sentences[run.end - 1].end).collect()
}

fn deepest_of_all(places: Range<usize>, depths: &[f64], too_long: bool) -> Option<usize> {
    if too_long { deepest(places, depths) } else { None }
}

/// The place with the deepest drop; of equals the one nearest to the middle, so that a text without any is parted evenly.
fn deepest(places: impl Iterator<Item = usize>, depths: &[f64]) -> Option<usize> {
    let places: Vec<usize> = places.collect();
    let middle = places.first()? + places.last()?;
    places.into_iter().max_by(|a, b| {
        let off = |at: usize| (2 * at).abs_diff(middle);
        depths[a - 1].total_cmp(&depths[b - 1]).then(off(*b).cmp(&off(*a))).then(b.cmp(a))
    })
}

/// Sums up to each place.
fn sums(tokens: &[u64]) -> Vec<u64> {
    let mut sum = 0;
    let rest = tokens.iter().map(|count| {
        sum += count;
        sum
    });
    std::iter::once(0).chain(rest).collect()
}

/// Cosine between the few sentences before and behind each place between two.
fn likeness(vectors: &[Vec<f64>]) -> Vec<f64> {
    let place = |at: usize| {
        let before = mean(&vectors[at.saturating_sub(COMPARED)..at]);
        cosine(&before, &mean(&vectors[at..vectors.len().min(at + COMPARED)]))
    };
    (1..vectors.len()).map(place).collect()
}

fn mean(vectors: &[Vec<f64>]) -> Vec<f64> {
    let mut sum = vec![0.0; vectors.first().map_or(0, Vec::len)];
    for vector in vectors {
        sum.iter_mut().zip(vector).for_each(|(sum, component)| *sum += component);
    }
    sum
}

/// Zero where one has no direction.
fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
}

/// How deep likeness drops at each place: below the next rise on either side (Hearst, TextTiling, Computational Linguistics 23(1), 1997).
fn depths(likeness: &[f64]) -> Vec<f64> {
    let climb = |sides: &mut dyn Iterator<Item = &f64>, from: f64| {
        let mut top = from;
        for value in sides {
            if *value < top {
                break;
            }
            top = *value;
        }
        top - from
    };
    let depth = |at: usize| {
        let here = likeness[at];
        climb(&mut likeness[..at].iter().rev(), here) + climb(&mut likeness[at + 1..].iter(), here)
    };
    (0..likeness.len()).map(depth).collect()
}

/// A drop counts if it is deeper than the mean by half of the deviation.
fn cutoff(depths: &[f64]) -> f64 {
    let count = depths.len().max(1) as f64;
    let mean = depths.iter().sum::<f64>() / count;
    let spread = depths.iter().map(|depth| (depth - mean).powi(2)).sum::<f64>() / count;
    mean + spread.sqrt() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_belongs_to_the_sentence_before_it() {
        let text = " One boat. \n\n \nTwo boats.\n";
        let found: Vec<&str> = sentences(text).into_iter().map(|place| &text[place]).collect();
        assert_eq!(found.concat(), text);
        assert!(found.iter().skip(1).all(|sentence| !sentence.trim().is_empty()), "{found:?}");
        assert_eq!(sentences(""), Vec::<Range<usize>>::new());
    }

    #[test]
    fn a_drop_is_as_deep_as_the_rises_beside_it() {
        let found = depths(&[0.9, 0.2, 0.8, 0.8, 0.5]);
        let wanted = [0.0, 1.3, 0.0, 0.0, 0.3];
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        assert_eq!(cutoff(&[]), 0.0);
    }

    #[test]
    fn what_has_no_direction_is_like_nothing() {
        assert_eq!(likeness(&[vec![0.0, 0.0], vec![1.0, 0.0]]), [0.0]);
        assert_eq!(likeness(&[vec![2.0, 0.0], vec![1.0, 0.0]]), [1.0]);
        assert_eq!(likeness(&[vec![1.0]]), Vec::<f64>::new());
    }
}
