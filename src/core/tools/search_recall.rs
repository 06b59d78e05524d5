//! `search_recall`: finds what left the window, and brings it back as marked copies as far as there is room.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::ingest_checks::moment;
use super::recalled::{PageOf, Shown};
use super::spec::Step;
use crate::error::{Error, Result};
use crate::limits::{NAME_BYTES_MAX, RECALL_LIMIT, RECALL_PAGE_TOKENS};
use crate::memory::core::Core;
use crate::memory::message::Role;
use crate::memory::page::{Page, PageItem, plain};
use crate::memory::receipt;
use crate::policy::{
    Answers, Draft, Entries, Finish, Hit, Intent, Order, PageToken, Question, RecallFilter,
    RecallMode, RecallQuery, Surroundings, page_token, proposals, thousandths, tokens,
};

/// Arguments of `search_recall`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRecall {
    /// Words to look for; a phrase in "quotes" ranks above its words scattered.
    pub query: String,
    /// Most results of this page.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 20))]
    pub limit: u64,
    /// How to search: `text` by words, `vector` by meaning, `hybrid` by both; `auto` takes what is there.
    #[serde(default = "usual_mode")]
    #[schemars(extend("enum" = ["auto", "text", "vector", "hybrid"]))]
    pub mode: String,
    /// In the mode `vector`: least likeness (cosine) of a result; 0.7 unless configured otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub similarity_min: Option<f64>,
    /// Only what was said by this role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Only what was said by somebody of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only what was said then or later: YYYY-MM-DD or YYYY-MM-DDTHH:MM:SSZ. It counts `said_at` where that is a date, else when it was
    /// appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Only what was said before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Most tokens of this page's results. With `rehydrate`, a window that has less than that left gets no page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 64, max = 16384))]
    pub tokens_max: Option<u64>,
    /// Whether long messages are shown and brought back whole; else the passage that matters.
    #[serde(default)]
    pub whole: bool,
    /// Whether each result comes with the reply to it, or with what it replies to.
    #[serde(default)]
    pub pairs: bool,
    /// Whether each result is a memory: what was found and what belongs to it in the conversation, as `fragments` in their order.
    #[serde(default)]
    pub memories: bool,
    /// Where the best stands: `usual`, results best first and the window as it was said; `edges`, both with the best last and the second
    /// best first.
    #[serde(default)]
    pub order: Order,
    /// Whether each result tells the parts of its score.
    #[serde(default)]
    pub explain: bool,
    /// Whether what is found is put back into the window, as far as it fits below the flush threshold.
    #[serde(default = "yes")]
    pub rehydrate: bool,
    /// Whether to be called again at once.
    #[serde(default)]
    pub heartbeat: bool,
    /// `next_page_token` of an earlier answer, to go on with its results; send the same query.
    #[serde(default)]
    pub page_token: Option<String>,
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

/// A result list as far as this call goes through it.
struct List<'a> {
    items: Vec<PageItem>,
    /// Where this page begins.
    position: usize,
    /// The stored list, if this page goes on with one.
    page: Option<&'a Page>,
    capped: bool,
    tail_capped: bool,
}

impl SearchRecall {
    /// The same, checked beyond its types; a fault names the argument.
    pub(super) fn checked(self) -> Result<Self> {
        let (_, most) = RECALL_LIMIT;
        if self.limit == 0 || self.limit > most {
            return Err(Error::argument("limit", format!("use 1 to {most}")));
        }
        if self.similarity_min.is_some_and(|least| !(0.0..=1.0).contains(&least)) {
            return Err(Error::argument("similarity_min", "use 0 to 1"));
        }
        if self.similarity_min.is_some() && self.mode != "vector" {
            return Err(Error::argument("similarity_min", "only the mode vector takes it"));
        }
        let (least, most) = RECALL_PAGE_TOKENS;
        if self.tokens_max.is_some_and(|tokens| tokens < least || tokens > most) {
            return Err(Error::argument("tokens_max", format!("use {least} to {most}")));
        }
        self.asked()?;
        if let Some(token) = &self.page_token {
            PageToken::parse(token)?;
        }
        Ok(self)
    }

    /// Whether a result list answers this question: the words, the conditions and the way of searching; how much of it is shown at
    /// once, and whether it comes back into the window, may differ from page to page.
    fn query_hash(&self) -> String {
        let asked = json!({"query": self.query, "mode": self.mode, "similarity_min": self.similarity_min, "role": self.role, "name": self.name,
            "after": self.after, "before": self.before});
        receipt::sha256(&receipt::canonical_json(&asked))
    }

