//! BM25 and TFIDF with ArangoDB's formulas, in single precision.

/// ArangoDB's default values of BM25's arguments `k` and `b`.
pub(crate) const BM25_DEFAULTS: (f32, f32) = (1.2, 0.75);

/// A scorer with its arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scoring {
    /// The scorer `BM25(d, k, b)`.
    Bm25 {
        /// BM25's argument `k`, the saturation of the term frequency.
        k: f32,
        /// BM25's argument `b`, the weight of the field length.
        b: f32,
    },
    /// The scorer `TFIDF(d, normalize)`.
    Tfidf {
        /// Whether the length of the field affects the score.
        normalize: bool,
    },
}

/// Statistics of a field over all segments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FieldStatistics {
    /// Number of documents with the field. A removed document counts until its segment is merged.
    pub(super) documents: u64,
    /// Number of tokens of the field in all documents.
    pub(super) tokens: u64,
}

/// The features of a field's analyzer that affect scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    /// Whether the index stores term frequencies.
    pub(super) frequency: bool,
    /// Whether the index stores field lengths.
    pub(super) norm: bool,
}

/// A scorer's formula for one term, with all values that do not depend on the document.
#[derive(Clone, Copy, Debug)]
pub(super) enum Weight {
    /// `a − a·c/(c + tf)`, where `tf` is the term frequency and `c` is `flat` plus `slope` times
    /// the length of the field.
    Bm25 { a: f32, flat: f32, slope: f32 },
    /// `sqrt(tf)·a`, where `tf` is the term frequency; if `by_length` is true, divided by the
    /// square root of the field length.
    Tfidf { a: f32, by_length: bool },
}

impl Weight {
    /// Returns the weight of a term or a phrase for a scorer, with a boost. `frequencies` are
    /// document frequencies: one for a term, or one for each term of a phrase.
    pub(super) fn new(
        scoring: Scoring,
        features: Features,
        field: FieldStatistics,
        frequencies: &[u64],
        boost: f32,
    ) -> Self {
        let documents = field.documents as f32;
        match scoring {
            Scoring::Bm25 { k, b } => {
                let idf: f32 = frequencies.iter().map(|df| idf(documents, *df as f32)).sum();
                let a = boost * idf * (k + 1.0);
                let average = field.tokens as f32 / documents.max(1.0);
                if !features.frequency {
                    Self::Bm25 { a, flat: 0.0, slope: 0.0 }
                } else if features.norm && average > 0.0 {
                    Self::Bm25 { a, flat: k * (1.0 - b), slope: k * b / average }
                } else {
                    Self::Bm25 { a, flat: k, slope: 0.0 }
                }
            }
            Scoring::Tfidf { normalize } => {
                let idf = frequencies
                    .iter()
                    .map(|df| 1.0 + ((documents + 1.0) / (*df as f32 + 1.0)).ln());
                Self::Tfidf { a: boost * idf.sum::<f32>(), by_length: normalize && features.norm }
            }
        }
    }

    /// Returns the weight for BM25 with default arguments and the factor 1, for an analyzer with
    /// which the index stores term frequencies and field lengths.
    pub(super) fn usual(field: FieldStatistics) -> Self {
        let features = Features { frequency: true, norm: true };
        let (k, b) = BM25_DEFAULTS;
        Self::new(Scoring::Bm25 { k, b }, features, field, &[], 1.0).unit()
    }

    /// Returns a copy of the weight with the factor 1.
    pub(super) fn unit(&self) -> Self {
        match *self {
            Self::Bm25 { flat, slope, .. } => Self::Bm25 { a: 1.0, flat, slope },
            Self::Tfidf { by_length, .. } => Self::Tfidf { a: 1.0, by_length },
        }
    }

    /// Returns `a`, the factor in the formula of the weight.
    pub(super) fn scale(&self) -> f32 {
        match *self {
            Self::Bm25 { a, .. } | Self::Tfidf { a, .. } => a,
        }
    }

    /// Returns a copy of the weight with twice the factor.
    pub(super) fn twice(&self) -> Self {
        match *self {
            Self::Bm25 { a, flat, slope } => Self::Bm25 { a: 2.0 * a, flat, slope },
            Self::Tfidf { a, by_length } => Self::Tfidf { a: 2.0 * a, by_length },
        }
    }

    /// Returns an upper bound of the score.
    pub(super) fn most(&self) -> f32 {
        match *self {
            Self::Bm25 { a, .. } => a.max(0.0),
            Self::Tfidf { .. } => f32::INFINITY,
        }
    }

