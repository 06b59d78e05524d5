//! Tracks the revisions of core memory that a model knows when it makes a call: the revision of the
//! window that the model saw, and the revisions of the model's later changes.

use serde_json::Value;

use crate::executor::Guard;
use vctx_core::dialect::Translated;
use vctx_core::tools::Call;

/// The core revisions that the model knows in this turn.
#[derive(Debug, Default)]
pub(super) struct KnownRevisions {
    /// Revision of the window that was sent to the model.
    window: Option<String>,
    /// Blocks that the model's calls wrote after the window was sent, each with its new revision;
    /// the newest block is last.
    own: Vec<(String, String)>,
}

impl KnownRevisions {
    /// Returns the known revisions of a model that has seen only the window with the given
    /// revision, and no later change.
    pub(super) fn window(revision: String) -> Self {
        Self { window: Some(revision), own: Vec::new() }
    }

    /// Returns the revision guard of a call: the latest revision at which the model knew all blocks
    /// that the call names. The guard prevents the call from overwriting a concurrent write. A call
    /// that names no blocks accepts any revision.
    pub(super) fn guard(&self, asked: &Translated) -> Guard {
        let blocks = asked.call.depends().blocks();
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

    /// Records the blocks that a successful call wrote, with their new revision.
    pub(super) fn wrote(&mut self, call: &Call, answer: &Value) {
        let Some(revision) = answer["_rev"].as_str() else { return };
        let written = call.depends().blocks().into_iter().map(|block| (block, revision.to_owned()));
        self.own.extend(written);
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
        let mut seen = KnownRevisions::window("w".into());
        assert_eq!(seen.guard(&store("human")), Guard::Rev("w".into()));
        assert_eq!(seen.guard(&call("search_recall", json!({"query": "x"}))), Guard::Any);
        seen.wrote(&store("human").call, &json!({"_rev": "a"}));
        seen.wrote(&store("plans").call, &json!({"_rev": "b"}));
        assert_eq!(seen.guard(&store("human")), Guard::Rev("a".into()));
        assert_eq!(seen.guard(&store("notes")), Guard::Rev("w".into()), "not written by itself");
        seen.wrote(&store("human").call, &json!({"_rev": "c"}));
        assert_eq!(seen.guard(&store("human")), Guard::Rev("c".into()));
        assert_eq!(KnownRevisions::default().guard(&store("human")), Guard::Any);
    }
}
