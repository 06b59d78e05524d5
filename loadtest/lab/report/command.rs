//! The `vctx report` command: reads the data of an agent from the server and writes the HTML page.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use super::figures::Figures;
use super::gather::{self, LeftOut};
use super::latency::{Latency, latencies};
use super::messages::LogMessage;
use super::page::{Content, page};
use super::searches::{Counts, Searched, searches};
use super::stores::{self, Store, Tainted};
use super::texts::{Text, Texts};
use vctx_base::clock::{Clock as _, SystemClock, iso8601};
use vctx_cli::exit::Failure;
use vctx_cli::output;
use vctx_cli::saved::Saved;
use vctx_cli::target::Target;
use vctx_cli::whose::Whose;
use vctx_client::serving::server_socket;
use vctx_client::{Client, Problem, Settings, paths};

const EXAMPLES: &str = "\
The page has a memory map, the window over time, the anatomy of prompts, searches that missed, evictions, heartbeat chains,
Conveyance and latencies. It is one file that loads no other file, for every browser, on paper and on phones. It contains no text of
the memory, so you can send it to a reviewer. With --with-text it also contains blocks, the summary, the newest messages of the queue,
the first passages of documents, and queries that missed; names of blocks, documents and models are texts too. Texts in quarantine
and forgotten texts are never in it. Only you can read the file (mode 0600).

Examples:
  vctx report ada.html --agent ada
  vctx report ada.html --agent ada --force
  vctx report ada.html --agent ada --with-text         # to see what the agent remembers
  vctx report ada.html --agent ada --price-in 2.50     # and what its prompts cost, at US$ 2.50 for a million tokens
  vctx report ada.html --agent ada --json | jq .evictions";

/// Number of documents whose passages a page shows; the largest documents are shown.
const DOCUMENT_TEXTS_MAX: usize = 20;
/// Largest price of a million tokens, in US dollars; a larger one is a mistake in the unit.
const PRICE_MAX: f64 = 100_000.0;

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

    /// Include texts of the memory; everybody who gets the file can read them
    #[arg(long)]
    with_text: bool,

    /// Price of a million tokens of prompts, in US dollars; without it, the page shows no money
    #[arg(long, value_name = "USD_PER_MTOK", value_parser = price)]
    price_in: Option<f64>,

    /// Replace an existing file
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx report`: reads the data of the agent and writes the HTML file.
pub async fn run(report: Report) -> Result<(), Failure> {
    let (client, agent) = (report.target.client(), report.whose.agent()?);
    let mut left_out = Vec::new();
    let mut texts = Texts::new(report.with_text);
    let state = client.state(&agent).await?;
    let events = gather::events(&client, &agent, &report.since, &mut left_out).await?;
    let messages =
        gather::messages(&client, &agent, &state, report.with_text, &mut left_out).await?;
    let stores = stores(&client, &agent, (&state, &messages), &mut texts, &mut left_out).await?;
    let turns = gather::turns(&client, &agent, &state, &texts, &mut left_out).await?;
    left_out.extend(texts.told());
    let figures = Figures::of(&events);
    let searches = searches(&events, &messages);
    let conveyance = part_or_reason(client.conveyance(&agent, "life").await);
    let measured = part_or_reason(metrics(&report.target).await).map(|text| latencies(&text));
    let html = page(&Content {
        state: &state,
        figures: &figures,
        stores: &stores,
        turns: &turns,
        searches: &searches,
        texts: report.with_text,
        price: report.price_in,
        conveyance: conveyance.as_ref().map_err(String::as_str),
        latencies: measured.as_deref().map_err(String::as_str),
        left_out: &left_out,
        made_at: &iso8601(SystemClock.unix_ms()),
    });
    write(&report.file, &html, report.force)?;
    if report.target.json {
        let mut told = summary(&report.file, &figures, &conveyance, &measured);
        told["with_text"] = report.with_text.into();
        let tokens = stores.iter().map(|store| (store.name.to_owned(), json!(store.tokens())));
        told["stores"] = tokens.collect::<Map<_, _>>().into();
        told["prompts_drawn"] = turns.len().into();
        let missed =
            Searched::ALL.map(|of| (of.name().to_owned(), json!(Counts::of(&searches, of).missed)));
        told["searches_missed"] = Map::from_iter(missed).into();
        told["left_out"] = left_out.into();
        return output::value(&told);
    }
    output::line(&format!(
        "{}: {} writes, {} evictions, {} prompts, {} heartbeat chains{}",
        report.file.display(),
        figures.points.len(),
        figures.evictions.len(),
        turns.len(),
        figures.chains.len(),
        left_out.iter().map(|text| format!("\n{text}")).collect::<String>()
    ))
}

/// Reads a price from an argument.
fn price(text: &str) -> Result<f64, String> {
    let parsed = text.trim_start_matches("US$").trim_start_matches('$').trim().parse::<f64>();
    match parsed {
        Ok(price) if (0.0..=PRICE_MAX).contains(&price) => Ok(price),
        Ok(_) => Err(format!("use US dollars for a million tokens, 0 to {PRICE_MAX}")),
        Err(_) => Err("give US dollars for a million tokens, such as 2.50".to_owned()),
    }
}

/// Reads the stores of the memory with their parts and, on request, with texts.
async fn stores(
    client: &Client,
    agent: &str,
    (state, messages): (&Value, &[LogMessage]),
    texts: &mut Texts,
    left_out: &mut LeftOut,
) -> Result<Vec<Store>, Problem> {
    let documents = gather::documents(client, agent, state, left_out).await?;
    let (mode, items) = gather::tainted(client, agent, left_out).await?;
    let tainted = Tainted { mode, items };
    let manifests = client.forgettings(agent).await?;
    let forgotten = output::list(&manifests, "/forgettings")
        .iter()
        .map(|manifest| output::list(manifest, "/documents").len() as u64)
        .sum();
    let core = stores::core(state, texts);
    let queue = stores::queue(state, messages, &tainted, texts);
    let recall = stores::recall(state, messages, &tainted);
    let mut passages = passages(client, agent, &documents, texts, left_out).await?;
    let archive = stores::archive(&documents, &mut passages, &tainted, forgotten, texts);
    Ok(vec![core, queue, recall, archive])
}

/// Reads the first passages of the largest documents, on request.
async fn passages(
    client: &Client,
    agent: &str,
    documents: &[Value],
    texts: &mut Texts,
    left_out: &mut LeftOut,
) -> Result<BTreeMap<String, Vec<Text>>, Problem> {
    let mut found = BTreeMap::new();
    if !texts.wanted() {
        return Ok(found);
    }
    let mut largest: Vec<&Value> = documents.iter().collect();
    largest.sort_by_key(|document| std::cmp::Reverse(document["tokens"].as_u64()));
    if largest.len() > DOCUMENT_TEXTS_MAX {
        left_out.push(format!(
            "Passages are shown of the {DOCUMENT_TEXTS_MAX} largest of {} documents.",
            largest.len()
        ));
    }
    for document in largest.into_iter().take(DOCUMENT_TEXTS_MAX) {
        let doc_id = output::field(document, "/doc_id");
        let passages = gather::passages(client, agent, &doc_id).await?;
        let shown = passages.iter().filter(|passage| passage["quarantined"] != true).filter_map(
            |passage| {
                texts.take(output::field(passage, "/chunk_id"), &output::field(passage, "/text"))
            },
        );
        let shown = shown.collect();
        found.insert(doc_id, shown);
    }
    Ok(found)
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
