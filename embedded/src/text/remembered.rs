//! A cache of the token lists that `TOKENS()` returns, because a query often splits the same texts
//! repeatedly.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::limits::{TOKENS_REMEMBERED_BYTES, TOKENS_REMEMBERED_TEXT_BYTES_MAX};
use crate::value::Value;

/// The cached results of one analyzer, in two generations. A result that is used moves from the old
/// to the young generation. When the young generation is full, it becomes the old generation, and
/// all results left in the previous old generation are dropped.
#[derive(Debug, Default)]
pub(super) struct TokenCache(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Box<str>, Value>,
    old: HashMap<Box<str>, Value>,
    /// Size of the young generation in bytes.
    bytes: usize,
}

impl TokenCache {
    /// Returns the cached token list of a text.
    pub(super) fn get(&self, text: &str) -> Option<Value> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = known.young.get(text) {
            return Some(list.clone());
        }
        let (text, list) = known.old.remove_entry(text)?;
        known.keep(text, list.clone());
        Some(list)
    }

    /// Caches the token list of a text, unless the text is too long.
    pub(super) fn put(&self, text: &str, list: &Value) {
        if text.len() <= TOKENS_REMEMBERED_TEXT_BYTES_MAX {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.keep(text.into(), list.clone());
        }
    }
}

impl Generations {
    fn keep(&mut self, text: Box<str>, list: Value) {
        self.bytes += text.len() + list.size_bytes();
        if self.bytes > TOKENS_REMEMBERED_BYTES / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = text.len() + list.size_bytes();
        }
        self.young.insert(text, list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_known_until_two_generations_came_behind_it() {
        let known = TokenCache::default();
        let list = Value::array(vec!["a".into()]);
        known.put("first", &list);
        known.put(&"x".repeat(TOKENS_REMEMBERED_TEXT_BYTES_MAX + 1), &list);
        assert_eq!(known.get("first").map(|list| list.to_json()), Some(list.to_json()));
        assert!(known.get(&"x".repeat(TOKENS_REMEMBERED_TEXT_BYTES_MAX + 1)).is_none());
        let text = |n: usize| format!("{n} {}", "y".repeat(TOKENS_REMEMBERED_TEXT_BYTES_MAX / 2));
        let many = 2 * TOKENS_REMEMBERED_BYTES / text(0).len();
        for n in 0..many {
            known.put(&text(n), &list);
            assert!(known.get("first").is_some(), "a used result stays cached");
        }
        assert!(known.get(&text(0)).is_none() && known.get(&text(many - 1)).is_some());
        let held = known.0.lock().unwrap();
        let bytes: usize = held.young.keys().chain(held.old.keys()).map(|text| text.len()).sum();
        assert!(bytes <= TOKENS_REMEMBERED_BYTES);
    }
}
