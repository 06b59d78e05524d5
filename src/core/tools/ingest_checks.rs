//! Checks those properties of an ingest's arguments that need no stored data: names, lengths,
//! numbers, times, and combinations of arguments.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::ingest_archival::IngestArchival;
use crate::error::{Error, Result};
use crate::limits::{CHUNK_BYTES_MAX, CHUNKS_MAX, DIMENSION_MAX, DOC_ID_BYTES_MAX, NAME_BYTES_MAX};
use crate::memory::Fingerprint;
use crate::memory::archive::Metric;
use crate::text::lexical;
use crate::tools::limits::{DERIVED_MAX, PROVENANCE_BYTES_MAX};
use crate::trust::check_name;

/// Maximum absolute value of a vector's component. With this limit, sums of squares fit into the
/// 4-byte floats that an index computes with.
const COMPONENT_MAX: f64 = 1e15;

/// Name of the attribute in a provenance that lists source messages.
const MESSAGE_IDS: &str = "message_ids";
/// Name of the attribute in a provenance under which the server stores the document's owner.
pub const OWNER: &str = "owner";

impl IngestArchival {
    /// Checks the arguments beyond their types; an error names the argument.
    pub(super) fn check(&self) -> Result<()> {
        if self.doc_id.is_empty()
            || self.doc_id.len() > DOC_ID_BYTES_MAX
            || self.doc_id.chars().any(char::is_control)
        {
            return Err(Error::argument(
                "doc_id",
                format!("use 1 to {DOC_ID_BYTES_MAX} bytes without control characters"),
            ));
        }
        if self.delete {
            return self.check_bare();
        }
        if self.splits() {
            self.check_document()?;
        } else {
            self.check_chunks()?;
        }
        if let Some(ts) = &self.freshness_ts {
            moment("freshness_ts", ts)?;
        }
        self.check_embeddings()?;
        self.check_part()?;
        check_provenance("provenance", self.provenance.as_ref())?;
        if let Some(labels) = &self.labels {
            labels.check("labels")?;
        }
        let named = self.message_ids()?.len();
        if named > DERIVED_MAX {
            return Err(Error::argument(
                "provenance.message_ids",
                format!("{named} messages are named: at most {DERIVED_MAX}"),
            ));
        }
        Ok(())
    }

    /// Checks that a call that removes a document has no further arguments.
    fn check_bare(&self) -> Result<()> {
        let said = [
            ("chunks", !self.chunks.is_empty()),
            ("document", self.document.is_some()),
            ("splitter", self.splitter.is_some()),
            ("embeddings", self.embeddings.is_some()),
            ("late_chunking", self.late_chunking.is_some()),
            ("provenance", self.provenance.is_some()),
            ("labels", self.labels.is_some()),
            ("freshness_ts", self.freshness_ts.is_some()),
            ("part", self.part.is_some()),
        ];
        match said.iter().find(|(_, given)| *given) {
            Some((field, _)) => Err(Error::argument(field, "leave it out with `delete`")),
            None => Ok(()),
        }
    }

    fn check_document(&self) -> Result<()> {
        let document = self.document.as_deref().unwrap_or_default();
        if document.trim().is_empty() {
            return Err(Error::argument("document", "is empty: a search could find nothing in it"));
        }
        for (field, given) in [
            ("embeddings", self.embeddings.is_some()),
            ("late_chunking", self.late_chunking.is_some()),
        ] {
            if given {
                return Err(Error::argument(field, "goes with `chunks`, which it describes"));
            }
        }
        self.splitter.clone().unwrap_or_default().checked().map(drop)
    }

    fn check_chunks(&self) -> Result<()> {
        if self.chunks.is_empty() || self.chunks.len() > CHUNKS_MAX {
            return Err(Error::argument(
                "chunks",
                format!(
                    "give 1 to {CHUNKS_MAX} (more in several calls with `part`), or the whole text as `document`, which the server splits itself"
                ),
            ));
        }
        if self.splitter.is_some() {
            return Err(Error::argument("splitter", "goes with `document` without `chunks`"));
        }
        self.check_ids()?;
        for (at, chunk) in self.chunks.iter().enumerate() {
            let place = |field: &str| format!("chunks[{at}]{field}");
            if chunk.text().trim().is_empty() || chunk.text().len() > CHUNK_BYTES_MAX {
                return Err(Error::argument(
                    &place(""),
                    format!("use 1 to {CHUNK_BYTES_MAX} bytes that are not all white space"),
                ));
            }
            let parts = chunk.parts();
            if let Some(id) = &parts.chunk_id {
                check_name(&place(".chunk_id"), id)?;
            }
            if let Some(ts) = &parts.freshness_ts {
                moment(&place(".freshness_ts"), ts)?;
            }
            check_provenance(&place(".provenance"), parts.provenance.as_ref())?;
        }
        Ok(())
    }

