//! Builds a page of recall results: chooses which text of each message is shown, and which text is
//! copied into the queue.

use std::ops::Range;

use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::search_recall::SearchRecall;
use super::told;
use crate::clock::unix_ms_of;
use crate::error::Result;
use crate::limits::{PREVIEW_TOKENS_MIN, RECALL_TAIL_CHARS_MAX, TEXT_BYTES_MAX};
use crate::memory::Labels;
use crate::memory::core::Core;
use crate::memory::local_time::{LocalTime, zone_of};
use crate::memory::message::{Message, Role, is_summary};
use crate::memory::page::{PageItem, plain};
use crate::policy::{Draft, Surroundings, part_of, preview, time_of_message};
use crate::search::{Entries, Order, Partner, RecallQuery, part_names, passages, relevance};
use crate::trust::TaintReport;

/// Maximum number of bytes of long messages in which the server looks for better passages, per
/// page. The search itself ranks a long message only by its beginning.
const RECALL_DEEP_BYTES_MAX: usize = 4 * TEXT_BYTES_MAX;

/// Number of steps into which scores from 0 to 1 are rounded.
const SCORE_UNITS: f64 = 1_000.0;
/// Number of tokens that a page shows of a message that the window shows, too.
const IN_WINDOW_TOKENS: u64 = 16;
/// Number of tokens that a page reserves for each result in addition to the result's lines: the
/// line with the day, and line ends.
const DAY_LINE_TOKENS: u64 = 10;

/// The data from which a page is built.
pub(super) struct PageOf<'a> {
    pub(super) asked: &'a SearchRecall,
    pub(super) around: Surroundings<'a>,
    /// The complete result list of the search.
    pub(super) items: &'a [PageItem],
    /// Index in the result list at which the page begins.
    pub(super) position: usize,
    /// Number of items from this index on whose messages are in `entries`, if they still exist.
    pub(super) loaded: usize,
    pub(super) entries: &'a Entries,
    /// Position of the first message in the queue; copies before it have left the queue.
    pub(super) head_seq: u64,
    pub(super) core: &'a Core,
}

/// One result on a page.
pub(super) struct PageResult<'a> {
    pub(super) message: &'a Message,
    item: &'a PageItem,
    /// Byte range of the best passage; `None` if the whole message is shown.
    excerpt: Option<Range<usize>>,
    pub(super) state: State,
    /// The beginning of the shown text, if the text exceeds the page's token limit.
    cut: Option<String>,
    /// The taint rules that the message matches.
    pub(super) tainted: Vec<String>,
}

impl PageResult<'_> {
    /// Returns the result's text, before it is shortened to the page's limit.
    fn text(&self) -> &str {
        match &self.state {
            State::Beginning(text) | State::Held(text) | State::InWindow(text) => text,
            State::There(_) | State::Fits => part_of(self.message, self.excerpt.as_ref()),
        }
    }

    /// Whether the result's text is truncated.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_some() || matches!(self.state, State::Beginning(_))
    }
}

/// What the page does with a result.
pub(super) enum State {
    /// The message is in the queue. If the caller's model sees the window, this is the beginning of
    /// the text; otherwise it is the text.
    InWindow(String),
    /// The queue already contains a copy of the shown text, at this position.
    There(u64),
    /// The whole text fits into the window.
    Fits,
    /// Only this beginning of the text fits into the window.
    Beginning(String),
    /// The message is in quarantine (tainted, and hidden until a reviewer releases it); this text
    /// is shown instead.
    Held(String),
}

