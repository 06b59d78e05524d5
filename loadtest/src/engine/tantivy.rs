//! Runs plain tantivy in this process: a stored text field with positions, and a number as the key.

use std::path::Path;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, Occur, Query, TermQuery};
use tantivy::schema::{FAST, Field, IndexRecordOption, STORED, Schema, TEXT, Value as _};
use tantivy::{Index, IndexReader, IndexWriter, TantivyDocument, Term};

use super::made::{Texts, words};
use super::texts::{Answers, BEST};
use crate::Fault;

/// Main memory that the index writer may use, in bytes.
const WRITER_BYTES: usize = 256 << 20;

/// A tantivy index of the texts.
pub(crate) struct Plain {
    reader: IndexReader,
    text: Field,
    /// Duration of the build in seconds.
    pub(crate) seconds: f64,
    /// Number of segments of the index.
    pub(crate) segments: usize,
}

/// Returns the processor time that this thread has used so far, in microseconds.
fn thread_micros() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

impl Plain {
    /// Indexes the texts with one thread and default settings.
    pub(crate) fn build(folder: &Path, texts: &Texts, count: u64) -> Result<Self, Fault> {
        let begun = Instant::now();
        let mut schema = Schema::builder();
        let text = schema.add_text_field("text", TEXT | STORED);
        let key = schema.add_u64_field("key", FAST);
        let index = Index::create_in_dir(folder, schema.build())?;
        let mut writer: IndexWriter = index.writer_with_num_threads(1, WRITER_BYTES)?;
        for number in 0..count {
            let mut document = TantivyDocument::default();
            document.add_text(text, texts.get(number));
            document.add_u64(key, number);
            writer.add_document(document)?;
        }
        writer.commit()?;
        writer.wait_merging_threads()?;
        let reader = index.reader()?;
        let segments = reader.searcher().segment_readers().len();
        Ok(Self { reader, text, seconds: begun.elapsed().as_secs_f64(), segments })
    }

    /// Searches for each question; with `stored`, also reads the texts of the results.
    pub(crate) fn ask(&self, questions: &[String], stored: bool) -> Result<Answers, Fault> {
        let mut answers = Answers::default();
        for question in questions {
            let (begun, before) = (Instant::now(), thread_micros());
            let terms = words(question).into_iter().map(|word| {
                let term = Term::from_field_text(self.text, &word);
                let query = TermQuery::new(term, IndexRecordOption::WithFreqs);
                (Occur::Should, Box::new(query) as Box<dyn Query>)
            });
            let query = BooleanQuery::new(terms.collect());
            let searcher = self.reader.searcher();
            let best = searcher.search(&query, &TopDocs::with_limit(BEST).order_by_score())?;
            let mut bytes = 0;
            if stored {
                for (_, address) in &best {
                    let document: TantivyDocument = searcher.doc(*address)?;
                    bytes +=
                        document.get_first(self.text).and_then(|v| v.as_str()).map_or(0, str::len);
                }
            }
            std::hint::black_box(bytes);
            answers.wall.push(begun.elapsed().as_secs_f64() * 1e6);
            answers.cpu.push(thread_micros() - before);
            let mut keys = Vec::with_capacity(best.len());
            for (_, address) in best {
                let column =
                    searcher.segment_reader(address.segment_ord).fast_fields().u64("key")?;
                keys.push(column.first(address.doc_id).ok_or("a document without key")?);
            }
            answers.keys.push(keys);
        }
        Ok(answers)
    }
}
