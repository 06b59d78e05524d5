//! The pages of an archival search: what was found is cut into pages once, shown as far as the window has room, and kept for later calls.

use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::search_archival::SearchArchival;
use super::spec::Step;
use crate::chunk::{self, Piece};
use crate::error::{Code, Error, Result};
use crate::limits::{PAGE_TOKENS_MAX, SPOOL_ID_BYTES};
use crate::memory::archive::FoundPassage;
use crate::memory::core::Core;
use crate::memory::page::{Page, PageItem};
use crate::policy::{
    Answers, Draft, Intent, PageToken, Parts, Question, Surroundings, Untrusted, page_token,
    preview, tokens,
};

/// One page of a search, as it will be answered.
pub(super) struct Shown {
    results: Vec<Value>,
    tokens: u64,
    /// Number of the page, from 1.
    number: u64,
    /// Place of the next page in the list; its length at the end.
    next: usize,
}

/// What a search found, in the order in which it is shown.
pub(super) struct Listed {
    pub(super) passage: FoundPassage,
    /// What its score is made of, where that was asked for.
    pub(super) parts: Option<Parts>,
}

impl SearchArchival {
    /// The first page of what was found.
    pub(super) fn show(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
        told: Map<String, Value>,
        mut found: Vec<Listed>,
    ) -> Result<Step> {
        found.iter_mut().for_each(|one| one.passage = guarded(around, core, &one.passage));
        let found = &found;
        let views: Vec<chunk::View<'_>> = found
            .iter()
            .map(|one| chunk::View { passage: &one.passage, parts: self.parts_of(one.parts) })
            .collect();
        let pieces = chunk::pages(around.counter, &views, PAGE_TOKENS_MAX);
        let items: Vec<PageItem> =
            pieces.iter().map(|piece| item_of(piece, &found[piece.row])).collect();
        let on_first = pieces.iter().take_while(|piece| piece.page == 1);
        let results: Vec<Value> = on_first
            .map(|piece| chunk::shown(around.counter, &views[piece.row], piece.start, piece.end))
            .collect();
        let results = self.order.arrange(results);
        let shown = Shown {
            tokens: page_tokens(around, &results),
            next: results.len(),
            results,
            number: 1,
        };
        self.close(around, core, answers, told, &items, Found { shown, first: true, page: None })
    }

    /// What is told of a score beside itself.
    fn parts_of(&self, parts: Option<Parts>) -> chunk::Told {
        match (self.explain, parts) {
            (false, _) => chunk::Told::Short,
            (true, None) => chunk::Told::Whole(None),
            (true, Some(parts)) => chunk::Told::Whole(Some(parts)),
        }
    }

    /// A later page of a list that was kept.
    pub(super) fn next_page(
        &self,
        token: &str,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let token = PageToken::parse(token)?;
        let Some(page) = &answers.page else {
            return Ok(Step::Ask(Question::Page { handle: token.handle }));
        };
        let position = token.open(page.as_ref(), &around, &self.query_hash(around, core))?;
        let page = page.as_ref().expect("an opened list is there");
        let items: Vec<Item<'_>> =
            page.items.iter().map(Item::of).collect::<Option<_>>().ok_or_else(|| {
                Error::new(Code::Internal, "a stored result list is not one of the archive")
            })?;
        let number = items[position].page;
        let next = items.iter().position(|item| item.page > number).unwrap_or(items.len());
        let on_page = &items[position..next];
        let Some(passages) = &answers.passages else {
            let mut keys: Vec<String> = on_page.iter().map(|item| item.key.to_owned()).collect();
            keys.dedup();
            return Ok(Step::Ask(Question::Passages { keys }));
        };
        let results: Vec<Value> = on_page
            .iter()
            .enumerate()
            .map(|(at, item)| {
                let behind = items.get(position + at + 1).filter(|other| other.key == item.key);
                item.shown(self, around, core, passages, behind.map(|other| other.start))
            })
            .collect();
        let results = self.order.arrange(results);
        let shown = Shown { tokens: page_tokens(around, &results), results, number, next };
        let found = Found { shown, first: false, page: Some((page, position)) };
        self.close(around, core, answers, Map::new(), &page.items, found)
    }

    /// Answers a page, or says that the window has no room for one; keeps what the next pages need.
    pub(super) fn close(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
        told: Map<String, Value>,
        items: &[PageItem],
        found: Found<'_>,
    ) -> Result<Step> {
        let mut draft = Draft::new(around, core);
        let Found { shown, first, page } = found;
        let held = tokens(core).free < PAGE_TOKENS_MAX && !shown.results.is_empty();
        let next = match page {
            Some((_, position)) if held => position,
            None if held => 0,
            Some(_) | None => shown.next,
        };
        let mut writes = false;
        let token = match page {
            Some((page, _)) => page_token(page, next),
            None if next < items.len() => {
                writes = true;
                page_token(draft.keep_page(&self.query_hash(around, core), items.to_vec()), next)
            }
            None => None,
        };
        let mut result = Map::new();
        let page_tokens = if held { 0 } else { shown.tokens };
        result.insert("results".into(), if held { json!([]) } else { json!(shown.results) });
        result.insert("next_page_token".into(), json!(token));
        result.insert("tokens_added".into(), page_tokens.into());
        result.insert("page_tokens".into(), page_tokens.into());
        result.insert("page".into(), shown.number.into());
        result.extend(told);
        if held {
            result.insert("withheld".into(), "tokens".into());
            result.insert("page_tokens_max".into(), PAGE_TOKENS_MAX.into());
            if first {
                writes |= spool(&mut draft, around, core, &shown, &mut result);
            }
        }
        if self.heartbeat {
            draft.beat(Intent::Continue);
            writes = true;
        }
        if !writes {
            return Ok(Step::Read(result));
        }
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }
}

