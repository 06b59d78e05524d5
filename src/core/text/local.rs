//! The built-in summariser, which selects the clauses with most content per token and needs no
//! model, clock or randomness.
//!
//! The built-in summariser is recursive: it folds the evicted messages into the previous summary,
//! within a token limit. A summary consists of whole clauses of the log, so that a model can
//! believe it. In measurements, selecting clauses with many rare stems per token kept most
//! content; ranking sentences by centrality kept less than a random choice.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use jiff::civil::Date;

use super::clauses::{BREAK, clauses, clauses_of_summary, is_name_of};
use super::dated::{Origin, label};
use super::drift::{self, Sources};
use super::facts::odds;
use super::grammar::{BACK, REQUESTS, SELF, SMALL_TALK, is_one_of, lower};
use super::lexicon::{Class, Lexicon, StemId};
use super::selection::Selection;
use crate::memory::TokenCounter;

/// An evicted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Position of the message in the log.
    pub seq: u64,
    /// Day of the message in the agent's time zone.
    pub day: Date,
    /// Name or role of the message's speaker.
    pub speaker: &'a str,
    /// Text of the message to summarise.
    pub text: &'a str,
}

/// A new summary, and how much of the evicted messages the summary covers.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The summary's text. A line like `8-25 May 2023 #1-40 Mira: clause. clause; clause | Tom:
    /// clause` has the days and positions of the messages for which it stands. Lines of a previous
    /// summary without a date stay as they are until they are left out.
    pub content: String,
    /// Number of tokens in `content`, without the message frame; at most the limit.
    pub token_estimate: u64,
    /// Number of clauses in `content`: clauses of the previous summary and new clauses.
    pub facts_kept: usize,
    /// Drift of the summary: 1 minus the share of the evicted messages' stems that the summary
    /// contains, weighted by idf; 0 is best.
    pub information_drift: f64,
    /// Drift of random sentences of the evicted messages with as many tokens as the summary has for
    /// these messages; the summary's own drift should not be larger.
    pub random_drift: f64,
}

/// The weights of the summariser, which were tuned on development conversations of LoCoMo with
/// windows of 4096 and 8192 tokens. The measure was the number of questions that a summary can
/// still answer after one eviction and at the end of the conversation.
pub(super) struct Weights {
    /// Exponent of the idf in the formula for a stem's worth.
    pub(super) idf_power: f64,
    /// Exponent of the number of clauses that contain the stem, in the formula for a stem's worth.
    pub(super) frequency_power: f64,
    /// How much the exponent `frequency_power` grows with each further attempt to come close to the
    /// messages.
    pub(super) frequency_step: f64,
    /// Factors in the formula for a stem's worth, one for each class of words: names, numbers and
    /// fillers.
    pub(super) name: f64,
    pub(super) number: f64,
    pub(super) filler: f64,
    /// Factor for words that end like verbs or adverbs.
    pub(super) inflected: f64,
    /// Factor in the worth of a stem that an already chosen clause contains, because such a stem
    /// gives context to new stems.
    pub(super) context: f64,
    /// Exponent of a clause's token count in its rank, which is worth / tokens^exponent.
    pub(super) cost_power: f64,
    /// Tokens that a clause costs in addition to its words, for a separator and its share of the
    /// line's beginning; none for the separator if the clause next to it is in the summary.
    pub(super) extra_tokens: f64,
    /// Factor in the worth of a clause next to a clause that is in the summary.
    pub(super) company: f64,
    /// Factor in the worth of a clause in which the speaker speaks about himself or herself.
    pub(super) myself: f64,
    /// Factor in the worth of a clause whose pronoun means something that the summary cannot name.
    pub(super) orphan: f64,
    /// Factor in the worth of the stems of a clause that is chosen only because the next clause
    /// needs it.
    pub(super) needed: f64,
    /// Factor in the worth of a clause that is advice to the other speaker.
    pub(super) advice: f64,
    /// Factor in the worth of what the model said, which the user can ask again.
    pub(super) assistant: f64,
    /// Factor in the worth of a question or request, which states no fact.
    pub(super) question: f64,
    /// Factor in the worth of a remark in brackets, like the caption of a picture.
    pub(super) caption: f64,
    /// Factor in the worth of a clause that a later clause replaces.
    pub(super) replaced: f64,
    /// The same factor for a clause that a user told a model.
    pub(super) told_replaced: f64,
    /// Factor in the worth of a line without a date, so that it gives way to dated lines.
    pub(super) undated: f64,
    /// Maximum share of the summary for clauses of the previous summary, while new clauses need the
    /// rest.
    pub(super) old_share: f64,
    /// Minimum number of bytes of a line's clauses in a summary of several lines, so that dates,
    /// positions and names take less than a tenth of the summary.
    pub(super) line_bytes: usize,
}

