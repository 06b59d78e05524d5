//! Vectors for measuring an index: generated clusters, and vectors of real passages, lexical or
//! from a model.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use serde::Deserialize;

use super::corpus::Talk;
use super::progress::Progress;
use vctx_cli::exit::Failure;
use vctx_core::seeded::Seeded;
use vctx_core::text::lexical;
use vctx_server::models::{Embedder, Kind};

/// Dimension of generated vectors.
const DIMENSION: usize = 384;
/// Maximum size of a vector file, in bytes. Reading stops at that size, so a larger file fails as
/// invalid JSON.
const VECTORS_BYTES_MAX: u64 = 4 << 30;
/// Number of texts in one request to a model.
const EMBEDDED_TOGETHER: usize = 64;
/// Number of clusters, whose sizes fall as 1/rank (Zipf).
const CLUSTERS: usize = 200;
/// Number of directions in which the vectors of a cluster differ.
const INNER: usize = 32;
/// Standard deviation of the generated vectors around their cluster's centre; each centre has the
/// norm 1.
const SPREAD: f64 = 0.6;
/// Maximum length of a passage, in characters; this is about 64 tokens of prose.
const PASSAGE_CHARS_MAX: usize = 280;
/// Factor that rounds each vector component to six decimals before it is sent to the server. The
/// exact search uses the rounded components too.
const DECIMALS: f64 = 1e6;

/// Vectors to store in an archive, and other vectors to search with.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Vectors {
    pub(super) stored: Vec<Vec<f32>>,
    pub(super) asked: Vec<Vec<f32>>,
}

/// Generates vectors in clusters: `stored` vectors for the archive, and `asked` search vectors from
/// the same clusters.
pub(super) fn clustered(seed: u64, stored: usize, asked: usize) -> Vectors {
    let mut row = Seeded::new(seed);
    let clusters: Vec<Cluster> = (0..CLUSTERS).map(|_| Cluster::new(&mut row)).collect();
    let ends: Vec<f64> = (1..=CLUSTERS)
        .scan(0.0, |sum, rank| {
            *sum += 1.0 / rank as f64;
            Some(*sum)
        })
        .collect();
    let whole = ends[CLUSTERS - 1];
    let mut draw = || {
        let at = row.uniform() * whole;
        let cluster = ends.iter().position(|end| at < *end).unwrap_or(CLUSTERS - 1);
        clusters[cluster].draw(&mut row)
    };
    Vectors {
        stored: (0..stored).map(|_| draw()).collect(),
        asked: (0..asked).map(|_| draw()).collect(),
    }
}

struct Cluster {
    middle: Vec<f64>,
    inner: Vec<Vec<f64>>,
}

impl Cluster {
    fn new(row: &mut Seeded) -> Cluster {
        let mut direction = || {
            let vector: Vec<f64> = (0..DIMENSION).map(|_| row.normal()).collect();
            let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
            vector.into_iter().map(|x| x / length).collect::<Vec<f64>>()
        };
        Cluster { middle: direction(), inner: (0..INNER).map(|_| direction()).collect() }
    }

    fn draw(&self, row: &mut Seeded) -> Vec<f32> {
        let mut vector = self.middle.clone();
        for direction in &self.inner {
            let share = SPREAD * row.normal() / (INNER as f64).sqrt();
            for (component, part) in vector.iter_mut().zip(direction) {
                *component += share * part;
            }
        }
        finished(&vector)
    }
}

/// Scales a vector to the norm 1, and rounds the components to the number of decimals sent to the
/// server.
fn finished(vector: &[f64]) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    vector.iter().map(|x| ((x / length * DECIMALS).round() / DECIMALS) as f32).collect()
}

/// Reads the vectors `stored` and `asked` from a file; returns an error unless all vectors have the
/// same number of components.
pub(super) fn read(path: &Path) -> Result<Vectors, Failure> {
    let file = File::open(path).map_err(|error| Failure::reading(path.display(), &error))?;
    let bounded = BufReader::new(file.take(VECTORS_BYTES_MAX));
    let vectors: Vectors = serde_json::from_reader(bounded).map_err(|error| {
        let message = format!("{} contains no readable vectors: {error}", path.display());
        Failure::data(message)
    })?;
    let length = vectors.stored.first().map_or(0, Vec::len);
    let all = vectors.stored.iter().chain(&vectors.asked);
    if length == 0 || vectors.asked.is_empty() || all.clone().any(|one| one.len() != length) {
        let message =
            format!("{}: give vectors of one dimension in `stored` and `asked`", path.display());
        return Err(Failure::data(message));
    }
    let unit =
        |vector: &Vec<f32>| finished(&vector.iter().map(|c| f64::from(*c)).collect::<Vec<f64>>());
    Ok(Vectors {
        stored: vectors.stored.iter().map(unit).collect(),
        asked: vectors.asked.iter().map(unit).collect(),
    })
}

