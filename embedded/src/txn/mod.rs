//! Transactions, each with a snapshot, an overlay of its own writes, key locks and one commit.

mod cells;
mod clock;
mod collection_locks;
mod locks;
mod options;
mod overlay;
mod read;
mod registry;
mod stored;
mod transaction;
mod vectors;

pub(crate) use clock::{Clock, put_revision, revision_text};
pub(crate) use collection_locks::{CollectionGuard, CollectionLocks};
pub(crate) use locks::{Grant, Locks};
pub(crate) use options::REVISIONS_DIFFER;
pub use options::{Declared, IndexRange, OverwriteMode, WriteOptions, Written};
pub use read::Scan;
pub(crate) use read::{head, key_of_primary, part, primary_key, whole};
pub(crate) use registry::RegistrySettings;
pub use registry::{Lent, Registry, StreamSettings};
pub use transaction::Transaction;
pub(crate) use transaction::{Beginning, Resources, State};
pub(crate) use vectors::{InTraining, Vectors, Wanted, not_ready, range, standing};
