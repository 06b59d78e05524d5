//! Part b of the engine benchmark: searches for the nearest forty of many vectors, with AQL queries
//! and with faiss IVF-Flat at equal recall.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use super::figures::{Figures, Goal, Row, quantile, ratio};
use super::made::VectorSource;
use super::target::{Target, cursor_body, timed};
use super::texts::Answers;
use crate::Fault;
use crate::vectors::take_nearer;

/// Number of rows in the answer to a vector search.
const NEAREST: usize = 40;
/// Goal: maximum ratio of the engine's processor time to the processor time of faiss.
const RATIO_MAX: f64 = 1.5;
/// Number of rounds over all questions.
const ROUNDS: usize = 3;
/// Number of lists of a vector index over a million vectors; the number grows with the square root
/// of the number of vectors.
const LISTS: f64 = 1000.0;
/// Numbers of probed lists, tried in order until the required recall is reached.
const PROBES: [u64; 18] = [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192];
/// Size in bytes at which a batch of collected vectors is sent to the engine.
const BATCH_BYTES: usize = 2 << 20;
/// Number of vectors in a block that is compared with all questions to find the exact answers; a
/// block fits into the processor's cache.
const BLOCK: usize = 2_000;

const QUERY: &str = "FOR v IN vectors SORT APPROX_NEAR_INNER_PRODUCT(v.vector, @q, {nProbe: @probes}) DESC LIMIT 40 RETURN v._key";

/// A set of vectors to measure, with the settings of the measurement.
pub(crate) struct Plan<'a> {
    /// Name of the vector set.
    pub(crate) name: &'static str,
    /// Files with vectors and questions to use instead of generated ones.
    pub(crate) files: (Option<&'a Path>, Option<&'a Path>),
    /// Whether generated vectors have clusters.
    pub(crate) clustered: bool,
    pub(crate) count: u64,
    pub(crate) questions: usize,
    /// Recall at which engine and faiss are compared.
    pub(crate) recall: f64,
    /// The Python interpreter with faiss.
    pub(crate) python: Option<&'a Path>,
}

/// A set of vectors that is stored in the engine, with its questions and their exact answers.
struct Stored {
    file: PathBuf,
    question_file: PathBuf,
    questions: Vec<Vec<f32>>,
    /// For each question, the keys of the nearest vectors, found by comparing the question with
    /// every vector.
    exact: Vec<Vec<u64>>,
    count: u64,
    dimension: usize,
    insert_seconds: f64,
}

/// Stores the vectors, builds the index, and searches with the engine and with faiss.
pub(crate) fn measure(
    program: &Path,
    folder: &Path,
    plan: &Plan<'_>,
) -> Result<(Vec<Row>, Vec<String>), Fault> {
    let target = Target::start(program, &folder.join("engine"))?;
    let outcome = measured(&target, folder, plan);
    match outcome {
        Ok(rows) => target.stop().map(|()| rows),
        Err(fault) => {
            Err(format!("{fault}\n--- end of the engine's log ---\n{}", target.tail()).into())
        }
    }
}

