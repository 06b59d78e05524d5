//! The window's section of the tools offered to a model. The tools cost tokens, although they are
//! not part of any message.

use super::section::Spec;

pub(super) const SECTION: Spec = Spec {
    name: "tools",
    gauge: "token.tools",
    help: "Tokens of tools offered to the model in the window last written",
    kept: None,
    tokens: |core| core.offered().token_estimate,
    recount: |_, _| {},
    items: |_, _| Vec::new(),
    restore: |past, core| {
        core.tools = past.window.offered.clone();
        core.reserved = None;
        None
    },
};
