//! BM25 and TFIDF as ArangoDB computes them, in single precision.

/// Arguments that a BM25 without arguments has (ArangoDB's defaults).
pub(crate) const BM25_DEFAULTS: (f32, f32) = (1.2, 0.75);

/// A scorer with its arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scoring {
    /// `BM25(d, k, b)`
    Bm25 {
        /// Saturation of the term frequency.
        k: f32,
        /// Weight of the field length.
        b: f32,
    },
    /// `TFIDF(d, normalize)`
    Tfidf {
        /// Whether the length of the field counts.
        normalize: bool,
    },
}

/// What is known of a field over all segments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FieldStatistics {
    /// Documents that have it; removed ones count until their segment is written again.
    pub(super) documents: u64,
    /// Tokens in all of them.
    pub(super) tokens: u64,
}

/// What is known of a field's analyzer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    /// Term frequencies count.
    pub(super) frequency: bool,
    /// Field lengths count.
    pub(super) norm: bool,
}

/// One scorer of one term, all that does not depend on the document computed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Weight {
    /// `a − a·c/(c + tf)`, where c is `flat` plus `slope` times the length of the field.
    Bm25 { a: f32, flat: f32, slope: f32 },
    /// `sqrt(tf)·a`, divided by the root of the length where `by_length`.
    Tfidf { a: f32, by_length: bool },
}

impl Weight {
    /// The weight of a term that stands in each of `frequencies` documents (several for a phrase), with a boost.
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

    /// That of BM25 without arguments, with a factor of 1, for an analyzer with all features.
    pub(super) fn usual(field: FieldStatistics) -> Self {
        let features = Features { frequency: true, norm: true };
        let (k, b) = BM25_DEFAULTS;
        Self::new(Scoring::Bm25 { k, b }, features, field, &[], 1.0).unit()
    }

    /// The same with a factor of 1 before it.
    pub(super) fn unit(&self) -> Self {
        match *self {
            Self::Bm25 { flat, slope, .. } => Self::Bm25 { a: 1.0, flat, slope },
            Self::Tfidf { by_length, .. } => Self::Tfidf { a: 1.0, by_length },
        }
    }

    /// The factor before it.
    pub(super) fn scale(&self) -> f32 {
        match *self {
            Self::Bm25 { a, .. } | Self::Tfidf { a, .. } => a,
        }
    }

    /// The same with twice the factor before it.
    pub(super) fn twice(&self) -> Self {
        match *self {
            Self::Bm25 { a, flat, slope } => Self::Bm25 { a: 2.0 * a, flat, slope },
            Self::Tfidf { a, by_length } => Self::Tfidf { a: 2.0 * a, by_length },
        }
    }

    /// What no score exceeds.
    pub(super) fn most(&self) -> f32 {
        match *self {
            Self::Bm25 { a, .. } => a.max(0.0),
            Self::Tfidf { .. } => f32::INFINITY,
        }
    }

    /// How many times as much `now` can score as this one did, both with the same factor before them; none if that is not known.
    /// With a mean length r times as large, tf / (tf + c/r) = r·tf / (r·tf + c) is at most r·tf / (tf + c).
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

    /// Whether the length of the field is needed.
    pub(super) fn wants_length(&self) -> bool {
        match self {
            Self::Bm25 { slope, .. } => *slope != 0.0,
            Self::Tfidf { by_length, .. } => *by_length,
        }
    }

    /// Turns the lengths of documents into the scores of a term that stands there so often, once at least.
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

    /// The score of a term that stands `frequency` times in a field of `length` tokens.
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

/// `ln(1 + (N − df + 0.5) / (df + 0.5))`
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

    /// The five documents of the sample in ArangoDB's documentation of BOOST(): "foo", "bar", "foo bar", "foo baz", "baz".
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
