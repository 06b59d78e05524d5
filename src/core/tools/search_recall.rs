//! `search_recall`: finds earlier messages, and puts marked copies of those that left the window
//! back into it as far as there is room.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::core_results::core_results;
use super::ingest_checks::moment;
use super::proposal::proposals;
use super::recall_page::{PageOf, PageResult};
use super::result_page::stored;
use super::spec::{ADDED, Access, Arguments, Card, Command, NEXT, Spec, optional_object};
use super::told;
use crate::conveyance::Path;
use crate::error::{Error, Result};
use crate::limits::{NAME_BYTES_MAX, RECALL_LIMIT};
use crate::memory::Labels;
use crate::memory::message::Role;
use crate::memory::page::{Page, PageItem, plain};
use crate::memory::receipt;
use crate::policy::{Ctx, Intent, Question, Step, Stop, Surroundings};
use crate::search::{
    Entries, Order, PageToken, RecallFilter, RecallHit, RecallMode, RecallQuery, page_token,
    thousandths,
};
use crate::window::tokens;

/// Minimum and maximum of the argument `tokens_max`.
const RECALL_PAGE_TOKENS: (u64, u64) = (64, 16_384);

/// Arguments of `search_recall`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRecall {
    /// Words to look for; a phrase in "quotes" ranks above its words scattered.
    #[schemars(extend("x-model" = ""))]
    pub query: String,
    /// Results of this page at most.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 20), extend("x-model" = ""))]
    pub limit: u64,
    /// How to search: `text` by words, `vector` by meaning, `hybrid` by both; `auto` uses what is
    /// available.
    #[serde(default = "usual_mode")]
    #[schemars(extend("enum" = ["auto", "text", "vector", "hybrid"]))]
    pub mode: String,
    /// In the mode `vector`: smallest similarity (cosine) of a result; 0.7 unless configured
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub similarity_min: Option<f64>,
    /// Only messages of this role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Only messages of a speaker of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only messages from this moment on: YYYY-MM-DD or YYYY-MM-DDTHH:MM:SSZ. A message counts by
    /// its `said_at` if that is a date, else by the time it was appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-model" = "YYYY-MM-DD"))]
    pub after: Option<String>,
    /// Only messages before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-model" = ""))]
    pub before: Option<String>,
    /// Only messages with these labels, all of them.
    #[serde(
        default,
        deserialize_with = "optional_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub labels: Option<Labels>,
    /// Tokens of this page's results at most. With `rehydrate`, a window with less room than this
    /// gets no page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 64, max = 16384))]
    pub tokens_max: Option<u64>,
    /// Whether long messages are shown and brought back whole; by default only the best passage is.
    #[serde(default)]
    pub whole: bool,
    /// Whether each result comes with its reply, or with the message that it replies to.
    #[serde(default)]
    pub pairs: bool,
    /// Whether each result is a memory: the message that was found and the messages around it, as
    /// `fragments` in their order.
    #[serde(default)]
    pub memories: bool,
    /// Order: `usual`, results best first and copies in the window in the order of the
    /// conversation; `edges`, both with the best last and the second best first.
    #[serde(default)]
    pub order: Order,
    /// Whether each result shows the parts of its score.
    #[serde(default)]
    pub explain: bool,
    /// Whether the results are put back into the window, as far as they fit below the flush mark.
    #[serde(default = "yes")]
    pub rehydrate: bool,
    /// Whether to be called again at once.
    #[serde(default)]
    #[schemars(extend("x-model" = "true: see the results at once"))]
    pub heartbeat: bool,
    /// `next_page_token` of an earlier answer, to continue its results; send the same query.
    #[serde(default)]
    #[schemars(extend("x-model" = "for the next page"))]
    pub page_token: Option<String>,
}

/// Sets the arguments of a search of recall storage so that it changes nothing, unless the caller
/// says otherwise. Callers that do not render the window want no copies in it.
pub fn look_only(tool: &str, arguments: &mut Map<String, Value>) {
    if tool == SearchRecall::SPEC.name {
        arguments.entry("rehydrate").or_insert(Value::Bool(false));
    }
}

fn usual_limit() -> u64 {
    RECALL_LIMIT.0
}

fn usual_mode() -> String {
    "auto".into()
}

fn yes() -> bool {
    true
}

/// Returns the positions of the queue's messages that a search looks at. The search of a run leaves
/// out the messages of the run, because the question itself would be the best result.
pub(super) fn searched_queue(ctx: &Ctx<'_>) -> Range<u64> {
    let queue = &ctx.core.queue;
    let run = ctx.core.run.as_ref().filter(|_| ctx.around.capture.is_some());
    match queue.count {
        0 => queue.head_seq..queue.head_seq,
        _ => queue.head_seq..run.map_or(queue.next_seq, |run| run.cause_seq),
    }
}

