//! Compares transactions over two collections with a model: each transaction reads its snapshot and
//! its own writes, and the first writer of a key wins. The transactions write by document calls and
//! by AQL queries.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use arango_embedded::error::{Code, Error};
use arango_embedded::query::{Query, prepare};
use arango_embedded::schema::{Collection, CollectionKind, Index, IndexKind};
use arango_embedded::txn::{Declared, IndexRange, Transaction, WriteOptions};
use arango_embedded::value::{Object, Value};
use arango_embedded::{Engine, Options};
use proptest::prelude::*;

/// Number of parallel transactions.
const SLOTS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Begin,
    Insert(u8, u8),
    Update(u8, u8),
    Remove(u8),
    /// An insert by an AQL query instead of a document call. A query has its whole effect or none.
    QueryInsert(u8, u8),
    QueryUpdate(u8, u8),
    QueryRemove(u8),
    Get(u8),
    Find(u8),
    Scan,
    Savepoint,
    Rollback,
    Commit,
    Abort,
}

fn any_step() -> impl Strategy<Value = Step> {
    let (key, unique) = (0u8..6, 0u8..4);
    prop_oneof![
        3 => Just(Step::Begin),
        4 => (key.clone(), unique.clone()).prop_map(|(k, u)| Step::Insert(k, u)),
        4 => (key.clone(), unique.clone()).prop_map(|(k, u)| Step::Update(k, u)),
        2 => key.clone().prop_map(Step::Remove),
        2 => (key.clone(), unique.clone()).prop_map(|(k, u)| Step::QueryInsert(k, u)),
        2 => (key.clone(), unique.clone()).prop_map(|(k, u)| Step::QueryUpdate(k, u)),
        1 => key.clone().prop_map(Step::QueryRemove),
        1 => key.prop_map(Step::Get),
        1 => unique.prop_map(Step::Find),
        2 => Just(Step::Scan),
        1 => Just(Step::Savepoint),
        1 => Just(Step::Rollback),
        3 => Just(Step::Commit),
        1 => Just(Step::Abort),
    ]
}

/// Even keys are in the first collection, odd ones in the second.
fn side(key: u8) -> usize {
    usize::from(key % 2)
}

/// A document as the test's model expects it: its unique value, the number of inserts under its
/// key, and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    unique: u8,
    incarnation: u64,
    version: u64,
}

type State = BTreeMap<u8, Row>;
type Writes = BTreeMap<u8, Option<Row>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lock {
    Key(u8),
    Unique(usize, u8),
}

struct Running {
    real: Transaction,
    snapshot: State,
    view: State,
    written: Writes,
    savepoint: Option<(usize, State, Writes)>,
}

#[derive(Default)]
struct Model {
    committed: State,
    locks: HashMap<Lock, usize>,
    clock: u64,
}

fn holder(state: &State, side_: usize, unique: u8) -> Option<u64> {
    let mut rows = state.iter().filter(|(key, _)| side(**key) == side_);
    rows.find(|(_, row)| row.unique == unique).map(|(_, row)| row.incarnation)
}

impl Model {
    fn lock(&mut self, slot: usize, lock: Lock) -> Result<(), Code> {
        if *self.locks.entry(lock).or_insert(slot) == slot { Ok(()) } else { Err(Code::Conflict) }
    }

    /// Returns the expected result of a write to `key`. The write sets a new unique value, or
    /// removes the document with `None`; `fresh` means an insert.
    fn write(
        &mut self,
        slot: usize,
        running: &mut Running,
        key: u8,
        next: Option<u8>,
        fresh: bool,
    ) -> Result<(), Code> {
        self.lock(slot, Lock::Key(key))?;
        if self.committed.get(&key) != running.snapshot.get(&key) {
            return Err(Code::Conflict);
        }
        let old = running.view.get(&key).copied();
        match old {
            Some(_) if fresh => return Err(Code::UniqueConstraintViolated),
            None if !fresh => return Err(Code::DocumentNotFound),
            _ => {}
        }
        if old.map(|row| row.unique) != next {
            if let Some(row) = old {
                self.lock(slot, Lock::Unique(side(key), row.unique))?;
            }
            if let Some(unique) = next {
                self.lock(slot, Lock::Unique(side(key), unique))?;
                let holder = |state: &State| holder(state, side(key), unique);
                if holder(&self.committed) != holder(&running.snapshot) {
                    return Err(Code::Conflict);
                }
                if holder(&running.view).is_some() {
                    return Err(Code::UniqueConstraintViolated);
                }
            }
        }
        self.clock += 1;
        let incarnation = old.map_or(self.clock, |row| row.incarnation);
        let row = next.map(|unique| Row { unique, incarnation, version: self.clock });
        match row {
            Some(row) => running.view.insert(key, row),
            None => running.view.remove(&key),
        };
        running.written.insert(key, row);
        Ok(())
    }

