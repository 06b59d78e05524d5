//! `search_archival`: finds the passages of archived documents nearest to a vector or a text, page by page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::ingest_archival::{check_vector, moment};
use super::spec::Step;
use crate::chunk::{self, Piece};
use crate::error::{Code, Error, Result};
use crate::limits::{
    ARCHIVAL_LIMIT, DIMENSION_MAX, DOC_ID_BYTES_MAX, N_PROBE_MAX, PAGE_TOKENS_MAX,
    PROVENANCE_BYTES_MAX, SEARCH_TEXT_BYTES_MAX, SPOOL_ID_BYTES,
};
use crate::memory::archive::{FoundPassage, Metric, VectorSetting};
use crate::memory::core::Core;
use crate::memory::page::PageItem;
use crate::memory::receipt;
use crate::models::lexical;
use crate::policy::{
    Answers, Conditions, Draft, Intent, Looked, Near, NearPlan as Plan, Nearest, PageToken,
    Question, Surroundings, VectorsAnswer, first_plan, page_token, preview, tokens, wider_plan,
};

/// Arguments of `search_archival`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchArchival {
    /// What to look for, as a vector of the kind that the archive holds. Give this or `query_text`.
    #[serde(default)]
    pub query_vector: Option<Vec<f64>>,
    /// What to look for, in words. Give this or `query_vector`.
    #[serde(default)]
    pub query_text: Option<String>,
    /// Most passages over all pages.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 40))]
    pub limit: u64,
    /// `next_page_token` of an earlier answer, to go on with its results; send the same arguments.
    #[serde(default)]
    pub page_token: Option<String>,
    /// Cells of the vector index to look into; more find more and take longer.
    #[serde(default, rename = "nProbe")]
    #[schemars(range(min = 1, max = 32))]
    pub n_probe: Option<u32>,
    /// Whether to be called again at once.
    #[serde(default)]
    pub heartbeat: bool,
    /// What the passages must be.
    #[serde(default)]
    pub filter: Option<Filter>,
}

/// Conditions on passages; those that are given hold together.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Filter {
    /// Their `provenance.source`.
    #[serde(default)]
    pub source: Option<String>,
    /// Their document.
    #[serde(default)]
    pub doc_id: Option<String>,
    /// Not older than this: `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS.mmmZ`.
    #[serde(default)]
    pub freshness_after: Option<String>,
}

fn usual_limit() -> u64 {
    ARCHIVAL_LIMIT.0
}

/// One page of a search, as it will be answered.
struct Shown {
    results: Vec<Value>,
    tokens: u64,
    /// Number of the page, from 1.
    number: u64,
    /// Place of the next page in the list; its length at the end.
    next: usize,
}

impl SearchArchival {
    /// The same, checked beyond its types; a fault names the argument.
    pub(super) fn checked(self) -> Result<Self> {
        let (_, most) = ARCHIVAL_LIMIT;
        if self.limit == 0 || self.limit > most {
            return Err(Error::argument("limit", format!("use 1 to {most}")));
        }
        if self.n_probe.is_some_and(|n| n == 0 || n > N_PROBE_MAX) {
            return Err(Error::argument("nProbe", format!("use 1 to {N_PROBE_MAX}")));
        }
        match (&self.query_vector, &self.query_text) {
            (Some(_), Some(_)) => {
                return Err(Error::argument("query_text", "give it or query_vector, not both"));
            }
            (None, None) => {
                return Err(Error::argument("query_vector", "is missing: give it or query_text"));
            }
            (Some(vector), None) => {
                let length = u32::try_from(vector.len()).unwrap_or(u32::MAX);
                if length == 0 || length > DIMENSION_MAX {
                    return Err(Error::argument(
                        "query_vector",
                        format!("use 1 to {DIMENSION_MAX} components"),
                    ));
                }
                check_vector("query_vector", vector, length, Metric::L2)?;
            }
            (None, Some(text)) => {
                if text.trim().is_empty() || text.len() > SEARCH_TEXT_BYTES_MAX {
                    return Err(Error::argument(
                        "query_text",
                        format!("use 1 to {SEARCH_TEXT_BYTES_MAX} bytes"),
                    ));
                }
            }
        }
        let filter = self.filter.clone().unwrap_or_default();
        for (field, text, most) in [
            ("filter.source", &filter.source, PROVENANCE_BYTES_MAX),
            ("filter.doc_id", &filter.doc_id, DOC_ID_BYTES_MAX),
        ] {
            if text.as_ref().is_some_and(|t| t.len() > most) {
                return Err(Error::argument(field, format!("at most {most} bytes")));
            }
        }
        self.conditions()?;
        if let Some(token) = &self.page_token {
            PageToken::parse(token)?;
        }
        Ok(self)
    }