impl<'a> PageOf<'a> {
    /// Returns the results of this page, best first, and the index at which the next page begins. A
    /// page ends when the window or the page has no room for the next result. The first result is
    /// always shown, truncated if necessary, so that every page makes progress. Messages that were
    /// removed after the search are left out.
    pub(super) fn results(&self, draft: &Draft<'_>) -> Result<(Vec<PageResult<'a>>, usize)> {
        let mut parts = Parts { query: self.asked.recall_query()?, left: RECALL_DEEP_BYTES_MAX };
        let mut room = draft.room();
        let captured = draft.captured_room().unwrap_or(u64::MAX);
        let mut left = self.asked.tokens_max.unwrap_or(u64::MAX).min(captured);
        let counted = left < u64::MAX;
        let mut page: Vec<PageResult<'a>> = Vec::new();
        let mut next = self.position;
        let limit = usize::try_from(self.asked.limit).unwrap_or(usize::MAX);
        let shows_window = self.asked.shows_window(&self.around);
        let mut counted_results = 0;
        for item in self.items.iter().skip(self.position).take(self.loaded) {
            if counted_results == limit {
                break;
            }
            let Some(message) = self.entries.found.iter().find(|m| m.key == item.id) else {
                next += 1;
                continue;
            };
            let is_shown = message.kind.logged() && message.seq >= self.head_seq;
            let TaintReport { rules: tainted, held } =
                self.around.taint.untrusted(self.core, message);
            let excerpt = match held {
                Some(_) => None,
                None if self.asked.whole => None,
                None => parts.excerpt(message, item),
            };
            let mut copies =
                self.entries.copies.iter().filter(|c| c.of == item.id && c.seq >= self.head_seq);
            let copy = copies.find(|copy| copy.holds(excerpt.as_ref()));
            let is_first = !page.iter().any(|one| matches!(one.state, State::Fits));
            let cost = draft.copy_cost(message, excerpt.as_ref(), is_first);
            let mut rest = room;
            let state = match copy {
                _ if held.is_some() => State::Held(held.unwrap_or_default()),
                _ if is_shown => {
                    let text = part_of(message, excerpt.as_ref());
                    let most = if shows_window { IN_WINDOW_TOKENS } else { u64::MAX };
                    State::InWindow(preview(self.around.counter, text, most))
                }
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
            let mut one = PageResult { message, item, excerpt, state, cut: None, tainted };
            if counted {
                let count = |text: &str| self.around.counter.count(text);
                let tokens = DAY_LINE_TOKENS + count(&told::lines_of(&self.result_of(&one, None)));
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
            counted_results += usize::from(!(is_shown && shows_window));
            page.push(one);
        }
        Ok((page, next))
    }

    /// Returns the answer's results in the order of the page, and whether the memory changes.
    /// Messages that fit are copied into the queue in the order of the conversation, or in the
    /// order of the page if the caller asks for this order. A notice names the messages that do not
    /// fit.
    pub(super) fn take_in(
        &self,
        draft: &mut Draft<'_>,
        page: &[PageResult<'a>],
    ) -> (Vec<Value>, bool) {
        let mut copies: Vec<(u64, u64)> = Vec::new();
        let mut cut: Vec<String> = Vec::new();
        if self.asked.rehydrates(&self.around) {
            let fits = page.iter().filter(|one| matches!(one.state, State::Fits));
            let mut fits: Vec<&PageResult<'a>> = fits.collect();
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

    /// Returns the relevance of a result, rounded to [`SCORE_UNITS`].
    fn score_of(&self, one: &PageResult<'a>) -> Value {
        let by_meaning = self.asked.mode == "vector";
        let score = relevance(one.item.score, by_meaning);
        plain((score * SCORE_UNITS).round() / SCORE_UNITS)
    }

    /// Returns the time of a message in the agent's zone. A quarantined message has the time at
    /// which the server appended it.
    fn time_of(&self, message: &Message, is_held: bool) -> String {
        let clock = self.core.window_clock.as_ref();
        let zone = clock.and_then(|clock| zone_of(&clock.zone)).unwrap_or(TimeZone::UTC);
        let time = match is_held {
            true => LocalTime::at(unix_ms_of(&message.created_at).unwrap_or_default(), &zone),
            false => time_of_message(message, &zone),
        };
        time.to_string()
    }

    fn result_of(&self, one: &PageResult<'a>, copied: Option<u64>) -> Value {
        let message = one.message;
        let text = one.cut.as_deref().unwrap_or_else(|| one.text());
        let mut value = json!({
            "id": message.key, "seq": message.seq, "kind": message.kind, "role": message.role, "content": text,
            "created_at": message.created_at, "score": self.score_of(one),
            "receipt": {"seq": message.seq, "digest": message.digest, "chain": message.chain},
        });
        // The sender of a quarantined text may also have chosen the name and `said_at`.
        let is_held = matches!(one.state, State::Held(_));
        value["time"] = self.time_of(message, is_held).into();
        if !is_held {
            for name in ["name", "said_at"] {
                if let Some(told) = message.meta.get(name) {
                    value[name] = told.clone();
                }
            }
            if let Some(labels) = Labels::of_meta(&message.meta) {
                value["labels"] = json!(labels);
            }
        }
        if !one.tainted.is_empty() {
            value["tainted"] = json!(one.tainted);
        }
        if is_held {
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
            State::InWindow(_) => value["in_window"] = true.into(),
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

/// Returns a result together with its reply or the message that it answers, in the order of the
/// conversation.
fn memory_of(one: &PageResult<'_>, mut result: Value, pair: Option<&Partner>) -> Value {
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

/// Chooses which part of each long message is shown.
struct Parts {
    query: RecallQuery,
    /// Number of bytes of long messages that may still be searched for a better passage.
    left: usize,
}

impl Parts {
    /// Returns the passage that `item` names in a long message. If only the beginning of the
    /// message was scored, the function may find a better passage. `None` means that the message is
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

/// Returns the components of a score by their names, without those that are zero.
fn parts_of(parts: &[f64]) -> Value {
    let named = part_names().into_iter().zip(parts).filter(|(_, value)| **value != 0.0);
    Value::Object(
        named.map(|(name, value)| (name.to_owned(), plain(*value))).collect::<Map<_, _>>(),
    )
}

/// Returns the partner of a result: for a question the reply to it, for a reply the question. Of a
/// long reply the first passage is shown, of a long question the last.
fn pair_of(pair: &Partner) -> Value {
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
