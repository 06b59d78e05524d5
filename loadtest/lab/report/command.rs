//! The `vctx report` command: reads the data of an agent from the server and writes the HTML page.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::figures::Figures;
use super::latency::{Latency, latencies};
use super::page::{Content, page};
use vctx_base::clock::{Clock as _, SystemClock, iso8601};
use vctx_cli::exit::Failure;
use vctx_cli::output;
use vctx_cli::saved::Saved;
use vctx_cli::target::Target;
use vctx_cli::whose::Whose;
use vctx_client::serving::server_socket;
use vctx_client::{Client, Problem, Settings, paths};

const EXAMPLES: &str = "\
The page shows the window over time, evictions, searches, heartbeat chains, Conveyance and latencies. It is one file that loads
no other file and contains no text of the memory, so you can send it to a reviewer.

Examples:
  vctx report ada.html --agent ada
  vctx report ada.html --agent ada --force
  vctx report ada.html --agent ada --json | jq .evictions";

/// Maximum number of events read; the page notes whether events were left out.
const EVENTS_MAX: usize = 200_000;
/// Number of events in one request.
const EVENTS_PER_PAGE: u64 = 1_000;

/// Write one self-contained HTML page about an agent's memory
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_missing_positional = true)]
pub struct Report {
    #[command(flatten)]
    whose: Whose,

    /// HTML file to write
    file: PathBuf,

    /// Read events from this time on (as `2026-01-31T12:00:00`)
    #[arg(long, value_name = "TIME", default_value = "")]
    since: String,

    /// Replace an existing file
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx report`: reads the data of the agent and writes the HTML file.
pub async fn run(report: Report) -> Result<(), Failure> {
    let (client, agent) = (report.target.client(), report.whose.agent()?);
    let state = client.state(&agent).await?;
    let (events, more) = events(&client, &agent, &report.since).await?;
    let figures = Figures::of(&events);
    let conveyance = part_or_reason(client.conveyance(&agent, "life").await);
    let measured = part_or_reason(metrics(&report.target).await).map(|text| latencies(&text));
    let left_out = more.then(|| {
        format!("Only the first {EVENTS_MAX} events are shown: use --since to show later events.")
    });
    let html = page(&Content {
        state: &state,
        figures: &figures,
        conveyance: conveyance.as_ref().map_err(String::as_str),
        latencies: measured.as_deref().map_err(String::as_str),
        left_out: left_out.clone(),
        made_at: &iso8601(SystemClock.unix_ms()),
    });
    write(&report.file, &html, report.force)?;
    match report.target.json {
        true => output::value(&summary(&report.file, &figures, &conveyance, &measured)),
        false => output::line(&format!(
            "{}: {} writes, {} evictions, {} heartbeat chains{}",
            report.file.display(),
            figures.points.len(),
            figures.evictions.len(),
            figures.chains.len(),
            left_out.map(|text| format!("\n{text}")).unwrap_or_default()
        )),
    }
}

/// Reads the events from a given time on, up to [`EVENTS_MAX`]. The returned flag is true if there
/// are more events.
async fn events(client: &Client, agent: &str, since: &str) -> Result<(Vec<Value>, bool), Problem> {
    let (mut all, mut from) = (Vec::new(), since.to_owned());
    loop {
        let (page, next) = client.events(agent, &from, EVENTS_PER_PAGE).await?;
        all.extend(page);
        match next {
            Some(_) if all.len() >= EVENTS_MAX => return Ok((all, true)),
            Some(next) => from = next,
            None => return Ok((all, false)),
        }
    }
}

async fn metrics(target: &Target) -> Result<String, Problem> {
    let socket = target.socket.clone().unwrap_or_else(server_socket);
    Client::new(Settings::new(paths::metrics_socket(&socket))).text("/metrics").await
}

/// Returns an optional part of the page, or the reason why the part is missing.
fn part_or_reason<T>(answer: Result<T, Problem>) -> Result<T, String> {
    answer.map_err(|problem| format!("Not available: {} ({})", problem.detail, problem.code))
}

fn write(path: &Path, html: &str, force: bool) -> Result<(), Failure> {
    let failed = |error| {
        let failure = Failure::writing(path.display(), &error);
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => failure.next("use --force to replace it"),
            _ => failure,
        }
    };
    let written = Saved::begin(path).and_then(|mut file| {
        file.write_all(html.as_bytes())?;
        match force {
            true => file.finish(),
            false => file.finish_new(),
        }
    });
    written.map_err(failed)
}

fn summary(
    file: &Path,
    figures: &Figures,
    conveyance: &Result<Value, String>,
    measured: &Result<Vec<Latency>, String>,
) -> Value {
    let writes: Vec<Value> =
        figures.writes.iter().map(|(tool, times)| json!({"tool": tool, "writes": times})).collect();
    let slowest =
        |l: &Latency| json!({"tool": l.tool, "calls": l.calls, "p99_s": l.percentiles[2]});
    json!({
        "file": file, "writes": writes, "evictions": figures.evictions, "warnings": figures.warnings,
        "heartbeat_chains": figures.chains.len(), "searches_that_wrote": figures.searches(),
        "occupancy_max": figures.points.iter().map(super::figures::Point::occupancy).max(),
        "conveyance": conveyance.as_ref().ok(),
        "latency": measured.as_ref().map(|l| l.iter().map(slowest).collect::<Vec<_>>()).ok(),
    })
}
