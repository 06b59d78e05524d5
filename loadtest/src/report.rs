//! Renders the report of the benchmark: durations, ratios that can be compared across machines,
//! database requests, and processor time of threads.

use std::fmt::Write as _;
use std::time::Duration;

use crate::bench::{BenchCase, BenchTarget, Build};
use crate::calls::{BODY_BYTES, Tool};
use crate::load::CALLS_MAX;

/// Goals for durable appends: maximum ratio to the duration of two echoes and one synced write, and
/// minimum number of appends per second with 64 clients.
const RATIO_MAX: f64 = 2.0;
const APPENDS_PER_SECOND_MIN: f64 = 10_000.0;

/// Mean numbers of database requests that one call causes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requests {
    /// Number of queries that vctx sends through its database socket for reads.
    pub(crate) reads: f64,
    /// Number of queries that vctx sends through its database socket for writes.
    pub(crate) writes: f64,
    /// Number of all database requests, including begin, commit and status of transactions.
    pub(crate) all: f64,
}

/// Appends a formatted line to a text.
macro_rules! line {
    ($text:expr, $($part:tt)*) => {
        writeln!($text, $($part)*).expect("a String takes everything")
    };
}

/// Returns the name of a benchmark case.
pub(crate) fn title(case: &BenchCase) -> String {
    let clients = case.clients;
    let title = match case.target {
        BenchTarget::Echo => "echo: hyper, JSON parsed and written".to_owned(),
        BenchTarget::Log { sync: true } => "log: append and fdatasync".to_owned(),
        BenchTarget::Log { sync: false } => "log: append, not synced".to_owned(),
        BenchTarget::Fjall => "fjall: insert and sync".to_owned(),
        BenchTarget::Vctx { tool, durable, build } => {
            let durable = if durable { "durable" } else { "not durable" };
            let build = if build == Build::Against { ", the other program" } else { "" };
            format!("`{}`, {durable}{build}", tool.name())
        }
    };
    format!("{title}, {clients} client{}", if clients == 1 { "" } else { "s" })
}

/// Returns the whole benchmark report: the given head, followed by all other parts.
pub(crate) fn markdown(
    head: String,
    time: Duration,
    rounds: usize,
    cases: &[BenchCase],
    requests: &[(Tool, Requests)],
) -> String {
    let mut text = head;
    line!(
        text,
        "- Embedded: the database is `arango-embedded` (fjall) in the server's process, over its \
         own Unix sockets; no arangod took part\n- {rounds} rounds in turns, {:.1} s for each row over \
         all rounds, at most {CALLS_MAX} calls of one client in a round; every call has a body of \
         {BODY_BYTES} bytes, an agent of its own for each client, a new key, any revision; clients, \
         server and database share the machine",
        time.as_secs_f64()
    );
    table(&mut text, cases);
    ratios(&mut text, cases);
    requests_table(&mut text, requests);
    threads_table(&mut text, cases);
    text
}

fn table(text: &mut String, cases: &[BenchCase]) {
    line!(text, "\n| What | p50 µs | p99 µs | per second | calls |\n|---|---|---|---|---|");
    for case in cases {
        let measured = &case.measured;
        let (p50, p99) = (measured.micros(0.5), measured.micros(0.99));
        let (rate, calls) = (measured.rate(), measured.calls());
        line!(text, "| {} | {p50:.1} | {p99:.1} | {rate:.0} | {calls} |", title(case));
    }
}

fn find(cases: &[BenchCase], target: BenchTarget, clients: usize) -> Option<&BenchCase> {
    cases.iter().find(|case| case.target == target && case.clients == clients)
}

/// Returns the median duration of a call in microseconds, or `None` if it was not measured.
fn median(cases: &[BenchCase], target: BenchTarget, clients: usize) -> Option<f64> {
    find(cases, target, clients).map(|case| case.measured.micros(0.5))
}

fn most_clients(cases: &[BenchCase]) -> usize {
    cases.iter().map(|case| case.clients).max().unwrap_or(1)
}