    fn conditions(&self) -> Result<Conditions> {
        let filter = self.filter.clone().unwrap_or_default();
        let fresh = filter.freshness_after.as_deref();
        Ok(Conditions {
            source: filter.source,
            doc_id: filter.doc_id,
            fresh_after: fresh.map(|ts| moment("filter.freshness_after", ts)).transpose()?,
        })
    }

    /// Which result list answers this question. Pages are counted in the agent's encoding, so a list holds for one.
    fn query_hash(&self, core: &Core) -> String {
        let asked = json!({"query_vector": self.query_vector, "query_text": self.query_text, "limit": self.limit,
            "nProbe": self.n_probe, "filter": self.filter, "encoding": core.encoding});
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
        let Some(vectors) = &answers.vectors else {
            return Ok(Step::Ask(Question::Vectors { chunks: core.archived.chunks }));
        };
        let Some(setting) = &vectors.setting else {
            let mut told = Map::new();
            told.insert("plan".into(), Plan::Exact.text().into());
            told.insert("k_actual".into(), 0.into());
            told.insert("post_filter_dropped".into(), 0.into());
            return self.close(around, core, answers, told, &[], Found::nothing());
        };
        let query = match self.query(around, setting, answers)? {
            Ok(query) => query,
            Err(question) => return Ok(Step::Ask(question)),
        };
        let (plan, before) = match &answers.nearest {
            None => (Some(self.plan(core, vectors, setting)), Looked::default()),
            Some(found) => {
                let looked = Looked { retries: found.looked.retries + 1, ..found.looked };
                (wider_plan(found, self.limit), looked)
            }
        };
        if let Some(plan) = plan {
            let (metric, k) = (setting.metric, self.limit);
            let near = Near { query, metric, k, filter: self.conditions()?, plan, before };
            return Ok(Step::Ask(Question::Nearest(Box::new(near))));
        }
        let found = answers.nearest.as_ref().expect("without a plan there was an answer");
        self.show(around, core, answers, setting, found)
    }

    fn plan(&self, core: &Core, vectors: &VectorsAnswer, setting: &VectorSetting) -> Plan {
        let n_probe = self.n_probe.unwrap_or(setting.default_n_probe);
        let chunks = core.archived.chunks;
        first_plan(chunks, vectors.exact_rows_max, vectors.index_ready, self.limit, n_probe)
    }

    /// The vector to look for, or what must be asked for it.
    fn query(
        &self,
        around: Surroundings<'_>,
        setting: &VectorSetting,
        answers: &Answers,
    ) -> Result<std::result::Result<Vec<f64>, Question>> {
        if let Some(vector) = &self.query_vector {
            check_vector("query_vector", vector, setting.dimension, setting.metric)?;
            return Ok(Ok(vector.clone()));
        }
        let with = setting.fingerprint();
        if with != *around.embedder && !lexical::makes(&with) {
            return Err(Error::new(
                Code::VectorSettingMismatch,
                "query_text: the vectors of this database come from a model that this server is not configured for: send query_vector",
            )
            .with("field", "query_text")
            .with("stored", setting.described()));
        }
        match answers.embeddings.as_ref().map(|made| made.first()) {
            Some(Some(vector)) => Ok(Ok(vector.clone())),
            Some(None) => Err(Error::new(
                Code::EmbedderUnavailable,
                "query_text: the embedder makes no vectors at the moment: send query_vector, or try later",
            )),
            None => {
                let text = self.query_text.clone().unwrap_or_default();
                Ok(Err(Question::EmbedQuery { text, with }))
            }
        }
    }

