//! The window's section of the built context: what the memory says on the question of one prompt.
//! Only the window of a prompt has it.

use super::section::{Gone, Item, Position, Spec};
use super::system::server_message;
use crate::memory::core::Core;
use crate::memory::form::Form;
use crate::memory::pack::{ContextPack, CoreContext, ShownContext};
use crate::memory::strict::CONTEXT;
use crate::memory::tokens::{TokenCounter, message_cost};

pub(super) const SECTION: Spec = Spec {
    name: "context",
    gauge: "token.context",
    help: "Tokens of the built context that the newest prompt showed",
    kept: None,
    tokens: |core| shown(core).map_or(0, |shown| shown.token_estimate),
    recount: |counter, core| {
        let form = core.form;
        if let Some(shown) = core.context.as_mut().and_then(|context| context.shown.as_mut()) {
            shown.token_estimate = context_cost(counter, form, &shown.text);
        }
    },
    items: |core, _| shown(core).map(|shown| item(core.form, shown)).into_iter().collect(),
    restore: |past, core| {
        let shown = past.context.clone();
        core.context = Some(CoreContext { shown, ..CoreContext::default() });
        let digest = past.window.pack.as_ref().filter(|_| past.context.is_none())?;
        let section = SECTION.name;
        Some(Gone { section, seq: None, id: digest.clone(), expired_at: None, forgotten_at: None })
    },
};

fn shown(core: &Core) -> Option<&ShownContext> {
    core.context.as_ref()?.shown.as_ref()
}

fn item(form: Form, shown: &ShownContext) -> Item {
    let (message, at) = (server_message(form, &shown.text), (Position::Fence, CONTEXT));
    Item::new(&shown.digest, shown.token_estimate, message, "built for the question", at)
}

/// Returns the cost of a context's message in tokens.
pub fn context_cost(counter: &dyn TokenCounter, form: Form, text: &str) -> u64 {
    message_cost(counter, &server_message(form, text))
}

/// Returns a context pack with its text as a window shows it.
pub fn shown_context(
    counter: &dyn TokenCounter,
    form: Form,
    pack: &ContextPack,
    question_seq: Option<u64>,
    text: String,
) -> ShownContext {
    let token_estimate = context_cost(counter, form, &text);
    ShownContext { digest: pack.digest.clone(), question_seq, text, token_estimate }
}

/// Returns the position of the message before which a window shows the core's context.
pub(super) fn question_seq(core: &Core) -> Option<u64> {
    shown(core)?.question_seq
}
