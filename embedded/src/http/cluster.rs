//! Checks and shows the sharding attributes that a coordinator has; they are stored as in a
//! cluster, although all data is in one process.

use crate::error::{Code, Error, Result};
use crate::schema::{Collection, Database, Index, Sharding};
use crate::value::{Object, Value};

use super::auth::Level;
use super::call::Call;
use super::index_body::bad;
use super::limits::{SHARD_KEYS_MAX, SHARDS_MAX};
use super::reply::{Reply, object};

/// Whether the engine emulates a coordinator.
pub(super) fn is_coordinator(call: &Call<'_>) -> bool {
    call.engine().options().role.is_coordinator()
}

/// Returns error 1470 if the engine emulates a coordinator, because clusters do not support the
/// feature `what`.
pub(super) fn need_single(call: &Call<'_>, what: &str) -> Result<()> {
    if is_coordinator(call) {
        return Err(Error::new(
            Code::ClusterUnsupported,
            format!("{what} is not supported in a cluster"),
        ));
    }
    Ok(())
}

/// `GET /_api/cluster/endpoints`: the addresses of the coordinators.
pub(super) fn endpoints(call: &Call<'_>) -> Result<Reply> {
    if !is_coordinator(call) {
        return Err(no_cluster());
    }
    let endpoint = object! { "endpoint" => "unix://localhost" };
    Ok(Reply::ok(200, object! { "endpoints" => vec![endpoint] }))
}

/// `GET /_api/collection/C/shards`
pub(super) fn shards(call: &Call<'_>, name: &str) -> Result<Reply> {
    let collection = &*call.permitted(name, Level::Read)?;
    let number = collection.sharding.as_ref().map_or(1, |sharding| sharding.shards);
    let shards: Vec<Value> = (0..number).map(|at| shard_name(collection, at).into()).collect();
    let mut answer =
        super::collections::brief_of(collection).as_object().cloned().unwrap_or_default();
    answer.insert("shards", shards.into());
    Ok(Reply::ok(200, Value::object(answer)))
}

/// Returns the name of a collection's shard.
pub(super) fn shard_name(collection: &Collection, at: u32) -> String {
    format!("s{}", collection.id + u64::from(at))
}

/// Checks the `options` of a new database; a single server ignores them.
pub(super) fn check_database_options(call: &Call<'_>, options: &Value) -> Result<()> {
    if !is_coordinator(call) {
        return Ok(());
    }
    match options.attribute("sharding") {
        Value::Null => {}
        Value::String(word) if ["", "flexible", "single"].contains(&&*word) => {}
        _ => return Err(bad("'sharding' of a database must be flexible or single")),
    }
    copies(options, 1, 1).map(|_| ())
}

/// Additional properties of a database that a coordinator shows in `GET /_api/database/current`.
pub(super) fn database_properties(database: &Database) -> Value {
    let options = &database.options;
    let number = |name: &str| match options.attribute(name) {
        Value::Null => Value::Int(1),
        given => given,
    };
    object! {
        "sharding" => options.text_of("sharding").unwrap_or_default(),
        "replicationFactor" => number("replicationFactor"),
        "writeConcern" => number("writeConcern"),
    }
}

fn is_one_shard(database: &Database) -> bool {
    database.options.text_of("sharding") == Some("single")
}

/// Reads `replicationFactor` and `writeConcern`; error 10 if `writeConcern` is the larger of the
/// two.
fn copies(body: &Value, factor: u32, concern: u32) -> Result<(u32, u32)> {
    let number = |name: &str, default: u32| match body.attribute(name) {
        Value::Null => Ok(default),
        Value::Int(number) if (1..=10).contains(&number) => Ok(number as u32),
        Value::String(word) if &*word == "satellite" => {
            Err(Error::unsupported("a satellite collection"))
        }
        _ => Err(bad(format!("invalid value for {name}"))),
    };
    let factor = number("replicationFactor", factor)?;
    let concern = number("writeConcern", concern.min(factor))?;
    if concern > factor {
        return Err(bad("writeConcern must not be larger than replicationFactor"));
    }
    Ok((factor, concern))
}

