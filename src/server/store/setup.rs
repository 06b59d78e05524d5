//! Setup: what `arango-setup/` describes is made where it is missing; a second run changes nothing.

use http::Method;
use serde_json::{Value, json};

use super::db::{Admin, Binds};
use super::fault::{Fault, FaultKind};
use super::query::{Query, query};
use super::retention;
use vctx_base::endpoint::{Credentials, Endpoint};
use vctx_core::limits::{SETUP_ROUNDS_MAX, SETUP_ROWS};

/// The schema version.
pub(super) const META_LOAD: Query = query!("meta_load");
/// A new schema version.
pub(super) const META_STORE: Query = query!("meta_store");
/// Entries of recall storage without the moment at which they were said.
pub(super) const RECALL_DATE: Query = query!("recall_date");

/// Version of the database schema that this program needs.
pub const SCHEMA: u64 = 6;

/// The first version whose entries of recall storage bear the moment at which they were said.
const DATED: u64 = 4;

pub(super) const COLLECTIONS: &str = include_str!("../../../arango-setup/collections.json");
pub(super) const INDEXES: &str = include_str!("../../../arango-setup/indexes.json");
const ANALYZERS: &str = include_str!("../../../arango-setup/analyzers.json");
pub(super) const VIEWS: &str = include_str!("../../../arango-setup/view.json");
const GRAPHS: &str = include_str!("../../../arango-setup/graph.json");
const USERS: &str = include_str!("../../../arango-setup/users.json");

/// Who makes and drops indexes.
pub const INDEX_USER: &str = "vctx_index";
/// The users of a setup, and the variables of their passwords.
pub const USER_PASSWORDS: [(&str, &str); 3] = [
    ("vctx_rw", "ARANGO_RW_PASSWORD"),
    ("vctx_ro", "ARANGO_RO_PASSWORD"),
    (INDEX_USER, "ARANGO_INDEX_PASSWORD"),
];

/// One line of a setup: what, and whether it was made now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupReport {
    /// `collection messages`, `index messages_by_seq`, ….
    pub what: String,
    /// Whether this run made it.
    pub made: bool,
}

/// How `recall_log` lies in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallSharding {
    /// `numberOfShards`
    pub shards: u32,
    /// `shardKeys`
    pub shard_keys: Vec<String>,
    /// `replicationFactor`; 0: as the cluster has it.
    pub replication_factor: u32,
}

impl Default for RecallSharding {
    fn default() -> Self {
        Self { shards: 1, shard_keys: vec!["_key".into()], replication_factor: 0 }
    }
}

/// Most shards and copies that may be asked for: far beyond any cluster.
const SHARDS_MAX: u32 = 1_000;
const REPLICATION_MAX: u32 = 10;

impl RecallSharding {
    /// What is wrong with it. Entries bear the keys of their messages, so that one cannot be logged twice; arangod takes such keys only
    /// where they choose the shard (1466).
    pub fn fault(&self) -> Option<String> {
        if self.shards == 0 || self.shards > SHARDS_MAX {
            return Some(format!("shards: use 1 to {SHARDS_MAX}"));
        }
        if self.shard_keys != ["_key"] {
            return Some(
                "shard_keys: use [\"_key\"]: entries bear the keys of their messages".into(),
            );
        }
        (self.replication_factor > REPLICATION_MAX)
            .then(|| format!("replication_factor: use 0 to {REPLICATION_MAX}"))
    }

    /// Whether all of the database lies on one DB-Server.
    fn one_shard(&self) -> bool {
        self.shards == 1
    }

    /// The definition of a collection as it is sent.
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

    /// The definition of an index as it is sent: one that is unique must hold the shard keys, which this does not; that no entry comes twice
    /// is seen to by its key.
    fn indexed(&self, mut entry: Value) -> Value {
        if entry["collection"] == "recall_log" && !self.one_shard() {
            entry["index"]["unique"] = false.into();
        }
        entry
    }
}

/// What a setup makes beside what always is.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// How `recall_log` lies in a cluster.
    pub recall: RecallSharding,
    /// Life of its entries in seconds; none: for ever.
    pub recall_ttl_s: Option<u64>,
    /// Whether an index of ages that is there goes where none is wanted; not where no configuration was read that could have wanted one.
    pub ttl_may_go: bool,
}

