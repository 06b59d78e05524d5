//! The compiled definitions of views and inverted indexes, which say what is indexed. Each link has
//! a digest of its settings. A link has changed if its digest differs from the digest that was
//! stored when the link was indexed.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::analyzer;
use super::link::Level;
use crate::encode::encode_ordered;
use crate::error::Result;
use crate::schema::{Collection, Database, Index, View};
use crate::value::{Object, Value};

/// Version of the segment format; after a change of the version, all views are built again.
const SEGMENTS_VERSION: &str = "3";

/// The definition of a searchable view or inverted index.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    /// The id of the view or inverted index.
    pub(crate) view: u64,
    /// The name of the view, or `collection/index` of an inverted index.
    pub(crate) name: String,
    /// The links, one for each collection.
    pub(super) links: Vec<Link>,
}

/// A view's link to one collection.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The linked collection.
    pub(super) collection: Arc<Collection>,
    /// The settings of the link's outermost level.
    pub(super) level: Level,
    /// Digest of all settings of the link that affect the content of the segments.
    pub(super) digest: String,
}

/// Returns the definitions of a database's views and inverted indexes. If a definition cannot be
/// compiled, for example after an analyzer was dropped, the view is empty and a warning is logged.
pub(crate) fn definitions(database: &Database) -> Vec<Definition> {
    let views = database.views.values().filter(|view| view.kind == "arangosearch");
    let definition = |view: &Arc<View>| {
        check(database, view).unwrap_or_else(|error| {
            tracing::warn!(
                view = view.name,
                %error,
                "a view is empty, because its definition cannot be compiled"
            );
            Definition { view: view.id, name: view.name.clone(), links: Vec::new() }
        })
    };
    let inverted = database.collections.values().flat_map(|collection| {
        let own = collection.indexes.iter().filter(|index| index.is_inverted());
        own.map(move |index| (collection, index))
    });
    let of_index = |(collection, index): (&Arc<Collection>, &Arc<Index>)| {
        check_index(database, collection, index).unwrap_or_else(|error| {
            tracing::warn!(
                index = index.name,
                %error,
                "an inverted index is empty, because its definition cannot be compiled"
            );
            Definition { view: index.id, name: index.name.clone(), links: Vec::new() }
        })
    };
    views.map(definition).chain(inverted.map(of_index)).collect()
}

/// Compiles the definition of an inverted index. Returns error 10 for an illegal definition, or
/// error 9 for a definition that the engine does not support.
pub(crate) fn check_index(
    database: &Database,
    collection: &Arc<Collection>,
    index: &Index,
) -> Result<Definition> {
    let level = Level::of_index(database, &index.definition)?;
    let digest = digest(database, "", &index.definition)?;
    let link = Link { collection: collection.clone(), level, digest };
    let name = format!("{}/{}", collection.name, index.name);
    Ok(Definition { view: index.id, name, links: vec![link] })
}

/// Compiles the definition of a view. Returns error 10 for an illegal definition, or error 9 for a
/// definition that the engine does not support.
pub(crate) fn check(database: &Database, view: &View) -> Result<Definition> {
    let links = view.properties.attribute("links");
    let mut found = Vec::new();
    for (name, link) in links.as_object().into_iter().flat_map(Object::iter) {
        // A link without its collection is skipped; when a collection is dropped or renamed, the
        // catalog changes its links.
        let Some(collection) = database.collections.get(&**name) else { continue };
        let level = Level::of_link(database, link)?;
        let digest = digest(database, &collection.name, link)?;
        found.push(Link { collection: collection.clone(), level, digest });
    }
    Ok(Definition { view: view.id, name: view.name.clone(), links: found })
}

fn digest(database: &Database, collection: &str, link: &Value) -> Result<String> {
    let mut bytes = Vec::new();
    encode_ordered(&SEGMENTS_VERSION.into(), &mut bytes);
    encode_ordered(&collection.into(), &mut bytes);
    encode_ordered(link, &mut bytes);
    for name in analyzer_names(link) {
        let analyzer = analyzer::definition(database, &name)?;
        encode_ordered(&analyzer.kind.as_str().into(), &mut bytes);
        encode_ordered(&analyzer.properties, &mut bytes);
        for feature in &analyzer.features {
            encode_ordered(&feature.as_str().into(), &mut bytes);
        }
    }
    Ok(format!("{:032x}", xxh3_128(&bytes)))
}

/// Returns the names of the analyzers at all levels of a link, in the order of the definition.
fn analyzer_names(level: &Value) -> Vec<String> {
    let Some(object) = level.as_object() else { return Vec::new() };
    let own = object.get("analyzers").and_then(Value::as_array).unwrap_or_default();
    let one = object.get("analyzer").into_iter();
    let own = own.iter().chain(one).filter_map(Value::as_str).map(str::to_owned);
    let mut out: Vec<String> = own.collect();
    match object.get("fields") {
        Some(Value::Object(fields)) => {
            out.extend(fields.iter().flat_map(|(_, field)| analyzer_names(field)))
        }
        Some(Value::Array(fields)) => out.extend(fields.iter().flat_map(analyzer_names)),
        _ => {}
    }
    out
}
