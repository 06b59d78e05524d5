//! Updates the segments of one view with changed documents in bounded batches, and builds invalid
//! segments again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};

use tantivy::index::SegmentId;
use tantivy::{FutureResult, Index, IndexReader, IndexWriter, SegmentMeta};

use super::definition::{Definition, Link};
use super::entries::Entries;
use super::pending::{Pending, position};
use super::reader::{Piece, SegmentCache, ViewReader};
use super::segments::{self, Fields, SegmentDocument, failed};
use crate::encode::{Key, Record, Space, local_id_of_key, local_id_of_value, successor};
use crate::error::{Code, Error, Result};
use crate::limits::{
    VIEW_BATCH_BYTES, VIEW_DRAIN_BATCHES_MAX, VIEW_QUIET_DRAINS, VIEW_WRITER_IDLE_DRAINS,
};
use crate::schema::Collection;
use crate::storage::{Batch, Snapshot, Store};
use crate::value::{Object, Value, parse};

/// A function that decodes a stored document of a collection, with all its attributes.
pub(crate) type Whole = fn(&Collection, &[u8]) -> Result<Value>;

/// The segments of one view, and the state of their updates.
pub(super) struct View {
    definition: RwLock<Arc<Definition>>,
    /// Directory of the segments.
    directory: PathBuf,
    index: Index,
    fields: Fields,
    reader: IndexReader,
    cache: Arc<SegmentCache>,
    writing: Mutex<WriterState>,
    /// Whether the view was dropped or closed. If so, nothing may write to its segments.
    gone: AtomicBool,
    whole: Whole,
}

/// State of the writer of the view's segments.
#[derive(Default)]
struct WriterState {
    writer: Option<IndexWriter>,
    contents: Contents,
    /// The merge of segments that currently runs in a thread of the writer, if any.
    merging: Option<FutureResult<Option<SegmentMeta>>>,
    /// Number of consecutive drains (updates of the segments) that found no pending rows.
    idle: u32,
    /// The newest commit group in the last snapshot in which the view had no pending rows.
    clean: Option<u64>,
}

/// What the segments contained at their last commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Contents {
    /// The number of the store's commit group up to which the segments contain all changes.
    position: u64,
    /// Digests of the links that are completely indexed, by collection id.
    links: BTreeMap<u64, String>,
}

/// The opened segments of a view.
struct OpenSegments {
    index: Index,
    fields: Fields,
    reader: IndexReader,
    contents: Contents,
}

impl OpenSegments {
    /// Opens or creates the segments in a directory. Missing and damaged files cause an error,
    /// because the reader opens all files.
    fn open(directory: &Path) -> Result<Self> {
        make(directory)?;
        let (index, fields) = segments::open(directory)?;
        let reader = segments::reader(&index)?;
        let contents = Contents::read(&index)?;
        Ok(Self { index, fields, reader, contents })
    }
}

impl View {
    /// Opens the segments in the view's directory. If these segments are unreadable or do not match
    /// the store, empty segments replace them. The next update then fills the empty segments from
    /// the documents.
    pub(super) fn open(
        directory: &Path,
        definition: Definition,
        snapshot: &dyn Snapshot,
        whole: Whole,
    ) -> Result<Self> {
        let (name, view) = (definition.name.clone(), definition.view);
        // Panics are caught, because tantivy panics on a truncated file.
        let opened = catch_unwind(AssertUnwindSafe(|| OpenSegments::open(directory)));
        let opened = opened.unwrap_or_else(|_| {
            Err(Error::new(Code::Internal, "reading the segments ended in a panic"))
        });
        let OpenSegments { index, fields, reader, contents } = match opened {
            Ok(opened) => opened,
            Err(error) => {
                tracing::warn!(view = name, %error, "the segments of a view are built again");
                fs::remove_dir_all(directory).map_err(failed)?;
                OpenSegments::open(directory)?
            }
        };
        let mut writing = WriterState { contents, ..WriterState::default() };
        if !writing.contents.belongs(view, snapshot)? {
            tracing::warn!(
                view = name,
                "the segments of a view are built again, because they do not match the state of the store"
            );
            let mut writer = segments::writer(&index, directory)?;
            writer.delete_all_documents().map_err(failed)?;
            writing.contents = Contents::default();
            let mut prepared = writer.prepare_commit().map_err(failed)?;
            prepared.set_payload(&writing.contents.text());
            prepared.commit().map_err(failed)?;
            writing.writer = Some(writer);
            reader.reload().map_err(failed)?;
        }
        Ok(Self {
            reader,
            definition: RwLock::new(Arc::new(definition)),
            directory: directory.to_owned(),
            index,
            fields,
            cache: Arc::default(),
            writing: Mutex::new(writing),
            gone: AtomicBool::new(false),
            whole,
        })
    }

