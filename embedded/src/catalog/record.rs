//! Converts definitions to stored values and back.

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::schema::{
    Analyzer, Collection, CollectionKind, Database, EdgeDefinition, Graph, Index, IndexKind,
    KeyGenerator, KeyOptions, Metric, Scaling, Sharding, Validation, ValidationLevel, VectorParams,
    View,
};
use crate::value::{Object, Value};

fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::object(entries.into_iter().map(|(name, value)| (Arc::from(name), value)).collect())
}

fn damaged(what: &str) -> Error {
    Error::new(Code::Internal, format!("a stored definition is damaged: {what}"))
}

fn text(value: &Value, name: &str) -> Result<String> {
    value.text_of(name).map(str::to_owned).ok_or_else(|| damaged(name))
}

fn number(value: &Value, name: &str) -> Result<u64> {
    match value.attribute(name) {
        Value::Int(number) => u64::try_from(number).map_err(|_| damaged(name)),
        Value::UInt(number) => Ok(number),
        _ => Err(damaged(name)),
    }
}

fn flag(value: &Value, name: &str) -> Result<bool> {
    match value.attribute(name) {
        Value::Bool(flag) => Ok(flag),
        _ => Err(damaged(name)),
    }
}

fn texts(value: &Value, name: &str) -> Result<Vec<String>> {
    let value = value.attribute(name);
    let items = value.as_array().ok_or_else(|| damaged(name))?;
    items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(|| damaged(name))).collect()
}

fn from_texts(texts: &[String]) -> Value {
    texts.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>().into()
}

/// The stored record of a database, without its collections and other contents.
pub(super) fn of_database(database: &Database) -> Value {
    object([
        ("id", database.id.into()),
        ("name", database.name.as_str().into()),
        ("options", database.options.clone()),
    ])
}

/// Decodes a record that `of_database` returned.
pub(super) fn to_database(value: &Value) -> Result<Database> {
    Ok(Database {
        id: number(value, "id")?,
        name: text(value, "name")?,
        options: value.attribute("options"),
        ..Database::default()
    })
}

/// The stored record of a collection with its indexes.
pub(super) fn of_collection(collection: &Collection) -> Value {
    let keys = &collection.key_options;
    let generator = match keys.generator {
        KeyGenerator::Traditional => "traditional",
        KeyGenerator::Autoincrement => "autoincrement",
        KeyGenerator::Padded => "padded",
        KeyGenerator::Uuid => "uuid",
    };
    object([
        ("id", collection.id.into()),
        ("name", collection.name.as_str().into()),
        ("edge", (collection.kind == CollectionKind::Edge).into()),
        ("isSystem", collection.is_system.into()),
        ("waitForSync", collection.wait_for_sync.into()),
        ("generator", generator.into()),
        ("allowUserKeys", keys.allow_user_keys.into()),
        ("increment", keys.increment.into()),
        ("offset", keys.offset.into()),
        ("validation", collection.validation.as_ref().map_or(Value::Null, of_validation)),
        ("computedValues", collection.computed_values.clone()),
        ("cacheEnabled", collection.cache_enabled.into()),
        ("sharding", collection.sharding.as_ref().map_or(Value::Null, of_sharding)),
        (
            "indexes",
            collection.indexes.iter().map(|index| of_index(index)).collect::<Vec<_>>().into(),
        ),
    ])
}

/// Decodes a record that `of_collection` returned.
pub(super) fn to_collection(value: &Value) -> Result<Collection> {
    let generator = match text(value, "generator")?.as_str() {
        "traditional" => KeyGenerator::Traditional,
        "autoincrement" => KeyGenerator::Autoincrement,
        "padded" => KeyGenerator::Padded,
        "uuid" => KeyGenerator::Uuid,
        other => return Err(damaged(other)),
    };
    let key_options = KeyOptions {
        generator,
        allow_user_keys: flag(value, "allowUserKeys")?,
        increment: number(value, "increment")?,
        offset: number(value, "offset")?,
    };
    let validation = value.attribute("validation");
    let indexes = value.attribute("indexes");
    let indexes = indexes.as_array().ok_or_else(|| damaged("indexes"))?;
    Ok(Collection {
        id: number(value, "id")?,
        name: text(value, "name")?,
        kind: if flag(value, "edge")? { CollectionKind::Edge } else { CollectionKind::Document },
        is_system: flag(value, "isSystem")?,
        wait_for_sync: flag(value, "waitForSync")?,
        key_options,
        validation: if validation.is_null() { None } else { Some(to_validation(&validation)?) },
        computed_values: value.attribute("computedValues"),
        cache_enabled: flag(value, "cacheEnabled")?,
        sharding: to_sharding(&value.attribute("sharding"))?,
        indexes: indexes
            .iter()
            .map(|index| to_index(index).map(Arc::new))
            .collect::<Result<_>>()?,
    })
}

