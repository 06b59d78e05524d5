//! Creates all missing objects that `arango-setup/` describes; a second run changes nothing.

use http::Method;
use serde_json::{Value, json};

use super::db::{Admin, binds};
use super::fault::{Fault, FaultKind, Result};
use super::query::queries;
use super::retention;
use vctx_base::endpoint::{Credentials, Endpoint};

/// Number of recall storage entries to which one request adds the time of their message.
const SETUP_ROWS: u64 = 5_000;
/// Maximum number of requests with which one setup adds the times of messages to entries: enough
/// for a billion entries.
const SETUP_ROUNDS_MAX: usize = 200_000;

queries! {
    META_LOAD = "meta_load",
    META_STORE = "meta_store",
    RECALL_DATE = "recall_date",
}

/// Version of the database schema that this program needs.
pub const SCHEMA: u64 = 8;

/// First schema version in which an entry of recall storage has the time of its message.
const DATED: u64 = 4;

pub(super) const COLLECTIONS: &str = include_str!("../../../arango-setup/collections.json");
pub(super) const INDEXES: &str = include_str!("../../../arango-setup/indexes.json");
pub(super) const VIEWS: &str = include_str!("../../../arango-setup/view.json");
const GRAPHS: &str = include_str!("../../../arango-setup/graph.json");
const USERS: &str = include_str!("../../../arango-setup/users.json");

/// The database user that creates and drops indexes.
pub const INDEX_USER: &str = "vctx_index";
/// The database users that setup creates, each with the environment variable of its password.
pub const USER_PASSWORDS: [(&str, &str); 3] = [
    ("vctx_rw", "ARANGO_RW_PASSWORD"),
    ("vctx_ro", "ARANGO_RO_PASSWORD"),
    (INDEX_USER, "ARANGO_INDEX_PASSWORD"),
];

/// One line in the report of a setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupReport {
    /// Kind and name of the object: `collection messages`, `index messages_by_seq`, ….
    pub what: String,
    /// Whether this setup created or changed the object.
    pub made: bool,
}

/// How `recall_log` is sharded in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallSharding {
    /// ArangoDB's `numberOfShards`.
    pub shards: u32,
    /// ArangoDB's `shardKeys`.
    pub shard_keys: Vec<String>,
    /// ArangoDB's `replicationFactor`; 0 means the cluster's default.
    pub replication_factor: u32,
}

impl Default for RecallSharding {
    fn default() -> Self {
        Self { shards: 1, shard_keys: vec!["_key".into()], replication_factor: 0 }
    }
}

/// Maximum number of shards and replicas that can be configured; far more than any cluster needs.
const SHARDS_MAX: u32 = 1_000;
const REPLICATION_MAX: u32 = 10;

impl RecallSharding {
    /// Returns what is wrong with the sharding, if anything. An entry has the key of its message,
    /// so that no message is logged twice. arangod accepts keys from its client only if the
    /// collection is sharded by `_key` (otherwise error 1466).
    pub fn fault(&self) -> Option<String> {
        if self.shards == 0 || self.shards > SHARDS_MAX {
            return Some(format!("shards: use 1 to {SHARDS_MAX}"));
        }
        if self.shard_keys != ["_key"] {
            return Some(
                "shard_keys: use [\"_key\"]: entries have the keys of their messages".into(),
            );
        }
        (self.replication_factor > REPLICATION_MAX)
            .then(|| format!("replication_factor: use 0 to {REPLICATION_MAX}"))
    }

    /// Returns whether the whole database is on one DB-Server.
    fn one_shard(&self) -> bool {
        self.shards == 1
    }

    /// Returns the definition of a collection, with this sharding.
    fn laid_out(&self, mut definition: Value) -> Value {
        if definition["name"] != "recall_log" {
            return definition;
        }
        if !self.one_shard() {
            definition["numberOfShards"] = self.shards.into();
            definition["shardKeys"] = json!(self.shard_keys);
        }
        if self.replication_factor > 0 {
            definition["replicationFactor"] = self.replication_factor.into();
        }
        definition
    }

