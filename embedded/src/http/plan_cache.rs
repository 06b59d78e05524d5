//! `/_api/query-plan-cache`: the plans that queries with `usePlanCache` share, as they are listed.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::error::Result;
use crate::query::{Prepared, Query};
use crate::schema::{Collection, Database};
use crate::value::{Object, Value, equal};

use super::auth::Level;
use super::call::Call;
use super::limits::PLANS_LISTED_MAX;
use super::reply::{Reply, object};

/// A plan that is shared.
#[derive(Debug)]
struct Entry {
    text: String,
    /// Collections among the binds; values of other binds do not matter.
    binds: Object,
    full_count: bool,
    collections: Vec<Arc<Collection>>,
    created: SystemTime,
    hits: u64,
    bytes: u64,
}

/// The plans of one listener, by database.
#[derive(Debug, Default)]
pub(super) struct PlanCache {
    plans: Mutex<HashMap<String, Vec<Entry>>>,
}

fn hash(parts: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

impl Entry {
    fn key(&self) -> String {
        let binds = Value::object(self.binds.clone()).to_json();
        hash((&self.text, binds, self.full_count)).to_string()
    }

    /// Whether none of its collections has changed.
    fn holds(&self, database: &Database) -> bool {
        self.collections.iter().all(|then| {
            database.collections.get(&then.name).is_some_and(|now| Arc::ptr_eq(now, then))
        })
    }
}

impl PlanCache {
    fn plans(&self) -> MutexGuard<'_, HashMap<String, Vec<Entry>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key of the plan if it was there; otherwise it is there from now on.
    pub(super) fn visit(
        &self,
        database: &Database,
        query: &Query,
        prepared: &Prepared,
    ) -> Option<String> {
        let mut plans = self.plans();
        let plans = plans.entry(database.name.clone()).or_default();
        plans.retain(|entry| entry.holds(database));
        let collections = query.binds.iter().filter(|(name, _)| name.starts_with('@'));
        let binds: Object =
            collections.map(|(name, value)| (name.clone(), value.clone())).collect();
        let full_count = query.options.full_count;
        let same = |entry: &&mut Entry| {
            let (then, now) = (Value::object(entry.binds.clone()), Value::object(binds.clone()));
            entry.text == query.text && entry.full_count == full_count && equal(&then, &now)
        };
        if let Some(entry) = plans.iter_mut().find(same) {
            entry.hits += 1;
            return Some(entry.key());
        }
        if plans.len() >= PLANS_LISTED_MAX {
            plans.remove(0);
        }
        plans.push(Entry {
            text: query.text.clone(),
            binds,
            full_count,
            collections: prepared.collections(),
            created: SystemTime::now(),
            hits: 0,
            bytes: prepared.explain().size_bytes() as u64,
        });
        None
    }
}

/// `GET /_api/query-plan-cache`: those whose collections the caller may read.
pub(super) fn list(call: &Call<'_>) -> Reply {
    let mut plans = call.front.plans.plans();
    let plans = plans.entry(call.db().to_owned()).or_default();
    plans.retain(|entry| entry.holds(&call.database));
    let readable = |entry: &&Entry| {
        let may = |c: &Arc<Collection>| call.need_collection(&c.name, Level::Read).is_ok();
        entry.collections.iter().all(may)
    };
    let shown = plans.iter().filter(readable).map(|entry| {
        let names = entry.collections.iter().map(|c| Value::from(c.name.as_str()));
        object! {
            "hash" => entry.key(),
            "query" => entry.text.as_str(),
            "queryHash" => hash(&entry.text),
            "bindVars" => Value::object(entry.binds.clone()),
            "fullCount" => entry.full_count,
            "dataSources" => Value::array(names.collect()),
            "created" => super::server_calls::date_of(entry.created),
            "hits" => entry.hits,
            "memoryUsage" => entry.bytes,
        }
    });
    Reply::json(200, &Value::array(shown.collect()))
}

/// `DELETE /_api/query-plan-cache`
pub(super) fn clear(call: &Call<'_>) -> Result<Reply> {
    call.need_database(Level::Write)?;
    call.front.plans.plans().remove(call.db());
    Ok(Reply::ok(200, object! {}))
}
