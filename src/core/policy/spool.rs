//! Stores (spools) in recall storage a result that is larger than the free tokens of the window,
//! and shows only the beginning of the result.

use serde_json::{Map, Value};

use super::draft::Draft;
use crate::limits::TEXT_BYTES_MAX;
use crate::memory::core::Notice;
use crate::memory::message::{Kind, Role};
use crate::memory::tokens::TokenCounter;
use crate::policy::limits::PREVIEW_TRIES_MAX;
use crate::window::notices::{self, PRESSURE, SPOOL};
use crate::window::tokens;

impl Draft<'_> {
    /// Returns the number of tokens that may enter the window without causing a flush, minus the
    /// cost of a possible pressure notice. A search limits its results to this number, so that the
    /// results never cause an eviction.
    pub fn room(&self) -> u64 {
        let notice = if notices::stands(&self.after, PRESSURE) {
            0
        } else {
            notices::pressure_notice(self.around.counter, &self.after).token_estimate
        };
        let taken = tokens(&self.after).occupancy + notice + 1;
        self.after.token_budget.flush.saturating_sub(taken)
    }

    /// Stores a large result in recall storage as entries of kind `spool`, and sets the notice that
    /// names the entries. Returns the ids of the spooled entries, in order.
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

    /// Sets the spool notice, which names the given entries of recall storage.
    pub fn point_to(&mut self, ids: &[String]) {
        let notice = self.spool_notice(ids);
        notices::set(&mut self.after, notice);
        self.spooled = true;
    }

    /// Returns the number of tokens by which the window would grow if a spool notice for these
    /// entries replaced the current spool notice.
    pub fn point_cost(&self, ids: &[String]) -> u64 {
        let notice = self.spool_notice(ids);
        notice.token_estimate.saturating_sub(notices::cost(&self.after, SPOOL))
    }

    fn spool_notice(&self, ids: &[String]) -> Notice {
        notices::spool_notice(self.around.counter, self.after.form, self.around.tool, ids)
    }
}

/// Returns a text, truncated to a number of tokens with an ellipsis at the end; a text that fits is
/// returned whole.
pub fn preview(counter: &dyn TokenCounter, text: &str, tokens_max: u64) -> String {
    // Tokens are short, so a text far beyond the limit needs no count of its tokens before
    // truncation.
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

/// Splits a text between characters into pieces of at most `bytes_max` bytes.
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