    /// Returns the definition of an index, adapted to this sharding. A unique index must contain
    /// the shard keys, so with several shards an index of `recall_log` is not unique; the document
    /// key prevents duplicate entries.
    fn indexed(&self, mut entry: Value) -> Value {
        if entry["collection"] == "recall_log" && !self.one_shard() {
            entry["index"]["unique"] = false.into();
        }
        entry
    }
}

/// The parts of the database schema that can be configured.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// How `recall_log` is sharded in a cluster.
    pub recall: RecallSharding,
    /// TTL of recall storage entries, in seconds; `None` for no limit.
    pub recall_ttl_s: Option<u64>,
    /// Whether setup drops an existing TTL index if `recall_ttl_s` is `None`. This is `false` if no
    /// configuration was read, since the intended TTL is then unknown.
    pub ttl_may_go: bool,
}

/// Creates the database, its collections, indexes, view, graph and least-privilege
/// users. `passwords` is a function that returns each user's password. Without this function
/// (`None`), setup creates no users, and the administrator must create them.
pub async fn set_up(
    endpoint: &Endpoint,
    admin: &Credentials,
    database: &str,
    layout: &Layout,
    passwords: Option<&(dyn Fn(&str) -> String + Sync)>,
) -> Result<Vec<SetupReport>> {
    let mut reports = Vec::new();
    let system = Admin::connect(endpoint, admin, "_system").await?;
    // In a cluster, this option puts the whole database on one DB-Server; a single server accepts
    // the option but ignores it.
    let sharding = if layout.recall.one_shard() { "single" } else { "flexible" };
    let body = json!({"name": database, "options": {"sharding": sharding}});
    let made = accept(system.call(Method::POST, "/_api/database", Some(&body)).await, &[1207])?;
    reports.push(SetupReport { what: format!("database {database}"), made });
    let db = Admin::connect(endpoint, admin, database).await?;
    let found = version_or_none(&db).await?;
    if let Some(newer) = found.filter(|v| *v > SCHEMA) {
        let text =
            format!("database has schema {newer}, this program knows {SCHEMA}: use a newer vctx");
        return Err(Fault::new(FaultKind::Garbage, text));
    }
    make_all(&db, layout, &mut reports, found).await?;
    if let Some(passwords) = passwords {
        make_users(&system, database, passwords, &mut reports).await?;
    }
    if found != Some(SCHEMA) {
        db.rows::<u64>(META_STORE, binds!(none; version = SCHEMA)).await?;
    }
    reports.push(SetupReport {
        what: format!("schema version {SCHEMA}"),
        made: found != Some(SCHEMA),
    });
    Ok(reports)
}

