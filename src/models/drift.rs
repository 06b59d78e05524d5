//! Information drift: how much of a batch's idf-weighted stems a selection of it lost.

use super::local::Line;
use super::telegraph::{Lexicon, StemId, sentences};

/// Random selections whose drifts are averaged.
const DRAWS: u64 = 3;
/// Sentences that may turn out too long for what is left before a selection counts as full.
const MISSES_MAX: u32 = 20;

/// 1 − idf-weighted share of the stems in `groups` that are marked in `kept`; 0 where there is nothing to lose.
pub(super) fn of_kept(groups: &[Vec<StemId>], kept: &[bool]) -> f64 {
    let mut frequency = vec![0_u32; kept.len()];
    for &stem in groups.iter().flatten() {
        frequency[stem] += 1;
    }
    let (mut all, mut held) = (0.0, 0.0);
    for (&frequency, &kept) in frequency.iter().zip(kept).filter(|(frequency, _)| **frequency > 0) {
        let idf = (1.0 + groups.len() as f64 / f64::from(frequency)).ln();
        all += idf;
        held += if kept { idf } else { 0.0 };
    }
    if all == 0.0 { 0.0 } else { 1.0 - held / all }
}

/// The mean drift of sentences of `batch` drawn at random up to `tokens`. The draws follow from the batch alone.
pub(super) fn of_random(
    groups: &[Vec<StemId>],
    batch: &[Line<'_>],
    tokens: u64,
    lexicon: &mut Lexicon<'_>,
) -> f64 {
    let lines: Vec<(&str, &str)> = batch
        .iter()
        .flat_map(|line| sentences(line.text).map(|sentence| (line.speaker, sentence)))
        .collect();
    let mut costs: Vec<Option<u64>> = vec![None; lines.len()];
    let stem_count = lexicon.stem_count();
    let mut chance = Chance::seeded(batch);
    let mut sum = 0.0;
    for _ in 0..DRAWS {
        let mut kept = vec![false; stem_count];
        let (mut left, mut misses) = (tokens, 0);
        for at in chance.permutation(lines.len()) {
            let (speaker, sentence) = lines[at];
            let cost = *costs[at].get_or_insert_with(|| lexicon.line_tokens(speaker, sentence));
            if cost <= left {
                left -= cost;
                let stems =
                    lexicon.stems_in(sentence).into_iter().filter(|&stem| stem < stem_count);
                stems.for_each(|stem| kept[stem] = true);
            } else {
                misses += 1;
            }
            if misses == MISSES_MAX {
                break;
            }
        }
        sum += of_kept(groups, &kept);
    }
    sum / DRAWS as f64
}

/// A small generator (SplitMix64) seeded by content, so that equal input gives equal draws.
struct Chance(u64);

impl Chance {
    fn seeded(batch: &[Line<'_>]) -> Self {
        let bytes = batch.iter().flat_map(|line| line.speaker.bytes().chain(line.text.bytes()));
        // FNV-1a, 64 bits.
        Self(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn permutation(&mut self, length: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..length).collect();
        for at in (1..length).rev() {
            order.swap(at, (self.next() % (at as u64 + 1)) as usize);
        }
        order
    }
}
