//! A store that forgets: sorted maps behind one lock; the truth that the real one is tested against.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, RwLock};

use super::kv::{Batch, Bytes, Operation, Pairs, Snapshot, Store};
use crate::encode::{Space, local_id_of_value};
use crate::error::Result;

type Tree = Arc<BTreeMap<Vec<u8>, Bytes>>;

/// Sorted maps in memory; a snapshot is a clone of the maps' handles, a commit copies those it changes.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    trees: Arc<RwLock<Trees>>,
}

#[derive(Clone, Debug, Default)]
struct Trees {
    maps: [Tree; 3],
    commits: u64,
}

struct MemorySnapshot {
    seen: Trees,
    live: Arc<RwLock<Trees>>,
}

impl Store for MemoryStore {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        let seen = self.trees.read().expect("no writer panics").clone();
        Arc::new(MemorySnapshot { seen, live: self.trees.clone() })
    }

    fn commit(&self, batch: Batch, _sync: bool) -> Result<()> {
        let mut trees = self.trees.write().expect("no writer panics");
        for operation in batch.operations {
            apply(&mut trees, operation)?;
        }
        trees.commits += 1;
        Ok(())
    }
}

fn apply(trees: &mut Trees, operation: Operation) -> Result<()> {
    match operation {
        Operation::Put(space, key, value) => {
            Arc::make_mut(&mut trees.maps[space as usize]).insert(key, value);
        }
        Operation::Delete(space, key) => {
            Arc::make_mut(&mut trees.maps[space as usize]).remove(&key);
        }
        Operation::Add(space, key, delta) => {
            let value = number(trees, space, &key)?.wrapping_add_signed(delta);
            Arc::make_mut(&mut trees.maps[space as usize]).insert(key, value.to_be_bytes().into());
        }
        Operation::Raise(space, key, least) => {
            let value = number(trees, space, &key)?.max(least);
            Arc::make_mut(&mut trees.maps[space as usize]).insert(key, value.to_be_bytes().into());
        }
    }
    Ok(())
}

fn number(trees: &Trees, space: Space, key: &[u8]) -> Result<u64> {
    trees.maps[space as usize].get(key).map_or(Ok(0), |value| local_id_of_value(value))
}

impl Snapshot for MemorySnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.seen.maps[space as usize].get(key).cloned())
    }

    fn scan(&self, space: Space, lower: &[u8], upper: &[u8], backwards: bool) -> Pairs<'_> {
        if lower >= upper {
            return Box::new(std::iter::empty());
        }
        let bounds = (Bound::Included(lower), Bound::Excluded(upper));
        let range = self.seen.maps[space as usize]
            .range::<[u8], _>(bounds)
            .map(|(key, value)| Ok((Bytes::from(key.as_slice()), value.clone())));
        if backwards { Box::new(range.rev()) } else { Box::new(range) }
    }

    fn is_latest(&self) -> bool {
        self.live.read().expect("no writer panics").commits == self.seen.commits
    }
}
