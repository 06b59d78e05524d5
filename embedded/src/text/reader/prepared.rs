//! Prepared search conditions, and the recognition of ORs of terms, whose best documents are found
//! without reading all documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::text::query::{Between, Selection};
use crate::text::score::Weight;

/// A search condition with its terms and their weights.
pub(super) enum Prepared {
    All,
    Nothing,
    Terms { selection: Selection, weights: BTreeMap<String, Arc<[Weight]>>, others: bool },
    Between(Between),
    Phrase { field: String, places: Vec<(u32, Vec<String>)>, weights: Arc<[Weight]> },
    Ngram { field: String, terms: Vec<String>, least: usize, weights: Arc<[Weight]> },
    Every(Vec<Self>),
    Enough(usize, Vec<Self>),
    Not(Box<Self>),
}

/// An OR of terms of one field, whose scores are summed, with conditions that documents must also
/// fulfil.
pub(super) struct Disjunction<'a> {
    /// The terms with their weights, and the number of each term's group. The scores of a group, a
    /// nested OR, are summed first.
    pub(super) terms: Vec<(&'a str, Weight, usize)>,
    pub(super) field: &'a str,
    pub(super) filters: Vec<&'a Prepared>,
}

impl Prepared {
    /// Returns the condition as an OR of terms of one field with one scorer, if it has this form. A
    /// part of the OR may be an OR of terms itself.
    pub(super) fn disjunction(&self) -> Option<Disjunction<'_>> {
        let (mut leaves, mut filters) = (Vec::new(), Vec::new());
        let mut scored = self;
        if let Self::Every(parts) = self {
            let (silent, scoring): (Vec<_>, Vec<_>) =
                parts.iter().partition(|part| part.is_silent());
            let [only] = scoring[..] else { return None };
            scored = only;
            filters = silent;
            filters.retain(|filter| !filter.is_everything());
        }
        let groups = match scored.unwrapped() {
            Self::Enough(1, parts) => &parts[..],
            other => std::slice::from_ref(other),
        };
        for (number, group) in groups.iter().enumerate() {
            let parts = match group.unwrapped() {
                Self::Enough(1, parts) => &parts[..],
                other => std::slice::from_ref(other),
            };
            for part in parts {
                let (field, term, weight) = part.unwrapped().leaf()?;
                leaves.push((field, term, weight, number));
            }
        }
        let field = leaves.first()?.0;
        let same = leaves.iter().all(|(other, _, weight, _)| {
            *other == field && weight.scale().is_finite() && weight.scale() >= 0.0
        });
        let terms = leaves.iter().map(|(_, term, weight, group)| (*term, *weight, *group));
        same.then(|| Disjunction { terms: terms.collect(), field, filters })
    }

    /// Returns the only part of an OR with one part, or the condition itself.
    fn unwrapped(&self) -> &Self {
        match self {
            Self::Enough(1, parts) if parts.len() == 1 => parts[0].unwrapped(),
            other => other,
        }
    }

    /// Returns the field, the term and the weight of a condition with one term and one scorer.
    fn leaf(&self) -> Option<(&str, &str, Weight)> {
        let Self::Terms { selection, weights, others: false } = self else { return None };
        let (term, weights) = weights.first_key_value().filter(|_| weights.len() == 1)?;
        let [weight] = weights[..] else { return None };
        Some((&selection.field, term, weight))
    }

    /// Whether the condition does not contribute to scores.
    fn is_silent(&self) -> bool {
        match self {
            Self::All | Self::Nothing | Self::Not(_) | Self::Between(_) => true,
            Self::Terms { weights, .. } => weights
                .values()
                .flat_map(|weights| weights.iter())
                .all(|weight| weight.scale() == 0.0),
            Self::Phrase { weights, .. } | Self::Ngram { weights, .. } => {
                weights.iter().all(|weight| weight.scale() == 0.0)
            }
            Self::Every(parts) | Self::Enough(_, parts) => parts.iter().all(Self::is_silent),
        }
    }

    /// Whether two conditions are equal phrases with equal weights.
    pub(super) fn is_same_phrase(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Phrase { field, places, weights },
                Self::Phrase { field: other, places: others, weights: theirs },
            ) => {
                let scales = |weights: &Arc<[Weight]>| -> Vec<u32> {
                    weights.iter().map(|weight| weight.scale().to_bits()).collect()
                };
                field == other && places == others && scales(weights) == scales(theirs)
            }
            _ => false,
        }
    }

    /// Whether every document is known to fulfil the condition, which adds nothing to scores.
    pub(super) fn is_idle(&self) -> bool {
        self.is_everything() && self.is_silent()
    }

    /// Whether every document is known to fulfil the condition.
    fn is_everything(&self) -> bool {
        match self {
            Self::All | Self::Enough(0, _) => true,
            Self::Every(parts) => parts.iter().all(Self::is_everything),
            Self::Enough(least, parts) => {
                parts.iter().filter(|part| part.is_everything()).count() >= *least
            }
            _ => false,
        }
    }
}
