//! `search_archival`: finds passages of archived documents by words, vectors or both, page by page.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::archive_page::{Listed, guarded};
use super::ingest_checks::{check_vector, moment};
use super::result_page::{ResultPage, query_hash};
use super::spec::{ADDED, Access, Arguments, Card, Command, NEXT, Spec, optional_object};
use super::told;
use crate::conveyance::Path;
use crate::error::{Code, Error, Result};
use crate::limits::{DIMENSION_MAX, DOC_ID_BYTES_MAX, N_PROBE_MAX, NEAR_FETCH, NEAR_FETCH_MAX};
use crate::memory::archive::{FoundPassage, Metric, VectorSetting};
use crate::memory::core::Core;
use crate::memory::page::plain;
use crate::memory::{Fingerprint, Labels};
use crate::policy::{Answers, Ctx, Question, Step, Stop, Surroundings, VectorsAnswer};
use crate::search::{
    Conditions, Fusion, LookCounts, NearPlan as Plan, NearQuery, NearResult, Order, PageToken,
    RankedChunk, WordQuery, WordResult, first_plan, ranked, wider_plan, words_of_question,
};
use crate::text::lexical;
use crate::tools::limits::PROVENANCE_BYTES_MAX;

/// Default and maximum of the argument `limit`; the maximum of 40 is from the project's
/// specification 002.
const ARCHIVAL_LIMIT: (u64, u64) = (10, 40);
/// Number of nearest chunks that a hybrid search fuses with the results of the word search.
const HYBRID_NEAREST: u64 = 40;
/// Maximum length of the argument `query_text`, in bytes.
const SEARCH_TEXT_BYTES_MAX: usize = 8 * 1024;
/// Maximum number of lists of the vector index for which a latency is promised (the project's
/// specification 002: p99 ≤ 750 ms at `nProbe` ≤ 32). The answer to a search of more lists says
/// that the search exceeds this number.
const N_PROBE_SLO: u32 = 32;
/// Number of rows that a search by vectors alone reads for each requested result.
const NEAR_ROWS: u64 = 2;

/// Arguments of `search_archival`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchArchival {
    /// The question as a vector of the archive's model; with `query_text` both count.
    #[serde(default)]
    pub query_vector: Option<Vec<f64>>,
    /// The question in words.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    pub query_text: Option<String>,
    /// How to search: `text` by words, `vector` by meaning, `hybrid` by both. By default the server
    /// chooses what suits the archive.
    #[serde(default)]
    pub mode: Option<SearchMode>,
    /// How `hybrid` fuses its two lists: `z_score` adds up scores, `rrf` uses only ranks.
    #[serde(default)]
    pub fusion: Option<Fusion>,
    /// Whether each result shows the parts of its score and all that is known of its place.
    #[serde(default)]
    pub explain: bool,
    /// Order of a page: `usual`, best first; `edges`, the best last and the second best first.
    #[serde(default)]
    pub order: Order,
    /// Passages over all pages at most.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 40), extend("x-model" = ""))]
    pub limit: u64,
    /// `next_page_token` of an earlier answer, to continue its results; send the same arguments.
    #[serde(default)]
    #[schemars(extend("x-model" = "for the next page"))]
    pub page_token: Option<String>,
    /// Lists of the vector index to search; more lists find more and take longer. By default the
    /// number that measurements showed to be enough.
    #[serde(default, rename = "nProbe")]
    #[schemars(range(min = 1, max = 512))]
    pub n_probe: Option<u32>,
    /// Whether to be called again at once.
    #[serde(default)]
    #[schemars(extend("x-model" = "true: see the results at once"))]
    pub heartbeat: bool,
    /// Conditions on the passages.
    #[serde(default, deserialize_with = "optional_object")]
    #[schemars(extend("x-model" = ""))]
    pub filter: Option<Filter>,
}

/// Modes of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchMode {
    /// By words.
    Text,
    /// By similarity of vectors.
    Vector,
    /// By words and vectors.
    Hybrid,
}

/// Conditions on passages; a passage must meet all given conditions.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Filter {
    /// The `provenance.source` of the passages.
    #[serde(default)]
    pub source: Option<String>,
    /// The document of the passages.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    pub doc_id: Option<String>,
    /// Beginning of the names of the passages' documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc_id_prefix: Option<String>,
    /// Labels of the passages' documents, all of them.
    #[serde(
        default,
        deserialize_with = "optional_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub labels: Option<Labels>,
    /// Only passages of this moment or newer: `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS.mmmZ`.
    #[serde(default)]
    pub freshness_after: Option<String>,
}