/// A result list and the part of it that this call shows.
struct List<'a> {
    items: Vec<PageItem>,
    /// Index of the item at which this page begins.
    position: usize,
    /// The stored list, if this page continues one.
    page: Option<&'a Page>,
    capped: bool,
    tail_capped: bool,
    /// Number of items that are messages of the queue.
    in_window: u64,
}

impl Arguments for SearchRecall {
    const CARD: Card = Card {
        title: "Search recall",
        description: "Find earlier messages by a question, by words or by a \"quoted phrase\".",
        in_chat: true,
        example: r#"{"query": "blue boat"}"#,
        result: &[
            (
                "results",
                "array",
                "messages that were found, best first; of a long one the passage that matters, with its place",
            ),
            (
                "proposals",
                "array?",
                "calls of store_core that would keep facts of these messages in sight",
            ),
            ("also", "array?", "blocks, and the summary, that hold words of the query"),
            ("tokens_added", "integer", ADDED),
            ("next_page_token", "string?", NEXT),
        ],
        told: told::recalled,
        ..Card::NEW
    };

    fn checked(self) -> Result<Self> {
        let (_, most) = RECALL_LIMIT;
        if self.limit == 0 || self.limit > most {
            return Err(Error::argument("limit", format!("use 1 to {most}")));
        }
        if self.similarity_min.is_some_and(|least| !(0.0..=1.0).contains(&least)) {
            return Err(Error::argument("similarity_min", "use 0 to 1"));
        }
        if self.similarity_min.is_some() && self.mode != "vector" {
            return Err(Error::argument("similarity_min", "only the mode vector accepts it"));
        }
        let (least, most) = RECALL_PAGE_TOKENS;
        if self.tokens_max.is_some_and(|tokens| tokens < least || tokens > most) {
            return Err(Error::argument("tokens_max", format!("use {least} to {most}")));
        }
        self.recall_query()?;
        if let Some(token) = &self.page_token {
            PageToken::parse(token)?;
        }
        Ok(self)
    }
}

impl Command for SearchRecall {
    const SPEC: Spec = Spec {
        path: Some(Path::Recall),
        tells_messages: true,
        ..Spec::tool("search_recall", Access::Search)
    };

    fn writes(&self) -> bool {
        self.rehydrate || self.heartbeat
    }

    fn beats(&self) -> bool {
        self.heartbeat
    }

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let list = self.list(ctx)?;
        let upcoming = list.upcoming(self.limit + list.in_window.min(self.limit));
        let ids: Vec<String> = upcoming.map(|item| item.id.clone()).collect();
        let loaded = ids.len();
        let head_seq = ctx.core.queue.head_seq;
        let pairs = self.pairs || self.memories;
        let entries = match ids.is_empty() {
            true => &Entries::default(),
            false => ctx.answers.entries(|| Question::Entries { ids, head_seq, pairs })?,
        };
        let mut draft = ctx.draft();
        let paused =
            self.rehydrates(&ctx.around) && self.tokens_max.is_some_and(|page| draft.room() < page);
        let page = PageOf {
            asked: self,
            around: ctx.around,
            items: &list.items,
            position: list.position,
            loaded,
            entries,
            head_seq,
            core: ctx.core,
        };
        let (shown, next) =
            if paused { (Vec::new(), list.position) } else { page.results(&draft)? };
        let shown = self.order.arrange(shown);
        let (results, wrote) = page.take_in(&mut draft, &shown);
        let trusted = shown.iter().filter(|one| one.tainted.is_empty());
        let proposed = proposals(ctx.core, trusted.map(|one| one.message));
        let mut result = Map::new();
        result.insert("results".into(), Value::Array(results));
        result.insert("tokens_added".into(), 0.into());
        let token = match list.page {
            Some(page) => page_token(page, next),
            None if next < list.items.len() => {
                page_token(draft.keep_page(&self.query_hash(), list.items.clone()), next)
            }
            None => None,
        };
        if self.heartbeat {
            draft.beat(Intent::Continue);
        }
        let kept = token.is_some() && list.page.is_none();
        result.insert("next_page_token".into(), json!(token));
        result.insert("total".into(), list.items.len().into());
        for (name, holds) in [
            ("paused", paused && next < list.items.len()),
            ("truncated", shown.iter().any(PageResult::is_cut)),
            ("total_capped", list.capped),
            ("tail_capped", list.tail_capped),
        ] {
            if holds {
                result.insert(name.into(), true.into());
            }
        }
        if let Some(found) = ctx.answers.recall.as_ref().filter(|_| list.page.is_none()) {
            for (name, told) in [("vectors", found.near), ("degraded", found.degraded)] {
                result.extend(told.map(|told| (name.to_owned(), told.into())));
            }
            if found.incomplete {
                result.insert("complete".into(), false.into());
            }
            if let Some((least, below)) = found.similarity_min {
                result.insert("similarity_min".into(), plain(f64::from(least) / 1000.0));
                result.insert("below_similarity_min".into(), below.into());
            }
        }
        if self.page_token.is_none() {
            let words = self.recall_query()?.telling;
            let also = core_results(ctx.core, &words, self.shows_window(&ctx.around));
            if !also.is_empty() {
                result.insert("also".into(), also.into());
            }
        }
        if !proposed.is_empty() {
            result.insert("proposals".into(), Value::Array(proposed));
        }
        if !wrote && !kept && !self.heartbeat && ctx.around.capture.is_none() {
            return Ok(Step::Read(result));
        }
        draft.count_as_search();
        Ok(match ctx.finish(draft, result)? {
            Step::Write(mut change) if ctx.around.capture.is_none() => {
                let (before, after) = (tokens(&change.before), tokens(&change.after));
                let added = i128::from(after.occupancy) - i128::from(before.occupancy);
                let added = i64::try_from(added).unwrap_or(i64::MAX);
                change.result.insert("tokens_added".into(), added.into());
                Step::Write(change)
            }
            other => other,
        })
    }
}

