//! Folds results with equal or nearly equal texts.

use std::collections::BTreeSet;

use super::entry::RecallEntry;
use super::words::{Lexicon, Stem};
use crate::limits::RECALL_TAIL_CHARS_MAX;

/// Number of results, from the best, among which equal texts are looked for.
const COMPARED_MAX: usize = 100;

/// Returns the seqs of results that repeat the text of a better result by the same speaker. The
/// entries are those of the results, best result first. Texts are nearly equal if they have the
/// same stems in any order; a negation is a word like others. Texts of which a search reads only
/// the beginning are not compared.
pub(crate) fn repeated<'e>(results: impl Iterator<Item = &'e RecallEntry>) -> BTreeSet<u64> {
    let mut lexicon = Lexicon::new();
    let mut kept: Vec<(&RecallEntry, Vec<Stem>)> = Vec::new();
    let mut repeated = BTreeSet::new();
    for row in results.take(COMPARED_MAX) {
        if row.content.len() >= RECALL_TAIL_CHARS_MAX {
            continue;
        }
        let own = stems(row, &mut lexicon);
        let is_like = |(known, stems): &(&RecallEntry, Vec<Stem>)| {
            known.name == row.name && known.role == row.role && !own.is_empty() && *stems == own
        };
        if kept.iter().any(is_like) {
            repeated.insert(row.seq);
        } else {
            kept.push((row, own));
        }
    }
    repeated
}

/// Returns the stems of an entry's words, sorted.
fn stems(row: &RecallEntry, lexicon: &mut Lexicon) -> Vec<Stem> {
    let mut stems: Vec<Stem> = lexicon.read(&row.content).iter().map(|word| word.stem).collect();
    stems.sort_unstable();
    stems
}
