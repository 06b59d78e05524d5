//! The suite of nested keys: whether one context has the value at the end of a chain of keys.

use std::path::Path;

use serde_json::json;

use super::figures::{Figures, flag};
use super::suites::WINDOW;
use super::told::text;
use crate::eval::archive;
use crate::eval::caller::Caller;
use crate::eval::host::Host;
use crate::eval::kv;
use crate::eval::pairs::{self, Chain, Pairs};
use crate::eval::progress::Progress;
use vctx_cli::exit::Failure;

/// Number of pairs and number of stores of each size.
const STORES: [(usize, u64); 2] = [(140, 5), (2_000, 2)];
/// Numbers of nestings of the chains.
const LEVELS: std::ops::RangeInclusive<usize> = 1..=6;
/// Number of pairs in one document.
const PAIRS_PER_DOCUMENT: usize = 500;
/// Maximum number of orderings of the MemGPT paper of each level.
const ORDERINGS_MAX: usize = 10;

/// Asks for the end of each chain: in generated stores and, if their file exists, in the pairs of
/// the MemGPT paper.
pub(super) async fn run(
    host: &Host,
    directory: Option<&Path>,
    seed: u64,
    most: usize,
) -> Result<Figures, Failure> {
    let what = "the value at the end of the keys is in the context of one call";
    let mut figures = Figures::new("pairs", what);
    if let Some(directory) = directory {
        paper(host, directory, most.min(ORDERINGS_MAX), &mut figures).await?;
    }
    for (size, stores) in STORES {
        let stores = stores.min(most as u64);
        let progress = Progress::new(&format!("context pairs, {size}"), stores as usize);
        for seed in (seed..).take(stores as usize) {
            let made = Pairs::generated(seed, size, *LEVELS.end());
            let name = format!("context-pairs-{size}-{seed}");
            let caller = Caller::create(host.client(), host.agent(&name), WINDOW).await?;
            let texts: Vec<String> =
                made.stored.iter().map(|(key, value)| pairs::text(key, value)).collect();
            for (at, chunk) in texts.chunks(PAIRS_PER_DOCUMENT).enumerate() {
                archive::ingest(&caller, &document_name(at), chunk).await?;
            }
            let nested = |chain: &&Chain| LEVELS.contains(&(chain.lookups - 1));
            for chain in made.chains.iter().filter(nested) {
                ask(&caller, chain, &size.to_string(), &mut figures).await?;
            }
            progress.add(1);
        }
        progress.close();
    }
    Ok(figures)
}

/// Sets the values of each chain in the pairs of the paper before its question, and restores them.
async fn paper(
    host: &Host,
    directory: &Path,
    most: usize,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let Some(stored) = kv::paper_pairs(directory)? else { return Ok(()) };
    let orderings = kv::paper_orderings(directory, most)?;
    let progress = Progress::new("context pairs, paper", orderings.len());
    let agent = host.agent("context-pairs-paper");
    let caller = Caller::create(host.client(), agent, WINDOW).await?;
    for (at, (key, value)) in stored.iter().enumerate() {
        archive::ingest(&caller, &document_name(at), &[pairs::text(key, value)]).await?;
    }
    for places in &orderings {
        let chain = Chain::of(&stored, places).ok_or_else(|| {
            Failure::data(format!("an ordering names a missing pair: {places:?}"))
        })?;
        for (at, key, value) in &chain.changed {
            archive::ingest(&caller, &document_name(*at), &[pairs::text(key, value)]).await?;
        }
        ask(&caller, &chain, "paper", figures).await?;
        for (at, key, _) in &chain.changed {
            let text = pairs::text(key, &stored[*at].1);
            archive::ingest(&caller, &document_name(*at), &[text]).await?;
        }
        progress.add(1);
    }
    progress.close();
    Ok(())
}

async fn ask(
    caller: &Caller,
    chain: &Chain,
    store: &str,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let start = &chain.start;
    let question = format!("What is the value of the key {start}? If it is a key too, go on.");
    let told = caller.build_context(&json!({"question": question})).await?;
    let level = chain.lookups - 1;
    figures.note(&format!("{store}, level {level}"), flag(text(&told).contains(&chain.end)));
    Ok(())
}

fn document_name(at: usize) -> String {
    format!("kv-{at}")
}
