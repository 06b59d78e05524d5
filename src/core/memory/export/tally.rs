//! The lines of a file: its first, that of a row, its last; and the sums that the last one tells.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::exact::exact;
use super::part::Part;
use crate::memory::archive::Metric;
use crate::memory::receipt::{canonical_json, hex};

/// What a file says that it is.
pub(super) const FORMAT: &str = "vctx-agent";
/// Form of the files that are written and read.
pub(super) const VERSION: u64 = 1;

/// What all vectors in the archive of an agent have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorKind {
    /// Components.
    pub dimension: u32,
    /// Version of the embedding.
    pub embedding_version: String,
    /// How they are compared.
    pub metric: Metric,
    /// What made them.
    pub model_id: String,
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Name of the agent.
    pub agent: String,
    /// Always `vctx-agent`.
    pub format: String,
    /// Schema of the database that it comes from.
    pub schema: u64,
    /// The name under the digests of its messages.
    pub sealed_as: String,
    /// What its vectors are; none without documents.
    pub vector: Option<VectorKind>,
    /// Form of the file.
    pub version: u64,
}

impl Header {
    /// The header of an agent.
    pub fn new(agent: &str, sealed_as: &str, schema: u64, vector: Option<VectorKind>) -> Self {
        let (agent, sealed_as) = (agent.to_owned(), sealed_as.to_owned());
        Self { agent, format: FORMAT.into(), schema, sealed_as, vector, version: VERSION }
    }

    /// Its line, without the end.
    pub fn line(&self) -> String {
        canonical_json(&json!(self))
    }

    /// Whether a line is, or means to be, the first of such a file.
    pub fn is_begun_by(line: &str) -> bool {
        exact(line).is_ok_and(|value| value["format"] == FORMAT)
    }
}

/// The line of a row, without the end.
pub fn line_of(part: Part, row: &Map<String, Value>) -> String {
    let row = canonical_json(&Value::Object(row.clone()));
    format!("{{\"in\":\"{}\",\"row\":{row}}}", part.collection())
}

/// Part and row of a line. It must be written in the one way: sorted names, no spaces.
pub fn parted(line: &str) -> Result<(Part, Map<String, Value>), String> {
    let Value::Object(mut map) = exact(line)? else { return Err("is no object".into()) };
    let part = match map.shift_remove("in") {
        Some(Value::String(name)) => {
            Part::named(&name).ok_or_else(|| format!("is of the unknown kind `{name}`"))?
        }
        _ => return Err("does not say what it is".into()),
    };
    match map.shift_remove("row") {
        Some(Value::Object(row)) if map.is_empty() => {
            if line_of(part, &row) != line {
                return Err("is not written in the canonical way".into());
            }
            Ok((part, row))
        }
        _ => Err("is no row".into()),
    }
}

/// Sums over the lines of a file as they come.
#[derive(Clone, Debug)]
pub struct Tally {
    file: Sha256,
    state: Sha256,
    counts: BTreeMap<&'static str, u64>,
    rows: u64,
}

impl Tally {
    /// The sums behind the first line.
    pub fn begun(header: &str) -> Self {
        let mut tally = Self {
            file: Sha256::new(),
            state: Sha256::new(),
            counts: Part::ALL.map(|part| (part.collection(), 0)).into(),
            rows: 0,
        };
        tally.file.update(header.as_bytes());
        tally.file.update(b"\n");
        tally
    }

    /// One row more.
    pub fn row(&mut self, part: Part, line: &str) {
        for hash in [&mut self.file, &mut self.state] {
            hash.update(line.as_bytes());
            hash.update(b"\n");
        }
        *self.counts.entry(part.collection()).or_default() += 1;
        self.rows += 1;
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows of each part so far.
    pub fn counts(&self) -> Value {
        json!(self.counts)
    }

    /// SHA-256 over the lines of all rows: the same for one state of an agent, wherever it lies and whatever it is called.
    pub fn state(&self) -> String {
        hex(&self.state.clone().finalize())
    }

    /// The last line, without the end.
    pub fn trailer(&self, chain_head: &str) -> String {
        let file = hex(&self.file.clone().finalize());
        canonical_json(
            &json!({"chain_head": chain_head, "counts": self.counts, "file": file, "rows": self.rows,
            "state": self.state()}),
        )
    }
}
