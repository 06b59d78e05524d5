//! Selects the clauses of a summary one after the other, by the worth that each clause adds, and
//! writes the summary's lines.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::clauses::{BREAK, ends_between};
use super::dated::Origin;
use super::filler_words::MONTHS;
use super::grammar::{CHANGES, JOINTS, LIVES, SELF, TOWARDS, is_one_of, lower};
use super::lexicon::{Class, Lexicon};
use super::local::{Clause, NEXT_SPEAKER, WEIGHTS};
use super::superseded::{Statement, replacements};
use crate::memory::TokenCounter;

/// Maximum number of clauses that are tried in the tokens that the selection leaves free.
const FILL_TRIES_MAX: usize = 24;
/// Size of the largest summary whose free tokens are filled; each try counts the whole summary.
const FILL_TOKENS_MAX: u64 = 16_384;
/// Maximum number of bytes between two clauses of a text that are written as they were said.
const GAP_BYTES_MAX: usize = 8;

/// The selection so far.
pub(super) struct Selection<'a> {
    clauses: &'a [Clause<'a>],
    speakers: &'a [String],
    count: &'a dyn TokenCounter,
    /// Worth of each stem.
    worth: Vec<f64>,
    /// For each clause the later clause that replaces it.
    newer: Vec<Option<usize>>,
    /// Whether a chosen clause contains the stem.
    said: Vec<bool>,
    is_chosen: Vec<bool>,
    /// Chosen clauses, in the order in which they were chosen.
    pub(super) chosen: Vec<usize>,
}

/// A clause in the selection's heap, ordered by its last computed rank; among clauses with equal
/// ranks the earlier clause comes first.
#[derive(PartialEq)]
struct Candidate {
    rank: f64,
    clause: usize,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.total_cmp(&other.rank).then(other.clause.cmp(&self.clause))
    }
}

