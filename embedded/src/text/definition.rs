//! A view as its segments need it: its links, each with a digest that says whether they still hold.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::analyzer;
use super::link::Level;
use crate::encode::encode_ordered;
use crate::error::Result;
use crate::schema::{Collection, Database, View};
use crate::value::{Object, Value};

/// Version of what segments hold; another number has all views built again.
const SEGMENTS_VERSION: &str = "1";

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
    views.map(definition).collect()
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
    let mut out: Vec<String> = own.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let fields = object.get("fields").and_then(Value::as_object);
    for (_, field) in fields.into_iter().flat_map(Object::iter) {
        out.extend(named(field));
    }
    out
}