/// Makes the database, its collections, indexes, analyzers, view, graph and least-privilege users. `passwords` gives the
/// password of a user that has to be made; without one the users are left to the administrator.
pub async fn set_up(
    endpoint: &Endpoint,
    admin: &Credentials,
    database: &str,
    layout: &Layout,
    passwords: Option<&(dyn Fn(&str) -> String + Sync)>,
) -> Result<Vec<SetupReport>, Fault> {
    let mut reports = Vec::new();
    let system = Admin::connect(endpoint, admin, "_system").await?;
    // In a cluster all of it lies on one DB-Server; a single server takes the option and has no use for it.
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
        let binds = Binds::unscoped([("version", SCHEMA.into())]);
        db.rows::<u64>(META_STORE, binds).await?;
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
) -> Result<(), Fault> {
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
    for definition in listed(ANALYZERS)? {
        let (status, _) = db.call(Method::POST, "_api/analyzer", Some(&definition)).await?;
        note("analyzer", &definition["name"], status == 201);
    }
    // Before the view is asked to hold it: so each entry is indexed once.
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

/// Gives a graph that was there the edge definitions it should have; true if one was another. Edges stay as they are.
async fn rejoined(db: &Admin, wanted: &Value) -> Result<bool, Fault> {
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

/// Both ends of an edge definition; their order means nothing.
fn ends_of(definition: &Value) -> [Vec<&str>; 2] {
    ["from", "to"].map(|end| {
        let names = definition[end].as_array().into_iter().flatten();
        let mut names: Vec<&str> = names.filter_map(Value::as_str).collect();
        names.sort_unstable();
        names
    })
}

/// Gives a collection that was there the validation it should have; true if it had another one. Documents that were valid
/// before stay as they are: a rule is checked when something is written.
async fn renewed(db: &Admin, definition: &Value) -> Result<bool, Fault> {
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

/// Gives entries that were logged before the fourth schema the moment at which they were said, so many at once.
async fn date_entries(db: &Admin) -> Result<(), Fault> {
    let mut after = String::new();
    for _ in 0..SETUP_ROUNDS_MAX {
        let binds =
            [("after", after.as_str().into()), ("limit", SETUP_ROWS.into()), ("sync", true.into())];
        let keys: Vec<String> = db.rows(RECALL_DATE, Binds::unscoped(binds)).await?;
        match keys.into_iter().next_back() {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
    let text = format!("more than {SETUP_ROUNDS_MAX} rounds to date entries of recall storage");
    Err(Fault::new(FaultKind::Garbage, text))
}

/// Gives a view that was there the links it should have; true if some of it was missing. What it holds beyond that stays; the database
/// indexes the collection anew before it answers.
async fn relinked(db: &Admin, definition: &Value) -> Result<bool, Fault> {
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

/// Whether all that is wanted is there; the database shows more than it was given.
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
) -> Result<(), Fault> {
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
        // To make and drop an index takes `rw` of the database and of the collection (arangod, RestIndexHandler).
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

/// The schema version of a database; none if it was never set up.
pub async fn schema_version(
    endpoint: &Endpoint,
    who: &Credentials,
    database: &str,
) -> Result<Option<u64>, Fault> {
    match Admin::connect(endpoint, who, database).await {
        Ok(db) => version_or_none(&db).await,
        Err(fault) if missing(&fault) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// The schema version of a database that is there; none if it was never set up.
pub async fn version_or_none(db: &Admin) -> Result<Option<u64>, Fault> {
    match db.rows::<u64>(META_LOAD, Binds::unscoped([])).await {
        Ok(rows) => Ok(rows.first().copied()),
        Err(fault) if missing(&fault) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// No such database (1228) or collection (1203).
fn missing(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Arango { num: 1203 | 1228, .. })
}

/// Whether something was made; the given error numbers mean that it was there already.
fn accept(answer: Result<(u16, Value), Fault>, there: &[u16]) -> Result<bool, Fault> {
    match answer {
        Ok(_) => Ok(true),
        Err(Fault { kind: FaultKind::Arango { num, .. }, .. }) if there.contains(&num) => Ok(false),
        Err(fault) => Err(fault),
    }
}

pub(super) fn listed(text: &str) -> Result<Vec<Value>, Fault> {
    serde_json::from_str(text)
        .map_err(|e| Fault::new(FaultKind::Garbage, format!("setup file: {e}")))
}