impl<'a> Selection<'a> {
    pub(super) fn new(
        clauses: &'a [Clause<'a>],
        speakers: &'a [String],
        lexicon: &mut Lexicon<'_>,
        count: &'a dyn TokenCounter,
        attempt: u32,
    ) -> Self {
        // Every line names its speakers.
        let mut said = vec![false; lexicon.stem_count()];
        for speaker in speakers {
            for stem in lexicon.stems_in(speaker) {
                if let Some(said) = said.get_mut(stem) {
                    *said = true;
                }
            }
        }
        let statements: Vec<Statement> =
            clauses.iter().map(|clause| statement(clause, &said, lexicon)).collect();
        Self {
            worth: worth_of_stems(clauses, lexicon, attempt),
            newer: replacements(&statements),
            said,
            is_chosen: vec![false; clauses.len()],
            chosen: Vec::new(),
            clauses,
            speakers,
            count,
        }
    }

    /// Chooses the clause with the highest rank again and again, until no further clause fits or
    /// adds worth.
    pub(super) fn choose(&mut self, tokens_max: u64) {
        let old_tokens_max = (tokens_max as f64 * WEIGHTS.old_share) as u64;
        let (mut tokens, mut old_tokens) = (0, 0);
        let mut spare = Vec::new();
        let mut heap: BinaryHeap<Candidate> = (0..self.clauses.len())
            .map(|clause| Candidate { rank: self.rank(clause), clause })
            .collect();
        while let Some(Candidate { clause, .. }) = heap.pop() {
            if self.is_chosen[clause] {
                continue;
            }
            let rank = self.rank(clause);
            if heap.peek().is_some_and(|next| rank < next.rank) {
                heap.push(Candidate { rank, clause });
                continue;
            }
            let with = self.with_needed(clause);
            let cost: u64 = with.iter().map(|&one| self.clauses[one].tokens + 1).sum();
            if rank <= 0.0 || tokens + cost > tokens_max {
                continue;
            }
            let is_old = |one: &&usize| self.clauses[**one].old;
            let old: u64 =
                with.iter().filter(is_old).map(|&one| self.clauses[one].tokens + 1).sum();
            if old > 0 && old_tokens + old > old_tokens_max {
                spare.push(clause);
                continue;
            }
            tokens += cost;
            old_tokens += old;
            with.into_iter().for_each(|one| self.take(one));
        }
        for clause in spare {
            let with = self.with_needed(clause);
            let cost: u64 = with.iter().map(|&one| self.clauses[one].tokens + 1).sum();
            if self.rank(clause) > 0.0 && tokens + cost <= tokens_max {
                tokens += cost;
                with.into_iter().for_each(|one| self.take(one));
            }
        }
    }

    /// Returns a clause after the clauses that it needs and that are not chosen yet. A clause never
    /// stands without the clause that replaces it, or without the clause on which it leans.
    fn with_needed(&self, clause: usize) -> Vec<usize> {
        let mut with = vec![clause];
        let mut at = 0;
        while at < with.len() {
            for needed in [self.newer[with[at]], self.before(with[at])].into_iter().flatten() {
                if !self.is_chosen[needed] && !with.contains(&needed) {
                    with.push(needed);
                }
            }
            at += 1;
        }
        with.reverse();
        with
    }

    /// Returns the clause on which a clause leans.
    fn before(&self, at: usize) -> Option<usize> {
        let clause = &self.clauses[at];
        let before = at.checked_sub(1).filter(|_| clause.leans)?;
        (self.clauses[before].source_id == clause.source_id).then_some(before)
    }

    /// Chooses all clauses of the previous summary.
    pub(super) fn choose_old(&mut self) {
        self.chosen = (0..self.clauses.len()).filter(|&at| self.clauses[at].old).collect();
    }

    fn take(&mut self, clause: usize) {
        for &stem in &self.clauses[clause].stems {
            self.said[stem] = true;
        }
        self.is_chosen[clause] = true;
        self.chosen.push(clause);
    }

    /// Computes a clause's rank, given the clauses chosen so far.
    fn rank(&self, at: usize) -> f64 {
        let clause = &self.clauses[at];
        let (mut new, mut known) = (0.0, 0.0);
        for &stem in &clause.stems {
            *(if self.said[stem] { &mut known } else { &mut new }) += self.worth[stem];
        }
        let (mut needed_tokens, mut first) = (0, at);
        while let Some(before) = self.before(first).filter(|&before| !self.is_chosen[before]) {
            first = before;
            needed_tokens += self.clauses[first].tokens;
            let unsaid = self.clauses[first].stems.iter().filter(|&&stem| !self.said[stem]);
            new += unsaid.map(|&stem| self.worth[stem]).sum::<f64>() * WEIGHTS.needed;
        }
        let is_orphan = clause.leans && self.before(at).is_none();
        let is_near = |other: usize| {
            self.is_chosen.get(other) == Some(&true)
                && self.clauses[other].source_id == clause.source_id
        };
        let company = is_near(at.wrapping_sub(1)) || is_near(at + 1);
        let tokens = (clause.tokens + needed_tokens) as f64
            + if company { 0.0 } else { WEIGHTS.extra_tokens };
        let factor = clause.factor
            * if is_orphan { WEIGHTS.orphan } else { 1.0 }
            * if company { WEIGHTS.company } else { 1.0 }
            * match self.newer[at] {
                Some(_) if clause.told => WEIGHTS.told_replaced,
                Some(_) => WEIGHTS.replaced,
                None => 1.0,
            };
        factor * (new + WEIGHTS.context * known.min(new)) / tokens.powf(WEIGHTS.cost_power)
    }

    /// Renders the chosen clauses as the summary. While the summary exceeds the token limit, drops
    /// the clauses chosen last. Then adds short clauses in the tokens that are left.
    pub(super) fn fit(&mut self, tokens_max: u64) -> String {
        let mut content = self.render();
        let mut tokens = self.count.count(&content);
        while tokens > tokens_max {
            let over = tokens - tokens_max;
            let mut given_back = 0;
            while given_back < over
                && let Some(clause) = self.chosen.pop()
            {
                self.is_chosen[clause] = false;
                given_back += self.clauses[clause].tokens + 1;
            }
            content = self.render();
            tokens = self.count.count(&content);
        }
        if tokens_max > FILL_TOKENS_MAX {
            return content;
        }
        self.said_again();
        let mut rest: Vec<(f64, usize)> = (0..self.clauses.len())
            .filter(|&at| !self.is_chosen[at] && self.with_needed(at).len() == 1)
            .map(|at| (self.rank(at), at))
            .filter(|&(rank, at)| rank > 0.0 && tokens + self.clauses[at].tokens <= tokens_max)
            .collect();
        rest.sort_by(|(left, at), (right, other)| right.total_cmp(left).then(at.cmp(other)));
        for (_, clause) in rest.into_iter().take(FILL_TRIES_MAX) {
            if tokens + self.clauses[clause].tokens > tokens_max || self.rank(clause) <= 0.0 {
                continue;
            }
            self.chosen.push(clause);
            let longer = self.render();
            let count = self.count.count(&longer);
            self.chosen.pop();
            if count <= tokens_max {
                self.take(clause);
                (content, tokens) = (longer, count);
            }
        }
        content
    }

    /// Notes again which stems are said, after clauses were dropped.
    fn said_again(&mut self) {
        let kept = self.kept_stems();
        self.said = kept;
    }

    /// Returns the text of the chosen clauses in the order of the conversation.
    fn render(&self) -> String {
        let mut order = self.chosen.clone();
        order.sort_unstable();
        let dated =
            order.iter().map(|&at| &self.clauses[at]).filter(|clause| clause.origin.is_some());
        let bytes: usize = dated.map(|clause| clause.range.len()).sum();
        // The lines have about the same length, so that none is mostly its beginning.
        let line_bytes = bytes / (bytes / WEIGHTS.line_bytes).max(1);
        let mut lines: Vec<SummaryLine> = Vec::new();
        for at in order {
            let clause = &self.clauses[at];
            let fits = lines.last().is_some_and(|line| line.takes(clause, line_bytes));
            if !fits {
                lines.push(SummaryLine {
                    origin: clause.origin,
                    source_id: clause.source_id,
                    bytes: 0,
                    said: Vec::new(),
                });
            }
            if let Some(line) = lines.last_mut() {
                line.add(self.clauses, at);
            }
        }
        let lines: Vec<String> = lines.iter().map(|line| line.text(self.speakers)).collect();
        lines.join("\n")
    }

    /// Returns the number of tokens of the chosen clauses that are not from the previous summary.
    pub(super) fn new_tokens(&self) -> u64 {
        let new = self.chosen.iter().map(|&at| &self.clauses[at]).filter(|clause| !clause.old);
        new.map(|clause| clause.tokens).sum()
    }

    /// Returns for each stem whether a chosen clause contains it.
    pub(super) fn kept_stems(&self) -> Vec<bool> {
        let mut kept = vec![false; self.said.len()];
        for stem in self.chosen.iter().flat_map(|&at| &self.clauses[at].stems) {
            kept[*stem] = true;
        }
        kept
    }
}

