//! Proposes that the model store facts about the user that a search found and the core does not
//! contain; writes nothing itself.

use serde_json::{Value, json};

use super::spec::Command;
use super::store_core::StoreCore;
use crate::memory::core::Core;
use crate::memory::message::{Message, Role};
use crate::search::passages;

/// Maximum number of facts that one answer proposes.
const PROPOSALS_MAX: usize = 2;

/// Phrases that introduce a fact worth keeping, in lower case. A phrase matches only at the
/// beginning of a word.
const TELLING: [&str; 16] = [
    "my name is",
    "call me",
    "i am allergic",
    "i'm allergic",
    "my birthday is",
    "i was born",
    "i live in",
    "i moved to",
    "i work as",
    "i work at",
    "i prefer",
    "i always",
    "i never",
    "remember that",
    "don't forget that",
    "from now on",
];
/// Name of the block to which proposed facts are appended.
const BLOCK: &str = "human";

/// Returns calls to `store_core` that would store facts from these messages, each with the message
/// that states the fact.
pub(super) fn proposals<'m>(
    core: &Core,
    messages: impl Iterator<Item = &'m Message>,
) -> Vec<Value> {
    let said = messages.filter(|message| message.role == Role::User);
    let told = said.filter_map(|message| Some((message, fact(&message.content)?)));
    let held = |fact: &str| core.working_blocks.iter().any(|block| block.content.contains(fact));
    let new = told.filter(|(_, fact)| !held(fact));
    new.take(PROPOSALS_MAX)
        .map(|(message, fact)| {
            json!({
                "tool": StoreCore::SPEC.name,
                "arguments": {"block_id": BLOCK, "content": fact, "policy": {"mode": "append"}},
                "because": {"id": message.key, "seq": message.seq},
            })
        })
        .collect()
}

/// Returns the first sentence that states a fact about the user, if any; a question is not a fact.
fn fact(text: &str) -> Option<&str> {
    let passage = passages(text).into_iter().next().map(|range| &text[range])?;
    let mut sentences = passage.split_inclusive(['.', '!', '?', '\n']).map(str::trim);
    sentences.find(|sentence| {
        let lower = sentence.to_lowercase().replace('’', "'");
        let tells = TELLING.iter().any(|telling| {
            lower.match_indices(telling).any(|(at, _)| {
                !lower[..at].ends_with(|before: char| before.is_alphanumeric() || before == '\'')
            })
        });
        tells && !sentence.ends_with('?')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_about_the_user_is_a_fact_and_a_question_is_none() {
        for (text, wanted) in [
            ("Hello. My name is Ida. And you?", Some("My name is Ida.")),
            ("I’m allergic to nuts!", Some("I’m allergic to nuts!")),
            ("What should you call me?", None),
            ("We recall meetings", None),
            ("The boat is blue.", None),
            ("", None),
        ] {
            assert_eq!(fact(text), wanted, "{text}");
        }
    }
}