async fn make_all(
    db: &Admin,
    layout: &Layout,
    reports: &mut Vec<SetupReport>,
    found: Option<u64>,
) -> Result<()> {
    let mut note = |kind: &str, name: &Value, made| {
        reports
            .push(SetupReport { what: format!("{kind} {}", name.as_str().unwrap_or("?")), made });
    };
    for definition in listed(COLLECTIONS)? {
        let definition = layout.recall.laid_out(definition);
        let made =
            accept(db.call(Method::POST, "_api/collection", Some(&definition)).await, &[1207])?;
        note("collection", &definition["name"], made);
        if !made && renewed(db, &definition).await? {
            note("validation of collection", &definition["name"], true);
        }
    }
    for entry in listed(INDEXES)? {
        let entry = layout.recall.indexed(entry);
        let path =
            format!("_api/index?collection={}", entry["collection"].as_str().unwrap_or_default());
        let (status, _) = db.call(Method::POST, &path, Some(&entry["index"])).await?;
        note("index", &entry["index"]["name"], status == 201);
    }
    let wants_ttl = layout.recall_ttl_s.is_some() || layout.ttl_may_go;
    if wants_ttl && retention::keep_ttl_index(db, layout.recall_ttl_s).await? {
        note("index", &retention::ttl_report(layout.recall_ttl_s), true);
    }
    // Entries get the time of their message before the view includes this field, so that the view
    // indexes each entry only once.
    if found.is_some_and(|version| version < DATED) {
        date_entries(db).await?;
        note("dates of collection", &"recall_log".into(), true);
    }
    for definition in listed(VIEWS)? {
        let made = accept(db.call(Method::POST, "_api/view", Some(&definition)).await, &[1207])?;
        note("view", &definition["name"], made);
        if !made && relinked(db, &definition).await? {
            note("links of view", &definition["name"], true);
        }
    }
    for definition in listed(GRAPHS)? {
        let made = accept(
            db.call(Method::POST, "_api/gharial?waitForSync=true", Some(&definition)).await,
            &[1925],
        )?;
        note("graph", &definition["name"], made);
        if !made && rejoined(db, &definition).await? {
            note("edge definitions of graph", &definition["name"], true);
        }
    }
    Ok(())
}

