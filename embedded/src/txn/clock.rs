//! Generates revisions and ids that always increase, even across restarts and changes of the system
//! clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::encode::{Key, Space, local_id_of_value};
use crate::error::Result;
use crate::limits::{CLOCK_CEILING_MS, ID_CEILING_STEP};
use crate::storage::{Batch, Snapshot};

/// Number of low bits of a revision that are a counter; the other bits are milliseconds.
const COUNTER_BITS: u32 = 20;
/// The alphabet of ArangoDB's base-64 encoding of `_rev`.
const ALPHABET: &[u8; 64] = b"-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Generates revisions and ids that are unique in the whole engine. A revision is a hybrid logical
/// clock: `milliseconds << 20 | counter`.
///
/// The store contains an upper bound (ceiling) of revisions and another of ids. A restarted engine
/// begins above these ceilings. If a commit uses a revision or id above the stored ceiling, the
/// same batch raises the ceiling, so that the ceiling is as durable as the commit.
#[derive(Debug)]
pub(crate) struct Clock {
    revision: AtomicU64,
    revision_ceiling: AtomicU64,
    id: AtomicU64,
    id_ceiling: AtomicU64,
}

/// The new upper bounds of revisions and ids that a batch stores. The bounds become valid when the
/// batch is written; 0 means that a bound is unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ceilings {
    revision: u64,
    id: u64,
}

impl Clock {
    /// Creates a clock that begins above all revisions and ids in the store.
    pub(crate) fn load(snapshot: &dyn Snapshot) -> Result<Self> {
        let read = |key: Key<'_>| -> Result<u64> {
            let value = snapshot.get(Space::Meta, &key.bytes())?;
            value.map_or(Ok(0), |value| local_id_of_value(&value))
        };
        let revision = read(Key::RevisionCeiling)?;
        // Small ids are never assigned: 0 and 1 are the ids of the primary and the edge index.
        let id = read(Key::IdCeiling)?.max(100);
        Ok(Self {
            revision: AtomicU64::new(revision),
            revision_ceiling: AtomicU64::new(revision),
            id: AtomicU64::new(id),
            id_ceiling: AtomicU64::new(id),
        })
    }

    /// Returns a new revision, which is larger than all earlier ones.
    pub(crate) fn revision(&self) -> u64 {
        self.revisions(1)
    }

    /// Reserves `count` consecutive revisions, all larger than all earlier ones, and returns the
    /// first.
    pub(crate) fn revisions(&self, count: u64) -> u64 {
        let milliseconds =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let now = u64::try_from(milliseconds).unwrap_or(0) << COUNTER_BITS;
        let first = |last: u64| now.max(last + 1);
        let last = self.revision.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| {
            Some(first(last) + count.saturating_sub(1))
        });
        first(last.expect("the closure always answers"))
    }

    /// Returns a new id, which is larger than all earlier ones.
    pub(crate) fn id(&self) -> u64 {
        self.id.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Adds new ceilings to a batch if revisions or ids above the stored ceilings were assigned.
    pub(crate) fn put_ceilings(&self, batch: &mut Batch) -> Ceilings {
        let mut ceilings = Ceilings::default();
        let revision = self.revision.load(Ordering::Acquire);
        if revision > self.revision_ceiling.load(Ordering::Acquire) {
            ceilings.revision = revision + (CLOCK_CEILING_MS << COUNTER_BITS);
            batch.raise(Space::Meta, Key::RevisionCeiling.bytes(), ceilings.revision);
        }
        let id = self.id.load(Ordering::Acquire);
        if id > self.id_ceiling.load(Ordering::Acquire) {
            ceilings.id = id + ID_CEILING_STEP;
            batch.raise(Space::Meta, Key::IdCeiling.bytes(), ceilings.id);
        }
        ceilings
    }

    /// Records that the batch with these ceilings was written.
    pub(crate) fn written(&self, ceilings: Ceilings) {
        self.revision_ceiling.fetch_max(ceilings.revision, Ordering::AcqRel);
        self.id_ceiling.fetch_max(ceilings.id, Ordering::AcqRel);
    }
}

/// A `_rev` as text: base 64 in ArangoDB's alphabet, without leading zeros.
pub(crate) struct Revision {
    digits: [u8; 11],
    start: usize,
}

impl Revision {
    /// Encodes a revision.
    pub(crate) fn of(revision: u64) -> Self {
        let mut digits = [0u8; 11];
        let mut start = digits.len();
        let mut rest = revision;
        while rest > 0 {
            start -= 1;
            digits[start] = ALPHABET[(rest & 63) as usize];
            rest >>= 6;
        }
        Self { digits, start }
    }

    /// Returns the revision as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.digits[self.start..]).expect("the alphabet is ASCII")
    }
}

/// Returns the text of a `_rev` as a new string.
pub(crate) fn revision_text(revision: u64) -> String {
    Revision::of(revision).text().to_owned()
}

/// Appends the text of a `_rev`.
pub(crate) fn put_revision(revision: u64, out: &mut String) {
    out.push_str(Revision::of(revision).text());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{MemoryStore, Store};

    #[test]
    fn revisions_grow_and_start_above_what_was_committed() {
        let store = MemoryStore::default();
        let clock = Clock::load(&*store.snapshot()).unwrap();
        let (first, second) = (clock.revision(), clock.revision());
        assert!(first < second);
        let many = clock.revisions(5);
        assert!(second < many && many + 4 < clock.revision());
        let (mut batch, id) = (Batch::default(), clock.id());
        let ceilings = clock.put_ceilings(&mut batch);
        store.commit(batch, true).unwrap();
        clock.written(ceilings);
        let mut none = Batch::default();
        clock.put_ceilings(&mut none);
        assert!(none.is_empty(), "one ceiling serves many commits");
        let later = Clock::load(&*store.snapshot()).unwrap();
        assert!(later.revision() > second && later.id() > id);
    }

    #[test]
    fn revision_text_is_arangodbs() {
        for (revision, text) in [(0, ""), (1, "_"), (63, "9"), (64, "_-"), (1 << 20, "C---")] {
            assert_eq!(revision_text(revision), text);
        }
        assert_eq!(revision_text(1_700_000_000_000 << 20).len(), 11);
    }
}