fn usual_limit() -> u64 {
    ARCHIVAL_LIMIT.0
}

impl Arguments for SearchArchival {
    const CARD: Card = Card {
        title: "Search the archive",
        description: "Find the passages of archived documents that answer a question.",
        in_chat: true,
        example: r#"{"query_text": "when does the ferry leave"}"#,
        result: &[
            ("results", "array", "passages that were found, most similar first"),
            ("tokens_added", "integer", ADDED),
            ("next_page_token", "string?", NEXT),
        ],
        told: told::passages,
        ..Card::NEW
    };

    fn checked(self) -> Result<Self> {
        let (_, most) = ARCHIVAL_LIMIT;
        if self.limit == 0 || self.limit > most {
            return Err(Error::argument("limit", format!("use 1 to {most}")));
        }
        if self.n_probe.is_some_and(|n| n == 0 || n > N_PROBE_MAX) {
            return Err(Error::argument("nProbe", format!("use 1 to {N_PROBE_MAX}")));
        }
        self.check_question()?;
        let filter = self.filter.clone().unwrap_or_default();
        for (field, text, most) in [
            ("filter.source", &filter.source, PROVENANCE_BYTES_MAX),
            ("filter.doc_id", &filter.doc_id, DOC_ID_BYTES_MAX),
            ("filter.doc_id_prefix", &filter.doc_id_prefix, DOC_ID_BYTES_MAX),
        ] {
            if text.as_ref().is_some_and(|t| t.len() > most) {
                return Err(Error::argument(field, format!("at most {most} bytes")));
            }
        }
        if let Some(labels) = &filter.labels {
            labels.check("filter.labels")?;
        }
        self.conditions()?;
        if let Some(token) = &self.page_token {
            PageToken::parse(token)?;
        }
        Ok(self)
    }
}

impl Command for SearchArchival {
    const SPEC: Spec =
        Spec { path: Some(Path::Archival), ..Spec::tool("search_archival", Access::Search) };

    fn writes(&self) -> bool {
        self.heartbeat
    }

    fn beats(&self) -> bool {
        self.heartbeat
    }

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        match &self.page_token {
            Some(token) => self.next_page(token, ctx),
            None => self.first_page(ctx),
        }
    }
}

