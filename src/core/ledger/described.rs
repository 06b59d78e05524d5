//! Compares a core, as the database returns it, with the newest entry of the ledger that lists it.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::item::{Item, RowState, Shape};
use super::note::Head;
use super::{genesis, link, text_of};
use crate::memory::export::RowKind;
use crate::trust::Scope;

type Row = Map<String, Value>;

/// The newest entry of a ledger that lists the core.
#[derive(Clone, Debug, Deserialize)]
pub struct CoreEntry {
    /// The entry.
    pub entry: Row,
    /// Hash of the entry before it; `None` if there is no such entry.
    pub previous: Option<String>,
}

impl CoreEntry {
    /// Compares a core, in the form of the database, with the entry. Returns the head of the ledger
    /// after the entry. An error says what differs, as a sentence without an end.
    pub fn check(&self, core: Row, scope: &Scope) -> Result<Head, String> {
        let n = self.entry.get("n").and_then(Value::as_u64).unwrap_or_default();
        let text = |row: &Row, name: &str| {
            row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let previous = match (&self.previous, n) {
            (None, 1) => {
                let sealed_as = text(&core, "sealed_as");
                genesis(if sealed_as.is_empty() { scope.key() } else { &sealed_as })
            }
            (previous, _) => previous.clone().unwrap_or_default(),
        };
        let hash = link(&previous, n, &text_of(&self.entry));
        if text(&self.entry, "hash") != hash {
            return Err(format!("entry {n} does not follow from the entry before it"));
        }
        let items = self.entry.get("rows").and_then(Value::as_array);
        let mut items = items.into_iter().flatten().filter_map(|text| Item::parse(text.as_str()?));
        let listed = items.rfind(|item| item.shape == CORE).map(|item| item.state);
        let found = Item::of_row(RowKind::Core, core, scope, None);
        let found = found.map_err(|why| format!("the core {why}"))?;
        let found = found.into_iter().find(|item| item.shape == CORE).map(|item| item.state);
        match (listed, found) {
            (Some(RowState::Is { digest, .. }), Some(RowState::Is { digest: found, .. }))
                if digest == found =>
            {
                Ok(Head { n, hash })
            }
            _ => Err(format!("the core is not the one that entry {n} describes")),
        }
    }
}

const CORE: Shape = Shape::Row(RowKind::Core);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::trust::{Actor, Principal, admit};

    #[test]
    fn a_core_must_be_the_one_that_the_entry_lists() {
        let actor = Actor { uid: 0, pid: 0, label: None };
        let scope =
            admit(&Principal { actor, tenant: String::new(), called: None }, "ada").unwrap();
        let row = |blocks: Value| {
            let core = json!({"_key": "ada", "_rev": "1", "agent_id": "ada", "tenant": "",
                "salt": "00", "working_blocks": blocks});
            core.as_object().cloned().unwrap()
        };
        let item = Item::of_row(RowKind::Core, row(json!([])), &scope, None).unwrap()[0].clone();
        let mut entry = json!({"n": 1, "type": "audit", "ts": "t", "details": {},
            "rows": ["2", item.to_string()]});
        let text = text_of(entry.as_object().unwrap());
        entry["hash"] = link(&genesis("ada"), 1, &text).into();
        let mut one = CoreEntry { entry: entry.as_object().cloned().unwrap(), previous: None };
        assert_eq!(one.check(row(json!([])), &scope).map(|head| head.n), Ok(1));
        let other = one.check(row(json!(["forged"])), &scope).unwrap_err();
        assert!(other.contains("entry 1 describes"), "{other}");
        one.previous = Some("00".into());
        let cut = one.check(row(json!([])), &scope).unwrap_err();
        assert!(cut.contains("does not follow"), "{cut}");
    }
}
