//! Drift of a summary, measured twice: how far its lines point away from what it folds, and how much of the batch's idf-weighted stems it lost.

use super::lexical::{DIMENSION, embed_query};
use super::local::Line;
use super::telegraph::{Lexicon, StemId, sentences};
use crate::memory::TokenCounter;

/// Lines of each side that are embedded; of more, evenly spread ones.
const LINES_MAX: usize = 2_000;
/// Words of a line that are embedded.
const LINE_WORDS_MAX: usize = 200;
/// Words of a batch that are looked at for its stems.
const BATCH_WORDS_MAX: usize = 400_000;

/// Cosine between the centroid of the summary's lines and that of the old summary's lines with the batch's (the seed's 0.85 is sound for this
/// comparison and no other). None where a side has no line.
pub fn similarity(summary: &str, previous: &str, batch: &[Line<'_>]) -> Option<f64> {
    let said = batch.iter().flat_map(|line| line.text.lines().map(|text| (line.speaker, text)));
    let sources: Vec<String> = previous
        .lines()
        .map(str::to_owned)
        .chain(said.map(|(speaker, text)| format!("{speaker}: {text}")))
        .collect();
    let ours: Vec<String> = summary.lines().map(str::to_owned).collect();
    let (a, b) = (centroid(&ours)?, centroid(&sources)?);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let lengths = (dot(&a, &a) * dot(&b, &b)).sqrt();
    (lengths > 0.0).then(|| dot(&a, &b) / lengths)
}

/// The mean of the lines' vectors.
fn centroid(lines: &[String]) -> Option<Vec<f64>> {
    let lines: Vec<&String> = lines.iter().filter(|line| !line.trim().is_empty()).collect();
    let step = lines.len().div_ceil(LINES_MAX).max(1);
    let mut sum = vec![0.0; DIMENSION as usize];
    let mut count = 0.0;
    for line in lines.iter().step_by(step) {
        let words: Vec<&str> = line.split_whitespace().take(LINE_WORDS_MAX).collect();
        let vector = embed_query(&words.join(" "), sum.len());
        sum.iter_mut().zip(&vector).for_each(|(sum, part)| *sum += part);
        count += 1.0;
    }
    sum.iter_mut().for_each(|part| *part /= count);
    (count > 0.0).then_some(sum)
}

/// Information drift of a summary that somebody else made: that of the summary, and that of a random selection of the same size.
pub fn information(summary: &str, batch: &[Line<'_>], counter: &dyn TokenCounter) -> (f64, f64) {
    let mut lexicon = Lexicon::new(counter);
    let words_max = (BATCH_WORDS_MAX / batch.len().max(1)).max(1);
    let mut groups: Vec<Vec<StemId>> = Vec::new();
    for line in batch {
        for words in lexicon.sentences(line.text, words_max) {
            let stems = words.iter().flat_map(|&word| lexicon.words[word].stems.iter().copied());
            let mut stems: Vec<StemId> = stems.collect();
            stems.sort_unstable();
            stems.dedup();
            groups.push(stems);
        }
    }
    let mut kept = vec![false; lexicon.stem_count()];
    for sentence in sentences(summary) {
        for stem in lexicon.stems_in(sentence) {
            if let Some(kept) = kept.get_mut(stem) {
                *kept = true;
            }
        }
    }
    let tokens = counter.count(summary);
    (of_kept(&groups, &kept), of_random(&groups, batch, tokens, &mut lexicon))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Encoding;
    use crate::text::Tiktoken;

    fn line<'a>(speaker: &'a str, text: &'a str) -> Line<'a> {
        Line { speaker, text }
    }

    const BOATS: [(&str, &str); 3] = [
        ("Ada", "The sloop has two sails and a brass compass. We sail to Lisbon in March."),
        ("Ben", "Bring the brass compass and warm coats, the harbour is cold."),
        ("Ada", "The harbour master charges fourteen euros for a berth."),
    ];

    #[test]
    fn a_summary_of_something_else_is_far_and_one_of_the_batch_is_near() {
        let batch = BOATS.map(|(speaker, text)| line(speaker, text));
        let near = similarity(
            "Ada: sloop two sails, brass compass, Lisbon March\nBen: warm coats, harbour cold",
            "",
            &batch,
        );
        let far = similarity("The guitar needs new strings.\nPiano lessons on Monday.", "", &batch);
        let (near, far) = (near.unwrap(), far.unwrap());
        assert!(near > 0.6 && far < 0.3, "{near} {far}");
        let itself: Vec<String> =
            BOATS.iter().map(|(speaker, text)| format!("{speaker}: {text}")).collect();
        assert!(similarity(&itself.join("\n"), "", &batch).unwrap() > 0.999);
    }

    #[test]
    fn what_the_old_summary_said_is_no_drift() {
        let batch = [line("Ben", "The harbour is cold.")];
        let old = "Ada: guitar strings, piano lessons\nAda: violin bow";
        let new = "Ada: guitar strings, piano lessons, violin bow\nBen: harbour cold";
        let with = similarity(new, old, &batch).unwrap();
        let without = similarity(new, "", &batch).unwrap();
        assert!(with > without + 0.2, "{with} {without}");
    }

    #[test]
    fn a_side_without_a_line_has_no_similarity() {
        assert_eq!(similarity("", "", &[line("Ada", "Hello")]), None);
        assert_eq!(similarity("Ada: hello", "", &[]), None);
    }

    #[test]
    fn an_empty_summary_lost_everything_and_a_copy_nothing() {
        let counter = Tiktoken::new(Encoding::O200kBase);
        let batch = BOATS.map(|(speaker, text)| line(speaker, text));
        assert_eq!(information("", &batch, &counter).0, 1.0);
        let copy: Vec<&str> = BOATS.iter().map(|(_, text)| *text).collect();
        assert_eq!(information(&copy.join(" "), &batch, &counter).0, 0.0);
    }
}
