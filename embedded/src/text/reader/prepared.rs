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
    pub(super) terms: Vec<(&'a str, Weight)>,
    pub(super) field: &'a str,
    pub(super) filters: Vec<&'a Prepared>,
}

impl Prepared {
    /// Returns the condition as an OR of terms of one field with one scorer, if it has this form.
    pub(super) fn disjunction(&self) -> Option<Disjunction<'_>> {
        let (mut leaves, mut filters) = (Vec::new(), Vec::new());
        match self {
            Self::Every(parts) => {
                let (silent, scored): (Vec<_>, Vec<_>) =
                    parts.iter().partition(|part| part.is_silent());
                let [scored] = scored[..] else { return None };
                scored.leaves(&mut leaves)?;
                filters = silent;
                filters.retain(|filter| !filter.is_everything());
            }
            other => other.leaves(&mut leaves)?,
        }
        let field = leaves.first()?.0;
        let same = leaves.iter().all(|(other, _, weight)| {
            *other == field && weight.scale().is_finite() && weight.scale() >= 0.0
        });
        let terms = leaves.iter().map(|(_, term, weight)| (*term, *weight)).collect();
        same.then_some(Disjunction { terms, field, filters })
    }

    /// Adds the condition's terms with their fields and weights to `leaves`. Returns `None` if the
    /// condition is neither a term nor an OR of terms.
    fn leaves<'a>(&'a self, leaves: &mut Vec<(&'a str, &'a str, Weight)>) -> Option<()> {
        match self {
            Self::Terms { selection, weights, others: false } if weights.len() == 1 => {
                let (term, weights) = weights.first_key_value()?;
                let [weight] = weights[..] else { return None };
                leaves.push((&selection.field, term, weight));
                Some(())
            }
            // A nested OR is not merged, because its scores would then be added in another order.
            Self::Enough(1, parts) if parts.len() == 1 || leaves.is_empty() => {
                let nested = |part: &Self| matches!(part, Self::Enough(..)) && parts.len() > 1;
                if parts.iter().any(nested) {
                    return None;
                }
                parts.iter().try_for_each(|part| part.leaves(leaves))
            }
            _ => None,
        }
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
