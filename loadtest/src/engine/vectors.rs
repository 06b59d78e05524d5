//! Part b: the nearest forty of many vectors, through AQL and beside faiss IVF-Flat at equal recall.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use super::figures::{Figures, Goal, Row, quantile, ratio};
use super::made::VectorSource;
use super::target::{Target, cursor_body, timed};
use super::texts::Asked;
use crate::Fault;

/// Rows of an answer.
const NEAREST: usize = 40;
/// Processor time against that of faiss.
const RATIO_MAX: f64 = 1.5;
/// Rounds over all questions.
const ROUNDS: usize = 3;
/// Lists at a million vectors; fewer vectors have fewer, by the root.
const LISTS: f64 = 1000.0;
/// Numbers of lists that are probed until the recall is reached.
const PROBES: [u64; 18] = [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192];
/// Bytes of one load.
const BATCH_BYTES: usize = 2 << 20;
/// Vectors of a block over which exact answers are found, so that it stays in the cache of the processor.
const BLOCK: usize = 2_000;

const QUERY: &str = "FOR v IN vectors SORT APPROX_NEAR_INNER_PRODUCT(v.vector, @q, {nProbe: @probes}) DESC LIMIT 40 RETURN v._key";

/// What is to be measured.
pub(crate) struct Wish<'a> {
    /// What the set is called.
    pub(crate) name: &'static str,
    /// Files instead of what is made.
    pub(crate) files: (Option<&'a Path>, Option<&'a Path>),
    /// Whether made vectors have clusters.
    pub(crate) clustered: bool,
    pub(crate) count: u64,
    pub(crate) questions: usize,
    /// Recall at which both sides are compared.
    pub(crate) recall: f64,
    /// The Python with faiss.
    pub(crate) python: Option<&'a Path>,
}

/// The set as it was stored.
struct Stored {
    file: PathBuf,
    question_file: PathBuf,
    questions: Vec<Vec<f32>>,
    /// Numbers of the truly nearest, by question.
    exact: Vec<Vec<u64>>,
    count: u64,
    dimension: usize,
    insert_seconds: f64,
}

/// Stores the vectors, builds the index, and asks both sides.
pub(crate) fn measure(
    program: &Path,
    folder: &Path,
    wish: &Wish<'_>,
) -> Result<(Vec<Row>, Vec<String>), Fault> {
    let target = Target::start(program, &folder.join("engine"))?;
    let outcome = measured(&target, folder, wish);
    match outcome {
        Ok(rows) => target.stop().map(|()| rows),
        Err(fault) => {
            Err(format!("{fault}\n--- the engine said last ---\n{}", target.tail()).into())
        }
    }
}

