//! `/_api/query-plan-cache`: the queries that asked for `usePlanCache`. Plans are kept for all; this is what is told of them.

use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use crate::error::{Code, Error, Result};
use crate::query::{Planned, Query};
use crate::value::Value;

use super::auth::Level;
use super::call::Call;
use super::limits::PLANS_LISTED_MAX;
use super::reply::{Reply, object};

/// One query whose plan is kept.
struct Entry {
    database: u64,
    text: String,
    full_count: bool,
    planned: Planned,
    created: String,
    hits: u64,
}

/// What was asked to be kept, over all databases of a listener; the oldest goes first.
#[derive(Default)]
pub(super) struct PlanCache {
    entries: Mutex<Vec<Entry>>,
}

impl PlanCache {
    /// Takes note of a query that asked for its plan to be kept: its key if it was there, 1584 if it may not be.
    pub(super) fn used(
        &self,
        call: &Call<'_>,
        query: &Query,
        planned: &Planned,
    ) -> Result<Option<String>> {
        if !planned.may_be_kept() {
            return Err(Error::of(Code::QueryNotEligibleForPlanCaching));
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let full_count = query.options.full_count;
        let known = entries.iter_mut().find(|entry| {
            entry.database == call.database.id
                && entry.full_count == full_count
                && entry.text == query.text
                && entry.planned.is(planned)
        });
        if let Some(entry) = known {
            entry.hits += 1;
            return Ok(Some(key(&entry.text, &entry.planned.collection_binds(), full_count)));
        }
        entries.retain(|entry| {
            entry.database != call.database.id || entry.planned.holds(&call.database)
        });
        if entries.len() >= PLANS_LISTED_MAX {
            entries.remove(0);
        }
        entries.push(Entry {
            database: call.database.id,
            text: query.text.clone(),
            full_count,
            planned: planned.clone(),
            created: super::server_calls::date_of(std::time::SystemTime::now()),
            hits: 0,
        });
        Ok(None)
    }
}

/// A number of 63 bits for a text.
fn number(text: &str) -> u64 {
    let hash = Sha256::digest(text.as_bytes());
    u64::from_be_bytes(hash[..8].try_into().expect("a hash of 32 bytes has 8")) >> 1
}

/// The key of a plan: the text and what shaped the plan.
fn key(text: &str, binds: &Value, full_count: bool) -> String {
    number(&format!("{text}\n{}\n{full_count}", binds.to_json())).to_string()
}

/// `GET /_api/query-plan-cache`
pub(super) fn list(call: &Call<'_>) -> Reply {
    let entries = call.front.plan_cache.entries.lock().unwrap_or_else(PoisonError::into_inner);
    let shown = entries.iter().rev().filter(|entry| {
        let readable = |name: &String| call.caller.collection(call.db(), name) >= Level::Read;
        entry.database == call.database.id
            && entry.planned.holds(&call.database)
            && entry.planned.sources().iter().all(readable)
    });
    let list: Vec<Value> = shown
        .map(|entry| {
            let binds = entry.planned.collection_binds();
            let sources = entry.planned.sources();
            object! {
                "hash" => key(&entry.text, &binds, entry.full_count),
                "query" => entry.text.as_str(),
                "queryHash" => number(&entry.text),
                "bindVars" => binds,
                "fullCount" => entry.full_count,
                "dataSources" => sources.iter().map(|name| name.as_str().into()).collect::<Vec<Value>>(),
                "created" => entry.created.as_str(),
                "hits" => entry.hits,
                "memoryUsage" => entry.text.len() as u64,
            }
        })
        .collect();
    Reply::json(200, &list.into())
}

/// `DELETE /_api/query-plan-cache`
pub(super) fn clear(call: &Call<'_>) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let mut entries = call.front.plan_cache.entries.lock().unwrap_or_else(PoisonError::into_inner);
    entries.retain(|entry| entry.database != call.database.id);
    Ok(Reply::ok(200, object! {}))
}
