//! Shows the results of an archival search page by page: the first call splits the results into
//! pages, and later calls show the further pages.

use serde_json::{Map, Value, json};

use super::result_page::{ResultPage, items_of, stored};
use super::search_archival::SearchArchival;
use crate::chunk::{self, Piece};
use crate::error::Result;
use crate::limits::PAGE_TOKENS_MAX;
use crate::memory::archive::{ChunkLinks, FoundPassage};
use crate::memory::page::PageItem;
use crate::policy::{Ctx, Draft, Intent, Question, Step, Stop, preview};
use crate::search::ScoreParts;
use crate::trust::TaintReport;
use crate::window::{notices, tokens};

/// Length of the id of a spooled entry (a UUID) in bytes, an upper bound for the id's tokens in the
/// notice.
const SPOOL_ID_BYTES: u64 = 36;

/// A result of a search with the components of its score.
pub(super) struct Listed {
    pub(super) passage: FoundPassage,
    /// Components of the score, if the caller asked for them.
    pub(super) parts: Option<ScoreParts>,
}

impl SearchArchival {
    /// Splits the results into pages, and returns the answer with the first page.
    pub(super) fn show(
        &self,
        ctx: &Ctx<'_>,
        told: Map<String, Value>,
        mut found: Vec<Listed>,
    ) -> Result<Step, Stop> {
        found.iter_mut().for_each(|one| one.passage = guarded(ctx, &one.passage));
        let found = &found;
        let views: Vec<chunk::View<'_>> = found
            .iter()
            .map(|one| chunk::View { passage: &one.passage, parts: self.parts_of(one.parts) })
            .collect();
        let pieces = chunk::pages(ctx.around.counter, &views, PAGE_TOKENS_MAX);
        let items: Vec<PageItem> =
            pieces.iter().map(|piece| item_of(piece, &found[piece.row])).collect();
        let on_first = pieces.iter().take_while(|piece| piece.page == 1);
        let results: Vec<Value> = on_first
            .map(|piece| {
                chunk::part_value(ctx.around.counter, &views[piece.row], piece.start, piece.end)
            })
            .collect();
        let results = self.order.arrange(results);
        let page = ResultPage { next: results.len(), results, number: 1, stored: None };
        self.close(ctx, told, &items, page)
    }

    /// Returns how much detail a result shows: with `explain`, also the components of its score.
    fn parts_of(&self, parts: Option<ScoreParts>) -> chunk::Detail {
        match (self.explain, parts) {
            (false, _) => chunk::Detail::Short,
            (true, None) => chunk::Detail::Whole(None),
            (true, Some(parts)) => chunk::Detail::Whole(Some(parts)),
        }
    }

    /// Returns the answer with a later page of the stored result list that `token` names.
    pub(super) fn next_page(&self, token: &str, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let (page, position) = stored(ctx, token, &self.query_hash(ctx))?;
        let items: Vec<ChunkPosition<'_>> = items_of(page, ChunkPosition::of)?;
        let number = items[position].page;
        let next = items.iter().position(|item| item.page > number).unwrap_or(items.len());
        let on_page = &items[position..next];
        let passages = ctx.answers.passages(|| {
            let mut keys: Vec<String> = on_page.iter().map(|item| item.key.to_owned()).collect();
            keys.dedup();
            Question::Passages { keys }
        })?;
        let results: Vec<Value> = on_page
            .iter()
            .enumerate()
            .map(|(at, item)| {
                let behind = items.get(position + at + 1).filter(|other| other.key == item.key);
                item.part_value(self, ctx, passages, behind.map(|other| other.start))
            })
            .collect();
        let results = self.order.arrange(results);
        let shown = ResultPage { results, number, next, stored: Some((page, position)) };
        self.close(ctx, Map::new(), &page.items, shown)
    }

    /// Returns the answer with a page, or an answer that reports that the window has no room for
    /// the page. Stores the result list if further pages follow.
    pub(super) fn close(
        &self,
        ctx: &Ctx<'_>,
        told: Map<String, Value>,
        items: &[PageItem],
        page: ResultPage<'_>,
    ) -> Result<Step, Stop> {
        let mut draft = ctx.draft();
        draft.count_passages(items.len());
        let answer = page.answer(ctx, &mut draft, &self.query_hash(ctx), items, told);
        let (mut result, mut writes) = (answer.result, answer.keeps);
        if answer.withheld && page.stored.is_none() {
            writes |= spool(&mut draft, ctx, page.results, &mut result)?;
        }
        if self.heartbeat {
            draft.beat(Intent::Continue);
            writes = true;
        }
        // A captured call writes its result.
        if !writes && ctx.around.capture.is_none() {
            return Ok(Step::Read(result));
        }
        ctx.finish(draft, result)
    }
}