/// A passage with the rules that it meets, and with its text if that may be told.
fn guarded(around: Surroundings<'_>, core: &Core, passage: &FoundPassage) -> FoundPassage {
    let Untrusted { rules, held } = around.taint.untrusted_passage(core, passage);
    let mut passage = passage.clone();
    passage.tainted = rules;
    passage.quarantined = held.is_some();
    if let Some(told) = held {
        passage.text = told;
        passage.offset = None;
    }
    passage
}

/// A page with the list that it is a part of.
pub(super) struct Found<'a> {
    shown: Shown,
    /// Whether the search was made by this call.
    first: bool,
    /// The stored list and the place in it, when this call goes on with one.
    page: Option<(&'a Page, usize)>,
}

impl Found<'_> {
    /// Nothing at all: the archive is empty.
    pub(super) fn nothing() -> Self {
        let shown = Shown { results: Vec::new(), tokens: 0, number: 1, next: 0 };
        Self { shown, first: true, page: None }
    }
}

/// A result that the window has no room for goes into recall storage whole; its beginning is shown as far as there is room. True if it
/// did: a window that has no room even for the notice that says so is left alone.
fn spool(
    draft: &mut Draft<'_>,
    around: Surroundings<'_>,
    core: &Core,
    shown: &Shown,
    result: &mut Map<String, Value>,
) -> bool {
    // The id is not known yet; none costs more tokens than it has bytes.
    if draft.point_cost(&[String::new()]) + SPOOL_ID_BYTES > draft.room() {
        return false;
    }
    let payload = Value::from(shown.results.clone()).to_string();
    let ids = draft.spool(&payload);
    let room = tokens(&draft.after).free.min(tokens(core).free);
    result.insert("preview".into(), preview(around.counter, &payload, room).into());
    result.insert("spooled".into(), json!(ids));
    true
}

fn page_tokens(around: Surroundings<'_>, results: &[Value]) -> u64 {
    if results.is_empty() { 0 } else { chunk::page_cost(around.counter, results) }
}

/// A place of a stored list: which chunk under which revision, on which page, from where on.
struct Item<'a> {
    key: &'a str,
    revision: &'a str,
    page: u64,
    start: usize,
    value: f64,
    ranked: Ranked,
}

/// What the value of a place is.
enum Ranked {
    /// How near it is.
    Near,
    /// A score, with its parts where they are told.
    Scored(Option<Parts>),
}

/// How a piece is kept: `key@revision@page@` and, where it has a score, `s` or the parts of it.
fn item_of(piece: &Piece, found: &Listed) -> PageItem {
    let row = &found.passage;
    let kind = match (row.score, &found.parts) {
        (None, _) => String::new(),
        (Some(_), None) => "s".to_owned(),
        (Some(_), Some(parts)) => json!(parts).to_string(),
    };
    PageItem {
        id: format!("{}@{}@{}@{kind}", row.key, row.revision, piece.page),
        offset: piece.start as u64,
        score: row.score.or(row.similarity).unwrap_or(0.0),
        parts: None,
        similarity: None,
    }
}

impl<'a> Item<'a> {
    fn of(item: &'a PageItem) -> Option<Self> {
        let mut parts = item.id.splitn(4, '@');
        let (key, revision, page) = (parts.next()?, parts.next()?, parts.next()?.parse().ok()?);
        let start = usize::try_from(item.offset).ok()?;
        let ranked = match parts.next() {
            None | Some("") => Ranked::Near,
            Some("s") => Ranked::Scored(None),
            Some(text) => Ranked::Scored(Some(serde_json::from_str(text).ok()?)),
        };
        Some(Self { key, revision, page, start, value: item.score, ranked })
    }

    /// What is shown of it now; a text that another has replaced since is not shown in its place.
    fn shown(
        &self,
        search: &SearchArchival,
        around: Surroundings<'_>,
        core: &Core,
        passages: &[FoundPassage],
        end: Option<usize>,
    ) -> Value {
        let there = passages.iter().find(|passage| passage.key == self.key);
        match there {
            Some(passage) if passage.revision == self.revision => {
                let mut passage = guarded(around, core, passage);
                let parts = match self.ranked {
                    Ranked::Near => {
                        passage.similarity = Some(self.value);
                        None
                    }
                    Ranked::Scored(parts) => {
                        passage.score = Some(self.value);
                        parts
                    }
                };
                let end = end.unwrap_or(passage.text.len());
                let view = chunk::View { passage: &passage, parts: search.parts_of(parts) };
                chunk::shown(around.counter, &view, self.start, end)
            }
            there => {
                let scored = matches!(self.ranked, Ranked::Scored(_));
                chunk::gone(&chunk::id(self.key), there.is_some(), scored, self.value)
            }
        }
    }
}
