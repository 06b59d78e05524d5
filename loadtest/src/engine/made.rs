//! What is searched: texts with the word frequencies of a language, and vectors of soft clusters under a falling spectrum; or files.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use crate::Fault;
use crate::slo::corpus::{Chance, Corpus};

/// Components of a made vector.
const DIMENSION: usize = 384;
/// Clusters of made vectors, and the share of a vector that is its cluster's.
const CLUSTERS: u64 = 2_000;
const CLUSTER_SHARE: f32 = 0.55;
/// The scale of component `j` is `(j + 1)` to this power, after a fixed shuffle that the metric does not see.
const SPECTRUM: f32 = -0.5;
/// Longest vector of a file.
const DIMENSION_MAX: usize = 4_096;

/// Texts to store, and the questions of three kinds.
pub(crate) struct Texts {
    corpus: Corpus,
    queries: Option<Corpus>,
}

impl Texts {
    /// Made, or read from files.
    pub(crate) fn new(corpus: Option<&Path>, queries: Option<&Path>) -> Result<Self, Fault> {
        let corpus = corpus.map_or_else(|| Ok(Corpus::texts(11)), Corpus::read)?;
        Ok(Self { corpus, queries: queries.map(Corpus::read).transpose()? })
    }

    /// The text of this number; its last word is its own.
    pub(crate) fn get(&self, number: u64) -> String {
        let mut text = self.corpus.get(number);
        text.push_str(&format!(" id{number}x"));
        text
    }

    /// Kinds of questions, each with its questions over `count` stored texts.
    pub(crate) fn questions(&self, count: u64, each: u64) -> Vec<(&'static str, Vec<String>)> {
        if let Some(queries) = &self.queries {
            return vec![("questions of the file", (0..each).map(|n| queries.get(n)).collect())];
        }
        let mut chance = Chance::new(23);
        let mut natural = Vec::new();
        let mut middle = Vec::new();
        let mut rare = Vec::new();
        for _ in 0..each {
            let text = self.corpus.get(chance.below(count));
            let words: Vec<&str> = text.split_whitespace().collect();
            let length = (4 + chance.below(3) as usize).min(words.len());
            let from = chance.below((words.len() - length + 1) as u64) as usize;
            natural.push(words[from..from + length].join(" "));
            let words: Vec<String> = (0..3).map(|_| self.word(&mut chance, count)).collect();
            middle.push(words.join(" "));
            rare.push(format!("id{}x", chance.below(count)));
        }
        vec![
            ("4-6 words in a row of a text", natural),
            ("3 words of 3 texts", middle),
            ("1 word of one text", rare),
        ]
    }

    fn word(&self, chance: &mut Chance, count: u64) -> String {
        let text = self.corpus.get(chance.below(count));
        let words: Vec<&str> = text.split_whitespace().collect();
        words.get(chance.below(words.len() as u64) as usize).copied().unwrap_or("none").to_owned()
    }
}

/// Words of a text as both sides see them: lower case, cut at what is neither letter nor digit.
#[cfg(feature = "comparators")]
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.sort();
    words.dedup();
    words
}

/// Where vectors come from, one after another.
pub(crate) enum VectorSource {
    Made(MadeVectors),
    File(VectorFile),
}

impl VectorSource {
    /// Made by a seed with clusters or without, or the vectors of a file.
    pub(crate) fn new(file: Option<&Path>, seed: u64, clustered: bool) -> Result<Self, Fault> {
        match file {
            Some(path) => VectorFile::open(path).map(Self::File),
            None => Ok(Self::Made(MadeVectors::new(seed, clustered))),
        }
    }

    /// The next vector, of length 1; none at the end of a file.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<f32>>, Fault> {
        let mut vector = match self {
            Self::Made(made) => made.next(),
            Self::File(file) => match file.next()? {
                Some(vector) => vector,
                None => return Ok(None),
            },
        };
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|x| *x /= length);
        }
        Ok(Some(vector))
    }
}

/// Made vectors: a cluster's centre and noise, both under the same falling spectrum.
pub(crate) struct MadeVectors {
    chance: Chance,
    scales: Vec<f32>,
    clustered: bool,
}

