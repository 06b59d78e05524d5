//! The segments of a view as a tantivy index; all views have the same tantivy schema.

use std::fs;
use std::path::Path;

use tantivy::directory::Directory as _;
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use tantivy::schema::{
    Field, IndexRecordOption, JsonObjectOptions, NumericOptions, OwnedValue, Schema,
    TextFieldIndexing, TextOptions,
};
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, TantivyDocument, Term};
use xxhash_rust::xxh3::xxh3_128;

use super::entries::Entries;
use crate::error::{Code, Error, Result};
use crate::limits::{VIEW_QUIET_MERGE_DOCUMENTS_MAX, VIEW_WRITER_BYTES};

/// Share of removed documents in a segment above which the segment is merged (ArangoDB:
/// `minDeletionRatio` 0.5).
const REMOVED_SHARE_MAX: f32 = 0.5;

/// Name of the file that lists the segments (tantivy: `META_FILEPATH`).
const META_FILE: &str = "meta.json";

const LOCAL: &str = "local";
const COLLECTION: &str = "collection";
const REVISION: &str = "revision";
const TERMS: &str = "terms";
const LENGTHS: &str = "lengths";

/// The tantivy fields that every segment has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    /// Local id of the document, which is unique among all documents of the engine.
    local: Field,
    /// Id of the document's collection.
    collection: Field,
    /// Revision of the document at the time of indexing.
    revision: Field,
    /// All terms; each term begins with the path of its attribute.
    pub(super) terms: Field,
    /// For each attribute, a column with the attribute's length and a column with its numeric
    /// values.
    lengths: Field,
}

/// A document to be added to a segment.
#[derive(Debug)]
pub(super) struct SegmentDocument {
    /// Id of the document's collection.
    pub(super) collection: u64,
    /// Local id of the document.
    pub(super) local: u64,
    /// Revision of the document.
    pub(super) revision: u64,
    /// The terms and lengths to index.
    pub(super) entries: Entries,
}

/// Names of the columns from which a search reads a hit.
pub(super) const COLUMNS: [&str; 3] = [LOCAL, COLLECTION, REVISION];

fn schema() -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let key = NumericOptions::default().set_indexed().set_fast();
    let local = builder.add_u64_field(LOCAL, key.clone());
    let collection = builder.add_u64_field(COLLECTION, key);
    let revision = builder.add_u64_field(REVISION, NumericOptions::default().set_fast());
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("raw")
        .set_fieldnorms(false)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let terms =
        builder.add_text_field(TERMS, TextOptions::default().set_indexing_options(indexing));
    let lengths = builder.add_json_field(LENGTHS, JsonObjectOptions::default().set_fast("raw"));
    (builder.build(), Fields { local, collection, revision, terms, lengths })
}

/// Returns the tantivy fields that every segment has.
pub(super) fn fields() -> Fields {
    schema().1
}

/// Opens the tantivy index in a directory, or creates an empty one.
pub(super) fn open(directory: &Path) -> Result<(Index, Fields)> {
    let (wanted, fields) = schema();
    let index = if directory.join(META_FILE).exists() {
        Index::open_in_dir(directory).map_err(failed)?
    } else {
        Index::create_in_dir(directory, wanted.clone()).map_err(failed)?
    };
    if index.schema() != wanted {
        return Err(Error::new(Code::SystemError, "the segments have unexpected fields"));
    }
    // The checksums of all files are verified here, because readers do not verify them, and a
    // changed byte would give wrong results.
    let damaged = index.validate_checksum().map_err(failed)?;
    if let Some(file) = damaged.iter().next() {
        let text = format!("{} is damaged", directory.join(file).display());
        return Err(Error::new(Code::SystemError, text));
    }
    Ok((index, fields))
}

/// Returns a reader, which sees new segments only after a reload.
pub(super) fn reader(index: &Index) -> Result<IndexReader> {
    index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into().map_err(failed)
}

/// Creates the writer of the segments in a directory; only one writer may exist at a time.
pub(super) fn writer(index: &Index, directory: &Path) -> Result<IndexWriter> {
    let options = IndexWriterOptions::builder()
        .num_worker_threads(1)
        .num_merge_threads(1)
        .memory_budget_per_thread(VIEW_WRITER_BYTES)
        .build();
    let writer: IndexWriter = index.writer_with_options(options).map_err(failed)?;
    remove_uncommitted(index, directory)?;
    let mut policy = LogMergePolicy::default();
    policy.set_del_docs_ratio_before_merge(REMOVED_SHARE_MAX);
    writer.set_merge_policy(Box::new(policy));
    Ok(writer)
}

