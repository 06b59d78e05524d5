//! Links: which attributes of a document a view holds, and by which analyzers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::analyzer::{self, Analysis};
use crate::error::{Code, Error, Result};
use crate::schema::Database;
use crate::value::Value;

/// What becomes of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Items {
    /// Each item is a value of the attribute.
    Each,
    /// Each item is held under its place.
    Placed,
    /// Nothing.
    None,
    /// Each item is a value, and what is no list is none (`[*]`); lists in it are not looked into.
    Only,
}

/// One level of a link or of an inverted index; what it does not say itself it has from the level around it.
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
    /// What becomes of a list.
    pub(super) items: Items,
    /// Whether values of this level itself are held.
    pub(super) values: bool,
    /// Whether it is held as null where it is missing.
    pub(super) absent: bool,
}

/// A field of an inverted index, as queries look it up.
#[derive(Clone, Debug)]
pub(crate) struct IndexField {
    /// Its path; lists on the way are not part of it.
    pub(crate) path: Vec<String>,
    /// Its one analyzer.
    pub(crate) analysis: Arc<Analysis>,
    /// Whether all attributes below it are held.
    pub(crate) include_all: bool,
    /// Whether items of lists are values.
    pub(crate) search: bool,
    /// Whether it is the items of a list that are held (`[*]`).
    pub(crate) expanded: bool,
}

impl Level {
    /// The outermost level of a link as the catalog keeps it; 501 for what the engine cannot do, 10 for nonsense.
    pub(super) fn of_link(database: &Database, link: &Value) -> Result<Self> {
        let outer = Self {
            analyzers: vec![analyzer::find(database, "identity")?],
            fields: BTreeMap::new(),
            include_all: false,
            store: false,
            items: Items::Each,
            values: true,
            absent: false,
        };
        outer.inner(database, link)
    }

    fn inner(&self, database: &Database, given: &Value) -> Result<Self> {
        let Some(object) = given.as_object() else {
            return Err(Error::new(Code::BadParameter, "a field of a link must be an object"));
        };
        refuse_nested(given)?;
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
        if let Some(placed) = object.get("trackListPositions") {
            level.items = if placed.is_true() { Items::Placed } else { Items::Each };
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

    /// What an inverted index holds; 10 for an analyzer that is not there, 501 for what the engine cannot do.
    pub(super) fn of_index(database: &Database, index: &Value) -> Result<Self> {
        let mut outer = Self {
            analyzers: vec![analysis_of(database, index, None)?],
            fields: BTreeMap::new(),
            include_all: index.attribute("includeAllFields").is_true(),
            store: true,
            items: items_of(index, index),
            values: index.attribute("includeAllFields").is_true(),
            absent: false,
        };
        let list = index.attribute("fields");
        for field in list.as_array().unwrap_or_default() {
            refuse_nested(field)?;
            let own = Self {
                analyzers: vec![analysis_of(database, field, Some(&outer.analyzers[0]))?],
                fields: BTreeMap::new(),
                include_all: flag(field, "includeAllFields", &index.attribute("includeAllFields")),
                store: true,
                items: items_of(field, index),
                values: true,
                absent: items_of(field, index) == Items::None,
            };
            let path = field.text_of("name").unwrap_or_default();
            // What a search field lies in may be a list too.
            let bare = Self { include_all: false, values: false, absent: false, ..own.clone() };
            let mut at = &mut outer;
            for segment in path.split('.') {
                let (name, star) = match segment.strip_suffix("[*]") {
                    Some(name) => (name, true),
                    None => (segment, false),
                };
                at = at.fields.entry(name.to_owned()).or_insert_with(|| bare.clone());
                if star {
                    at.items = Items::Only;
                }
            }
            let items = if at.items == Items::Only { Items::Only } else { own.items };
            let absent = own.absent && !path.contains("[*]");
            *at = Self { fields: std::mem::take(&mut at.fields), items, absent, ..own };
        }
        Ok(outer)
    }

    /// The attributes with a level of their own that a value has not.
    pub(super) fn missing<'a>(
        &'a self,
        value: &'a Value,
    ) -> impl Iterator<Item = (&'a String, &'a Self)> {
        let has = |name: &str| value.as_object().is_some_and(|object| object.get(name).is_some());
        self.fields.iter().filter(move |(name, _)| !has(name))
    }

    /// The level of an attribute, if the view holds it.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        // An attribute that is not listed has the level around it, with the fields listed there.
        self.fields.get(name).or_else(|| self.include_all.then_some(self))
    }
}

/// The fields of an inverted index; the outermost one stands for `includeAllFields` of the index.
pub(crate) fn index_fields(database: &Database, index: &Value) -> Result<Vec<IndexField>> {
    let outer = analysis_of(database, index, None)?;
    let all = index.attribute("includeAllFields");
    let search = index.attribute("searchField");
    let list = index.attribute("fields");
    let fields = list.as_array().unwrap_or_default().iter().map(|field| {
        let name = field.text_of("name").unwrap_or_default();
        let path = name.split('.').map(|one| one.trim_end_matches("[*]").to_owned()).collect();
        Ok(IndexField {
            path,
            analysis: analysis_of(database, field, Some(&outer))?,
            include_all: flag(field, "includeAllFields", &all),
            search: flag(field, "searchField", &search),
            expanded: name.ends_with("[*]"),
        })
    });
    let mut fields = fields.collect::<Result<Vec<_>>>()?;
    if all.is_true() {
        fields.push(IndexField {
            path: Vec::new(),
            analysis: outer,
            include_all: true,
            search: search.is_true(),
            expanded: false,
        });
    }
    Ok(fields)
}

/// The analyzer that a level names, or the one around it, with the features that the level wants.
fn analysis_of(
    database: &Database,
    level: &Value,
    outer: Option<&Arc<Analysis>>,
) -> Result<Arc<Analysis>> {
    let found = match (level.text_of("analyzer"), outer) {
        (Some(name), _) => analyzer::find(database, name)?,
        (None, Some(outer)) => outer.clone(),
        (None, None) => analyzer::find(database, "identity")?,
    };
    let features = level.attribute("features");
    let Some(features) = features.as_array() else { return Ok(found) };
    let features: Vec<String> =
        features.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Ok(Arc::new(found.with_features(&features)))
}

fn flag(level: &Value, name: &str, outer: &Value) -> bool {
    match level.attribute(name) {
        Value::Null => outer.is_true(),
        own => own.is_true(),
    }
}

fn items_of(level: &Value, index: &Value) -> Items {
    if !flag(level, "searchField", &index.attribute("searchField")) {
        Items::None
    } else if flag(level, "trackListPositions", &index.attribute("trackListPositions")) {
        Items::Placed
    } else {
        Items::Each
    }
}

fn refuse_nested(level: &Value) -> Result<()> {
    let empty = match level.attribute("nested") {
        Value::Array(nested) => nested.is_empty(),
        Value::Object(nested) => nested.is_empty(),
        _ => true,
    };
    if empty { Ok(()) } else { Err(Error::unsupported("'nested' of a link or an inverted index")) }
}