pub(super) const WEIGHTS: Weights = Weights {
    idf_power: 1.0,
    frequency_power: 0.45,
    frequency_step: 0.5,
    name: 2.8,
    number: 1.5,
    filler: 0.6,
    inflected: 0.8,
    context: 0.15,
    cost_power: 0.85,
    extra_tokens: 1.0,
    company: 1.0,
    myself: 1.1,
    orphan: 0.4,
    needed: 0.5,
    advice: 0.6,
    assistant: 0.35,
    question: 0.5,
    caption: 0.5,
    replaced: 0.5,
    told_replaced: 0.2,
    undated: 0.5,
    old_share: 0.8,
    line_bytes: 1000,
};

/// Maximum number of words that the summariser reads in one call, divided evenly among the
/// messages.
const BATCH_WORDS_MAX: usize = 400_000;
/// Minimum number of words that the summariser reads from each message, even if an equal share of
/// [`BATCH_WORDS_MAX`] is smaller.
const MESSAGE_WORDS_MIN: usize = 64;
/// Number of bytes that count as a word of a text without spaces.
const WORD_BYTES: usize = 16;
/// Maximum number of speakers whose names are recognised in clauses.
const NAMED_SPEAKERS_MAX: usize = 64;
/// Separator of the speakers of a line.
pub(super) const NEXT_SPEAKER: &str = " | ";
/// Speakers by role: results of tools are no prose, and the user can ask the model again.
const TOOL: &str = "tool";
const ASSISTANT: &str = "assistant";
const USER: &str = "user";

/// The most similar of several summaries.
#[derive(Clone, Debug, PartialEq)]
pub struct NearestSummary {
    /// The summary.
    pub summary: Summary,
    /// Similarity between the summary and the texts that it summarises; see [`drift::similarity`].
    pub similarity: Option<f64>,
    /// Number of summaries that were made.
    pub attempts: u32,
}

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
    let mut maker = Maker::new(previous, batch, count);
    let made = maker.make(&tokens, 0);
    maker.measured(made)
}

/// Makes a summary like [`summarise`], and more summaries while the most similar one has less than
/// `similarity_min`, at most `attempts_max` in total. A later summary is kept only if it is more
/// similar and has lost no more information.
pub fn summarise_near(
    previous: &str,
    batch: &[Line<'_>],
    tokens: RangeInclusive<u64>,
    count: &dyn TokenCounter,
    (similarity_min, attempts_max): (f64, u32),
) -> NearestSummary {
    let mut maker = Maker::new(previous, batch, count);
    let mut best = maker.make(&tokens, 0);
    let mut sources = Sources::new(previous, batch);
    let mut similarity = sources.similarity(&best.content);
    let mut attempts = 1;
    while attempts < attempts_max && similarity.is_some_and(|near| near < similarity_min) {
        let made = maker.make(&tokens, attempts);
        attempts += 1;
        let near = sources.similarity(&made.content);
        if near > similarity && made.information_drift <= best.information_drift {
            (best, similarity) = (made, near);
        }
    }
    NearestSummary { summary: maker.measured(best), similarity, attempts }
}

/// Makes summaries of the same texts.
struct Maker<'a> {
    previous: &'a str,
    batch: &'a [Line<'a>],
    count: &'a dyn TokenCounter,
    clauses: Vec<Clause<'a>>,
    lexicon: Lexicon<'a>,
    speakers: Vec<String>,
    /// Stems of each clause of the messages.
    new_stems: Vec<Vec<StemId>>,
}

/// A summary whose random drift is not measured yet.
struct UnmeasuredSummary {
    content: String,
    token_estimate: u64,
    facts_kept: usize,
    information_drift: f64,
    /// Tokens of the clauses of messages.
    new_tokens: u64,
}

