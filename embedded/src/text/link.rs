//! Compiled links of views and inverted indexes, which say which attributes are indexed, and with
//! which analyzers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::analyzer::{self, Analysis};
use crate::error::{Code, Error, Result};
use crate::schema::Database;
use crate::value::Value;

/// How a list value of an attribute is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Items {
    /// Each item of a list is indexed as a value of the attribute.
    Each,
    /// Each item of a list is indexed under its position in the list.
    Placed,
    /// The list is not indexed.
    None,
    /// Only items of a list are indexed (`[*]`); nested lists are not indexed.
    Only,
}

/// The settings of one level of a link or an inverted index. The outermost level is the whole
/// document, and each inner level is one attribute. Missing settings are those of the parent level.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// The analyzers for texts.
    pub(super) analyzers: Vec<Arc<Analysis>>,
    /// Settings of the subattributes that the link lists by name.
    pub(super) fields: BTreeMap<String, Self>,
    /// Whether attributes that are not listed are also indexed.
    pub(super) include_all: bool,
    /// Whether the view stores which attributes exist, for `EXISTS`.
    pub(super) store: bool,
    /// How lists are indexed.
    pub(super) items: Items,
    /// Whether the values of the attribute itself are indexed, and not only those of attributes
    /// inside it.
    pub(super) values: bool,
    /// Whether a missing value is indexed as null.
    pub(super) absent: bool,
}

/// A field of an inverted index, in the form that the planner reads.
#[derive(Clone, Debug)]
pub(crate) struct IndexField {
    /// The field's path, without `[*]`.
    pub(crate) path: Vec<String>,
    /// The field's analyzer.
    pub(crate) analysis: Arc<Analysis>,
    /// Whether all subattributes of the field are indexed.
    pub(crate) include_all: bool,
    /// Whether items of lists are indexed as values.
    pub(crate) search: bool,
    /// Whether only the items of a list are indexed (`[*]`).
    pub(crate) expanded: bool,
}

impl Level {
    /// Compiles the outermost level of a link, with all inner levels. Returns error 9 for a link
    /// that the engine does not support, or error 10 for an illegal link.
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

    /// Compiles all levels of an inverted index. Returns error 10 for an unknown analyzer, or error
    /// 9 for an inverted index that the engine does not support.
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
            // The parent levels keep the setting for lists, because a parent attribute of a search
            // field may also be a list.
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

    /// Returns the listed attributes that a value does not have, with their levels.
    pub(super) fn missing<'a>(
        &'a self,
        value: &'a Value,
    ) -> impl Iterator<Item = (&'a String, &'a Self)> {
        let has = |name: &str| value.as_object().is_some_and(|object| object.get(name).is_some());
        self.fields.iter().filter(move |(name, _)| !has(name))
    }

    /// Returns the level for an attribute, or `None` if the attribute is not indexed.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        // An attribute that is not listed has the settings and listed attributes of this level.
        self.fields.get(name).or_else(|| self.include_all.then_some(self))
    }
}

/// Returns the fields of an inverted index. If the index includes all fields, the last returned
/// field has an empty path and represents all fields.
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

/// Returns the analyzer for one level of a link's fields, with the features that the level sets. A
/// level without an analyzer has the analyzer of the outer level.
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
