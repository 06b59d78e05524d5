//! Nested key-value retrieval: pairs in the archive whose values are keys, followed by a script with chained heartbeats.

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

/// How keys are looked up: an embedding knows no UUID.
pub(super) const MODE: &str = "text";
/// Window of the agent: a chain must flush and go on.
const WINDOW: u64 = 4096;
/// Searches of one chain at most; a script that needs more is lost.
const CALLS_MAX: usize = 64;
/// Free tokens below which the script makes room first: a page, its call and its frame.
const ROOM_MIN: u64 = 768;
/// Longest wait for a beat, in milliseconds; the server's own waits are shorter.
const WAIT_MS_MAX: u64 = 2_000;
/// Pages of one list that are read before a key counts as not there.
const PAGES_MAX: usize = 40;
/// Longest file of orderings, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Nestings of a generated store: a chain of each, none sharing a pair.
const NESTINGS_MAX: usize = 6;
/// Sizes of generated stores.
const SIZES: [usize; 2] = [140, 2_000];
/// Pairs of one document.
const PAIRS_PER_DOCUMENT: usize = 500;

/// What came of following one chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Followed {
    lookups: usize,
    is_right: bool,
    calls: usize,
    result_tokens: u64,
    beats_refused: usize,
    occupancy_max: u64,
    flushes: usize,
    /// Evictions that the script asked for, since a page would not have fitted.
    rooms_made: usize,
    /// Free tokens of the window when last seen.
    free: u64,
    /// How long a beat had to wait when last seen, in milliseconds.
    wait_ms: u64,
}

/// Runs the paper's orderings, and stores made from so many seeds on.
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
    Ok(told(rows, &all))
}

/// How the stores are searched, and how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    /// `mode` of the searches.
    pub(super) mode: &'a str,
    /// Orderings of each level at most.
    pub(super) orderings: usize,
    /// First seed and how many of them, for each size.
    pub(super) seed: u64,
    pub(super) seeds: usize,
}

/// The paper's pairs and orderings: one store in which the values of each chain are put and taken back.
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
            return Err(Failure::data(format!(
                "an ordering names a pair that is not there: {places:?}"
            )));
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

/// Stores made from seeds: all chains lie in one store and share no pair.
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

/// An agent whose beats are not held back by the second: a script is faster than a model.
async fn agent(host: &Host, name: &str) -> Result<Caller, Failure> {
    let caller = Caller::create(host.client(), host.agent(name), WINDOW).await?;
    caller.patch(&json!({"heartbeat": {"rps_limit": 64}})).await?;
    Ok(caller)
}

/// The script: look the key up; if a line has it as a key, go on with its value; if none has, the answer is found. Each search asks for
/// a heartbeat, and each page goes into the window as a tool's result does.
async fn follow(caller: &Caller, chain: &Chain, mode: &str) -> Result<Followed, Failure> {
    let counter = Tiktoken::new(Encoding::O200kBase);
    let mut done = Followed { lookups: chain.lookups, ..Followed::default() };
    let question = format!("What is the value of the key {}?", chain.start);
    done.see(&caller.append("user", &json!({"content": question})).await?.1);
    let mut current = chain.start.clone();
    while let Some(value) = look_up(caller, &current, mode, &counter, &mut done).await? {
        if done.calls > CALLS_MAX {
            return Err(Failure::data(format!("a chain of more than {CALLS_MAX} calls")));
        }
        current = value;
    }
    done.is_right = current == chain.end;
    done.see(&caller.append("assistant", &json!({"content": current})).await?.1);
    Ok(done)
}

/// The value of a key, page by page; none when no line has it.
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
        // A script is faster than a model: where the server says that a beat has to wait, it waits.
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
    /// Takes the window out of an answer.
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

fn told(rows: Vec<Vec<String>>, all: &[Followed]) -> Report {
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
        "calls = lookups + 1 in {:.1} % of the chains; window of {WINDOW} kept and every beat taken in {:.1} %",
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

/// `ordered_kv_records` of the first JSON file that has them.
fn paper_pairs(directory: &Path) -> Result<Option<Vec<(String, String)>>, Failure> {
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

/// Lists of places, one in each line of the `.jsonl` files; so many of each file.
fn paper_orderings(directory: &Path, most: usize) -> Result<Vec<Vec<usize>>, Failure> {
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
