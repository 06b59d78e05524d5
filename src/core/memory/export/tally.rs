//! Writes and reads the lines of an export file: the header, the rows, and a trailer with counts
//! and digests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::exact::exact;
use super::part::RowKind;
use crate::memory::archive::Metric;
use crate::memory::receipt::{canonical_json, hex};
use crate::sha::Sha256;

/// Name of the export format.
pub(super) const FORMAT: &str = "vctx-agent";
/// Version of the export format.
pub(super) const VERSION: u64 = 1;

/// The properties that all vectors in the archive of an agent share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorKind {
    /// Number of components of each vector.
    pub dimension: u32,
    /// Version of the embedding model.
    pub embedding_version: String,
    /// Metric that compares the vectors.
    pub metric: Metric,
    /// Name of the embedding model.
    pub model_id: String,
}

/// The header of an export file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Name of the exported agent.
    pub agent: String,
    /// Always `vctx-agent`.
    pub format: String,
    /// Schema number of the source database.
    pub schema: u64,
    /// The agent's name that the digests of messages contain. An import under another name keeps
    /// this value.
    pub sealed_as: String,
    /// Model, version, dimension and metric of the agent's vectors; `None` if the archive has no
    /// documents.
    pub vector: Option<VectorKind>,
    /// Version of the export format.
    pub version: u64,
}

impl Header {
    /// Returns the header of an agent's export file.
    pub fn new(agent: &str, sealed_as: &str, schema: u64, vector: Option<VectorKind>) -> Self {
        let (agent, sealed_as) = (agent.to_owned(), sealed_as.to_owned());
        Self { agent, format: FORMAT.into(), schema, sealed_as, vector, version: VERSION }
    }

    /// Returns the header as a line of an export file, without the line end.
    pub fn line(&self) -> String {
        canonical_json(&json!(self))
    }

    /// Returns whether a line is JSON with the `format` of an export file's header.
    pub fn is_begun_by(line: &str) -> bool {
        exact(line).is_ok_and(|value| value["format"] == FORMAT)
    }
}

/// Formats a row as a line of an export file, without the line end.
pub fn line_of(part: RowKind, row: &Map<String, Value>) -> String {
    let row = canonical_json(&Value::Object(row.clone()));
    format!("{{\"in\":\"{}\",\"row\":{row}}}", part.collection())
}

/// Parses a line of an export file into the row and the row's kind. The line must be canonical
/// JSON, with sorted names and no spaces.
pub fn parted(line: &str) -> Result<(RowKind, Map<String, Value>), String> {
    let Value::Object(mut map) = exact(line)? else { return Err("is no object".into()) };
    let part = match map.shift_remove("in") {
        Some(Value::String(name)) => {
            RowKind::by_name(&name).ok_or_else(|| format!("is of the unknown kind `{name}`"))?
        }
        _ => return Err("does not name its kind".into()),
    };
    match map.shift_remove("row") {
        Some(Value::Object(row)) if map.is_empty() => {
            if line_of(part, &row) != line {
                return Err("is not in canonical form".into());
            }
            Ok((part, row))
        }
        _ => Err("is no row".into()),
    }
}

/// The counts of an export file's rows, and the digests of its lines.
#[derive(Clone, Debug)]
pub struct Tally {
    file: Sha256,
    state: Sha256,
    counts: BTreeMap<&'static str, u64>,
    rows: u64,
}

impl Tally {
    /// Returns the tally of an export file after its first line (the header), before any row.
    pub fn begun(header: &str) -> Self {
        let mut tally = Self {
            file: Sha256::new(),
            state: Sha256::new(),
            // Earlier versions of the program know no packs; a file without any is as theirs.
            counts: RowKind::ALL
                .into_iter()
                .filter(|part| *part != RowKind::Packs)
                .map(|part| (part.collection(), 0))
                .collect(),
            rows: 0,
        };
        tally.file.update(header.as_bytes());
        tally.file.update(b"\n");
        tally
    }

    /// Adds a row to the counts and digests.
    pub fn row(&mut self, part: RowKind, line: &str) {
        for hash in [&mut self.file, &mut self.state] {
            hash.update(line.as_bytes());
            hash.update(b"\n");
        }
        *self.counts.entry(part.collection()).or_default() += 1;
        self.rows += 1;
    }

    /// Returns the number of rows that were added so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of rows of each kind that were added so far.
    pub fn counts(&self) -> Value {
        json!(self.counts)
    }

    /// Returns the SHA-256 of the lines of all rows. This digest does not depend on the agent's
    /// name.
    pub fn state(&self) -> String {
        hex(&self.state.clone().finalize())
    }

    /// Returns the SHA-256 of the header and the lines of all rows.
    pub fn file(&self) -> String {
        hex(&self.file.clone().finalize())
    }

    /// Returns the trailer of an export file as a line, without the line end.
    pub fn trailer(&self, chain_head: &str) -> String {
        canonical_json(
            &json!({"chain_head": chain_head, "counts": self.counts, "file": self.file(), "rows": self.rows,
            "state": self.state()}),
        )
    }
}
