//! Collects the rows that a write changes, and makes the ledger's entry of the write.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::db::Rw;
use super::fault::{Fault, FaultKind, Result};
use vctx_base::ids::SystemIds;
use vctx_core::ids::Ids as _;
use vctx_core::ledger::note::Head;
use vctx_core::ledger::{self, ITEMS_VERSION, Item, LocalKind};
use vctx_core::memory::core::Core;
use vctx_core::memory::event::{Event, entry_key};
use vctx_core::memory::export::{RowKind, exact};
use vctx_core::trust::Scope;

/// A row that a statement changed, as the statement returns it.
#[derive(Debug, Deserialize)]
pub(super) struct Touched {
    /// Collection of the row.
    of: String,
    /// The row after the statement; absent if the statement removed the row.
    row: Option<Box<RawValue>>,
    /// The row that the statement found and changed; absent if it wrote a new row.
    old: Option<Box<RawValue>>,
    /// The attributes that identify a removed row.
    gone: Option<Map<String, Value>>,
    /// Salt of the message to which the row belongs, for rows without a salt of their own.
    salt: Option<String>,
}

/// The rows that a write changes, as items of the ledger.
pub(super) struct Written<'a> {
    scope: &'a Scope,
    items: Vec<String>,
}

/// Name of the revision in an answer.
const REV: &str = "_rev";

impl<'a> Written<'a> {
    pub(super) fn new(scope: &'a Scope) -> Self {
        Self { scope, items: Vec::new() }
    }

    /// Adds the rows that a statement returned, in the order of the statement.
    pub(super) fn touched(&mut self, rows: Vec<Touched>) -> Result<()> {
        for row in rows {
            let items = self.items_of(&row).map_err(|why| refused(&row.of, &why))?;
            self.items.extend(items.iter().map(Item::to_string));
        }
        Ok(())
    }

    /// Returns the items of a row that a statement changed. A row that the statement found is
    /// listed with its digest before, so that the ledger shows if it was not the row that an
    /// earlier entry describes.
    fn items_of(&self, row: &Touched) -> std::result::Result<Vec<Item>, String> {
        let local = LocalKind::by_name(&row.of);
        let kind = RowKind::by_name(&row.of);
        let salt = row.salt.as_deref();
        let items = |text: &RawValue| match (exact(text.get())?, local, kind) {
            (Value::Object(map), Some(local), _) => {
                Ok(vec![Item::of_local(local, map, self.scope)?])
            }
            (Value::Object(map), None, Some(kind)) => Item::of_row(kind, map, self.scope, salt),
            (_, None, None) => Err("is unknown".to_owned()),
            _ => Err("is no object".to_owned()),
        };
        match (&row.row, &row.gone) {
            (Some(text), _) => {
                let found = row.old.as_deref().map(items).transpose()?.unwrap_or_default();
                let changed = items(text)?.into_iter();
                Ok(changed.map(|item| item.changed_from(&found)).collect())
            }
            (None, Some(gone)) => match (local, kind) {
                (Some(local), _) => Ok(vec![Item::gone_local(local, gone)?]),
                (None, Some(kind)) => Item::gone(kind, gone),
                (None, None) => Err("is unknown".to_owned()),
            },
            (None, None) => Err("has neither a row nor an identity".to_owned()),
        }
    }

    /// Adds a row that an export leaves out, and that the server writes as it is.
    pub(super) fn local(&mut self, kind: LocalKind, row: &Value) -> Result<()> {
        let Value::Object(map) = row else { return Err(refused(kind.collection(), "no object")) };
        let item = Item::of_local(kind, map.clone(), self.scope);
        let item = item.map_err(|why| refused(kind.collection(), &why))?;
        self.items.push(item.to_string());
        Ok(())
    }

    /// Adds an item.
    pub(super) fn item(&mut self, item: &Item) {
        self.items.push(item.to_string());
    }

    /// Adds a row that the server writes as it is.
    pub(super) fn row(&mut self, kind: RowKind, row: Value, salt: Option<&str>) -> Result<()> {
        let Value::Object(map) = row else { return Err(refused(kind.collection(), "no object")) };
        self.add(kind, Item::of_row(kind, map, self.scope, salt))
    }

    /// Adds the core as it is after the write.
    pub(super) fn core(&mut self, core: &Core) -> Result<()> {
        self.add(RowKind::Core, Item::of_core(core, self.scope).map(|item| vec![item]))
    }

