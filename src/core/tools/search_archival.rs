//! `search_archival`: finds passages of archived documents by words, by vectors or by both, page by page.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::found_passages::{Found, Listed};
use super::ingest_checks::{check_vector, moment};
use super::spec::Step;
use crate::error::{Code, Error, Result};
use crate::limits::{
    ARCHIVAL_LIMIT, DIMENSION_MAX, DOC_ID_BYTES_MAX, HYBRID_NEAREST, N_PROBE_MAX, N_PROBE_SLO,
    NEAR_FETCH, NEAR_FETCH_MAX, NEAR_ROWS, PROVENANCE_BYTES_MAX, SEARCH_TEXT_BYTES_MAX,
};
use crate::memory::Fingerprint;
use crate::memory::archive::{FoundPassage, Metric, VectorSetting};
use crate::memory::core::Core;
use crate::memory::page::plain;
use crate::memory::receipt;
use crate::policy::{
    Answers, Conditions, Fusion, Looked, Near, NearPlan as Plan, Nearest, Order, PageToken,
    Question, Ranked, Surroundings, VectorsAnswer, Worded, Words, first_plan, ranked, wider_plan,
    words_of_question,
};
use crate::text::lexical;

/// Arguments of `search_archival`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchArchival {
    /// What to look for, as a vector of the kind that the archive holds; with `query_text` both count.
    #[serde(default)]
    pub query_vector: Option<Vec<f64>>,
    /// What to look for, in words.
    #[serde(default)]
    pub query_text: Option<String>,
    /// How to look: `text` by words, `vector` by nearness, `hybrid` by both. Left out: what serves best here.
    #[serde(default)]
    pub mode: Option<SearchMode>,
    /// How `hybrid` makes one list of two: `z_score` adds up scores, `rrf` only ranks.
    #[serde(default)]
    pub fusion: Option<Fusion>,
    /// Whether each result tells what its score is made of, and everything that is known of its place.
    #[serde(default)]
    pub explain: bool,
    /// Where the best of a page stands: `usual`, best first; `edges`, the best last and the second best first.
    #[serde(default)]
    pub order: Order,
    /// Most passages over all pages.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 40))]
    pub limit: u64,
    /// `next_page_token` of an earlier answer, to go on with its results; send the same arguments.
    #[serde(default)]
    pub page_token: Option<String>,
    /// Cells of the vector index to look into; more find more and take longer. Left out: as many as were measured to be needed.
    #[serde(default, rename = "nProbe")]
    #[schemars(range(min = 1, max = 512))]
    pub n_probe: Option<u32>,
    /// Whether to be called again at once.
    #[serde(default)]
    pub heartbeat: bool,
    /// What the passages must be.
    #[serde(default)]
    pub filter: Option<Filter>,
}