    /// Returns the current definition of the view.
    pub(super) fn definition(&self) -> Arc<Definition> {
        self.definition.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the view's definition; the next update of the segments applies the new definition.
    pub(super) fn define(&self, definition: Definition) {
        *self.definition.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(definition);
    }

    /// Returns a snapshot of the segments at the last commit, and their cache.
    pub(super) fn piece(&self) -> Piece {
        Piece { searcher: self.reader.searcher(), cache: self.cache.clone() }
    }

    /// Drains the pending rows: brings the segments up to date with all commits of the store. Ends
    /// early if `stopped` returns true.
    pub(super) fn drain(&self, store: &dyn Store, stopped: &dyn Fn() -> bool) -> Result<()> {
        let mut writing = self.lock()?;
        let stopped = || self.gone.load(Ordering::Acquire) || stopped();
        if self.gone.load(Ordering::Acquire) {
            return Ok(());
        }
        let result = self.drain_with(&mut writing, store, &stopped);
        if result.is_err() {
            // After an error, the writer and its buffer are discarded, and `contents` is read again
            // from the last commit.
            *writing = WriterState::default();
            writing.contents = Contents::read(&self.index)?;
        }
        result
    }

    /// Maintains an idle view (without changes for some rounds): merges segments in the background,
    /// one merge at a time, and computes data of frequent terms for searches. Ends early if
    /// `stopped` returns true.
    pub(super) fn tidy(&self, stopped: &dyn Fn() -> bool) -> Result<()> {
        let stopped = || self.gone.load(Ordering::Acquire) || stopped();
        {
            let mut writing = self.lock()?;
            if writing.idle < VIEW_QUIET_DRAINS || stopped() {
                return Ok(());
            }
            self.merge(&mut writing)?;
        }
        ViewReader::new(vec![self.piece()], self.fields).know(&stopped)
    }

    /// Completes a running merge, or begins a merge if segments should be merged.
    fn merge(&self, writing: &mut WriterState) -> Result<()> {
        if let Some(merging) = &mut writing.merging {
            let Poll::Ready(merged) =
                Pin::new(merging).poll(&mut Context::from_waker(Waker::noop()))
            else {
                return Ok(());
            };
            writing.merging = None;
            merged.map_err(failed)?;
        }
        // The writer starts further merges by itself. The list of segments is compared, because
        // such a merge may have ended since the last commit.
        let searchable = self.index.searchable_segment_ids().map_err(failed)?;
        let searchable: BTreeSet<_> = searchable.into_iter().collect();
        if self.segments() != searchable {
            self.renew()?;
        }
        let searcher = self.reader.searcher();
        let segments = searcher.segment_readers().iter();
        let segments = segments.map(|one| (u64::from(one.num_docs()), one.segment_id()));
        let chosen = segments::to_merge(segments.collect());
        if !chosen.is_empty() {
            let writer = self.writer(writing)?;
            let merging = writer.merge(&chosen);
            tracing::debug!(segments = chosen.len(), "segments of an idle view are merged");
            writing.merging = Some(merging);
        }
        Ok(())
    }

    /// Ends all writing to the view. A running drain (update of the segments) first completes its
    /// current batch.
    pub(super) fn end(&self) -> Result<()> {
        self.gone.store(true, Ordering::Release);
        self.lock()?.writer = None;
        Ok(())
    }

    /// Ends all writing to the view, and returns the writer, if any, so that the caller can wait
    /// for running merges.
    pub(super) fn last_writer(&self) -> Option<IndexWriter> {
        self.gone.store(true, Ordering::Release);
        self.lock().ok()?.writer.take()
    }

    fn lock(&self) -> Result<MutexGuard<'_, WriterState>> {
        self.writing.lock().or_else(|panicked| {
            // After a panic, the writer and its buffer are discarded, and `contents` is read again
            // from the last commit.
            let mut writing = panicked.into_inner();
            *writing = WriterState::default();
            writing.contents = Contents::read(&self.index)?;
            self.writing.clear_poison();
            Ok(writing)
        })
    }

