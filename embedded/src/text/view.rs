//! One view's segments: brought up to the documents in bounded batches, and built again where they no longer hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};

use tantivy::index::SegmentId;
use tantivy::{FutureResult, Index, IndexReader, IndexWriter, SegmentMeta};

use super::definition::{Definition, Link};
use super::entries::Entries;
use super::pending::{Pending, position};
use super::reader::{Known, Piece, Reader};
use super::segments::{self, Entry, Fields, failed};
use crate::encode::{Key, Record, Space, local_id_of_key, local_id_of_value, successor};
use crate::error::{Code, Error, Result};
use crate::limits::{
    VIEW_BATCH_BYTES, VIEW_DRAIN_BATCHES_MAX, VIEW_QUIET_DRAINS, VIEW_WRITER_IDLE_DRAINS,
};
use crate::schema::Collection;
use crate::storage::{Batch, Snapshot, Store};
use crate::value::{Object, Value, parse};

/// A stored record of a collection as a whole document.
pub(crate) type Whole = fn(&Collection, &[u8]) -> Result<Value>;

/// The segments of one view.
pub(super) struct View {
    definition: RwLock<Arc<Definition>>,
    index: Index,
    fields: Fields,
    reader: IndexReader,
    known: Arc<Known>,
    writing: Mutex<Writing>,
    /// Whether it was dropped: nothing is written any more.
    gone: AtomicBool,
    whole: Whole,
}

/// What only the one who writes needs.
#[derive(Default)]
struct Writing {
    writer: Option<IndexWriter>,
    contents: Contents,
    /// Segments that are being made one, in a thread of the writer.
    merging: Option<FutureResult<Option<SegmentMeta>>>,
    /// Drains in a row that found nothing to do.
    idle: u32,
    /// The group of commits at which there were no pending rows.
    clean: Option<u64>,
}

/// What the segments say they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Contents {
    /// The store's group of commits up to which they hold everything.
    position: u64,
    /// Digests of the links that are whole, by collection.
    links: BTreeMap<u64, String>,
}

/// Segments that can be read.
struct Opened {
    index: Index,
    fields: Fields,
    reader: IndexReader,
    contents: Contents,
}

impl Opened {
    /// Opens or makes them; a file that is missing or damaged shows here, since the reader opens all of them.
    fn open(directory: &Path) -> Result<Self> {
        make(directory)?;
        let (index, fields) = segments::open(directory)?;
        let reader = segments::reader(&index)?;
        let contents = Contents::read(&index)?;
        Ok(Self { index, fields, reader, contents })
    }
}