/// Removes lists of removed documents that no commit contains. A power loss or an error in the
/// middle of a commit leaves such files. The next commit may need a file of the same name, and
/// tantivy does not write to a file that exists.
fn remove_uncommitted(index: &Index, directory: &Path) -> Result<()> {
    let committed = index.load_metas().map_err(failed)?.opstamp;
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let stamp = name.to_str().and_then(|name| {
            let (_, stamp) = name.strip_suffix(".del")?.rsplit_once('.')?;
            stamp.parse::<u64>().ok()
        });
        if stamp.is_some_and(|stamp| stamp > committed) {
            fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

/// Chooses the segments to merge: as many as possible, beginning with the smallest. The largest
/// chosen segment has at most twice as many documents as the other chosen segments together, so the
/// merged segment has at least 1.5 times as many documents as the largest chosen segment.
pub(super) fn to_merge<S: Copy>(mut segments: Vec<(u64, S)>) -> Vec<S> {
    segments.sort_by_key(|(documents, _)| *documents);
    let (mut smaller, mut count) = (0_u64, 0);
    for (at, (documents, _)) in segments.iter().enumerate() {
        let sum = smaller.saturating_add(*documents);
        if at > 0 && sum <= VIEW_QUIET_MERGE_DOCUMENTS_MAX && *documents <= 2 * smaller {
            count = at + 1;
        }
        smaller = sum;
    }
    segments[..count].iter().map(|(_, segment)| *segment).collect()
}

/// Returns the text that the last commit of the segments stored together with the segments.
pub(super) fn payload(index: &Index) -> Result<Option<String>> {
    Ok(index.load_metas().map_err(failed)?.payload)
}

/// Stores a text together with the segments of the last commit. This needs no writer, whose queue
/// has room for ten thousand documents (2.4 MB). There must be no writer.
pub(super) fn set_payload(index: &Index, text: &str) -> Result<()> {
    let mut metas = index.load_metas().map_err(failed)?;
    metas.payload = Some(text.to_owned());
    let bytes = serde_json::to_vec(&metas).map_err(failed)?;
    let directory = index.directory();
    directory.sync_directory().map_err(failed)?;
    directory.atomic_write(Path::new(META_FILE), &bytes).map_err(failed)
}

impl Fields {
    /// Adds a document; the caller must first remove any older version with the same local id.
    pub(super) fn add(&self, writer: &IndexWriter, document: SegmentDocument) -> Result<()> {
        let mut row = TantivyDocument::default();
        row.add_u64(self.local, document.local);
        row.add_u64(self.collection, document.collection);
        row.add_u64(self.revision, document.revision);
        let tokens = document.entries.terms.into_iter().map(|(text, place)| Token {
            offset_from: 0,
            offset_to: 0,
            position: place as usize,
            text,
            position_length: 1,
        });
        let tokens = PreTokenizedString { text: String::new(), tokens: tokens.collect() };
        row.add_pre_tokenized_text(self.terms, tokens);
        let lengths = document.entries.lengths.iter();
        let lengths = lengths.map(|(field, length)| (column(field), OwnedValue::U64(*length)));
        let numbers = document.entries.numbers.iter().map(|(field, numbers)| {
            let numbers = numbers.iter().copied().map(OwnedValue::F64).collect();
            (column(&of_numbers(field)), OwnedValue::Array(numbers))
        });
        row.add_object(self.lengths, lengths.chain(numbers).collect());
        writer.add_document(row).map(drop).map_err(failed)
    }

    /// Removes a document.
    pub(super) fn remove(&self, writer: &IndexWriter, local: u64) {
        writer.delete_term(Term::from_field_u64(self.local, local));
    }

    /// Removes all documents of a collection.
    pub(super) fn remove_all(&self, writer: &IndexWriter, collection: u64) {
        writer.delete_term(Term::from_field_u64(self.collection, collection));
    }
}

/// Returns the name of a field's column inside the column group for lengths.
fn column(field: &str) -> String {
    format!("{:032x}", xxh3_128(field.as_bytes()))
}

/// Returns the full name of the column with the lengths of a field.
pub(super) fn lengths_column(field: &str) -> String {
    format!("{LENGTHS}.{}", column(field))
}

/// Returns the full name of the column with the numbers of a field.
pub(super) fn numbers_column(field: &str) -> String {
    lengths_column(&of_numbers(field))
}

fn of_numbers(field: &str) -> String {
    format!("{field}numbers")
}

/// Converts a tantivy error to an error of the engine.
pub(super) fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(Code::SystemError, format!("using the segments of a view failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(documents: &[u64]) -> Vec<u64> {
        to_merge(documents.iter().map(|count| (*count, *count)).collect())
    }

    #[test]
    fn a_commit_that_was_interrupted_is_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let (index, fields) = open(folder.path()).unwrap();
        let mut first = writer(&index, folder.path()).unwrap();
        for local in 0..10 {
            let entries = Entries::default();
            let document = SegmentDocument { collection: 1, local, revision: 1, entries };
            fields.add(&first, document).unwrap();
        }
        first.commit().unwrap();
        let meta = folder.path().join("meta.json");
        let before = fs::read(&meta).unwrap();
        fields.remove(&first, 1);
        first.commit().unwrap();
        first.wait_merging_threads().unwrap();
        let lists = || {
            let files = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
            let mut names: Vec<_> = files.filter_map(|name| name.into_string().ok()).collect();
            names.retain(|name| name.ends_with(".del"));
            names
        };
        let left = lists();
        assert_eq!(left.len(), 1, "the commit wrote a list of removed documents");
        // A power loss before the new list of segments was written.
        fs::write(&meta, before).unwrap();
        let (index, fields) = open(folder.path()).unwrap();
        let mut second = writer(&index, folder.path()).unwrap();
        // The same change has another number in the new writer; two more make the numbers equal.
        for local in [1, 98, 99] {
            fields.remove(&second, local);
        }
        second.commit().unwrap();
        assert_eq!(lists(), left, "the next commit needs a file of the same name");
        assert_eq!(reader(&index).unwrap().searcher().num_docs(), 9);
    }

    #[test]
    fn a_large_segment_is_written_again_only_for_many_documents() {
        assert_eq!(merged(&[]), [0; 0]);
        assert_eq!(merged(&[7]), [0; 0]);
        assert_eq!(merged(&[266, 235, 226, 227, 30, 16]), [16, 30, 226, 227, 235, 266]);
        assert_eq!(merged(&[1000, 20, 10]), [10, 20]);
        assert_eq!(merged(&[1000, 300, 250]), [250, 300, 1000]);
        assert_eq!(merged(&[1000, 30, 3]), [0; 0]);
        let half = VIEW_QUIET_MERGE_DOCUMENTS_MAX / 2;
        assert_eq!(merged(&[half, half + 1, 5, 5]), [5, 5]);
    }
}
