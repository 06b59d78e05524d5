//! Returns the chunks of an ingested document: the caller's chunks, or those that the server splits
//! the document into.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::ingest_archival::{IngestArchival, next_of};
use crate::chunk::{self, By, Cut};
use crate::error::{Code, Error, Result};
use crate::limits::{DOCUMENT_BYTES_MAX, PART_CHUNKS};
use crate::memory::archive::{Parent, Span, VectorSetting};
use crate::memory::receipt::sha256;
use crate::memory::{Encoding, TokenCounter};
use crate::policy::{Answers, Question, Surroundings, Upload};
use crate::text::lexical;
use crate::tools::limits::DOCUMENT_CHUNKS_MAX;
use crate::trust::Scope;

/// Maximum number of sentences of a document that is split by meaning. The limit is the size of the
/// embedder's cache, so that a repeated call can continue the work of a call that ran out of time.
const SPLIT_SENTENCES_MAX: usize = 16_384;
/// Maximum size in bytes of a document that is split on an OS thread that answers calls; a larger
/// document is split on another OS thread.
const SPLIT_INLINE_BYTES: usize = 64 * 1024;

/// A chunk that has no vector yet.
pub(super) struct Cutting {
    pub(super) text: String,
    pub(super) chunk_id: String,
    /// Time at which the chunk's content was current, as the caller gave it.
    pub(super) freshness_ts: Option<String>,
    pub(super) provenance: Option<Map<String, Value>>,
    /// Range of the chunk in the document, in characters.
    pub(super) offset: Option<Span>,
    pub(super) parent: Option<Parent>,
}

/// The split points of a document, computed once per call, although the call's step may run several
/// times.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts(Arc<OnceLock<(Encoding, Vec<Cut>)>>);

impl IngestArchival {
    /// Whether the server splits the document into chunks.
    pub fn splits(&self) -> bool {
        self.chunks.is_empty() && self.document.is_some() && !self.delete
    }

    /// Returns the split points of a document that the server splits; empty if the caller sent
    /// chunks.
    fn cuts(&self, counter: &dyn TokenCounter) -> Vec<Cut> {
        let Some(document) = self.document.as_deref().filter(|_| self.splits()) else {
            return Vec::new();
        };
        let how = self.splitter.clone().unwrap_or_default();
        let made = || (counter.encoding(), chunk::split(document, &how, counter));
        let (encoding, cuts) = self.cuts.0.get_or_init(made);
        match how.by {
            _ if *encoding == counter.encoding() => cuts.clone(),
            // The agent's encoding changed after the stored split, so token counts differ. The
            // encoding does not change the topics of the sentences, so no new vectors are needed.
            By::Semantic => chunk::again(document, cuts, &how, counter),
            _ => made().1,
        }
    }

    /// Splits the document, unless the caller has sent the chunks. To split by meaning, the
    /// function needs `sentence_vectors`; without them it returns the sentences to embed. Splitting
    /// a long document takes a while.
    pub fn prepare(
        &self,
        counter: &dyn TokenCounter,
        sentence_vectors: Option<&[Vec<f64>]>,
    ) -> Result<Option<Vec<String>>> {
        let Some(document) = self.document.as_deref().filter(|_| self.splits()) else {
            return Ok(None);
        };
        let how = self.splitter.clone().unwrap_or_default();
        if self.cuts.0.get().is_some() {
            return Ok(None);
        }
        if how.by != By::Semantic {
            self.cuts(counter);
            return Ok(None);
        }
        let sentences = chunk::sentences(document);
        if sentences.len() > SPLIT_SENTENCES_MAX {
            let count = sentences.len();
            return Err(Error::argument(
                "splitter.by",
                format!(
                    "semantic takes up to {SPLIT_SENTENCES_MAX} sentences, not {count}: use another splitter, or give the document in several doc_ids"
                ),
            ));
        }
        match sentence_vectors {
            None => {
                let texts = sentences.iter().map(|place| document[place.clone()].to_owned());
                Ok(Some(texts.collect()))
            }
            Some(vectors) if vectors.len() == sentences.len() => {
                let made = chunk::split_by_meaning(document, &sentences, vectors, &how, counter);
                self.cuts.0.get_or_init(|| (counter.encoding(), made));
                Ok(None)
            }
            Some(_) => Err(Error::new(
                Code::EmbedderUnavailable,
                "the embedder failed, and the splitter semantic needs it: send the document again with the same key, or use another splitter",
            )),
        }
    }

