//! A page of what a search of recall storage found: what of each message is shown, and what of it comes back into the window.

use std::ops::Range;

use serde_json::{Map, Value, json};

use super::search_recall::SearchRecall;
use crate::error::Result;
use crate::limits::{PREVIEW_TOKENS_MIN, RECALL_DEEP_BYTES_MAX, RECALL_TAIL_CHARS_MAX};
use crate::memory::core::Core;
use crate::memory::message::{Message, Role, is_summary};
use crate::memory::page::{PageItem, plain};
use crate::policy::{
    Draft, Entries, Order, PairOf, RecallQuery, Surroundings, Untrusted, part_names, part_of,
    passages, preview,
};

/// What a page is made of.
pub(super) struct PageOf<'a> {
    pub(super) asked: &'a SearchRecall,
    pub(super) around: Surroundings<'a>,
    /// The whole list.
    pub(super) items: &'a [PageItem],
    /// Where the page begins.
    pub(super) position: usize,
    pub(super) entries: &'a Entries,
    /// Where the queue begins; a copy before that has left it since.
    pub(super) head_seq: u64,
    pub(super) core: &'a Core,
}

/// One result.
pub(super) struct Shown<'a> {
    pub(super) message: &'a Message,
    item: &'a PageItem,
    /// The passage that matters of a longer message.
    excerpt: Option<Range<usize>>,
    pub(super) state: State,
    /// The beginning of what is shown, where all of it would be more than the page may hold.
    cut: Option<String>,
    /// The rules that it meets.
    pub(super) tainted: Vec<String>,
}

impl Shown<'_> {
    /// What is shown of it.
    fn text(&self) -> &str {
        match &self.state {
            State::Beginning(text) | State::Held(text) => text,
            State::There(_) | State::Fits => part_of(self.message, self.excerpt.as_ref()),
        }
    }

    /// Whether it shows less than it should.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_some() || matches!(self.state, State::Beginning(_))
    }
}

/// What became of it.
pub(super) enum State {
    /// What is shown stands in the queue already, in this copy.
    There(u64),
    /// All of what is shown fits.
    Fits,
    /// Only its beginning fits.
    Beginning(String),
    /// It is in quarantine: this is told in its place.
    Held(String),
}

impl<'a> PageOf<'a> {
    /// The results of this page, best first, and where the next page begins. They end where the window takes no more, or the page; the
    /// first one comes in any case, cut if it must be, so that each page gets on. What is gone since is passed over.
    pub(super) fn shown(&self, draft: &Draft<'_>) -> Result<(Vec<Shown<'a>>, usize)> {
        let mut parts = Parts { query: self.asked.asked()?, left: RECALL_DEEP_BYTES_MAX };
        let mut room = draft.room();
        let captured = draft.captured_room().unwrap_or(u64::MAX);
        let mut left = self.asked.tokens_max.unwrap_or(u64::MAX).min(captured);
        let counted = left < u64::MAX;
        let mut page: Vec<Shown<'a>> = Vec::new();
        let mut next = self.position;
        let limit = usize::try_from(self.asked.limit).unwrap_or(usize::MAX);
        for item in self.items.iter().skip(self.position).take(limit) {
            let Some(message) = self.entries.found.iter().find(|m| m.key == item.id) else {
                next += 1;
                continue;
            };
            let Untrusted { rules: tainted, held } =
                self.around.taint.untrusted(self.core, message);
            let excerpt = match held {
                Some(_) => None,
                None if self.asked.whole => None,
                None => parts.excerpt(message, item),
            };
            let mut copies =
                self.entries.copies.iter().filter(|c| c.of == item.id && c.seq >= self.head_seq);
            let copy = copies.find(|copy| copy.holds(excerpt.as_ref()));
            let cost = draft.copy_cost(message, excerpt.as_ref());
            let mut rest = room;
            let state = match copy {
                _ if held.is_some() => State::Held(held.unwrap_or_default()),
                Some(copy) => State::There(copy.seq),
                None if cost <= room => {
                    rest = room - cost;
                    State::Fits
                }
                None if page.is_empty() => {
                    rest = 0;
                    let text = part_of(message, excerpt.as_ref());
                    State::Beginning(preview(
                        self.around.counter,
                        text,
                        room.max(PREVIEW_TOKENS_MIN),
                    ))
                }
                None => break,
            };
            let mut one = Shown { message, item, excerpt, state, cut: None, tainted };
            if counted {
                let count = |text: &str| self.around.counter.count(text);
                let tokens = count(&self.result_of(&one, None).to_string());
                if tokens > left && !page.is_empty() {
                    break;
                }
                if tokens > left {
                    let text = one.text();
                    let around = tokens.saturating_sub(count(text));
                    let most = left.saturating_sub(around).max(PREVIEW_TOKENS_MIN);
                    one.cut = Some(preview(self.around.counter, text, most))
                        .filter(|cut| cut.len() < text.len());
                }
                left = left.saturating_sub(tokens);
            }
            room = rest;
            next += 1;
            page.push(one);
        }
        Ok((page, next))
    }

