//! A view as its segments need it: its links, each with a digest that says whether they still hold.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::analyzer;
use super::link::Level;
use crate::encode::encode_ordered;
use crate::error::Result;
use crate::schema::{Collection, Database, Index, View};
use crate::value::{Object, Value};

/// Version of what segments hold; another number has all views built again.
const SEGMENTS_VERSION: &str = "3";

/// A view that can be searched.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    /// Number of the view.
    pub(crate) view: u64,
    /// Its name.
    pub(crate) name: String,
    /// What it holds of which collections.
    pub(super) links: Vec<Link>,
}

/// What a view holds of one collection.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The collection.
    pub(super) collection: Arc<Collection>,
    /// The outermost level.
    pub(super) level: Level,
    /// Changes with everything that changes what segments hold.
    pub(super) digest: String,
}

/// The views of a database. One that cannot be used any more, since its analyzer is gone, holds nothing; the log says so.
pub(crate) fn definitions(database: &Database) -> Vec<Definition> {
    let views = database.views.values().filter(|view| view.kind == "arangosearch");
    let definition = |view: &Arc<View>| {
        check(database, view).unwrap_or_else(|error| {
            tracing::warn!(view = view.name, %error, "a view holds nothing any more");
            Definition { view: view.id, name: view.name.clone(), links: Vec::new() }
        })
    };
    let inverted = database.collections.values().flat_map(|collection| {
        let own = collection.indexes.iter().filter(|index| index.is_inverted());
        own.map(move |index| (collection, index))
    });
    let of_index = |(collection, index): (&Arc<Collection>, &Arc<Index>)| {
        check_index(database, collection, index).unwrap_or_else(|error| {
            tracing::warn!(index = index.name, %error, "an inverted index holds nothing any more");
            Definition { view: index.id, name: index.name.clone(), links: Vec::new() }
        })
    };
    views.map(definition).chain(inverted.map(of_index)).collect()
}

/// An inverted index made ready, or why it cannot be: 10 for nonsense, 501 for what the engine cannot do.
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

/// A view made ready, or why it cannot be: 10 for nonsense, 501 for what the engine cannot do.
pub(crate) fn check(database: &Database, view: &View) -> Result<Definition> {
    let links = view.properties.attribute("links");
    let mut found = Vec::new();
    for (name, link) in links.as_object().into_iter().flat_map(Object::iter) {
        // A link outlives neither its collection nor its name; the catalog sees to both.
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
    for name in named(link) {
        let analyzer = analyzer::definition(database, &name)?;
        encode_ordered(&analyzer.kind.as_str().into(), &mut bytes);
        encode_ordered(&analyzer.properties, &mut bytes);
        for feature in &analyzer.features {
            encode_ordered(&feature.as_str().into(), &mut bytes);
        }
    }
    Ok(format!("{:032x}", xxh3_128(&bytes)))
}

/// The analyzers named at any level, in the order of the text.
fn named(level: &Value) -> Vec<String> {
    let Some(object) = level.as_object() else { return Vec::new() };
    let own = object.get("analyzers").and_then(Value::as_array).unwrap_or_default();
    let one = object.get("analyzer").into_iter();
    let own = own.iter().chain(one).filter_map(Value::as_str).map(str::to_owned);
    let mut out: Vec<String> = own.collect();
    match object.get("fields") {
        Some(Value::Object(fields)) => {
            out.extend(fields.iter().flat_map(|(_, field)| named(field)))
        }
        Some(Value::Array(fields)) => out.extend(fields.iter().flat_map(named)),
        _ => {}
    }
    out
}