    /// Whether splitting takes so long that it should not run on the OS threads that answer calls.
    pub fn is_long(&self) -> bool {
        let document = self.document.as_deref().filter(|_| self.splits());
        self.cuts.0.get().is_none()
            && document.is_some_and(|document| document.len() > SPLIT_INLINE_BYTES)
    }

    /// Returns the chunks, in order, without vectors.
    pub(super) fn pieces(&self, counter: &dyn TokenCounter) -> Vec<Cutting> {
        if !self.splits() {
            return self.given_cuts();
        }
        let document = self.document.as_deref().unwrap_or_default();
        let cuts = self.cuts(counter);
        let ranges = cuts.iter().map(|cut| cut.start..cut.end);
        let parents = cuts.iter().filter_map(|cut| cut.parent.clone());
        let places = characters(document, ranges.chain(parents).collect());
        let place =
            |range: &Range<usize>| Span { start: places[&range.start], end: places[&range.end] };
        let parent = |cut: &Cut| {
            let range = cut.parent.as_ref()?;
            let inside = |other: &Cut| other.parent.as_ref() == Some(range);
            let first = cuts.partition_point(|other| other.start < range.start);
            let count = cuts[first..].iter().take_while(|other| inside(other)).count();
            let last = first + count.saturating_sub(1);
            Some(Parent { first: first as u64, last: last as u64, offset: Some(place(range)) })
        };
        let piece = |(at, cut): (usize, &Cut)| Cutting {
            text: document[cut.start..cut.end].to_owned(),
            chunk_id: format!("{at:04}"),
            freshness_ts: self.freshness_ts.clone(),
            provenance: None,
            offset: Some(place(&(cut.start..cut.end))),
            parent: parent(cut),
        };
        cuts.iter().enumerate().map(piece).collect()
    }

    fn given_cuts(&self) -> Vec<Cutting> {
        let offsets = match &self.late_chunking {
            Some(evidence) if evidence.document_chars.is_some() => evidence.spans.clone(),
            _ => Vec::new(),
        };
        let piece = |(at, chunk): (usize, &super::given_chunk::Chunk)| {
            let parts = chunk.parts();
            Cutting {
                chunk_id: chunk.id(at),
                text: parts.text,
                freshness_ts: parts.freshness_ts.or_else(|| self.freshness_ts.clone()),
                provenance: parts.provenance,
                offset: offsets.get(at).copied(),
                parent: None,
            }
        };
        self.chunks.iter().enumerate().map(piece).collect()
    }

    /// Returns the `Question` that requests the vectors of a document that the caller sent without
    /// vectors. The vectors of a long document are computed part by part.
    pub(super) fn ask_vectors(
        &self,
        scope: &Scope,
        counter: &dyn TokenCounter,
        setting: &VectorSetting,
        answers: &Answers,
    ) -> Result<Question> {
        let with = setting.fingerprint();
        if let Some(texts) = self.prepare(counter, answers.alone.as_deref())? {
            return Ok(Question::EmbedAlone { texts, with });
        }
        if !self.splits() {
            let texts: Vec<String> =
                self.given_cuts().into_iter().map(|piece| piece.text).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let (document, spans) = chunk::laid_out(&texts, self.document.as_deref());
            return Ok(Question::Embed { document, spans, with });
        }
        let document = self.document.clone().unwrap_or_default();
        let spans: Vec<Range<usize>> =
            self.cuts(counter).into_iter().map(|cut| cut.start..cut.end).collect();
        check_size(&document, spans.len(), setting.dimension)?;
        if spans.len() <= PART_CHUNKS {
            return Ok(Question::Embed { document, spans, with });
        }
        let name = self.upload_name(scope, &spans, setting);
        Ok(Question::EmbedParts(Box::new(Upload { name, document, spans, with })))
    }

