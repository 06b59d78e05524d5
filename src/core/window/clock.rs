//! The window's section of the clock, which is the last message of the window. Its cost does not
//! depend on the time, so that the room for it is reserved always.

use jiff::tz::TimeZone;
use serde_json::Value;

use super::section::{Item, Position, Spec};
use super::system::server_message;
use crate::clock::unix_ms_of;
use crate::memory::core::{Core, WindowClock};
use crate::memory::form::Form;
use crate::memory::local_time::{LocalTime, zone_of};
use crate::memory::strict::{CLOCK, OPENING};
use crate::memory::tokens::message_cost;

/// A time for which costs are counted; every other time has as many tokens.
const SOME_DAY: &str = "2026-05-05 Tue";
const SOME_TIME: &str = "2026-05-05 Tue 09:14";

pub(super) const SECTION: Spec = Spec {
    name: "clock",
    gauge: "token.clock",
    help: "Tokens of the clock in the window last written",
    kept: None,
    tokens: |core| core.window_clock.as_ref().map_or(0, |clock| clock.token_estimate),
    recount: |counter, core| {
        let form = core.form;
        if let Some(clock) = &mut core.window_clock {
            let message = clock_message(form, SOME_TIME, &clock.zone);
            clock.token_estimate = message_cost(counter, &message);
            clock.opening_tokens = message_cost(counter, &opening_message(form, SOME_DAY));
        }
    },
    items: |core, _| core.window_clock.iter().map(|clock| item(core, clock)).collect(),
    restore: |past, core| {
        core.window_clock.clone_from(&past.window.clock);
        if let Some(clock) = &mut core.window_clock {
            clock.now.clone_from(&past.window.now);
        }
        None
    },
};

fn item(core: &Core, clock: &WindowClock) -> Item {
    let (shown, why) = match &clock.now {
        Some(now) => (now.clone(), "the time of the prompt"),
        None => (newest(core, clock), "the time of the newest message"),
    };
    let message = clock_message(core.form, &shown, &clock.zone);
    Item::new("clock", clock.token_estimate, message, why, (Position::Fence, CLOCK))
}

/// Returns the time of the newest message, or of the agent's creation if there is no message. A
/// message whose hour is not known counts from the beginning of its day.
fn newest(core: &Core, clock: &WindowClock) -> String {
    let said = core.queue.said.as_deref().and_then(LocalTime::parse);
    let said = said.unwrap_or_else(|| {
        let zone = zone_of(&clock.zone).unwrap_or(TimeZone::UTC);
        LocalTime::at(unix_ms_of(&core.created_at).unwrap_or_default(), &zone)
    });
    said.with_hour()
}

fn clock_message(form: Form, time: &str, zone: &str) -> Value {
    server_message(form, &format!("Now: {time} {zone}"))
}

/// Returns the message with the day of the queue's first message.
fn opening_message(form: Form, day: &str) -> Value {
    server_message(form, &format!("The conversation goes on from {day}:"))
}

/// Returns the item with the day of the queue's first message; `None` for an empty queue.
pub(super) fn opening(core: &Core) -> Option<Item> {
    let (clock, day) = (core.window_clock.as_ref()?, core.queue.opened_on.as_ref()?);
    let (message, why) = (opening_message(core.form, day), "the day of the next message");
    Some(Item::new("opening", clock.opening_tokens, message, why, (Position::Said, OPENING)))
}

/// Returns the cost of the item with the day of the queue's first message.
pub fn opening_tokens(core: &Core) -> u64 {
    let clock = core.window_clock.as_ref().filter(|_| core.queue.opened_on.is_some());
    clock.map_or(0, |clock| clock.opening_tokens)
}