impl<'a> Maker<'a> {
    fn new(previous: &'a str, batch: &'a [Line<'a>], count: &'a dyn TokenCounter) -> Self {
        let mut reader = Reader::new(previous, batch, count);
        reader.read_previous(previous);
        let first_new = reader.clauses.len();
        reader.read_batch(batch);
        let Reader { clauses, lexicon, speakers, .. } = reader;
        let new_stems = clauses[first_new..].iter().map(|clause| clause.stems.clone()).collect();
        Self { previous, batch, count, clauses, lexicon, speakers, new_stems }
    }

    /// Makes a summary. With each further `attempt`, stems that occur often are worth more, so that
    /// the summary comes closer to the middle of the texts.
    fn make(&mut self, tokens: &RangeInclusive<u64>, attempt: u32) -> UnmeasuredSummary {
        let (tokens_max, previous, count) = (*tokens.end(), self.previous, self.count);
        let lexicon = &mut self.lexicon;
        let mut selection = Selection::new(&self.clauses, &self.speakers, lexicon, count, attempt);
        let mut content = previous.to_owned();
        let fits = count.count(previous) <= tokens_max;
        if self.batch.is_empty() && fits {
            selection.choose_old();
        } else {
            selection.choose(tokens_max);
            content = selection.fit(tokens_max);
            if count.count(&content) < *tokens.start() && fits {
                selection.choose_old();
                previous.clone_into(&mut content);
            }
        }
        UnmeasuredSummary {
            token_estimate: count.count(&content),
            facts_kept: selection.chosen.len(),
            information_drift: drift::of_kept(&self.new_stems, &selection.kept_stems()),
            new_tokens: selection.new_tokens(),
            content,
        }
    }

    fn measured(&mut self, made: UnmeasuredSummary) -> Summary {
        // The random selections get the tokens that the summary has for the messages, and at least
        // the tokens that clauses of the previous summary leave for them.
        let reserved = made.token_estimate as f64 * (1.0 - WEIGHTS.old_share);
        let tokens = made.new_tokens.max(reserved as u64);
        let random = drift::of_random(&self.new_stems, self.batch, tokens, &mut self.lexicon);
        Summary {
            content: made.content,
            token_estimate: made.token_estimate,
            facts_kept: made.facts_kept,
            information_drift: made.information_drift,
            random_drift: random,
        }
    }
}

/// A clause of the previous summary or of a message.
pub(super) struct Clause<'a> {
    /// The text that contains the clause, and its number.
    pub(super) source: &'a str,
    pub(super) source_id: usize,
    pub(super) range: Range<usize>,
    /// Index of the speaker's label; `None` for a line of an earlier summary without a label.
    pub(super) speaker: Option<usize>,
    /// `None` for a clause of a line without a date.
    pub(super) origin: Option<Origin>,
    pub(super) old: bool,
    pub(super) stems: Vec<StemId>,
    pub(super) tokens: u64,
    /// Factor in the clause's worth, for what kind of clause it is.
    pub(super) factor: f64,
    /// Whether the clause can only be understood after the clause before it in its text.
    pub(super) leans: bool,
    /// Whether a user told a model what the clause says.
    pub(super) told: bool,
}

impl<'a> Clause<'a> {
    pub(super) fn text(&self) -> &'a str {
        &self.source[self.range.clone()]
    }
}

/// Reads the clauses of the previous summary and of the messages.
struct Reader<'a> {
    clauses: Vec<Clause<'a>>,
    lexicon: Lexicon<'a>,
    count: &'a dyn TokenCounter,
    speakers: Vec<String>,
    /// Words of the speakers' names, in lower case.
    names: HashSet<String>,
    sources: usize,
    /// Whether a speaker has the name of a role, as in most chats between a user and a model.
    is_with_model: bool,
}

