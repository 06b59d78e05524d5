//! Plans by text: the same few texts come thousands of times a second with other binds.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::plan::{Plan, ViewSource};
use crate::schema::{Database, Graph};
use crate::value::{Object, equal};

/// Texts whose plans are kept; the one unused for longest goes first.
const TEXTS_MAX: usize = 512;
/// Longest text that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Plans of one text (other collections, attribute names or options among the binds).
const VARIANTS_MAX: usize = 8;

#[derive(Default)]
struct Cache {
    texts: HashMap<Arc<str>, Entry>,
    uses: u64,
}

struct Entry {
    last_use: u64,
    plans: Vec<Arc<Plan>>,
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

/// A plan of this text that still holds for the database and these binds.
pub(super) fn find(text: &str, database: &Database, binds: &Object) -> Option<Arc<Plan>> {
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    cache.uses += 1;
    let uses = cache.uses;
    let entry = cache.texts.get_mut(text)?;
    entry.last_use = uses;
    entry.plans.iter().find(|plan| holds(plan, database, binds)).map(Arc::clone)
}

/// Keeps a plan.
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
    let entry = cache.texts.entry(Arc::from(text)).or_insert(Entry { last_use, plans: Vec::new() });
    if entry.plans.len() >= VARIANTS_MAX {
        entry.plans.remove(0);
    }
    entry.plans.push(Arc::clone(plan));
}

/// A plan depends on the collections and views it uses, on the binds that shaped it and, with a traversal in it, on the named
/// graphs; on nothing else. The catalog makes a new value of a collection whenever anything about it or its indexes changes.
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
            // An index is a part of its collection.
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
