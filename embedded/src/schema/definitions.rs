//! Definitions of databases, collections, indexes, views, analyzers and graphs, as plain data
//! types.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compat::Release;
use crate::value::{Object, Value};

/// An immutable version of a database's definition, which the planner reads.
#[derive(Clone, Debug, Default)]
pub struct Database {
    /// Id of the database, which never changes.
    pub id: u64,
    /// The name of the database.
    pub name: String,
    /// The `options` with which the database was created (such as sharding), returned unchanged.
    pub options: Value,
    /// The ArangoDB release that the database's queries emulate, taken from the engine's options.
    pub release: Release,
    /// Collections by name.
    pub collections: BTreeMap<String, Arc<Collection>>,
    /// Views by name; views and collections share one namespace.
    pub views: BTreeMap<String, Arc<View>>,
    /// User-defined analyzers by name without the database prefix.
    pub analyzers: BTreeMap<String, Arc<Analyzer>>,
    /// Named graphs by name.
    pub graphs: BTreeMap<String, Arc<Graph>>,
}

/// `type` of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionKind {
    /// A document collection (type 2).
    Document,
    /// An edge collection (type 3), in which each document has `_from` and `_to`.
    Edge,
}

/// A collection and its indexes.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Id of the collection, which a rename does not change.
    pub id: u64,
    /// The name of the collection.
    pub name: String,
    /// Whether the collection contains documents or edges.
    pub kind: CollectionKind,
    /// Whether the collection is a system collection, whose name may begin with `_`.
    pub is_system: bool,
    /// Whether every write waits for the sync to disk.
    pub wait_for_sync: bool,
    /// How missing keys are generated, and whether users may choose keys.
    pub key_options: KeyOptions,
    /// The JSON Schema of the collection's documents.
    pub validation: Option<Validation>,
    /// `computedValues` as defined; null without computed values.
    pub computed_values: Value,
    /// `cacheEnabled`, returned unchanged.
    pub cache_enabled: bool,
    /// The collection's sharding in a cluster; `None` on a single server.
    pub sharding: Option<Sharding>,
    /// The collection's indexes: the primary index first, then the edge index of an edge
    /// collection.
    pub indexes: Vec<Arc<Index>>,
}

impl Collection {
    /// Creates a collection with default properties, without an id or indexes.
    pub fn new(name: &str, kind: CollectionKind) -> Self {
        Self {
            id: 0,
            name: name.to_owned(),
            kind,
            is_system: false,
            wait_for_sync: false,
            key_options: KeyOptions::default(),
            validation: None,
            computed_values: Value::Null,
            cache_enabled: false,
            sharding: None,
            indexes: Vec::new(),
        }
    }
}

/// The sharding of a collection on a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// `numberOfShards`
    pub shards: u32,
    /// `shardKeys`; a shard key with `:` at its beginning or end uses only a part of the
    /// attribute's value.
    pub keys: Vec<String>,
    /// `replicationFactor`
    pub replication_factor: u32,
    /// `writeConcern`
    pub write_concern: u32,
    /// `distributeShardsLike`
    pub like: Option<String>,
}

impl Sharding {
    /// Whether users may not choose document keys (error 1466), because the collection has several
    /// shards and `_key` is not the only shard key.
    pub fn forbids_own_keys(&self) -> bool {
        self.shards > 1 && self.keys != ["_key"]
    }

    /// Whether a change would move a document to another shard; such a change is refused with error
    /// 1469. A missing attribute counts as null.
    pub fn differs(&self, old: &Value, new: &Object) -> bool {
        let new = Value::object(new.clone());
        self.keys.iter().filter(|key| *key != "_key").any(|key| {
            let path = key.trim_matches(':').split('.');
            let at = |value: &Value| path.clone().fold(value.clone(), |v, name| v.attribute(name));
            !crate::value::equal(&at(old), &at(&new))
        })
    }
}

/// `keyOptions` of a collection.
#[derive(Clone, Debug)]
pub struct KeyOptions {
    /// How the keys of documents without a given key are generated.
    pub generator: KeyGenerator,
    /// Whether users may choose document keys (otherwise error 1222).
    pub allow_user_keys: bool,
    /// Step of the `autoincrement` generator.
    pub increment: u64,
    /// Offset of the `autoincrement` generator, its first value.
    pub offset: u64,
}

