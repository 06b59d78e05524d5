//! The archive as a client uses it: texts go in, lists come out page by page, each page counted as it is read.

use serde_json::{Value, json};

use super::caller::Caller;
use vctx_cli::exit::Failure;
use vctx_client::Problem;
use vctx_core::memory::TokenCounter as _;
use vctx_core::text::Tiktoken;

/// Most passages of one search (the tool's own bound).
pub(super) const RESULTS_MAX: u64 = 40;
/// Tokens of a page (seed 002).
pub(super) const PAGE_TOKENS_MAX: u64 = 512;
/// Pages walked of one list; 40 chunks of 32 KiB take fewer.
const PAGES_MAX: usize = 2_048;

/// A list as it was paged.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) pages: Vec<Page>,
    /// `plan` and `k_actual` of the first page.
    pub(super) plan: String,
    pub(super) k_actual: u64,
    /// Cells that were looked into, if the index was asked.
    pub(super) n_probe: Option<u64>,
}

/// What one call gave.
#[derive(Debug)]
pub(super) struct Turned {
    pub(super) page: Page,
    /// Whether the list goes on; its token stands in the arguments then.
    pub(super) goes_on: bool,
    pub(super) plan: String,
    pub(super) k_actual: u64,
    pub(super) n_probe: Option<u64>,
    /// Whether the heartbeat that was asked for is taken.
    pub(super) has_beat: bool,
}

/// One page.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) results: Vec<Value>,
    /// Tokens of the results, counted here.
    pub(super) tokens: u64,
    /// Tokens of the results, as the answer says.
    pub(super) told: u64,
}

impl Page {
    /// Whether a result of a document stands on it.
    pub(super) fn holds(&self, doc_id: &str) -> bool {
        self.results
            .iter()
            .any(|result| result.get("doc_id").and_then(Value::as_str) == Some(doc_id))
    }

    /// The texts on it.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.results.iter().filter_map(|result| result.get("text").and_then(Value::as_str))
    }
}

/// Takes texts in as the chunks of one document.
pub(super) async fn ingest(
    caller: &Caller,
    doc_id: &str,
    chunks: &[String],
) -> Result<(), Problem> {
    caller.tool("ingest_archival", &json!({"doc_id": doc_id, "chunks": chunks})).await.map(drop)
}

/// One page; where the list goes on, its token goes into the arguments.
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

/// A list, up to so many pages.
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
