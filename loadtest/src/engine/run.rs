//! Runs the parts of the engine benchmark one after another on fresh data.

use std::fs;
use std::path::Path;

use super::figures::Row;
use super::made::Texts;
use super::points::Points;
use super::report;
use super::target::Target;
use super::{crash, texts, vectors};
use crate::Fault;
use crate::echo;
use crate::options::EngineOptions;
use crate::session::{Session, program};

/// Number of messages, and number of vectors in each set, at scale 1.
const MESSAGES: f64 = 1e6;
const VECTORS: f64 = 1e6;
/// Minimum number of rows at any scale.
const ROWS_MIN: u64 = 2_000;
/// Number of text questions of each kind, and of questions for each vector set.
const QUESTIONS: u64 = 200;
const VECTOR_QUESTIONS: usize = 200;
/// Recall at which engine and faiss are compared, for vectors with clusters, without clusters, and
/// from files.
const RECALLS: (f64, f64, f64) = (0.95, 0.90, 0.95);

/// Measures the requested parts and writes the report.
pub(crate) fn run(options: &EngineOptions) -> Result<(), Fault> {
    if options.files.vectors.is_some() != options.files.query_vectors.is_some() {
        return Err("give --vectors and --query-vectors together".into());
    }
    let session = Session::begin(&options.common)?;
    let program = program(options.engine.as_deref(), "arango-embedded")?;
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    if options.wants("acdef") {
        rows.extend(with_texts(options, &program, session.folder(), &mut notes)?);
    }
    if options.wants("b") {
        for plan in vector_plans(options) {
            let folder = session.subfolder("vectors")?;
            let (found, more) = vectors::measure(&program, &folder, &plan)?;
            rows.extend(found);
            notes.extend(more);
            fs::remove_dir_all(&folder)?;
        }
    }
    rows.sort_by_key(|row| row.part);
    let text = report::markdown(&session, options, &notes, &rows);
    match options.json {
        true => {
            session.publish(&format!("{:#}", report::json(&session, options, &notes, &rows)), &text)
        }
        false => session.publish(&text, &text),
    }
}

fn scaled(options: &EngineOptions, full: f64) -> u64 {
    ((full * options.scale) as u64).max(ROWS_MIN)
}

fn vector_plans(options: &EngineOptions) -> Vec<vectors::Plan<'_>> {
    let plan = |name, clustered, recall| vectors::Plan {
        name,
        files: (options.files.vectors.as_deref(), options.files.query_vectors.as_deref()),
        clustered,
        count: scaled(options, VECTORS),
        questions: VECTOR_QUESTIONS,
        recall,
        python: options.python.as_deref(),
    };
    match options.files.vectors {
        Some(_) => vec![plan("of the file", false, RECALLS.2)],
        None => vec![plan("soft clusters", true, RECALLS.0), plan("no clusters", false, RECALLS.1)],
    }
}

fn with_texts(
    options: &EngineOptions,
    program: &Path,
    folder: &Path,
    notes: &mut Vec<String>,
) -> Result<Vec<Row>, Fault> {
    let target = Target::start(program, &folder.join("texts"))?;
    let mut alive = Some(target);
    let outcome = text_parts(options, &mut alive, folder, notes);
    match (outcome, alive) {
        (Ok(rows), Some(target)) => target.stop().map(|()| rows),
        (Ok(rows), None) => Ok(rows),
        (Err(fault), Some(target)) => {
            Err(format!("{fault}\n--- end of the engine's log ---\n{}", target.tail()).into())
        }
        (Err(fault), None) => Err(fault),
    }
}

fn text_parts(
    options: &EngineOptions,
    alive: &mut Option<Target>,
    folder: &Path,
    notes: &mut Vec<String>,
) -> Result<Vec<Row>, Fault> {
    let texts = Texts::new(options.files.corpus.as_deref(), options.files.queries.as_deref())?;
    let count = scaled(options, MESSAGES);
    let mut rows = Vec::new();
    let Some(target) = &*alive else { return Ok(rows) };
    eprintln!("texts: storing {count}");
    let view = options.wants("af");
    let loaded = texts::load(target, &texts, count, view)?;
    notes.push(format!(
        "texts: {count}, {:.0} bytes each; inserted in {:.1} s, view built in {:.1} s",
        loaded.text_bytes as f64 / count as f64,
        loaded.insert_seconds,
        loaded.index_seconds
    ));
    if options.wants("cde") {
        let own = folder.join("echo");
        fs::create_dir(&own)?;
        let echo = echo::start(&own)?;
        let points = Points { target, echo: &echo, folder, count, time: options.common.time };
        rows.extend(points.measure(|parts| options.wants(parts))?);
        echo.stop()?;
        target.quiet()?;
    }
    if options.wants("a") {
        rows.extend(ranked(target, &texts, count, folder, notes)?);
    }
    if options.wants("f")
        && let Some(target) = alive.take()
    {
        let (target, found) = crash::measure(target, count, &loaded)?;
        *alive = Some(target);
        rows.extend(found);
    }
    Ok(rows)
}

#[cfg(feature = "comparators")]
fn ranked(
    target: &Target,
    texts: &Texts,
    count: u64,
    folder: &Path,
    notes: &mut Vec<String>,
) -> Result<Vec<Row>, Fault> {
    eprintln!("texts: building tantivy's index");
    let own = folder.join("tantivy");
    fs::create_dir(&own)?;
    let plain = super::tantivy::Plain::build(&own, texts, count)?;
    notes.push(format!(
        "tantivy: built in {:.1} s with one thread, {} segments, {:.0} MB with the texts stored",
        plain.seconds,
        plain.segments,
        crate::meters::disk_bytes(&own)? as f64 / 1e6
    ));
    eprintln!("texts: asking");
    texts::measure(target, texts, count, QUESTIONS, Some(&plain))
}

#[cfg(not(feature = "comparators"))]
fn ranked(
    target: &Target,
    texts: &Texts,
    count: u64,
    _: &Path,
    notes: &mut Vec<String>,
) -> Result<Vec<Row>, Fault> {
    notes.push(
        "no comparison with tantivy and faiss: this program was built without the feature `comparators`".into(),
    );
    texts::measure(target, texts, count, QUESTIONS, None)
}