impl SearchArchival {
    /// Checks that the call has the query arguments (text, vector) that its mode needs.
    fn check_question(&self) -> Result<()> {
        let needs = |field: &str, why: &str| Err(Error::argument(field, why.to_owned()));
        match (self.mode, &self.query_vector, &self.query_text) {
            (_, None, None) => {
                return needs("query_vector", "is missing: give it, or query_text, or both");
            }
            (Some(SearchMode::Text), _, None) => {
                return needs("query_text", "is missing: mode `text` searches for words");
            }
            (Some(SearchMode::Hybrid), _, None) => {
                return needs("query_text", "is missing: mode `hybrid` also searches for words");
            }
            (Some(SearchMode::Text), Some(_), _) => {
                return needs("query_vector", "mode `text` searches for words only: leave it out");
            }
            (None | Some(_), _, _) => {}
        }
        if let Some(vector) = &self.query_vector {
            let length = u32::try_from(vector.len()).unwrap_or(u32::MAX);
            if length == 0 || length > DIMENSION_MAX {
                return needs("query_vector", &format!("use 1 to {DIMENSION_MAX} components"));
            }
            check_vector("query_vector", vector, length, Metric::L2)?;
        }
        match &self.query_text {
            Some(text) if text.trim().is_empty() || text.len() > SEARCH_TEXT_BYTES_MAX => {
                needs("query_text", &format!("use 1 to {SEARCH_TEXT_BYTES_MAX} bytes"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn conditions(&self) -> Result<Conditions> {
        let filter = self.filter.clone().unwrap_or_default();
        let fresh = filter.freshness_after.as_deref();
        Ok(Conditions {
            source: filter.source,
            doc_id: filter.doc_id,
            doc_id_prefix: filter.doc_id_prefix,
            labels: filter.labels.as_ref().map(Labels::stored).unwrap_or_default(),
            fresh_after: fresh.map(|ts| moment("filter.freshness_after", ts)).transpose()?,
        })
    }

    /// Returns a digest of the search's arguments, by which a later call finds the stored result
    /// list.
    pub(super) fn query_hash(&self, ctx: &Ctx<'_>) -> String {
        let asked = json!({"query_vector": self.query_vector, "query_text": self.query_text, "limit": self.limit,
            "nProbe": self.n_probe, "filter": self.filter, "encoding": ctx.core.encoding, "mode": self.mode,
            "fusion": self.fusion, "explain": self.explain});
        query_hash(ctx, asked)
    }

    fn first_page(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let Some((told, listed)) = self.found(ctx)? else {
            let mut told = Map::new();
            told.insert("plan".into(), Plan::Exact.text().into());
            told.insert("k_actual".into(), 0.into());
            told.insert("post_filter_dropped".into(), 0.into());
            let nothing = ResultPage { results: Vec::new(), number: 1, next: 0, stored: None };
            return self.close(ctx, told, &[], nothing);
        };
        self.show(ctx, told, listed)
    }

    /// Returns the passages that the search finds, best first. The text of a passage in quarantine
    /// is replaced.
    pub fn passages(&self, ctx: &Ctx<'_>) -> Result<Vec<FoundPassage>, Stop> {
        let listed = self.found(ctx)?.map(|(_, listed)| listed).unwrap_or_default();
        Ok(listed.iter().map(|one| guarded(ctx, &one.passage)).collect())
    }

    /// Returns the fields about the search as a whole, and its results; `None` before the first
    /// ingest.
    fn found(&self, ctx: &Ctx<'_>) -> Result<Option<(Map<String, Value>, Vec<Listed>)>, Stop> {
        let vectors =
            ctx.answers.vectors(|| Question::Vectors { chunks: ctx.core.archived.chunks })?;
        let Some(setting) = &vectors.setting else { return Ok(None) };
        let mode = self.way(ctx.around, setting);
        // A search by words alone needs no vector.
        let vector = match mode {
            SearchMode::Text => None,
            SearchMode::Vector | SearchMode::Hybrid => self.query(ctx, setting)?,
        };
        if let Some(query) = &vector {
            self.look(query, mode, ctx, vectors, setting)?;
        }
        let near = ctx.answers.nearest.as_ref().filter(|_| vector.is_some());
        let looked = ctx.answers.nearest.as_ref();
        let wanted = match (near, mode) {
            (Some(near), SearchMode::Vector) => self.by_nearness(near),
            _ => {
                let words = self.words(ctx.around, setting, vector)?;
                let found = ctx.answers.worded(|| Question::Words(Box::new(words)))?;
                let mut wanted = self.by_words(found, near, ctx.core, setting);
                if wanted.len() < self.most() && self.fills(mode, setting, found) {
                    fill(&mut wanted, self.rest(mode, ctx, vectors, setting)?, self.most());
                }
                wanted
            }
        };
        let unread: Vec<String> = wanted.iter().filter_map(Wanted::unread).collect();
        let read: &[FoundPassage] = match unread.is_empty() {
            true => &[],
            false => ctx.answers.passages(|| Question::Passages { keys: unread })?,
        };
        let listed: Vec<Listed> = wanted.into_iter().filter_map(|one| one.read(read)).collect();
        let mut told = self.search_fields(mode, setting, ctx.answers, looked);
        told.insert("k_actual".into(), listed.len().into());
        Ok(Some((told, listed)))
    }

    /// Whether passages near the question's vector are added to a result list with too few word
    /// matches. They are added only if the archive's embedder is the lexical embedder, the call
    /// names no mode, and no identifier of the question was found as a phrase.
    fn fills(&self, mode: SearchMode, setting: &VectorSetting, found: &WordResult) -> bool {
        let lexical = lexical::makes(&setting.fingerprint());
        self.mode.is_none() && mode == SearchMode::Text && lexical && !found.is_identified()
    }

    /// Returns the passages near the question's vector.
    fn rest(
        &self,
        mode: SearchMode,
        ctx: &Ctx<'_>,
        vectors: &VectorsAnswer,
        setting: &VectorSetting,
    ) -> Result<Vec<Wanted>, Stop> {
        let Some(query) = self.query(ctx, setting)? else { return Ok(Vec::new()) };
        self.look(&query, mode, ctx, vectors, setting)?;
        Ok(ctx.answers.nearest.as_ref().map(|near| self.by_nearness(near)).unwrap_or_default())
    }

    /// Succeeds if enough near passages have been found. Otherwise stops with a `Question` that
    /// requests near passages, each time with a wider plan.
    fn look(
        &self,
        query: &[f64],
        mode: SearchMode,
        ctx: &Ctx<'_>,
        vectors: &VectorsAnswer,
        setting: &VectorSetting,
    ) -> Result<(), Stop> {
        let first =
            if mode == SearchMode::Hybrid { self.limit.max(HYBRID_NEAREST) } else { self.limit };
        let plan = |k| self.plan(ctx.core, vectors, setting, k);
        let (plan, k, before) = match &ctx.answers.nearest {
            None => (plan(first), first, LookCounts::default()),
            Some(found) => {
                let looked = LookCounts { retries: found.looked.retries + 1, ..found.looked };
                match wider_plan(found, found.k) {
                    Some(plan) => (plan, found.k, looked),
                    None if self.is_short(mode, found) => {
                        let k = (found.k * NEAR_FETCH).min(NEAR_FETCH_MAX);
                        (plan(k), k, looked)
                    }
                    None => return Ok(()),
                }
            }
        };
        // More rows are read than results are requested: several chunks of one parent give one
        // result, and a fusion compares scores among all near passages.
        let rows_max = match (mode, plan) {
            (SearchMode::Text | SearchMode::Hybrid, Plan::Vector { fetch, .. }) => fetch,
            _ => k * NEAR_ROWS,
        };
        let (query, metric, filter) = (query.to_vec(), setting.metric, self.conditions()?);
        let attribute = setting.attribute();
        let near = NearQuery { query, attribute, metric, k, filter, plan, rows_max, before };
        Err(Question::Nearest(Box::new(near)).into())
    }

    /// Whether merging the chunks of one parent left fewer results than requested, although a wider
    /// search may find more.
    fn is_short(&self, mode: SearchMode, found: &NearResult) -> bool {
        let rows = found.rows.as_ref().map_or(0, Vec::len) as u64;
        mode == SearchMode::Vector
            && rows >= found.k
            && found.k < NEAR_FETCH_MAX
            && (self.by_nearness(found).len() as u64) < self.limit
    }

    fn most(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }

    /// Returns the mode of this search. If the call names none, its arguments decide. A call with a
    /// vector searches by the vector, or by words and the vector if it also has a text. A call with
    /// only a text searches by words and by a vector of the text if this server has the embedding
    /// model of the archive, else only by words. If that model is the lexical embedder, such a call
    /// also searches only by words, because lexical vectors add nothing to words.
    fn way(&self, around: Surroundings<'_>, setting: &VectorSetting) -> SearchMode {
        match (self.mode, &self.query_vector, &self.query_text) {
            (Some(mode), _, _) => mode,
            (None, Some(_), None) => SearchMode::Vector,
            (None, Some(_), Some(_)) => SearchMode::Hybrid,
            (None, None, _) => {
                let own = setting.fingerprint();
                let models = is_here(around, &own) && !lexical::makes(&own);
                if models { SearchMode::Hybrid } else { SearchMode::Text }
            }
        }
    }

    fn words(
        &self,
        around: Surroundings<'_>,
        setting: &VectorSetting,
        vector: Option<Vec<f64>>,
    ) -> Result<WordQuery> {
        let text = self.query_text.clone().unwrap_or_default();
        let (words, identifiers) = words_of_question(&text);
        let (metric, filter, now_ms) = (setting.metric, self.conditions()?, around.unix_ms);
        let attribute = setting.attribute();
        Ok(WordQuery { text, words, identifiers, vector, attribute, metric, filter, now_ms })
    }

    /// Returns the answer's fields about the search as a whole: mode, plan, and what was left out.
    fn search_fields(
        &self,
        mode: SearchMode,
        setting: &VectorSetting,
        answers: &Answers,
        near: Option<&NearResult>,
    ) -> Map<String, Value> {
        let mut told = Map::new();
        let looked = near.map(|found| found.looked).unwrap_or_default();
        told.insert("mode".into(), json!(mode));
        told.insert("plan".into(), near.map_or("text", |found| found.plan.text()).into());
        told.insert("metric".into(), json!(setting.metric));
        told.insert("post_filter_dropped".into(), looked.own_dropped.into());
        if let Some(Plan::Vector { n_probe, .. } | Plan::First { n_probe, .. }) =
            near.map(|found| found.plan)
        {
            told.insert("nProbe".into(), n_probe.into());
            told.insert("nLists".into(), json!(setting.n_lists));
            if n_probe > N_PROBE_SLO {
                told.insert("beyond_slo".into(), json!({"nProbe": N_PROBE_SLO}));
            }
        }
        if looked.fetched > 0 {
            let own = looked.fetched - (looked.dropped - looked.own_dropped).min(looked.fetched);
            let rate = looked.own_dropped as f64 / own.max(1) as f64;
            told.insert("drop_rate".into(), plain((rate * 1e3).round() / 1e3));
        }
        if answers.worded.as_ref().is_some_and(WordResult::tail_capped) {
            told.insert("tail_capped".into(), true.into());
        }
        if let Some(failed) = answers.degraded {
            told.insert("degraded".into(), failed.into());
        }
        told
    }

    /// Returns the nearest chunks; of several chunks that represent one larger passage, only the
    /// nearest.
    fn by_nearness(&self, found: &NearResult) -> Vec<Wanted> {
        let mut parents = BTreeSet::new();
        let rows = found.rows.as_deref().unwrap_or_default().iter();
        let once = rows.filter(|row| {
            row.parent.is_none_or(|parent| parents.insert((row.doc_id.as_str(), parent.first)))
        });
        let wanted = |row: &FoundPassage| Wanted {
            key: row.key.clone(),
            there: Some(row.clone()).filter(|row| row.parent.is_none()),
            parent: row.parent.map(|parent| (row.doc_id.clone(), parent.first)),
            similarity: row.similarity,
            ranked: None,
        };
        once.take(self.most()).map(wanted).collect()
    }

    fn by_words(
        &self,
        found: &WordResult,
        near: Option<&NearResult>,
        core: &Core,
        setting: &VectorSetting,
    ) -> Vec<Wanted> {
        let fusion = self.fusion.unwrap_or_default();
        let list = ranked(found, near, setting.metric, fusion, core.archived.chunks);
        let rows = near.and_then(|found| found.rows.as_deref()).unwrap_or_default();
        let wanted = |one: RankedChunk| {
            let known = rows.iter().find(|row| row.key == one.key && row.parent.is_none());
            Wanted {
                key: one.key.clone(),
                there: known.cloned(),
                parent: one.parent.clone(),
                similarity: None,
                ranked: Some(one),
            }
        };
        list.into_iter().take(self.most()).map(wanted).collect()
    }

    fn plan(&self, core: &Core, vectors: &VectorsAnswer, setting: &VectorSetting, k: u64) -> Plan {
        let n_probe = self.n_probe.unwrap_or_else(|| setting.n_probe());
        let chunks = core.archived.chunks;
        match first_plan(chunks, vectors.exact_rows_max, vectors.index_ready, k, n_probe) {
            Plan::Vector { n_probe, .. } if vectors.filters_first => {
                Plan::First { n_probe, fetch: k }
            }
            plan => plan,
        }
    }

    /// Returns the question's vector; `None` if the embedder failed, so that only words are
    /// searched.
    fn query(&self, ctx: &Ctx<'_>, setting: &VectorSetting) -> Result<Option<Vec<f64>>, Stop> {
        if let Some(vector) = &self.query_vector {
            check_vector("query_vector", vector, setting.dimension, setting.metric)?;
            return Ok(Some(vector.clone()));
        }
        let with = setting.fingerprint();
        if !is_here(ctx.around, &with) && !lexical::makes(&with) {
            return Err(Error::new(
                Code::VectorSettingMismatch,
                "query_text: the vectors of this database come from a model that this server is not configured for: send query_vector",
            )
            .with("field", "query_text")
            .with("stored", setting.described())
            .into());
        }
        let text = || self.query_text.clone().unwrap_or_default();
        let made = ctx.answers.embeddings(|| Question::EmbedQuery { text: text(), with })?;
        Ok(made.first().cloned())
    }
}

/// Whether an embedder with this fingerprint is configured on this server.
fn is_here(around: Surroundings<'_>, wanted: &Fingerprint) -> bool {
    wanted == around.embedder || around.next_embedder == Some(wanted)
}

/// A passage to show. Either the search returned the whole passage, or the passage must still be
/// read from the database by its key.
struct Wanted {
    key: String,
    there: Option<FoundPassage>,
    /// Document and first chunk of the larger passage that the chunk represents.
    parent: Option<(String, u64)>,
    similarity: Option<f64>,
    ranked: Option<RankedChunk>,
}

/// Appends those results of `rest` that the list does not contain yet, until the list has `most`
/// results.
fn fill(wanted: &mut Vec<Wanted>, rest: Vec<Wanted>, most: usize) {
    for one in rest {
        let double = |other: &Wanted| {
            other.key == one.key || (one.parent.is_some() && other.parent == one.parent)
        };
        if wanted.len() < most && !wanted.iter().any(double) {
            wanted.push(one);
        }
    }
}

impl Wanted {
    fn unread(&self) -> Option<String> {
        self.there.is_none().then(|| self.key.clone())
    }

    /// Returns the passage with its score; `None` if the passage was removed after the search.
    fn read(self, read: &[FoundPassage]) -> Option<Listed> {
        let there = self.there.or_else(|| read.iter().find(|row| row.key == self.key).cloned());
        let mut passage = there?;
        passage.similarity = self.similarity;
        passage.score = self.ranked.as_ref().map(|ranked| ranked.score);
        Some(Listed { passage, parts: self.ranked.map(|ranked| ranked.parts) })
    }
}
