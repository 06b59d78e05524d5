//! Appends the copies that a search puts into the queue.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{Draft, part_of, time_of_message};
use crate::memory::message::{Kind, Message, TAINT, copied_meta, taint_mark};
use crate::memory::shown::{ShownAt, shown};
use crate::trust::from_outside;

impl Draft<'_> {
    /// Appends a copy of a message, or of an excerpt of its text, to the queue, and returns the
    /// copy's seq and cost. The copy's tokens count as tokens of the queue. The copy's eviction is
    /// not logged, because recall storage contains the original.
    pub fn copy(&mut self, original: &Message, excerpt: Option<&Range<usize>>) -> (u64, u64) {
        let meta = self.copy_meta(original, excerpt);
        let content = part_of(original, excerpt).to_owned();
        let copy_of = Some(original.key.clone());
        let (_, cost) = self.place(Kind::Copy, original.role, content, meta, copy_of);
        (self.after.queue.next_seq - 1, cost)
    }

    /// Returns the number of tokens that a copy of a message or excerpt would add to the queue. The
    /// first copy of a search costs the lines around the copies, too.
    pub fn copy_cost(
        &self,
        original: &Message,
        excerpt: Option<&Range<usize>>,
        is_first: bool,
    ) -> u64 {
        let meta = self.copy_meta(original, excerpt);
        let at = ShownAt { form: self.after.form, stamp: None, is_first };
        shown(at, original.role, part_of(original, excerpt), &meta).cost(self.around.counter)
    }

    /// Returns the `meta` for a copy of a message. If the taint rules match the original, but the
    /// original has no taint mark, the copy gets a new taint mark.
    fn copy_meta(&self, original: &Message, excerpt: Option<&Range<usize>>) -> Map<String, Value> {
        let outside = from_outside(original.kind, original.role);
        let said = self.zone().map(|zone| time_of_message(original, &zone).to_string());
        let mut meta = copied_meta(original, excerpt, outside, said);
        let rules = self.around.taint.rules_of(original);
        if !rules.is_empty() && !meta.contains_key(TAINT) {
            meta.insert(TAINT.into(), taint_mark(&rules, &original.key));
        }
        meta
    }
}
