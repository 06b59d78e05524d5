//! Tests that a page token leads to its position in the results, and that a changed token is
//! refused.

use vctx_core::error::{Code, Result};
use vctx_core::ids::SeededIds;
use vctx_core::memory::page::{Page, PageItem};
use vctx_core::search::{PageRequest, PageToken, new_page, page_token};

const ADA: PageRequest<'_> =
    PageRequest { agent_id: "ada", tool: "search_recall", query_hash: "asked", unix_ms: 5_000_000 };

fn page(items: usize) -> Page {
    let item =
        |n| PageItem { id: format!("m{n}"), offset: 0, score: 1.0, parts: None, similarity: None };
    new_page(&SeededIds::new(items as u64), ADA, (0..items).map(item).collect())
}

fn open(request: PageRequest<'_>, text: &str, page: Option<&Page>) -> Result<usize> {
    PageToken::parse(text)?.open(page, request)
}

fn code(outcome: Result<usize>) -> Code {
    outcome.unwrap_err().code
}

#[test]
fn a_token_opens_its_position_and_there_is_none_after_the_end() {
    let page = page(3);
    for position in 0..3 {
        let token = page_token(&page, position).unwrap();
        assert_eq!(open(ADA, &token, Some(&page)).unwrap(), position);
    }
    assert_eq!(page_token(&page, 3), None);
}

#[test]
fn foreign_missing_and_other_questions_get_one_answer() {
    let list = page(3);
    let token = page_token(&list, 1).unwrap();
    let bob = PageRequest { agent_id: "bob", ..ADA };
    for outcome in [
        open(bob, &token, Some(&list)),
        open(bob, &token, None),
        open(PageRequest { tool: "search_archival", ..ADA }, &token, Some(&list)),
        open(PageRequest { query_hash: "asked otherwise", ..ADA }, &token, Some(&list)),
        open(ADA, &token, None),
        open(ADA, &token, Some(&page(4))),
    ] {
        assert_eq!(code(outcome), Code::PageTokenInvalid);
    }
}

#[test]
fn every_changed_character_is_noticed() {
    let page = page(30);
    let token = page_token(&page, 12).unwrap();
    for at in 0..token.len() {
        for other in ["0", "1", "f", ".", "+", "x", ""] {
            let changed = format!("{}{other}{}", &token[..at], &token[at + 1..]);
            if changed == token {
                continue;
            }
            let code = code(open(ADA, &changed, Some(&page)));
            assert!(
                matches!(code, Code::PageTokenInvalid | Code::PageExpired),
                "{changed}: {code:?}"
            );
        }
    }
    for text in ["", ".", "...", "a.b.c.d", &"f".repeat(10_000), &format!("{token}.")] {
        assert_eq!(code(open(ADA, text, Some(&page))), Code::PageTokenInvalid);
    }
}

#[test]
fn a_token_expires_with_its_list_whether_the_list_still_exists_or_not() {
    let page = page(2);
    let token = page_token(&page, 1).unwrap();
    let last = PageRequest { unix_ms: ADA.unix_ms + 3_600_000 - 1, ..ADA };
    assert_eq!(open(last, &token, Some(&page)).unwrap(), 1);
    let late = PageRequest { unix_ms: last.unix_ms + 1, ..ADA };
    assert_eq!(code(open(late, &token, Some(&page))), Code::PageExpired);
    assert_eq!(code(open(late, &token, None)), Code::PageExpired);
}