fn of_sharding(sharding: &Sharding) -> Value {
    object([
        ("shards", u64::from(sharding.shards).into()),
        ("keys", from_texts(&sharding.keys)),
        ("replicationFactor", u64::from(sharding.replication_factor).into()),
        ("writeConcern", u64::from(sharding.write_concern).into()),
        ("like", sharding.like.as_deref().map_or(Value::Null, Value::from)),
    ])
}

fn to_sharding(value: &Value) -> Result<Option<Sharding>> {
    if value.is_null() {
        return Ok(None);
    }
    let small = |name| u32::try_from(number(value, name)?).map_err(|_| damaged(name));
    Ok(Some(Sharding {
        shards: small("shards")?,
        keys: texts(value, "keys")?,
        replication_factor: small("replicationFactor")?,
        write_concern: small("writeConcern")?,
        like: value.text_of("like").map(str::to_owned),
    }))
}

fn of_validation(validation: &Validation) -> Value {
    let level = validation.level.name();
    object([
        ("rule", validation.rule.clone()),
        ("level", level.into()),
        ("message", validation.message.as_str().into()),
    ])
}

fn to_validation(value: &Value) -> Result<Validation> {
    let level = match text(value, "level")?.as_str() {
        "none" => ValidationLevel::None,
        "new" => ValidationLevel::New,
        "moderate" => ValidationLevel::Moderate,
        "strict" => ValidationLevel::Strict,
        other => return Err(damaged(other)),
    };
    Ok(Validation { rule: value.attribute("rule"), level, message: text(value, "message")? })
}

fn of_index(index: &Index) -> Value {
    let kind = match &index.kind {
        IndexKind::Primary => "primary",
        IndexKind::Edge => "edge",
        IndexKind::Persistent => "persistent",
        IndexKind::Ttl => "ttl",
        IndexKind::Vector(_) => "vector",
        IndexKind::DefinitionOnly(_) => "definition",
    };
    let params = match &index.kind {
        IndexKind::Vector(params) => of_vector_params(params),
        _ => Value::Null,
    };
    let other = match &index.kind {
        IndexKind::DefinitionOnly(kind) => kind.as_str().into(),
        _ => Value::Null,
    };
    object([
        ("id", index.id.into()),
        ("name", index.name.as_str().into()),
        ("kind", kind.into()),
        ("other", other),
        ("params", params),
        ("fields", index.fields.iter().map(|path| from_texts(path)).collect::<Vec<_>>().into()),
        ("unique", index.unique.into()),
        ("sparse", index.sparse.into()),
        ("definition", index.definition.clone()),
    ])
}

fn to_index(value: &Value) -> Result<Index> {
    let kind = match text(value, "kind")?.as_str() {
        "primary" => IndexKind::Primary,
        "edge" => IndexKind::Edge,
        "persistent" => IndexKind::Persistent,
        "ttl" => IndexKind::Ttl,
        "vector" => IndexKind::Vector(to_vector_params(&value.attribute("params"))?),
        "definition" => IndexKind::DefinitionOnly(text(value, "other")?),
        other => return Err(damaged(other)),
    };
    let fields = value.attribute("fields");
    let fields = fields.as_array().ok_or_else(|| damaged("fields"))?;
    let path = |path: &Value| texts(&object([("path", path.clone())]), "path");
    Ok(Index {
        id: number(value, "id")?,
        name: text(value, "name")?,
        kind,
        fields: fields.iter().map(path).collect::<Result<_>>()?,
        unique: flag(value, "unique")?,
        sparse: flag(value, "sparse")?,
        definition: value.attribute("definition"),
    })
}

fn of_vector_params(params: &VectorParams) -> Value {
    let tier = |(threshold, lists): &(u64, u32)| {
        object([("threshold", (*threshold).into()), ("lists", u64::from(*lists).into())])
    };
    let scaling = params.scaling.as_ref().map_or(Value::Null, |scaling| {
        let tiers: Vec<Value> = scaling.tiers.iter().map(tier).collect();
        object([("multiplier", u64::from(scaling.multiplier).into()), ("tiers", tiers.into())])
    });
    object([
        ("metric", params.metric.name().into()),
        ("dimension", u64::from(params.dimension).into()),
        ("lists", u64::from(params.lists).into()),
        ("defaultProbes", u64::from(params.default_probes).into()),
        ("trainingRounds", u64::from(params.training_rounds).into()),
        ("documentsPerList", u64::from(params.documents_per_list).into()),
        ("scaling", scaling),
        ("factory", params.factory.as_deref().map_or(Value::Null, Value::from)),
    ])
}

