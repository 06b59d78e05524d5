//! The window's section of the system text. The section's cost includes the tokens with which a
//! chat prompt starts the model's reply.

use serde_json::{Value, json};

use super::section::{Item, Spec};
use crate::memory::core::Core;
use crate::memory::message::Role;
use crate::memory::tokens::{REPLY_TOKENS, message_cost};

pub(super) const SECTION: Spec = Spec {
    name: "system",
    gauge: "token.system",
    help: "Tokens of system instructions in the window last written",
    kept: Some(("system", Core::kept_system)),
    tokens: |core| core.system.token_estimate,
    recount: |counter, core| {
        let message = system_message(&core.system.content);
        core.system.token_estimate = message_cost(counter, &message) + REPLY_TOKENS;
    },
    items: |core, _| {
        let message = system_message(&core.system.content);
        vec![Item::new("system", core.system.token_estimate, message, "always")]
    },
    restore: |past, core| {
        core.system = past.texts?.system.clone();
        None
    },
};

/// Returns a chat message of role `system`.
pub(super) fn system_message(content: &str) -> Value {
    json!({"role": Role::System.text(), "content": content})
}
