//! All keys of the store, as one enum, and the three key spaces.

use crate::error::{Code, Error, Result};

/// A key space: one tree of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Space {
    /// Definitions, counters and settings.
    Meta = 0,
    /// Documents, by collection and local document id.
    Documents = 1,
    /// Index entries.
    Indexes = 2,
}

impl Space {
    /// All key spaces, by number.
    pub(crate) const ALL: [Self; 3] = [Self::Meta, Self::Documents, Self::Indexes];

    /// The name under which the store keeps the key space.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Documents => "documents",
            Self::Indexes => "indexes",
        }
    }
}

/// A key, or the common prefix of several keys. Numbers in keys are big-endian, so that keys sort
/// by number.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::enum_variant_names, reason = "the highest key is called the last key")]
pub(crate) enum Key<'a> {
    /// Version of the store's format. A store without this key belongs to another program.
    Format,
    /// Upper bound of all revisions assigned so far (8 bytes).
    RevisionCeiling,
    /// Upper bound of all ids assigned so far (8 bytes).
    IdCeiling,
    /// The number of the newest group of commits, and the number of the newest group that was
    /// already synced when this group was written (`Mark`).
    Mark,
    /// A database: number → definition.
    Database(u64),
    /// All databases.
    Databases,
    /// A collection with its indexes: database, collection → definition.
    Collection(u64, u64),
    /// All collections of a database.
    Collections(u64),
    /// A view: database, name → definition.
    View(u64, &'a str),
    /// An analyzer: database, name → definition.
    Analyzer(u64, &'a str),
    /// A named graph: database, name → definition.
    Graph(u64, &'a str),
    /// A durable setting of the server, such as the table of users and their grants.
    Setting(&'a str),
    /// Number of documents of a collection (8 bytes).
    Count(u64),
    /// Largest numeric key of a collection, for key generators that need it (8 bytes).
    LastKey(u64),
    /// A key range to be removed, whose collection, index or view was dropped: id → key space and
    /// prefix.
    Leftover(u64),
    /// All key ranges to be removed.
    Leftovers,
    /// A document: collection, local document id → record.
    Document(u64, u64),
    /// All documents of a collection.
    Documents(u64),
    /// Primary index: collection, `_key` in ordered form → local document id.
    Primary(u64),
    /// Edge index by `_from`: collection, `_from` in ordered form, local document id → empty value.
    EdgeFrom(u64),
    /// Edge index by `_to`, in the format of `EdgeFrom`.
    EdgeTo(u64),
    /// Sorted index: index id, fields in ordered form, local document id → empty value.
    Sorted(u64),
    /// Unique index: index id, fields in ordered form → local document id.
    Unique(u64),
    /// All data of a vector index, by the index's id.
    Vector(u64),
    /// State of a vector index: index id → `Standing`.
    VectorStanding(u64),
    /// A centroid of a vector index: index, list → components.
    VectorCentroid(u64, u32),
    /// All centroids of a vector index.
    VectorCentroids(u64),
    /// The list that contains a document's vector: vector index, local id → list (4 bytes).
    VectorPlace(u64, u64),
    /// The list numbers of all vectors of a vector index.
    VectorPlaces(u64),
    /// A vector: vector index, list, local document id → components.
    VectorEntry(u64, u32, u64),
    /// All vectors of one list of a vector index.
    VectorList(u64, u32),
    /// All vectors of a vector index, list by list.
    VectorLists(u64),
    /// A document that a view has not processed yet: view id, revision → collection, local id.
    Pending(u64),
    /// One pending row of a view.
    PendingRow(u64, u64),
    /// The newest group of commits that a view has processed completely (8 bytes).
    ViewPosition(u64),
}

impl Key<'_> {
    /// The key space to which the key belongs.
    pub(crate) fn space(&self) -> Space {
        match self {
            Self::Document(..) | Self::Documents(_) => Space::Documents,
            Self::Primary(_)
            | Self::EdgeFrom(_)
            | Self::EdgeTo(_)
            | Self::Sorted(_)
            | Self::Unique(_)
            | Self::Vector(_)
            | Self::VectorStanding(_)
            | Self::VectorCentroid(..)
            | Self::VectorCentroids(_)
            | Self::VectorPlace(..)
            | Self::VectorPlaces(_)
            | Self::VectorEntry(..)
            | Self::VectorList(..)
            | Self::VectorLists(_)
            | Self::Pending(_)
            | Self::PendingRow(..) => Space::Indexes,
            _ => Space::Meta,
        }
    }

    /// The bytes of the key.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match *self {
            Self::Format => vec![0x01],
            Self::RevisionCeiling => vec![0x02],
            Self::IdCeiling => vec![0x03],
            Self::Mark => vec![0x04],
            Self::Databases => vec![0x10],
            Self::Database(id) => numbered(0x10, &[id], ""),
            Self::Collections(database) => numbered(0x11, &[database], ""),
            Self::Collection(database, id) => numbered(0x11, &[database, id], ""),
            Self::View(database, name) => numbered(0x12, &[database], name),
            Self::Analyzer(database, name) => numbered(0x13, &[database], name),
            Self::Graph(database, name) => numbered(0x14, &[database], name),
            Self::Setting(name) => numbered(0x20, &[], name),
            Self::Count(collection) => numbered(0x30, &[collection], ""),
            Self::LastKey(collection) => numbered(0x31, &[collection], ""),
            Self::Leftovers => vec![0x40],
            Self::Leftover(id) => numbered(0x40, &[id], ""),
            Self::Documents(collection) => collection.to_be_bytes().to_vec(),
            Self::Document(collection, local) => document_key(collection, local).to_vec(),
            Self::Primary(collection) => numbered(0x01, &[collection], ""),
            Self::EdgeFrom(collection) => numbered(0x02, &[collection], ""),
            Self::EdgeTo(collection) => numbered(0x03, &[collection], ""),
            Self::Sorted(index) => numbered(0x04, &[index], ""),
            Self::Unique(index) => numbered(0x05, &[index], ""),
            Self::Vector(index) => numbered(0x10, &[index], ""),
            Self::VectorStanding(index) => of_vector(index, 0x01, &[]),
            Self::VectorCentroids(index) => of_vector(index, 0x02, &[]),
            Self::VectorCentroid(index, list) => of_vector(index, 0x02, &list.to_be_bytes()),
            Self::VectorPlaces(index) => of_vector(index, 0x03, &[]),
            Self::VectorPlace(index, local) => of_vector(index, 0x03, &local.to_be_bytes()),
            Self::VectorLists(index) => of_vector(index, 0x04, &[]),
            Self::VectorList(index, list) => of_vector(index, 0x04, &list.to_be_bytes()),
            Self::VectorEntry(index, list, local) => {
                let mut bytes = of_vector(index, 0x04, &list.to_be_bytes());
                bytes.extend_from_slice(&local.to_be_bytes());
                bytes
            }
            Self::Pending(view) => numbered(0x06, &[view], ""),
            Self::PendingRow(view, revision) => numbered(0x06, &[view, revision], ""),
            Self::ViewPosition(view) => numbered(0x32, &[view], ""),
        }
    }
}