/// Determines the sharding of a new collection from the request's body and the database's options;
/// `None` on a single server.
pub(super) fn sharding(call: &Call<'_>, body: &Value) -> Result<Option<Sharding>> {
    if !is_coordinator(call) {
        return Ok(None);
    }
    let default = |name: &str| match call.database.options.attribute(name) {
        Value::Int(number) => u32::try_from(number).unwrap_or(1),
        _ => 1,
    };
    let (replication_factor, write_concern) =
        copies(body, default("replicationFactor"), default("writeConcern"))?;
    let like = match body.attribute("distributeShardsLike") {
        Value::Null => None,
        Value::String(name) if name.is_empty() => None,
        Value::String(name) => Some(name.to_string()),
        _ => return Err(bad("'distributeShardsLike' must be a collection name")),
    };
    let given = match body.attribute("numberOfShards") {
        Value::Null => None,
        Value::Int(number) if (1..=i64::from(SHARDS_MAX)).contains(&number) => Some(number as u32),
        _ => return Err(bad(format!("numberOfShards must be a number from 1 to {SHARDS_MAX}"))),
    };
    let keys = shard_keys(&body.attribute("shardKeys"))?;
    let plain =
        Sharding { shards: given.unwrap_or(1), keys, replication_factor, write_concern, like };
    if is_one_shard(&call.database) {
        return one_shard(plain, given).map(Some);
    }
    let Some(name) = plain.like.clone() else { return Ok(Some(plain)) };
    let leader = call.database.collections.get(&name).and_then(|found| found.sharding.as_ref());
    let leader = leader.ok_or_else(|| Error::of(Code::ClusterUnknownDistributeShardsLike))?;
    if leader.like.is_some() {
        return Err(Error::of(Code::ClusterChainOfDistributeShardsLike));
    }
    if given.is_some_and(|given| given != leader.shards) || plain.keys.len() != leader.keys.len() {
        return Err(bad(
            "numberOfShards and the number of shardKeys have to be those of the leading collection",
        ));
    }
    let (shards, keys) = (leader.shards, plain.keys);
    Ok(Some(Sharding { shards, keys, like: Some(name), ..leader.clone() }))
}

/// Returns the sharding in a OneShard database, where every collection has one shard and
/// `distributeShardsLike` is `_graphs`.
fn one_shard(plain: Sharding, given: Option<u32>) -> Result<Sharding> {
    if given.is_some_and(|given| given != 1) {
        return Err(bad("Collection in a 'oneShardDatabase' must have 1 shard"));
    }
    if plain.like.is_some_and(|name| name != "_graphs") {
        return Err(bad("Collection in a 'oneShardDatabase' cannot define 'distributeShardsLike'"));
    }
    Ok(Sharding { shards: 1, like: Some("_graphs".to_owned()), ..plain })
}

fn shard_keys(given: &Value) -> Result<Vec<String>> {
    let list = match given {
        Value::Null => return Ok(vec!["_key".to_owned()]),
        Value::Array(list) if (1..=SHARD_KEYS_MAX).contains(&list.len()) => list,
        _ => {
            return Err(bad(format!(
                "'shardKeys' must be a list of 1 to {SHARD_KEYS_MAX} attributes"
            )));
        }
    };
    let key = |key: &Value| match key.as_str() {
        Some("_id" | "_rev") | None => {
            Err(bad("_id and _rev cannot be shard keys, nor anything but attributes"))
        }
        Some(key) if key.split('.').any(|part| part.trim_matches(':').is_empty()) => {
            Err(bad("a shard key must be an attribute"))
        }
        Some(key) => Ok(key.to_owned()),
    };
    list.iter().map(key).collect()
}

/// Applies the changeable `replicationFactor` and `writeConcern` of `PUT …/properties`.
pub(super) fn change(collection: &mut Collection, body: &Value) -> Result<()> {
    if let Some(sharding) = &mut collection.sharding {
        let (factor, concern) = copies(body, sharding.replication_factor, sharding.write_concern)?;
        (sharding.replication_factor, sharding.write_concern) = (factor, concern);
    }
    Ok(())
}

/// Adds the properties that only a coordinator shows.
pub(super) fn show(collection: &Collection, all: &mut Object) {
    let Some(sharding) = &collection.sharding else { return };
    all.remove("objectId");
    let keys: Vec<Value> = sharding.keys.iter().map(|key| key.as_str().into()).collect();
    all.insert("numberOfShards", u64::from(sharding.shards).into());
    all.insert("shardKeys", keys.into());
    all.insert("replicationFactor", u64::from(sharding.replication_factor).into());
    all.insert("writeConcern", u64::from(sharding.write_concern).into());
    all.insert("shardingStrategy", "hash".into());
    all.insert("isDisjoint", false.into());
    all.insert("isSmart", false.into());
    if let Some(like) = &sharding.like {
        all.insert("distributeShardsLike", like.as_str().into());
    }
}

/// Returns error 1470 for a unique index that lacks a shard key, if the collection has several
/// shards. No single shard could check the uniqueness.
pub(super) fn check_index(collection: &Collection, index: &Index) -> Result<()> {
    let Some(sharding) = &collection.sharding else { return Ok(()) };
    if !index.unique || sharding.shards == 1 {
        return Ok(());
    }
    let named = |key: &String| index.fields.iter().any(|field| field.join(".") == *key);
    match sharding.keys.iter().find(|key| !named(key)) {
        None => Ok(()),
        Some(key) => Err(Error::new(
            Code::ClusterUnsupported,
            format!("shard key '{key}' must be present in unique index"),
        )),
    }
}

/// Returns the error for a call that only a coordinator supports.
fn no_cluster() -> Error {
    Error::new(Code::HttpServerNotImplemented, "this operation is only supported on a coordinator")
}
