//! The passage of one long text that holds most of a question: looked for when the text is shown, since only its beginning was weighed.

use std::ops::Range;

use super::asked::Asked;
use super::passage_match::{coverage, together};
use super::spoken::{Part, Read, Spoken};
use super::words::Lexicon;

/// A passage of a text that holds more of a question than the one around a byte, if there is one. Words count by how few passages of
/// this text hold them; a quoted part outranks them all.
pub(crate) fn better_passage(
    query: &str,
    quoted: &[String],
    text: &str,
    known: usize,
) -> Option<Range<usize>> {
    let row = Spoken { content: text.to_owned(), ..Spoken::default() };
    let mut lexicon = Lexicon::new();
    let mut asked = Asked::read(query, quoted, |_| 1.0, &[], &mut lexicon);
    let read = Read::of(&row, &asked, &mut lexicon);
    weigh(&mut asked, &read.parts);
    let value = |part: &Part| quotes(&asked, part) + held(&asked, part) + together(&asked, part);
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

/// Rarities of the words among some passages: `ln(1 + (N − n + 0.5) / (n + 0.5))`.
fn weigh(asked: &mut Asked, parts: &[Part]) {
    let all = parts.len() as f64;
    for (at, (_, rarity)) in asked.terms.iter_mut().enumerate() {
        let holders = parts.iter().filter(|part| part.counts[at] > 0).count() as f64;
        *rarity = (1.0 + (all - holders + 0.5) / (holders + 0.5)).ln();
    }
    let total: f64 = asked.terms.iter().map(|(_, rarity)| rarity).sum();
    asked.total = total.max(f64::MIN_POSITIVE);
}

/// Share of the question's words, by rarity, that a passage holds.
fn held(asked: &Asked, part: &Part) -> f64 {
    coverage(asked, |term| f64::from(u8::from(part.counts[term] > 0)))
}

/// More than all words together, for each quoted part.
fn quotes(asked: &Asked, part: &Part) -> f64 {
    let stems: Vec<_> = part.words.iter().map(|word| word.stem).collect();
    let holds = |phrase: &&Vec<_>| {
        !phrase.is_empty() && stems.windows(phrase.len()).any(|window| window == &phrase[..])
    };
    QUOTED * asked.quoted.iter().filter(holds).count() as f64
}

/// Coverage and neighbours are at most 1 each.
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