fn ratios(text: &mut String, cases: &[BenchCase]) {
    let echo = median(cases, BenchTarget::Echo, 1);
    let synced = median(cases, BenchTarget::Log { sync: true }, 1);
    let floor = echo.zip(synced).map(|(echo, synced)| 2.0 * echo + synced);
    let build = Build::Measured;
    line!(text, "\n## Against echo and disk\n\n| What | is | goal |\n|---|---|---|");
    for (tool, goal) in [(Tool::Append, format!("≤ {RATIO_MAX}")), (Tool::StoreCore, "–".into())]
    {
        let of = |durable| median(cases, BenchTarget::Vctx { tool, durable, build }, 1);
        let (durable, fast, name) = (of(true), of(false), tool.name());
        if let Some((durable, floor)) = durable.zip(floor) {
            line!(
                text,
                "| durable `{name}` p50 / (two echoes + one synced write = {floor:.0} µs) | {:.2} | {goal} |",
                durable / floor
            );
        }
        if let Some((fast, echo)) = fast.zip(echo) {
            let ratio = fast / (2.0 * echo);
            line!(text, "| not durable `{name}` p50 / two echoes | {ratio:.2} | – |");
        }
        if let Some((durable, fast)) = durable.zip(fast) {
            line!(text, "| share of durability in `{name}` p50 | {:.0} µs | – |", durable - fast);
        }
    }
    let most = most_clients(cases);
    for durable in [true, false] {
        let target = BenchTarget::Vctx { tool: Tool::Append, durable, build };
        let Some(case) = find(cases, target, most) else { continue };
        let goal =
            if durable { format!("≥ {APPENDS_PER_SECOND_MIN:.0}") } else { "–".to_owned() };
        let rate = case.measured.rate();
        line!(text, "| {}: per second | {rate:.0} | {goal} |", title(case));
    }
}

fn requests_table(text: &mut String, requests: &[(Tool, Requests)]) {
    line!(
        text,
        "\n## Requests to the database\n\nThey cost time on any database. All requests are queries, \
         and begin, commit and status of transactions.\n\n\
         | Call, core in the cache | read queries | write queries | all requests |\n|---|---|---|---|"
    );
    for (tool, Requests { reads, writes, all }) in requests {
        line!(text, "| `{}` | {reads:.1} | {writes:.1} | {all:.1} |", tool.name());
    }
}

fn threads_table(text: &mut String, cases: &[BenchCase]) {
    line!(
        text,
        "\n## Processor time of a call\n\nOf the server's process with its database, or of the echo's process, in µs a call. \
         The ratio is to the other program, where one was measured in turn. The I/O loop is the \
         server without its database.\n\n\
         | Call | µs a call | ratio | ratio of p50 | ratio of calls a second | threads |\n|---|---|---|---|---|---|"
    );
    for case in cases {
        let target = match case.target {
            BenchTarget::Vctx { tool, durable, .. } => {
                BenchTarget::Vctx { tool, durable, build: Build::Against }
            }
            BenchTarget::Echo => case.target,
            BenchTarget::Log { .. } | BenchTarget::Fjall => continue,
        };
        let calls = case.measured.calls().max(1) as f64;
        let mut threads: Vec<(&String, f64)> =
            case.threads.iter().map(|(name, micros)| (name, micros / calls)).collect();
        // Threads with less than half a microsecond of processor time are omitted.
        threads.retain(|(_, micros)| *micros >= 0.5);
        threads.sort_by(|(_, x), (_, y)| y.total_cmp(x));
        // The thread that runs `main` has the program's name.
        let name = |name: &str| if name == "vctx" { "I/O loop" } else { name }.to_owned();
        let threads: Vec<String> =
            threads.into_iter().map(|(of, micros)| format!("{} {micros:.1}", name(of))).collect();
        let micros = case.processor / calls;
        let other = find(cases, target, case.clients).filter(|other| other.target != case.target);
        let ratio = |own: f64, of: &dyn Fn(&BenchCase) -> f64| {
            other.map_or_else(|| "–".to_owned(), |other| format!("{:.2}", own / of(other)))
        };
        let of = |case: &BenchCase| case.processor / case.measured.calls().max(1) as f64;
        line!(
            text,
            "| {} | {micros:.1} | {} | {} | {} | {} |",
            title(case),
            ratio(micros, &of),
            ratio(case.measured.micros(0.5), &|case| case.measured.micros(0.5)),
            ratio(case.measured.rate(), &|case| case.measured.rate()),
            threads.join(", ")
        );
    }
}
