//! Vectors to search among and to search with: made around topics, or read from `.fvecs` and JSON lines; and the exact answer.

use std::fs;
use std::path::Path;

use super::corpus::Chance;
use crate::Fault;

/// Topics that made vectors lie around.
const TOPICS: u64 = 2_000;
/// How far they scatter, against the length of a topic.
const SCATTER: f64 = 0.7;
/// Bytes of a vector file at most.
const FILE_BYTES_MAX: u64 = 16 << 30;

/// Vectors by number, all of one dimension and of length 1.
pub(crate) enum Vectors {
    Made { seed: u64, dimension: usize },
    Read { all: Vec<Vec<f32>> },
}

impl Vectors {
    /// Made vectors.
    pub(crate) fn made(seed: u64, dimension: usize) -> Self {
        Self::Made { seed, dimension }
    }

    /// From `.fvecs` (each: little-endian i32 dimension, then f32 components) or JSON lines of arrays.
    pub(crate) fn read(path: &Path) -> Result<Self, Fault> {
        let fault = |text: String| -> Fault { format!("{}: {text}", path.display()).into() };
        let bytes = fs::metadata(path).map_err(|e| fault(e.to_string()))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(fault(format!("more than {FILE_BYTES_MAX} bytes")));
        }
        let content = fs::read(path).map_err(|e| fault(e.to_string()))?;
        let all = match path.extension().is_some_and(|e| e == "fvecs") {
            true => fvecs(&content).map_err(fault)?,
            false => lines(&content).map_err(fault)?,
        };
        let dimension = all.first().map_or(0, Vec::len);
        if dimension == 0 || all.iter().any(|v| v.len() != dimension) {
            return Err(fault("vectors of one dimension are needed".into()));
        }
        Ok(Self::Read { all: all.into_iter().map(unit).collect() })
    }

    /// Components of each.
    pub(crate) fn dimension(&self) -> usize {
        match self {
            Self::Made { dimension, .. } => *dimension,
            Self::Read { all } => all[0].len(),
        }
    }

    /// How many there are; none: as many as asked for.
    pub(crate) fn count(&self) -> Option<u64> {
        match self {
            Self::Made { .. } => None,
            Self::Read { all } => Some(all.len() as u64),
        }
    }

    /// The vector of this number.
    pub(crate) fn get(&self, number: u64) -> Vec<f32> {
        match self {
            Self::Read { all } => all[(number % all.len() as u64) as usize].clone(),
            Self::Made { seed, dimension } => {
                let mut own = Chance::new(seed ^ number.wrapping_mul(0x9e6c_63d0_876a_3f6b));
                // Topics are the same for every seed: questions are asked about what was stored.
                let mut topic = Chance::new(own.below(TOPICS).wrapping_mul(0xd1b5_4a32_d192_ed03));
                let mix = |_| (topic.normal() + SCATTER * own.normal()) as f32;
                unit((0..*dimension).map(mix).collect())
            }
        }
    }
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
    vector
}

fn fvecs(mut content: &[u8]) -> Result<Vec<Vec<f32>>, String> {
    let mut all = Vec::new();
    while let Some((head, rest)) = content.split_first_chunk::<4>() {
        let dimension = usize::try_from(i32::from_le_bytes(*head)).map_err(|e| e.to_string())?;
        let Some((body, rest)) = rest.split_at_checked(dimension * 4) else {
            return Err("ends within a vector".into());
        };
        let floats = body.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        all.push(floats.collect());
        content = rest;
    }
    match content.is_empty() {
        true => Ok(all),
        false => Err("ends within a vector".into()),
    }
}

fn lines(content: &[u8]) -> Result<Vec<Vec<f32>>, String> {
    let text = std::str::from_utf8(content).map_err(|e| e.to_string())?;
    let filled = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    filled
        .map(|(at, line)| serde_json::from_str(line).map_err(|e| format!("line {}: {e}", at + 1)))
        .collect()
}

/// The numbers of the `k` stored vectors most alike to the question, by the scalar product of unit vectors.
pub(crate) fn exact(stored: &[Vec<f32>], question: &[f32], k: usize) -> Vec<usize> {
    let mut found: Vec<(f32, usize)> = Vec::with_capacity(k + 1);
    for (at, vector) in stored.iter().enumerate() {
        let alike: f32 = dot(vector, question);
        if found.len() == k && found.last().is_some_and(|(least, _)| *least >= alike) {
            continue;
        }
        let place = found.partition_point(|(other, _)| *other >= alike);
        found.insert(place, (alike, at));
        found.truncate(k);
    }
    found.into_iter().map(|(_, at)| at).collect()
}

/// In eight lanes, which the compiler turns into vector instructions.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 8];
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    for (x, y) in a.iter().zip(b) {
        for lane in 0..8 {
            lanes[lane] += x[lane] * y[lane];
        }
    }
    lanes.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_answer_is_the_sorted_one() {
        let vectors = Vectors::made(1, 20);
        let stored: Vec<Vec<f32>> = (0..300).map(|n| vectors.get(n)).collect();
        let question = Vectors::made(2, 20).get(5);
        let mut all: Vec<usize> = (0..300).collect();
        let alike =
            |at: usize| -> f32 { stored[at].iter().zip(&question).map(|(x, y)| x * y).sum() };
        all.sort_by(|a, b| alike(*b).total_cmp(&alike(*a)));
        assert_eq!(exact(&stored, &question, 10), all[..10]);
        let length: f32 = stored[0].iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-5);
    }

    #[test]
    fn vector_files_are_read_or_refused() {
        let mut bytes = 2_i32.to_le_bytes().to_vec();
        bytes.extend(1.0_f32.to_le_bytes());
        bytes.extend(0.5_f32.to_le_bytes());
        assert_eq!(fvecs(&bytes).unwrap(), [[1.0, 0.5]]);
        assert!(fvecs(&bytes[..7]).is_err());
        assert_eq!(lines(b"[1, 2]\n\n[3, 4]\n").unwrap(), [[1.0, 2.0], [3.0, 4.0]]);
        assert!(lines(b"[1, x]").unwrap_err().starts_with("line 1"));
    }
}