impl Default for KeyOptions {
    fn default() -> Self {
        Self {
            generator: KeyGenerator::Traditional,
            allow_user_keys: true,
            increment: 1,
            offset: 0,
        }
    }
}

/// `keyOptions.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyGenerator {
    /// The traditional key generator: increasing decimal numbers from one sequence for all
    /// collections of the engine.
    Traditional,
    /// The autoincrement key generator: increasing decimal numbers from a separate sequence for
    /// each collection.
    Autoincrement,
    /// The padded key generator: sixteen hex digits in ascending order.
    Padded,
    /// The UUID key generator: random UUIDs.
    Uuid,
}

/// `schema` of a collection.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The JSON Schema (draft 4).
    pub rule: Value,
    /// The kinds of writes to which the JSON Schema applies.
    pub level: ValidationLevel,
    /// Message of error 1620, which refuses an invalid document.
    pub message: String,
}

/// `schema.level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationLevel {
    /// The JSON Schema applies to no writes.
    None,
    /// The JSON Schema applies to inserts.
    New,
    /// The JSON Schema applies to inserts, and to updates of documents that were valid before the
    /// update.
    Moderate,
    /// The JSON Schema applies to all writes.
    Strict,
}

impl ValidationLevel {
    /// Returns ArangoDB's name of the validation level.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::New => "new",
            Self::Moderate => "moderate",
            Self::Strict => "strict",
        }
    }
}

/// An index of a collection.
#[derive(Clone, Debug)]
pub struct Index {
    /// Id of the index (`<collection>/<id>` in answers); `0` is the primary index, `1` the edge
    /// index of an edge collection.
    pub id: u64,
    /// Name of the index (`idx_<number>` by default).
    pub name: String,
    /// The type of the index.
    pub kind: IndexKind,
    /// The indexed attribute paths, split at dots. Empty for types whose fields are only in
    /// `definition`.
    pub fields: Vec<Vec<String>>,
    /// Whether the index is a unique index.
    pub unique: bool,
    /// Whether the index omits documents with a missing or null field.
    pub sparse: bool,
    /// The index's definition as returned to clients, without `id`, `isNewlyCreated`, `error` and
    /// `code`.
    pub definition: Value,
}

impl Index {
    /// Whether the index is an inverted index.
    pub fn is_inverted(&self) -> bool {
        matches!(&self.kind, IndexKind::DefinitionOnly(kind) if kind == "inverted")
    }
}

/// `type` of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// The primary index on `_key`.
    Primary,
    /// The edge index on `_from` and on `_to`.
    Edge,
    /// A persistent index, sorted by the index's fields.
    Persistent,
    /// A TTL index, sorted by the field that determines when a document expires.
    Ttl,
    /// A vector index, which keeps the vectors of one field in lists around trained centroids.
    Vector(VectorParams),
    /// Any other type, with its name. Such an index is stored and listed, but it has no entries in
    /// the index space.
    DefinitionOnly(String),
}

/// `params` of a vector index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorParams {
    /// The metric of similarity or distance.
    pub metric: Metric,
    /// Number of components of each vector.
    pub dimension: u32,
    /// `nLists`: the fixed number of the index's lists, or the minimum if the number grows with the
    /// data. Training needs at least this number of vectors.
    pub lists: u32,
    /// How the number of lists grows with the number of vectors; `None` for a fixed number of
    /// lists.
    pub scaling: Option<Arc<Scaling>>,
    /// `factory` as defined.
    pub factory: Option<Arc<str>>,
    /// `defaultNProbe`: number of lists that a query reads by default.
    pub default_probes: u32,
    /// `trainingIterations`: number of rounds of k-means.
    pub training_rounds: u32,
    /// `numberOfDocsPerCentroid`: number of training vectors per list.
    pub documents_per_list: u32,
}

impl VectorParams {
    /// Returns the parameters of an `l2` index with the dimension 1 and the given number of lists.
    /// All other parameters have ArangoDB's default values.
    pub fn of_cells(lists: u32) -> Self {
        Self {
            metric: Metric::L2,
            dimension: 1,
            lists,
            scaling: None,
            factory: None,
            default_probes: 1,
            training_rounds: 25,
            documents_per_list: 100,
        }
    }
}