impl SearchRecall {
    /// Returns a digest of the query, filters and mode, by which a later call finds its stored
    /// result list. Other arguments, such as the page size and `rehydrate`, may differ from page to
    /// page.
    fn query_hash(&self) -> String {
        let asked = json!({"query": self.query, "mode": self.mode, "similarity_min": self.similarity_min, "role": self.role, "name": self.name,
            "after": self.after, "before": self.before, "labels": self.labels});
        receipt::sha256(&receipt::canonical_json(&asked))
    }

    /// Whether results are copied into the window. A captured call needs no copies, because the
    /// call's whole result is appended to the queue and so enters the window.
    pub(super) fn rehydrates(&self, around: &Surroundings<'_>) -> bool {
        self.rehydrate && around.capture.is_none()
    }

    /// Whether the caller's model sees the window: the copies of the results go into it, or the
    /// whole result does.
    pub(super) fn shows_window(&self, around: &Surroundings<'_>) -> bool {
        self.rehydrate || around.capture.is_some()
    }

    /// Returns the query that the arguments describe; an error names a wrong argument.
    pub(super) fn recall_query(&self) -> Result<RecallQuery> {
        let mut query = RecallQuery::parse(&self.query)?;
        if self.name.as_ref().is_some_and(|name| name.is_empty() || name.len() > NAME_BYTES_MAX) {
            return Err(Error::argument("name", format!("use 1 to {NAME_BYTES_MAX} bytes")));
        }
        if let Some(labels) = &self.labels {
            labels.check("labels")?;
        }
        let time = |field, text: &Option<String>| {
            text.as_deref().map(|text| moment(field, text)).transpose()
        };
        query.mode = match self.mode.as_str() {
            "auto" => RecallMode::Auto,
            "text" => RecallMode::Text,
            "vector" => RecallMode::Vector { similarity_min: self.similarity_min.map(thousandths) },
            "hybrid" => RecallMode::Hybrid,
            _ => return Err(Error::argument("mode", "use auto, text, vector or hybrid")),
        };
        query.filter = RecallFilter {
            role: self.role.map(|role| role.text().to_owned()),
            name: self.name.clone(),
            after: time("after", &self.after)?,
            before: time("before", &self.before)?,
            labels: self.labels.as_ref().map(Labels::stored).unwrap_or_default(),
        };
        Ok(query)
    }

    /// Returns the result list: the stored list of the page token, or the results of a new search.
    fn list<'a>(&self, ctx: &Ctx<'a>) -> Result<List<'a>, Stop> {
        if let Some(text) = &self.page_token {
            let (page, position) = stored(ctx, text, &self.query_hash())?;
            let (items, page) = (page.items.clone(), Some(page));
            return Ok(List {
                items,
                position,
                page,
                capped: false,
                tail_capped: false,
                in_window: 0,
            });
        }
        let query = self.recall_query()?;
        let now_ms = ctx.around.unix_ms;
        let queue = searched_queue(ctx);
        let found = ctx.answers.recall(|| Question::Recall { query, queue, now_ms })?;
        let head_seq = ctx.core.queue.head_seq;
        let is_shown = |hit: &&RecallHit| hit.seq >= head_seq;
        let item = |hit: &RecallHit| PageItem {
            id: hit.id.clone(),
            offset: hit.passage.as_ref().map_or(0, |passage| passage.start as u64),
            score: hit.score,
            parts: hit.parts.filter(|_| self.explain).map(|parts| parts.to_vec()),
            similarity: hit.similarity.filter(|_| self.memories),
        };
        Ok(List {
            items: found.hits.iter().map(item).collect(),
            position: 0,
            page: None,
            capped: found.capped,
            tail_capped: found.tail_capped,
            in_window: found.hits.iter().filter(|hit| is_shown(hit)).count() as u64,
        })
    }
}

impl List<'_> {
    fn upcoming(&self, limit: u64) -> impl Iterator<Item = &PageItem> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.items.iter().skip(self.position).take(limit)
    }
}
