//! Splits a text where its topic changes: at the positions where the similarity of neighbouring
//! sentences drops most.
//!
//! The caller gives the vectors of the sentences, so equal vectors always give equal splits.

use std::ops::Range;

use super::bounds::Level;
use crate::memory::TokenCounter;

/// Number of sentences before a position that are compared with the same number of sentences after
/// the position.
const COMPARED: usize = 3;
/// The token limit divided by this number is the minimum number of tokens of a chunk, so that a
/// single odd sentence does not become a chunk.
const LEAST_SHARE: u64 = 8;

/// Returns the byte ranges of a text's sentences. The ranges cover the whole text; white space
/// belongs to the sentence before it.
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

/// Returns the byte ranges of sequences of sentences on one topic, given one vector for each
/// sentence. The ranges cover the text. A range has more than `tokens_max` tokens only if it is a
/// single sentence.
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
        // A sequence of sentences that is too long is split even if one part becomes short.
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

/// Returns the position of the deepest drop of similarity. Among equally deep drops, returns the
/// position nearest to the middle of the given positions.
fn deepest(places: impl Iterator<Item = usize>, depths: &[f64]) -> Option<usize> {
    let places: Vec<usize> = places.collect();
    let middle = places.first()? + places.last()?;
    places.into_iter().max_by(|a, b| {
        let off = |at: usize| (2 * at).abs_diff(middle);
        depths[a - 1].total_cmp(&depths[b - 1]).then(off(*b).cmp(&off(*a))).then(b.cmp(a))
    })
}

/// Returns the number of tokens before each sentence, and the total at the end.
fn sums(tokens: &[u64]) -> Vec<u64> {
    let mut sum = 0;
    let rest = tokens.iter().map(|count| {
        sum += count;
        sum
    });
    std::iter::once(0).chain(rest).collect()
}

/// Returns, for each position between two sentences, the cosine between the mean vectors of the
/// sentences before and of the sentences after the position.
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

/// Returns the cosine of two vectors, or 0 if one of them has length zero.
fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
}

/// Returns the depth of the drop at each position: how far the similarity is below the nearest peak
/// on the left, plus how far it is below the nearest peak on the right (Hearst, TextTiling,
/// Computational Linguistics 23(1), 1997).
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

/// Returns the depth that a drop must exceed to separate two topics: the mean plus half of the
/// standard deviation.
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