impl MadeVectors {
    fn new(seed: u64, clustered: bool) -> Self {
        let scales = (0..DIMENSION).map(|j| ((j + 1) as f32).powf(SPECTRUM)).collect();
        Self { chance: Chance::new(seed), scales, clustered }
    }

    fn next(&mut self) -> Vec<f32> {
        let cluster = self.chance.below(CLUSTERS);
        // The clusters are the same for every seed: questions are asked about what was stored.
        let mut centre = Chance::new(cluster.wrapping_mul(0xd1b5_4a32_d192_ed03));
        let share = if self.clustered { CLUSTER_SHARE } else { 0.0 };
        let own = (1.0 - share * share).sqrt();
        let one =
            |scale: &f32| scale * (share * normal(&mut centre) + own * normal(&mut self.chance));
        self.scales.iter().map(one).collect()
    }
}

/// About normal: the sum of the four sixteen-bit parts of a number (Irwin-Hall), at variance 1.
fn normal(chance: &mut Chance) -> f32 {
    let bits = chance.next();
    let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xffff).sum();
    (sum as f32 / 65_536.0 - 2.0) * 1.732_050_8
}

/// Vectors of a file: `.fvecs`, `.npy` (little-endian f4 in C order, two dimensions), or JSON lines of arrays.
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
    fn open(path: &Path) -> Result<Self, Fault> {
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

    fn next(&mut self) -> Result<Option<Vec<f32>>, Fault> {
        let fault = |name: &str, text: &str| -> Fault { format!("{name}: {text}").into() };
        let dimension = match &mut self.form {
            Form::Lines => {
                let mut line = String::new();
                let read = std::io::BufRead::read_line(&mut self.reader, &mut line)?;
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
                    Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
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

/// The head of a `.npy` file: magic, version, length, and a text with `descr`, `fortran_order` and `shape`.
fn npy(reader: &mut impl std::io::Read) -> Result<Form, Fault> {
    let mut head = [0; 8];
    reader.read_exact(&mut head)?;
    if head[..6] != *b"\x93NUMPY" {
        return Err("not a .npy file".into());
    }
    let mut length = [0; 4];
    reader.read_exact(&mut length[..if head[6] == 1 { 2 } else { 4 }])?;
    let length = u32::from_le_bytes(length);
    if length > 65_536 {
        return Err("a head of more than 65536 bytes".into());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_length_one_and_files_give_them_back() {
        let mut made = VectorSource::new(None, 5, true).unwrap();
        let vector = made.next().unwrap().unwrap();
        assert_eq!(vector.len(), DIMENSION);
        assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4);
        let folder = tempfile::tempdir().unwrap();
        let head = format!("{:<60}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }");
        let npy = [
            &b"\x93NUMPY\x01\x00\x3c\x00"[..],
            head.as_bytes(),
            &[1.0_f32, 0.0, 0.0, 2.0].map(f32::to_le_bytes).concat(),
        ];
        let fvecs = [&2_i32.to_le_bytes()[..], &[1.0_f32, 0.0].map(f32::to_le_bytes).concat()];
        for (name, bytes, count) in [
            ("a.npy", npy.concat(), 2),
            ("a.fvecs", fvecs.concat(), 1),
            ("a.jsonl", b"[1,0]\n".to_vec(), 1),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let mut source = VectorSource::new(Some(&path), 0, false).unwrap();
            assert_eq!(source.next().unwrap(), Some(vec![1.0, 0.0]), "{name}");
            for _ in 1..count {
                assert_eq!(source.next().unwrap(), Some(vec![0.0, 1.0]), "{name}");
            }
            assert_eq!(source.next().unwrap(), None, "{name}");
        }
    }

    #[test]
    fn questions_are_of_words_that_are_stored() {
        let texts = Texts::new(None, None).unwrap();
        let kinds = texts.questions(100, 5);
        assert_eq!(kinds.len(), 3);
        assert!(kinds.iter().all(|(_, questions)| questions.len() == 5));
        let rare = &kinds[2].1[0];
        assert!((0..100).any(|n| texts.get(n).ends_with(rare.as_str())));
    }
}
