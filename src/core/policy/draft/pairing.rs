//! Pairs tool calls with their results: finds the call that a result answers, and maintains the
//! list of open calls, which still wait for a result.

use serde_json::{Map, Value};

use super::Draft;
use crate::error::{Error, Result};
use crate::memory::capture::Capture;
use crate::memory::core::OpenCall;
use crate::memory::local_time::LocalTime;
use crate::memory::message::{Kind, LATE, Role, call_ids};
use crate::policy::forget::CallPlace;
use crate::policy::question::{Answers, Question};
use crate::policy::step::Stop;
use crate::window::open_call;

/// Number of newest messages to search for a result's call, if no open call has the result's id.
const CALL_LOOK_SEQS: u64 = 4_096;

impl Draft<'_> {
    /// Checks that a result's call exists, before the result is appended. The result is accepted
    /// even if the call has left the queue or already has a result. The result is refused if no
    /// call ever had the id; `field` names the argument with the id in this error. If the whole log
    /// could not be searched, the result is accepted.
    pub fn pair(&mut self, id: &str, field: &str, answers: &Answers) -> Result<(), Stop> {
        if self.open_place(id).is_some() {
            return Ok(());
        }
        let places = answers.calls(|| self.look())?;
        self.know_calls(places);
        // A message whose text was removed has also lost its calls.
        let lost = self.before.expired.messages + self.before.forgotten.messages;
        let saw_all = self.before.queue.next_seq <= CALL_LOOK_SEQS && lost == 0;
        let is_known = places.iter().any(|one| one.calls.iter().any(|call| call == id));
        if is_known || !saw_all {
            return Ok(());
        }
        let text = format!(
            "no call `{id}` was made here: append the assistant's message with its tool_calls before the result"
        );
        Err(Error::argument(field, text).into())
    }

    /// Determines the open calls before the server appends the result of the current call to the
    /// queue (a captured result). A captured result is never refused, because its call has already
    /// taken effect.
    pub(super) fn pair_captured(&mut self, answers: &Answers) -> Result<(), Stop> {
        if !matches!(self.around.capture, Some(Capture::Result { .. })) {
            return Ok(());
        }
        self.know_open_calls(answers)
    }

    /// Determines the open calls before the change appends calls and results, if the core has no
    /// list of them.
    pub fn know_open_calls(&mut self, answers: &Answers) -> Result<(), Stop> {
        if self.after.open_calls.is_some() {
            return Ok(());
        }
        let places = answers.calls(|| self.look())?;
        self.know_calls(places);
        Ok(())
    }

    /// Builds the list of open calls from the queue's messages, if the core has no such list.
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

    /// Returns the `meta` for a tool's result, with the attribute that marks a late result if no
    /// open call waits for the result.
    pub(super) fn paired_meta(&self, mut meta: Map<String, Value>) -> Map<String, Value> {
        let id = meta.get("tool_call_id").and_then(Value::as_str);
        if id.and_then(|id| self.open_place(id)).is_none() {
            meta.insert(LATE.into(), true.into());
        }
        meta
    }

    /// Records the calls of an appended message as open, or closes the call that the message
    /// answers.
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

    /// Returns the question that requests the calls in the newest messages. If the open calls are
    /// unknown, the question also requests the calls in the older messages of the queue.
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
        let said = self.after.queue.said.as_deref().and_then(LocalTime::parse);
        let day = said.map(|time| time.day());
        for id in ids {
            let open = self.open_place(id);
            let Some(calls) = &mut self.after.open_calls else { return };
            if let Some(at) = open {
                calls[at].replaced = true;
            }
            calls.push(open_call(self.around.counter, id, seq, day.clone()));
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
