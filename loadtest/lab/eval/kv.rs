//! Nested key-value retrieval: the archive contains key-value pairs, and a pair's value can be the
//! key of another pair. A chain of searches with heartbeats follows the keys.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::archive::{self, RESULTS_MAX};
use super::caller::Caller;
use super::corpus;
use super::host::Host;
use super::pairs::{self, Chain, Pairs};
use super::progress::Progress;
use super::report::{Report, Section, percent};
use vctx_cli::args;
use vctx_cli::exit::Failure;
use vctx_core::memory::Encoding;
use vctx_core::text::Tiktoken;

/// Mode of the searches, which is `text` because an embedding cannot match a UUID.
pub(super) const MODE: &str = "text";
/// Window of the agent in tokens. The window is so small that following nested keys from pair to
/// pair forces evictions.
const WINDOW: u64 = 4096;
/// Maximum number of searches for one chain of keys. A chain that needs more searches ends the
/// benchmark with an error.
const CALLS_MAX: usize = 64;
/// If fewer tokens than this number are free in the window, the benchmark's script evicts messages
/// before a search.
const ROOM_MIN: u64 = 768;
/// Maximum wait for a heartbeat, in milliseconds. The server asks for shorter waits than this.
const WAIT_MS_MAX: u64 = 2_000;
/// Number of pages of one result list that are read before a key counts as missing.
const PAGES_MAX: usize = 40;
/// Maximum size of a file with key orderings of the MemGPT paper, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of nestings in a generated store, which has one chain of keys for each number of
/// nestings from 0 to this maximum.
const NESTINGS_MAX: usize = 6;
/// Sizes of generated stores, as numbers of key-value pairs.
const SIZES: [usize; 2] = [140, 2_000];
/// Number of pairs in one document.
const PAIRS_PER_DOCUMENT: usize = 500;

/// The result of following one chain of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Followed {
    lookups: usize,
    is_right: bool,
    calls: usize,
    result_tokens: u64,
    beats_refused: usize,
    occupancy_max: u64,
    flushes: usize,
    /// Number of evictions that the benchmark's script requested because a page would not have
    /// fitted into the window.
    rooms_made: usize,
    /// Free tokens of the window, as reported in the last answer.
    free: u64,
    /// Wait before the last heartbeat, in milliseconds.
    wait_ms: u64,
}

/// Runs the benchmark on the key orderings of the MemGPT paper, and on generated stores.
pub(super) async fn run(
    host: &Host,
    directory: Option<&Path>,
    setting: Setting<'_>,
) -> Result<Report, Failure> {
    let mut rows = Vec::new();
    let mut all: Vec<Followed> = Vec::new();
    if let Some(directory) = directory {
        let papers = paper(host, directory, setting).await?;
        rows.extend(table("paper", &papers));
        all.extend(papers);
    }
    for size in SIZES {
        let own = generated(host, size, setting).await?;
        rows.extend(table(&format!("{size} pairs"), &own));
        all.extend(own);
    }
    Ok(report_of(rows, &all))
}

/// Settings of the benchmark: the search mode, the number of key orderings, and the number of
/// stores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    /// Argument `mode` of the benchmark's searches.
    pub(super) mode: &'a str,
    /// Maximum number of key orderings of each nesting level.
    pub(super) orderings: usize,
    /// First seed, and number of seeds for each store size.
    pub(super) seed: u64,
    pub(super) seeds: usize,
}

/// Runs the key orderings of the MemGPT paper on the paper's pairs, which are in one store. Sets
/// the values of each chain before the chain is followed, and restores the original values before
/// the next chain.
async fn paper(
    host: &Host,
    directory: &Path,
    setting: Setting<'_>,
) -> Result<Vec<Followed>, Failure> {
    let Some(pairs) = paper_pairs(directory)? else { return Ok(Vec::new()) };
    let orderings = paper_orderings(directory, setting.orderings)?;
    let progress = Progress::new("kv, paper", pairs.len() + orderings.len());
    let caller = agent(host, "kv-paper").await?;
    for (at, (key, value)) in pairs.iter().enumerate() {
        archive::ingest(&caller, &doc_id(at), &[pairs::text(key, value)]).await?;
        progress.add(1);
    }
    let mut all = Vec::with_capacity(orderings.len());
    for places in &orderings {
        let Some(chain) = Chain::of(&pairs, places) else {
            return Err(Failure::data(format!("an ordering names a missing pair: {places:?}")));
        };
        for (at, key, value) in &chain.changed {
            archive::ingest(&caller, &doc_id(*at), &[pairs::text(key, value)]).await?;
        }
        all.push(follow(&caller, &chain, setting.mode).await?);
        for (at, key, _) in &chain.changed {
            archive::ingest(&caller, &doc_id(*at), &[pairs::text(key, &pairs[*at].1)]).await?;
        }
        progress.add(1);
    }
    progress.close();
    Ok(all)
}

