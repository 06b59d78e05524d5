//! The window's section of the system text. The section's cost includes the tokens with which a
//! chat prompt starts the model's reply.

use serde_json::{Value, json};

use super::section::{Item, Position, Spec};
use crate::memory::core::Core;
use crate::memory::form::Form;
use crate::memory::message::Role;
use crate::memory::strict;
use crate::memory::tokens::{REPLY_TOKENS, message_cost};

pub(super) const SECTION: Spec = Spec {
    name: "system",
    gauge: "token.system",
    help: "Tokens of system instructions in the window last written",
    kept: Some(("system", Core::kept_system)),
    tokens: |core| core.system.token_estimate,
    recount: |counter, core| {
        let message = message_of(core).map_or(0, |message| message_cost(counter, &message));
        core.system.token_estimate = message + REPLY_TOKENS;
    },
    items: |core, _| {
        let (tokens, at) = (core.system.token_estimate, (Position::Head, ""));
        let item = |message| Item::new("system", tokens, message, "always", at);
        message_of(core).map(item).into_iter().collect()
    },
    restore: |past, core| {
        core.system = past.texts?.system.clone();
        None
    },
};

/// Returns the message of the system text. An empty text is no message, except in form 1.
fn message_of(core: &Core) -> Option<Value> {
    let content = &core.system.content;
    let is_shown = core.form == Form::One || !content.trim().is_empty();
    is_shown.then(|| system_message(core.form, content))
}

/// Returns a chat message of role `system`.
pub(super) fn system_message(form: Form, content: &str) -> Value {
    let role = Role::System.text();
    match form {
        Form::One | Form::Two => json!({"role": role, "content": content}),
        Form::Strict => json!({"role": role, "content": strict::part(content)}),
    }
}

/// Returns a chat message for a text of the server within the conversation. The strict form shows
/// it in a message of the user, with a line that says that the user did not say it.
pub(crate) fn server_message(form: Form, content: &str) -> Value {
    match form {
        Form::One | Form::Two => system_message(form, content),
        Form::Strict => json!({"role": Role::User.text(), "content": strict::aside(content)}),
    }
}