impl<'a> Reader<'a> {
    fn new(previous: &str, batch: &[Line<'_>], count: &'a dyn TokenCounter) -> Self {
        let mut reader = Self {
            clauses: Vec::new(),
            lexicon: Lexicon::new(count),
            count,
            speakers: Vec::new(),
            names: HashSet::new(),
            sources: 0,
            is_with_model: false,
        };
        for line in batch {
            reader.speaker(&label(line.speaker));
        }
        for (_, rest) in previous.lines().filter_map(Origin::read) {
            for (name, _) in rest.split(NEXT_SPEAKER).filter_map(|said| said.split_once(": ")) {
                reader.speaker(name);
            }
        }
        let is_role = |speaker: &String| speaker == ASSISTANT || speaker == USER;
        reader.is_with_model = reader.speakers.iter().any(is_role);
        reader
    }

    /// Returns the index of a speaker's label.
    fn speaker(&mut self, label: &str) -> usize {
        self.speakers.iter().position(|known| known == label).unwrap_or_else(|| {
            if self.speakers.len() < NAMED_SPEAKERS_MAX {
                self.names.extend(label.split(' ').map(lower).filter(|name| !name.is_empty()));
            }
            self.speakers.push(label.to_owned());
            self.speakers.len() - 1
        })
    }

    fn read_previous(&mut self, previous: &'a str) {
        let mut speaker = None;
        for line in previous.lines() {
            let Some((origin, rest)) = Origin::read(line) else {
                speaker = self.read_undated(line, speaker);
                continue;
            };
            for said in rest.split(NEXT_SPEAKER) {
                let (name, text) = said.split_once(": ").unwrap_or(("", said));
                let speaker = Some(self.speaker(&label(name)));
                let spans = clauses_of_summary(text, &self.names, self.is_with_model);
                self.add(text, spans, speaker, Some(origin), true, BATCH_WORDS_MAX);
            }
        }
    }

    /// Reads a line without a date: `speaker: words; words` by an earlier version of this program,
    /// or a line by a model. Returns the label that applies to the next line without a label.
    fn read_undated(&mut self, line: &'a str, before: Option<usize>) -> Option<usize> {
        let (head, body) = line.split_once(": ").unwrap_or(("", line));
        let names = !head.is_empty() && label(head) == head;
        let (speaker, text) = match names {
            true => (Some(self.speaker(head)), body),
            false if line.starts_with(['-', '*', '•']) => (None, line),
            false => (before, line),
        };
        let mut start = 0;
        let mut spans = Vec::new();
        for part in text.split_inclusive(BREAK) {
            let end = start + part.strip_suffix(BREAK).unwrap_or(part).len();
            spans.push(start..end);
            start += part.len();
        }
        self.add(text, spans, speaker, None, true, BATCH_WORDS_MAX);
        speaker
    }

    fn read_batch(&mut self, batch: &[Line<'a>]) {
        let words_max = (BATCH_WORDS_MAX / batch.len().max(1)).max(MESSAGE_WORDS_MIN);
        for line in batch.iter().filter(|line| line.speaker != TOOL) {
            let speaker = Some(self.speaker(&label(line.speaker)));
            let origin = Origin { days: (line.day, line.day), seqs: (line.seq, line.seq) };
            let spans = clauses(line.text, &self.names, self.is_with_model);
            self.add(line.text, spans, speaker, Some(origin), false, words_max);
        }
    }

    fn add(
        &mut self,
        source: &'a str,
        spans: Vec<Range<usize>>,
        speaker: Option<usize>,
        origin: Option<Origin>,
        old: bool,
        words_max: usize,
    ) {
        self.sources += 1;
        let mut left = words_max;
        for span in spans {
            let text = &source[span.clone()];
            let words = self.lexicon.content_words(text);
            let names = &self.names;
            let says = words.iter().map(|&word| &self.lexicon.words[word]).any(|word| {
                !matches!(word.class, Class::Negation | Class::Filler)
                    && !is_one_of(&SMALL_TALK, &word.text)
                    && !is_name_of(names, &word.text)
            });
            let count = text.split_whitespace().count().max(text.len() / WORD_BYTES);
            if count > left {
                break;
            }
            left -= count;
            if !says && origin.is_some() {
                continue;
            }
            let mut stems: Vec<StemId> =
                words.iter().flat_map(|&word| &self.lexicon.words[word].stems).copied().collect();
            stems.sort_unstable();
            stems.dedup();
            let is_model = speaker.is_some_and(|at| self.speakers[at] == ASSISTANT);
            let told = self.is_with_model && !is_model;
            let factor = match origin {
                Some(_) if told => odds(text),
                Some(_) => factor_of(text, is_model),
                None => WEIGHTS.undated,
            };
            self.clauses.push(Clause {
                tokens: self.count.count(&format!(" {text}")),
                source,
                source_id: self.sources,
                range: span,
                speaker,
                origin,
                old,
                stems,
                factor,
                leans: self.is_with_model && leans(text),
                told,
            });
        }
    }
}

/// Whether a clause begins with a pronoun or in lower case, so that a reader needs the clause
/// before it.
fn leans(text: &str) -> bool {
    let first = text.split_whitespace().next().map(lower).unwrap_or_default();
    is_one_of(&BACK, &first) || text.starts_with(char::is_lowercase)
}

/// Returns the factor in the worth of a clause of a conversation between people, or of a model.
fn factor_of(text: &str, is_model: bool) -> f64 {
    let is_self = text.split_whitespace().any(|word| is_one_of(&SELF, &lower(word)));
    let is_advice = !is_self && text.split_whitespace().any(|word| lower(word).starts_with("you"));
    let first = text.split_whitespace().next().map(lower).unwrap_or_default();
    let asks = text.contains('?') || is_one_of(&REQUESTS, &first);
    let when = |is_so: bool, factor: f64| if is_so { factor } else { 1.0 };
    when(is_self, WEIGHTS.myself)
        * when(is_advice, WEIGHTS.advice)
        * when(is_model, WEIGHTS.assistant)
        * when(asks, WEIGHTS.question)
        * when(text.starts_with('['), WEIGHTS.caption)
}
