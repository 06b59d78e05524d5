//! The newer before the stale: of two entries that say how the same thing stands, the one said last is listed first.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::asked::Asked;
use super::spoken::Read;
use super::words::{Stem, Word};

/// Places at the top of a list that may be stale.
const STALE_PLACES: usize = 3;
/// Places among which something newer is looked for.
const NEWER_PLACES: usize = 6;
/// Share of the question's words, by rarity, that both must hold. This and the next two were chosen on the development chats of BEAM and
/// conversations of LoCoMo: of 18 statements that were updated, 14 stand before the old one by words and 13 with vectors (5 and 6
/// without this), and the first evidence of LoCoMo's questions stands half a point of reciprocal rank lower.
const ASKED_SHARE: f64 = 0.3;
/// Share of two passages' words, by rarity, from which they say the same.
const SAME_SHARE: f64 = 0.15;
/// The same of the question's words alone, for a newer passage that says that something changed.
const CHANGED_SHARE: f64 = 0.5;

/// Moves `(from, to)`, to be made one after the other, that put the newer first. `order` are entries and their best passages, best first.
pub(super) fn newer_first(
    asked: &Asked,
    reads: &[Read<'_>],
    order: &[(usize, usize)],
) -> Vec<(usize, usize)> {
    let mut top: Vec<(usize, usize)> = order.iter().take(NEWER_PLACES).copied().collect();
    let rarity = rarities(reads);
    let mut moves = Vec::new();
    for place in 0..STALE_PLACES.min(top.len()) {
        let stale = top[place];
        if reads[stale.0].is(&asked.verbatim) {
            continue;
        }
        let newer =
            (place + 1..top.len()).find(|at| supersedes(asked, reads, &rarity, stale, top[*at]));
        if let Some(newer) = newer {
            let moved = top.remove(newer);
            top.insert(place, moved);
            moves.push((newer, place));
        }
    }
    moves
}

fn supersedes(
    asked: &Asked,
    reads: &[Read<'_>],
    rarity: &HashMap<Stem, f64>,
    stale: (usize, usize),
    newer: (usize, usize),
) -> bool {
    let (old, new) = (&reads[stale.0], &reads[newer.0]);
    if new.row.seq <= old.row.seq || new.row.role != old.row.role || new.name != old.name {
        return false;
    }
    let (old, new) = (&old.parts[stale.1].words, &new.parts[newer.1].words);
    let (old_stems, new_stems) = (stems(old, |_| true), stems(new, |_| true));
    let weight = |stem: &Stem| rarity.get(stem).copied().unwrap_or(0.0);
    let wanted: HashMap<Stem, f64> = asked.terms.iter().copied().collect();
    let asked_for = |stem: &Stem| wanted.get(stem).copied().unwrap_or(0.0);
    let both_hold: f64 = old_stems.intersection(&new_stems).map(asked_for).sum();
    if both_hold < ASKED_SHARE * asked.total {
        return false;
    }
    let changed = new.iter().any(|word| word.marks.change);
    let (before, now) = (stems(old, |word| word.marks.value), stems(new, |word| word.marks.value));
    let differs = !before.is_empty() && !now.is_empty() && before != now;
    let same = shared(&old_stems, &new_stems, weight) >= SAME_SHARE;
    let same_asked = shared(&old_stems, &new_stems, asked_for) >= CHANGED_SHARE;
    (same && (differs || changed)) || (same_asked && changed)
}

/// The stems of some words of a passage.
fn stems(words: &[Word], which: impl Fn(&Word) -> bool) -> BTreeSet<Stem> {
    words.iter().filter(|word| which(word)).map(|word| word.stem).collect()
}

/// Weight of what both hold against that of what either holds.
fn shared(a: &BTreeSet<Stem>, b: &BTreeSet<Stem>, weight: impl Fn(&Stem) -> f64) -> f64 {
    let either: f64 = a.union(b).map(&weight).sum();
    let both: f64 = a.intersection(b).map(&weight).sum();
    if either > 0.0 { both / either } else { 0.0 }
}

/// How rare each word is among the entries at hand: `ln(1 + (N − n + 0.5) / (n + 0.5))`.
fn rarities(reads: &[Read<'_>]) -> HashMap<Stem, f64> {
    let mut holders: HashMap<Stem, f64> = HashMap::new();
    for read in reads {
        let all: HashSet<Stem> =
            read.parts.iter().flat_map(|part| &part.words).map(|word| word.stem).collect();
        for stem in all {
            *holders.entry(stem).or_default() += 1.0;
        }
    }
    let total = reads.len() as f64;
    holders
        .into_iter()
        .map(|(stem, n)| (stem, (1.0 + (total - n + 0.5) / (n + 0.5)).ln()))
        .collect()
}
