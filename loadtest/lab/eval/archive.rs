//! Uses the archive as a client does: stores texts, reads result lists page by page, and counts the
//! tokens of each page.

use serde_json::{Value, json};

use super::caller::Caller;
use vctx_cli::exit::Failure;
use vctx_client::Problem;
use vctx_core::memory::TokenCounter as _;
use vctx_core::text::Tiktoken;

/// Maximum number of passages of one search (the tool's own limit).
pub(super) const RESULTS_MAX: u64 = 40;
/// Maximum number of tokens of a page (specification 002).
pub(super) const PAGE_TOKENS_MAX: u64 = 512;
/// Maximum number of pages of one result list; 40 chunks of 32 KiB need fewer pages.
const PAGES_MAX: usize = 2_048;

/// A result list of an archive search, with all pages.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) pages: Vec<Page>,
    /// `plan` and `k_actual` from the first page of the list.
    pub(super) plan: String,
    pub(super) k_actual: u64,
    /// `nProbe`, if the vector index was used.
    pub(super) n_probe: Option<u64>,
}

/// The result of one archive call.
#[derive(Debug)]
pub(super) struct Turned {
    pub(super) page: Page,
    /// Whether the result list has another page. If so, the arguments contain the continuation
    /// token.
    pub(super) goes_on: bool,
    pub(super) plan: String,
    pub(super) k_actual: u64,
    pub(super) n_probe: Option<u64>,
    /// Whether the server granted the requested heartbeat.
    pub(super) has_beat: bool,
}

/// One page of a result list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) results: Vec<Value>,
    /// Tokens of the page's results, counted by the benchmark.
    pub(super) tokens: u64,
    /// Tokens of the page's results, as reported in the server's answer.
    pub(super) told: u64,
}

impl Page {
    /// Whether the page contains a result from the given document.
    pub(super) fn holds(&self, doc_id: &str) -> bool {
        self.results
            .iter()
            .any(|result| result.get("doc_id").and_then(Value::as_str) == Some(doc_id))
    }

    /// Returns the texts of the results on the page.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.results.iter().filter_map(|result| result.get("text").and_then(Value::as_str))
    }
}

/// Stores texts as the chunks of one document.
pub(super) async fn ingest(
    caller: &Caller,
    doc_id: &str,
    chunks: &[String],
) -> Result<(), Problem> {
    caller.tool("ingest_archival", &json!({"doc_id": doc_id, "chunks": chunks})).await.map(drop)
}

/// Reads a page. If the result list has another page, puts the continuation token into the
/// arguments.
pub(super) async fn turn(
    caller: &Caller,
    arguments: &mut Value,
    counter: &Tiktoken,
) -> Result<Turned, Failure> {
    let answer = caller.tool("search_archival", arguments).await?;
    let at = |pointer: &str| answer.pointer(pointer);
    if at("/result/withheld").is_some() {
        return Err(Failure::data("the window has no room for a page: give a larger --window"));
    }
    let results = at("/result/results").and_then(Value::as_array).cloned().unwrap_or_default();
    let tokens = if results.is_empty() { 0 } else { counter.count(&json!(results).to_string()) };
    let next = at("/result/next_page_token").and_then(Value::as_str);
    if let Some(token) = next {
        arguments["page_token"] = token.into();
    }
    let number = |pointer: &str| at(pointer).and_then(Value::as_u64).unwrap_or(0);
    Ok(Turned {
        page: Page { results, tokens, told: number("/result/page_tokens") },
        goes_on: next.is_some(),
        plan: at("/result/plan").and_then(Value::as_str).unwrap_or_default().into(),
        k_actual: number("/result/k_actual"),
        n_probe: at("/result/nProbe").and_then(Value::as_u64),
        has_beat: at("/heartbeat/granted").and_then(Value::as_bool) == Some(true),
    })
}

/// Reads the pages of a result list, up to a maximum number of pages.
pub(super) async fn walk(
    caller: &Caller,
    mut arguments: Value,
    counter: &Tiktoken,
    pages_max: usize,
) -> Result<Walk, Failure> {
    let first = turn(caller, &mut arguments, counter).await?;
    let (plan, k_actual, n_probe) = (first.plan, first.k_actual, first.n_probe);
    let mut walk = Walk { plan, k_actual, n_probe, pages: vec![first.page] };
    let mut goes_on = first.goes_on;
    while goes_on && walk.pages.len() < pages_max.min(PAGES_MAX) {
        let turned = turn(caller, &mut arguments, counter).await?;
        goes_on = turned.goes_on;
        walk.pages.push(turned.page);
    }
    Ok(walk)
}
