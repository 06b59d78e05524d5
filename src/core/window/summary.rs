//! The window's section of the recursive summary; an empty summary is not rendered.

use serde_json::Value;

use super::section::{Gone, Item, Position, Spec};
use super::system::system_message;
use crate::memory::core::{Core, Summary};
use crate::memory::form::Form;
use crate::memory::markup;
use crate::memory::strict::SUMMARY;
use crate::memory::tokens::{TokenCounter, message_cost};

/// First line of the rendered summary.
const HEADING: &str =
    "Summary of the earlier conversation (the messages themselves are in recall storage):";

pub(super) const SECTION: Spec = Spec {
    name: "summary",
    gauge: "token.summary",
    help: "Tokens of the summary in the window last written",
    kept: Some(("queue_head_summary", Core::kept_summary)),
    tokens: |core| core.queue_head_summary.token_estimate,
    recount: |counter, core| count_summary(counter, core.form, &mut core.queue_head_summary),
    items: |core, _| {
        let summary = &core.queue_head_summary;
        if summary.content.is_empty() {
            return Vec::new();
        }
        let id = format!("summary:{}", summary.revision);
        let content = markup::display_text(&summary.content, summary.escaped);
        let (tokens, message) = (summary.token_estimate, summary_message(core.form, &content));
        let why = "stands for evicted messages";
        vec![Item::new(&id, tokens, message, why, (Position::Head, SUMMARY))]
    },
    restore: |past, core| {
        let texts = past.texts?;
        let mut summary = texts.queue_head_summary.clone();
        let gone = summary["content"].is_null().then(|| Gone {
            section: SECTION.name,
            seq: None,
            id: format!("summary:{}", summary["revision"]),
            expired_at: texts.expired_at.clone(),
            forgotten_at: summary["forgotten_at"].as_str().map(str::to_owned),
        });
        if gone.is_some() {
            summary["content"] = "".into();
        }
        core.queue_head_summary = serde_json::from_value(summary).unwrap_or_default();
        gone
    },
};

fn summary_message(form: Form, content: &str) -> Value {
    system_message(form, &format!("{HEADING}\n{content}"))
}

/// Checks whether a summary's text needs escaping, counts the summary's tokens, and stores both
/// results in the summary.
pub(super) fn count_summary(counter: &dyn TokenCounter, form: Form, summary: &mut Summary) {
    summary.escaped = markup::has_block_markup(&summary.content);
    summary.token_estimate = summary_cost(counter, form, &summary.content);
}

/// Returns the cost of a new summary with the given text in a window of the given form; 0 for an
/// empty text.
pub fn summary_cost(counter: &dyn TokenCounter, form: Form, content: &str) -> u64 {
    if content.is_empty() {
        return 0;
    }
    message_cost(counter, &summary_message(form, &markup::escaped(content)))
}