/// A line of the summary.
struct SummaryLine {
    origin: Option<Origin>,
    /// Number of the text of a line without a date.
    source_id: usize,
    bytes: usize,
    /// For each speaker the text, and the last clause in it.
    said: Vec<(Option<usize>, String, usize)>,
}

impl SummaryLine {
    /// Whether a clause belongs to this line.
    fn takes(&self, clause: &Clause<'_>, line_bytes: usize) -> bool {
        match (self.origin, clause.origin) {
            (Some(line), Some(origin)) => self.bytes < line_bytes || line.seqs.1 >= origin.seqs.1,
            (None, None) => self.source_id == clause.source_id,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    fn add(&mut self, clauses: &[Clause<'_>], at: usize) {
        let clause = &clauses[at];
        let text = clause.text();
        if let (Some(line), Some(origin)) = (self.origin, clause.origin) {
            self.origin = Some(line.with(origin));
        }
        self.bytes += text.len();
        let Some((_, said, last)) = self.said.iter_mut().find(|said| said.0 == clause.speaker)
        else {
            self.said.push((clause.speaker, text.to_owned(), at));
            return;
        };
        match gap(&clauses[*last], clause).filter(|_| *last + 1 == at && clause.origin.is_some()) {
            Some(gap) => said.push_str(gap),
            None if clause.origin.is_some() && ends_between(said, text) => said.push(' '),
            None => said.push_str(BREAK),
        }
        said.push_str(text);
        *last = at;
    }

    fn text(&self, speakers: &[String]) -> String {
        let said: Vec<String> = self
            .said
            .iter()
            .map(|(speaker, text, _)| match speaker {
                Some(speaker) => format!("{}: {text}", speakers[*speaker]),
                None => text.clone(),
            })
            .collect();
        let said = said.join(NEXT_SPEAKER);
        self.origin.map_or(said.clone(), |origin| format!("{origin} {said}"))
    }
}

/// Returns the text between a clause and the next clause of the same text, if it only joins them.
fn gap<'a>(left: &Clause<'a>, right: &Clause<'a>) -> Option<&'a str> {
    if left.source_id != right.source_id || left.range.end > right.range.start {
        return None;
    }
    let gap = &left.source[left.range.end..right.range.start];
    let joins = gap.len() <= GAP_BYTES_MAX
        && (gap.is_empty() || gap.ends_with(' '))
        && gap.chars().all(|c| c.is_ascii_alphabetic() || " ,-–—".contains(c))
        && gap
            .split_whitespace()
            .map(lower)
            .all(|word| word.is_empty() || is_one_of(&JOINTS, &word));
    joins.then_some(gap)
}

/// Returns what a clause says, as far as a later clause may replace it.
fn statement(clause: &Clause<'_>, named: &[bool], lexicon: &mut Lexicon<'_>) -> Statement {
    let mut statement =
        Statement { message: clause.told.then_some(clause.source_id), ..Statement::default() };
    for word in lexicon.content_words(clause.text()) {
        let word = &lexicon.words[word];
        let stems =
            word.stems.iter().copied().filter(|&stem| !named.get(stem).is_some_and(|&is| is));
        match word.class {
            Class::Number => statement.values.extend(stems),
            Class::Plain | Class::Name => statement.subject.extend(stems),
            Class::Negation | Class::Filler => {}
        }
    }
    statement.subject.sort_unstable();
    statement.subject.dedup();
    let words: Vec<String> = clause.text().split_whitespace().map(lower).collect();
    statement.kinds =
        [words.iter().any(|word| is_clock(word)), words.iter().any(|word| is_month(word))];
    statement.is_change = words.iter().any(|word| is_one_of(&CHANGES, word));
    let is_home =
        words.windows(2).any(|two| is_one_of(&LIVES, &two[0]) && is_one_of(&TOWARDS, &two[1]))
            && words.iter().any(|word| is_one_of(&SELF, word))
            && statement.values.is_empty();
    statement.home_of = clause.speaker.filter(|_| is_home);
    statement
}

/// Whether a word is a time of day like `06:35`.
fn is_clock(word: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    word.split_once(':').is_some_and(|(hour, minute)| is_number(hour) && is_number(minute))
}

/// Whether a word in lower case is the name of a month.
fn is_month(word: &str) -> bool {
    MONTHS.iter().any(|month| month.eq_ignore_ascii_case(word))
}

/// Whether a word ends like a verb or an adverb. Nouns more often answer questions.
fn is_inflected(word: &str) -> bool {
    ["ed", "ing", "ly"].iter().any(|end| word.ends_with(end))
}

/// Returns the worth of each stem. Rare and repeated stems are worth more, and so are names and
/// numbers, because names and numbers often answer questions.
fn worth_of_stems(clauses: &[Clause<'_>], lexicon: &mut Lexicon<'_>, attempt: u32) -> Vec<f64> {
    let mut frequency = vec![0_u32; lexicon.stem_count()];
    let mut class_worth = vec![0.0_f64; lexicon.stem_count()];
    for clause in clauses {
        for &stem in &clause.stems {
            frequency[stem] += 1;
        }
        for word in lexicon.content_words(clause.text()) {
            let worth = match lexicon.words[word].class {
                Class::Negation => 0.0,
                Class::Filler => WEIGHTS.filler,
                Class::Plain if is_inflected(&lexicon.words[word].text) => WEIGHTS.inflected,
                Class::Plain => 1.0,
                Class::Name => WEIGHTS.name,
                Class::Number => WEIGHTS.number,
            };
            for &stem in &lexicon.words[word].stems {
                class_worth[stem] = class_worth[stem].max(worth);
            }
        }
    }
    let power = f64::from(attempt).mul_add(WEIGHTS.frequency_step, WEIGHTS.frequency_power);
    let worth = |(frequency, class): (u32, f64)| {
        let frequency = f64::from(frequency.max(1));
        let idf = (1.0 + clauses.len() as f64 / frequency).ln();
        idf.powf(WEIGHTS.idf_power) * frequency.powf(power) * class
    };
    frequency.into_iter().zip(class_worth).map(worth).collect()
}
