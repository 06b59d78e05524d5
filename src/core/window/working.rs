//! The window's section of the working context, with one message for each block.

use serde_json::Value;

use super::section::{Item, Position, Spec};
use super::system::system_message;
use crate::memory::core::{Block, Core};
use crate::memory::form::Form;
use crate::memory::markup;
use crate::memory::strict::MEMORY;
use crate::memory::tokens::{TokenCounter, message_cost};

pub(super) const SECTION: Spec = Spec {
    name: "working",
    gauge: "token.working",
    help: "Tokens of working blocks in the window last written",
    kept: Some(("working_blocks", Core::kept_blocks)),
    tokens: |core| core.working_blocks.iter().map(|block| block.token_estimate).sum(),
    recount: |counter, core| {
        let form = core.form;
        core.working_blocks.iter_mut().for_each(|block| count_block(counter, form, block));
    },
    items: |core, _| core.working_blocks.iter().map(|block| item(core.form, block)).collect(),
    restore: |past, core| {
        core.working_blocks.clone_from(&past.texts?.working_blocks);
        None
    },
};

fn item(form: Form, block: &Block) -> Item {
    let why = if block.pinned { "pinned" } else { "working block" };
    let rules = block.taint.iter().flat_map(|taint| taint.rules.clone());
    let (tokens, message) = (block.token_estimate, block_message(form, block));
    let item = Item::new(&block.id, tokens, message, why, (Position::Head, MEMORY));
    Item { tainted: rules.collect(), ..item }
}

fn block_message(form: Form, block: &Block) -> Value {
    let Block { id, role, .. } = block;
    let pin = if block.pinned { " pinned" } else { "" };
    let content = markup::display_text(&block.content, block.escaped);
    let text = format!("<block id=\"{id}\" role=\"{role}\"{pin}>\n{content}\n</block>");
    system_message(form, &text)
}

/// Checks whether the text of a newly written block needs escaping, counts the block's tokens in
/// the form of the window, and stores both results in the block.
pub fn count_block(counter: &dyn TokenCounter, form: Form, block: &mut Block) {
    block.escaped = markup::has_block_markup(&block.content);
    block.token_estimate = message_cost(counter, &block_message(form, block));
}
