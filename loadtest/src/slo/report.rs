//! Renders the report of the service level test.

use std::fmt::Write as _;
use std::time::Duration;

use super::open_loop::Outcome;
use crate::options::SloOptions;

/// Quantiles of the server's own histograms that the report shows.
pub(crate) const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// The result of one run of a timetable, which starts calls at a fixed rate.
pub(crate) struct Finding {
    pub(crate) title: String,
    pub(crate) level_ms: f64,
    pub(crate) rows: u64,
    pub(crate) full_rows: u64,
    pub(crate) seeding: Duration,
    pub(crate) resident_mib: Option<f64>,
    pub(crate) outcome: Outcome,
    pub(crate) writes: Option<Outcome>,
    /// Name of the server's own histogram for the measured calls; `server_ms` contains the
    /// quantiles of this histogram, in milliseconds.
    pub(crate) histogram: &'static str,
    pub(crate) server_ms: [Option<f64>; 3],
    /// Recall: the share of the exact nearest vectors that searches found.
    pub(crate) recall: Option<f64>,
    /// Whether the run is compared with the promised service level.
    pub(crate) judged: bool,
}

impl Finding {
    /// Whether the run met the service level and every call was answered.
    pub(crate) fn met(&self) -> bool {
        let outcome = &self.outcome;
        !outcome.overrun && outcome.failed == 0 && outcome.milliseconds(0.99) <= self.level_ms
    }
}

/// Appends a formatted line to a text.
macro_rules! line {
    ($text:expr, $($part:tt)*) => {
        writeln!($text, $($part)*).expect("a String takes everything")
    };
}

/// Returns the whole service level report: the given head, followed by all other parts.
pub(crate) fn markdown(head: String, options: &SloOptions, findings: &[Finding]) -> String {
    let mut text = head;
    origin(&mut text, options);
    line!(
        text,
        "\n| scenario | rows (of full scale) | p50 ms | p90 | p95 | p99 | p99.9 | max | level p99 \
         | met | per second done / due | calls | failed | recall |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for finding in findings {
        row(&mut text, finding);
    }
    line!(text, "\n## Writers at the same time, and what a closed loop would have shown\n");
    line!(
        text,
        "| scenario | writes p50 ms | p99 ms | per second | failed | p99 from sending | seeding s | resident MiB |\n|---|---|---|---|---|---|---|---|"
    );
    for finding in findings {
        writers(&mut text, finding);
    }
    line!(text, "\n## The same calls in the server's own histograms\n");
    line!(
        text,
        "Upper ends of the buckets that hold the quantile, during the load, from the arrival of a call to \
         its answer. `_statisticsRaw` is not read: ArangoDB 3.12 deprecates it, 4 and the embedded \
         engine have none. `vctx-loadtest proxy` measures what a proxy adds.\n"
    );
    line!(text, "| scenario | histogram | p50 ms | p95 | p99 |\n|---|---|---|---|---|");
    for finding in findings {
        let [half, most, all] = finding.server_ms.map(end);
        line!(text, "| {} | `{}` | {half} | {most} | {all} |", finding.title, finding.histogram);
    }
    for finding in findings {
        for fault in &finding.outcome.faults {
            line!(text, "\n- {}: {fault}", finding.title);
        }
        if finding.outcome.overrun {
            line!(
                text,
                "\n- {}: calls started more than 30 s late, so the run ended early: the rate is too high for this machine",
                finding.title
            );
        }
    }
    text
}

fn origin(text: &mut String, options: &SloOptions) {
    line!(text, "- Production hardware (c6id.8xlarge with local NVMe): unmeasured");
    match options.socket {
        None => line!(
            text,
            "- Embedded: database, text index and vector index are `arango-embedded` in the server's \
             process; no arangod took part. The clients share the machine"
        ),
        Some(_) => line!(text, "- A running server was loaded; its operator knows its database"),
    }
    match options.files.names()[..] {
        [] => line!(
            text,
            "- Texts, questions and vectors come from a seeded generator (Zipf words; vectors around \
             2,000 topics)"
        ),
        ref names => line!(text, "- Read from files: {}", names.join(", ")),
    }
    line!(
        text,
        "- Each call is timed from the moment it was due, whether or not a sender was free"
    );
}

fn row(text: &mut String, finding: &Finding) {
    let outcome = &finding.outcome;
    let ms = |quantile: f64| format!("{:.1}", outcome.milliseconds(quantile));
    let rows = match finding.full_rows {
        0 => "–".to_owned(),
        full => format!("{} ({:.3})", finding.rows, finding.rows as f64 / full as f64),
    };
    let met = match (finding.judged, finding.met()) {
        (false, _) => "–",
        (true, true) => "yes",
        (true, false) => "**no**",
    };
    let recall = finding.recall.map_or("–".to_owned(), |r| format!("{r:.3}"));
    line!(
        text,
        "| {} | {rows} | {} | {} | {} | {} | {} | {} | {} | {met} | {:.1} / {:.1} | {} | {} | {recall} |",
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

/// Formats the upper bound of a histogram bucket.
fn end(milliseconds: Option<f64>) -> String {
    match milliseconds {
        None => "–".to_owned(),
        Some(end) if end.is_infinite() => "beyond the last bucket".to_owned(),
        Some(end) => format!("≤ {end}"),
    }
}

fn writers(text: &mut String, finding: &Finding) {
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