    /// The first page of what was found.
    fn show(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
        setting: &VectorSetting,
        found: &Nearest,
    ) -> Result<Step> {
        let none = Vec::new();
        let rows = found.rows.as_ref().unwrap_or(&none);
        let rows = &rows[..rows.len().min(usize::try_from(self.limit).unwrap_or(usize::MAX))];
        let pieces = chunk::pages(around.counter, rows, PAGE_TOKENS_MAX);
        let items: Vec<PageItem> = pieces.iter().map(|piece| item_of(piece, rows)).collect();
        let on_first = pieces.iter().take_while(|piece| piece.page == 1);
        let results: Vec<Value> = on_first
            .map(|piece| chunk::shown(around.counter, &rows[piece.row], piece.start, piece.end))
            .collect();
        let shown = Shown {
            tokens: page_tokens(around, &results),
            next: results.len(),
            results,
            number: 1,
        };
        let mut told = Map::new();
        told.insert("plan".into(), found.plan.text().into());
        told.insert("metric".into(), json!(setting.metric));
        told.insert("k_actual".into(), rows.len().into());
        told.insert("post_filter_dropped".into(), found.looked.own_dropped.into());
        if let Plan::Vector { n_probe, .. } = found.plan {
            told.insert("nProbe".into(), n_probe.into());
        }
        self.close(around, core, answers, told, &items, Found { shown, first: true, page: None })
    }

    /// A later page of a list that was kept.
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
        let position = token.open(page.as_ref(), &around, &self.query_hash(core))?;
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
                item.shown(around, passages, behind.map(|other| other.start))
            })
            .collect();
        let shown = Shown { tokens: page_tokens(around, &results), results, number, next };
        let found = Found { shown, first: false, page: Some((page, position)) };
        self.close(around, core, answers, Map::new(), &page.items, found)
    }

    /// Answers a page, or says that the window has no room for one; keeps what the next pages need.
    fn close(
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
                page_token(draft.keep_page(&self.query_hash(core), items.to_vec()), next)
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

/// A page with the list that it is a part of.
struct Found<'a> {
    shown: Shown,
    /// Whether the search was made by this call.
    first: bool,
    /// The stored list and the place in it, when this call goes on with one.
    page: Option<(&'a crate::memory::page::Page, usize)>,
}

impl Found<'_> {
    /// Nothing at all: the archive is empty.
    fn nothing() -> Self {
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
    similarity: f64,
}

/// How a piece is kept: `key@revision@page`.
fn item_of(piece: &Piece, rows: &[FoundPassage]) -> PageItem {
    let row = &rows[piece.row];
    PageItem {
        id: format!("{}@{}@{}", row.key, row.revision, piece.page),
        offset: piece.start as u64,
        score: row.similarity.unwrap_or(0.0),
    }
}

impl<'a> Item<'a> {
    fn of(item: &'a PageItem) -> Option<Self> {
        let mut parts = item.id.split('@');
        let (key, revision, page) = (parts.next()?, parts.next()?, parts.next()?.parse().ok()?);
        let start = usize::try_from(item.offset).ok()?;
        Some(Self { key, revision, page, start, similarity: item.score })
    }

    /// What is shown of it now; a text that another has replaced since is not shown in its place.
    fn shown(
        &self,
        around: Surroundings<'_>,
        passages: &[FoundPassage],
        end: Option<usize>,
    ) -> Value {
        let there = passages.iter().find(|passage| passage.key == self.key);
        match there {
            Some(passage) if passage.revision == self.revision => {
                let mut passage = passage.clone();
                passage.similarity = Some(self.similarity);
                let end = end.unwrap_or(passage.text.len());
                chunk::shown(around.counter, &passage, self.start, end)
            }
            there => chunk::gone(&chunk::id(self.key), there.is_some(), self.similarity),
        }
    }
}
