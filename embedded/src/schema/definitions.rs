//! Databases, collections, indexes, views, analyzers and graphs as values.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compat::Release;
use crate::value::{Object, Value};

/// One database as the catalog knew it at one moment; a query plans against such a value.
#[derive(Clone, Debug, Default)]
pub struct Database {
    /// Number of the database, stable for its life.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// `options` of its creation (sharding and friends), echoed.
    pub options: Value,
    /// The release whose rules its queries follow; the engine's, not stored.
    pub release: Release,
    /// Collections by name.
    pub collections: BTreeMap<String, Arc<Collection>>,
    /// Views by name; they share the namespace of the collections.
    pub views: BTreeMap<String, Arc<View>>,
    /// User-made analyzers by plain name.
    pub analyzers: BTreeMap<String, Arc<Analyzer>>,
    /// Named graphs by name.
    pub graphs: BTreeMap<String, Arc<Graph>>,
}

/// `type` of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionKind {
    /// 2
    Document,
    /// 3; each document has `_from` and `_to`.
    Edge,
}

/// A collection and its indexes.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Number of the collection, stable over a rename.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Documents or edges.
    pub kind: CollectionKind,
    /// Whether its name may begin with `_`.
    pub is_system: bool,
    /// Whether each write waits for the disk even if the request does not ask.
    pub wait_for_sync: bool,
    /// How keys are made.
    pub key_options: KeyOptions,
    /// JSON Schema check of its documents.
    pub validation: Option<Validation>,
    /// `computedValues` as given; null if there are none.
    pub computed_values: Value,
    /// `cacheEnabled`, echoed.
    pub cache_enabled: bool,
    /// How it is spread over a cluster; None on a single server.
    pub sharding: Option<Sharding>,
    /// Indexes; the first is always the primary one, the second of an edge collection the edge index.
    pub indexes: Vec<Arc<Index>>,
}

impl Collection {
    /// What is made where nothing but name and kind is given: no number and no indexes yet.
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

/// How a coordinator says that a collection is spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// `numberOfShards`
    pub shards: u32,
    /// `shardKeys`, with `:` where only a part of a value counts.
    pub keys: Vec<String>,
    /// `replicationFactor`
    pub replication_factor: u32,
    /// `writeConcern`
    pub write_concern: u32,
    /// `distributeShardsLike`
    pub like: Option<String>,
}

impl Sharding {
    /// Whether a document may not bring its own key: its shard does not follow from it (1466).
    pub fn forbids_own_keys(&self) -> bool {
        self.shards > 1 && self.keys != ["_key"]
    }

    /// Whether a document would lie in another shard (1469); a missing attribute is null.
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
    /// How missing keys are made.
    pub generator: KeyGenerator,
    /// Whether a document may bring its own key (else 1222).
    pub allow_user_keys: bool,
    /// Step of `autoincrement`.
    pub increment: u64,
    /// First value of `autoincrement`.
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
    /// Growing decimal numbers, shared by the server.
    Traditional,
    /// Growing decimal numbers of this collection.
    Autoincrement,
    /// Sixteen hex digits that sort.
    Padded,
    /// Random.
    Uuid,
}

/// `schema` of a collection.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The JSON Schema (draft 4).
    pub rule: Value,
    /// When it is applied.
    pub level: ValidationLevel,
    /// Text of error 1620.
    pub message: String,
}

/// `schema.level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationLevel {
    /// Never.
    None,
    /// Inserts.
    New,
    /// Inserts, and changes of documents that were valid.
    Moderate,
    /// Every write.
    Strict,
}

impl ValidationLevel {
    /// ArangoDB's word for it.
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
    /// Number; `0` is the primary index, `1` the edge index of an edge collection (`C/<id>` outside).
    pub id: u64,
    /// Its name (`idx_<number>` by default).
    pub name: String,
    /// What it is.
    pub kind: IndexKind,
    /// Attribute paths, split at dots; empty for kinds that keep theirs in `definition`.
    pub fields: Vec<Vec<String>>,
    /// Whether two documents may not share a key.
    pub unique: bool,
    /// Whether documents with a missing or null field stay out.
    pub sparse: bool,
    /// The definition as it is answered (without `id`, `isNewlyCreated`, `error`, `code`).
    pub definition: Value,
}

impl Index {
    /// Whether it is an inverted index.
    pub fn is_inverted(&self) -> bool {
        matches!(&self.kind, IndexKind::DefinitionOnly(kind) if kind == "inverted")
    }
}

/// `type` of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// By `_key`.
    Primary,
    /// By `_from` and by `_to`.
    Edge,
    /// Sorted by its fields.
    Persistent,
    /// Sorted by its one field; documents expire.
    Ttl,
    /// Vectors of one field in cells around trained centroids.
    Vector(VectorParams),
    /// Any other type, by name: kept and listed, used by no query.
    DefinitionOnly(String),
}