    fn commit(&mut self, slot: usize, running: Running) {
        for (key, row) in running.written {
            match row {
                Some(row) => self.committed.insert(key, row),
                None => self.committed.remove(&key),
            };
        }
        self.end(slot);
    }

    fn end(&mut self, slot: usize) {
        self.locks.retain(|_, owner| *owner != slot);
    }
}

fn engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<(Arc<Engine>, tempfile::TempDir)> = OnceLock::new();
    let (engine, _) = ENGINE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        // The steps run one after another, so waiting for a lock is useless: no other step could
        // release it.
        let options = Options { key_lock_wait_ms: 0, ..Options::default() };
        (Engine::open(directory.path(), options).unwrap(), directory)
    });
    engine
}

/// A new collection with a unique index on `u`.
fn collection() -> Arc<Collection> {
    let engine = engine();
    let name = format!("c{}", engine.next_id());
    let definition = Collection::new(&name, CollectionKind::Document);
    engine.create_collection("_system", definition).unwrap();
    let index = Index {
        id: 0,
        name: "u".into(),
        kind: IndexKind::Persistent,
        fields: vec![vec!["u".into()]],
        unique: true,
        sparse: false,
        definition: Value::object(Object::new()),
    };
    engine.create_index("_system", &name, index).unwrap();
    engine.database("_system").unwrap().collections[&name].clone()
}

