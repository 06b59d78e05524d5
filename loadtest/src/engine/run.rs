//! The run: parts one after another on fresh data, each beside what it is held against.

use std::fs;
use std::path::{Path, PathBuf};

use super::figures::Row;
use super::made::Texts;
use super::points::Points;
use super::report::{self, Origin};
use super::target::Target;
use super::{crash, floors, texts, vectors};
use crate::Fault;
use crate::arguments::EngineOptions;
use crate::machine;

/// Rows at scale 1: messages, and vectors of each set.
const MESSAGES: f64 = 1e6;
const VECTORS: f64 = 1e6;
/// Rows at least, whatever the scale.
const ROWS_MIN: u64 = 2_000;
/// Questions of each kind, and of each set of vectors.
const QUESTIONS: u64 = 200;
const VECTOR_QUESTIONS: usize = 200;
/// Recall at which both sides are compared: with clusters, without, and of files.
const RECALLS: (f64, f64, f64) = (0.95, 0.90, 0.95);

/// Measures and reports.
pub(crate) fn run(options: &EngineOptions) -> Result<(), Fault> {
    let folder = match &options.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let mut origin = Origin {
        commit: options.commit.clone().unwrap_or_else(machine::commit),
        disk: machine::file_system(folder.path()),
        load_before: machine::load_average(),
        scale: options.scale,
        given: options.external(),
        notes: Vec::new(),
    };
    let program = program(options)?;
    let mut rows = Vec::new();
    if ['a', 'c', 'd', 'e', 'f'].into_iter().any(|part| options.wants(part)) {
        rows.extend(with_texts(options, &program, folder.path(), &mut origin.notes)?);
    }
    if options.wants('b') {
        for wish in wishes(options) {
            let own = folder.path().join("vectors");
            fs::create_dir(&own)?;
            let (found, notes) = vectors::measure(&program, &own, &wish)?;
            rows.extend(found);
            origin.notes.extend(notes);
            fs::remove_dir_all(&own)?;
        }
    }
    rows.sort_by_key(|row| row.part);
    let text = report::markdown(&origin, &rows);
    match options.json {
        true => println!("{:#}", report::json(&origin, &rows)),
        false => println!("{text}"),
    }
    if let Some(out) = &options.out {
        fs::write(out, &text).map_err(|e| format!("{}: {e}", out.display()))?;
    }
    Ok(())
}

/// The engine's program: the one given, or the one beside this program.
fn program(options: &EngineOptions) -> Result<PathBuf, Fault> {
    let path = match &options.engine {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("arango-embedded"),
    };
    match path.is_file() {
        true => Ok(path.canonicalize()?),
        false => {
            Err(format!("{} is not there: `cargo build`, or give --engine PROGRAM", path.display())
                .into())
        }
    }
}

fn scaled(options: &EngineOptions, full: f64) -> u64 {
    ((full * options.scale) as u64).max(ROWS_MIN)
}

fn wishes(options: &EngineOptions) -> Vec<vectors::Wish<'_>> {
    let wish = |name, clustered, recall| vectors::Wish {
        name,
        files: (options.vectors.as_deref(), options.query_vectors.as_deref()),
        clustered,
        count: scaled(options, VECTORS),
        questions: VECTOR_QUESTIONS,
        recall,
        python: options.python.as_deref(),
    };
    match options.vectors {
        Some(_) => vec![wish("of the file", false, RECALLS.2)],
        None => vec![wish("soft clusters", true, RECALLS.0), wish("no clusters", false, RECALLS.1)],
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
            Err(format!("{fault}\n--- the engine said last ---\n{}", target.tail()).into())
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
    let texts = Texts::new(options.corpus.as_deref(), options.queries.as_deref())?;
    let count = scaled(options, MESSAGES);
    let mut rows = Vec::new();
    let Some(target) = &*alive else { return Ok(rows) };
    eprintln!("texts: storing {count}");
    let view = options.wants('a') || options.wants('f');
    let loaded = texts::load(target, &texts, count, view)?;
    notes.push(format!(
        "texts: {count}, {:.0} bytes each; inserted in {:.1} s, view built in {:.1} s",
        loaded.text_bytes as f64 / count as f64,
        loaded.insert_seconds,
        loaded.index_seconds
    ));
    if ['c', 'd', 'e'].into_iter().any(|part| options.wants(part)) {
        let echo = floors::echo(&folder.join("echo"))?;
        let points = Points { target, echo: &echo, folder, count, time: options.time };
        rows.extend(points.measure(|part| options.wants(part))?);
        echo.stop()?;
        target.quiet()?;
    }
    if options.wants('a') {
        rows.extend(ranked(target, &texts, count, folder, notes)?);
    }
    if options.wants('f')
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
        super::target::disk_bytes(&own)? as f64 / 1e6
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
        "no comparison with tantivy and faiss: built without the feature `comparators`".into(),
    );
    texts::measure(target, texts, count, QUESTIONS, None)
}