/// Ways to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchMode {
    /// By words.
    Text,
    /// By nearness of vectors.
    Vector,
    /// By both.
    Hybrid,
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
        self.check_question()?;
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

    /// What is looked for is there, in the form that the mode needs.
    fn check_question(&self) -> Result<()> {
        let needs = |field: &str, why: &str| Err(Error::argument(field, why.to_owned()));
        match (self.mode, &self.query_vector, &self.query_text) {
            (_, None, None) => {
                return needs("query_vector", "is missing: give it, or query_text, or both");
            }
            (Some(SearchMode::Text), _, None) => {
                return needs("query_text", "is missing: mode `text` looks for words");
            }
            (Some(SearchMode::Hybrid), _, None) => {
                return needs("query_text", "is missing: mode `hybrid` looks for words too");
            }
            (Some(SearchMode::Text), Some(_), _) => {
                return needs("query_vector", "mode `text` looks for words only: leave it out");
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
            fresh_after: fresh.map(|ts| moment("filter.freshness_after", ts)).transpose()?,
        })
    }

    /// Which result list answers this question. Pages are counted in the agent's encoding, so a list holds for one.
    pub(super) fn query_hash(&self, around: Surroundings<'_>, core: &Core) -> String {
        let mut asked = json!({"query_vector": self.query_vector, "query_text": self.query_text, "limit": self.limit,
            "nProbe": self.n_probe, "filter": self.filter, "encoding": core.encoding, "mode": self.mode,
            "fusion": self.fusion, "explain": self.explain});
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
        let mode = self.way(around, setting);
        let vector = match self.vector(mode, around, setting, answers)? {
            Ok(vector) => vector,
            Err(question) => return Ok(Step::Ask(question)),
        };
        if let Some(query) = &vector
            && let Some(near) = self.look(query, mode, core, vectors, setting, answers)?
        {
            return Ok(Step::Ask(Question::Nearest(Box::new(near))));
        }
        let near = answers.nearest.as_ref().filter(|_| vector.is_some());
        let looked = answers.nearest.as_ref();
        let wanted = match (near, mode, &answers.worded) {
            (Some(near), SearchMode::Vector, _) => self.by_nearness(near),
            (_, _, None) => {
                let words = self.words(around, setting, vector)?;
                return Ok(Step::Ask(Question::Words(Box::new(words))));
            }
            (_, _, Some(found)) => {
                let mut wanted = self.by_words(found, near, core, setting);
                if wanted.len() < self.most() && self.fills(mode, setting, found) {
                    match self.rest(mode, around, core, vectors, setting, answers)? {
                        Ok(rest) => fill(&mut wanted, rest, self.most()),
                        Err(question) => return Ok(Step::Ask(question)),
                    }
                }
                wanted
            }
        };
        let unread: Vec<String> = wanted.iter().filter_map(Wanted::unread).collect();
        let none = Vec::new();
        let read = match (&answers.passages, unread.is_empty()) {
            (Some(read), _) => read,
            (None, true) => &none,
            (None, false) => return Ok(Step::Ask(Question::Passages { keys: unread })),
        };
        let listed: Vec<Listed> = wanted.into_iter().filter_map(|one| one.read(read)).collect();
        let mut told = self.told(mode, setting, answers, looked);
        told.insert("k_actual".into(), listed.len().into());
        self.show(around, core, answers, told, listed)
    }

    /// Whether places that words leave free are filled with what is near by the lexical embedder: so many passages are wanted, and no mode was
    /// asked for. An identifier that was found whole leaves nothing to add.
    fn fills(&self, mode: SearchMode, setting: &VectorSetting, found: &Worded) -> bool {
        let lexical = lexical::makes(&setting.fingerprint());
        self.mode.is_none() && mode == SearchMode::Text && lexical && !found.is_identified()
    }

    /// What is near, or what must be asked for it.
    fn rest(
        &self,
        mode: SearchMode,
        around: Surroundings<'_>,
        core: &Core,
        vectors: &VectorsAnswer,
        setting: &VectorSetting,
        answers: &Answers,
    ) -> Result<std::result::Result<Vec<Wanted>, Question>> {
        let query = match self.query(around, setting, answers)? {
            Ok(Some(query)) => query,
            Ok(None) => return Ok(Ok(Vec::new())),
            Err(question) => return Ok(Err(question)),
        };
        if let Some(near) = self.look(&query, mode, core, vectors, setting, answers)? {
            return Ok(Err(Question::Nearest(Box::new(near))));
        }
        Ok(Ok(answers.nearest.as_ref().map(|near| self.by_nearness(near)).unwrap_or_default()))
    }

    /// The vector to look for, or what must be asked for it; none where words alone count, or the embedder failed.
    fn vector(
        &self,
        mode: SearchMode,
        around: Surroundings<'_>,
        setting: &VectorSetting,
        answers: &Answers,
    ) -> Result<std::result::Result<Option<Vec<f64>>, Question>> {
        match mode {
            SearchMode::Text => Ok(Ok(None)),
            SearchMode::Vector | SearchMode::Hybrid => self.query(around, setting, answers),
        }
    }

    /// The next look for what is near; none when what was found is enough.
    fn look(
        &self,
        query: &[f64],
        mode: SearchMode,
        core: &Core,
        vectors: &VectorsAnswer,
        setting: &VectorSetting,
        answers: &Answers,
    ) -> Result<Option<Near>> {
        let first =
            if mode == SearchMode::Hybrid { self.limit.max(HYBRID_NEAREST) } else { self.limit };
        let (plan, k, before) = match &answers.nearest {
            None => (Some(self.plan(core, vectors, setting, first)), first, Looked::default()),
            Some(found) => {
                let looked = Looked { retries: found.looked.retries + 1, ..found.looked };
                match wider_plan(found, found.k) {
                    Some(plan) => (Some(plan), found.k, looked),
                    None if self.is_short(mode, found) => {
                        let k = (found.k * NEAR_FETCH).min(NEAR_FETCH_MAX);
                        (Some(self.plan(core, vectors, setting, k)), k, looked)
                    }
                    None => (None, found.k, looked),
                }
            }
        };
        let (query, metric, filter) = (query.to_vec(), setting.metric, self.conditions()?);
        let attribute = setting.attribute();
        Ok(plan.map(|plan| {
            // Parts of the same larger piece take places in vain; what is fused is weighed among all that is near.
            let rows_max = match (mode, plan) {
                (SearchMode::Text | SearchMode::Hybrid, Plan::Vector { fetch, .. }) => fetch,
                _ => k * NEAR_ROWS,
            };
            Near { query, attribute, metric, k, filter, plan, rows_max, before }
        }))
    }

    /// Whether parts of the same larger pieces took so many places that fewer than wanted are left, though there may be more.
    fn is_short(&self, mode: SearchMode, found: &Nearest) -> bool {
        let rows = found.rows.as_ref().map_or(0, Vec::len) as u64;
        mode == SearchMode::Vector
            && rows >= found.k
            && found.k < NEAR_FETCH_MAX
            && (self.by_nearness(found).len() as u64) < self.limit
    }

    fn most(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }

    /// How this search looks. Without being told: by words where the vectors are the lexical embedder's, which know nothing that words do not
    /// tell, or a model's that is not configured here; by both where a vector is given or the configured model made those of the archive.
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
    ) -> Result<Words> {
        let text = self.query_text.clone().unwrap_or_default();
        let (words, identifiers) = words_of_question(&text);
        let (metric, filter, now_ms) = (setting.metric, self.conditions()?, around.unix_ms);
        let attribute = setting.attribute();
        Ok(Words { text, words, identifiers, vector, attribute, metric, filter, now_ms })
    }

    /// What is told of the search as a whole.
    fn told(
        &self,
        mode: SearchMode,
        setting: &VectorSetting,
        answers: &Answers,
        near: Option<&Nearest>,
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
        if answers.worded.as_ref().is_some_and(Worded::tail_capped) {
            told.insert("tail_capped".into(), true.into());
        }
        if let Some(failed) = answers.degraded {
            told.insert("degraded".into(), failed.into());
        }
        told
    }

    /// The nearest, each larger piece once.
    fn by_nearness(&self, found: &Nearest) -> Vec<Wanted> {
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
        found: &Worded,
        near: Option<&Nearest>,
        core: &Core,
        setting: &VectorSetting,
    ) -> Vec<Wanted> {
        let fusion = self.fusion.unwrap_or_default();
        let list = ranked(found, near, setting.metric, fusion, core.archived.chunks);
        let rows = near.and_then(|found| found.rows.as_deref()).unwrap_or_default();
        let wanted = |one: Ranked| {
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

    fn query(
        &self,
        around: Surroundings<'_>,
        setting: &VectorSetting,
        answers: &Answers,
    ) -> Result<std::result::Result<Option<Vec<f64>>, Question>> {
        if let Some(vector) = &self.query_vector {
            check_vector("query_vector", vector, setting.dimension, setting.metric)?;
            return Ok(Ok(Some(vector.clone())));
        }
        let with = setting.fingerprint();
        if !is_here(around, &with) && !lexical::makes(&with) {
            return Err(Error::new(
                Code::VectorSettingMismatch,
                "query_text: the vectors of this database come from a model that this server is not configured for: send query_vector",
            )
            .with("field", "query_text")
            .with("stored", setting.described()));
        }
        match answers.embeddings.as_ref().map(|made| made.first()) {
            Some(Some(vector)) => Ok(Ok(Some(vector.clone()))),
            // Its embedder failed: the search goes on by words.
            Some(None) => Ok(Ok(None)),
            None => {
                let text = self.query_text.clone().unwrap_or_default();
                Ok(Err(Question::EmbedQuery { text, with }))
            }
        }
    }
}

/// Whether an embedder of that kind is configured here.
fn is_here(around: Surroundings<'_>, wanted: &Fingerprint) -> bool {
    wanted == around.embedder || around.next_embedder == Some(wanted)
}

/// A passage that will be shown: as the search gave it, or to be read by its key.
struct Wanted {
    key: String,
    there: Option<FoundPassage>,
    /// The larger piece that it stands for.
    parent: Option<(String, u64)>,
    similarity: Option<f64>,
    ranked: Option<Ranked>,
}

/// Puts what is not there yet behind what is, up to a number.
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

    /// The passage itself; none if it went meanwhile.
    fn read(self, read: &[FoundPassage]) -> Option<Listed> {
        let there = self.there.or_else(|| read.iter().find(|row| row.key == self.key).cloned());
        let mut passage = there?;
        passage.similarity = self.similarity;
        passage.score = self.ranked.as_ref().map(|ranked| ranked.score);
        Some(Listed { passage, parts: self.ranked.map(|ranked| ranked.parts) })
    }
}