/// Runs the benchmark on generated stores. Each store contains several chains that share no pair.
async fn generated(
    host: &Host,
    size: usize,
    setting: Setting<'_>,
) -> Result<Vec<Followed>, Failure> {
    let seeds = match size {
        0..1_000 => setting.seeds,
        _ => setting.seeds.div_ceil(10),
    };
    let progress = Progress::new(&format!("kv, {size} pairs"), seeds * (NESTINGS_MAX + 1));
    let mut all = Vec::new();
    for seed in (setting.seed..).take(seeds) {
        let made = Pairs::generated(seed, size, NESTINGS_MAX);
        let caller = agent(host, &format!("kv-{size}-{seed}")).await?;
        let texts: Vec<String> =
            made.stored.iter().map(|(key, value)| pairs::text(key, value)).collect();
        for (at, chunk) in texts.chunks(PAIRS_PER_DOCUMENT).enumerate() {
            archive::ingest(&caller, &doc_id(at), chunk).await?;
        }
        for chain in &made.chains {
            all.push(follow(&caller, chain, setting.mode).await?);
            progress.add(1);
        }
    }
    progress.close();
    Ok(all)
}

fn doc_id(at: usize) -> String {
    format!("kv-{at}")
}

/// Creates an agent without a minimum pause between heartbeats, because the benchmark's script is
/// faster than a model.
async fn agent(host: &Host, name: &str) -> Result<Caller, Failure> {
    let caller = Caller::create(host.client(), host.agent(name), WINDOW).await?;
    caller.patch(&json!({"heartbeat": {"rps_limit": 64}})).await?;
    Ok(caller)
}

/// Looks up a key in the archive, then the key's value, until no result line contains the value as
/// a key. Each search of the script requests a heartbeat, and each result page is appended as a
/// tool result.
async fn follow(caller: &Caller, chain: &Chain, mode: &str) -> Result<Followed, Failure> {
    let counter = Tiktoken::new(Encoding::O200kBase);
    let mut done = Followed { lookups: chain.lookups, ..Followed::default() };
    let question = format!("What is the value of the key {}?", chain.start);
    done.see(&caller.append("user", &json!({"content": question})).await?.1);
    let mut current = chain.start.clone();
    while let Some(value) = look_up(caller, &current, mode, &counter, &mut done).await? {
        if done.calls > CALLS_MAX {
            return Err(Failure::data(format!("a chain of keys needs over {CALLS_MAX} searches")));
        }
        current = value;
    }
    done.is_right = current == chain.end;
    done.see(&caller.append("assistant", &json!({"content": current})).await?.1);
    Ok(done)
}

/// Finds the value of a key in the result list, page by page; `None` if no result line contains the
/// key.
async fn look_up(
    caller: &Caller,
    key: &str,
    mode: &str,
    counter: &Tiktoken,
    done: &mut Followed,
) -> Result<Option<String>, Failure> {
    let mut arguments =
        json!({"query_text": key, "limit": RESULTS_MAX, "heartbeat": true, "mode": mode});
    for _ in 0..PAGES_MAX {
        if done.free < ROOM_MIN {
            done.see(&caller.tool("evict_fifo", &json!({})).await?);
            done.rooms_made += 1;
        }
        let call = format!("call_{}", done.calls);
        let made = json!({"content": "", "tool_calls": [{"id": call, "type": "function",
            "function": {"name": "search_archival", "arguments": arguments.to_string()}}]});
        done.see(&caller.append("assistant", &made).await?.1);
        // This script is faster than a model, so it waits before each heartbeat for the time that
        // the server asks for.
        tokio::time::sleep(Duration::from_millis(done.wait_ms.min(WAIT_MS_MAX))).await;
        let turned = archive::turn(caller, &mut arguments, counter).await?;
        done.calls += 1;
        done.result_tokens += turned.page.tokens;
        done.beats_refused += usize::from(!turned.has_beat);
        let content = json!(turned.page.results).to_string();
        let answered = json!({"content": content, "tool_call_id": call});
        done.see(&caller.append("tool", &answered).await?.1);
        let value = turned.page.texts().find_map(|text| pairs::value_of(text, key));
        if value.is_some() || !turned.goes_on {
            return Ok(value);
        }
    }
    Ok(None)
}