fn measured(
    target: &Target,
    folder: &Path,
    plan: &Plan<'_>,
) -> Result<(Vec<Row>, Vec<String>), Fault> {
    eprintln!("vectors, {}: storing {}", plan.name, plan.count);
    let stored = store(target, folder, plan)?;
    let lists = ((stored.count as f64 / 1e6).sqrt() * LISTS).clamp(4.0, LISTS) as u64;
    let mut connection = target.connect()?;
    let begun = Instant::now();
    eprintln!("vectors, {}: building an index of {lists} lists", plan.name);
    let index = json!({
        "type": "vector", "name": "near", "fields": ["vector"],
        "params": {"metric": "innerProduct", "dimension": stored.dimension, "nLists": lists},
    });
    connection.make("/_api/index?collection=vectors", &index)?;
    let build_seconds = begun.elapsed().as_secs_f64();
    target.quiet()?;
    let (resident, peak, anonymous) = target.memory_mib()?;
    let mut notes = vec![format!(
        "vectors, {}: {} of {} components, nLists {lists}; inserted in {:.0} s, index built in {build_seconds:.0} s; disk {:.0} MB, \
         resident {resident:.0} MiB (highest {peak:.0}; {:.0} of it no file)",
        plan.name,
        stored.count,
        stored.dimension,
        stored.insert_seconds,
        target.disk_bytes()? as f64 / 1e6,
        anonymous,
    )];
    let ours = reach(&stored, plan.recall, lists, |probes| ask(target, &stored, probes))?;
    eprintln!("vectors, {}: building the index of faiss", plan.name);
    let mut other = other_side(&stored, plan, lists, &mut notes)?;
    let theirs = match &mut other {
        Some(other) => Some(reach(&stored, plan.recall, lists, |probes| other.ask(probes))?),
        None => None,
    };
    let (mut our_rounds, mut their_rounds) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        our_rounds.push(ask(target, &stored, ours.probes)?);
        if let (Some(other), Some(theirs)) = (&mut other, &theirs) {
            their_rounds.push(other.ask(theirs.probes)?);
        }
    }
    let answers = Answers::medians(&our_rounds);
    let engine = Figures::of(&answers.wall, &answers.cpu);
    let mut note = format!(
        "recall {:.3} at nProbe {} of {lists}; engine's own time p50 {:.0} µs",
        ours.recall,
        ours.probes,
        quantile(&answers.inside, 0.5).unwrap_or(0.0)
    );
    let figures = theirs.map(|theirs| {
        let answers = Answers::medians(&their_rounds);
        note += &format!("; faiss {:.3} at {}", theirs.recall, theirs.probes);
        Figures::of(&answers.wall, &answers.cpu)
    });
    let is = figures.as_ref().and_then(|figures| ratio(engine.cpu_p50, figures.cpu_p50));
    let row = Row {
        part: 'b',
        what: format!(
            "nearest {NEAREST} of {} × {}, {}",
            stored.count, stored.dimension, plan.name
        ),
        engine,
        other: figures.map(|figures| ("faiss IVF-Flat, 1 thread".to_owned(), figures)),
        basis: "CPU p50",
        is,
        goal: Some(Goal::AtMost(RATIO_MAX)),
        note,
    };
    Ok((vec![row], notes))
}

fn store(target: &Target, folder: &Path, plan: &Plan<'_>) -> Result<Stored, Fault> {
    let mut source = VectorSource::new(plan.files.1, 77, plan.clustered)?;
    let mut questions = Vec::new();
    while questions.len() < plan.questions
        && let Some(question) = source.next()?
    {
        questions.push(question);
    }
    let dimension = questions.first().map_or(0, Vec::len);
    let question_file = folder.join("questions.f32");
    let mut out = BufWriter::new(File::create(&question_file)?);
    questions.iter().try_for_each(|question| out.write_all(&bytes_of(question)))?;
    out.flush()?;
    let mut connection = target.connect()?;
    connection.make("/_api/collection", &json!({"name": "vectors"}))?;
    let mut source = VectorSource::new(plan.files.0, 7, plan.clustered)?;
    let file = folder.join("stored.f32");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&file)?);
    let (mut batch, mut block, mut count) = (Vec::new(), Vec::new(), 0_u64);
    let mut nearest = vec![Vec::with_capacity(NEAREST + 1); questions.len()];
    let mut insert_seconds = 0.0;
    loop {
        let vector = if count < plan.count { source.next()? } else { None };
        let ended = vector.is_none();
        if let Some(vector) = vector {
            if vector.len() != dimension {
                return Err("questions and stored vectors have different dimensions".into());
            }
            out.write_all(&bytes_of(&vector))?;
            batch.push(if batch.is_empty() { b'[' } else { b',' });
            write!(batch, "{{\"_key\":\"{count}\",\"vector\":")?;
            serde_json::to_writer(&mut batch, &vector)?;
            batch.push(b'}');
            block.push(vector);
            count += 1;
        }
        if batch.len() >= BATCH_BYTES || (ended && !batch.is_empty()) {
            batch.push(b']');
            let begun = Instant::now();
            connection.insert("vectors", &batch)?;
            insert_seconds += begun.elapsed().as_secs_f64();
            batch.clear();
        }
        if block.len() == BLOCK || ended {
            for (question, nearest) in questions.iter().zip(&mut nearest) {
                take_nearer(nearest, NEAREST, question, &block, count - block.len() as u64);
            }
            block.clear();
        }
        if ended {
            break;
        }
    }
    out.flush()?;
    let keys = |nearest: Vec<(f32, u64)>| nearest.into_iter().map(|(_, key)| key).collect();
    let exact = nearest.into_iter().map(keys).collect();
    Ok(Stored { file, question_file, questions, exact, count, dimension, insert_seconds })
}