    fn drain_with(
        &self,
        writing: &mut WriterState,
        store: &dyn Store,
        stopped: &dyn Fn() -> bool,
    ) -> Result<()> {
        let definition = self.definition();
        self.forget(writing, &definition, store)?;
        for link in &definition.links {
            if !writing.contents.links.contains_key(&link.collection.id)
                && !self.build(writing, &definition, link, store, stopped)?
            {
                return Ok(());
            }
        }
        // A drain reads the pending rows in one ascending pass. It does not read from the first key
        // again, because the store would have to skip all rows that the drain has removed. A new
        // row whose key is smaller than the key that the pass has reached waits for the next drain.
        // Rows that were committed before the drain are never missed, because the pass begins at
        // the first key.
        let mut from = Key::Pending(definition.view).bytes();
        for _ in 0..VIEW_DRAIN_BATCHES_MAX {
            let snapshot = store.snapshot();
            if writing.clean == Some(position(&*snapshot)?) {
                writing.rest();
                break;
            }
            let begins = from == Key::Pending(definition.view).bytes();
            let pending = Pending::read(definition.view, &from, &*snapshot)?;
            let Some(last) = pending.keys.last() else {
                if begins {
                    writing.clean = Some(pending.position);
                    writing.rest();
                }
                break;
            };
            from = [last, &[0][..]].concat();
            writing.idle = 0;
            let more = pending.more;
            self.take_in(writing, &definition, pending, store)?;
            if !more || stopped() {
                break;
            }
        }
        Ok(())
    }

    /// Removes the documents of dropped or changed links from the segments.
    fn forget(
        &self,
        writing: &mut WriterState,
        definition: &Definition,
        store: &dyn Store,
    ) -> Result<()> {
        let holds = |collection: u64, digest: &str| {
            definition
                .links
                .iter()
                .any(|link| link.collection.id == collection && link.digest == digest)
        };
        let gone: Vec<u64> = writing
            .contents
            .links
            .iter()
            .filter(|(collection, digest)| !holds(**collection, digest))
            .map(|(collection, _)| *collection)
            .collect();
        if gone.is_empty() {
            return Ok(());
        }
        for collection in gone {
            writing.contents.links.remove(&collection);
            self.remove_all(writing, collection)?;
        }
        self.commit(writing, definition.view, store)
    }

    /// Adds all documents of a link's collection to the segments. Returns `false` if `stopped`
    /// interrupted this work; the next drain of the view then adds all documents again.
    fn build(
        &self,
        writing: &mut WriterState,
        definition: &Definition,
        link: &Link,
        store: &dyn Store,
        stopped: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let snapshot = store.snapshot();
        let position = position(&*snapshot)?;
        let collection = link.collection.id;
        self.remove_all(writing, collection)?;
        let lower = Key::Documents(collection).bytes();
        let upper = successor(lower.clone()).expect("a collection's number is below the last one");
        let (mut bytes, mut count) = (0, 0_u64);
        for pair in snapshot.scan(Space::Documents, &lower, &upper, false) {
            let (key, record) = pair?;
            if stopped() {
                // The link is not recorded as complete, and dropping the writer discards the
                // uncommitted documents.
                writing.writer = None;
                return Ok(false);
            }
            self.add(writing, link, local_id_of_key(&key)?, &record)?;
            bytes += record.len();
            count += 1;
            if bytes >= VIEW_BATCH_BYTES {
                self.commit(writing, definition.view, store)?;
                bytes = 0;
            }
        }
        writing.contents.links.insert(collection, link.digest.clone());
        writing.contents.position = writing.contents.position.max(position);
        self.commit(writing, definition.view, store)?;
        tracing::info!(
            view = definition.name,
            collection = link.collection.name,
            documents = count,
            "a link of a view was built"
        );
        Ok(true)
    }

    fn add(&self, writing: &mut WriterState, link: &Link, local: u64, record: &[u8]) -> Result<()> {
        let read = (self.whole)(&link.collection, record)
            .and_then(|document| Ok((document, Record::read(record)?.revision)));
        let (document, revision) = match read {
            Ok(read) => read,
            Err(error) => {
                // An unreadable document is left out, so that other documents can still be found.
                let collection = &link.collection.name;
                tracing::error!(collection, local, %error, "a stored document cannot be read");
                return Ok(());
            }
        };
        let entries = Entries::of(&link.level, &document);
        if entries.cut {
            tracing::warn!(
                collection = link.collection.name,
                "a document has too many terms for a view; its last terms are not indexed"
            );
        }
        if !entries.any {
            return Ok(());
        }
        let document = SegmentDocument { collection: link.collection.id, local, revision, entries };
        self.fields.add(self.writer(writing)?, document)
    }