fn measured(
    target: &Target,
    folder: &Path,
    wish: &Wish<'_>,
) -> Result<(Vec<Row>, Vec<String>), Fault> {
    eprintln!("vectors, {}: storing {}", wish.name, wish.count);
    let stored = store(target, folder, wish)?;
    let lists = ((stored.count as f64 / 1e6).sqrt() * LISTS).clamp(4.0, LISTS) as u64;
    let mut connection = target.connect()?;
    let begun = Instant::now();
    eprintln!("vectors, {}: building an index of {lists} lists", wish.name);
    let index = json!({
        "type": "vector", "name": "near", "fields": ["vector"],
        "params": {"metric": "innerProduct", "dimension": stored.dimension, "nLists": lists},
    });
    connection.make("/_api/index?collection=vectors", &index)?;
    let build_seconds = begun.elapsed().as_secs_f64();
    target.quiet()?;
    let (resident, peak) = target.resident_mib()?;
    let mut notes = vec![format!(
        "vectors, {}: {} of {} components, nLists {lists}; inserted in {:.0} s, index built in {build_seconds:.0} s; disk {:.0} MB, \
         resident {resident:.0} MiB (highest {peak:.0}; {:.0} of it no file)",
        wish.name,
        stored.count,
        stored.dimension,
        stored.insert_seconds,
        target.disk_bytes()? as f64 / 1e6,
        target.anonymous_mib()?,
    )];
    let ours = reach(&stored, wish.recall, lists, |probes| ask(target, &stored, probes))?;
    eprintln!("vectors, {}: the other side", wish.name);
    let mut other = other_side(&stored, wish, lists, &mut notes)?;
    let theirs = match &mut other {
        Some(other) => Some(reach(&stored, wish.recall, lists, |probes| other.ask(probes))?),
        None => None,
    };
    let (mut our_rounds, mut their_rounds) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        our_rounds.push(ask(target, &stored, ours.probes)?);
        if let (Some(other), Some(theirs)) = (&mut other, &theirs) {
            their_rounds.push(other.ask(theirs.probes)?);
        }
    }
    let asked = Asked::medians(&our_rounds);
    let engine = Figures::of(&asked.wall, &asked.cpu);
    let mut note = format!(
        "recall {:.3} at nProbe {} of {lists}; engine's own time p50 {:.0} µs",
        ours.recall,
        ours.probes,
        quantile(&asked.inside, 0.5).unwrap_or(0.0)
    );
    let figures = theirs.map(|theirs| {
        let asked = Asked::medians(&their_rounds);
        note += &format!("; faiss {:.3} at {}", theirs.recall, theirs.probes);
        Figures::of(&asked.wall, &asked.cpu)
    });
    let is = figures.as_ref().and_then(|figures| ratio(engine.cpu_p50, figures.cpu_p50));
    let row = Row {
        part: 'b',
        what: format!(
            "nearest {NEAREST} of {} × {}, {}",
            stored.count, stored.dimension, wish.name
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

fn store(target: &Target, folder: &Path, wish: &Wish<'_>) -> Result<Stored, Fault> {
    let mut source = VectorSource::new(wish.files.1, 77, wish.clustered)?;
    let mut questions = Vec::new();
    while questions.len() < wish.questions
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
    let mut source = VectorSource::new(wish.files.0, 7, wish.clustered)?;
    let file = folder.join("stored.f32");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&file)?);
    let (mut batch, mut block, mut count) = (Vec::new(), Vec::new(), 0_u64);
    let mut nearest = vec![Vec::with_capacity(NEAREST + 1); questions.len()];
    let mut insert_seconds = 0.0;
    loop {
        let vector = if count < wish.count { source.next()? } else { None };
        let ended = vector.is_none();
        if let Some(vector) = vector {
            if vector.len() != dimension {
                return Err("questions and stored vectors differ in their dimension".into());
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
                take_nearer(nearest, question, &block, count - block.len() as u64);
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

/// Puts those of a block into the sorted list of the nearest that belong there.
fn take_nearer(nearest: &mut Vec<(f32, u64)>, question: &[f32], block: &[Vec<f32>], first: u64) {
    for (at, vector) in block.iter().enumerate() {
        let alike = dot(vector, question);
        if nearest.len() == NEAREST && nearest.last().is_some_and(|(least, _)| *least >= alike) {
            continue;
        }
        let place = nearest.partition_point(|(other, _)| *other >= alike);
        nearest.insert(place, (alike, first + at as u64));
        nearest.truncate(NEAREST);
    }
}

/// In lanes, which the compiler turns into vector instructions.
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

fn ask(target: &Target, stored: &Stored, probes: u64) -> Result<Asked, Fault> {
    let mut connection = target.connect()?;
    let mut asked = Asked::default();
    for question in &stored.questions {
        let body = cursor_body(QUERY, &json!({"q": question, "probes": probes}));
        let one = timed(target, &mut connection, &body)?;
        asked.wall.push(one.wall);
        asked.cpu.push(one.cpu);
        asked.inside.push(one.inside);
        asked.keys.push(one.keys);
    }
    Ok(asked)
}

/// The fewest probes with which a side reaches the recall, or the most that there are.
struct Reached {
    probes: u64,
    recall: f64,
}

fn reach(
    stored: &Stored,
    wanted: f64,
    lists: u64,
    mut ask: impl FnMut(u64) -> Result<Asked, Fault>,
) -> Result<Reached, Fault> {
    let mut reached = Reached { probes: 1, recall: 0.0 };
    for probes in PROBES.into_iter().filter(|probes| *probes <= lists) {
        reached = Reached { probes, recall: recall(&stored.exact, &ask(probes)?.keys) };
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

/// The other side, if this program was built with it and a Python was given.
#[cfg(feature = "comparators")]
type Other = super::faiss::Faiss;

#[cfg(feature = "comparators")]
fn other_side(
    stored: &Stored,
    wish: &Wish<'_>,
    lists: u64,
    notes: &mut Vec<String>,
) -> Result<Option<Other>, Fault> {
    let Some(python) = wish.python else { return Ok(None) };
    let size = (stored.count, stored.dimension, lists, NEAREST);
    let faiss = Other::build(python, (&stored.file, &stored.question_file), size)?;
    notes.push(format!("faiss, {}: {}", wish.name, faiss.built));
    Ok(Some(faiss))
}

#[cfg(not(feature = "comparators"))]
enum Other {}

#[cfg(not(feature = "comparators"))]
fn other_side(
    stored: &Stored,
    wish: &Wish<'_>,
    _: u64,
    notes: &mut Vec<String>,
) -> Result<Option<Other>, Fault> {
    if let Some(python) = wish.python {
        let files = [&stored.file, &stored.question_file].map(|file| file.display());
        notes.push(format!(
            "{} is not asked about {} and {}: built without the feature `comparators`",
            python.display(),
            files[0],
            files[1]
        ));
    }
    Ok(None)
}

#[cfg(not(feature = "comparators"))]
impl Other {
    fn ask(&mut self, _: u64) -> Result<Asked, Fault> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_answer_is_the_sorted_one_whatever_the_blocks() {
        let mut source = VectorSource::new(None, 3, true).unwrap();
        let mut next = || source.next().unwrap().unwrap();
        let (question, all): (Vec<f32>, Vec<Vec<f32>>) =
            (next(), (0..300).map(|_| next()).collect());
        let mut nearest = Vec::new();
        for (at, block) in all.chunks(70).enumerate() {
            take_nearer(&mut nearest, &question, block, at as u64 * 70);
        }
        let mut sorted: Vec<u64> = (0..300).collect();
        let alike = |n: &u64| dot(&all[*n as usize], &question);
        sorted.sort_by(|a, b| alike(b).total_cmp(&alike(a)));
        let found: Vec<u64> = nearest.iter().map(|(_, key)| *key).collect();
        assert_eq!(found, sorted[..NEAREST]);
        assert!((recall(std::slice::from_ref(&found), &[found[..20].to_vec()]) - 0.5).abs() < 1e-9);
    }
}