/// Updates the edge definitions of an existing graph, but no edges. Returns `true` if a definition
/// changed.
async fn rejoined(db: &Admin, wanted: &Value) -> Result<bool> {
    let path = format!("_api/gharial/{}", wanted["name"].as_str().unwrap_or_default());
    let (_, found) = db.call(Method::GET, &path, None).await?;
    let known = found["graph"]["edgeDefinitions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut changed = false;
    for definition in wanted["edgeDefinitions"].as_array().into_iter().flatten() {
        let same = |other: &&Value| other["collection"] == definition["collection"];
        let (method, path) = match known.iter().find(same) {
            Some(other) if ends_of(other) == ends_of(definition) => continue,
            Some(_) => {
                let name = definition["collection"].as_str().unwrap_or_default();
                (Method::PUT, format!("{path}/edge/{name}?waitForSync=true"))
            }
            None => (Method::POST, format!("{path}/edge?waitForSync=true")),
        };
        db.call(method, &path, Some(definition)).await?;
        changed = true;
    }
    Ok(changed)
}

/// Returns the names of the `from` collections and of the `to` collections of an edge definition.
/// The names are sorted, since their order has no meaning.
fn ends_of(definition: &Value) -> [Vec<&str>; 2] {
    ["from", "to"].map(|end| {
        let names = definition[end].as_array().into_iter().flatten();
        let mut names: Vec<&str> = names.filter_map(Value::as_str).collect();
        names.sort_unstable();
        names
    })
}

/// Updates the validation rule of an existing collection. Returns `true` if the rule changed.
/// Existing documents are not checked: the rule applies to later writes.
async fn renewed(db: &Admin, definition: &Value) -> Result<bool> {
    let wanted = &definition["schema"];
    if wanted.is_null() {
        return Ok(false);
    }
    let name = definition["name"].as_str().unwrap_or_default();
    let path = format!("_api/collection/{name}/properties");
    let (_, found) = db.call(Method::GET, &path, None).await?;
    if ["rule", "level", "message"].iter().all(|part| found["schema"][part] == wanted[part]) {
        return Ok(false);
    }
    db.call(Method::PUT, &path, Some(&json!({"schema": wanted}))).await?;
    Ok(true)
}

/// Adds the time of the message to entries written before schema 4, in batches.
async fn date_entries(db: &Admin) -> Result<()> {
    let mut after = String::new();
    for _ in 0..SETUP_ROUNDS_MAX {
        let binds = binds!(none; after, limit = SETUP_ROWS, sync = true);
        let keys: Vec<String> = db.rows(RECALL_DATE, binds).await?;
        match keys.into_iter().next_back() {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
    let text = format!("more than {SETUP_ROUNDS_MAX} requests to add times to entries");
    Err(Fault::new(FaultKind::Garbage, text))
}

/// Adds missing links to an existing view, and keeps the view's other links. Returns `true` if a
/// link was missing. The database indexes the linked collection again before it answers.
async fn relinked(db: &Admin, definition: &Value) -> Result<bool> {
    let name = definition["name"].as_str().unwrap_or_default();
    let path = format!("_api/view/{name}/properties");
    let (_, found) = db.call(Method::GET, &path, None).await?;
    let wanted = &definition["links"];
    if holds(&found["links"], wanted) {
        return Ok(false);
    }
    db.call(Method::PATCH, &path, Some(&json!({"links": wanted}))).await?;
    Ok(true)
}

/// Returns whether a definition contains all wanted fields. It may contain further fields, since
/// the database adds some.
fn holds(found: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(wanted) => wanted.iter().all(|(name, wanted)| holds(&found[name], wanted)),
        wanted => found == wanted,
    }
}

async fn make_users(
    system: &Admin,
    database: &str,
    passwords: &(dyn Fn(&str) -> String + Sync),
    reports: &mut Vec<SetupReport>,
) -> Result<()> {
    for entry in listed(USERS)? {
        let name = entry["user"].as_str().unwrap_or_default().to_owned();
        let body = json!({"user": name, "passwd": passwords(&name), "active": true});
        let made = accept(system.call(Method::POST, "/_api/user", Some(&body)).await, &[1702])?;
        if !made {
            let body = json!({"passwd": passwords(&name), "active": true});
            system.call(Method::PATCH, &format!("/_api/user/{name}"), Some(&body)).await?;
        }
        let grants = [
            (format!("/_api/user/{name}/database/{database}"), &entry["database"]),
            (format!("/_api/user/{name}/database/{database}/*"), &entry["collections"]),
        ];
        for (path, grant) in grants {
            system.call(Method::PUT, &path, Some(&json!({"grant": grant}))).await?;
        }
        // To create or drop an index, a user needs `rw` on the database and on the collection
        // (arangod, RestIndexHandler).
        for collection in
            entry["indexes"].as_array().into_iter().flatten().filter_map(Value::as_str)
        {
            let path = format!("/_api/user/{name}/database/{database}/{collection}");
            system.call(Method::PUT, &path, Some(&json!({"grant": "rw"}))).await?;
        }
        let renewed = if made { "" } else { ", with the given password from now on" };
        reports.push(SetupReport { what: format!("user {name}{renewed}"), made });
    }
    Ok(())
}

/// Returns the schema version of a database; `None` if the database is missing or was never set up.
pub async fn schema_version(
    endpoint: &Endpoint,
    who: &Credentials,
    database: &str,
) -> Result<Option<u64>> {
    match Admin::connect(endpoint, who, database).await {
        Ok(db) => version_or_none(&db).await,
        Err(fault) if missing(&fault) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Returns the schema version of an existing database; `None` if it was never set up.
pub async fn version_or_none(db: &Admin) -> Result<Option<u64>> {
    match db.rows::<u64>(META_LOAD, binds!(none;)).await {
        Ok(rows) => Ok(rows.first().copied()),
        Err(fault) if missing(&fault) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Returns whether a fault means that the database (1228) or collection (1203) is missing.
fn missing(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Arango { num: 1203 | 1228, .. })
}

/// Returns whether an object was created. The error numbers in `there` mean that the object already
/// existed.
fn accept(answer: Result<(u16, Value)>, there: &[u16]) -> Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(Fault { kind: FaultKind::Arango { num, .. }, .. }) if there.contains(&num) => Ok(false),
        Err(fault) => Err(fault),
    }
}

pub(super) fn listed(text: &str) -> Result<Vec<Value>> {
    serde_json::from_str(text)
        .map_err(|e| Fault::new(FaultKind::Garbage, format!("setup file: {e}")))
}