    /// Adds a message that the server writes as it is.
    pub(super) fn message(&mut self, row: &Value) -> Result<()> {
        let none = Map::new();
        let item = Item::of_message(row.as_object().unwrap_or(&none), self.scope);
        self.add(RowKind::Messages, item.map(|item| vec![item]))
    }

    /// Adds a stored answer that the server writes as it is: the row without the answer, and the
    /// answer. The item does not cover the revision in the answer, which the database sets.
    pub(super) fn answer(&mut self, row: &Value, response: &mut Value) -> Result<()> {
        let rev = response.as_object_mut().and_then(|map| {
            let at = map.keys().position(|name| name == REV)?;
            Some((at, map.shift_remove(REV)?))
        });
        let none = Map::new();
        let item = Item::of_answer(row.as_object().unwrap_or(&none), response, self.scope);
        if let (Some((at, rev)), Some(map)) = (rev, response.as_object_mut()) {
            map.shift_insert(at, REV.to_owned(), rev);
        }
        self.add(RowKind::Answers, item.map(|item| vec![item]))
    }

    /// Adds the items of a row.
    pub(super) fn add(
        &mut self,
        kind: RowKind,
        items: std::result::Result<Vec<Item>, String>,
    ) -> Result<()> {
        let items = items.map_err(|why| refused(kind.collection(), &why))?;
        self.items.extend(items.iter().map(Item::to_string));
        Ok(())
    }

    /// Returns whether no row was added.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Splits the rows into parts of at most `most` rows.
    pub(super) fn parts(self, most: usize) -> impl Iterator<Item = Self> {
        let scope = self.scope;
        let parts: Vec<Vec<String>> = self.items.chunks(most).map(<[String]>::to_vec).collect();
        parts.into_iter().map(move |items| Self { scope, items })
    }

    /// Returns the entry of a write that has no other event than the given one.
    pub(super) fn alone(self, event: &Event) -> Entry {
        let mut items = vec![ITEMS_VERSION.to_owned()];
        items.extend(self.items);
        let mut row = json!(event);
        row["rows"] = items.into();
        let text = row.as_object().map(ledger::text_of).unwrap_or_default();
        Entry { row, text, others: Vec::new() }
    }

    /// Takes the newest audit row out of the events, adds the other events to the written rows, and
    /// returns the entry as bind variables: the audit row with the written rows, and the text that
    /// the hash covers.
    pub(super) fn entry(mut self, events: &[Event]) -> Result<Entry> {
        let audit = events.iter().rposition(Event::is_audit);
        let audit = audit.ok_or_else(|| refused("memory_events", "a write without audit row"))?;
        let mut others = Vec::with_capacity(events.len() - 1);
        for (at, event) in events.iter().enumerate() {
            if at == audit {
                continue;
            }
            let mut row = json!(event);
            others.push(row.clone());
            row["_key"] = "".into();
            self.row(RowKind::Events, row, None)?;
        }
        Ok(Entry { others, ..self.alone(&events[audit]) })
    }
}

/// An entry of the ledger without its number and hash, which depend on the entry before it.
pub(super) struct Entry {
    /// The audit row with the written rows.
    pub(super) row: Value,
    /// The text that the entry's hash covers.
    pub(super) text: String,
    /// The other events of the write.
    pub(super) others: Vec<Value>,
}

impl Entry {
    /// Returns the row with number, hash, code and key, as the entry after the given head, and the
    /// head after it.
    pub(super) fn after(mut self, rw: &Rw, scope: &Scope, before: &Head) -> (Value, Head) {
        let n = before.n + 1;
        let hash = ledger::link(&before.hash, n, &self.text);
        self.row["_key"] = entry_key(scope.key(), n).into();
        self.row["n"] = n.into();
        self.row["hash"] = hash.as_str().into();
        if let Some(secret) = rw.heads.secret() {
            self.row["code"] = secret.code(&hash).into();
        }
        (self.row, Head { n, hash })
    }
}

/// Returns a new salt for a row that contains text.
pub(super) fn salt() -> Value {
    SystemIds.salt().into()
}

fn refused(collection: &str, why: &str) -> Fault {
    let text = format!("a row of {collection} cannot be listed in the ledger: it {why}");
    Fault::new(FaultKind::Garbage, text)
}