    /// Checks that no two chunks have the same name.
    pub(super) fn check_ids(&self) -> Result<()> {
        let mut ids = BTreeSet::new();
        for (at, chunk) in self.chunks.iter().enumerate() {
            if !ids.insert(chunk.id(at)) {
                return Err(Error::argument(
                    &format!("chunks[{at}].chunk_id"),
                    format!("`{}` names two chunks", chunk.id(at)),
                ));
            }
        }
        Ok(())
    }

    /// Checks the number of vectors, their components, and that the call names their model,
    /// version, dimension and metric.
    fn check_embeddings(&self) -> Result<()> {
        for (field, text) in
            [("embedding_version", &self.embedding_version), ("model_id", &self.model_id)]
        {
            if text.as_ref().is_some_and(|t| t.is_empty() || t.len() > NAME_BYTES_MAX) {
                return Err(Error::argument(field, format!("use 1 to {NAME_BYTES_MAX} bytes")));
            }
        }
        if self.dimension.is_some_and(|d| d == 0 || d > DIMENSION_MAX) {
            return Err(Error::argument("dimension", format!("use 1 to {DIMENSION_MAX}")));
        }
        let Some(embeddings) = &self.embeddings else { return Ok(()) };
        let missing = |field: &str| {
            Error::argument(field, "is needed with embeddings: name the origin of the vectors")
        };
        let dimension = self.dimension.ok_or_else(|| missing("dimension"))?;
        let metric = self.metric.ok_or_else(|| missing("metric"))?;
        self.embedding_version.as_ref().ok_or_else(|| missing("embedding_version"))?;
        self.model_id.as_ref().ok_or_else(|| missing("model_id"))?;
        if embeddings.len() != self.chunks.len() {
            let (vectors, chunks) = (embeddings.len(), self.chunks.len());
            return Err(Error::argument(
                "embeddings",
                format!("{vectors} vectors for {chunks} chunks: give one for each"),
            ));
        }
        for (at, vector) in embeddings.iter().enumerate() {
            check_vector(&format!("embeddings[{at}]"), vector, dimension, metric)?;
        }
        Ok(())
    }