/// `params` of a vector index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorParams {
    /// What near means.
    pub metric: Metric,
    /// Components of each vector.
    pub dimension: u32,
    /// `nLists`: cells if the number is fixed, the fewest if it scales; so many vectors a training needs.
    pub lists: u32,
    /// How the number of cells grows with the number of vectors, if it does.
    pub scaling: Option<Arc<Scaling>>,
    /// `factory` as it was given.
    pub factory: Option<Arc<str>>,
    /// `defaultNProbe`: cells that a query looks into if it does not say.
    pub default_probes: u32,
    /// `trainingIterations`: rounds of k-means.
    pub training_rounds: u32,
    /// `numberOfDocsPerCentroid`: vectors of the training sample for each cell.
    pub documents_per_list: u32,
}

impl VectorParams {
    /// ArangoDB's defaults for an `l2` index of one dimension with this many cells.
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

/// `nLists` as an object: its `strategy` is always `autoSqrt`, its `minNLists` is [`VectorParams::lists`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// Factor of the square root of the number of vectors.
    pub multiplier: u32,
    /// Numbers of vectors from which on a number of cells is fixed; the highest that is reached counts.
    pub tiers: Vec<(u64, u32)>,
}

impl VectorParams {
    /// How many cells an index over so many vectors gets.
    pub fn lists_for(&self, vectors: u64) -> u32 {
        let Some(scaling) = &self.scaling else { return self.lists };
        let reached = scaling.tiers.iter().filter(|(threshold, _)| *threshold <= vectors);
        match reached.max_by_key(|(threshold, _)| *threshold) {
            Some((_, lists)) => *lists,
            None => {
                let scaled = f64::from(scaling.multiplier) * (vectors as f64).sqrt();
                // A number above u32 ends at its greatest, which no training accepts.
                self.lists.max(scaled as u32)
            }
        }
    }
}

/// `metric` of a vector index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Cosine of the angle; more is nearer.
    Cosine,
    /// Distance; less is nearer.
    L2,
    /// Product; more is nearer.
    InnerProduct,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cosine, Self::L2, Self::InnerProduct];

    /// Its name in `params`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::L2 => "l2",
            Self::InnerProduct => "innerProduct",
        }
    }

    /// The function that searches by it.
    pub fn function(self) -> &'static str {
        match self {
            Self::Cosine => "APPROX_NEAR_COSINE",
            Self::L2 => "APPROX_NEAR_L2",
            Self::InnerProduct => "APPROX_NEAR_INNER_PRODUCT",
        }
    }

    /// Whether the nearest comes first in a descending sort.
    pub fn is_descending(self) -> bool {
        self != Self::L2
    }
}

/// A view as it was defined.
#[derive(Clone, Debug)]
pub struct View {
    /// Number of the view.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// `arangosearch` or `search-alias`.
    pub kind: String,
    /// Its properties with all defaults filled in.
    pub properties: Value,
}

impl View {
    /// Names of the collections of which it holds documents.
    pub fn linked(&self) -> Vec<String> {
        let links = self.properties.attribute("links");
        links
            .as_object()
            .into_iter()
            .flat_map(Object::iter)
            .map(|(name, _)| name.to_string())
            .collect()
    }

    /// The inverted indexes that a `search-alias` view draws from, as names of collection and index.
    pub fn indexes(&self) -> Vec<(String, String)> {
        let list = self.properties.attribute("indexes");
        let entry = |entry: &Value| {
            Some((entry.text_of("collection")?.to_owned(), entry.text_of("index")?.to_owned()))
        };
        list.as_array().unwrap_or_default().iter().filter_map(entry).collect()
    }

    /// Whether it holds documents of a collection.
    pub fn holds(&self, collection: &str) -> bool {
        let links = self.properties.attribute("links");
        links.as_object().is_some_and(|links| links.get(collection).is_some())
    }
}

/// An analyzer as it was defined.
#[derive(Clone, Debug)]
pub struct Analyzer {
    /// Plain name, without the database prefix.
    pub name: String,
    /// `text`, `identity`, ….
    pub kind: String,
    /// `properties`, with defaults.
    pub properties: Value,
    /// `features`.
    pub features: Vec<String>,
}

/// A named graph.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// `_rev` of its definition.
    pub rev: String,
    /// Edge definitions.
    pub edge_definitions: Vec<EdgeDefinition>,
    /// Vertex collections without an edge definition.
    pub orphan_collections: Vec<String>,
}

/// Which vertex collections an edge collection joins.
#[derive(Clone, Debug)]
pub struct EdgeDefinition {
    /// The edge collection.
    pub collection: String,
    /// Where its edges may start.
    pub from: Vec<String>,
    /// Where they may end.
    pub to: Vec<String>,
}