    /// The results as they are answered, in the order in which they are given; what fits is put back in the order in which it was said, or
    /// in theirs where that was asked for, and a notice names what did not. True if any of it changes the memory.
    pub(super) fn take_in(&self, draft: &mut Draft<'_>, page: &[Shown<'a>]) -> (Vec<Value>, bool) {
        let mut copies: Vec<(u64, u64)> = Vec::new();
        let mut cut: Vec<String> = Vec::new();
        if self.asked.rehydrates(&self.around) {
            let fits = page.iter().filter(|one| matches!(one.state, State::Fits));
            let mut fits: Vec<&Shown<'a>> = fits.collect();
            if self.asked.order == Order::Usual {
                fits.sort_by_key(|one| one.message.seq);
            }
            for one in fits {
                let (seq, _) = draft.copy(one.message, one.excerpt.as_ref());
                copies.push((one.message.seq, seq));
            }
            let cuts = page.iter().filter(|one| matches!(one.state, State::Beginning(_)));
            cut.extend(cuts.map(|one| one.message.key.clone()));
        }
        let told = !cut.is_empty() && draft.point_cost(&cut) <= draft.room();
        if told {
            draft.point_to(&cut);
        }
        let results = page.iter().map(|one| {
            let copied = copies.iter().find(|(seq, _)| *seq == one.message.seq).map(|c| c.1);
            self.result_of(one, copied)
        });
        (results.collect(), told || !copies.is_empty())
    }

    fn result_of(&self, one: &Shown<'a>, copied: Option<u64>) -> Value {
        let message = one.message;
        let text = one.cut.as_deref().unwrap_or_else(|| one.text());
        let mut value = json!({
            "id": message.key, "seq": message.seq, "kind": message.kind, "role": message.role, "content": text,
            "created_at": message.created_at, "score": plain(one.item.score),
            "receipt": {"seq": message.seq, "digest": message.digest, "chain": message.chain},
        });
        for name in ["name", "said_at"] {
            if let Some(told) = message.meta.get(name) {
                value[name] = told.clone();
            }
        }
        if !one.tainted.is_empty() {
            value["tainted"] = json!(one.tainted);
        }
        if matches!(one.state, State::Held(_)) {
            value["quarantined"] = true.into();
        }
        if let Some(part) = &one.excerpt {
            value["excerpt"] =
                json!({"start": part.start, "end": part.end, "bytes": message.content.len()});
        }
        match &one.state {
            State::There(seq) => value["copy_seq"] = (*seq).into(),
            State::Fits => {
                if let Some(seq) = copied {
                    value["copy_seq"] = seq.into();
                }
            }
            State::Beginning(_) | State::Held(_) => {}
        }
        if one.is_cut() {
            value["truncated"] = true.into();
        }
        let pair = self.entries.pairs.iter().find(|pair| pair.of == message.key);
        if self.asked.memories {
            value = memory_of(one, value, pair);
        } else if self.asked.pairs {
            value["pair"] = pair.map_or(Value::Null, pair_of);
        }
        if self.asked.explain {
            value["parts"] = one.item.parts.as_deref().map_or(Value::Null, parts_of);
        }
        value
    }
}

/// A result with what belongs to it in the conversation, in the order in which it was said. What sums up what was said stands alone.
fn memory_of(one: &Shown<'_>, mut result: Value, pair: Option<&PairOf>) -> Value {
    let message = one.message;
    let score = result.as_object_mut().and_then(|fields| fields.shift_remove("score"));
    let source = if is_summary(&message.meta) { "summary" } else { "message" };
    let mut fragments = vec![(message.seq, result)];
    fragments.extend(pair.map(|pair| (pair.seq, pair_of(pair))));
    fragments.sort_by_key(|(seq, _)| *seq);
    let fragments: Vec<Value> = fragments.into_iter().map(|(_, fragment)| fragment).collect();
    let ids: Vec<&Value> = fragments.iter().map(|fragment| &fragment["id"]).collect();
    json!({
        "id": message.key, "source": source, "source_ids": ids, "similarity": one.item.similarity.map(plain), "score": score,
        "created_at": message.created_at, "fragments": fragments,
    })
}

/// Finds the parts of long messages that are shown.
struct Parts {
    query: RecallQuery,
    /// Bytes that may yet be looked through.
    left: usize,
}

impl Parts {
    /// The passage of a longer message that an item points to, or a better one where it was not weighed whole; none for one that is
    /// shown whole.
    fn excerpt(&mut self, message: &Message, item: &PageItem) -> Option<Range<usize>> {
        let text = &message.content;
        let parts = passages(text);
        if parts.len() < 2 {
            return None;
        }
        let at = usize::try_from(item.offset).ok()?;
        let known = parts.into_iter().find(|part| part.contains(&at))?;
        if text.chars().nth(RECALL_TAIL_CHARS_MAX).is_none() || text.len() > self.left {
            return Some(known);
        }
        self.left -= text.len();
        Some(self.query.better_passage(text, at).unwrap_or(known))
    }
}

/// The parts of a score by their names; those that are nothing are left out.
fn parts_of(parts: &[f64]) -> Value {
    let named = part_names().into_iter().zip(parts).filter(|(_, value)| **value != 0.0);
    Value::Object(
        named.map(|(name, value)| (name.to_owned(), plain(*value))).collect::<Map<_, _>>(),
    )
}

/// A partner as it is answered: of a long reply the beginning, of a long question the end.
fn pair_of(pair: &PairOf) -> Value {
    let parts = passages(&pair.content);
    let user = pair.role == Role::User.text();
    let part = if user { parts.last() } else { parts.first() };
    let text = part.map_or("", |range| &pair.content[range.clone()]);
    let mut value = json!({"id": pair.id, "seq": pair.seq, "role": pair.role, "content": text});
    if let Some(name) = &pair.name {
        value["name"] = name.as_str().into();
    }
    if parts.len() > 1 {
        value["bytes"] = pair.content.len().into();
    }
    value
}
