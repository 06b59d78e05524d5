//! A store in memory that consists of sorted maps and one lock. Tests compare the store on disk
//! with this store.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, RwLock};

use super::kv::{Batch, Bytes, Operation, Pairs, Snapshot, Store};
use crate::encode::{Space, local_id_of_value};
use crate::error::Result;

type Tree = Arc<BTreeMap<Vec<u8>, Bytes>>;

/// A store in memory. A snapshot shares the store's sorted maps, and a commit copies shared maps
/// before changing them.
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
            Arc::make_mut(&mut trees.maps[space as usize]).insert(key.to_vec(), value);
        }
        Operation::Delete(space, key) => {
            Arc::make_mut(&mut trees.maps[space as usize]).remove(&*key);
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

#[cfg(test)]
mod tests {
    //! Tests that the store on disk and the store in memory give equal answers after equal batches,
    //! also from older snapshots and after a restart.

    use proptest::prelude::*;

    use super::*;
    use crate::limits::MEMTABLE_BYTES;
    use crate::storage::FjallStore;

    #[derive(Clone, Debug)]
    enum Step {
        Put(u8, Vec<u8>, u8),
        Delete(u8, Vec<u8>),
        Add(u8, i64),
        Raise(u8, u64),
        Commit(bool),
        Look(Vec<u8>, Vec<u8>),
        Remember,
        Reopen,
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let key = prop::collection::vec(prop_oneof![0u8..3, Just(255)], 1..4);
        prop_oneof![
            8 => (0u8..3, key.clone(), any::<u8>()).prop_map(|(space, key, value)| Step::Put(space, key, value)),
            3 => (0u8..3, key.clone()).prop_map(|(space, key)| Step::Delete(space, key)),
            2 => (0u8..3, -2i64..5).prop_map(|(number, delta)| Step::Add(number, delta)),
            2 => (0u8..3, 0u64..50).prop_map(|(number, least)| Step::Raise(number, least)),
            4 => any::<bool>().prop_map(Step::Commit),
            3 => (key.clone(), key).prop_map(|(lower, upper)| Step::Look(lower, upper)),
            1 => Just(Step::Remember),
            1 => Just(Step::Reopen),
        ]
    }

    fn space(number: u8) -> Space {
        Space::ALL[usize::from(number)]
    }

    /// Returns the key of a counter, which differs from all other keys of the test and the store.
    fn counter(number: u8) -> Vec<u8> {
        vec![100, number]
    }

    fn look(real: &dyn Snapshot, model: &dyn Snapshot, lower: &[u8], upper: &[u8]) {
        for space in Space::ALL {
            assert_eq!(real.get(space, lower).unwrap(), model.get(space, lower).unwrap());
            for backwards in [false, true] {
                let all = |snapshot: &dyn Snapshot| {
                    let pairs = snapshot.scan(space, lower, upper, backwards).map(Result::unwrap);
                    // The pair with the key `4` is left out: it is a mark that only the store on
                    // disk writes.
                    pairs.filter(|(key, _)| **key != [4]).collect::<Vec<_>>()
                };
                assert_eq!(all(real), all(model));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_store_equals_sorted_maps(steps in prop::collection::vec(any_step(), 1..60)) {
            let home = tempfile::tempdir().unwrap();
            let open = || FjallStore::open(home.path(), MEMTABLE_BYTES, true, None).unwrap();
            let (mut real, model) = (Some(open()), MemoryStore::default());
            let mut batches = (Batch::default(), Batch::default());
            let mut remembered = Vec::new();
            for step in steps {
                let store = real.as_ref().unwrap();
                for batch in [&mut batches.0, &mut batches.1] {
                    match &step {
                        Step::Put(number, key, value) => batch.put(space(*number), key.clone(), vec![*value]),
                        Step::Delete(number, key) => batch.delete(space(*number), key.clone()),
                        Step::Add(number, delta) => batch.add(Space::Meta, counter(*number), *delta),
                        Step::Raise(number, least) => batch.raise(Space::Meta, counter(*number), *least),
                        _ => {}
                    }
                }
                match step {
                    Step::Commit(sync) => {
                        let before = store.snapshot();
                        store.commit(std::mem::take(&mut batches.0), sync).unwrap();
                        model.commit(std::mem::take(&mut batches.1), sync).unwrap();
                        prop_assert!(!before.is_latest() && store.snapshot().is_latest());
                    }
                    Step::Look(lower, upper) => look(&*store.snapshot(), &*model.snapshot(), &lower, &upper),
                    Step::Remember => remembered.push((store.snapshot(), model.snapshot())),
                    Step::Reopen => {
                        remembered.clear();
                        drop(real.take());
                        real = Some(open());
                    }
                    _ => {}
                }
                if let Some((real, model)) = remembered.last() {
                    look(&**real, &**model, &[], &[255, 255, 255, 255]);
                }
            }
            look(&*real.unwrap().snapshot(), &*model.snapshot(), &[], &[255, 255, 255, 255]);
        }
    }
}
