//! `trace_memory`: starts at a message, a passage or an agent, follows relations from there, and
//! returns the messages, passages and summaries that the trace reaches, page by page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::result_page::{ResultPage, items_of, query_hash, stored};
use super::spec::{ADDED, Access, Arguments, Card, Command, NEXT, Spec};
use super::told;
use crate::chunk::{self, Leaf};
use crate::error::{Error, Result};
use crate::limits::{PAGE_TOKENS_MAX, TRACE_AROUND, TRACE_DEPTH, TRACE_LIMIT};
use crate::memory::page::PageItem;
use crate::memory::tokens::TokenCounter;
use crate::policy::{Ctx, Question, Step, Stop};
use crate::search::PageToken;
use crate::trust::{Follow, Trace, TraceQuery, TraceStep, Vertex, VertexId, nothing_to_trace};

/// Arguments of `trace_memory`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceMemory {
    /// Where to begin: the `id` of a message or passage as a search shows it, the `seq` of a
    /// message as text, or `agent`.
    #[schemars(extend("x-model" = "id or seq of a result"))]
    pub from: String,
    /// Relations to follow; all relations by default.
    #[serde(default)]
    #[schemars(length(max = 9), extend("x-model" = ""))]
    pub follow: Vec<Follow>,
    /// Number of steps from the start.
    #[serde(default = "usual_depth")]
    #[schemars(range(min = 1, max = 3))]
    pub depth: u64,
    /// Number of messages before and after a message, and of passages before and after a passage.
    #[serde(default = "usual_around")]
    #[schemars(range(min = 1, max = 8))]
    pub around: u64,
    /// Entries besides the first at most, over all pages.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 40))]
    pub limit: u64,
    /// `next_page_token` of an earlier answer, to continue its results; send the same arguments.
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

impl Arguments for TraceMemory {
    const CARD: Card = Card {
        title: "Follow what is joined",
        description: "Follow a search result to what was said around it, its sources and its citations.",
        example: r#"{"from": "17", "follow": ["cites", "around"]}"#,
        result: &[
            (
                "results",
                "array",
                "entries: `n` is the place of each, `of` the place of the one that led to it, `by` how",
            ),
            ("tokens_added", "integer", ADDED),
            ("next_page_token", "string?", NEXT),
        ],
        on_request: true,
        told: told::traced,
        ..Card::NEW
    };

    fn checked(self) -> Result<Self> {
        if self.follow.len() > Follow::ALL.len() {
            return Err(Error::argument("follow", format!("at most {}", Follow::ALL.len())));
        }
        self.query(VertexId::Seq(0))?;
        if let Some(token) = &self.page_token {
            PageToken::parse(token)?;
        }
        Ok(self)
    }
}

impl Command for TraceMemory {
    const SPEC: Spec = Spec { tells_messages: true, ..Spec::tool("trace_memory", Access::Search) };

    fn writes(&self) -> bool {
        false
    }

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        match &self.page_token {
            Some(token) => self.next_page(token, ctx),
            None => self.first_page(ctx),
        }
    }
}

impl TraceMemory {
    fn query(&self, from: VertexId) -> Result<TraceQuery> {
        TraceQuery::checked(from, &self.follow, self.depth, self.around, self.limit)
    }

    /// Returns a digest of the arguments, by which a later call finds the stored result list.
    fn query_hash(&self, ctx: &Ctx<'_>) -> String {
        let asked = json!({"from": self.from, "follow": self.follow, "depth": self.depth, "around": self.around,
            "limit": self.limit, "encoding": ctx.core.encoding});
        query_hash(ctx, asked)
    }

    fn first_page(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let query = self.query(VertexId::parse(&self.from, ctx.around.scope)?)?;
        let traced = ctx.answers.traced(|| Question::Trace(Box::new(query)))?;
        if traced.reached.is_empty() {
            return Err(nothing_to_trace().into());
        }
        let traced = &shown_of(ctx, traced);
        let leaves = leaves_of(traced);
        let pieces = chunk::pages(ctx.around.counter, &leaves, PAGE_TOKENS_MAX);
        let items: Vec<PageItem> =
            pieces.iter().map(|piece| page_item(piece, &leaves[piece.row], traced.more)).collect();
        let results: Vec<Value> = pieces
            .iter()
            .take_while(|piece| piece.page == 1)
            .map(|piece| leaves[piece.row].part_value(ctx.around.counter, piece.start, piece.end))
            .collect();
        let page = ResultPage { next: results.len(), results, number: 1, stored: None };
        self.close(ctx, &items, page, traced.more)
    }

