//! The report: the promised levels and what was measured, with where the figures come from.

use std::fmt::Write as _;
use std::time::Duration;

use super::open_loop::Outcome;
use crate::machine;

/// Quantiles that are read from the server's own histograms.
pub(crate) const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// Where the figures come from.
pub(crate) struct Origin {
    pub(crate) commit: String,
    pub(crate) disk: String,
    /// Whether the database was the embedded engine of a server started for this.
    pub(crate) embedded: bool,
    pub(crate) load_before: String,
    /// Files that took the place of what is made.
    pub(crate) external: Vec<String>,
}

/// One timetable's end.
pub(crate) struct Finding {
    pub(crate) title: String,
    pub(crate) level_ms: f64,
    pub(crate) rows: u64,
    pub(crate) full_rows: u64,
    pub(crate) seeding: Duration,
    pub(crate) resident_mib: Option<f64>,
    pub(crate) outcome: Outcome,
    pub(crate) writes: Option<Outcome>,
    /// The server's own histogram of these calls, and its quantiles in milliseconds (upper ends of buckets).
    pub(crate) histogram: &'static str,
    pub(crate) told_ms: [Option<f64>; 3],
    /// Share of the exact answer that was found.
    pub(crate) recall: Option<f64>,
    /// Whether the level is promised for this run.
    pub(crate) judged: bool,
}

impl Finding {
    /// Whether the level was held, with every call answered.
    pub(crate) fn met(&self) -> bool {
        let outcome = &self.outcome;
        !outcome.overrun && outcome.failed == 0 && outcome.milliseconds(0.99) <= self.level_ms
    }
}

/// Appends a line; a text takes all.
macro_rules! line {
    ($text:expr, $($part:tt)*) => {
        writeln!($text, $($part)*).expect("a text takes all")
    };
}

/// The whole report.
pub(crate) fn markdown(origin: &Origin, findings: &[Finding]) -> String {
    let mut text = String::from("# Service levels under an open loop\n\n");
    head(&mut text, origin);
    line!(
        text,
        "\n| scenario | rows (of full scale) | p50 ms | p90 | p95 | p99 | p99.9 | max | level p99 | held | per second done / due | calls | failed | recall |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for finding in findings {
        row(&mut text, finding);
    }
    line!(text, "\n## Writers beside the load, and what a closed loop would have said\n");
    line!(
        text,
        "| scenario | writes p50 ms | p99 ms | per second | failed | p99 from sending | seeding s | resident MiB |\n|---|---|---|---|---|---|---|---|"
    );
    for finding in findings {
        beside(&mut text, finding);
    }
    line!(text, "\n## The same calls in the server's own histograms\n");
    line!(
        text,
        "Upper ends of the buckets that hold the quantile, of what came during the load; from the call's arrival to its answer. `_statisticsRaw` was not asked: ArangoDB 3.12 \
         calls it deprecated, 4 has none, and the embedded engine keeps none. What a proxy adds is measured by `vctx-loadtest proxy` from its histograms.\n"
    );
    line!(text, "| scenario | histogram | p50 ms | p95 | p99 |\n|---|---|---|---|---|");
    for finding in findings {
        let [half, most, all] = finding.told_ms.map(end);
        line!(text, "| {} | `{}` | {half} | {most} | {all} |", finding.title, finding.histogram);
    }
    for finding in findings {
        for fault in &finding.outcome.faults {
            line!(text, "\n- {}: {fault}", finding.title);
        }
        if finding.outcome.overrun {
            line!(
                text,
                "\n- {}: calls started more than 30 s late, the run was ended: the rate is beyond this machine",
                finding.title
            );
        }
    }
    text
}

fn head(text: &mut String, origin: &Origin) {
    line!(text, "- Machine: {}; {}", machine::hardware(), machine::kernel());
    line!(text, "- Data on {}; commit {}", origin.disk, origin.commit);
    line!(text, "- Production hardware (c6id.8xlarge with local NVMe): unmeasured");
    let assertions = if cfg!(debug_assertions) { "with" } else { "without" };
    line!(text, "- Build: {assertions} debug assertions; scheduling: {}", machine::scheduling());
    line!(text, "- Load average: {} before, {} after", origin.load_before, machine::load_average());
    match origin.embedded {
        true => line!(
            text,
            "- Embedded: database, text index and vector index are `arango-embedded` in the server's process; no arangod took part. \
             Not embedded: the clients, which share the machine"
        ),
        false => {
            line!(text, "- A running server was loaded; what its database is, its operator knows")
        }
    }
    match origin.external.is_empty() {
        true => line!(
            text,
            "- Texts, questions and vectors are made by a seeded generator (Zipf words; vectors around 2,000 topics)"
        ),
        false => line!(text, "- Read from files: {}", origin.external.join(", ")),
    }
    line!(
        text,
        "- Each call is timed from the moment it was due, whether or not a sender was free"
    );
    if machine::busy(&origin.load_before) {
        line!(
            text,
            "- **The machine was busy before this began**: waits below may be waits for a processor"
        );
    }
}

fn row(text: &mut String, finding: &Finding) {
    let outcome = &finding.outcome;
    let ms = |quantile: f64| format!("{:.1}", outcome.milliseconds(quantile));
    let rows = match finding.full_rows {
        0 => "–".to_owned(),
        full => format!("{} ({:.3})", finding.rows, finding.rows as f64 / full as f64),
    };
    let held = match (finding.judged, finding.met()) {
        (false, _) => "–",
        (true, true) => "yes",
        (true, false) => "**no**",
    };
    let recall = finding.recall.map_or("–".to_owned(), |r| format!("{r:.3}"));
    line!(
        text,
        "| {} | {rows} | {} | {} | {} | {} | {} | {} | {} | {held} | {:.1} / {:.1} | {} | {} | {recall} |",
        finding.title,
        ms(0.5),
        ms(0.9),
        ms(0.95),
        ms(0.99),
        ms(0.999),
        ms(1.0),
        finding.level_ms,
        outcome.rate.1,
        outcome.rate.0,
        outcome.answered(),
        outcome.failed
    );
}

/// The end of a bucket.
fn end(milliseconds: Option<f64>) -> String {
    match milliseconds {
        None => "–".to_owned(),
        Some(end) if end.is_infinite() => "beyond the last bucket".to_owned(),
        Some(end) => format!("≤ {end}"),
    }
}

fn beside(text: &mut String, finding: &Finding) {
    let sent = finding.outcome.sent.value_at_quantile(0.99) as f64 / 1_000.0;
    let seeding = finding.seeding.as_secs_f64();
    let resident = finding.resident_mib.map_or("–".to_owned(), |mib| format!("{mib:.0}"));
    let writes = match &finding.writes {
        None => "– | – | – | –".to_owned(),
        Some(w) => format!(
            "{:.1} | {:.1} | {:.1} | {}",
            w.milliseconds(0.5),
            w.milliseconds(0.99),
            w.rate.1,
            w.failed
        ),
    };
    line!(text, "| {} | {writes} | {sent:.1} | {seeding:.0} | {resident} |", finding.title);
}
