//! The usual search methods beside which contexts are measured, over the same pool of texts.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;

use super::bm25::Bm25;
use super::order::{rank_fusion, z_sum};
use super::vector_cache::VectorCache;
use crate::eval::host::Host;
use crate::eval::progress::Progress;
use vctx_cli::exit::Failure;
use vctx_server::models::{Embedder, Kind};

/// Number of texts in one request to the model.
const EMBEDDED_TOGETHER: usize = 32;
/// Number of texts from which the progress of their vectors is shown.
const SHOWN_MIN: usize = 512;
/// Maximum length of a text whose vector is computed, in bytes. A model reads a few hundred tokens.
const EMBEDDED_BYTES_MAX: usize = 8 << 10;

/// A search method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(in crate::eval) enum Arm {
    /// The server's own search tool, with the question as the query
    Plain,
    /// BM25 (k1 1.2, b 0.75)
    Bm25,
    /// Cosine of the vectors of the configured model
    Minilm,
    /// Reciprocal rank fusion (k 60) of `bm25` and `minilm`
    Rrf,
    /// Sum of the standard scores of `bm25` and `minilm`
    Zsum,
}

impl Arm {
    /// Returns the name of the search method in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Arm::Plain => "plain",
            Arm::Bm25 => "bm25",
            Arm::Minilm => "minilm",
            Arm::Rrf => "rrf",
            Arm::Zsum => "zsum",
        }
    }

    fn needs_model(self) -> bool {
        match self {
            Arm::Plain | Arm::Bm25 => false,
            Arm::Minilm | Arm::Rrf | Arm::Zsum => true,
        }
    }
}

/// The search methods of a run, and the model that makes their vectors.
pub(in crate::eval) struct Arms {
    pub(super) asked: BTreeSet<Arm>,
    model: Option<Arc<dyn Embedder>>,
    cache: Option<Mutex<VectorCache>>,
}

impl Arms {
    /// Opens the configured model, if a search method needs one or if `with_model` says so; fails
    /// if there is no model.
    pub(in crate::eval) fn open(
        host: &Host,
        asked: &[Arm],
        with_model: Option<&str>,
        cache: Option<&Path>,
    ) -> Result<Arms, Failure> {
        let asked: BTreeSet<Arm> = asked.iter().copied().collect();
        let named = asked.iter().find(|arm| arm.needs_model()).map(|arm| arm.name());
        let Some(name) = named.or(with_model) else {
            return Ok(Arms { asked, model: None, cache: None });
        };
        let Some(model) = host.embedder()? else {
            let message = format!("`{name}` needs an embedding model, and none is configured");
            let step = "name a model in the section `embedder` of a configuration, and give its file with --config";
            return Err(Failure::usage(message).next(step));
        };
        let cache = cache.map(|path| VectorCache::open(path, model.fingerprint())).transpose()?;
        Ok(Arms { asked, model: Some(model), cache: cache.map(Mutex::new) })
    }

    /// Whether a model makes vectors.
    pub(super) fn has_model(&self) -> bool {
        self.model.is_some()
    }

    /// The asked search methods that rank a pool of texts without the server.
    pub(super) fn own(&self) -> Vec<Arm> {
        self.asked.iter().copied().filter(|arm| *arm != Arm::Plain).collect()
    }

    /// Returns the vectors of texts; reads those that are kept.
    async fn vectors(&self, texts: &[String], kind: Kind) -> Result<Vec<Vec<f32>>, Failure> {
        let Some(model) = &self.model else { return Ok(Vec::new()) };
        let cut = |text: &String| text[..text.floor_char_boundary(EMBEDDED_BYTES_MAX)].to_owned();
        let texts: Vec<String> = texts.iter().map(cut).collect();
        let is_shown = texts.len() >= SHOWN_MIN;
        let progress = is_shown.then(|| Progress::new("vectors of the arms", texts.len()));
        let mut all = Vec::with_capacity(texts.len());
        for some in texts.chunks(EMBEDDED_TOGETHER) {
            all.extend(self.vectors_of(&**model, some, kind).await?);
            progress.iter().for_each(|progress| progress.add(some.len()));
        }
        progress.iter().for_each(Progress::close);
        Ok(all)
    }

