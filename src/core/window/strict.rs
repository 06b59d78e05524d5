//! Arranges the window in its strict form: one system message, then messages of the user and of the
//! assistant in turn, with each tool result behind its call.

use serde_json::json;

use super::Section;
use super::section::{Item, Position};
use crate::memory::message::Role;
use crate::memory::receipt;

/// An item with its section.
type SectionItem = (Section, Item);

/// Puts the items of the sections into the order of the strict form, and joins neighbours of the
/// same role. The costs do not change.
pub(super) fn arranged(items: Vec<SectionItem>) -> Vec<SectionItem> {
    let (mut ordered, mut fence, mut talk) = (Vec::new(), Vec::new(), Vec::new());
    for listed in items {
        match listed.1.place {
            Position::Head => ordered.push(listed),
            Position::Fence => fence.push(listed),
            Position::Said
            | Position::Aside
            | Position::Answer
            | Position::Calls
            | Position::Result => {
                talk.push(listed);
            }
        }
    }
    let mut talk = with_asides_moved(talk);
    let at = newest_run(&talk);
    talk.splice(at..at, fence);
    ordered.append(&mut talk);
    join(&mut ordered);
    ordered
}

/// Moves a text of the role `system` that would stand between calls and the model's answer to the
/// end of the user message before the calls.
fn with_asides_moved(talk: Vec<SectionItem>) -> Vec<SectionItem> {
    let mut ordered: Vec<SectionItem> = Vec::with_capacity(talk.len());
    // Where such a text goes; `None` if no calls wait for an answer.
    let mut before_calls: Option<usize> = None;
    for listed in talk {
        match (listed.1.place, &mut before_calls) {
            (Position::Aside, Some(at)) => {
                ordered.insert(*at, listed);
                *at += 1;
                continue;
            }
            (Position::Calls, at @ None) => {
                let last = ordered.iter().rposition(|(_, item)| item.place.is_of_user());
                *at = Some(last.map_or(0, |last| last + 1));
            }
            (Position::Said | Position::Answer, at) => *at = None,
            _ => {}
        }
        ordered.push(listed);
    }
    ordered
}

/// Returns where the newest user message begins.
fn newest_run(talk: &[SectionItem]) -> usize {
    let is_of_user = |(_, item): &SectionItem| item.place.is_of_user();
    let Some(last) = talk.iter().rposition(is_of_user) else { return 0 };
    talk[..last].iter().rposition(|listed| !is_of_user(listed)).map_or(0, |before| before + 1)
}

/// Joins neighbours of the same role. A message with calls ends with them, and a tool message
/// stands alone.
fn join(items: &mut [SectionItem]) {
    let mut before = None;
    for (_, item) in items {
        let role = match item.place {
            Position::Head => Role::System,
            Position::Said | Position::Aside | Position::Fence => Role::User,
            Position::Answer | Position::Calls => Role::Assistant,
            Position::Result => Role::Tool,
        };
        // A further copy of a search always follows the first one.
        if !item.joins && before == Some(role) {
            item.joins = true;
            let text = item.message["content"].as_str().unwrap_or_default();
            item.message["content"] = format!("{}{text}", item.line).into();
            if item.seq.is_none() {
                let part = json!({"role": role.text(), "content": item.message["content"]});
                item.digest = receipt::sha256(&receipt::canonical_json(&part));
            }
        }
        let is_closed = matches!(item.place, Position::Calls | Position::Result);
        before = (!is_closed).then_some(role);
    }
}
