//! Page tokens: made from a stored list and a place in it, and opened only by who was given them.

use super::draft::Surroundings;
use crate::clock::iso8601;
use crate::error::{Code, Error, Result};
use crate::limits::{PAGE_S, PAGE_TOKEN_BYTES_MAX};
use crate::memory::page::{Page, PageItem};
use crate::memory::receipt;

/// What a token says before anything was looked up: `handle.position.expires_at.check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    /// Key of the stored list.
    pub handle: String,
    position: usize,
    expires_at: u64,
    check: String,
}

/// Length of a check, in hex digits (64 bits; the salt under it is never told).
const CHECK_DIGITS: usize = 16;

/// A list to be stored with a change.
pub(super) fn new_page(around: &Surroundings<'_>, query_hash: &str, items: Vec<PageItem>) -> Page {
    Page {
        handle: around.ids.salt(),
        agent_id: around.scope.key().to_owned(),
        tool: around.tool.to_owned(),
        query_hash: query_hash.to_owned(),
        salt: around.ids.salt(),
        items,
        created_at: iso8601(around.unix_ms),
        expires_at: around.unix_ms / 1000 + PAGE_S,
    }
}

/// The token for the page that begins at a place of the list; none behind its end.
pub fn page_token(page: &Page, position: usize) -> Option<String> {
    (position < page.items.len()).then(|| {
        let check = check_of(page, position);
        format!("{}.{position}.{}.{check}", page.handle, page.expires_at)
    })
}

impl PageToken {
    /// Reads a token. What is not one gets the same answer as one of somebody else's.
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

    /// The place it stands for, if the list that was found is the asker's, made by this tool for this question. A foreign
    /// list and a missing one get the same answer; a token past its time is told so, found or not.
    pub fn open(
        &self,
        found: Option<&Page>,
        around: &Surroundings<'_>,
        query_hash: &str,
    ) -> Result<usize> {
        if self.expires_at <= around.unix_ms / 1000 {
            return Err(Error::new(
                Code::PageExpired,
                format!(
                    "page_token: a result list is kept for {PAGE_S} s: ask anew without page_token"
                ),
            )
            .with("field", "page_token"));
        }
        let page = found.ok_or_else(invalid)?;
        let own = page.handle == self.handle
            && page.agent_id == around.scope.key()
            && page.tool == around.tool
            && page.query_hash == query_hash
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SeededIds;
    use crate::memory::{Encoding, Fingerprint, TokenCounter};
    use crate::policy::{Actor, Principal, Scope, TaintMode, admit};

    struct Uncounted;

    impl TokenCounter for Uncounted {
        fn encoding(&self) -> Encoding {
            Encoding::O200kBase
        }

        fn count(&self, _: &str) -> u64 {
            0
        }
    }

    struct Asker {
        scope: Scope,
        actor: Actor,
        ids: SeededIds,
        tool: &'static str,
        unix_ms: u64,
        embedder: Fingerprint,
    }

    impl Asker {
        fn new(agent: &str, tool: &'static str) -> Self {
            let actor = Actor { uid: 1, pid: 1, label: None };
            let principal = Principal { actor: actor.clone(), tenant: String::new() };
            let scope = admit(&principal, agent).unwrap();
            let embedder =
                Fingerprint { model_id: "m".into(), embedding_version: "1".into(), dimension: 2 };
            Self { scope, actor, ids: SeededIds::new(3), tool, unix_ms: 5_000_000, embedder }
        }

        fn around(&self) -> Surroundings<'_> {
            Surroundings {
                counter: &Uncounted,
                unix_ms: self.unix_ms,
                ids: &self.ids,
                scope: &self.scope,
                actor: &self.actor,
                tool: self.tool,
                embedder: &self.embedder,
                next_embedder: None,
                key_hash: "",
                wording: None,
                asked: "",
                capture: None,
                taint: TaintMode::default(),
            }
        }

        fn page(&self, items: usize) -> Page {
            let item = |n| PageItem {
                id: format!("m{n}"),
                offset: 0,
                score: 1.0,
                parts: None,
                similarity: None,
            };
            new_page(&self.around(), "asked", (0..items).map(item).collect())
        }

        fn open(&self, text: &str, found: Option<&Page>, query_hash: &str) -> Result<usize> {
            PageToken::parse(text)?.open(found, &self.around(), query_hash)
        }
    }

    fn code(outcome: Result<usize>) -> Code {
        outcome.unwrap_err().code
    }

    #[test]
    fn a_token_opens_its_place_and_there_is_none_behind_the_end() {
        let ada = Asker::new("ada", "search_recall");
        let page = ada.page(3);
        for position in 0..3 {
            let token = page_token(&page, position).unwrap();
            assert_eq!(ada.open(&token, Some(&page), "asked").unwrap(), position);
        }
        assert_eq!(page_token(&page, 3), None);
    }

    #[test]
    fn foreign_missing_and_other_questions_get_one_answer() {
        let ada = Asker::new("ada", "search_recall");
        let page = ada.page(3);
        let token = page_token(&page, 1).unwrap();
        let bob = Asker::new("bob", "search_recall");
        let archive = Asker::new("ada", "search_archival");
        for outcome in [
            bob.open(&token, Some(&page), "asked"),
            bob.open(&token, None, "asked"),
            archive.open(&token, Some(&page), "asked"),
            ada.open(&token, Some(&page), "asked otherwise"),
            ada.open(&token, None, "asked"),
            ada.open(&token, Some(&ada.page(3)), "asked"),
        ] {
            assert_eq!(code(outcome), Code::PageTokenInvalid);
        }
    }

    #[test]
    fn every_changed_character_is_noticed() {
        let ada = Asker::new("ada", "search_recall");
        let page = ada.page(30);
        let token = page_token(&page, 12).unwrap();
        for at in 0..token.len() {
            for other in ["0", "1", "f", ".", "+", "x", ""] {
                let changed = format!("{}{other}{}", &token[..at], &token[at + 1..]);
                if changed == token {
                    continue;
                }
                let code = code(ada.open(&changed, Some(&page), "asked"));
                assert!(
                    matches!(code, Code::PageTokenInvalid | Code::PageExpired),
                    "{changed}: {code:?}"
                );
            }
        }
        for text in ["", ".", "...", "a.b.c.d", &"f".repeat(10_000), &format!("{token}.")] {
            assert_eq!(code(ada.open(text, Some(&page), "asked")), Code::PageTokenInvalid);
        }
    }

    #[test]
    fn a_token_ends_with_its_list_whether_that_is_still_there_or_not() {
        let mut ada = Asker::new("ada", "search_recall");
        let page = ada.page(2);
        let token = page_token(&page, 1).unwrap();
        ada.unix_ms += PAGE_S * 1000 - 1;
        assert_eq!(ada.open(&token, Some(&page), "asked").unwrap(), 1);
        ada.unix_ms += 1;
        assert_eq!(code(ada.open(&token, Some(&page), "asked")), Code::PageExpired);
        assert_eq!(code(ada.open(&token, None, "asked")), Code::PageExpired);
    }
}
