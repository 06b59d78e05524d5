//! Parts c, d and e of the engine benchmark: durable inserts and small reads, compared with a bare
//! store and an echo.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vctx_core::seeded::Seeded;

use super::figures::{Figures, Goal, Row, ratio};
use super::target::{Connection, Target, cursor_body};
use crate::Fault;
use crate::calls::append_body;
use crate::child::Process;
use crate::echo;
use crate::load::{Measured, Operation};
use crate::store::BareStore;

/// Number of rounds over all measures.
const ROUNDS: u32 = 5;
/// Warm-up time of each measure before measurements are recorded.
const WARM: Duration = Duration::from_millis(300);
/// Goals of the point measurements: maximum ratios of the engine's times to the times of the bare
/// store and the echo, and minimum number of inserts per second with many writers.
const INSERT_RATIO_MAX: f64 = 1.5;
const READ_RATIO_MAX: f64 = 2.0;
const INSERTS_PER_SECOND_MIN: f64 = 10_000.0;
/// Number of documents in a batch, number of parallel writers, and number of documents in a range.
const BATCH: usize = 100;
const WRITERS: usize = 64;
const RANGE: u64 = 20;

const POINT: &str = "FOR m IN texts FILTER m._key == @key RETURN m";
const RANGE_SCAN: &str = "FOR m IN texts FILTER m.n >= @from SORT m.n LIMIT 20 RETURN m";

/// A kind of request of the point measurements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PointWorkload {
    EchoSmall,
    EchoBatch,
    EchoPoint,
    EchoRange,
    StoreSingle,
    StoreBatch,
    InsertSingle,
    InsertBatch,
    InsertMany,
    Document,
    Point,
    Range,
}

/// The measured processes.
pub(crate) struct Points<'a> {
    pub(crate) target: &'a Target,
    pub(crate) echo: &'a Process,
    pub(crate) folder: &'a Path,
    /// Number of stored texts.
    pub(crate) count: u64,
    /// Time that the benchmark spends on each measure, over all rounds.
    pub(crate) time: Duration,
}

fn batch(from: usize) -> Vec<u8> {
    let documents: Vec<Vec<u8>> = (0..BATCH).map(|n| append_body(from + n)).collect();
    [b"[", documents.join(&b","[..]).as_slice(), b"]"].concat()
}

fn insert(target: &Target, seed: usize, size: usize) -> Result<Operation, Fault> {
    let mut connection = target.connect()?;
    let mut number = seed;
    Ok(Box::new(move || {
        number += size;
        let body = if size == 1 { append_body(number) } else { batch(number) };
        let begun = Instant::now();
        connection.call("POST", "/_api/document/writes?waitForSync=true", &body, &[201])?;
        Ok(begun.elapsed())
    }))
}

/// Returns a function that runs a query about a random stored text. The answer to the query must
/// have the given number of rows.
fn query(
    target: &Target,
    text: &'static str,
    count: u64,
    rows: u64,
    binds: fn(u64) -> Value,
) -> Result<Operation, Fault> {
    let mut connection = target.connect()?;
    let mut chance = Seeded::new(7);
    Ok(Box::new(move || {
        let body = cursor_body(text, &binds(chance.next_u64() % (count - rows + 1)));
        let begun = Instant::now();
        let answer = connection.call("POST", "/_api/cursor", &body, &[201])?;
        let took = begun.elapsed();
        let keys = answer.windows(6).filter(|six| *six == b"\"_key\"").count() as u64;
        if keys == rows { Ok(took) } else { Err(format!("{keys} rows instead of {rows}").into()) }
    }))
}

fn document_get(target: &Target, count: u64) -> Result<Operation, Fault> {
    let mut connection = target.connect()?;
    let mut chance = Seeded::new(7);
    Ok(Box::new(move || {
        let path = format!("/_api/document/texts/{}", chance.next_u64() % count);
        let begun = Instant::now();
        connection.call("GET", &path, b"", &[200])?;
        Ok(begun.elapsed())
    }))
}

fn answer_of(connection: &mut Connection, text: &str, binds: &Value) -> Result<Vec<u8>, Fault> {
    Ok(connection.call("POST", "/_api/cursor", &cursor_body(text, binds), &[201])?.to_vec())
}

struct PointCase {
    workload: PointWorkload,
    measured: Measured,
    cpu_seconds: f64,
}

