//! The deterministic summariser: a list of short facts by coverage per token, with no model, no clock and no chance.
//!
//! Recursive: the last summary and the evicted batch go in, the next summary comes out, never above its cap. Ranking
//! sentences by centrality keeps less than picking them at random; what survives is many rare stems per token.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

use super::drift;
use super::telegraph::{Class, Lexicon, StemId, WordId};
use crate::memory::TokenCounter;
use crate::policy::OLD_SUMMARY_PERCENT;

/// One evicted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Who said it: a name or a role.
    pub speaker: &'a str,
    /// What was said.
    pub text: &'a str,
}

/// A new summary and how much of the batch it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The text: one line per message that left something, `speaker: words; words`, the speaker only where it changes.
    pub content: String,
    /// Tokens of `content`, without any frame around it; at most the cap.
    pub token_estimate: u64,
    /// Facts (runs of content words) in `content`, old and new.
    pub facts_kept: usize,
    /// 1 − idf-weighted share of the batch's stems that stand in the summary; 0 is best.
    pub information_drift: f64,
    /// The same of sentences of the batch picked at random up to the same size: the level not to exceed.
    pub random_drift: f64,
}

// The numbers below were chosen on development conversations of the LoCoMo set by how many answers to its questions
// can be read off the summary, right after an eviction and at the end, at windows of 4096 and 8192 tokens.

/// Longest run of content words that makes one fact.
const FACT_WORDS_MAX: usize = 8;
/// Words that stay of a fact when those already said elsewhere are left out: fewer lose what belongs together.
const FACT_WORDS_KEPT: usize = 4;
/// Worth of a stem: its idf to this power, ...
const IDF_POWER: f64 = 0.5;
/// ... its number of facts to this one, ...
const FREQUENCY_POWER: f64 = 0.3;
/// ... times the worth of its class.
const NAME_WORTH: f64 = 2.0;
const NUMBER_WORTH: f64 = 1.5;
const FILLER_WORTH: f64 = 0.5;
/// Worth of a stem that repeats what is said elsewhere, as context for the new ones in its fact.
const CONTEXT_WORTH: f64 = 0.4;
/// Facts are ranked by worth / tokens to this power.
const COST_POWER: f64 = 0.7;
/// A fact of a message that already has one in the summary is worth this much more: it makes that one clearer.
const COMPANY_WORTH: f64 = 1.25;
/// Content words looked at in one call, shared evenly by the messages; what a longer message says later is not weighed.
const BATCH_WORDS_MAX: usize = 400_000;
/// Content words looked at in each message however many there are.
const MESSAGE_WORDS_MIN: usize = 64;
/// Longest label of a speaker, in characters and in words.
const LABEL_CHARS_MAX: usize = 32;
const LABEL_WORDS_MAX: usize = 3;
/// Label of those without a name.
const NO_LABEL: &str = "note";

/// Folds `batch` into `previous`. The answer depends on the arguments alone and never counts more
/// than the end of `tokens`. Where it would count less than their start, `previous` stands if it
/// fits: a summary that has nearly all the room is not given up for a smaller one.
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

/// A run of content words that one speaker said in one message.
struct Fact {
    words: Vec<WordId>,
    speaker: String,
    /// Number of its message; an old summary's line counts as one.
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

/// The sentences of `text` as runs of at most [`FACT_WORDS_MAX`] content words, of even length within a sentence.
fn runs(text: &str, words_max: usize, lexicon: &mut Lexicon<'_>) -> Vec<Vec<WordId>> {
    let mut runs = Vec::new();
    for sentence in lexicon.sentences(text, words_max) {
        let size = sentence.len().div_ceil(sentence.len().div_ceil(FACT_WORDS_MAX));
        runs.extend(sentence.chunks(size).map(<[WordId]>::to_vec));
    }
    runs
}

/// A speaker as the short prefix that stands in a summary; reading it back gives itself.
fn label(speaker: &str) -> String {
    let clean: String = speaker
        .chars()
        .map(|c| if matches!(c, ':' | ';') || c.is_control() { ' ' } else { c })
        .collect();
    let words: Vec<&str> = clean.split_whitespace().take(LABEL_WORDS_MAX).collect();
    let short: String = words.join(" ").chars().take(LABEL_CHARS_MAX).collect();
    if short.trim().is_empty() { NO_LABEL.to_owned() } else { short.trim().to_owned() }
}

/// The facts that make the summary, picked one by one by what they still add.
struct Selection<'a> {
    facts: &'a [Fact],
    lexicon: &'a Lexicon<'a>,
    count: &'a dyn TokenCounter,
    /// Worth of each stem.
    worth: Vec<f64>,
    /// Tokens of each fact's line besides its words.
    prefix_tokens: Vec<u64>,
    said: Vec<bool>,
    turn_open: Vec<bool>,
    /// In the order of picking.
    chosen: Vec<Pick>,
}