impl View {
    /// Opens the segments in a directory of their own. Where they cannot be read, or do not belong to this state of the
    /// store, they count as empty and the next drain builds them again.
    pub(super) fn open(
        directory: &Path,
        definition: Definition,
        snapshot: &dyn Snapshot,
        whole: Whole,
    ) -> Result<Self> {
        let (name, view) = (definition.name.clone(), definition.view);
        // A file that is cut short makes tantivy panic.
        let opened = catch_unwind(AssertUnwindSafe(|| Opened::open(directory)));
        let opened = opened.unwrap_or_else(|_| {
            Err(Error::new(Code::Internal, "reading the segments ended in a panic"))
        });
        let Opened { index, fields, reader, contents } = match opened {
            Ok(opened) => opened,
            Err(error) => {
                tracing::warn!(view = name, %error, "the segments of a view are built again");
                fs::remove_dir_all(directory).map_err(failed)?;
                Opened::open(directory)?
            }
        };
        let mut writing = Writing { contents, ..Writing::default() };
        if !writing.contents.belongs(view, snapshot)? {
            tracing::warn!(
                view = name,
                "the segments of a view are built again, since they belong to another state of the store"
            );
            let mut writer = segments::writer(&index)?;
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
            index,
            fields,
            known: Arc::default(),
            writing: Mutex::new(writing),
            gone: AtomicBool::new(false),
            whole,
        })
    }

    /// The definition as it is now.
    pub(super) fn definition(&self) -> Arc<Definition> {
        self.definition.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the definition; the next drain follows.
    pub(super) fn define(&self, definition: Definition) {
        *self.definition.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(definition);
    }

    /// The segments as they were committed last.
    pub(super) fn piece(&self) -> Piece {
        Piece { searcher: self.reader.searcher(), known: self.known.clone() }
    }

    /// Brings the segments up to all that is committed now; ends early when `stopped`.
    pub(super) fn drain(&self, store: &dyn Store, stopped: &dyn Fn() -> bool) -> Result<()> {
        let mut writing = self.lock()?;
        let stopped = || self.gone.load(Ordering::Acquire) || stopped();
        if self.gone.load(Ordering::Acquire) {
            return Ok(());
        }
        let result = self.drain_with(&mut writing, store, &stopped);
        if result.is_err() {
            // What the writer held is lost with it; the segments say what they hold.
            *writing = Writing::default();
            writing.contents = Contents::read(&self.index)?;
        }
        result
    }

    /// Uses a quiet while: makes few segments of many, one merge at a time in the background, and what searches need to know of
    /// frequent terms. Ends early when `stopped`.
    pub(super) fn tidy(&self, stopped: &dyn Fn() -> bool) -> Result<()> {
        let stopped = || self.gone.load(Ordering::Acquire) || stopped();
        {
            let mut writing = self.lock()?;
            if writing.idle < VIEW_QUIET_DRAINS || stopped() {
                return Ok(());
            }
            self.merge(&mut writing)?;
        }
        Reader::new(vec![self.piece()], self.fields).know(&stopped)
    }

    /// Looks after a merge that is under way, or begins one if there is something to merge.
    fn merge(&self, writing: &mut Writing) -> Result<()> {
        if let Some(merging) = &mut writing.merging {
            let Poll::Ready(merged) =
                Pin::new(merging).poll(&mut Context::from_waker(Waker::noop()))
            else {
                return Ok(());
            };
            writing.merging = None;
            merged.map_err(failed)?;
        }
        // Merges of the writer's own policy may have ended since the last commit.
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
            tracing::debug!(segments = chosen.len(), "segments of a quiet view are made one");
            writing.merging = Some(merging);
        }
        Ok(())
    }

    /// Ends all writing for good; a drain that is under way ends with its batch first.
    pub(super) fn end(&self) -> Result<()> {
        self.gone.store(true, Ordering::Release);
        self.lock()?.writer = None;
        Ok(())
    }

    /// The writer, if there is one, for whoever waits for its merges; nothing is written any more.
    pub(super) fn last_writer(&self) -> Option<IndexWriter> {
        self.gone.store(true, Ordering::Release);
        self.lock().ok()?.writer.take()
    }

    fn lock(&self) -> Result<MutexGuard<'_, Writing>> {
        self.writing.lock().or_else(|panicked| {
            // What the writer held went with the one who panicked; the segments say what they hold.
            let mut writing = panicked.into_inner();
            *writing = Writing::default();
            writing.contents = Contents::read(&self.index)?;
            self.writing.clear_poison();
            Ok(writing)
        })
    }

    fn drain_with(
        &self,
        writing: &mut Writing,
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
        // The rows of one drain are read in one sweep, since the store has to pass over each that was dropped before. What
        // lands behind the sweep is for the next one; all that was committed before it lies ahead.
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

    /// Removes what belongs to links that are gone or changed.
    fn forget(
        &self,
        writing: &mut Writing,
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
            self.fields.remove_all(self.writer(writing)?, collection);
        }
        self.commit(writing, definition.view, store)
    }

    /// Writes all documents of a link; false if `stopped` came first, and then the next drain begins anew.
    fn build(
        &self,
        writing: &mut Writing,
        definition: &Definition,
        link: &Link,
        store: &dyn Store,
        stopped: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let snapshot = store.snapshot();
        let position = position(&*snapshot)?;
        let collection = link.collection.id;
        self.fields.remove_all(self.writer(writing)?, collection);
        let lower = Key::Documents(collection).bytes();
        let upper = successor(lower.clone()).expect("a collection's number is below the last one");
        let (mut bytes, mut count) = (0, 0_u64);
        for pair in snapshot.scan(Space::Documents, &lower, &upper, false) {
            let (key, record) = pair?;
            if stopped() {
                // Nothing of it is committed as whole; what is written goes with the writer.
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

    fn add(&self, writing: &mut Writing, link: &Link, local: u64, record: &[u8]) -> Result<()> {
        let read = (self.whole)(&link.collection, record)
            .and_then(|document| Ok((document, Record::read(record)?.revision)));
        let (document, revision) = match read {
            Ok(read) => read,
            Err(error) => {
                // One that nobody can read keeps no other one from being found.
                let collection = &link.collection.name;
                tracing::error!(collection, local, %error, "a stored document cannot be read");
                return Ok(());
            }
        };
        let entries = Entries::of(&link.level, &document);
        if entries.cut {
            tracing::warn!(
                collection = link.collection.name,
                "a document has more terms than a view holds of one; the rest is not found"
            );
        }
        if !entries.any {
            return Ok(());
        }
        let entry = Entry { collection: link.collection.id, local, revision, entries };
        self.fields.add(self.writer(writing)?, entry)
    }

    /// Writes what pending rows name, commits it, and drops the rows.
    fn take_in(
        &self,
        writing: &mut Writing,
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
                // The rows stay until all of them are in; they are taken in again should this be as far as it goes.
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

    /// Commits what was written, for queries to see. The store is synced first: segments never outlive what they hold.
    fn commit(&self, writing: &mut Writing, view: u64, store: &dyn Store) -> Result<()> {
        store.commit(Batch::default(), true)?;
        let payload = writing.contents.text();
        let writer = self.writer(writing)?;
        let mut prepared = writer.prepare_commit().map_err(failed)?;
        prepared.set_payload(&payload);
        prepared.commit().map_err(failed)?;
        self.renew()?;
        let documents = self.reader.searcher().num_docs();
        tracing::debug!(view, documents, "the segments of a view were committed");
        Ok(())
    }

    /// Has searches see the segments as they are now.
    fn renew(&self) -> Result<()> {
        self.reader.reload().map_err(failed)?;
        self.known.keep_only(&self.segments());
        Ok(())
    }

    /// The segments that searches see.
    fn segments(&self) -> BTreeSet<SegmentId> {
        let searcher = self.reader.searcher();
        searcher.segment_readers().iter().map(|segment| segment.segment_id()).collect()
    }

    fn writer<'a>(&self, writing: &'a mut Writing) -> Result<&'a mut IndexWriter> {
        if writing.writer.is_none() {
            writing.writer = Some(segments::writer(&self.index)?);
        }
        Ok(writing.writer.as_mut().expect("made above"))
    }
}

impl Writing {
    /// Lets the writer with its thread and its buffer go once nothing was to do for a while.
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

    /// Whether segments and store belong together: neither knows of something that the other has lost.
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