impl Points<'_> {
    fn operations(
        &self,
        workload: PointWorkload,
        store: &BareStore,
    ) -> Result<Vec<Operation>, Fault> {
        let (target, socket) = (self.target, &self.echo.socket);
        let mut connection = target.connect()?;
        let one = match workload {
            PointWorkload::EchoSmall => echo::calls(socket, append_body(1))?,
            PointWorkload::EchoBatch => echo::calls(socket, batch(1))?,
            PointWorkload::EchoPoint => {
                echo::calls(socket, answer_of(&mut connection, POINT, &json!({"key": "3"}))?)?
            }
            PointWorkload::EchoRange => {
                echo::calls(socket, answer_of(&mut connection, RANGE_SCAN, &json!({"from": 3}))?)?
            }
            PointWorkload::StoreSingle => store.inserts(vec![append_body(1)]),
            PointWorkload::StoreBatch => store.inserts((0..BATCH).map(append_body).collect()),
            PointWorkload::InsertSingle => insert(target, 1, 1)?,
            PointWorkload::InsertBatch => insert(target, 1, BATCH)?,
            PointWorkload::InsertMany => {
                return (0..WRITERS).map(|n| insert(target, n * 1_000_000, 1)).collect();
            }
            PointWorkload::Document => document_get(target, self.count)?,
            PointWorkload::Point => {
                query(target, POINT, self.count, 1, |n| json!({"key": n.to_string()}))?
            }
            PointWorkload::Range => {
                query(target, RANGE_SCAN, self.count, RANGE, |n| json!({"from": n}))?
            }
        };
        Ok(vec![one])
    }

    /// Measures the requested parts of the benchmark alternately.
    pub(crate) fn measure(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<Row>, Fault> {
        use PointWorkload::*;
        self.target.connect()?.make("/_api/collection", &json!({"name": "writes"}))?;
        let store = BareStore::open(&self.folder.join("fjall"))?;
        let mut list = vec![EchoSmall];
        if wanted("c") {
            list.extend([EchoBatch, StoreSingle, InsertSingle, StoreBatch, InsertBatch]);
        }
        if wanted("d") {
            list.push(InsertMany);
        }
        if wanted("e") {
            list.extend([Point, EchoPoint, Range, EchoRange, Document]);
        }
        let new = |workload| {
            let clients = if workload == InsertMany { WRITERS } else { 1 };
            PointCase { workload, measured: Measured::new(clients), cpu_seconds: 0.0 }
        };
        let mut cases: Vec<PointCase> = list.into_iter().map(new).collect();
        for case in &cases {
            let operations = self.operations(case.workload, &store)?;
            Measured::new(operations.len()).run(WARM, operations)?;
        }
        for round in 0..ROUNDS {
            eprintln!("inserts and reads: round {} of {ROUNDS}", round + 1);
            for case in &mut cases {
                let operations = self.operations(case.workload, &store)?;
                let before = self.target.clock()?;
                case.measured.run(self.time / ROUNDS, operations)?;
                case.cpu_seconds += self.target.clock()?.since(&before) / 1e6;
            }
        }
        Ok(rows(&cases))
    }
}

fn rows(cases: &[PointCase]) -> Vec<Row> {
    use PointWorkload::*;
    let find = |workload| cases.iter().find(|case| case.workload == workload);
    let p50 = |workload| find(workload).map(|case| case.measured.micros(0.5));
    let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let mut rows = Vec::new();
    let mut add = |part,
                   what: &str,
                   case: PointWorkload,
                   name: String,
                   floor: Option<f64>,
                   most: Option<f64>,
                   note: String| {
        let Some(case) = find(case) else { return };
        let engine = Figures::of_loop(&case.measured, Some(case.cpu_seconds));
        let is = ratio(engine.wall_p50, floor);
        let other = Figures { wall_p50: floor, ..Figures::default() };
        rows.push(Row {
            part,
            what: what.to_owned(),
            engine,
            other: Some((name, other)),
            basis: "wall p50",
            is,
            goal: most.map(Goal::AtMost),
            note,
        });
    };
    let rate = |workload| find(workload).map_or(0.0, |case| case.measured.rate());
    let floor = |workload| p50(workload).unwrap_or(0.0);
    add(
        'c',
        "durable insert, 1 document of 300 bytes",
        InsertSingle,
        "fjall batch of 1 + sync, and one echo".into(),
        sum(p50(StoreSingle), p50(EchoSmall)),
        Some(INSERT_RATIO_MAX),
        format!(
            "fjall {:.0} µs, echo {:.0} µs; {:.0} a second",
            floor(StoreSingle),
            floor(EchoSmall),
            rate(InsertSingle)
        ),
    );
    add(
        'c',
        "durable insert, 100 documents of 300 bytes",
        InsertBatch,
        "fjall batch of 100 + sync, and one echo of the body".into(),
        sum(p50(StoreBatch), p50(EchoBatch)),
        Some(INSERT_RATIO_MAX),
        format!("fjall {:.0} µs, echo {:.0} µs", floor(StoreBatch), floor(EchoBatch)),
    );
    let read = [
        (Point, EchoPoint, "AQL point read by `_key`"),
        (Range, EchoRange, "AQL range of 20 by a persistent index"),
    ];
    for (case, echo, what) in read {
        add(
            'e',
            what,
            case,
            "echo of 300 bytes".into(),
            p50(EchoSmall),
            Some(READ_RATIO_MAX),
            String::new(),
        );
        let name = "echo of the same answer".to_owned();
        add('e', what, case, name, p50(echo), Some(READ_RATIO_MAX), String::new());
    }
    add(
        'e',
        "`GET /_api/document/texts/KEY`",
        Document,
        "echo of 300 bytes".into(),
        p50(EchoSmall),
        None,
        String::new(),
    );
    if let Some(many) = find(InsertMany) {
        rows.push(Row {
            part: 'd',
            what: format!("durable inserts of 1 document, {WRITERS} writers"),
            engine: Figures::of_loop(&many.measured, Some(many.cpu_seconds)),
            other: None,
            basis: "a second",
            is: Some(many.measured.rate()),
            goal: Some(Goal::AtLeast(INSERTS_PER_SECOND_MIN)),
            note: format!("{} inserts", many.measured.calls()),
        });
    }
    rows
}
