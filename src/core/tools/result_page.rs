//! Returns one page of a result list, and stores the list for the calls that request later pages.
//! Several tools use this code.

use serde_json::{Map, Value, json};

use crate::chunk;
use crate::error::{Code, Error, Result};
use crate::limits::PAGE_TOKENS_MAX;
use crate::memory::page::{Page, PageItem};
use crate::memory::receipt;
use crate::policy::{Ctx, Draft, Question, Stop};
use crate::search::{PageToken, page_token};
use crate::window::tokens;

/// Returns a digest of the question, by which a later call finds its stored result list. The digest
/// also covers which tainted items a reviewer has released from quarantine, because these items are
/// hidden in the pages until their release.
pub(super) fn query_hash(ctx: &Ctx<'_>, mut question: Value) -> String {
    let releases = ctx.around.taint.releases(ctx.core);
    if !releases.is_empty() {
        question["releases"] = releases.into();
    }
    receipt::sha256(&receipt::canonical_json(&question))
}

/// Returns the stored list that a page token names, and the index at which the token's page begins.
pub(super) fn stored<'a>(
    ctx: &Ctx<'a>,
    token: &str,
    query_hash: &str,
) -> Result<(&'a Page, usize), Stop> {
    let token = PageToken::parse(token)?;
    let page = ctx.answers.page(|| Question::Page { handle: token.handle.clone() })?;
    let position = token.open(page.as_ref(), ctx.around.page_request(query_hash))?;
    Ok((page.as_ref().expect("an opened list exists"), position))
}

/// Decodes the items of a stored list with the tool's function `read`; an undecodable item is an
/// error.
pub(super) fn items_of<'a, T>(
    page: &'a Page,
    read: impl Fn(&'a PageItem) -> Option<T>,
) -> Result<Vec<T>> {
    let items: Option<Vec<T>> = page.items.iter().map(read).collect();
    items.ok_or_else(|| Error::new(Code::Internal, "the result list belongs to another tool"))
}

/// A page of results, and the index at which the next page begins.
pub(super) struct ResultPage<'a> {
    pub(super) results: Vec<Value>,
    /// Number of the page, from 1.
    pub(super) number: u64,
    /// Index of the next page's first item in the list; the list's length if this is the last page.
    pub(super) next: usize,
    /// The stored list and the index at which this page begins, if this call continues a list.
    pub(super) stored: Option<(&'a Page, usize)>,
}

/// An answer to a call, and whether its result list has to be stored.
pub(super) struct Answer {
    pub(super) result: Map<String, Value>,
    /// Whether the page is left out because the window has no room for it.
    pub(super) withheld: bool,
    /// Whether the list is stored for its next pages.
    pub(super) keeps: bool,
}

impl ResultPage<'_> {
    /// Returns the answer with this page. If the window has no room for the page, the answer
    /// reports this fact instead of the page. `details` contains further fields of the answer. If
    /// another page follows, the draft stores the list.
    pub(super) fn answer(
        &self,
        ctx: &Ctx<'_>,
        draft: &mut Draft<'_>,
        query_hash: &str,
        items: &[PageItem],
        details: Map<String, Value>,
    ) -> Answer {
        let withheld = tokens(ctx.core).free < PAGE_TOKENS_MAX && !self.results.is_empty();
        let next = match self.stored {
            Some((_, position)) if withheld => position,
            None if withheld => 0,
            Some(_) | None => self.next,
        };
        let keeps = self.stored.is_none() && next < items.len();
        let token = match self.stored {
            Some((page, _)) => page_token(page, next),
            None if keeps => page_token(draft.keep_page(query_hash, items.to_vec()), next),
            None => None,
        };
        let shown = if withheld { &[][..] } else { &self.results };
        let cost = if shown.is_empty() { 0 } else { chunk::page_cost(ctx.around.counter, shown) };
        let mut result = Map::new();
        result.insert("results".into(), json!(shown));
        result.insert("next_page_token".into(), json!(token));
        result.insert("tokens_added".into(), cost.into());
        result.insert("page_tokens".into(), cost.into());
        result.insert("page".into(), self.number.into());
        result.extend(details);
        if withheld {
            result.insert("withheld".into(), "tokens".into());
            result.insert("page_tokens_max".into(), PAGE_TOKENS_MAX.into());
        }
        Answer { result, withheld, keeps }
    }
}
