//! `search_recall`: finds what left the window, and brings it back as marked copies as far as there is room.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::spec::Step;
use crate::error::{Code, Error, Result};
use crate::limits::{PREVIEW_TOKENS_MIN, RECALL_LIMIT};
use crate::memory::core::Core;
use crate::memory::message::Message;
use crate::memory::page::{Page, PageItem, plain};
use crate::memory::receipt;
use crate::policy::{
    Answers, Draft, Entries, Finish, Hit, Intent, PageToken, Question, RecallQuery, Surroundings,
    page_token, preview, tokens,
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
    /// How to search: `text`.
    #[serde(default = "text_mode")]
    #[schemars(extend("enum" = ["text"]))]
    pub mode: String,
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

fn text_mode() -> String {
    "text".into()
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

/// What became of one item of a page.
enum Shown {
    /// It stands in the queue already, as this copy.
    There(u64),
    /// All of it fits.
    Whole,
    /// Only its beginning fits.
    Beginning(String),
}

impl SearchRecall {
    /// The same, checked beyond its types; a fault names the argument.
    pub(super) fn checked(self) -> Result<Self> {
        let (_, most) = RECALL_LIMIT;
        if self.limit == 0 || self.limit > most {
            return Err(Error::argument("limit", format!("use 1 to {most}")));
        }
        match self.mode.as_str() {
            "text" => {}
            "vector" | "hybrid" => {
                return Err(Error::new(
                    Code::ModeUnavailable,
                    "mode: recall storage is searched by text: leave it out, or use search_archival for vectors",
                )
                .with("field", "mode"));
            }
            _ => return Err(Error::argument("mode", "use text")),
        }
        RecallQuery::parse(&self.query)?;
        if let Some(token) = &self.page_token {
            PageToken::parse(token)?;
        }
        Ok(self)
    }

    /// Whether a result list answers this question: the words and the way of searching; how many of it are shown at once, and
    /// whether they come back into the window, may differ from page to page.
    fn query_hash(&self) -> String {
        let asked = json!({"query": self.query, "mode": self.mode});
        receipt::sha256(&receipt::canonical_json(&asked))
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
        let entries = match &answers.entries {
            _ if ids.is_empty() => &Entries::default(),
            Some(entries) => entries,
            None => {
                let head_seq = core.queue.head_seq;
                return Ok(Step::Ask(Question::Entries { ids, head_seq }));
            }
        };
        let mut draft = Draft::new(around, core);
        let (shown, next) = self.page(&draft, around, &list, entries);
        let (results, wrote) = self.take_in(&mut draft, &shown);
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
            ("truncated", shown.iter().any(|(_, _, s)| matches!(s, Shown::Beginning(_)))),
            ("total_capped", list.capped),
            ("tail_capped", list.tail_capped),
        ] {
            if holds {
                result.insert(name.into(), true.into());
            }
        }
        if !wrote && !kept && !self.heartbeat {
            return Ok(Step::Read(result));
        }
        Ok(match draft.finish(own_flush(core), answers, result)? {
            Finish::Write(mut change) => {
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
            let query = RecallQuery::parse(&self.query)?;
            return Ok(Err(Question::Recall { query, now_ms: around.unix_ms }));
        };
        let item = |hit: &Hit| PageItem { id: hit.id.clone(), offset: 0, score: hit.score };
        Ok(Ok(List {
            items: found.hits.iter().map(item).collect(),
            position: 0,
            page: None,
            capped: found.capped,
            tail_capped: found.tail_capped,
        }))
    }

    /// The items of this page with their messages, best first, and where the next page begins. They end where the window takes
    /// no more; the first one comes in any case, cut if it must be, so that each page gets on. What is gone since is passed over.
    fn page<'e>(
        &self,
        draft: &Draft<'_>,
        around: Surroundings<'_>,
        list: &List<'_>,
        entries: &'e Entries,
    ) -> (Vec<(&'e Message, f64, Shown)>, usize) {
        let mut room = draft.room();
        let mut page = Vec::new();
        let mut next = list.position;
        for item in list.upcoming(self.limit) {
            let Some(message) = entries.found.iter().find(|m| m.key == item.id) else {
                next += 1;
                continue;
            };
            let copy = entries.copies.iter().find(|c| c.of == item.id);
            let cost = draft.copy_cost(message);
            let shown = match copy {
                Some(copy) => Shown::There(copy.seq),
                None if cost <= room => {
                    room -= cost;
                    Shown::Whole
                }
                None if page.is_empty() => {
                    let tokens_max = room.max(PREVIEW_TOKENS_MIN);
                    room = 0;
                    Shown::Beginning(preview(around.counter, &message.content, tokens_max))
                }
                None => break,
            };
            next += 1;
            page.push((message, item.score, shown));
        }
        (page, next)
    }

    /// The results as they are answered; what fits is put back in the order in which it was said, and a notice names what did
    /// not. True if any of it changes the memory.
    fn take_in(
        &self,
        draft: &mut Draft<'_>,
        page: &[(&Message, f64, Shown)],
    ) -> (Vec<Value>, bool) {
        let mut copies: Vec<(u64, u64)> = Vec::new();
        let mut cut: Vec<String> = Vec::new();
        if self.rehydrate {
            let whole = page.iter().filter(|(_, _, shown)| matches!(shown, Shown::Whole));
            let mut whole: Vec<&Message> = whole.map(|(message, _, _)| *message).collect();
            whole.sort_by_key(|message| message.seq);
            copies.extend(whole.iter().map(|message| (message.seq, draft.copy(message).0)));
            let cuts = page.iter().filter(|(_, _, shown)| matches!(shown, Shown::Beginning(_)));
            cut.extend(cuts.map(|(message, _, _)| message.key.clone()));
        }
        let told = !cut.is_empty() && draft.point_cost(&cut) <= draft.room();
        if told {
            draft.point_to(&cut);
        }
        let results = page
            .iter()
            .map(|(message, score, shown)| {
                let copied = copies.iter().find(|(seq, _)| *seq == message.seq).map(|c| c.1);
                result_of(message, *score, shown, copied)
            })
            .collect();
        (results, told || !copies.is_empty())
    }
}

impl List<'_> {
    fn upcoming(&self, limit: u64) -> impl Iterator<Item = &PageItem> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.items.iter().skip(self.position).take(limit)
    }
}

fn result_of(message: &Message, score: f64, shown: &Shown, copied: Option<u64>) -> Value {
    let mut value = json!({
        "id": message.key, "seq": message.seq, "kind": message.kind, "role": message.role, "content": message.content,
        "created_at": message.created_at, "score": plain(score),
        "receipt": {"seq": message.seq, "digest": message.digest, "chain": message.chain},
    });
    match shown {
        Shown::There(seq) => value["copy_seq"] = (*seq).into(),
        Shown::Whole => {
            if let Some(seq) = copied {
                value["copy_seq"] = seq.into();
            }
        }
        Shown::Beginning(text) => {
            value["content"] = text.as_str().into();
            value["truncated"] = true.into();
        }
    }
    value
}
