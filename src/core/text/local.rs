//! The built-in summariser, which selects the short facts with most content per token and needs no
//! model, clock or randomness.
//!
//! The built-in summariser is recursive: it folds the evicted messages into the previous summary,
//! within a token limit. In measurements, selecting facts with many rare stems per token kept most
//! content; ranking sentences by centrality kept less than a random choice.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

use super::drift;
use super::telegraph::{Class, Lexicon, StemId, WordId};
use crate::memory::TokenCounter;
use crate::window::OLD_SUMMARY_PERCENT;

/// An evicted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Name or role of the message's speaker.
    pub speaker: &'a str,
    /// Text of the message to summarise.
    pub text: &'a str,
}

/// A new summary, and how much of the evicted messages the summary covers.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The summary's text, with one line `speaker: words; words` for each message with a fact; a
    /// line names the speaker only if the line before is from a different speaker.
    pub content: String,
    /// Number of tokens in `content`, without the message frame; at most the limit.
    pub token_estimate: u64,
    /// Number of facts (sequences of content words) in `content`: facts of the previous summary and
    /// new facts.
    pub facts_kept: usize,
    /// Drift of the summary: 1 minus the share of the evicted messages' stems that the summary
    /// contains, weighted by idf; 0 is best.
    pub information_drift: f64,
    /// Drift of random sentences of the evicted messages with as many tokens as the summary; the
    /// summary's own drift should not be larger.
    pub random_drift: f64,
}

// The constants of the summariser were tuned on development conversations of LoCoMo with windows of
// 4096 and 8192 tokens. The measure was the number of questions that a summary can still answer
// after one eviction and at the end of the conversation.

/// Maximum number of content words in one fact.
const FACT_WORDS_MAX: usize = 8;
/// Minimum number of words that a fact keeps when words that the summary already contains are
/// dropped.
const FACT_WORDS_KEPT: usize = 4;
/// Exponent of the idf in the formula for a stem's worth.
const IDF_POWER: f64 = 0.5;
/// Exponent of the number of facts that contain the stem, in the formula for a stem's worth.
const FREQUENCY_POWER: f64 = 0.3;
/// Factors in the formula for a stem's worth, one for each class of words: names, numbers and
/// fillers.
const NAME_WORTH: f64 = 2.0;
const NUMBER_WORTH: f64 = 1.5;
const FILLER_WORTH: f64 = 0.5;
/// Factor in the worth of a stem that an already chosen fact contains. This factor is above 0,
/// because such a stem gives context to new stems.
const CONTEXT_WORTH: f64 = 0.4;
/// Exponent of a fact's token count in its rank, which is worth / tokens^exponent.
const COST_POWER: f64 = 0.7;
/// Factor in the worth of a fact whose message already has a fact in the summary.
const COMPANY_WORTH: f64 = 1.25;
/// Maximum number of content words that the summariser reads in one call, divided evenly among the
/// messages.
const BATCH_WORDS_MAX: usize = 400_000;
/// Minimum number of content words that the summariser reads from each message, even if an equal
/// share of [`BATCH_WORDS_MAX`] is smaller.
const MESSAGE_WORDS_MIN: usize = 64;
/// Maximum length of a speaker's label: this number of characters and [`LABEL_WORDS_MAX`] words.
const LABEL_CHARS_MAX: usize = 32;
const LABEL_WORDS_MAX: usize = 3;
/// Label of a speaker whose name is empty.
const NO_LABEL: &str = "note";