/// `nLists` in its object form. `strategy` is always `autoSqrt`, and `minNLists` is
/// [`VectorParams::lists`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// Factor that is multiplied with the square root of the number of vectors to give the number
    /// of lists.
    pub multiplier: u32,
    /// Tiers: pairs of a minimum number of vectors, and the number of lists from this minimum on.
    /// The tier with the highest reached minimum applies.
    pub tiers: Vec<(u64, u32)>,
}

impl VectorParams {
    /// Returns the number of lists for a given number of vectors.
    pub fn lists_for(&self, vectors: u64) -> u32 {
        let Some(scaling) = &self.scaling else { return self.lists };
        let reached = scaling.tiers.iter().filter(|(threshold, _)| *threshold <= vectors);
        match reached.max_by_key(|(threshold, _)| *threshold) {
            Some((_, lists)) => *lists,
            None => {
                let scaled = f64::from(scaling.multiplier) * (vectors as f64).sqrt();
                // A number of lists above `u32::MAX` becomes `u32::MAX`, which no training accepts.
                self.lists.max(scaled as u32)
            }
        }
    }
}

/// `metric` of a vector index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The cosine metric; a vector with a larger cosine is nearer.
    Cosine,
    /// The Euclidean metric; a vector with a smaller distance is nearer.
    L2,
    /// The inner product metric; a vector with a larger product is nearer.
    InnerProduct,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 3] = [Self::Cosine, Self::L2, Self::InnerProduct];

    /// Returns the metric's name in `params`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::L2 => "l2",
            Self::InnerProduct => "innerProduct",
        }
    }

    /// Returns the name of the metric's AQL function.
    pub fn function(self) -> &'static str {
        match self {
            Self::Cosine => "APPROX_NEAR_COSINE",
            Self::L2 => "APPROX_NEAR_L2",
            Self::InnerProduct => "APPROX_NEAR_INNER_PRODUCT",
        }
    }

    /// Whether the nearest document comes first in a descending sort.
    pub fn is_descending(self) -> bool {
        self != Self::L2
    }
}

/// The definition of a view.
#[derive(Clone, Debug)]
pub struct View {
    /// Id of the view.
    pub id: u64,
    /// Name of the view.
    pub name: String,
    /// Type of the view: `arangosearch` or `search-alias`.
    pub kind: String,
    /// The view's properties, including default values.
    pub properties: Value,
}

impl View {
    /// Returns the names of the view's linked collections.
    pub fn linked(&self) -> Vec<String> {
        let links = self.properties.attribute("links");
        links
            .as_object()
            .into_iter()
            .flat_map(Object::iter)
            .map(|(name, _)| name.to_string())
            .collect()
    }

    /// Returns the inverted indexes of a `search-alias` view as pairs of collection name and index
    /// name.
    pub fn indexes(&self) -> Vec<(String, String)> {
        let list = self.properties.attribute("indexes");
        let entry = |entry: &Value| {
            Some((entry.text_of("collection")?.to_owned(), entry.text_of("index")?.to_owned()))
        };
        list.as_array().unwrap_or_default().iter().filter_map(entry).collect()
    }

    /// Whether the view has a link to a collection.
    pub fn holds(&self, collection: &str) -> bool {
        let links = self.properties.attribute("links");
        links.as_object().is_some_and(|links| links.get(collection).is_some())
    }
}

/// The definition of an analyzer.
#[derive(Clone, Debug)]
pub struct Analyzer {
    /// The analyzer's name without the database prefix.
    pub name: String,
    /// Type of the analyzer, such as `text` or `identity`.
    pub kind: String,
    /// `properties`, including default values.
    pub properties: Value,
    /// `features` of the analyzer, such as `frequency` and `position`.
    pub features: Vec<String>,
}

/// A named graph.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The name of the graph.
    pub name: String,
    /// `_rev` of the graph's definition, as text.
    pub rev: String,
    /// The edge collections of the graph, with the vertex collections that they connect.
    pub edge_definitions: Vec<EdgeDefinition>,
    /// Vertex collections without an edge definition.
    pub orphan_collections: Vec<String>,
}

/// An edge collection and the vertex collections that it connects.
#[derive(Clone, Debug)]
pub struct EdgeDefinition {
    /// The edge collection.
    pub collection: String,
    /// Vertex collections that contain the start vertices of the edges.
    pub from: Vec<String>,
    /// Vertex collections that contain the end vertices of the edges.
    pub to: Vec<String>,
}