/// Passages of an archive, and questions about the passages.
pub(super) struct Texts {
    stored: Vec<String>,
    pub(super) asked: Vec<String>,
}

/// Collects a limited number of passages and questions, chosen evenly from conversations and other
/// texts.
pub(super) fn texts(
    talks: &[Talk],
    further: &[String],
    (stored_max, asked_max): (usize, usize),
) -> Texts {
    let messages =
        talks.iter().flat_map(|talk| &talk.messages).map(|message| message.text.as_str());
    let stored = messages.chain(further.iter().map(String::as_str)).flat_map(passages).collect();
    let questions = talks.iter().flat_map(|talk| &talk.questions);
    let asked = questions.map(|question| question.text.clone()).collect();
    Texts { stored: spread(stored, stored_max), asked: spread(asked, asked_max) }
}

fn spread(all: Vec<String>, most: usize) -> Vec<String> {
    let step = all.len().div_ceil(most.max(1)).max(1);
    all.into_iter().step_by(step).collect()
}

/// Computes the lexical vectors of passages and questions.
pub(super) fn lexical(texts: &Texts) -> Vectors {
    let made = |text: &String| finished(&lexical::embed_query(text, DIMENSION));
    Vectors {
        stored: texts.stored.iter().map(made).collect(),
        asked: texts.asked.iter().map(made).collect(),
    }
}

/// Computes the vectors of passages and questions with a model; a text is embedded without its
/// context.
pub(super) async fn by_model(texts: &Texts, model: &dyn Embedder) -> Result<Vectors, Failure> {
    let all = texts.stored.len() + texts.asked.len();
    let progress = Progress::new("vectors, model: embedding", all);
    let mut vectors = Vectors::default();
    for (texts, kind, made) in [
        (&texts.stored, Kind::Passage, &mut vectors.stored),
        (&texts.asked, Kind::Query, &mut vectors.asked),
    ] {
        for some in texts.chunks(EMBEDDED_TOGETHER) {
            let embedded = model.embed(some, kind).await.map_err(|error| {
                Failure::internal(format!("the configured model makes no vectors: {error}"))
            })?;
            let wide = |vector: &Vec<f32>| vector.iter().map(|c| f64::from(*c)).collect::<Vec<_>>();
            made.extend(embedded.iter().map(|vector| finished(&wide(vector))));
            progress.add(some.len());
        }
    }
    progress.close();
    Ok(vectors)
}

/// Splits a text into passages of whole words.
fn passages(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for word in text.split_whitespace() {
        let last = all.last_mut().expect("the list is never empty");
        if !last.is_empty() && last.len() + word.len() > PASSAGE_CHARS_MAX {
            all.push(word.to_owned());
        } else {
            last.push_str(if last.is_empty() { "" } else { " " });
            last.push_str(word);
        }
    }
    all.retain(|passage| passage.chars().any(char::is_alphanumeric));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_follow_from_their_seed_and_have_length_one() {
        let made = clustered(9, 50, 5);
        assert_eq!((made.stored.len(), made.asked.len()), (50, 5));
        assert_eq!(made.stored, clustered(9, 50, 5).stored);
        assert_ne!(made.stored, clustered(8, 50, 5).stored);
        for vector in made.stored.iter().chain(&made.asked) {
            let length: f64 = vector.iter().map(|x| f64::from(*x).powi(2)).sum();
            assert!((length - 1.0).abs() < 1e-4, "{length}");
        }
    }

    #[test]
    fn vectors_of_a_file_have_one_length_and_become_units() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.json");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write(r#"{"stored": [[3, 4], [0, 2]], "asked": [[1, 0]]}"#);
        let found = read(&path).unwrap();
        assert_eq!(
            (found.stored, found.asked),
            (vec![vec![0.6, 0.8], vec![0.0, 1.0]], vec![vec![1.0, 0.0]])
        );
        for wrong in [
            r#"{"stored": [[3, 4], [0]], "asked": [[1, 0]]}"#,
            r#"{"stored": [[1]], "asked": []}"#,
            "[]",
        ] {
            write(wrong);
            assert!(read(&path).is_err(), "{wrong}");
        }
    }

    #[test]
    fn passages_keep_every_word_and_their_bound() {
        let text = "one two three ".repeat(100);
        let cut = passages(&text);
        assert!(cut.len() > 3 && cut.iter().all(|passage| passage.len() <= PASSAGE_CHARS_MAX));
        assert_eq!(cut.join(" "), text.trim_end());
        assert!(passages(" … ").is_empty());
    }
}
