//! Marks a new message by what its text says.

use serde_json::{Map, Value};

use super::Draft;
use crate::memory::message::{Kind, LASTING, Role, TAINT, taint_mark};
use crate::search::lasting_requests;
use crate::trust::{TaintMode, from_outside, rules_with_names, texts_of};

impl Draft<'_> {
    /// Adds a taint mark to `meta` if the text is from outside and matches a taint rule, and a mark
    /// for a lasting request if the user says one.
    pub(super) fn mark(
        &self,
        kind: Kind,
        role: Role,
        content: &str,
        key: &str,
        meta: &mut Map<String, Value>,
    ) {
        if kind == Kind::Turn && role == Role::User && !lasting_requests(content).is_empty() {
            meta.insert(LASTING.into(), true.into());
        }
        if self.around.taint == TaintMode::Off || kind == Kind::Copy || !from_outside(kind, role) {
            return;
        }
        let rules = rules_with_names(content, &texts_of(meta));
        if !rules.is_empty() {
            meta.insert(TAINT.into(), taint_mark(&rules, key));
        }
    }
}
