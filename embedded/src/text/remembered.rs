//! Token lists of texts that were asked for lately: a query over what is new takes the same texts apart again and again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::limits::{TOKENS_REMEMBERED_BYTES, TOKENS_REMEMBERED_TEXT_BYTES_MAX};
use crate::value::Value;

/// What one analyzer made of texts, in two generations: what was not asked for while a generation filled up is forgotten.
#[derive(Debug, Default)]
pub(super) struct Remembered(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Box<str>, Value>,
    old: HashMap<Box<str>, Value>,
    /// Bytes of the young ones.
    bytes: usize,
}

impl Remembered {
    /// The list of a text, if it is known.
    pub(super) fn get(&self, text: &str) -> Option<Value> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = known.young.get(text) {
            return Some(list.clone());
        }
        let (text, list) = known.old.remove_entry(text)?;
        known.keep(text, list.clone());
        Some(list)
    }

    /// Remembers the list of a text, unless that is a long one.
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
        let known = Remembered::default();
        let list = Value::array(vec!["a".into()]);
        known.put("first", &list);
        known.put(&"x".repeat(TOKENS_REMEMBERED_TEXT_BYTES_MAX + 1), &list);
        assert_eq!(known.get("first").map(|list| list.to_json()), Some(list.to_json()));
        assert!(known.get(&"x".repeat(TOKENS_REMEMBERED_TEXT_BYTES_MAX + 1)).is_none());
        let text = |n: usize| format!("{n} {}", "y".repeat(TOKENS_REMEMBERED_TEXT_BYTES_MAX / 2));
        let many = 2 * TOKENS_REMEMBERED_BYTES / text(0).len();
        for n in 0..many {
            known.put(&text(n), &list);
            assert!(known.get("first").is_some(), "what is asked for stays");
        }
        assert!(known.get(&text(0)).is_none() && known.get(&text(many - 1)).is_some());
        let held = known.0.lock().unwrap();
        let bytes: usize = held.young.keys().chain(held.old.keys()).map(|text| text.len()).sum();
        assert!(bytes <= TOKENS_REMEMBERED_BYTES);
    }
}
