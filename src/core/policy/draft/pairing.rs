//! Calls of tools and their results inside a change: which call a result answers, and which calls still wait for one.

use serde_json::{Map, Value};

use super::Draft;
use crate::error::{Error, Result};
use crate::limits::CALL_LOOK_SEQS;
use crate::memory::capture::Capture;
use crate::memory::core::OpenCall;
use crate::memory::message::{Kind, LATE, Role, call_ids};
use crate::memory::render;
use crate::policy::forget::CallPlace;
use crate::policy::question::{Answers, Question};

impl Draft<'_> {
    /// Looks for the call of a result before it is pushed; a question where more must be known
    /// first. A result whose call has left, or has a result already, is kept all the same. An id
    /// that no call ever had is refused, as far as that can be known.
    pub fn pair(&mut self, id: &str, answers: &Answers) -> Result<Option<Question>> {
        if self.open_place(id).is_some() {
            return Ok(None);
        }
        let Some(places) = &answers.calls else { return Ok(Some(self.look())) };
        self.know_calls(places);
        // What lost its text lost its calls too.
        let lost = self.before.expired.messages + self.before.forgotten.messages;
        let saw_all = self.before.queue.next_seq <= CALL_LOOK_SEQS && lost == 0;
        let is_known = places.iter().any(|one| one.calls.iter().any(|call| call == id));
        if is_known || !saw_all {
            return Ok(None);
        }
        let text = format!(
            "no call `{id}` was made here: append the assistant's message with its tool_calls before the result"
        );
        Err(Error::argument("message.tool_call_id", text))
    }

    /// The same for the result of a captured call, which is never refused: its effect counts more
    /// than the form in which it is told.
    pub(super) fn pair_captured(&mut self, answers: &Answers) -> Option<Question> {
        let captured = matches!(self.around.capture, Some(Capture::Result { .. }));
        if !captured || self.after.open_calls.is_some() {
            return None;
        }
        match &answers.calls {
            Some(places) => self.know_calls(places),
            None => return Some(self.look()),
        }
        None
    }

    /// Takes in which calls of the queue wait, from messages up to the newest, where the core does
    /// not say so.
    pub fn know_calls(&mut self, places: &[CallPlace]) {
        if self.after.open_calls.is_some() {
            return;
        }
        self.after.open_calls = Some(Vec::new());
        let head_seq = self.after.queue.head_seq;
        for place in places.iter().filter(|place| place.seq >= head_seq) {
            self.open_calls_of(place.calls.iter().map(String::as_str), place.seq);
            if let Some(id) = &place.call_id {
                self.close_call(id);
            }
        }
    }

    /// The `meta` with which a tool's result stands in the queue: late where no call waits for it.
    pub(super) fn paired_meta(&self, mut meta: Map<String, Value>) -> Map<String, Value> {
        let id = meta.get("tool_call_id").and_then(Value::as_str);
        if id.and_then(|id| self.open_place(id)).is_none() {
            meta.insert(LATE.into(), true.into());
        }
        meta
    }

    /// Notes the calls of a message that was placed, or that the call it answers waits no longer.
    pub(super) fn note_calls(&mut self, kind: Kind, role: Role, meta: &Map<String, Value>) {
        if kind != Kind::Turn {
            return;
        }
        let seq = self.after.queue.next_seq - 1;
        self.open_calls_of(call_ids(meta), seq);
        if let Some(id) = meta.get("tool_call_id").and_then(Value::as_str)
            && role == Role::Tool
        {
            self.close_call(id);
        }
    }

    /// The newest messages of the number line, and all of the queue where nothing is known of it.
    fn look(&self) -> Question {
        let queue = &self.before.queue;
        let newest = queue.next_seq.saturating_sub(CALL_LOOK_SEQS).max(1);
        let first_seq = match self.after.open_calls {
            Some(_) => newest,
            None => newest.min(queue.head_seq),
        };
        Question::Calls { first_seq, last_seq: queue.next_seq.saturating_sub(1) }
    }

    fn open_calls_of<'a>(&mut self, ids: impl Iterator<Item = &'a str>, seq: u64) {
        for id in ids {
            let open = self.open_place(id);
            let Some(calls) = &mut self.after.open_calls else { return };
            if let Some(at) = open {
                calls[at].replaced = true;
            }
            calls.push(render::open_call(self.around.counter, id, seq));
        }
    }

    fn close_call(&mut self, id: &str) {
        let open = self.open_place(id);
        if let (Some(calls), Some(at)) = (&mut self.after.open_calls, open) {
            calls.remove(at);
        }
    }

    fn open_place(&self, id: &str) -> Option<usize> {
        let waits = |call: &OpenCall| call.id == id && !call.replaced;
        self.after.open_calls.as_ref()?.iter().rposition(waits)
    }
}
