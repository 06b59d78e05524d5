//! Reads vector files, and finds the exact nearest vectors of a set.

use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Read};
use std::path::Path;

use crate::Fault;

/// Maximum dimension of a vector in a file.
const DIMENSION_MAX: usize = 4_096;
/// Maximum size of the head of a `.npy` file, in bytes.
const HEAD_BYTES_MAX: u32 = 65_536;

/// A reader of a vector file: `.fvecs`, `.npy` (little-endian f4 in C order, two dimensions), or
/// lines of JSON arrays.
pub(crate) struct VectorFile {
    reader: BufReader<File>,
    form: Form,
    name: String,
}

enum Form {
    Fvecs,
    Npy { dimension: usize, left: usize },
    Lines,
}

impl VectorFile {
    /// Opens a vector file; the file name determines the format.
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|e| format!("{name}: {e}"))?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let form = match path.extension().and_then(|e| e.to_str()) {
            Some("fvecs") => Form::Fvecs,
            Some("npy") => npy(&mut reader).map_err(|e| format!("{name}: {e}"))?,
            _ => Form::Lines,
        };
        Ok(Self { reader, form, name })
    }

    /// Returns the next vector of the file, scaled to length 1; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<f32>>, Fault> {
        Ok(self.read()?.map(unit))
    }

    fn read(&mut self) -> Result<Option<Vec<f32>>, Fault> {
        let fault = |name: &str, text: &str| -> Fault { format!("{name}: {text}").into() };
        let dimension = match &mut self.form {
            Form::Lines => {
                let mut line = String::new();
                let read = self.reader.read_line(&mut line)?;
                if read == 0 || line.trim().is_empty() {
                    return Ok(None);
                }
                let vector: Vec<f32> = serde_json::from_str(&line)?;
                return Ok(Some(vector));
            }
            Form::Npy { left: 0, .. } => return Ok(None),
            Form::Npy { dimension, left } => {
                *left -= 1;
                *dimension
            }
            Form::Fvecs => {
                let mut head = [0; 4];
                match self.reader.read_exact(&mut head) {
                    Ok(()) => usize::try_from(i32::from_le_bytes(head))?,
                    Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(None),
                    Err(e) => return Err(e.into()),
                }
            }
        };
        if !(1..=DIMENSION_MAX).contains(&dimension) {
            return Err(fault(&self.name, "a vector has 1 to 4096 components"));
        }
        let mut bytes = vec![0; dimension * 4];
        self.reader
            .read_exact(&mut bytes)
            .map_err(|_| fault(&self.name, "ends within a vector"))?;
        let (components, _) = bytes.as_chunks::<4>();
        Ok(Some(components.iter().map(|b| f32::from_le_bytes(*b)).collect()))
    }
}

/// Reads the head of a `.npy` file: magic, version, length, and a text with `descr`,
/// `fortran_order` and `shape`.
fn npy(reader: &mut impl Read) -> Result<Form, Fault> {
    let mut head = [0; 8];
    reader.read_exact(&mut head)?;
    if head[..6] != *b"\x93NUMPY" {
        return Err("not a .npy file".into());
    }
    let mut length = [0; 4];
    reader.read_exact(&mut length[..if head[6] == 1 { 2 } else { 4 }])?;
    let length = u32::from_le_bytes(length);
    if length > HEAD_BYTES_MAX {
        return Err(format!("a head of more than {HEAD_BYTES_MAX} bytes").into());
    }
    let mut text = vec![0; length as usize];
    reader.read_exact(&mut text)?;
    let text = String::from_utf8(text)?;
    if !text.contains("'<f4'") || !text.contains("'fortran_order': False") {
        return Err("only little-endian f4 in C order is read".into());
    }
    let shape = text.split_once("'shape': (").and_then(|(_, rest)| rest.split_once(')'));
    let numbers = shape.map(|(shape, _)| shape.split(',').map(|n| n.trim().parse::<usize>()));
    let numbers: Vec<usize> = numbers.into_iter().flatten().filter_map(Result::ok).collect();
    match numbers[..] {
        [left, dimension] => Ok(Form::Npy { dimension, left }),
        _ => Err("an array of two dimensions is needed".into()),
    }
}

/// Scales a vector to length 1; a zero vector is unchanged.
pub(crate) fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
    vector
}

/// Updates `nearest`, the sorted list of the `k` vectors with the largest scalar products with a
/// question. Compares a block of further vectors, whose numbers start at `first`.
pub(crate) fn take_nearer(
    nearest: &mut Vec<(f32, u64)>,
    k: usize,
    question: &[f32],
    block: &[Vec<f32>],
    first: u64,
) {
    for (at, vector) in block.iter().enumerate() {
        let product = dot(vector, question);
        if nearest.len() == k && nearest.last().is_some_and(|(least, _)| *least >= product) {
            continue;
        }
        let position = nearest.partition_point(|(other, _)| *other >= product);
        nearest.insert(position, (product, first + at as u64));
        nearest.truncate(k);
    }
}

/// Returns the scalar product of two vectors. Sums the products in separate lanes, so that the
/// compiler can use vector instructions.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 16];
    let (a, a_rest) = a.as_chunks::<16>();
    let (b, b_rest) = b.as_chunks::<16>();
    for (x, y) in a.iter().zip(b) {
        for lane in 0..16 {
            lanes[lane] += x[lane] * y[lane];
        }
    }
    lanes.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slo::vectors::Vectors;

    #[test]
    fn the_nearest_do_not_depend_on_the_blocks() {
        let made = Vectors::generate(1, 20);
        let all: Vec<Vec<f32>> = (0..300).map(|n| made.get(n)).collect();
        let question = Vectors::generate(2, 20).get(5);
        let mut nearest = Vec::new();
        for (at, block) in all.chunks(70).enumerate() {
            take_nearer(&mut nearest, 40, &question, block, at as u64 * 70);
        }
        let mut sorted: Vec<u64> = (0..300).collect();
        let product = |n: &u64| dot(&all[*n as usize], &question);
        sorted.sort_by(|a, b| product(b).total_cmp(&product(a)));
        let found: Vec<u64> = nearest.iter().map(|(_, number)| *number).collect();
        assert_eq!(found, sorted[..40]);
    }

    #[test]
    fn vectors_of_files_have_length_one() {
        let folder = tempfile::tempdir().unwrap();
        let head = format!("{:<60}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }");
        let npy = [
            &b"\x93NUMPY\x01\x00\x3c\x00"[..],
            head.as_bytes(),
            &[1.0_f32, 0.0, 0.0, 2.0].map(f32::to_le_bytes).concat(),
        ];
        let fvecs = [&2_i32.to_le_bytes()[..], &[1.0_f32, 0.0].map(f32::to_le_bytes).concat()];
        let fvecs = fvecs.concat();
        for (name, bytes, count) in [
            ("a.npy", npy.concat(), 2),
            ("a.fvecs", fvecs.clone(), 1),
            ("a.jsonl", b"[1,0]\n[0,3]\n".to_vec(), 2),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let mut file = VectorFile::open(&path).unwrap();
            assert_eq!(file.next().unwrap(), Some(vec![1.0, 0.0]), "{name}");
            for _ in 1..count {
                assert_eq!(file.next().unwrap(), Some(vec![0.0, 1.0]), "{name}");
            }
            assert_eq!(file.next().unwrap(), None, "{name}");
        }
        for (name, bytes) in [("b.fvecs", &fvecs[..7]), ("b.jsonl", b"[1, x]")] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            assert!(VectorFile::open(&path).unwrap().next().is_err(), "{name}");
        }
    }
}
