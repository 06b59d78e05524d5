//! `trace_memory`: follows what joins the entries of a memory, from one of them on, page by page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::spec::Step;
use crate::chunk::{self, Leaf};
use crate::error::{Code, Error, Result};
use crate::limits::{PAGE_TOKENS_MAX, TRACE_AROUND, TRACE_DEPTH, TRACE_LIMIT};
use crate::memory::core::Core;
use crate::memory::page::{Page, PageItem};
use crate::memory::receipt;
use crate::memory::tokens::TokenCounter;
use crate::policy::{
    Answers, Draft, Follow, PageToken, Place, Question, Reached, Surroundings, TraceQuery, Traced,
    Vertex, nothing_to_trace, page_token, tokens,
};

/// Arguments of `trace_memory`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceMemory {
    /// Where to begin: the `id` of a message or passage as a search shows it, the `seq` of a message as text, or `agent`.
    pub from: String,
    /// What to follow; left out: everything.
    #[serde(default)]
    #[schemars(length(max = 9))]
    pub follow: Vec<Follow>,
    /// Steps from the beginning.
    #[serde(default = "usual_depth")]
    #[schemars(range(min = 1, max = 3))]
    pub depth: u64,
    /// How many messages before and after a message, and passages before and behind a passage.
    #[serde(default = "usual_around")]
    #[schemars(range(min = 1, max = 8))]
    pub around: u64,
    /// Most entries beside the first, over all pages.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 40))]
    pub limit: u64,
    /// `next_page_token` of an earlier answer, to go on with its results; send the same arguments.
    #[serde(default)]
    pub page_token: Option<String>,
}

fn usual_depth() -> u64 {
    TRACE_DEPTH.0
}

fn usual_around() -> u64 {
    TRACE_AROUND.0
}

fn usual_limit() -> u64 {
    TRACE_LIMIT.0
}

impl TraceMemory {
    /// The same, checked beyond its types; a fault names the argument.
    pub(super) fn checked(self) -> Result<Self> {
        if self.follow.len() > Follow::ALL.len() {
            return Err(Error::argument("follow", format!("at most {}", Follow::ALL.len())));
        }
        self.query(Place::Seq(0))?;
        if let Some(token) = &self.page_token {
            PageToken::parse(token)?;
        }
        Ok(self)
    }

    fn query(&self, from: Place) -> Result<TraceQuery> {
        TraceQuery::checked(from, &self.follow, self.depth, self.around, self.limit)
    }

    /// Which result list answers this question. Pages are counted in the agent's encoding, so a list holds for one.
    fn query_hash(&self, around: Surroundings<'_>, core: &Core) -> String {
        let mut asked = json!({"from": self.from, "follow": self.follow, "depth": self.depth, "around": self.around,
            "limit": self.limit, "encoding": core.encoding});
        let releases = around.taint.releases(core);
        if !releases.is_empty() {
            asked["releases"] = releases.into();
        }
        receipt::sha256(&receipt::canonical_json(&asked))
    }

    /// Thinks: what the call finds, and what it keeps for its next pages.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        match &self.page_token {
            Some(token) => self.next_page(token, around, core, answers),
            None => self.first_page(around, core, answers),
        }
    }

    fn first_page(&self, around: Surroundings<'_>, core: &Core, answers: &Answers) -> Result<Step> {
        let Some(traced) = &answers.traced else {
            let query = self.query(Place::parse(&self.from, around.scope)?)?;
            return Ok(Step::Ask(Question::Trace(Box::new(query))));
        };
        if traced.reached.is_empty() {
            return Err(nothing_to_trace());
        }
        let traced = &shown_of(around, core, traced);
        let leaves = leaves_of(traced);
        let pieces = chunk::pages(around.counter, &leaves, PAGE_TOKENS_MAX);
        let items: Vec<PageItem> =
            pieces.iter().map(|piece| kept(piece, &leaves[piece.row], traced.more)).collect();
        let results: Vec<Value> = pieces
            .iter()
            .take_while(|piece| piece.page == 1)
            .map(|piece| leaves[piece.row].shown(around.counter, piece.start, piece.end))
            .collect();
        let shown = Shown { next: results.len(), results, number: 1, more: traced.more };
        self.close(around, core, answers, &items, shown, None)
    }

    fn next_page(
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
        let items: Vec<Item> = page
            .items
            .iter()
            .map(Item::of)
            .collect::<Option<_>>()
            .ok_or_else(|| Error::new(Code::Internal, "a stored result list is not a trace"))?;
        let number = items[position].kept.page;
        let next = items.iter().position(|item| item.kept.page > number).unwrap_or(items.len());
        let Some(vertices) = &answers.vertices else {
            let mut places = Vec::new();
            for item in &items[position..next] {
                let place = Place::parse(&item.kept.id, around.scope)?;
                if !places.contains(&place) {
                    places.push(place);
                }
            }
            return Ok(Step::Ask(Question::Traced { places }));
        };
        let results = (position..next)
            .map(|at| {
                let behind = items.get(at + 1).filter(|other| other.kept.n == items[at].kept.n);
                items[at].shown(around, core, vertices, behind.map(|other| other.start))
            })
            .collect();
        let more = items[position].kept.more;
        let shown = Shown { results, number, next, more };
        self.close(around, core, answers, &page.items, shown, Some((page, position)))
    }

    /// Answers a page, or says that the window has no room for one; keeps what the next pages need.
    fn close(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
        items: &[PageItem],
        shown: Shown,
        kept: Option<(&Page, usize)>,
    ) -> Result<Step> {
        let mut draft = Draft::new(around, core);
        let held = tokens(core).free < PAGE_TOKENS_MAX;
        let next = match kept {
            Some((_, position)) if held => position,
            None if held => 0,
            Some(_) | None => shown.next,
        };
        let mut writes = false;
        let token = match kept {
            Some((page, _)) => page_token(page, next),
            None if next < items.len() => {
                writes = true;
                page_token(draft.keep_page(&self.query_hash(around, core), items.to_vec()), next)
            }
            None => None,
        };
        let cost = if held { 0 } else { chunk::page_cost(around.counter, &shown.results) };
        let mut result = Map::new();
        result.insert("results".into(), if held { json!([]) } else { json!(shown.results) });
        result.insert("next_page_token".into(), json!(token));
        result.insert("tokens_added".into(), cost.into());
        result.insert("page_tokens".into(), cost.into());
        result.insert("page".into(), shown.number.into());
        result.insert("more".into(), shown.more.into());
        if held {
            result.insert("withheld".into(), "tokens".into());
            result.insert("page_tokens_max".into(), PAGE_TOKENS_MAX.into());
        }
        if !writes {
            return Ok(Step::Read(result));
        }
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }
}

