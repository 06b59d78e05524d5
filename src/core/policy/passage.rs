//! Passages of a message: whole sentences packed to a bounded size, so that of a long text the part that matters can be found and shown.
//!
//! They are measured without a tokenizer, by counting runs of letters, so that one text has the same passages for every agent and model.

use std::ops::Range;

/// Most of one passage, in units of [`weight`]; a unit is about 0.8 tokens of `o200k_base`, in prose and in code. 64 tokens are what was
/// measured best on long messages: 12 to 16 points of evidence above whole messages in the first 1024 tokens.
const PASSAGE_WEIGHT_MAX: usize = 64;
/// Up to this weight a text stays whole: most things said in a conversation do.
const WHOLE_WEIGHT_MAX: usize = 96;
/// Letters of a run that count as one unit: the mean length of a token within words.
const RUN_LETTERS: usize = 7;

/// Byte ranges that tile a text, in order: sentences packed greedily, a longer one cut between words, a longer word between characters.
/// A short text is one passage, an empty one none.
pub fn passages(text: &str) -> Vec<Range<usize>> {
    if text.is_empty() {
        return Vec::new();
    }
    if weight(text) <= WHOLE_WEIGHT_MAX {
        return std::iter::once(0..text.len()).collect();
    }
    let mut packed = Packed::default();
    for sentence in pieces(text, 0, ends_sentence) {
        let whole = weight(&text[sentence.clone()]);
        if whole <= PASSAGE_WEIGHT_MAX {
            packed.push(sentence, whole);
            continue;
        }
        for word in pieces(&text[sentence.clone()], sentence.start, ends_word) {
            let whole = weight(&text[word.clone()]);
            if whole <= PASSAGE_WEIGHT_MAX {
                packed.push(word, whole);
            } else {
                cut(text, word).into_iter().for_each(|part| packed.push(part, PASSAGE_WEIGHT_MAX));
            }
        }
    }
    packed.done
}

/// How large a text is: a run of ASCII letters and digits is one unit and one more for each seven of them, every other character that
/// is not white space is one.
pub(super) fn weight(text: &str) -> usize {
    let (mut units, mut run) = (0, 0);
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            if run % RUN_LETTERS == 0 {
                units += 1;
            }
            run += 1;
        } else {
            run = 0;
            units += usize::from(!c.is_whitespace());
        }
    }
    units
}

/// The passages so far; the last one still takes what fits.
#[derive(Default)]
struct Packed {
    done: Vec<Range<usize>>,
    last: usize,
}

impl Packed {
    fn push(&mut self, piece: Range<usize>, weight: usize) {
        match self.done.last_mut() {
            Some(passage) if self.last + weight <= PASSAGE_WEIGHT_MAX => {
                passage.end = piece.end;
                self.last += weight;
            }
            _ => {
                self.done.push(piece);
                self.last = weight;
            }
        }
    }
}

/// Whether a piece ends between two characters: the one before, how the text before it ended, the one behind.
type Ends = fn(&mut Before, char, char) -> bool;

/// What a sentence has come to: nothing, its full stop, or white space behind that.
#[derive(Clone, Copy, Default, PartialEq)]
enum Before {
    #[default]
    Text,
    Stop,
    Space,
    Line,
}

/// Parts of a text that begins at a byte of a larger one, each with the white space behind it.
fn pieces(text: &str, begin: usize, ends: Ends) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut before = Before::default();
    let (mut start, mut last) = (0, None);
    for (at, c) in text.char_indices() {
        if let Some(last) = last
            && ends(&mut before, last, c)
        {
            found.push(begin + start..begin + at);
            start = at;
            before = Before::default();
        }
        last = Some(c);
    }
    found.push(begin + start..begin + text.len());
    found
}

/// After a line, after a full stop with white space behind it, after one that needs none.
fn ends_sentence(before: &mut Before, last: char, next: char) -> bool {
    *before = match (*before, last) {
        (_, '\n') => Before::Line,
        (state @ (Before::Space | Before::Line), c) if c.is_whitespace() => state,
        (Before::Stop, c) if c.is_whitespace() => Before::Space,
        (_, '。' | '！' | '？') => Before::Space,
        (_, '.' | '!' | '?' | '…') => Before::Stop,
        (Before::Stop, '"' | '\'' | '”' | '’' | ')' | ']' | '*' | '»') => Before::Stop,
        _ => Before::Text,
    };
    matches!(before, Before::Space | Before::Line) && !next.is_whitespace()
}

fn ends_word(_: &mut Before, last: char, next: char) -> bool {
    last.is_whitespace() && !next.is_whitespace()
}

/// A word that is longer than a passage, in parts of as many characters as a passage has units.
fn cut(text: &str, word: Range<usize>) -> Vec<Range<usize>> {
    let inside = &text[word.clone()];
    let starts: Vec<usize> =
        inside.char_indices().step_by(PASSAGE_WEIGHT_MAX).map(|(at, _)| word.start + at).collect();
    let ends = starts.iter().skip(1).copied().chain([word.end]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That they tile the text, none is empty and none too heavy; gives their texts.
    fn tiled(text: &str) -> Vec<&str> {
        let found = passages(text);
        let mut at = 0;
        for range in &found {
            assert_eq!(range.start, at, "{text:?}: {found:?}");
            assert!(range.end > range.start);
            at = range.end;
            let heaviest = if found.len() == 1 { WHOLE_WEIGHT_MAX } else { PASSAGE_WEIGHT_MAX };
            assert!(weight(&text[range.clone()]) <= heaviest, "{:?}", &text[range.clone()]);
        }
        assert_eq!(at, text.len());
        found.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn what_is_short_stays_whole() {
        assert!(passages("").is_empty());
        for text in [" ", "Hello. How are you?", &"word ".repeat(96), "line\n\nline\n"] {
            assert_eq!(tiled(text), [text]);
        }
    }

    #[test]
    fn sentences_and_lines_stay_together_as_long_as_they_fit() {
        let sentence = format!("{}end. ", "word ".repeat(38));
        let question = format!("{}end?\" ", "word ".repeat(38));
        let line = format!("{}\n\n  ", "word ".repeat(40));
        let three = format!("{sentence}{question}{line}Short. Last");
        assert_eq!(tiled(&three), [sentence, question, format!("{line}Short. Last")]);
        let abbreviated =
            format!("{}v1.2.3 of e.g.this {}", "word ".repeat(40), "word ".repeat(60));
        assert!(tiled(&abbreviated)[0].contains("v1.2.3 of e.g.this"), "no stop within a word");
        let chinese = "这是一个很长的句子，它没有空格。".repeat(20);
        assert!(tiled(&chinese).iter().all(|part| part.ends_with('。')));
    }

    #[test]
    fn one_giant_sentence_is_cut_between_words_and_one_giant_word_between_characters() {
        let giant = "longwordswithoutstop ".repeat(200);
        assert!(tiled(&giant).iter().all(|part| part.ends_with(' ')));
        assert_eq!(tiled(&"x".repeat(1000)).len(), 16);
        assert!(tiled(&"🦀".repeat(500)).len() >= 500 / 64);
        assert!(tiled(&format!("{}{}", "é".repeat(300), " short".repeat(90))).len() > 5);
        assert!(tiled(&format!("Begin. {}", "\n".repeat(5000))).len() == 1);
    }
}