/// A fact as it would enter the summary.
struct Pick {
    fact: usize,
    words: Vec<WordId>,
    tokens: u64,
    rank: f64,
}

/// A fact in the heap, by its rank when it was last looked at; the earlier one of equals first.
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
            // The line break, and every other line on average names its speaker.
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

    /// Picks the best fact per token again and again until none fits or adds anything.
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

    /// Picks what the last summary said, whole and alone.
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

    /// What a fact adds to what is chosen, and what it costs.
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

    /// The words of a fact without those already said, the least worth first, down to [`FACT_WORDS_KEPT`].
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

    /// Renders what is chosen; while the real count is above the cap, the last picks are given back.
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

    /// The chosen facts in the order they were said.
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

/// Rare stems tell more than common ones, repeated ones matter more often, names and numbers answer questions.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::Tiktoken;

    const CONVERSATION: &str = "\
Ilse: Good morning! I finally signed the lease for the bakery on Lindenstrasse 14 yesterday.
Tom: Wow, that is great news! Congratulations! How do you feel about it?
Ilse: Nervous, to be honest. The oven is from 1987 and the landlord wants 1,350 euros a month.
Tom: That sounds like a lot, but I think it is going to be all right. Do you want me to help with anything?
Ilse: Could you ask your cousin Pavel to look at the wiring? He did the electrics at the brewery, didn't he?
Tom: Yes, he did. I will call him tonight. He is in Ostrava until Thursday, so it may take a few days.
Ilse: No hurry. By the way, the opening day will be the 3rd of May, my grandmother's birthday.
Tom: What a lovely idea! She would have been so happy about it. Will you bake her poppy seed cake?
Ilse: Of course. And rye bread, and the plum tart. But nothing with hazelnuts, because Jonas is allergic.
Tom: I did not know that. Thanks for telling me! I have been giving him nougat all winter, oh no.
Ilse: Ha! He told me he feeds it to the dog. The dog is called Biscuit, it was bound to happen.
Tom: That is so funny. I really have to laugh now. You always have the best stories.
Ilse: The flour comes from the mill in Kettwig, 25 kilos each Tuesday. The miller is a very quiet man.
Tom: I think I know him. He plays the accordion in the church hall, and not badly at all.
Ilse: Then he must play at the opening! I would love that so much. Will you ask him for me, please?
Tom: I will ask him. What colour are you going to paint the shutters? They were green when I was a child.
Ilse: Dark blue, I think, with a yellow sign. My sister Marta is painting it this weekend in her garage.
Tom: That will look wonderful. I will bring the ladder on Saturday if you want me to, just tell me when.";

    fn conversation() -> Vec<Line<'static>> {
        let lines = CONVERSATION.lines().filter_map(|line| line.split_once(": "));
        lines.map(|(speaker, text)| Line { speaker, text }).collect()
    }

    fn counter() -> Tiktoken {
        Tiktoken::default()
    }

    #[test]
    fn it_keeps_more_of_a_conversation_than_chance_does() {
        for tokens_max in [40, 80, 120, 200] {
            let summary = summarise("", &conversation(), 0..=tokens_max, &counter());
            assert!(summary.token_estimate <= tokens_max);
            assert!(
                summary.information_drift + 0.1 < summary.random_drift,
                "{tokens_max}: {summary:?}"
            );
        }
    }

    #[test]
    fn names_and_numbers_survive_and_small_talk_does_not() {
        let summary = summarise("", &conversation(), 0..=160, &counter());
        for fact in [
            "Lindenstrasse 14",
            "1,350",
            "Pavel",
            "Ostrava",
            "3rd",
            "May",
            "Kettwig",
            "Jonas",
            "Marta",
        ] {
            assert!(summary.content.contains(fact), "no {fact} in\n{}", summary.content);
        }
        assert!(
            !summary.content.contains("funny") && !summary.content.contains("Wow"),
            "{}",
            summary.content
        );
    }

    #[test]
    fn a_negation_stays_with_its_fact() {
        let batch =
            [Line { speaker: "user", text: "I don't eat cashews. Peanuts are not a problem." }];
        let summary = summarise("", &batch, 0..=100, &counter());
        assert_eq!(summary.content, "user: not eat cashews; Peanuts not problem");
        assert_eq!((summary.facts_kept, summary.information_drift), (2, 0.0));
    }

    #[test]
    fn folding_again_and_again_keeps_the_old_beside_the_new() {
        let lines = conversation();
        let (early, late) = lines.split_at(9);
        let first = summarise("", early, 0..=120, &counter());
        let second = summarise(&first.content, late, 0..=120, &counter());
        for fact in ["Lindenstrasse", "Kettwig"] {
            assert!(second.content.contains(fact), "no {fact} in\n{}", second.content);
        }
        assert!(second.token_estimate <= 120 && second.information_drift < second.random_drift);
    }

    #[test]
    fn where_the_old_summary_has_nearly_all_the_room_it_stands() {
        let lines = conversation();
        let (early, late) = lines.split_at(9);
        let first = summarise("", early, 0..=120, &counter());
        let old = first.token_estimate;
        let stands = summarise(&first.content, late, old..=old, &counter());
        assert_eq!((&stands.content, stands.token_estimate), (&first.content, old));
        assert!(stands.information_drift > stands.random_drift, "the batch is lost: {stands:?}");
        let smaller = summarise(&first.content, late, 0..=old, &counter());
        assert!(smaller.token_estimate < old && smaller.content != first.content, "{smaller:?}");
        let folded = summarise(&first.content, late, old..=2 * old, &counter());
        assert!(folded.token_estimate >= old && folded.content != first.content, "{folded:?}");
        let short = summarise(&first.content, late, old..=old - 1, &counter());
        assert!(short.token_estimate < old && !short.content.is_empty(), "{short:?}");
    }

    #[test]
    fn an_empty_batch_leaves_the_summary_as_it_is() {
        let first = summarise("", &conversation(), 0..=150, &counter());
        let second = summarise(&first.content, &[], 0..=150, &counter());
        assert_eq!(second.content, first.content);
        assert_eq!((second.information_drift, second.random_drift), (0.0, 0.0));
    }

    #[test]
    fn odd_texts_meet_every_cap() {
        let giant = format!("start {} end", "the quick brown fox 4711 ".repeat(4_000));
        let blob = "QUJD".repeat(10_000);
        let texts = [
            "",
            "   \n\t ",
            "…—!?",
            "🦀🎉👨‍👩‍👧‍👦",
            "我对花生过敏,密码是四七一一。请记住!",
            "すみません、駅はどこですか",
            "fn main() { let x = vec![1, 2, 3]; println!(\"{x:?}\"); }",
            "a: b: c; d; e",
            "é\u{301}\u{0}\u{feff}",
            "ฉันแพ้ถั่วลิสงและชอบแล่นเรือในวันเสาร์",
            &giant,
            &blob,
        ];
        for text in texts {
            for speaker in ["user", "", ": ;\n", "a very long name of somebody who has many names"]
            {
                for tokens_max in [0, 1, 2, 5, 17, 300] {
                    let batch = [Line { speaker, text }, Line { speaker: "Zoë", text }];
                    let summary = summarise(text, &batch, 0..=tokens_max, &counter());
                    let head: String = text.chars().take(20).collect();
                    assert!(
                        counter().count(&summary.content) <= tokens_max,
                        "{head:?} by {speaker:?} at {tokens_max}"
                    );
                }
            }
        }
    }

    #[test]
    fn ideographs_are_kept_in_short_words() {
        let batch = [Line { speaker: "user", text: "我对花生过敏,密码是四七一一。" }];
        let summary = summarise("", &batch, 0..=60, &counter());
        assert!(summary.content.contains("四七一一"), "{}", summary.content);
        assert_eq!(summary.information_drift, 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn the_cap_holds_and_equal_input_gives_equal_output(
            previous in "(\\PC{0,12}(: |; |\n| )){0,12}",
            batch in prop::collection::vec(("\\PC{0,8}", "([A-Za-z0-9]{1,9}[ .?\n]|\\PC{0,6} ){0,40}"), 0..8),
            tokens_max in 0_u64..120,
        ) {
            let lines: Vec<Line<'_>> = batch.iter().map(|(speaker, text)| Line { speaker, text }).collect();
            let summary = summarise(&previous, &lines, 0..=tokens_max, &counter());
            prop_assert!(summary.token_estimate <= tokens_max);
            prop_assert_eq!(counter().count(&summary.content), summary.token_estimate);
            prop_assert!((0.0..=1.0).contains(&summary.information_drift), "{}", summary.information_drift);
            prop_assert!((0.0..=1.0).contains(&summary.random_drift), "{}", summary.random_drift);
            prop_assert_eq!(summarise(&previous, &lines, 0..=tokens_max, &counter()), summary);
        }
    }
}
