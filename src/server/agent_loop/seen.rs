//! What a call of the model builds on: the window that it saw, and what it changed itself since.

use serde_json::Value;

use crate::executor::Guard;
use vctx_core::dialect::Translated;
use vctx_core::policy::Depends;
use vctx_core::tools::Call;

/// What the model knows of core memory in this turn.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Revision of the window that was sent; none before anything was.
    window: Option<String>,
    /// Blocks that its calls have written since, with the revision of the answer; the newest last.
    own: Vec<(String, String)>,
}

impl Seen {
    /// A window of that revision, and nothing since.
    pub(super) fn window(revision: String) -> Self {
        Self { window: Some(revision), own: Vec::new() }
    }

    /// What a call builds on: for blocks the revision at which the model last knew all of them, so that nothing is overwritten that somebody
    /// else wrote while it was thinking; for everything else any.
    pub(super) fn guard(&self, asked: &Translated) -> Guard {
        let blocks = blocks(&asked.call);
        let Some(window) =
            self.window.as_ref().filter(|_| !asked.any_revision && !blocks.is_empty())
        else {
            return Guard::Any;
        };
        let written = |block: &String| self.own.iter().rposition(|(name, _)| name == block);
        let places: Option<Vec<usize>> = blocks.iter().map(written).collect();
        let last = places.and_then(|places| places.into_iter().min());
        Guard::Rev(last.map_or(window, |at| &self.own[at].1).clone())
    }

    /// Takes in what a call of the model wrote.
    pub(super) fn wrote(&mut self, call: &Call, answer: &Value) {
        let Some(revision) = answer["_rev"].as_str() else { return };
        let written = blocks(call).into_iter().map(|block| (block, revision.to_owned()));
        self.own.extend(written);
    }
}

/// The blocks that a call depends on.
fn blocks(call: &Call) -> Vec<String> {
    match call.depends() {
        Depends::Block(block) => vec![block],
        Depends::Tree(blocks) => blocks,
        Depends::Queue | Depends::Eviction | Depends::Manifest | Depends::All => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use vctx_core::dialect::{Dialect, translate};

    fn call(name: &str, arguments: Value) -> Translated {
        let arguments: Map<String, Value> = arguments.as_object().cloned().unwrap();
        translate(Dialect::Vctx, name, arguments).unwrap()
    }

    #[test]
    fn a_block_is_built_on_as_it_was_last_known_and_the_rest_on_anything() {
        let store = |block: &str| call("store_core", json!({"block_id": block, "content": "x"}));
        let mut seen = Seen::window("w".into());
        assert_eq!(seen.guard(&store("human")), Guard::Rev("w".into()));
        assert_eq!(seen.guard(&call("search_recall", json!({"query": "x"}))), Guard::Any);
        seen.wrote(&store("human").call, &json!({"_rev": "a"}));
        seen.wrote(&store("plans").call, &json!({"_rev": "b"}));
        assert_eq!(seen.guard(&store("human")), Guard::Rev("a".into()));
        assert_eq!(seen.guard(&store("notes")), Guard::Rev("w".into()), "not written by itself");
        seen.wrote(&store("human").call, &json!({"_rev": "c"}));
        assert_eq!(seen.guard(&store("human")), Guard::Rev("c".into()));
        assert_eq!(Seen::default().guard(&store("human")), Guard::Any);
    }
}