/// Folds the evicted messages (`batch`) into the summary `previous`. The new summary depends only
/// on the arguments and has at most as many tokens as the upper bound of `tokens`. A new summary
/// with fewer tokens than the lower bound must not replace a nearly full summary. The function
/// therefore returns `previous` instead of such a summary, provided that `previous` is within the
/// upper bound.
pub fn summarise(
    previous: &str,
    batch: &[Line<'_>],
    tokens: RangeInclusive<u64>,
    count: &dyn TokenCounter,
) -> Summary {
    let tokens_max = *tokens.end();
    let mut lexicon = Lexicon::new(count);
    let mut facts = read_previous(previous, &mut lexicon);
    let first_new = facts.len();
    let first_turn = facts.last().map_or(0, |fact| fact.turn + 1);
    facts.extend(read_batch(batch, first_turn, &mut lexicon));

    let mut selection = Selection::new(&facts, &lexicon, count);
    selection.choose(tokens_max);
    let mut content = selection.fit(tokens_max);
    if count.count(&content) < *tokens.start() && count.count(previous) <= tokens_max {
        selection.choose_old();
        previous.clone_into(&mut content);
    }

    let kept = selection.kept_stems();
    let sentences: Vec<Vec<StemId>> =
        facts[first_new..].iter().map(|fact| fact.stems(&lexicon)).collect();
    let token_estimate = count.count(&content);
    Summary {
        facts_kept: selection.chosen.len(),
        information_drift: drift::of_kept(&sentences, &kept),
        random_drift: drift::of_random(&sentences, batch, token_estimate, &mut lexicon),
        token_estimate,
        content,
    }
}

/// A sequence of content words of one message.
struct Fact {
    words: Vec<WordId>,
    speaker: String,
    /// Index of the fact's message in the conversation; each line of the old summary counts as a
    /// message.
    turn: usize,
    old: bool,
}

impl Fact {
    fn stems(&self, lexicon: &Lexicon<'_>) -> Vec<StemId> {
        let mut stems: Vec<StemId> =
            self.words.iter().flat_map(|&word| &lexicon.words[word].stems).copied().collect();
        stems.sort_unstable();
        stems.dedup();
        stems
    }
}

fn read_previous(previous: &str, lexicon: &mut Lexicon<'_>) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut speaker = NO_LABEL.to_owned();
    for (turn, line) in previous.lines().enumerate() {
        let (head, body) = line.split_once(": ").unwrap_or(("", line));
        let body = if !head.is_empty() && label(head) == head {
            speaker = head.to_owned();
            body
        } else {
            line
        };
        for part in body.split("; ") {
            let runs = runs(part, BATCH_WORDS_MAX, lexicon);
            facts.extend(runs.into_iter().map(|words| Fact {
                words,
                speaker: speaker.clone(),
                turn,
                old: true,
            }));
        }
    }
    facts
}

fn read_batch(batch: &[Line<'_>], first_turn: usize, lexicon: &mut Lexicon<'_>) -> Vec<Fact> {
    let words_max = (BATCH_WORDS_MAX / batch.len().max(1)).max(MESSAGE_WORDS_MIN);
    let mut facts = Vec::new();
    for (at, line) in batch.iter().enumerate() {
        let speaker = label(line.speaker);
        let runs = runs(line.text, words_max, lexicon);
        let turn = first_turn + at;
        facts.extend(runs.into_iter().map(|words| Fact {
            words,
            speaker: speaker.clone(),
            turn,
            old: false,
        }));
    }
    facts
}

/// Splits each sentence of `text` into sequences of at most [`FACT_WORDS_MAX`] content words. The
/// sequences of one sentence have about the same number of words.
fn runs(text: &str, words_max: usize, lexicon: &mut Lexicon<'_>) -> Vec<Vec<WordId>> {
    let mut runs = Vec::new();
    for sentence in lexicon.sentences(text, words_max) {
        let size = sentence.len().div_ceil(sentence.len().div_ceil(FACT_WORDS_MAX));
        runs.extend(sentence.chunks(size).map(<[WordId]>::to_vec));
    }
    runs
}

/// Returns the label that names a speaker in a summary. A speaker that already is a label is
/// returned unchanged, so that a summary can be parsed again.
fn label(speaker: &str) -> String {
    let clean: String = speaker
        .chars()
        .map(|c| if matches!(c, ':' | ';') || c.is_control() { ' ' } else { c })
        .collect();
    let words: Vec<&str> = clean.split_whitespace().take(LABEL_WORDS_MAX).collect();
    let short: String = words.join(" ").chars().take(LABEL_CHARS_MAX).collect();
    if short.trim().is_empty() { NO_LABEL.to_owned() } else { short.trim().to_owned() }
}

/// Selects the facts for the summary one after the other, by the worth that each fact adds.
struct Selection<'a> {
    facts: &'a [Fact],
    lexicon: &'a Lexicon<'a>,
    count: &'a dyn TokenCounter,
    /// Worth of each stem.
    worth: Vec<f64>,
    /// Estimated tokens that each fact's line has in addition to the fact's words.
    prefix_tokens: Vec<u64>,
    said: Vec<bool>,
    turn_open: Vec<bool>,
    /// Chosen facts, in the order in which they were chosen.
    chosen: Vec<Pick>,
}

/// A fact with the words that would enter the summary, and the fact's cost and rank.
struct Pick {
    fact: usize,
    words: Vec<WordId>,
    tokens: u64,
    rank: f64,
}

/// A fact in the selection's heap, ordered by its last computed rank; among facts with equal ranks
/// the earlier fact comes first.
#[derive(PartialEq)]
struct Candidate {
    rank: f64,
    fact: usize,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.total_cmp(&other.rank).then(other.fact.cmp(&self.fact))
    }
}