    fn next_page(&self, token: &str, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let (page, position) = stored(ctx, token, &self.query_hash(ctx))?;
        let items: Vec<PartPosition> = items_of(page, PartPosition::of)?;
        let number = items[position].record.page;
        let next = items.iter().position(|item| item.record.page > number).unwrap_or(items.len());
        let mut places = Vec::new();
        for item in &items[position..next] {
            let place = VertexId::parse(&item.record.id, ctx.around.scope)?;
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let vertices = ctx.answers.vertices(|| Question::Traced { places })?;
        let results = (position..next)
            .map(|at| {
                let behind = items.get(at + 1).filter(|other| other.record.n == items[at].record.n);
                items[at].part_value(ctx, vertices, behind.map(|other| other.start))
            })
            .collect();
        let more = items[position].record.more;
        let shown = ResultPage { results, number, next, stored: Some((page, position)) };
        self.close(ctx, &page.items, shown, more)
    }

    /// Returns the answer with a page, or an answer that reports that the window has no room for
    /// the page. Stores the result list if further pages follow.
    fn close(
        &self,
        ctx: &Ctx<'_>,
        items: &[PageItem],
        page: ResultPage<'_>,
        more: bool,
    ) -> Result<Step, Stop> {
        let mut draft = ctx.draft();
        // The field `more` says whether the trace found more vertices than the limit allows.
        let details = Map::from_iter([("more".to_owned(), more.into())]);
        let answer = page.answer(ctx, &mut draft, &self.query_hash(ctx), items, details);
        if !answer.keeps {
            return Ok(Step::Read(answer.result));
        }
        ctx.finish(draft, answer.result)
    }
}

/// A vertex that the trace reached (a message, passage, summary or agent), with the attributes to
/// show.
struct Entry<'a> {
    told: Map<String, Value>,
    vertex: &'a Vertex,
}

impl Leaf for Entry<'_> {
    fn text(&self) -> &str {
        &self.vertex.text
    }

    fn part_value(&self, _: &dyn TokenCounter, start: usize, end: usize) -> Value {
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
        // A trace reads only the beginning of a long text, so `to` can stay below `of` even on the
        // last page.
        if from > 0 || to < of {
            value.insert("part".into(), json!({"start": from, "end": to, "of": of}));
        }
        Value::Object(value)
    }
}

/// Returns the trace, in which an explanation replaces each text in quarantine.
fn shown_of(ctx: &Ctx<'_>, traced: &Trace) -> Trace {
    let mut traced = traced.clone();
    for one in &mut traced.reached {
        one.vertex = ctx.around.taint.vertex(ctx.core, &one.vertex);
    }
    traced
}

fn leaves_of(traced: &Trace) -> Vec<Entry<'_>> {
    let entry = |(n, one)| -> Entry<'_> {
        let one: &TraceStep = one;
        Entry { told: one.attributes(n as u64), vertex: &one.vertex }
    };
    traced.reached.iter().enumerate().map(entry).collect()
}

/// The stored form of a part of a vertex's text, without the text itself. A later call reads the
/// text again, and shows it only if it has not changed.
#[derive(Serialize, Deserialize)]
struct PartRecord {
    id: String,
    revision: String,
    page: u64,
    n: u64,
    more: bool,
    told: Map<String, Value>,
}

/// A decoded item of a stored list: a part of a vertex's text, and the byte index at which the part
/// begins.
struct PartPosition {
    record: PartRecord,
    start: usize,
}

fn page_item(piece: &chunk::Piece, entry: &Entry<'_>, more: bool) -> PageItem {
    let record = PartRecord {
        id: entry.vertex.id.clone(),
        revision: entry.vertex.revision.clone(),
        page: piece.page,
        n: piece.row as u64,
        more,
        told: entry.told.clone(),
    };
    let id = serde_json::to_string(&record).expect("plain values are JSON");
    PageItem { id, offset: piece.start as u64, score: 0.0, parts: None, similarity: None }
}

impl PartPosition {
    fn of(item: &PageItem) -> Option<Self> {
        Some(Self {
            record: serde_json::from_str(&item.id).ok()?,
            start: usize::try_from(item.offset).ok()?,
        })
    }

    /// Returns the part of the vertex with the current text. If the vertex was removed or changed
    /// after the trace, the text is null.
    fn part_value(&self, ctx: &Ctx<'_>, found: &[Vertex], end: Option<usize>) -> Value {
        let told = self.record.told.clone();
        let there = found.iter().find(|vertex| vertex.id == self.record.id);
        match there.map(|vertex| ctx.around.taint.vertex(ctx.core, vertex)) {
            Some(vertex)
                if vertex.revision == self.record.revision && self.start <= vertex.text.len() =>
            {
                let end = end.unwrap_or(vertex.text.len());
                Entry { told, vertex: &vertex }.part_value(ctx.around.counter, self.start, end)
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
