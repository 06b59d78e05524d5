//! Spooling: a result that is larger than what the window still takes lies in recall storage whole, and only its beginning is shown.

use serde_json::{Map, Value};

use super::draft::Draft;
use super::notices::{self, PRESSURE, SPOOL};
use super::tokens;
use crate::limits::{PREVIEW_TRIES_MAX, TEXT_BYTES_MAX};
use crate::memory::message::{Kind, Role};
use crate::memory::tokens::TokenCounter;

impl Draft<'_> {
    /// What may still come into the window before it would flush, in tokens: a pressure notice that this might set is
    /// already taken off. A search keeps below this, so that finding something never pushes out something else.
    pub fn room(&self) -> u64 {
        let notice = if notices::stands(&self.after, PRESSURE) {
            0
        } else {
            notices::pressure_notice(self.around.counter, &self.after).token_estimate
        };
        let taken = tokens(&self.after).occupancy + notice + 1;
        self.after.token_budget.flush.saturating_sub(taken)
    }

    /// Puts a result that is too large into recall storage, whole, as entries of kind `spool`, and sets the standing notice
    /// that names them. Returns their ids, in order.
    pub fn spool(&mut self, payload: &str) -> Vec<String> {
        let parts = pieces(payload, TEXT_BYTES_MAX);
        let mut ids = Vec::with_capacity(parts.len());
        for (part, text) in parts.iter().zip(1_u64..).map(|(text, part)| (part, *text)) {
            let mut meta = Map::new();
            meta.insert("name".into(), self.around.tool.into());
            meta.insert("part".into(), part.into());
            meta.insert("parts".into(), Value::from(parts.len()));
            ids.push(self.entry(Kind::Spool, Role::Tool, text.to_owned(), meta).0);
        }
        self.point_to(&ids);
        ids
    }

    /// Sets the spool notice for entries that recall storage holds already.
    pub fn point_to(&mut self, ids: &[String]) {
        let notice = notices::spool_notice(self.around.counter, self.around.tool, ids);
        notices::set(&mut self.after, notice);
        self.spooled = true;
    }

    /// What the spool notice for these entries would add to the window, beyond the one that stands.
    pub fn point_cost(&self, ids: &[String]) -> u64 {
        let notice = notices::spool_notice(self.around.counter, self.around.tool, ids);
        notice.token_estimate.saturating_sub(notices::cost(&self.after, SPOOL))
    }
}

/// The beginning of a text that takes at most so many tokens, its cut marked by an ellipsis; the whole if it fits.
pub fn preview(counter: &dyn TokenCounter, text: &str, tokens_max: u64) -> String {
    // No token is longer than a few words, so what lies far behind need not be counted first.
    const BYTES_PER_TOKEN_MAX: u64 = 32;
    let bytes =
        usize::try_from(tokens_max.saturating_mul(BYTES_PER_TOKEN_MAX)).unwrap_or(usize::MAX);
    if text.len() <= bytes && counter.count(text) <= tokens_max {
        return text.to_owned();
    }
    let mut end = text.len().min(bytes);
    for _ in 0..PREVIEW_TRIES_MAX {
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let cut = format!("{}…", text[..end].trim_end());
        let cost = counter.count(&cut);
        if cost <= tokens_max {
            return cut;
        }
        let share = usize::try_from(tokens_max.saturating_mul(95) / cost.max(1)).unwrap_or(0);
        end = (end * share.min(95)) / 100;
        if end == 0 {
            break;
        }
    }
    String::new()
}

/// A text in pieces of at most so many bytes, cut between characters.
fn pieces(text: &str, bytes_max: usize) -> Vec<&str> {
    let mut rest = text;
    let mut pieces = Vec::new();
    while rest.len() > bytes_max {
        let mut end = bytes_max;
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Encoding;

    struct Letters;

    impl TokenCounter for Letters {
        fn encoding(&self) -> Encoding {
            Encoding::O200kBase
        }

        fn count(&self, text: &str) -> u64 {
            text.chars().count() as u64
        }
    }

    #[test]
    fn a_preview_never_costs_more_than_it_may() {
        let text = "äb cd ".repeat(200);
        for tokens_max in [0, 1, 2, 7, 100, 1199, 1200, 5000] {
            let shown = preview(&Letters, &text, tokens_max);
            assert!(Letters.count(&shown) <= tokens_max, "{tokens_max}: {shown}");
            assert_eq!(shown == text, tokens_max >= 1200, "{tokens_max}");
            assert!(tokens_max < 2 || !shown.is_empty(), "{tokens_max}");
            assert!(text.starts_with(shown.trim_end_matches('…')));
        }
    }

    #[test]
    fn pieces_are_the_whole_text_again() {
        for text in ["", "a", "äöü", "abcdefg", "aäbäcä"] {
            for bytes_max in [2, 3, 4, 100] {
                let cut = pieces(text, bytes_max);
                assert_eq!(cut.concat(), text);
                assert!(cut.iter().all(|piece| piece.len() <= bytes_max));
            }
        }
    }
}