impl Followed {
    /// Reads the state of the window from an answer.
    fn see(&mut self, answer: &Value) {
        let occupancy = answer.pointer("/tokens/occupancy").and_then(Value::as_u64).unwrap_or(0);
        self.occupancy_max = self.occupancy_max.max(occupancy);
        self.wait_ms =
            answer.pointer("/heartbeat/retry_after_ms").and_then(Value::as_u64).unwrap_or(0);
        self.free = answer.pointer("/tokens/free").and_then(Value::as_u64).unwrap_or(0);
        self.flushes += usize::from(answer.get("flush").is_some_and(Value::is_object));
    }
}

fn table(name: &str, all: &[Followed]) -> Vec<Vec<String>> {
    let mut by_lookups: BTreeMap<usize, Vec<&Followed>> = BTreeMap::new();
    for one in all {
        by_lookups.entry(one.lookups).or_default().push(one);
    }
    by_lookups
        .iter()
        .map(|(lookups, some)| {
            let count = some.len() as f64;
            let mean =
                |of: fn(&Followed) -> f64| some.iter().map(|one| of(one)).sum::<f64>() / count;
            vec![
                name.to_owned(),
                lookups.to_string(),
                some.len().to_string(),
                percent(mean(|one| f64::from(u8::from(one.is_right)))),
                format!("{:.2}", mean(|one| one.calls as f64)),
                format!("{:.0}", mean(|one| one.result_tokens as f64)),
                some.iter().map(|one| one.beats_refused).sum::<usize>().to_string(),
                some.iter().map(|one| one.occupancy_max).max().unwrap_or(0).to_string(),
                some.iter().map(|one| one.flushes).sum::<usize>().to_string(),
                some.iter().map(|one| one.rooms_made).sum::<usize>().to_string(),
            ]
        })
        .collect()
}

fn report_of(rows: Vec<Vec<String>>, all: &[Followed]) -> Report {
    let share = |holds: fn(&Followed) -> bool| {
        all.iter().filter(|one| holds(one)).count() as f64 * 100.0 / all.len().max(1) as f64
    };
    let reached = vec![
        ("kv accuracy".to_owned(), share(|one| one.is_right)),
        ("kv calls".to_owned(), share(|one| one.calls == one.lookups + 1)),
        (
            "kv window".to_owned(),
            share(|one| one.occupancy_max <= WINDOW && one.beats_refused == 0),
        ),
    ];
    let notes = vec![format!(
        "calls = lookups + 1 in {:.1} % of the chains; window of {WINDOW} tokens never exceeded and no heartbeat refused in {:.1} % of the chains",
        reached[1].1, reached[2].1
    )];
    let heads = [
        "store",
        "lookups",
        "n",
        "right",
        "calls",
        "result tokens",
        "beats refused",
        "occupancy max",
        "flushes",
        "asked for",
    ];
    let section = Section {
        title: "kv: nested key-value retrieval".into(),
        heads: heads.map(str::to_owned).into(),
        rows,
        notes,
        bars: reached.clone(),
    };
    Report { sections: vec![section], reached, ..Report::default() }
}

/// Returns the field `ordered_kv_records` of the first JSON file that has this field.
pub(super) fn paper_pairs(directory: &Path) -> Result<Option<Vec<(String, String)>>, Failure> {
    for path in corpus::files(directory, ".json")? {
        let value = corpus::json(&path)?;
        let Some(list) = value.get("ordered_kv_records").and_then(Value::as_array) else {
            continue;
        };
        let text =
            |pair: &Value, at: usize| pair.get(at).and_then(Value::as_str).map(str::to_owned);
        let pairs = list.iter().map(|pair| Some((text(pair, 0)?, text(pair, 1)?)));
        return Ok(pairs.collect());
    }
    Ok(None)
}

/// Reads lists of pair indexes from the `.jsonl` files: one list per line, up to a maximum number
/// of lists per file.
pub(super) fn paper_orderings(directory: &Path, most: usize) -> Result<Vec<Vec<usize>>, Failure> {
    let mut all = Vec::new();
    for path in corpus::files(directory, ".jsonl")? {
        let text = args::file(&path, FILE_BYTES_MAX)?;
        for (number, line) in
            text.lines().filter(|line| !line.trim().is_empty()).take(most).enumerate()
        {
            all.push(serde_json::from_str(line).map_err(|error| {
                Failure::data(format!("{} line {}: {error}", path.display(), number + 1))
            })?);
        }
    }
    Ok(all)
}
