//! Handles `/_api/query-plan-cache`, which lists and removes the shared plans of queries with
//! `usePlanCache`.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::error::Result;
use crate::query::{Prepared, Query};
use crate::schema::{Collection, Database};
use crate::value::{Object, Value, equal};

use crate::http::auth::Level;
use crate::http::call::Call;
use crate::http::reply::{Reply, object};

/// Maximum number of shared plans of one database (ArangoDB: `--query.plan-cache-max-entries` 128).
const PLANS_LISTED_MAX: usize = 128;

/// A plan in the list of shared plans.
#[derive(Debug)]
struct SharedPlan {
    text: String,
    /// The bind parameters that name collections; other bind parameters do not affect the plan.
    binds: Object,
    full_count: bool,
    collections: Vec<Arc<Collection>>,
    created: SystemTime,
    hits: u64,
    bytes: u64,
}

/// The plans of one listener, by database.
#[derive(Debug, Default)]
pub(in crate::http) struct PlanCache {
    plans: Mutex<HashMap<String, Vec<SharedPlan>>>,
}

fn hash(parts: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

impl SharedPlan {
    fn key(&self) -> String {
        let binds = Value::object(self.binds.clone()).to_json();
        hash((&self.text, binds, self.full_count)).to_string()
    }

    /// Whether the plan's collections are unchanged since the plan was added to the list.
    fn holds(&self, database: &Database) -> bool {
        self.collections.iter().all(|then| {
            database.collections.get(&then.name).is_some_and(|now| Arc::ptr_eq(now, then))
        })
    }
}

impl PlanCache {
    fn plans(&self) -> MutexGuard<'_, HashMap<String, Vec<SharedPlan>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a query uses a plan. Returns the plan's key if the plan is already in the list
    /// of shared plans; otherwise adds the plan to the list and returns `None`.
    pub(in crate::http) fn visit(
        &self,
        database: &Database,
        query: &Query,
        prepared: &Prepared,
    ) -> Option<String> {
        let mut plans = self.plans();
        let plans = plans.entry(database.name.clone()).or_default();
        plans.retain(|plan| plan.holds(database));
        let collections = query.binds.iter().filter(|(name, _)| name.starts_with('@'));
        let binds: Object =
            collections.map(|(name, value)| (name.clone(), value.clone())).collect();
        let full_count = query.options.full_count;
        let same = |plan: &&mut SharedPlan| {
            let (then, now) = (Value::object(plan.binds.clone()), Value::object(binds.clone()));
            plan.text == query.text && plan.full_count == full_count && equal(&then, &now)
        };
        if let Some(plan) = plans.iter_mut().find(same) {
            plan.hits += 1;
            return Some(plan.key());
        }
        if plans.len() >= PLANS_LISTED_MAX {
            plans.remove(0);
        }
        plans.push(SharedPlan {
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

/// `GET /_api/query-plan-cache`: lists plans whose collections the caller may read.
pub(in crate::http) fn list(call: &Call<'_>) -> Reply {
    let mut plans = call.front.conformance.plans.plans();
    let plans = plans.entry(call.db().to_owned()).or_default();
    plans.retain(|plan| plan.holds(&call.database));
    let readable = |plan: &&SharedPlan| {
        let may = |c: &Arc<Collection>| call.need_collection(&c.name, Level::Read).is_ok();
        plan.collections.iter().all(may)
    };
    let shown = plans.iter().filter(readable).map(|plan| {
        let names = plan.collections.iter().map(|c| Value::from(c.name.as_str()));
        object! {
            "hash" => plan.key(),
            "query" => plan.text.as_str(),
            "queryHash" => hash(&plan.text),
            "bindVars" => Value::object(plan.binds.clone()),
            "fullCount" => plan.full_count,
            "dataSources" => Value::array(names.collect()),
            "created" => super::server_calls::date_of(plan.created),
            "hits" => plan.hits,
            "memoryUsage" => plan.bytes,
        }
    });
    Reply::json(200, &Value::array(shown.collect()))
}

/// `DELETE /_api/query-plan-cache`
pub(in crate::http) fn clear(call: &Call<'_>) -> Result<Reply> {
    call.need_database(Level::Write)?;
    call.front.conformance.plans.plans().remove(call.db());
    Ok(Reply::ok(200, object! {}))
}