    /// Writes the documents of pending rows to the segments, commits, and removes the rows.
    fn take_in(
        &self,
        writing: &mut WriterState,
        definition: &Definition,
        pending: Pending,
        store: &dyn Store,
    ) -> Result<()> {
        let snapshot = store.snapshot();
        let position = position(&*snapshot)?.max(pending.position);
        let mut bytes = 0;
        for (local, collection) in &pending.documents {
            self.fields.remove(self.writer(writing)?, *local);
            let link = definition.links.iter().find(|link| link.collection.id == *collection);
            let key = Key::Document(*collection, *local).bytes();
            let Some(link) = link else { continue };
            if let Some(record) = snapshot.get(Space::Documents, &key)? {
                self.add(writing, link, *local, &record)?;
                bytes += record.len();
            }
            if bytes >= VIEW_BATCH_BYTES {
                // The pending rows stay until all their documents are written, so an interrupted
                // drain is repeated completely.
                self.commit(writing, definition.view, store)?;
                bytes = 0;
            }
        }
        writing.contents.position = position;
        self.commit(writing, definition.view, store)?;
        let mut batch = Batch::default();
        for key in pending.keys {
            batch.delete(Space::Indexes, key);
        }
        let key = Key::ViewPosition(definition.view);
        batch.put(key.space(), key.bytes(), position.to_be_bytes().as_slice());
        store.commit(batch, false)
    }

    /// Commits the written documents, so that queries find them. The store is synced first, because
    /// segments on disk must never be newer than the store.
    fn commit(&self, writing: &mut WriterState, view: u64, store: &dyn Store) -> Result<()> {
        store.commit(Batch::default(), true)?;
        let payload = writing.contents.text();
        match &mut writing.writer {
            Some(writer) => {
                let mut prepared = writer.prepare_commit().map_err(failed)?;
                prepared.set_payload(&payload);
                prepared.commit().map_err(failed)?;
            }
            // No document was added or removed.
            None => segments::set_payload(&self.index, &payload)?,
        }
        self.renew()?;
        let documents = self.reader.searcher().num_docs();
        tracing::debug!(view, documents, "the segments of a view were committed");
        Ok(())
    }

    /// Makes the current segments visible to searches, and removes cached data of other segments.
    fn renew(&self) -> Result<()> {
        self.reader.reload().map_err(failed)?;
        self.cache.keep_only(&self.segments());
        Ok(())
    }

    /// Returns the segments that searches see.
    fn segments(&self) -> BTreeSet<SegmentId> {
        let searcher = self.reader.searcher();
        searcher.segment_readers().iter().map(|segment| segment.segment_id()).collect()
    }

    /// Removes all documents of a collection from the segments.
    fn remove_all(&self, writing: &mut WriterState, collection: u64) -> Result<()> {
        if writing.writer.is_some() || self.reader.searcher().num_docs() > 0 {
            self.fields.remove_all(self.writer(writing)?, collection);
        }
        Ok(())
    }

    fn writer<'a>(&self, writing: &'a mut WriterState) -> Result<&'a mut IndexWriter> {
        if writing.writer.is_none() {
            writing.writer = Some(segments::writer(&self.index, &self.directory)?);
        }
        Ok(writing.writer.as_mut().expect("made above"))
    }
}

impl WriterState {
    /// Counts a drain (update of the segments) that found no pending rows. After
    /// `VIEW_WRITER_IDLE_DRAINS` such drains, drops the writer, which frees the writer's thread and
    /// buffer.
    fn rest(&mut self) {
        self.idle = self.idle.saturating_add(1);
        if self.idle >= VIEW_WRITER_IDLE_DRAINS && self.merging.is_none() {
            self.writer = None;
        }
    }
}

impl Contents {
    fn read(index: &Index) -> Result<Self> {
        let Some(text) = segments::payload(index)? else { return Ok(Self::default()) };
        let value = parse(text.as_bytes())?;
        let number = |value: Value| match value {
            Value::Int(number) => u64::try_from(number).ok(),
            Value::UInt(number) => Some(number),
            _ => None,
        };
        let links = value.attribute("links");
        let links = links.as_object().into_iter().flat_map(Object::iter);
        Ok(Self {
            position: number(value.attribute("position")).unwrap_or(0),
            links: links
                .filter_map(|(collection, digest)| {
                    Some((collection.parse().ok()?, digest.as_str()?.to_owned()))
                })
                .collect(),
        })
    }

    fn text(&self) -> String {
        let mut links = Object::new();
        for (collection, digest) in &self.links {
            links.push_new(collection.to_string(), digest.as_str().into());
        }
        let mut out = Object::new();
        out.push_new("position", self.position.into());
        out.push_new("links", Value::object(links));
        Value::object(out).to_json()
    }

    /// Whether the segments match the store: they contain all changes whose pending rows were
    /// removed, and no changes that are missing in the store.
    fn belongs(&self, view: u64, snapshot: &dyn Snapshot) -> Result<bool> {
        let key = Key::ViewPosition(view);
        let taken_in = snapshot.get(key.space(), &key.bytes())?;
        let taken_in = taken_in.map_or(Ok(0), |value| local_id_of_value(&value))?;
        Ok((taken_in..=position(snapshot)?).contains(&self.position))
    }
}

fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).map_err(failed)
}