fn bytes_of(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn ask(target: &Target, stored: &Stored, probes: u64) -> Result<Answers, Fault> {
    let mut connection = target.connect()?;
    let mut answers = Answers::default();
    for question in &stored.questions {
        let body = cursor_body(QUERY, &json!({"q": question, "probes": probes}));
        let one = timed(target, &mut connection, &body)?;
        answers.wall.push(one.wall);
        answers.cpu.push(one.cpu);
        answers.inside.push(one.inside);
        answers.keys.push(one.keys);
    }
    Ok(answers)
}

/// A number of probed lists, and the recall that a search with this number reaches.
struct OperatingPoint {
    probes: u64,
    recall: f64,
}

/// Returns the smallest number of probed lists that reaches the required recall, or the largest
/// number tried.
fn reach(
    stored: &Stored,
    wanted: f64,
    lists: u64,
    mut ask: impl FnMut(u64) -> Result<Answers, Fault>,
) -> Result<OperatingPoint, Fault> {
    let mut reached = OperatingPoint { probes: 1, recall: 0.0 };
    for probes in PROBES.into_iter().filter(|probes| *probes <= lists) {
        reached = OperatingPoint { probes, recall: recall(&stored.exact, &ask(probes)?.keys) };
        if reached.recall >= wanted {
            break;
        }
    }
    Ok(reached)
}

fn recall(exact: &[Vec<u64>], found: &[Vec<u64>]) -> f64 {
    let pairs = || exact.iter().zip(found);
    let all: usize = pairs().map(|(exact, _)| exact.len()).sum();
    let hits = |(exact, found): (&Vec<u64>, &Vec<u64>)| {
        exact.iter().filter(|key| found.contains(key)).count()
    };
    if all == 0 { 1.0 } else { pairs().map(hits).sum::<usize>() as f64 / all as f64 }
}

/// The program that is compared with the engine: faiss.
#[cfg(feature = "comparators")]
type VectorComparator = super::faiss::Faiss;

/// Starts faiss, if a Python interpreter was given.
#[cfg(feature = "comparators")]
fn other_side(
    stored: &Stored,
    plan: &Plan<'_>,
    lists: u64,
    notes: &mut Vec<String>,
) -> Result<Option<VectorComparator>, Fault> {
    let Some(python) = plan.python else { return Ok(None) };
    let size = (stored.count, stored.dimension, lists, NEAREST);
    let faiss = VectorComparator::build(python, (&stored.file, &stored.question_file), size)?;
    notes.push(format!("faiss, {}: {}", plan.name, faiss.built));
    Ok(Some(faiss))
}

#[cfg(not(feature = "comparators"))]
enum VectorComparator {}

#[cfg(not(feature = "comparators"))]
fn other_side(
    stored: &Stored,
    plan: &Plan<'_>,
    _: u64,
    notes: &mut Vec<String>,
) -> Result<Option<VectorComparator>, Fault> {
    if let Some(python) = plan.python {
        let files = [&stored.file, &stored.question_file].map(|file| file.display());
        notes.push(format!(
            "{} does not search {} and {}: this program was built without the feature `comparators`",
            python.display(),
            files[0],
            files[1]
        ));
    }
    Ok(None)
}

#[cfg(not(feature = "comparators"))]
impl VectorComparator {
    fn ask(&mut self, _: u64) -> Result<Answers, Fault> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recall_is_the_share_of_the_exact_answer() {
        let exact = vec![(0..40).collect::<Vec<u64>>()];
        assert!((recall(&exact, &[exact[0][..20].to_vec()]) - 0.5).abs() < 1e-9);
        assert!((recall(&[], &[]) - 1.0).abs() < 1e-9);
    }
}