    /// Returns the `Question` that requests vectors of the document's chunks under the next vector
    /// setting, if a reindex is under way and this server has the embedder of that setting. A long
    /// document gets these vectors later, in the background.
    pub(super) fn ask_next(
        &self,
        around: Surroundings<'_>,
        setting: &VectorSetting,
        answers: &Answers,
    ) -> Option<Question> {
        let with = next_of(setting)?.fingerprint();
        let is_here = around.next_embedder == Some(&with) || lexical::makes(&with);
        if !is_here || answers.next_embeddings.as_ref().is_some_and(|(made, _)| *made == with) {
            return None;
        }
        let (document, spans) = if self.splits() {
            let cuts = self.cuts(around.counter).into_iter();
            let spans: Vec<Range<usize>> = cuts.map(|cut| cut.start..cut.end).collect();
            (self.document.clone().unwrap_or_default(), spans)
        } else {
            let texts: Vec<String> =
                self.given_cuts().into_iter().map(|piece| piece.text).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            chunk::laid_out(&texts, self.document.as_deref())
        };
        (spans.len() <= PART_CHUNKS).then_some(Question::EmbedNext { document, spans, with })
    }

    /// Returns the name under which the vectors of the document's parts are stored; `None` for a
    /// document that is embedded in one step.
    pub(super) fn upload(
        &self,
        scope: &Scope,
        counter: &dyn TokenCounter,
        setting: &VectorSetting,
    ) -> Option<String> {
        let cuts = self.cuts(counter);
        let spans: Vec<Range<usize>> = cuts.into_iter().map(|cut| cut.start..cut.end).collect();
        (spans.len() > PART_CHUNKS).then(|| self.upload_name(scope, &spans, setting))
    }

    fn upload_name(
        &self,
        scope: &Scope,
        spans: &[Range<usize>],
        setting: &VectorSetting,
    ) -> String {
        let places: Vec<String> = spans.iter().map(|s| format!("{}-{}", s.start, s.end)).collect();
        let (digest, document) = (setting.fingerprint().digest(), self.document.as_deref());
        let places = places.join(",");
        let bound = [scope.key(), &self.doc_id, &digest, &places, document.unwrap_or_default()];
        sha256(&bound.join("\0"))
    }
}

/// Checks that a document with its vectors fits into one transaction, so that searches see the
/// whole document or nothing of it.
fn check_size(document: &str, chunks: usize, dimension: u32) -> Result<()> {
    let refused = |why: String| {
        Err(Error::argument(
            "document",
            format!(
                "{why}: use larger chunks (splitter.tokens_max), or give the document in several doc_ids"
            ),
        ))
    };
    if chunks > DOCUMENT_CHUNKS_MAX {
        return refused(format!("makes {chunks} chunks, at most {DOCUMENT_CHUNKS_MAX}"));
    }
    let bytes = document.len() + chunks * dimension as usize * size_of::<f64>();
    if bytes > DOCUMENT_BYTES_MAX {
        return refused(format!(
            "takes {bytes} bytes with its vectors, at most {DOCUMENT_BYTES_MAX}"
        ));
    }
    Ok(())
}

/// Returns the number of characters before each start and end of a byte range, by byte position;
/// reads the text once.
fn characters(text: &str, ranges: Vec<Range<usize>>) -> std::collections::BTreeMap<usize, u64> {
    let mut ends: Vec<usize> =
        ranges.into_iter().flat_map(|range| [range.start, range.end]).collect();
    ends.sort_unstable();
    ends.dedup();
    let (mut at, mut count) = (0, 0_u64);
    let mut places = std::collections::BTreeMap::new();
    for end in ends {
        count += text[at..end].chars().count() as u64;
        at = end;
        places.insert(end, count);
    }
    places
}
