//! The tokens of one field of a segment in one text, which is faster to search than the segment's
//! dictionary.

use tantivy::termdict::TermDictionary;

use super::query::Tokens;
use super::segments::failed;
use crate::error::Result;

/// The byte after each token.
const END: char = '\u{0}';

/// All tokens of a field in one segment, in ascending order.
pub(super) struct Vocabulary {
    /// The tokens, each with an end byte.
    text: String,
    /// The places of the end bytes in `text`.
    ends: Vec<u32>,
}

impl Vocabulary {
    /// Reads the tokens of a field. Returns `None` if they take more than `bytes_max`, or if a
    /// token contains the end byte.
    pub(super) fn read(
        dictionary: &TermDictionary,
        field: &str,
        bytes_max: usize,
    ) -> Result<Option<Self>> {
        let mut own = Self { text: String::new(), ends: Vec::new() };
        let mut stream = dictionary.range().ge(field).into_stream().map_err(failed)?;
        while stream.advance() {
            let term = std::str::from_utf8(stream.key()).map_err(failed)?;
            let Some(token) = term.strip_prefix(field) else { break };
            own.text.push_str(token);
            let Ok(end) = u32::try_from(own.text.len()) else { return Ok(None) };
            own.ends.push(end);
            own.text.push(END);
            if own.bytes() > bytes_max || token.contains(END) {
                return Ok(None);
            }
        }
        Ok(Some(own))
    }

    /// Returns the size of the vocabulary in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + self.ends.len() * size_of::<u32>()
    }

    /// Passes each selected token to `take`, in ascending order.
    pub(super) fn select(
        &self,
        tokens: &Tokens,
        mut take: impl FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        let Some(part) = tokens.part().filter(|part| !part.is_empty() && !part.contains(END))
        else {
            for at in 0..self.ends.len() {
                if tokens.holds(self.token(at)) == Some(true) {
                    take(self.token(at))?;
                }
            }
            return Ok(());
        };
        // One search in the whole text finds the few tokens that contain the part.
        let mut next = 0;
        for (place, _) in self.text.match_indices(&part) {
            let at = self.ends.partition_point(|end| (*end as usize) < place);
            if at >= next && tokens.holds(self.token(at)) == Some(true) {
                take(self.token(at))?;
            }
            next = at + 1;
        }
        Ok(())
    }

    fn token(&self, at: usize) -> &str {
        let begin = if at == 0 { 0 } else { self.ends[at - 1] as usize + END.len_utf8() };
        &self.text[begin..self.ends[at] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::query::Edits;

    #[test]
    fn the_selected_tokens_are_those_that_the_condition_holds() {
        let tokens = ["", "a", "ab", "aba", "abab", "b", "ba", "babe", "x%", "xaby", "zé"];
        let mut own = Vocabulary { text: String::new(), ends: Vec::new() };
        for token in tokens {
            own.text.push_str(token);
            own.ends.push(own.text.len() as u32);
            own.text.push(END);
        }
        let near = |target: &str| {
            let (target, prefix) = (target.to_owned(), String::new());
            Tokens::Near(Edits { target, distance: 1, transpositions: true, terms_max: 0, prefix })
        };
        let like = |pattern: &str| Tokens::Like(pattern.to_owned());
        let patterns = ["%ab%", "%a%", "%ba", "_b%", "%", "%b_b%", "%\\%%", "%none%", "%é"];
        let conditions = patterns.map(like).into_iter().chain([near("ab"), near(""), near("ze")]);
        for condition in conditions {
            let mut found = Vec::new();
            let take = |token: &str| {
                found.push(token.to_owned());
                Ok(())
            };
            own.select(&condition, take).unwrap();
            let held = tokens.iter().filter(|token| condition.holds(token) == Some(true));
            assert_eq!(found, held.copied().collect::<Vec<_>>(), "{condition:?}");
        }
    }
}