/// Text shown in place of the names of the document and the chunk, if the chunk is in quarantine
/// (tainted, and hidden until a reviewer releases it).
const WITHHELD: &str = "[quarantined]";

/// Returns a passage with the taint rules that its text matches; for a quarantined passage, an
/// explanation replaces the text, and the names of document and chunk and the provenance are
/// withheld.
pub(super) fn guarded(ctx: &Ctx<'_>, passage: &FoundPassage) -> FoundPassage {
    let TaintReport { rules, held } = ctx.around.taint.untrusted_passage(ctx.core, passage);
    let mut passage = passage.clone();
    passage.tainted = rules;
    passage.quarantined = held.is_some();
    if let Some(told) = held {
        passage.text = told;
        passage.offset = None;
        // The sender of the text may also have chosen the names and the provenance.
        passage.doc_id = WITHHELD.into();
        passage.chunk_id = WITHHELD.into();
        passage.chunk_links = ChunkLinks::default();
        passage.provenance.clear();
        passage.labels.clear();
    }
    passage
}

/// Puts a result that does not fit into the window into recall storage, and shows as much of its
/// beginning as fits. The result of a search that is repeated at once is not stored again. Returns
/// whether something must be written. Changes nothing if the window has no room even for the notice
/// about the stored result.
fn spool(
    draft: &mut Draft<'_>,
    ctx: &Ctx<'_>,
    results: Vec<Value>,
    result: &mut Map<String, Value>,
) -> Result<bool, Stop> {
    // The id of the spooled entry is not known yet, but an id has at most as many tokens as bytes.
    if draft.point_cost(&[String::new()]) + SPOOL_ID_BYTES > draft.room() {
        return Ok(false);
    }
    let payload = Value::from(results).to_string();
    let before = spooled_before(ctx, &payload)?;
    let is_new = before.is_none();
    let ids = match before {
        Some(ids) => {
            draft.point_to(&ids);
            ids
        }
        None => draft.spool(&payload),
    };
    let room = tokens(&draft.after).free.min(tokens(ctx.core).free);
    result.insert("preview".into(), preview(ctx.around.counter, &payload, room).into());
    result.insert("spooled".into(), json!(ids));
    Ok(is_new)
}

/// Returns the ids of the entries that the current spool notice points to, if these entries contain
/// exactly this text.
fn spooled_before(ctx: &Ctx<'_>, payload: &str) -> Result<Option<Vec<String>>, Stop> {
    let ids = notices::spooled_entries(ctx.core);
    if ids.is_empty() {
        return Ok(None);
    }
    let entries = ctx.answers.entries(|| Question::Entries {
        ids: ids.to_vec(),
        head_seq: ctx.core.queue.head_seq,
        pairs: false,
    })?;
    let mut stored = String::new();
    for id in ids {
        match entries.found.iter().find(|entry| entry.key == *id) {
            Some(entry) => stored.push_str(&entry.content),
            None => return Ok(None),
        }
    }
    Ok((stored == payload).then(|| ids.to_vec()))
}

/// An item of a stored result list: a chunk, its revision, the number of the page, and the byte
/// index at which the shown part of the chunk begins.
struct ChunkPosition<'a> {
    key: &'a str,
    revision: &'a str,
    page: u64,
    start: usize,
    value: f64,
    ranked: Ranked,
}

/// Meaning of the number `value` of an item.
enum Ranked {
    /// The similarity to the question's vector.
    Near,
    /// A score, with its components if the caller asked for them.
    Scored(Option<ScoreParts>),
}

/// Converts a piece of a chunk to its stored form. The id is `key@revision@page@`. For a piece with
/// a score, the score's components follow, or `s` if the caller did not ask for components.
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

impl<'a> ChunkPosition<'a> {
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

    /// Returns the item as a result. The result contains the chunk's text only if the chunk still
    /// has the revision that the search found.
    fn part_value(
        &self,
        search: &SearchArchival,
        ctx: &Ctx<'_>,
        passages: &[FoundPassage],
        end: Option<usize>,
    ) -> Value {
        let there = passages.iter().find(|passage| passage.key == self.key);
        match there {
            Some(passage) if passage.revision == self.revision => {
                let mut passage = guarded(ctx, passage);
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
                chunk::part_value(ctx.around.counter, &view, self.start, end)
            }
            there => {
                let scored = matches!(self.ranked, Ranked::Scored(_));
                chunk::gone(&chunk::id(self.key), there.is_some(), scored, self.value)
            }
        }
    }
}