/// The bytes of [`Key::Document`].
pub(crate) fn document_key(collection: u64, local: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&collection.to_be_bytes());
    bytes[8..].copy_from_slice(&local.to_be_bytes());
    bytes
}

/// The record at the head of each group of commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The number of the group of commits; each new group's number is larger by one.
    pub(crate) number: u64,
    /// The number of the newest group that was already synced when this group was written.
    pub(crate) synced: u64,
}

impl Mark {
    /// Returns the sixteen bytes of the record.
    pub(crate) fn write(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..].copy_from_slice(&self.synced.to_be_bytes());
        bytes
    }

    /// Decodes the bytes that `write` produced; returns `None` for other bytes.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (number, synced) = bytes.split_first_chunk::<8>()?;
        let synced = synced.try_into().ok()?;
        Some(Self { number: u64::from_be_bytes(*number), synced: u64::from_be_bytes(synced) })
    }
}

fn numbered(kind: u8, numbers: &[u64], name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    bytes.push(kind);
    for number in numbers {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(name.as_bytes());
    bytes
}

fn of_vector(index: u64, part: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = numbered(0x10, &[index], "");
    bytes.push(part);
    bytes.extend_from_slice(rest);
    bytes
}

/// Returns the number of the list in a vector's key.
pub(crate) fn list_of_key(key: &[u8]) -> Result<u32> {
    let list = key.get(10..).and_then(<[u8]>::first_chunk).copied();
    list.map(u32::from_be_bytes).ok_or_else(damaged)
}

/// Returns the numbers of the index and the list in a vector's key; `None` for any other key.
pub(crate) fn vector_list_of_key(key: &[u8]) -> Option<(u64, u32)> {
    let (kind, rest) = key.split_first()?;
    let (index, rest) = rest.split_first_chunk()?;
    let (part, rest) = rest.split_first()?;
    let (list, local) = rest.split_first_chunk()?;
    let is_vector = (*kind, *part, local.len()) == (0x10, 0x04, 8);
    is_vector.then(|| (u64::from_be_bytes(*index), u32::from_be_bytes(*list)))
}

/// Returns the number of the list in the value that is stored under a [`Key::VectorPlace`].
pub(crate) fn list_of_value(value: &[u8]) -> Result<u32> {
    value.try_into().map(u32::from_be_bytes).map_err(|_| damaged())
}

/// Returns the local document id at the end of the key of a document or index entry.
pub(crate) fn local_id_of_key(key: &[u8]) -> Result<u64> {
    key.last_chunk::<8>().map(|last| u64::from_be_bytes(*last)).ok_or_else(damaged)
}

/// Returns the number in the value of a counter, a primary index entry or a unique index entry.
pub(crate) fn local_id_of_value(value: &[u8]) -> Result<u64> {
    value.try_into().map(u64::from_be_bytes).map_err(|_| damaged())
}

fn damaged() -> Error {
    Error::new(Code::Internal, "a stored index entry is damaged")
}