    /// Checks a call without vectors: if it names a model, version or dimension, these must be the
    /// values of the server's embedder.
    pub(super) fn check_own(&self, own: &Fingerprint) -> Result<()> {
        if self.embeddings.is_some() {
            return Ok(());
        }
        let dimension = own.dimension;
        if !lexical::makes(own) && self.dimension.is_some_and(|given| given != dimension) {
            return Err(Error::argument(
                "dimension",
                format!(
                    "the server's embedder makes {dimension}: leave it out, or say {dimension}"
                ),
            ));
        }
        for (field, given, own) in [
            ("model_id", self.model_id.as_deref(), own.model_id.as_str()),
            (
                "embedding_version",
                self.embedding_version.as_deref(),
                own.embedding_version.as_str(),
            ),
        ] {
            if given.is_some_and(|given| given != own) {
                return Err(Error::argument(
                    field,
                    format!(
                        "without embeddings the server makes vectors itself: leave it out, or say {own}"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Returns the ids of the messages that the document or a chunk is derived from, each once.
    pub(super) fn message_ids(&self) -> Result<BTreeSet<String>> {
        let mut all: BTreeSet<String> =
            message_ids("provenance", self.provenance.as_ref())?.into_iter().collect();
        for (at, chunk) in self.chunks.iter().enumerate() {
            let place = format!("chunks[{at}].provenance");
            all.extend(message_ids(&place, chunk.parts().provenance.as_ref())?);
        }
        Ok(all)
    }
}

/// Checks that a vector has `dimension` finite components and, for the cosine metric, is not the
/// zero vector.
pub(super) fn check_vector(
    field: &str,
    vector: &[f64],
    dimension: u32,
    metric: Metric,
) -> Result<()> {
    if vector.len() as u64 != u64::from(dimension) {
        return Err(Error::argument(
            field,
            format!("has {} components, not {dimension}", vector.len()),
        ));
    }
    if vector.iter().any(|c| !c.is_finite() || c.abs() > COMPONENT_MAX) {
        return Err(Error::argument(
            field,
            format!("has a component that is not finite or beyond ±{COMPONENT_MAX:e}"),
        ));
    }
    // The Euclidean norm is computed in 4-byte floats, because a vector index stores 4-byte floats,
    // in which a tiny vector becomes zero.
    let squares: f32 = vector.iter().map(|c| (*c as f32) * (*c as f32)).sum();
    if metric == Metric::Cosine && squares <= 0.0 {
        return Err(Error::argument(field, "is a zero vector, which has no direction"));
    }
    Ok(())
}

fn check_provenance(field: &str, provenance: Option<&Map<String, Value>>) -> Result<()> {
    let Some(provenance) = provenance else { return Ok(()) };
    if Value::Object(provenance.clone()).to_string().len() > PROVENANCE_BYTES_MAX {
        return Err(Error::argument(field, format!("longer than {PROVENANCE_BYTES_MAX} bytes")));
    }
    if provenance.contains_key(OWNER) {
        return Err(Error::argument(field, "only the server writes `owner`: leave it out"));
    }
    Ok(())
}

/// Returns the ids of the messages that a provenance names.
pub(super) fn message_ids(
    field: &str,
    provenance: Option<&Map<String, Value>>,
) -> Result<Vec<String>> {
    let Some(ids) = provenance.and_then(|p| p.get(MESSAGE_IDS)) else { return Ok(Vec::new()) };
    let ids = ids.as_array().map(|ids| ids.iter().map(|id| id.as_str().map(str::to_owned)));
    ids.and_then(Iterator::collect).ok_or_else(|| {
        Error::argument(&format!("{field}.{MESSAGE_IDS}"), "must be a list of message ids")
    })
}

/// Converts a time to the form `YYYY-MM-DDTHH:MM:SS.mmmZ`, which sorts by time. A date without a
/// time becomes midnight, and missing milliseconds become 0.
pub(super) fn moment(field: &str, text: &str) -> Result<String> {
    let filled = match text.len() {
        10 => format!("{text}T00:00:00.000Z"),
        20 => format!("{}.000Z", &text.get(..19).unwrap_or_default()),
        _ => text.to_owned(),
    };
    let fits = filled.len() == FORM.len()
        && filled.bytes().zip(FORM.bytes()).all(|(is, form)| match form {
            b'0' => is.is_ascii_digit(),
            other => is == other,
        });
    // Each field is checked alone, so `2026-02-31` is accepted.
    let within = FIELDS.iter().all(|(at, range)| {
        let number = filled.get(*at..at + 2).and_then(|digits| digits.parse().ok());
        number.is_some_and(|number: u8| range.contains(&number))
    });
    if fits && within && (text.len() != 20 || text.ends_with('Z')) {
        return Ok(filled);
    }
    Err(Error::argument(field, "use YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS.mmmZ (UTC)"))
}

/// Index of the first digit, and permitted range, of month, day, hour, minute and second.
const FIELDS: [(usize, RangeInclusive<u8>); 5] =
    [(5, 1..=12), (8, 1..=31), (11, 0..=23), (14, 0..=59), (17, 0..=59)];
const FORM: &str = "0000-00-00T00:00:00.000Z";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_filled_up_or_refused() {
        for (text, wanted) in [
            ("2026-02-03", Some("2026-02-03T00:00:00.000Z")),
            ("2026-02-03T04:05:06Z", Some("2026-02-03T04:05:06.000Z")),
            ("2026-02-03T04:05:06.007Z", Some("2026-02-03T04:05:06.007Z")),
            ("2026-02-03T04:05:06X", None),
            ("2026-13-03", None),
            ("2026-02-03T24:05:06Z", None),
            ("2026-02-03T04:05:06+01:00", None),
            ("yesterday!", None),
            ("20260203T0405:06ä.0Z", None),
            ("", None),
        ] {
            assert_eq!(moment("f", text).ok().as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn vectors_are_checked_for_length_numbers_and_direction() {
        for (vector, metric, fits) in [
            (vec![1.0, 0.0], Metric::Cosine, true),
            (vec![0.0, 0.0], Metric::L2, true),
            (vec![0.0, 0.0], Metric::Cosine, false),
            (vec![1e-30, 0.0], Metric::Cosine, false),
            (vec![1.0], Metric::Cosine, false),
            (vec![1.0, f64::NAN], Metric::L2, false),
            (vec![1.0, f64::INFINITY], Metric::L2, false),
            (vec![1.0, 1e300], Metric::L2, false),
        ] {
            assert_eq!(check_vector("v", &vector, 2, metric).is_ok(), fits, "{vector:?}");
        }
    }
}
