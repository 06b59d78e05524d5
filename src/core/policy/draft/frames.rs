//! Decides which tokens of a message stay in the window if the message's text is forgotten.

use serde_json::{Map, Value};

use super::Draft;
use crate::memory::form::Form;
use crate::memory::message::{Kind, Message, Role};
use crate::memory::shown::recalled_frame_tokens;
use crate::memory::strict::{filler_tokens, makes_calls};

/// Whether a message speaks for the user or the assistant in the strict form of the window, at its
/// place in the conversation. Other texts of the role `system` move out of the way of calls.
fn takes_turn(kind: Kind, role: Role) -> bool {
    let speaks = matches!(role, Role::User | Role::Assistant);
    kind == Kind::Event || (kind == Kind::Turn && speaks)
}

impl Draft<'_> {
    /// Returns the tokens of the frame that the next message gets: the lines around the copies of a
    /// search, or the filler after calls. An answer with calls needs no filler, because it is no
    /// turn of its own.
    pub(super) fn frame_of(&self, kind: Kind, role: Role, meta: &Map<String, Value>) -> u64 {
        let (counter, form) = (self.around.counter, self.after.form);
        if kind == Kind::Copy {
            return if self.begins_copies() { recalled_frame_tokens(counter, form) } else { 0 };
        }
        let has_filler = form == Form::Strict
            && self.after.queue.after_calls
            && takes_turn(kind, role)
            && !makes_calls(role, meta);
        if has_filler { filler_tokens(counter) } else { 0 }
    }

    /// Returns the tokens of a message's frame after a change of the encoding or of the form. If
    /// the copies of earlier searches were single messages until now (`begins`), each one gets a
    /// frame.
    pub(super) fn new_frame_of(&self, message: &Message, begins: bool) -> u64 {
        let (counter, form) = (self.around.counter, self.after.form);
        match message.kind {
            Kind::Copy if begins || message.frame_tokens > 0 => {
                recalled_frame_tokens(counter, form)
            }
            Kind::Copy => 0,
            _ if message.is_frame() && form == Form::Strict => filler_tokens(counter),
            kind => self.frame_of(kind, message.role, &message.meta),
        }
    }

    /// Records whether an appended message made calls, if it takes a turn of the conversation.
    pub(super) fn note_turn(&mut self, kind: Kind, role: Role, meta: &Map<String, Value>) {
        if self.after.form == Form::Strict && takes_turn(kind, role) {
            self.after.queue.after_calls = makes_calls(role, meta);
        }
    }

    /// Whether the next copy is the first copy of its search in this change.
    fn begins_copies(&self) -> bool {
        self.after.form != Form::One && self.messages.last().is_none_or(|m| m.kind != Kind::Copy)
    }
}