fn to_vector_params(params: &Value) -> Result<VectorParams> {
    let metric = text(params, "metric")?;
    let metric = Metric::ALL.into_iter().find(|known| known.name() == metric);
    let small =
        |value: &Value, name| u32::try_from(number(value, name)?).map_err(|_| damaged(name));
    let whole = |name| small(params, name);
    let scaling = params.attribute("scaling");
    let tiers = scaling.attribute("tiers");
    let tiers = tiers.as_array().unwrap_or_default().iter();
    let tiers = tiers.map(|tier| Ok((number(tier, "threshold")?, small(tier, "lists")?)));
    let tiers = tiers.collect::<Result<Vec<_>>>()?;
    let scaling = match &scaling {
        Value::Null => None,
        given => Some(Arc::new(Scaling { multiplier: small(given, "multiplier")?, tiers })),
    };
    Ok(VectorParams {
        scaling,
        factory: params.text_of("factory").map(Arc::from),
        metric: metric.ok_or_else(|| damaged("metric"))?,
        dimension: whole("dimension")?,
        lists: whole("lists")?,
        default_probes: whole("defaultProbes")?,
        training_rounds: whole("trainingRounds")?,
        documents_per_list: whole("documentsPerList")?,
    })
}

/// The stored record of a view.
pub(super) fn of_view(view: &View) -> Value {
    object([
        ("id", view.id.into()),
        ("name", view.name.as_str().into()),
        ("kind", view.kind.as_str().into()),
        ("properties", view.properties.clone()),
    ])
}

/// Decodes a record that `of_view` returned.
pub(super) fn to_view(value: &Value) -> Result<View> {
    Ok(View {
        id: number(value, "id")?,
        name: text(value, "name")?,
        kind: text(value, "kind")?,
        properties: value.attribute("properties"),
    })
}

/// The stored record of an analyzer.
pub(super) fn of_analyzer(analyzer: &Analyzer) -> Value {
    object([
        ("name", analyzer.name.as_str().into()),
        ("kind", analyzer.kind.as_str().into()),
        ("properties", analyzer.properties.clone()),
        ("features", from_texts(&analyzer.features)),
    ])
}

/// Decodes a record that `of_analyzer` returned.
pub(super) fn to_analyzer(value: &Value) -> Result<Analyzer> {
    Ok(Analyzer {
        name: text(value, "name")?,
        kind: text(value, "kind")?,
        properties: value.attribute("properties"),
        features: texts(value, "features")?,
    })
}

/// The stored record of a named graph.
pub(super) fn of_graph(graph: &Graph) -> Value {
    let definition = |edge: &EdgeDefinition| {
        object([
            ("collection", edge.collection.as_str().into()),
            ("from", from_texts(&edge.from)),
            ("to", from_texts(&edge.to)),
        ])
    };
    object([
        ("name", graph.name.as_str().into()),
        ("rev", graph.rev.as_str().into()),
        (
            "edgeDefinitions",
            graph.edge_definitions.iter().map(definition).collect::<Vec<_>>().into(),
        ),
        ("orphanCollections", from_texts(&graph.orphan_collections)),
    ])
}

/// Decodes a record that `of_graph` returned.
pub(super) fn to_graph(value: &Value) -> Result<Graph> {
    let definition = |value: &Value| -> Result<EdgeDefinition> {
        Ok(EdgeDefinition {
            collection: text(value, "collection")?,
            from: texts(value, "from")?,
            to: texts(value, "to")?,
        })
    };
    let definitions = value.attribute("edgeDefinitions");
    let definitions = definitions.as_array().ok_or_else(|| damaged("edgeDefinitions"))?;
    Ok(Graph {
        name: text(value, "name")?,
        rev: text(value, "rev")?,
        edge_definitions: definitions.iter().map(definition).collect::<Result<_>>()?,
        orphan_collections: texts(value, "orphanCollections")?,
    })
}

/// The options of a database created without options: an empty object.
pub(super) fn no_options() -> Value {
    Value::object(Object::new())
}
