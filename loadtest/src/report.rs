//! The report: one table of what was measured, the ratios that travel to other machines, and where the figures come from.

use std::fmt::Write as _;
use std::time::Duration;

use crate::bench::{Case, What};
use crate::load::CALLS_MAX;
use crate::machine;
use crate::tools::{BODY_BYTES, Tool};

/// The goals of durable appends: against two echoes and one synced write, and a second at the most clients.
const RATIO_MAX: f64 = 2.0;
const APPENDS_PER_SECOND_MIN: f64 = 10_000.0;

/// Where the figures come from.
pub(crate) struct Origin {
    pub(crate) commit: String,
    /// Whether the server's program was given, not the one beside this program.
    pub(crate) given: bool,
    pub(crate) disk: String,
    pub(crate) load_before: String,
    pub(crate) time: Duration,
    pub(crate) rounds: usize,
}

/// Database requests of one call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trips {
    /// Queries through the socket for reads.
    pub(crate) reads: f64,
    /// Queries through the socket for writes.
    pub(crate) writes: f64,
    /// All requests, those of transactions with them.
    pub(crate) requests: f64,
}

/// What a case is called.
pub(crate) fn title(case: &Case) -> String {
    let clients = case.clients;
    let what = match case.what {
        What::Echo => "echo: hyper, JSON parsed and written".to_owned(),
        What::Log { sync: true } => "log: append and fdatasync".to_owned(),
        What::Log { sync: false } => "log: append, not synced".to_owned(),
        What::Fjall => "fjall: insert and sync".to_owned(),
        What::Vctx { tool, durable } => {
            format!("`{}`, {}", tool.name(), if durable { "durable" } else { "not durable" })
        }
    };
    format!("{what}, {clients} client{}", if clients == 1 { "" } else { "s" })
}

/// The whole report.
pub(crate) fn markdown(origin: &Origin, cases: &[Case], trips: &[(Tool, Trips)]) -> String {
    let mut text = String::from("# Load bench\n\n");
    head(&mut text, origin);
    table(&mut text, cases);
    ratios(&mut text, cases);
    trips_table(&mut text, trips);
    threads_table(&mut text, cases);
    text
}

/// Appends a line; a text takes all.
macro_rules! line {
    ($text:expr, $($part:tt)*) => {
        writeln!($text, $($part)*).expect("a text takes all")
    };
}

fn head(text: &mut String, origin: &Origin) {
    line!(text, "- Machine: {}; {}", machine::hardware(), machine::kernel());
    line!(text, "- Data on {}", origin.disk);
    line!(text, "- Commit: {}", origin.commit);
    let assertions = if cfg!(debug_assertions) { "with" } else { "without" };
    let program = if origin.given { "given by --vctx" } else { "built with it" };
    line!(text, "- Build: this program {assertions} debug assertions, vctx {program}");
    line!(
        text,
        "- Load average: {} before, {} after (the bench itself is in the second)",
        origin.load_before,
        machine::load_average()
    );
    line!(text, "- Scheduling: {}", machine::scheduling());
    if machine::busy(&origin.load_before) {
        line!(
            text,
            "- **The machine was busy before the bench began**: without real-time scheduling (`chrt --rr 1`) each wait below may be the wait for a \
             processor, and the ratios mean little"
        );
    }
    line!(
        text,
        "- Embedded: the database is `arango-embedded` (fjall), in the server's process, over its own Unix sockets; no arangod took part"
    );
    line!(
        text,
        "- {} rounds in turns, {:.1} s for each row over all rounds, at most {CALLS_MAX} calls of one client in a round; every call has a body of \
         {BODY_BYTES} bytes, an agent of its own for each client, a new key, any revision; clients, server and database share the machine",
        origin.rounds,
        origin.time.as_secs_f64()
    );
}

