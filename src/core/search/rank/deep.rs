//! Finds the passage of a long text that matches a query best, because ranking reads only the
//! beginning of a long text.

use std::ops::Range;

use super::entry::{EntryWords, PassageWords, RecallEntry};
use super::passage_match::{coverage, together};
use super::question::QuestionWords;
use super::related::Alike;
use super::words::Lexicon;
use crate::search::bm25;

/// Returns the passage that matches the query best, if this passage matches better than the passage
/// that contains the byte at position `known`. A word is rare if few passages of this text contain
/// it. A match of a quoted phrase weighs more than matches of all words.
pub(crate) fn better_passage(
    query: &str,
    quoted: &[String],
    text: &str,
    known: usize,
) -> Option<Range<usize>> {
    let row = RecallEntry { content: text.to_owned(), ..RecallEntry::default() };
    let mut lexicon = Lexicon::new();
    let mut asked = QuestionWords::read(query, quoted, |_| Some(1.0), &[], &mut lexicon);
    let mut read = EntryWords::of(&row, &asked, &mut lexicon);
    let words = read.parts.iter().flat_map(|part| &part.words);
    let alike = Alike::of(&asked, &lexicon, words);
    read.count_terms(&alike);
    weigh(&mut asked, &read.parts);
    let value = |part: &PassageWords| {
        quotes(&asked, part) + word_share(&asked, part) + together(&asked, part)
    };
    let mut best = read.parts.iter().find(|part| part.range.contains(&known))?;
    let known = best.range.start;
    let mut most = value(best);
    for part in &read.parts {
        let found = value(part);
        if found > most {
            (best, most) = (part, found);
        }
    }
    (best.range.start != known).then(|| best.range.clone())
}

/// Computes the rarity of each query word among the given passages.
fn weigh(asked: &mut QuestionWords, parts: &[PassageWords]) {
    let all = parts.len() as f64;
    for (at, (_, rarity)) in asked.terms.iter_mut().enumerate() {
        let holders = parts.iter().filter(|part| part.counts[at] >= 1.0).count() as f64;
        *rarity = bm25::rarity(all, holders);
    }
    let total: f64 = asked.terms.iter().map(|(_, rarity)| rarity).sum();
    asked.total = total.max(f64::MIN_POSITIVE);
}

/// Returns the share of the query's words that a passage contains; each word is weighted by its
/// rarity.
fn word_share(asked: &QuestionWords, part: &PassageWords) -> f64 {
    coverage(asked, |term| part.counts[term].min(1.0))
}

/// Returns the value of the quoted phrases in a passage. One phrase has a higher value than all
/// words together.
fn quotes(asked: &QuestionWords, part: &PassageWords) -> f64 {
    let stems: Vec<_> = part.words.iter().map(|word| word.stem).collect();
    let holds = |phrase: &&Vec<_>| {
        !phrase.is_empty() && stems.windows(phrase.len()).any(|window| window == &phrase[..])
    };
    QUOTED * asked.quoted.iter().filter(holds).count() as f64
}

/// Value of a quoted phrase. It exceeds the sum of `coverage` and `together`, which are at most 1
/// each.
const QUOTED: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_passage_that_holds_more_is_found_wherever_it_lies() {
        let noise = "The harbour was never spoken of. ".repeat(400);
        let text = format!("{noise}The harbour code is marigold. {noise}A code of honour. {noise}");
        let shown = |query: &str, quoted: &[String], known| {
            better_passage(query, quoted, &text, known).map(|range| &text[range])
        };
        assert!(shown("harbour code", &[], 0).unwrap().contains("marigold"));
        let there = text.find("marigold").unwrap();
        assert_eq!(shown("harbour code", &[], there), None);
        let quoted = ["code of honour".to_owned()];
        assert!(shown("harbour code of honour", &quoted, there).unwrap().contains("honour"));
        assert_eq!(shown("harbour", &[], 0), None, "the first of equals stays");
        assert_eq!(shown("harbour", &[], text.len()), None);
    }
}
