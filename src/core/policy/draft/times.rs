//! Decides which times the messages of a change show in the window.

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::Draft;
use crate::clock::unix_ms_of;
use crate::memory::change::Recount;
use crate::memory::core::WindowClock;
use crate::memory::form::Form;
use crate::memory::local_time::{LocalTime, UTC, zone_of};
use crate::memory::message::{Kind, Message, Role, SAID_AT, answers_call};
use crate::policy::stamp::{stamp, time_of};

/// Returns the time of a message that is not appended yet.
pub(super) fn time_in(meta: &Map<String, Value>, created_ms: u64, zone: &TimeZone) -> LocalTime {
    time_of(meta.get(SAID_AT).and_then(Value::as_str), created_ms, zone)
}

/// Returns the time of a message of the log.
pub fn time_of_message(message: &Message, zone: &TimeZone) -> LocalTime {
    time_of(message.said_at(), unix_ms_of(&message.created_at).unwrap_or_default(), zone)
}

/// Whether a message moves the time of the conversation. A tool result does not, since the window
/// shows it behind its call; a copy does not, since it shows the time of its original.
fn moves_time(kind: Kind, role: Role, meta: &Map<String, Value>) -> bool {
    matches!(kind, Kind::Turn | Kind::Event) && !answers_call(role, meta)
}

impl Draft<'_> {
    /// Returns the agent's time zone; `None` in form 1 of the window, which shows no times.
    pub(super) fn zone(&self) -> Option<TimeZone> {
        let clock = self.after.window_clock.as_ref()?;
        Some(zone_of(&clock.zone).unwrap_or(TimeZone::UTC))
    }

    /// Returns the time that a message shows. A tool result shows its day only if it differs from
    /// the day of its call.
    pub(super) fn stamp_of(
        &self,
        kind: Kind,
        role: Role,
        content: &str,
        meta: &Map<String, Value>,
        time: LocalTime,
    ) -> Option<String> {
        if !matches!(kind, Kind::Turn | Kind::Event) {
            return None;
        }
        let before = match moves_time(kind, role, meta) {
            true => self.after.queue.said.as_deref(),
            false => self.day_of_call(meta),
        };
        stamp(before.and_then(LocalTime::parse), time, role, content)
    }

    /// Records the time of an appended message, and the day with which the queue begins. Call this
    /// function before the message is counted as a message of the queue.
    pub(super) fn note_time(
        &mut self,
        kind: Kind,
        role: Role,
        meta: &Map<String, Value>,
        time: LocalTime,
    ) {
        let moves = moves_time(kind, role, meta);
        let queue = &mut self.after.queue;
        if kind.queued() && queue.count == 0 {
            let last = queue.said.as_deref().and_then(LocalTime::parse).filter(|_| !moves);
            queue.opened_on = Some(last.unwrap_or(time).day());
        }
        if moves {
            queue.said = Some(time.to_string());
        }
    }

    /// Records the day with which the queue begins after its first messages left.
    pub(super) fn note_opening(&mut self, stays: &[Message]) {
        let Some(zone) = self.zone() else { return };
        let first = stays.iter().find(|m| moves_time(m.kind, m.role, &m.meta));
        let first = first.map(|message| time_of_message(message, &zone));
        let last = self.after.queue.said.as_deref().and_then(LocalTime::parse);
        let day = first.or(last).map(|time| time.day());
        self.after.queue.opened_on = day.filter(|_| !stays.is_empty());
    }

    /// Sets the zone of the times that the window shows from now on.
    pub fn set_zone(&mut self, zone: &str) {
        self.after.window_clock = Some(WindowClock::of(zone.to_owned()));
    }

    /// Sets the form of the window. The zone is UTC unless the agent has one.
    pub fn set_form(&mut self, form: Form) {
        self.after.form = form;
        self.after.window_clock.get_or_insert_with(|| WindowClock::of(UTC.to_owned()));
    }

    /// Returns the new costs of the queue's messages. A window that showed no times before gets the
    /// times of its messages.
    pub(super) fn recounts<'m>(
        &mut self,
        queue: impl Iterator<Item = &'m Message>,
    ) -> Vec<Recount> {
        let counter = self.around.counter;
        let form = self.after.form;
        let begins = self.before.form == Form::One && self.after.form != Form::One;
        self.after.queue.after_calls = false;
        let mut counted = Vec::new();
        for (at, message) in queue.enumerate() {
            let mut message = message.clone();
            if begins {
                self.begin_times(&mut message, at == 0);
            }
            message.frame_tokens = self.new_frame_of(&message, begins);
            self.note_turn(message.kind, message.role, &message.meta);
            let is_gone = message.forgotten_at.is_some() && message.frame_tokens == 0;
            counted.push(Recount {
                token_estimate: if is_gone { 0 } else { message.cost(form, counter) },
                key: message.key,
                stamp: message.stamp,
                frame_tokens: message.frame_tokens,
            });
        }
        counted
    }

    /// Gives a message of the queue its time, as if it was appended now.
    fn begin_times(&mut self, message: &mut Message, is_first: bool) {
        let Some(zone) = self.zone() else { return };
        let time = time_of_message(message, &zone);
        let (kind, role) = (message.kind, message.role);
        if is_first {
            self.after.queue.opened_on = Some(time.day());
        }
        if !moves_time(kind, role, &message.meta) {
            // The day of its call is not known, so a tool result shows its own.
            let shows = kind == Kind::Turn;
            message.stamp = shows.then(|| time.to_string());
            return;
        }
        message.stamp = self.stamp_of(kind, role, &message.content, &message.meta, time);
        self.after.queue.said = Some(time.to_string());
    }

    fn day_of_call(&self, meta: &Map<String, Value>) -> Option<&str> {
        let id = meta.get("tool_call_id").and_then(Value::as_str)?;
        let calls = self.after.open_calls.as_ref()?;
        calls.iter().rfind(|call| call.id == id && !call.replaced)?.day.as_deref()
    }
}
