//! The prompts on record: the tokens of each section of the window, and how much of a prompt is
//! the same as in the prompt before it.

use serde_json::Value;

use vctx_cli::output::{field, list, number};
use vctx_core::window::Section;

/// Name of the section with the schemas of tools, which a request has before its messages.
const TOOLS: &str = Section::Tools.name();

/// A prompt on record.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Turn {
    pub(super) number: u64,
    pub(super) at: String,
    /// Position of the message that began the run of the prompt.
    pub(super) cause_seq: u64,
    /// Tokens of each section, in drawing order.
    pub(super) sections: Vec<u64>,
    /// Warning mark, flush mark and size of the window, in tokens.
    pub(super) marks: [u64; 3],
    /// Tokens that begin the prompt as they began the prompt before it; `None` for the first.
    pub(super) kept: Option<u64>,
    /// Number of messages that came into the queue since the prompt before, and that left it.
    pub(super) moved: Option<(u64, u64)>,
    /// Tokens of the prompt and of the answer, as the model's provider counted them.
    pub(super) counted: Option<(u64, u64)>,
    /// How the prompt ended, on request in the words of the caller; empty if it waits for its
    /// answer.
    pub(super) finish: String,
    /// Whether a part of the prompt is no longer stored, so that its tokens are missing.
    pub(super) is_partial: bool,
    /// Name of the model, on request.
    pub(super) model: String,
}

impl Turn {
    /// Reads a prompt from the answer of `/prompts/{turn}`, and compares it with the answer for the
    /// prompt before.
    pub(super) fn of(answer: &Value, before: Option<&Value>, texts: bool) -> Turn {
        let prompt = &answer["prompt"];
        let is_partial = !list(answer, "/gone").is_empty();
        let tokens = |section: Section| match section.name() {
            TOOLS => tools(answer, is_partial),
            name => number(answer, &format!("/tokens/{name}")),
        };
        let head = |answer: &Value, name: &str| number(answer, &format!("/prompt/{name}"));
        let moved = before.map(|before| {
            ["next_seq", "head_seq"]
                .map(|name| head(answer, name).saturating_sub(head(before, name)))
                .into()
        });
        let counted = prompt["usage"].is_object();
        Turn {
            number: number(answer, "/turn"),
            at: field(prompt, "/created_at"),
            cause_seq: number(prompt, "/cause_seq"),
            sections: Section::drawn().map(tokens).collect(),
            marks: ["warning", "flush", "max"]
                .map(|mark| number(prompt, &format!("/policy/{mark}"))),
            kept: before.map(|before| kept(answer, before)),
            moved,
            counted: counted
                .then(|| (number(prompt, "/usage/prompt"), number(prompt, "/usage/completion"))),
            finish: match (field(prompt, "/finish"), texts) {
                (finish, true) => finish,
                (finish, false) if finish.is_empty() => finish,
                (_, false) => "an answer".to_owned(),
            },
            is_partial,
            model: if texts { field(prompt, "/model") } else { String::new() },
        }
    }

    /// Returns the tokens of the whole prompt.
    pub(super) fn total(&self) -> u64 {
        self.sections.iter().sum()
    }
}

/// Returns the tokens of the tools of a prompt: what the estimate of the whole prompt has beside
/// the window's other sections.
fn tools(answer: &Value, is_partial: bool) -> u64 {
    let offered = number(answer, &format!("/tokens/{TOOLS}"));
    if is_partial {
        return offered;
    }
    let estimate = number(answer, "/prompt/token_estimate");
    (estimate + offered).saturating_sub(number(answer, "/tokens/occupancy"))
}

/// Returns the tokens of the longest beginning that two prompts share. A request has its tools
/// first; another tool, or another model, changes everything after it.
fn kept(answer: &Value, before: &Value) -> u64 {
    let same = |pointer: &str| answer.pointer(pointer) == before.pointer(pointer);
    if !["/prompt/model", "/prompt/api", "/prompt/tools"].into_iter().all(same) {
        return 0;
    }
    let (now, earlier) = (list(answer, "/manifest/items"), list(before, "/manifest/items"));
    let shared = now.iter().zip(earlier).take_while(|(a, b)| a["digest"] == b["digest"]);
    let tokens: u64 = shared.map(|(item, _)| number(item, "/tokens")).sum();
    tokens + tools(answer, !list(answer, "/gone").is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(turn: u64, digests: &[(&str, u64)], tools: &str) -> Value {
        let items: Vec<Value> = digests
            .iter()
            .map(|(digest, tokens)| json!({"digest": digest, "tokens": tokens}))
            .collect();
        let fifo: u64 = digests.iter().map(|(_, tokens)| tokens).sum();
        json!({"turn": turn, "gone": [], "tokens": {"fifo": fifo, "tools": 5, "occupancy": fifo + 5},
            "manifest": {"items": items},
            "prompt": {"created_at": "t", "cause_seq": 3, "model": "parrot", "tools": tools, "token_estimate": fifo + 30,
                "head_seq": turn, "next_seq": turn + 4, "policy": {"warning": 70, "flush": 90, "max": 100},
                "usage": {"prompt": 44, "completion": 2}, "finish": "stop"}})
    }

    #[test]
    fn a_turn_has_its_sections_and_its_shared_beginning() {
        let first = answer(1, &[("a", 10), ("b", 20)], "x");
        let next = answer(2, &[("a", 10), ("b", 20), ("c", 7)], "x");
        let turn = Turn::of(&next, Some(&first), false);
        assert_eq!((turn.total(), turn.kept, turn.moved), (67, Some(60), Some((1, 1))));
        assert_eq!((turn.marks, turn.counted), ([70, 90, 100], Some((44, 2))));
        assert_eq!((turn.model.as_str(), turn.finish.as_str()), ("", "an answer"));
        let other = answer(3, &[("a", 10), ("z", 20), ("c", 7)], "x");
        assert_eq!(Turn::of(&other, Some(&next), true).kept, Some(40));
        assert_eq!(Turn::of(&other, Some(&next), true).model, "parrot");
        let tools = answer(4, &[("a", 10)], "y");
        assert_eq!(Turn::of(&tools, Some(&other), false).kept, Some(0));
        assert_eq!(Turn::of(&first, None, false).kept, None);
    }
}