    /// Whether what is found comes back as copies. What a captured call answers stands in the window already.
    pub(super) fn rehydrates(&self, around: &Surroundings<'_>) -> bool {
        self.rehydrate && around.capture.is_none()
    }

    /// What is looked for.
    pub(super) fn asked(&self) -> Result<RecallQuery> {
        let mut query = RecallQuery::parse(&self.query)?;
        if self.name.as_ref().is_some_and(|name| name.is_empty() || name.len() > NAME_BYTES_MAX) {
            return Err(Error::argument("name", format!("use 1 to {NAME_BYTES_MAX} bytes")));
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
        };
        Ok(query)
    }

    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let list = match self.list(&around, answers)? {
            Ok(list) => list,
            Err(question) => return Ok(Step::Ask(question)),
        };
        let ids: Vec<String> = list.upcoming(self.limit).map(|item| item.id.clone()).collect();
        let head_seq = core.queue.head_seq;
        let entries = match &answers.entries {
            _ if ids.is_empty() => &Entries::default(),
            Some(entries) => entries,
            None => {
                let pairs = self.pairs || self.memories;
                return Ok(Step::Ask(Question::Entries { ids, head_seq, pairs }));
            }
        };
        let mut draft = Draft::new(around, core);
        let paused =
            self.rehydrates(&around) && self.tokens_max.is_some_and(|page| draft.room() < page);
        let page = PageOf {
            asked: self,
            around,
            items: &list.items,
            position: list.position,
            entries,
            head_seq,
            core,
        };
        let (shown, next) = if paused { (Vec::new(), list.position) } else { page.shown(&draft)? };
        let shown = self.order.arrange(shown);
        let (results, wrote) = page.take_in(&mut draft, &shown);
        let trusted = shown.iter().filter(|one| one.tainted.is_empty());
        let proposed = proposals(core, trusted.map(|one| one.message));
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
            ("truncated", shown.iter().any(Shown::is_cut)),
            ("total_capped", list.capped),
            ("tail_capped", list.tail_capped),
        ] {
            if holds {
                result.insert(name.into(), true.into());
            }
        }
        if let Some(found) = answers.recall.as_ref().filter(|_| list.page.is_none()) {
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
        if !proposed.is_empty() {
            result.insert("proposals".into(), Value::Array(proposed));
        }
        if !wrote && !kept && !self.heartbeat {
            return Ok(Step::Read(result));
        }
        Ok(match draft.finish(own_flush(core), answers, result)? {
            Finish::Write(mut change) if around.capture.is_none() => {
                let (before, after) = (tokens(&change.before), tokens(&change.after));
                let added = i128::from(after.occupancy) - i128::from(before.occupancy);
                let added = i64::try_from(added).unwrap_or(i64::MAX);
                change.result.insert("tokens_added".into(), added.into());
                Step::Write(change)
            }
            other => other.into(),
        })
    }

    /// The list to go through, or what must be asked for it.
    fn list<'a>(
        &self,
        around: &Surroundings<'_>,
        answers: &'a Answers,
    ) -> Result<std::result::Result<List<'a>, Question>> {
        if let Some(text) = &self.page_token {
            let token = PageToken::parse(text)?;
            let Some(found) = &answers.page else {
                return Ok(Err(Question::Page { handle: token.handle }));
            };
            let position = token.open(found.as_ref(), around, &self.query_hash())?;
            let items = found.iter().flat_map(|page| page.items.clone()).collect();
            let page = found.as_ref();
            return Ok(Ok(List { items, position, page, capped: false, tail_capped: false }));
        }
        let Some(found) = &answers.recall else {
            let query = self.asked()?;
            return Ok(Err(Question::Recall { query, now_ms: around.unix_ms }));
        };
        let item = |hit: &Hit| PageItem {
            id: hit.id.clone(),
            offset: hit.passage.as_ref().map_or(0, |passage| passage.start as u64),
            score: hit.score,
            parts: hit.parts.filter(|_| self.explain).map(|parts| parts.to_vec()),
            similarity: hit.similarity.filter(|_| self.memories),
        };
        Ok(Ok(List {
            items: found.hits.iter().map(item).collect(),
            position: 0,
            page: None,
            capped: found.capped,
            tail_capped: found.tail_capped,
        }))
    }
}

impl List<'_> {
    fn upcoming(&self, limit: u64) -> impl Iterator<Item = &PageItem> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.items.iter().skip(self.position).take(limit)
    }
}
