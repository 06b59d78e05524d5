//! A cache of query plans by query text; most clients send only a few different texts, with varying
//! bind parameters.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::plan::{Plan, ViewSource};
use crate::schema::{Database, Graph};
use crate::value::{Object, equal};

/// Maximum number of query texts with cached plans; a further text replaces the least recently used
/// one.
const TEXTS_MAX: usize = 512;
/// Maximum length of a query text whose plan is cached, in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of cached plans for one query text. Different values of bind parameters for
/// collections, attribute names or options need different plans.
const VARIANTS_MAX: usize = 8;

#[derive(Default)]
struct Cache {
    texts: HashMap<Arc<str>, CachedPlans>,
    uses: u64,
}

struct CachedPlans {
    last_use: u64,
    plans: Vec<Arc<Plan>>,
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

/// Returns a cached plan of a query text that is valid for the database and the bind parameters.
pub(super) fn find(text: &str, database: &Database, binds: &Object) -> Option<Arc<Plan>> {
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    cache.uses += 1;
    let uses = cache.uses;
    let entry = cache.texts.get_mut(text)?;
    entry.last_use = uses;
    entry.plans.iter().find(|plan| holds(plan, database, binds)).map(Arc::clone)
}

/// Adds a plan to the cache, unless the query text is too long.
pub(super) fn keep(text: &str, plan: &Arc<Plan>) {
    if text.len() > TEXT_BYTES_MAX {
        return;
    }
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    cache.uses += 1;
    let last_use = cache.uses;
    if cache.texts.len() >= TEXTS_MAX && !cache.texts.contains_key(text) {
        let oldest = cache
            .texts
            .iter()
            .min_by_key(|(_, entry)| entry.last_use)
            .map(|(text, _)| Arc::clone(text));
        if let Some(oldest) = oldest {
            cache.texts.remove(&oldest);
        }
    }
    let entry =
        cache.texts.entry(Arc::from(text)).or_insert(CachedPlans { last_use, plans: Vec::new() });
    if entry.plans.len() >= VARIANTS_MAX {
        entry.plans.remove(0);
    }
    entry.plans.push(Arc::clone(plan));
}

/// Whether a cached plan is still valid. A plan depends on the query's collections and views and on
/// bind parameters such as collection names. A plan with a traversal also depends on the named
/// graphs. When a collection or one of its indexes changes, the catalog replaces the collection's
/// definition by a new value, so comparing pointers is sufficient.
fn holds(plan: &Plan, database: &Database, binds: &Object) -> bool {
    plan.release == database.release
        && plan.collections.iter().all(|used| {
            let now = database.collections.get(&used.collection.name);
            now.is_some_and(|now| Arc::ptr_eq(now, &used.collection))
        })
        && plan.views.iter().all(|used| match &used.source {
            ViewSource::View(view) => {
                let now = database.views.get(&view.name);
                now.is_some_and(|now| Arc::ptr_eq(now, view))
            }
            // The comparison of collections above includes their indexes.
            ViewSource::Index(_) => true,
        })
        && plan.graphs.as_ref().is_none_or(|graphs| same(graphs, &database.graphs))
        && plan
            .structural
            .iter()
            .all(|(name, value)| binds.get(name).is_some_and(|given| equal(given, value)))
        && plan
            .never_null
            .iter()
            .all(|slot| binds.get(&plan.binds[*slot]).is_some_and(|given| !given.is_null()))
}

fn same(then: &BTreeMap<String, Arc<Graph>>, now: &BTreeMap<String, Arc<Graph>>) -> bool {
    then.len() == now.len() && then.values().zip(now.values()).all(|(a, b)| Arc::ptr_eq(a, b))
}
