//! Links: which attributes of a document a view holds, and by which analyzers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::analyzer::{self, Analysis};
use crate::error::{Code, Error, Result};
use crate::schema::Database;
use crate::value::{Object, Value};

/// One level of a link; what it does not say itself it has from the level around it.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// How texts become tokens.
    pub(super) analyzers: Vec<Arc<Analysis>>,
    /// Attributes with a level of their own.
    pub(super) fields: BTreeMap<String, Self>,
    /// Whether attributes without a level of their own are held too.
    pub(super) include_all: bool,
    /// Whether the view can say that an attribute is there (`EXISTS`).
    pub(super) store: bool,
}

impl Level {
    /// The outermost level of a link as the catalog keeps it; 501 for what the engine cannot do, 10 for nonsense.
    pub(super) fn of_link(database: &Database, link: &Value) -> Result<Self> {
        let outer = Self {
            analyzers: vec![analyzer::find(database, "identity")?],
            fields: BTreeMap::new(),
            include_all: false,
            store: false,
        };
        outer.inner(database, link)
    }

    fn inner(&self, database: &Database, given: &Value) -> Result<Self> {
        let Some(object) = given.as_object() else {
            return Err(Error::new(Code::BadParameter, "a field of a link must be an object"));
        };
        refuse(object)?;
        let mut level = Self { fields: BTreeMap::new(), ..self.clone() };
        if let Some(names) = object.get("analyzers").and_then(Value::as_array) {
            let names = names.iter().map(|name| {
                let name = name.as_str().ok_or_else(|| {
                    Error::new(Code::BadParameter, "'analyzers' of a link must be texts")
                })?;
                analyzer::find(database, name)
            });
            level.analyzers = names.collect::<Result<_>>()?;
        }
        if let Some(include_all) = object.get("includeAllFields") {
            level.include_all = include_all.is_true();
        }
        match object.get("storeValues").and_then(Value::as_str) {
            None => {}
            Some("none") => level.store = false,
            Some("id") => level.store = true,
            Some(_) => {
                return Err(Error::new(Code::BadParameter, "'storeValues' is none or id"));
            }
        }
        if let Some(fields) = object.get("fields").and_then(Value::as_object) {
            for (name, field) in fields.iter() {
                let field = level.without_fields().inner(database, field)?;
                level.fields.insert(name.to_string(), field);
            }
        }
        Ok(level)
    }

    fn without_fields(&self) -> Self {
        Self { fields: BTreeMap::new(), ..self.clone() }
    }

    /// The level of an attribute, if the view holds it.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        // An attribute that is not listed has the level around it, with the fields listed there.
        self.fields.get(name).or_else(|| self.include_all.then_some(self))
    }
}

fn refuse(level: &Object) -> Result<()> {
    if level.get("trackListPositions").is_some_and(Value::is_true) {
        return Err(Error::unsupported("'trackListPositions' of a link"));
    }
    let nested = level.get("nested").and_then(Value::as_object);
    if nested.is_some_and(|nested| !nested.is_empty()) {
        return Err(Error::unsupported("'nested' of a link"));
    }
    Ok(())
}
