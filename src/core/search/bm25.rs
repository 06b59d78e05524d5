//! The terms of the BM25 formula, for the rankings of recall storage and of the archive.

/// ArangoDB's default parameters of BM25: `k` limits the effect of repeated words, `b` the effect
/// of text length.
const SATURATION: f64 = 1.2;
const LENGTH_SHARE: f64 = 0.75;

/// Returns `(k + 1) · f / (f + k · (1 − b + b · length))`, the BM25 term for `f` occurrences of a
/// word. The argument `length` is the text's length relative to the mean length. One occurrence in
/// a text of mean length gives 1.
pub(super) fn saturated(count: f64, length: f64) -> f64 {
    let norm = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length);
    (SATURATION + 1.0) * count / (count + norm)
}

/// Returns `ln(1 + (N − n + 0.5) / (n + 0.5))`, the rarity of a word that occurs in `holders` (`n`)
/// of `all` (`N`) texts.
pub(super) fn rarity(all: f64, holders: f64) -> f64 {
    (1.0 + (all - holders + 0.5) / (holders + 0.5)).ln()
}
