//! Keeps computed vectors in a directory, so that a second run does not compute them again.
//!
//! There is a file for each model, named by the digest of the model's fingerprint. The file is a
//! list of records of equal length: the digest of a text and its kind, and the components of the
//! text's vector. Only the owner can read directory and files.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use vctx_cli::exit::Failure;
use vctx_core::memory::Fingerprint;
use vctx_core::sha::{SHA256_BYTES, Sha256};
use vctx_server::models::Kind;

/// Maximum size of a file of vectors, in bytes; about 330 000 vectors of 384 components. Further
/// vectors are not kept.
const FILE_BYTES_MAX: u64 = 512 << 20;
/// Number of bytes of a vector's component.
const COMPONENT_BYTES: usize = size_of::<f32>();
/// Maximum difference of the length of a kept vector from 1.
const LENGTH_TOLERANCE: f64 = 1e-3;

/// The digest of a text and its kind.
type TextDigest = [u8; SHA256_BYTES];

/// Vectors of one model, in memory and in a file.
pub(super) struct VectorCache {
    path: PathBuf,
    file: File,
    /// Number of bytes of the file, and the bound of this number.
    bytes: u64,
    bytes_max: u64,
    dimension: usize,
    known: HashMap<TextDigest, Vec<f32>>,
}

impl VectorCache {
    /// Opens the file of a model's vectors, or makes directory and file.
    pub(super) fn open(directory: &Path, model: &Fingerprint) -> Result<VectorCache, Failure> {
        Self::bounded(directory, model, FILE_BYTES_MAX)
    }

    fn bounded(
        directory: &Path,
        model: &Fingerprint,
        bytes_max: u64,
    ) -> Result<VectorCache, Failure> {
        let path = directory.join(format!("{}.vectors", &model.digest()[..32]));
        let failed = |error: io::Error| Failure::writing(path.display(), &error);
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(failed)?;
        let dimension = usize::try_from(model.dimension).unwrap_or(usize::MAX);
        let record = SHA256_BYTES + dimension * COMPONENT_BYTES;
        let mut text = Vec::new();
        (&mut file).take(bytes_max).read_to_end(&mut text).map_err(failed)?;
        let records = text.chunks_exact(record);
        // A run that was killed can leave a part of a record at the end.
        let bytes = (text.len() - records.remainder().len()) as u64;
        let known = records.filter_map(read).collect();
        Ok(VectorCache { path, file, bytes, bytes_max, dimension, known })
    }

    /// Returns the vector of a text, if it is kept.
    pub(super) fn get(&self, text: &str, kind: Kind) -> Option<&Vec<f32>> {
        self.known.get(&digest(text, kind))
    }

    /// Keeps vectors, as long as the file has room.
    pub(super) fn keep(
        &mut self,
        texts: &[String],
        kind: Kind,
        vectors: &[Vec<f32>],
    ) -> Result<(), Failure> {
        let mut records = Vec::new();
        let record = (SHA256_BYTES + self.dimension * COMPONENT_BYTES) as u64;
        for (text, vector) in texts.iter().zip(vectors) {
            let has_room = self.bytes + records.len() as u64 + record <= self.bytes_max;
            let digest = digest(text, kind);
            if vector.len() != self.dimension || !has_room || self.known.contains_key(&digest) {
                continue;
            }
            records.extend(digest);
            records.extend(vector.iter().flat_map(|component| component.to_le_bytes()));
            self.known.insert(digest, vector.clone());
        }
        let written = (|| {
            self.file.seek(SeekFrom::Start(self.bytes))?;
            self.file.write_all(&records)
        })();
        written.map_err(|error| Failure::writing(self.path.display(), &error))?;
        self.bytes += records.len() as u64;
        Ok(())
    }
}

/// Reads a record; `None` if its vector has not length 1, because the file was damaged.
fn read(record: &[u8]) -> Option<(TextDigest, Vec<f32>)> {
    let (digest, rest) = record.split_at(SHA256_BYTES);
    let component =
        |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("chunks of four bytes"));
    let vector: Vec<f32> = rest.chunks_exact(COMPONENT_BYTES).map(component).collect();
    let square: f64 = vector.iter().map(|c| f64::from(*c).powi(2)).sum();
    let is_whole = (square.sqrt() - 1.0).abs() < LENGTH_TOLERANCE;
    is_whole.then(|| (digest.try_into().expect("a digest's bytes"), vector))
}

fn digest(text: &str, kind: Kind) -> TextDigest {
    let prefix = match kind {
        Kind::Query => "query\0",
        Kind::Passage => "passage\0",
    };
    let mut sum = Sha256::new();
    sum.update(prefix);
    sum.update(text);
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn model(name: &str) -> Fingerprint {
        Fingerprint { model_id: name.into(), embedding_version: "1".into(), dimension: 2 }
    }

    fn kept(directory: &Path, texts: &[&str]) -> VectorCache {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let mut cache = VectorCache::open(directory, &model("m")).unwrap();
        let vectors = vec![vec![0.6, 0.8]; texts.len()];
        cache.keep(&texts, Kind::Passage, &vectors).unwrap();
        cache
    }

    #[test]
    fn vectors_are_found_again_by_text_kind_and_model() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        drop(kept(&below, &["one", "two"]));
        let again = kept(&below, &["two", "three"]);
        assert_eq!(again.bytes, 3 * 40, "no text is kept twice");
        assert_eq!(again.get("one", Kind::Passage), Some(&vec![0.6, 0.8]));
        assert_eq!(again.get("one", Kind::Query), None);
        let other = VectorCache::open(&below, &model("n")).unwrap();
        assert_eq!(other.get("one", Kind::Passage), None);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&below), mode(&again.path)), (0o700, 0o600));
    }

    #[test]
    fn a_part_of_a_record_and_a_damaged_vector_are_computed_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = kept(dir.path(), &["one", "two"]).path;
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[35] ^= 0x10;
        bytes.truncate(79);
        std::fs::write(&path, &bytes).unwrap();
        let cache = kept(dir.path(), &["three"]);
        assert!(cache.get("one", Kind::Passage).is_none(), "damaged");
        assert!(cache.get("two", Kind::Passage).is_none(), "not whole");
        drop(cache);
        let again = kept(dir.path(), &[]);
        assert!(again.get("three", Kind::Passage).is_some(), "written over the part");
    }

    #[test]
    fn a_full_file_takes_nothing_more() {
        let dir = tempfile::tempdir().unwrap();
        let mut cache = VectorCache::bounded(dir.path(), &model("m"), 100).unwrap();
        let texts = ["one", "two", "three"].map(str::to_owned);
        cache.keep(&texts, Kind::Query, &vec![vec![1.0, 0.0]; 3]).unwrap();
        assert_eq!((cache.bytes, cache.known.len()), (80, 2));
        assert_eq!(std::fs::metadata(&cache.path).unwrap().len(), 80);
    }
}