    async fn vectors_of(
        &self,
        model: &dyn Embedder,
        texts: &[String],
        kind: Kind,
    ) -> Result<Vec<Vec<f32>>, Failure> {
        let found: Vec<Option<Vec<f32>>> = match &self.cache {
            Some(cache) => {
                let cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
                texts.iter().map(|text| cache.get(text, kind).cloned()).collect()
            }
            None => vec![None; texts.len()],
        };
        let missing = texts.iter().zip(&found).filter(|(_, found)| found.is_none());
        let missing: Vec<String> = missing.map(|(text, _)| text.clone()).collect();
        let made = match missing.is_empty() {
            true => Vec::new(),
            false => model.embed(&missing, kind).await.map_err(|error| {
                Failure::internal(format!("the configured model makes no vectors: {error}"))
            })?,
        };
        if let Some(cache) = &self.cache {
            let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.keep(&missing, kind, &made)?;
        }
        let mut made = made.into_iter();
        let whole = found.into_iter().map(|found| found.or_else(|| made.next()));
        let whole: Option<Vec<Vec<f32>>> = whole.collect();
        whole.ok_or_else(|| Failure::internal("the configured model made too few vectors"))
    }
}

/// Texts that the search methods rank, and the questions for which they rank them.
pub(super) struct Pool {
    words: Bm25,
    questions: Vec<String>,
    vectors: Vec<Vec<f32>>,
    asked: Vec<Vec<f32>>,
}

impl Pool {
    /// Prepares texts and questions; computes vectors if a model is open.
    pub(super) async fn of(
        arms: &Arms,
        texts: &[String],
        questions: Vec<String>,
    ) -> Result<Pool, Failure> {
        let vectors = arms.vectors(texts, Kind::Passage).await?;
        let asked = arms.vectors(&questions, Kind::Query).await?;
        Ok(Pool { words: Bm25::of(texts), questions, vectors, asked })
    }

    /// Returns the score of each text for a question. `plain` has no scores: the server ranks.
    pub(super) fn scores(&self, arm: Arm, question: usize) -> Vec<f64> {
        let words = || self.words.scores(&self.questions[question]);
        match arm {
            Arm::Plain => Vec::new(),
            Arm::Bm25 => words(),
            Arm::Minilm => self.meaning(question),
            Arm::Rrf => rank_fusion(&words(), &self.meaning(question)),
            Arm::Zsum => z_sum(&words(), &self.meaning(question)),
        }
    }

    /// Returns the cosine of each text with a question; all vectors have length 1.
    fn meaning(&self, question: usize) -> Vec<f64> {
        let asked = &self.asked[question];
        let cosine = |vector: &Vec<f32>| {
            asked.iter().zip(vector).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        self.vectors.iter().map(cosine).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::contexts::order::best_first;
    use vctx_core::text::lexical::Lexical;

    fn arms(cache: Option<&Path>) -> Arms {
        let model: Arc<dyn Embedder> = Arc::new(Lexical::default());
        let cache = cache.map(|path| VectorCache::open(path, model.fingerprint()).unwrap());
        Arms { asked: BTreeSet::new(), model: Some(model), cache: cache.map(Mutex::new) }
    }

    #[tokio::test]
    async fn each_method_ranks_the_text_of_the_question_first_and_kept_vectors_change_nothing() {
        let texts = ["A kite flies.", "The harbour is deep.", "Bread needs salt."];
        let texts = texts.map(str::to_owned);
        let asked = || vec!["How deep is the harbour?".to_owned(), "salt in bread".to_owned()];
        let dir = tempfile::tempdir().unwrap();
        let fresh = Pool::of(&arms(None), &texts, asked()).await.unwrap();
        let kept = Pool::of(&arms(Some(dir.path())), &texts, asked()).await.unwrap();
        let again = Pool::of(&arms(Some(dir.path())), &texts, asked()).await.unwrap();
        for (question, first) in [(0, 1), (1, 2)] {
            for arm in [Arm::Bm25, Arm::Minilm, Arm::Rrf, Arm::Zsum] {
                let scores = fresh.scores(arm, question);
                assert_eq!(best_first(&scores)[0], first, "{arm:?} {scores:?}");
                assert_eq!(scores, kept.scores(arm, question));
                assert_eq!(scores, again.scores(arm, question));
            }
        }
    }

    #[test]
    fn methods_by_meaning_need_a_model() {
        let needing = |arm: &&Arm| arm.needs_model();
        let named: Vec<&str> =
            Arm::value_variants().iter().filter(needing).map(|arm| arm.name()).collect();
        assert_eq!(named, ["minilm", "rrf", "zsum"]);
    }
}