impl<'a> Selection<'a> {
    fn new(facts: &'a [Fact], lexicon: &'a Lexicon<'a>, count: &'a dyn TokenCounter) -> Self {
        let mut labels: Vec<(&str, u64)> = Vec::new();
        let mut prefix_tokens = Vec::with_capacity(facts.len());
        for fact in facts {
            let known = labels
                .iter()
                .find(|(speaker, _)| *speaker == fact.speaker)
                .map(|&(_, tokens)| tokens);
            let tokens = known.unwrap_or_else(|| count.count(&fact.speaker));
            if known.is_none() {
                labels.push((&fact.speaker, tokens));
            }
            // Each line costs one token for the line break, and half the tokens of the speaker's
            // label, because about every second line names a speaker.
            prefix_tokens.push(1 + tokens.div_ceil(2));
        }
        Self {
            worth: worth_of_stems(facts, lexicon),
            said: vec![false; lexicon.stem_count()],
            turn_open: vec![false; facts.last().map_or(0, |fact| fact.turn + 1)],
            chosen: Vec::new(),
            facts,
            lexicon,
            count,
            prefix_tokens,
        }
    }

    /// Chooses the fact with the highest rank again and again, until no further fact fits or adds
    /// worth.
    fn choose(&mut self, tokens_max: u64) {
        let old_tokens_max = tokens_max * OLD_SUMMARY_PERCENT / 100;
        let (mut tokens, mut old_tokens) = (0, 0);
        let mut spare = Vec::new();
        let mut heap: BinaryHeap<Candidate> = (0..self.facts.len())
            .map(|fact| Candidate { rank: self.weigh(fact).rank, fact })
            .collect();
        while let Some(Candidate { fact, .. }) = heap.pop() {
            let pick = self.weigh(fact);
            if heap.peek().is_some_and(|next| pick.rank < next.rank) {
                heap.push(Candidate { rank: pick.rank, fact });
                continue;
            }
            if pick.rank <= 0.0 || tokens + pick.tokens > tokens_max {
                continue;
            }
            if self.facts[fact].old && old_tokens + pick.tokens > old_tokens_max {
                spare.push(fact);
                continue;
            }
            tokens += pick.tokens;
            old_tokens += if self.facts[fact].old { pick.tokens } else { 0 };
            self.take(pick);
        }
        for fact in spare {
            let pick = self.weigh(fact);
            if pick.rank > 0.0 && tokens + pick.tokens <= tokens_max {
                tokens += pick.tokens;
                self.take(pick);
            }
        }
    }

    /// Chooses all facts of the previous summary in full.
    fn choose_old(&mut self) {
        let whole = |fact: usize| Pick {
            fact,
            words: self.facts[fact].words.clone(),
            tokens: 0,
            rank: 0.0,
        };
        let old = (0..self.facts.len()).filter(|&fact| self.facts[fact].old);
        self.chosen = old.map(whole).collect();
    }

    fn take(&mut self, pick: Pick) {
        for &word in &pick.words {
            for &stem in &self.lexicon.words[word].stems {
                self.said[stem] = true;
            }
        }
        self.turn_open[self.facts[pick.fact].turn] = true;
        self.chosen.push(pick);
    }

    /// Computes a fact's rank and cost in tokens, given the facts chosen so far.
    fn weigh(&self, at: usize) -> Pick {
        let fact = &self.facts[at];
        let words = self.trimmed(&fact.words);
        let company = self.turn_open[fact.turn];
        let mut tokens = if company { 1 } else { self.prefix_tokens[at] };
        let mut seen: Vec<StemId> = Vec::with_capacity(FACT_WORDS_MAX);
        let (mut new, mut known) = (0.0, 0.0);
        for &word in &words {
            let word = &self.lexicon.words[word];
            tokens += word.tokens;
            for &stem in &word.stems {
                if !seen.contains(&stem) {
                    seen.push(stem);
                    *(if self.said[stem] { &mut known } else { &mut new }) += self.worth[stem];
                }
            }
        }
        let new = if company { new * COMPANY_WORTH } else { new };
        let rank = (new + CONTEXT_WORTH * known.min(new)) / (tokens as f64).powf(COST_POWER);
        Pick { fact: at, words, tokens, rank }
    }