fn table(text: &mut String, cases: &[Case]) {
    line!(text, "\n| What | p50 µs | p99 µs | per second | calls |\n|---|---|---|---|---|");
    for case in cases {
        let measured = &case.measured;
        let (p50, p99) = (measured.micros(0.5), measured.micros(0.99));
        let (rate, calls) = (measured.rate(), measured.calls());
        line!(text, "| {} | {p50:.1} | {p99:.1} | {rate:.0} | {calls} |", title(case));
    }
}

fn find(cases: &[Case], what: What, clients: usize) -> &Case {
    let mut found = cases.iter().filter(|case| case.what == what && case.clients == clients);
    found.next().expect("the report asks for what the bench measures")
}

fn most_clients(cases: &[Case]) -> usize {
    cases.iter().map(|case| case.clients).max().unwrap_or(1)
}

fn ratios(text: &mut String, cases: &[Case]) {
    let p50 = |what, clients| find(cases, what, clients).measured.micros(0.5);
    let echo = p50(What::Echo, 1);
    let synced = p50(What::Log { sync: true }, 1);
    let floor = 2.0 * echo + synced;
    line!(text, "\n## Against the floors\n\n| What | is | goal |\n|---|---|---|");
    for (tool, goal) in [(Tool::Append, format!("≤ {RATIO_MAX}")), (Tool::StoreCore, "–".into())]
    {
        let durable = p50(What::Vctx { tool, durable: true }, 1);
        let fast = p50(What::Vctx { tool, durable: false }, 1);
        let name = tool.name();
        line!(
            text,
            "| durable `{name}` p50 / (two echoes + one synced write = {floor:.0} µs) | {:.2} | {goal} |",
            durable / floor
        );
        line!(text, "| not durable `{name}` p50 / two echoes | {:.2} | – |", fast / (2.0 * echo));
        line!(text, "| share of durability in `{name}` p50 | {:.0} µs | – |", durable - fast);
    }
    let most = most_clients(cases);
    for durable in [true, false] {
        let case = find(cases, What::Vctx { tool: Tool::Append, durable }, most);
        let goal =
            if durable { format!("≥ {APPENDS_PER_SECOND_MIN:.0}") } else { "–".to_owned() };
        let rate = case.measured.rate();
        line!(text, "| {}: per second | {rate:.0} | {goal} |", title(case));
    }
}

fn trips_table(text: &mut String, trips: &[(Tool, Trips)]) {
    line!(
        text,
        "\n## Trips to the database\n\nThe part that any database shares. All requests = queries, and begin, commit and status of transactions.\n"
    );
    line!(
        text,
        "| Call, core in the cache | read queries | write queries | all requests |\n|---|---|---|---|"
    );
    for (tool, Trips { reads, writes, requests }) in trips {
        line!(text, "| `{}` | {reads:.1} | {writes:.1} | {requests:.1} |", tool.name());
    }
}

fn threads_table(text: &mut String, cases: &[Case]) {
    line!(
        text,
        "\n## Processor time of a durable append\n\nBy thread of the server's process, in µs a call, from the scheduler's own count. \
         The first thread is the server's IO loop: its time is the server's without the database's.\n"
    );
    line!(text, "| Clients | thread | µs a call |\n|---|---|---|");
    for case in cases {
        if case.what != (What::Vctx { tool: Tool::Append, durable: true }) {
            continue;
        }
        let calls = case.measured.calls().max(1) as f64;
        let mut threads: Vec<(&String, f64)> =
            case.threads.iter().map(|(name, seconds)| (name, seconds * 1e6 / calls)).collect();
        // The thread of `main` has the program's name; what takes less than half a microsecond is left out.
        threads.retain(|(_, micros)| *micros >= 0.5);
        threads.sort_by(|(a, x), (b, y)| (*b == "vctx").cmp(&(*a == "vctx")).then(y.total_cmp(x)));
        for (name, micros) in threads {
            line!(text, "| {} | {name} | {micros:.1} |", case.clients);
        }
    }
}
