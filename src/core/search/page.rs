//! Page tokens. A page token names a stored result list and an index in this list, and is valid for
//! one agent, tool and query.

use crate::clock::iso8601;
use crate::error::{Code, Error, Result};
use crate::ids::Ids;
use crate::memory::page::{Page, PageItem};
use crate::memory::receipt;

/// Lifetime of a stored result list and of its page tokens, in seconds.
const PAGE_S: u64 = 3600;
/// Maximum length of a page token, in bytes.
const PAGE_TOKEN_BYTES_MAX: usize = 128;

/// A page token, written as `handle.position.expires_at.check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    /// Key of the stored result list.
    pub handle: String,
    position: usize,
    expires_at: u64,
    check: String,
}

/// Number of hex digits in a page token's checksum (64 bits). The checksum covers a salt that never
/// leaves the server, so clients cannot forge tokens.
const CHECK_DIGITS: usize = 16;

/// The values of a call that stores a result list or requests its next page; a page token is bound
/// to these values.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    /// Key of the agent.
    pub agent_id: &'a str,
    /// Name of the tool that searches.
    pub tool: &'a str,
    /// SHA-256 of the query, in hex.
    pub query_hash: &'a str,
    /// Server time of the call in milliseconds.
    pub unix_ms: u64,
}

/// Returns a new result list; the caller stores the list together with the call's other writes.
pub fn new_page(ids: &dyn Ids, request: PageRequest<'_>, items: Vec<PageItem>) -> Page {
    Page {
        handle: ids.salt(),
        agent_id: request.agent_id.to_owned(),
        tool: request.tool.to_owned(),
        query_hash: request.query_hash.to_owned(),
        salt: ids.salt(),
        items,
        created_at: iso8601(request.unix_ms),
        expires_at: request.unix_ms / 1000 + PAGE_S,
    }
}

/// Returns the page token for an index of the result list; `None` after the end of the list.
pub fn page_token(page: &Page, position: usize) -> Option<String> {
    (position < page.items.len()).then(|| {
        let check = check_of(page, position);
        format!("{}.{position}.{}.{check}", page.handle, page.expires_at)
    })
}

impl PageToken {
    /// Parses a page token. A malformed token gives the same error as a token of another agent.
    pub fn parse(text: &str) -> Result<Self> {
        let read = || {
            let mut parts = text.split('.');
            let token = Self {
                handle: parts.next()?.to_owned(),
                position: parts.next()?.parse().ok()?,
                expires_at: parts.next()?.parse().ok()?,
                check: parts.next()?.to_owned(),
            };
            let hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            let whole = parts.next().is_none() && token.to_string() == text;
            let plain = hex(&token.handle) && !token.handle.is_empty() && hex(&token.check);
            (whole && plain).then_some(token)
        };
        if text.len() > PAGE_TOKEN_BYTES_MAX {
            return Err(invalid());
        }
        read().ok_or_else(invalid)
    }

    /// Returns the token's index in the result list `page` if this list belongs to the agent, tool
    /// and query of the request. A list of another agent and a missing list give the same error. An
    /// expired token gives a different error, even if the list still exists.
    pub fn open(&self, page: Option<&Page>, request: PageRequest<'_>) -> Result<usize> {
        if self.expires_at <= request.unix_ms / 1000 {
            return Err(Error::new(
                Code::PageExpired,
                format!(
                    "page_token: a result list is kept for {PAGE_S} s: ask again without page_token"
                ),
            )
            .with("field", "page_token"));
        }
        let page = page.ok_or_else(invalid)?;
        let own = page.handle == self.handle
            && page.agent_id == request.agent_id
            && page.tool == request.tool
            && page.query_hash == request.query_hash
            && page.expires_at == self.expires_at
            && check_of(page, self.position) == self.check
            && self.position < page.items.len();
        if own { Ok(self.position) } else { Err(invalid()) }
    }
}

impl std::fmt::Display for PageToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}.{}", self.handle, self.position, self.expires_at, self.check)
    }
}

fn check_of(page: &Page, position: usize) -> String {
    let bound = [
        page.salt.as_str(),
        &page.handle,
        &page.agent_id,
        &page.tool,
        &page.query_hash,
        &position.to_string(),
        &page.expires_at.to_string(),
    ];
    let mut check = receipt::sha256(&bound.join("\0"));
    check.truncate(CHECK_DIGITS);
    check
}

fn invalid() -> Error {
    Error::new(
        Code::PageTokenInvalid,
        "page_token: not a token of this agent, tool and question: send next_page_token as it was answered, with the same \
         arguments",
    )
    .with("field", "page_token")
}