fn object(entries: &[(&str, Value)]) -> Value {
    Value::object(entries.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
}

fn document(key: u8, unique: u8) -> Value {
    object(&[("_key", format!("k{key}").into()), ("u", i64::from(unique).into())])
}

/// Returns the keys and unique values of all documents, sorted by key.
fn seen(documents: &[Value]) -> Vec<(u8, u8)> {
    let pair = |document: &Value| {
        let key = document.text_of("_key").unwrap()[1..].parse().unwrap();
        (key, document.attribute("u").as_f64().unwrap() as u8)
    };
    let mut pairs: Vec<_> = documents.iter().map(pair).collect();
    pairs.sort_unstable();
    pairs
}

fn pairs(state: &State, side_: usize) -> Vec<(u8, u8)> {
    let own = state.iter().filter(|(key, _)| side(**key) == side_);
    own.map(|(key, row)| (*key, row.unique)).collect()
}

fn check(running: &Running, collections: &[Arc<Collection>; 2]) {
    for (side, collection) in collections.iter().enumerate() {
        check_side(running, side, collection);
    }
}

fn check_side(running: &Running, side: usize, c: &Collection) {
    let real = &running.real;
    for backwards in [None, Some(false), Some(true)] {
        let mut scan = match backwards {
            None => real.scan(c).unwrap(),
            Some(backwards) => {
                real.index_scan(c, &c.indexes[1], 0, &IndexRange::default(), backwards).unwrap()
            }
        };
        let mut documents = Vec::new();
        loop {
            let some = real.next(&mut scan, 2).unwrap();
            if some.is_empty() {
                break;
            }
            documents.extend(some);
        }
        let order: Vec<_> =
            documents.iter().map(|document| document.attribute("u").as_f64()).collect();
        assert!(backwards != Some(false) || order.is_sorted());
        assert!(backwards != Some(true) || order.iter().rev().is_sorted());
        assert_eq!(seen(&documents), pairs(&running.view, side));
    }
    assert_eq!(real.count(c).unwrap(), pairs(&running.view, side).len() as u64);
}

/// Runs a query inside a transaction; the query has its whole effect or none.
fn query(running: &Running, text: String) -> Result<(), Error> {
    let savepoint = running.real.savepoint();
    let database = engine().database("_system").unwrap();
    let query = Query { text, ..Query::default() };
    let ran = prepare(&database, &query)?.run(&database, &running.real);
    ran.map(drop).inspect_err(|_| running.real.rollback_to(savepoint))
}

fn follow(
    model: &mut Model,
    slots: &mut [Option<Running>],
    slot: usize,
    step: &Step,
    collections: &[Arc<Collection>; 2],
) {
    let o = WriteOptions::default();
    let of = |key: u8| &*collections[side(key)];
    if let Step::Begin = step {
        if slots[slot].is_none() {
            let write = collections.iter().map(|collection| collection.name.clone()).collect();
            let declared = Declared { write, ..Declared::default() };
            let real = engine().begin("_system", &declared, false).unwrap();
            let (snapshot, view) = (model.committed.clone(), model.committed.clone());
            slots[slot] =
                Some(Running { real, snapshot, view, written: Writes::new(), savepoint: None });
        }
        return;
    }
    let Some(mut running) = slots[slot].take() else { return };
    let mut outcome = (Ok(()), Ok(()));
    match *step {
        Step::Insert(key, unique) => {
            outcome.1 = model.write(slot, &mut running, key, Some(unique), true);
            outcome.0 = running.real.insert(of(key), &document(key, unique), &o).map(drop);
        }
        Step::Update(key, unique) => {
            outcome.1 = model.write(slot, &mut running, key, Some(unique), false);
            outcome.0 = running
                .real
                .update(of(key), &format!("k{key}"), &document(key, unique), &o)
                .map(drop);
        }
        Step::Remove(key) => {
            outcome.1 = model.write(slot, &mut running, key, None, false);
            outcome.0 = running.real.remove(of(key), &format!("k{key}"), None, &o).map(drop);
        }
        Step::QueryInsert(key, unique) => {
            outcome.1 = model.write(slot, &mut running, key, Some(unique), true);
            let text = format!("INSERT {{_key: 'k{key}', u: {unique}}} INTO {}", of(key).name);
            outcome.0 = query(&running, text);
        }
        Step::QueryUpdate(key, unique) => {
            outcome.1 = model.write(slot, &mut running, key, Some(unique), false);
            let text = format!("UPDATE 'k{key}' WITH {{u: {unique}}} IN {}", of(key).name);
            outcome.0 = query(&running, text);
        }
        Step::QueryRemove(key) => {
            outcome.1 = model.write(slot, &mut running, key, None, false);
            outcome.0 = query(&running, format!("REMOVE 'k{key}' IN {}", of(key).name));
        }
        Step::Get(key) => {
            let found = running.real.get(of(key), &format!("k{key}")).unwrap();
            let expected = running.view.get(&key).map(|row| (key, row.unique));
            assert_eq!(found.map(|document| seen(&[document])[0]), expected);
        }
        Step::Find(unique) => {
            let range =
                IndexRange { equals: vec![i64::from(unique).into()], ..IndexRange::default() };
            for (side, c) in collections.iter().enumerate() {
                let mut scan = running.real.index_scan(c, &c.indexes[1], 0, &range, false).unwrap();
                let found = seen(&running.real.next(&mut scan, 10).unwrap());
                let own = pairs(&running.view, side);
                let expected: Vec<_> = own.into_iter().filter(|(_, u)| *u == unique).collect();
                assert_eq!(found, expected);
            }
        }
        Step::Scan => check(&running, collections),
        Step::Savepoint => {
            let at = running.real.savepoint();
            running.savepoint = Some((at, running.view.clone(), running.written.clone()));
        }
        Step::Rollback => {
            if let Some((at, view, written)) = running.savepoint.take() {
                running.real.rollback_to(at);
                (running.view, running.written) = (view, written);
            }
        }
        Step::Commit => {
            running.real.commit(false).unwrap();
            return model.commit(slot, running);
        }
        Step::Abort => return model.end(slot),
        Step::Begin => unreachable!("handled above"),
    }
    assert_eq!(outcome.0.map_err(|error| error.code), outcome.1, "{step:?} in slot {slot}");
    slots[slot] = Some(running);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn transactions_do_what_the_model_does(steps in prop::collection::vec((0..SLOTS, any_step()), 1..80)) {
        let (c, mut model) = ([collection(), collection()], Model::default());
        let mut slots: Vec<Option<Running>> = (0..SLOTS).map(|_| None).collect();
        // Two transactions compete for some existing documents.
        let start = [Step::Begin, Step::Insert(0, 0), Step::Insert(1, 1), Step::Commit, Step::Begin];
        let start = start.into_iter().map(|step| (0, step)).chain([(1, Step::Begin)]);
        for (slot, step) in start.chain(steps).collect::<Vec<_>>() {
            follow(&mut model, &mut slots, slot, &step, &c);
        }
        drop(slots);
        let anything = Declared { allow_implicit: true, ..Declared::default() };
        let last = Running {
            real: engine().begin("_system", &anything, false).unwrap(),
            snapshot: State::new(),
            view: model.committed,
            written: Writes::new(),
            savepoint: None,
        };
        check(&last, &c);
        for collection in &c {
            engine().drop_collection("_system", &collection.name).unwrap();
        }
    }
}

/// Many threads transfer amounts between accounts. The sum of all accounts is constant, and every
/// failed update returns the error code of a conflict.
#[test]
fn concurrent_transfers_keep_the_sum() {
    let c = collection();
    let o = WriteOptions::default();
    let declared = Declared { write: vec![c.name.clone()], ..Declared::default() };
    let begin = || engine().begin("_system", &declared, false).unwrap();
    let account = |number: i64, amount: i64| {
        object(&[
            ("_key", format!("a{number}").into()),
            ("amount", amount.into()),
            ("u", number.into()),
        ])
    };
    let first = begin();
    for number in 0..5 {
        first.insert(&c, &account(number, 100), &o).unwrap();
    }
    first.commit(true).unwrap();
    let amount = |transaction: &Transaction, number: i64| {
        let document = transaction.get(&c, &format!("a{number}")).unwrap().unwrap();
        document.attribute("amount").as_f64().unwrap() as i64
    };
    let transfer = |from: i64, to: i64, sync: bool| {
        let transaction = begin();
        let amounts = (amount(&transaction, from), amount(&transaction, to));
        let moved = transaction.update(&c, &format!("a{from}"), &account(from, amounts.0 - 1), &o);
        std::thread::yield_now();
        let moved = moved.and_then(|_| {
            transaction.update(&c, &format!("a{to}"), &account(to, amounts.1 + 1), &o)
        });
        match moved {
            Ok(_) => transaction.commit(sync).map(|()| true).unwrap(),
            Err(error) => {
                assert_eq!(error.code, Code::Conflict);
                false
            }
        }
    };
    let done: usize = std::thread::scope(|scope| {
        let transfer = &transfer;
        let run = move |thread: i64| {
            let rounds =
                (0..200).map(|round| ((thread + round) % 5, 1 + (thread * 3 + round) % 4, round));
            rounds
                .filter(|(from, step, round)| transfer(*from, (from + step) % 5, round % 10 == 0))
                .count()
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let last = begin();
    assert_eq!((0..5).map(|number| amount(&last, number)).sum::<i64>(), 500);
    assert!((1..=800).contains(&done), "{done} transfers");
}

/// An exclusive transaction never conflicts, although all transactions increment a counter in the
/// same document.
#[test]
fn exclusive_transactions_never_conflict() {
    let c = collection();
    let o = WriteOptions::default();
    let name = || vec![c.name.clone()];
    let begin = |declared: Declared| engine().begin("_system", &declared, false).unwrap();
    let first = begin(Declared { write: name(), ..Declared::default() });
    first.insert(&c, &document(0, 0), &o).unwrap();
    first.commit(false).unwrap();
    let count = || {
        let own = begin(Declared { exclusive: name(), ..Declared::default() });
        let before = own.get(&c, "k0").unwrap().unwrap().attribute("u").as_f64().unwrap() as i64;
        std::thread::yield_now();
        own.update(&c, "k0", &object(&[("u", (before + 1).into())]), &o).unwrap();
        own.commit(false).unwrap();
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| count()));
        }
    });
    let last = begin(Declared { read: name(), ..Declared::default() });
    let counted = last.get(&c, "k0").unwrap().unwrap().attribute("u").as_f64();
    assert_eq!(counted, Some(400.0));
}