    /// Drops from a fact's words those that the summary already contains, and returns the remaining
    /// words. The words of least worth are dropped first, and at least [`FACT_WORDS_KEPT`] words
    /// remain.
    fn trimmed(&self, words: &[WordId]) -> Vec<WordId> {
        let stale = |word: WordId| {
            let word = &self.lexicon.words[word];
            word.class != Class::Negation && word.stems.iter().all(|&stem| self.said[stem])
        };
        let worth = |at: usize| {
            self.lexicon.words[words[at]].stems.iter().map(|&stem| self.worth[stem]).sum::<f64>()
        };
        let mut dropped: Vec<usize> = (0..words.len()).filter(|&at| stale(words[at])).collect();
        dropped.sort_by(|&left, &right| worth(left).total_cmp(&worth(right)));
        dropped.truncate(words.len().saturating_sub(FACT_WORDS_KEPT));
        (0..words.len()).filter(|at| !dropped.contains(at)).map(|at| words[at]).collect()
    }

    /// Renders the chosen facts as the summary. While the summary exceeds the token limit, drops
    /// the facts chosen last.
    fn fit(&mut self, tokens_max: u64) -> String {
        loop {
            let content = self.render();
            let over = self.count.count(&content).saturating_sub(tokens_max);
            if over == 0 {
                return content;
            }
            let mut given_back = 0;
            while given_back < over
                && let Some(pick) = self.chosen.pop()
            {
                given_back += pick.tokens.max(1);
            }
        }
    }

    /// Returns the text of the chosen facts in the order of the conversation.
    fn render(&self) -> String {
        let mut picks: Vec<&Pick> = self.chosen.iter().collect();
        picks.sort_by_key(|pick| pick.fact);
        let mut content = String::new();
        let mut last: Option<&Fact> = None;
        for pick in picks {
            let fact = &self.facts[pick.fact];
            if last.is_some_and(|last| last.turn == fact.turn) {
                content.push_str("; ");
            } else {
                content.push_str(if last.is_some() { "\n" } else { "" });
                if last.is_none_or(|last| last.speaker != fact.speaker) {
                    content.push_str(&fact.speaker);
                    content.push_str(": ");
                }
            }
            let words: Vec<&str> =
                pick.words.iter().map(|&word| self.lexicon.words[word].text.as_str()).collect();
            content.push_str(&words.join(" "));
            last = Some(fact);
        }
        content
    }

    fn kept_stems(&self) -> Vec<bool> {
        let mut kept = vec![false; self.said.len()];
        for pick in &self.chosen {
            for &word in &pick.words {
                for &stem in &self.lexicon.words[word].stems {
                    kept[stem] = true;
                }
            }
        }
        kept
    }
}

/// Returns the worth of each stem. Rare and repeated stems are worth more, and so are names and
/// numbers, because names and numbers often answer questions.
fn worth_of_stems(facts: &[Fact], lexicon: &Lexicon<'_>) -> Vec<f64> {
    let mut frequency = vec![0_u32; lexicon.stem_count()];
    let mut class_worth = vec![0.0_f64; lexicon.stem_count()];
    for fact in facts {
        for stem in fact.stems(lexicon) {
            frequency[stem] += 1;
        }
        for &word in &fact.words {
            let worth = match lexicon.words[word].class {
                Class::Negation => 0.0,
                Class::Filler => FILLER_WORTH,
                Class::Plain => 1.0,
                Class::Name => NAME_WORTH,
                Class::Number => NUMBER_WORTH,
            };
            for &stem in &lexicon.words[word].stems {
                class_worth[stem] = class_worth[stem].max(worth);
            }
        }
    }
    let worth = |(frequency, class): (u32, f64)| {
        let frequency = f64::from(frequency.max(1));
        let idf = (1.0 + facts.len() as f64 / frequency).ln();
        idf.powf(IDF_POWER) * frequency.powf(FREQUENCY_POWER) * class
    };
    frequency.into_iter().zip(class_worth).map(worth).collect()
}
