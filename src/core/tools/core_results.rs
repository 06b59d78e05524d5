//! Finds the blocks and the summary that hold the words of a search of recall storage. They are in
//! the window, so the answer names them in addition to the results, and never copies them.

use serde_json::{Map, Value, json};

use crate::memory::core::Core;
use crate::search::{held_words, passages};

/// Maximum number of blocks that a search names.
const BLOCKS_NAMED_MAX: usize = 4;
/// A text is named if it holds at least the share `1 / HELD_SHARE` of the query's words.
const HELD_SHARE: usize = 2;

/// Returns `{"place", "in_window", "content"}` for each block and for the summary that hold words
/// of a query, best first. The content is the passage with most of the words; it is left out if the
/// caller's model sees the window.
pub(super) fn core_results(core: &Core, words: &[String], shows_window: bool) -> Vec<Value> {
    let least = words.len().div_ceil(HELD_SHARE).max(1);
    let blocks = core.working_blocks.iter();
    let blocks = blocks.map(|block| (format!("block:{}", block.id), block.content.as_str()));
    let summary = ("summary".to_owned(), core.queue_head_summary.content.as_str());
    let mut found: Vec<(usize, String, &str)> = Vec::new();
    for (place, text) in blocks.chain([summary]) {
        let held = held_words(words, text);
        if held >= least {
            found.push((held, place, text));
        }
    }
    found.sort_by_key(|(held, _, _)| std::cmp::Reverse(*held));
    found.truncate(BLOCKS_NAMED_MAX);
    let result = |(_, place, text): (usize, String, &str)| {
        let mut result = Map::new();
        result.insert("place".into(), place.into());
        result.insert("in_window".into(), true.into());
        if !shows_window {
            result.insert("content".into(), best_passage(words, text).into());
        }
        json!(result)
    };
    found.into_iter().map(result).collect()
}

/// Returns the passage of a text that holds most of the words.
fn best_passage<'t>(words: &[String], text: &'t str) -> &'t str {
    let parts = passages(text).into_iter().map(|range| text[range].trim());
    let best = parts.max_by_key(|part| held_words(words, part));
    best.unwrap_or(text)
}