    /// Returns an upper bound of the ratio between a document's score by the weight `now` and its
    /// score by this weight, as if both weights had the same factor. Returns `None` if there is no
    /// known bound. If the mean field length grows by a factor r, then tf / (tf + c/r) = r·tf /
    /// (r·tf + c), which is at most r·tf / (tf + c).
    pub(super) fn growth(&self, now: &Self) -> Option<f32> {
        match (*self, *now) {
            (Self::Bm25 { flat: then, slope, .. }, Self::Bm25 { flat, slope: other, .. })
                if then == flat && (slope > 0.0) == (other > 0.0) =>
            {
                Some(if other > 0.0 { (slope / other).max(1.0) } else { 1.0 })
            }
            (Self::Tfidf { by_length: then, .. }, Self::Tfidf { by_length, .. })
                if then == by_length =>
            {
                Some(1.0)
            }
            _ => None,
        }
    }

    /// Whether the score needs the length of the field.
    pub(super) fn wants_length(&self) -> bool {
        match self {
            Self::Bm25 { slope, .. } => *slope != 0.0,
            Self::Tfidf { by_length, .. } => *by_length,
        }
    }

    /// Replaces each document's field length by the term's score in the document. All frequencies
    /// must be at least 1.
    pub(super) fn score_all(&self, frequencies: &[u32], lengths: &mut [f32]) {
        match *self {
            Self::Bm25 { a, flat, slope } => {
                for (length, frequency) in lengths.iter_mut().zip(frequencies) {
                    let c = flat + slope * *length;
                    *length = a - a * c / (c + *frequency as f32);
                }
            }
            Self::Tfidf { .. } => {
                for (length, frequency) in lengths.iter_mut().zip(frequencies) {
                    *length = self.score(*frequency as f32, *length);
                }
            }
        }
    }

    /// Returns the score of a term that occurs `frequency` times in a field of `length` tokens.
    pub(super) fn score(&self, frequency: f32, length: f32) -> f32 {
        match *self {
            Self::Bm25 { a, flat, slope } => {
                let c = flat + slope * length;
                if c == 0.0 { a } else { a - a * c / (c + frequency) }
            }
            Self::Tfidf { a, by_length } => {
                let score = frequency.sqrt() * a;
                if by_length { score / length.max(1.0).sqrt() } else { score }
            }
        }
    }
}

/// Returns BM25's inverse document frequency: `ln(1 + (N − df + 0.5) / (df + 0.5))`.
fn idf(documents: f32, frequency: f32) -> f32 {
    (1.0 + (documents - frequency + 0.5) / (frequency + 0.5)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEATURES: Features = Features { frequency: true, norm: true };

    fn close(a: f32, b: f32) {
        assert!((a - b).abs() < 1e-5, "{a} is not {b}");
    }

    /// The scores are those of an example with five documents in ArangoDB's documentation of
    /// BOOST(): "foo", "bar", "foo bar", "foo baz", "baz".
    #[test]
    fn one_word_documents_score_as_documented() {
        let field = FieldStatistics { documents: 5, tokens: 7 };
        let bm25 = Scoring::Bm25 { k: 1.2, b: 0.75 };
        let boosted = Weight::new(bm25, FEATURES, field, &[3], 2.5);
        let plain = Weight::new(bm25, FEATURES, field, &[2], 1.0);
        close(boosted.score(1.0, 1.0), 1.525_836);
        close(plain.score(1.0, 1.0), 0.991_340);
        close(boosted.score(1.0, 2.0), 1.146_484);
        close(boosted.score(1.0, 2.0) + plain.score(1.0, 2.0), 1.891_358);
    }

    #[test]
    fn saturation_and_length_can_be_switched_off() {
        let field = FieldStatistics { documents: 10, tokens: 100 };
        let binary = Weight::new(Scoring::Bm25 { k: 0.0, b: 0.75 }, FEATURES, field, &[2], 1.0);
        assert_eq!(binary.score(1.0, 5.0), binary.score(9.0, 50.0));
        let flat = Weight::new(Scoring::Bm25 { k: 1.2, b: 0.0 }, FEATURES, field, &[2], 1.0);
        assert_eq!(flat.score(3.0, 5.0), flat.score(3.0, 50.0));
        assert!(!flat.wants_length());
        let tfidf = Weight::new(Scoring::Tfidf { normalize: false }, FEATURES, field, &[2], 1.0);
        close(tfidf.score(4.0, 7.0), 2.0 * (1.0 + (11.0_f32 / 3.0).ln()));
        let by_length = Weight::new(Scoring::Tfidf { normalize: true }, FEATURES, field, &[2], 1.0);
        close(by_length.score(4.0, 4.0), tfidf.score(4.0, 4.0) / 2.0);
    }
}
