//! Measures the drift of a summary in two ways: by the vectors of its statements, and by the share
//! of stems that the evicted messages contain and the summary lacks.

use super::clauses::BREAK;
use super::dated::{Origin, label};
use super::lexical::{DIMENSION, Features};
use super::lexicon::{Lexicon, StemId, sentences};
use super::local::{Line, NEXT_SPEAKER};
use crate::memory::TokenCounter;
use crate::seeded::Seeded;

/// Maximum number of statements of a text that are embedded for the drift measure; they are evenly
/// spread over the text.
const LINES_MAX: usize = 2_000;
/// Maximum number of words of a statement that are embedded for the drift measure.
const LINE_WORDS_MAX: usize = 200;
/// Maximum number of words whose stems are counted in the evicted messages.
const BATCH_WORDS_MAX: usize = 400_000;

/// Returns the cosine between the centroid of the new summary's statements and the centroid of the
/// statements of the old summary and the evicted messages (`batch`); `None` if either centroid has
/// no statements. A statement is a sentence or a clause, without its date, position and speaker: a
/// line of a summary has many of them, and a line of a message few.
pub fn similarity(summary: &str, previous: &str, batch: &[Line<'_>]) -> Option<f64> {
    Sources::new(previous, batch).similarity(summary)
}

/// The texts that summaries are compared with.
pub(super) struct Sources {
    features: Features,
    centroid: Option<Vec<f64>>,
}

impl Sources {
    /// Reads the old summary and the evicted messages.
    pub(super) fn new(previous: &str, batch: &[Line<'_>]) -> Self {
        let mut features = Features::new(DIMENSION as usize);
        let said = batch.iter().flat_map(|line| sentences(line.text)).map(str::to_owned);
        let statements: Vec<String> = statements(previous).into_iter().chain(said).collect();
        Self { centroid: centroid(&statements, &mut features), features }
    }

    /// Compares a summary with the texts; see [`similarity`].
    pub(super) fn similarity(&mut self, summary: &str) -> Option<f64> {
        let a = centroid(&statements(summary), &mut self.features)?;
        let b = self.centroid.as_ref()?;
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let lengths = (dot(&a, &a) * dot(b, b)).sqrt();
        (lengths > 0.0).then(|| dot(&a, b) / lengths)
    }
}

/// Returns the statements of a summary.
fn statements(summary: &str) -> Vec<String> {
    let lines = summary.lines().map(|line| Origin::read(line).map_or(line, |(_, rest)| rest));
    let said = lines.flat_map(|line| line.split(NEXT_SPEAKER)).map(|said| {
        let said = said.trim_start_matches(['-', '*', '•', ' ']);
        said.split_once(": ")
            .filter(|(name, _)| label(name) == *name)
            .map_or(said, |(_, text)| text)
    });
    let clauses = said.flat_map(|said| said.split(BREAK)).flat_map(sentences);
    clauses.map(str::to_owned).collect()
}

/// Returns the mean of the statements' vectors.
fn centroid(statements: &[String], features: &mut Features) -> Option<Vec<f64>> {
    let statements: Vec<&String> = statements.iter().filter(|one| !one.trim().is_empty()).collect();
    let step = statements.len().div_ceil(LINES_MAX).max(1);
    let mut sum = vec![0.0; DIMENSION as usize];
    let mut count = 0.0;
    for line in statements.iter().step_by(step) {
        let words: Vec<&str> = line.split_whitespace().take(LINE_WORDS_MAX).collect();
        let vector = features.embed(&words.join(" "));
        sum.iter_mut().zip(&vector).for_each(|(sum, part)| *sum += part);
        count += 1.0;
    }
    sum.iter_mut().for_each(|part| *part /= count);
    (count > 0.0).then_some(sum)
}

/// Returns two information drifts (see `of_kept`): the drift of the summary, and the mean drift of
/// random selections of sentences. Each selection has about as many tokens as the summary.
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

/// Number of random selections of sentences whose drifts are averaged.
const DRAWS: u64 = 3;
/// Number of sentences that may fail to fit before a random selection counts as full.
const MISSES_MAX: u32 = 20;

/// Returns 1 minus the share of the stems in `groups` whose value in `kept` is true, weighted by
/// idf; 0 if there are no stems.
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

/// Returns the mean drift of several selections; a selection consists of random sentences of
/// `batch` with at most `tokens` tokens in total. The random choice depends only on the batch.
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
    let mut chance = seeded(batch);
    let mut sum = 0.0;
    for _ in 0..DRAWS {
        let mut kept = vec![false; stem_count];
        let (mut left, mut misses) = (tokens, 0);
        for at in permutation(&mut chance, lines.len()) {
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

/// Returns a random generator whose seed is a hash of the batch, so that equal batches give equal
/// draws.
fn seeded(batch: &[Line<'_>]) -> Seeded {
    let bytes = batch.iter().flat_map(|line| line.speaker.bytes().chain(line.text.bytes()));
    // FNV-1a, 64 bits.
    Seeded::new(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }))
}

fn permutation(chance: &mut Seeded, length: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    for at in (1..length).rev() {
        order.swap(at, (chance.next_u64() % (at as u64 + 1)) as usize);
    }
    order
}