/// One page of a trace, as it will be answered.
struct Shown {
    results: Vec<Value>,
    /// Number of the page, from 1.
    number: u64,
    /// Place of the next page in the list; its length at the end.
    next: usize,
    /// Whether the trace found more than its limit let through.
    more: bool,
}

/// An entry as it stands on a page.
struct Entry<'a> {
    told: Map<String, Value>,
    vertex: &'a Vertex,
}

impl Leaf for Entry<'_> {
    fn text(&self) -> &str {
        &self.vertex.text
    }

    fn shown(&self, _: &dyn TokenCounter, start: usize, end: usize) -> Value {
        let text = self.text();
        let chars = |to: usize| text[..to].chars().count() as u64;
        let mut value = self.told.clone();
        value.insert("text".into(), text[start..end].into());
        let (from, to, of) = (chars(start), chars(end), self.vertex.chars);
        if let Some(offset) = self.vertex.offset {
            value.insert(
                "offset".into(),
                json!({"start": offset.start + from, "end": offset.start + to}),
            );
        }
        // What is beyond the bound of a trace is a part that no page of it shows.
        if from > 0 || to < of {
            value.insert("part".into(), json!({"start": from, "end": to, "of": of}));
        }
        Value::Object(value)
    }
}

/// A trace with what may be told of its entries.
fn shown_of(around: Surroundings<'_>, core: &Core, traced: &Traced) -> Traced {
    let mut traced = traced.clone();
    for one in &mut traced.reached {
        one.vertex = around.taint.vertex(core, &one.vertex);
    }
    traced
}

fn leaves_of(traced: &Traced) -> Vec<Entry<'_>> {
    let entry = |(n, one)| -> Entry<'_> {
        let one: &Reached = one;
        Entry { told: one.told(n as u64), vertex: &one.vertex }
    };
    traced.reached.iter().enumerate().map(entry).collect()
}

/// What a stored list keeps of a part: everything but the text, which is read again and shown if it is still the same.
#[derive(Serialize, Deserialize)]
struct Kept {
    id: String,
    revision: String,
    page: u64,
    n: u64,
    more: bool,
    told: Map<String, Value>,
}

/// A place of a stored list.
struct Item {
    kept: Kept,
    start: usize,
}

fn kept(piece: &chunk::Piece, entry: &Entry<'_>, more: bool) -> PageItem {
    let kept = Kept {
        id: entry.vertex.id.clone(),
        revision: entry.vertex.revision.clone(),
        page: piece.page,
        n: piece.row as u64,
        more,
        told: entry.told.clone(),
    };
    let id = serde_json::to_string(&kept).expect("plain values are JSON");
    PageItem { id, offset: piece.start as u64, score: 0.0, parts: None, similarity: None }
}

impl Item {
    fn of(item: &PageItem) -> Option<Self> {
        Some(Self {
            kept: serde_json::from_str(&item.id).ok()?,
            start: usize::try_from(item.offset).ok()?,
        })
    }

    /// What is shown of it now; an entry that went or changed since is not shown in its place.
    fn shown(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        found: &[Vertex],
        end: Option<usize>,
    ) -> Value {
        let told = self.kept.told.clone();
        let there = found.iter().find(|vertex| vertex.id == self.kept.id);
        match there.map(|vertex| around.taint.vertex(core, vertex)) {
            Some(vertex)
                if vertex.revision == self.kept.revision && self.start <= vertex.text.len() =>
            {
                let end = end.unwrap_or(vertex.text.len());
                Entry { told, vertex: &vertex }.shown(around.counter, self.start, end)
            }
            there => {
                let mut value = told;
                value.insert("text".into(), Value::Null);
                value.insert(if there.is_some() { "changed" } else { "gone" }.into(), true.into());
                Value::Object(value)
            }
        }
    }
}
