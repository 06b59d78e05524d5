//! Embeds texts as vectors: defines the trait of all embedders, and selects the embedder that makes
//! vectors with a given fingerprint.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;

use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::Fingerprint;
use vctx_core::search::Likeness;
use vctx_core::text::lexical::{self, Lexical, embed_document, embed_query, narrowed};

/// The role of a text in a similarity comparison; some models expect a different prefix for each
/// role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A query: a text to search for.
    Query,
    /// A passage: a text that a search can find.
    Passage,
}

/// An embedder, which computes vectors of texts. The vectors are finite, have length 1, and have
/// the dimension that the embedder's fingerprint states.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// Returns the fingerprint of this embedder, which identifies its model and the properties of
    /// its vectors.
    fn fingerprint(&self) -> &Fingerprint;

    /// Returns one vector for each text. The vector of a text does not depend on the other texts. A
    /// call that fails with `EMBEDDER_UNAVAILABLE` returns no vector for any of the texts.
    async fn embed(&self, texts: &[String], kind: Kind) -> Result<Vec<Vec<f32>>>;

    /// Returns one vector for each span (in bytes) of a document; each vector depends on the whole
    /// document (late chunking). An embedder that gives no vectors of single tokens fails with
    /// `LATE_CHUNKING_REQUIRED`.
    async fn embed_spans(&self, document: &str, spans: &[Range<usize>]) -> Result<Vec<Vec<f32>>>;

    /// Whether this embedder compares texts by the vectors of their single tokens.
    fn has_token_vectors(&self) -> bool {
        false
    }

    /// Returns for each question how near each text is to it in meaning. An embedder that gives no
    /// vectors of single tokens compares the vectors of whole texts. Fails as `embed` does.
    async fn compare(&self, questions: &[String], texts: &[String]) -> Result<Vec<Vec<Likeness>>> {
        let asked = self.embed(questions, Kind::Query).await?;
        let found = self.embed(texts, Kind::Passage).await?;
        Ok(likeness_of(&asked, &found))
    }
}

/// Returns for each vector of a question the cosine with the vector of each text.
pub fn likeness_of(questions: &[Vec<f32>], texts: &[Vec<f32>]) -> Vec<Vec<Likeness>> {
    let likeness = |one: &Vec<f32>, other: &Vec<f32>| {
        let whole = one.iter().zip(other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        Likeness { whole, words: whole }
    };
    let row = |one| texts.iter().map(|other| likeness(one, other)).collect();
    questions.iter().map(row).collect()
}

/// A function that loads the model from a directory. The arguments are the directory, a name for
/// the model, and the maximum time that a query waits for its vector.
pub type LoadModel = fn(&Path, &str, Duration) -> Result<Arc<dyn Embedder>>;

static MODEL: OnceLock<LoadModel> = OnceLock::new();

/// Registers the function that loads a model into this process (`embedder.kind = "local"`). A
/// program that is built with local models calls this once at its start; a second call has no
/// effect.
pub fn offer_model(load: LoadModel) {
    MODEL.get_or_init(|| load);
}

/// Returns the function that loads a model into this process; `None` in a program that is built
/// without local models.
pub fn model_in_process() -> Option<LoadModel> {
    MODEL.get().copied()
}

#[async_trait]
impl Embedder for Lexical {
    fn fingerprint(&self) -> &Fingerprint {
        self.fingerprint()
    }

    /// The lexical embedder treats queries and passages alike.
    async fn embed(&self, texts: &[String], _: Kind) -> Result<Vec<Vec<f32>>> {
        let vector = |text: &String| narrowed(&embed_query(text, self.dimension()));
        Ok(texts.iter().map(vector).collect())
    }

    async fn embed_spans(&self, document: &str, spans: &[Range<usize>]) -> Result<Vec<Vec<f32>>> {
        let chunks: Vec<String> =
            spans.iter().map(|span| document[span.clone()].to_owned()).collect();
        let dimension = self.dimension();
        let made = tokio::task::spawn_blocking(move || embed_document(&chunks, dimension)).await;
        let stopped = |e| Error::new(Code::Internal, "the embedder stopped").caused_by(e);
        Ok(made.map_err(stopped)?.iter().map(|vector| narrowed(vector)).collect())
    }
}

/// The embedders of a server.
#[derive(Clone)]
pub struct Embedders {
    configured: Arc<dyn Embedder>,
    /// The embedder of the next vector setting. A reindex changes the archive to this embedder, or
    /// has already done so.
    next: Option<Arc<dyn Embedder>>,
}

impl Default for Embedders {
    fn default() -> Self {
        Self::new(Arc::new(Lexical::default()))
    }
}

impl Embedders {
    /// Creates the embedders of a server that has only the configured embedder.
    pub fn new(configured: Arc<dyn Embedder>) -> Self {
        Self { configured, next: None }
    }

    /// Adds the embedder to which a reindex changes the archive.
    #[must_use]
    pub fn with_next(self, next: Arc<dyn Embedder>) -> Self {
        Self { next: Some(next), ..self }
    }

    /// Returns these embedders with others in place of the configured one and the next one.
    #[must_use]
    pub fn replaced(
        self,
        configured: Option<Arc<dyn Embedder>>,
        next: Option<Arc<dyn Embedder>>,
    ) -> Self {
        Self { configured: configured.unwrap_or(self.configured), next: next.or(self.next) }
    }

    /// Returns the fingerprint of the embedder to which a reindex changes the archive, if such an
    /// embedder is configured.
    pub fn next(&self) -> Option<&Fingerprint> {
        self.next.as_ref().map(|next| next.fingerprint())
    }

    /// Returns the fingerprint of the configured embedder.
    pub fn fingerprint(&self) -> &Fingerprint {
        self.configured.fingerprint()
    }

    /// Returns the configured embedder.
    pub fn configured(&self) -> &Arc<dyn Embedder> {
        &self.configured
    }

    /// Whether an embedding model is configured. The lexical embedder is not a model: its vectors
    /// do not improve a ranking by words.
    pub fn has_model(&self) -> bool {
        !lexical::makes(self.fingerprint())
    }

    /// Returns the embedder with the given fingerprint, or the error `VECTOR_SETTING_MISMATCH` if
    /// this server has no such embedder.
    pub fn of(&self, wanted: &Fingerprint) -> Result<Arc<dyn Embedder>> {
        if wanted == self.fingerprint() {
            return Ok(Arc::clone(&self.configured));
        }
        if let Some(next) = self.next.as_ref().filter(|next| next.fingerprint() == wanted) {
            return Ok(Arc::clone(next));
        }
        if lexical::makes(wanted) {
            return Ok(Arc::new(Lexical::new(wanted.dimension)));
        }
        Err(Error::new(
            Code::VectorSettingMismatch,
            "no embedder of this server makes vectors with the vector setting of the database",
        ))
    }
}

/// Checks the answer of an embedder, and scales each vector to length 1. The answer must contain
/// one vector for each text. Each vector must have the right dimension, finite components, and a
/// length above zero.
pub fn checked(
    fingerprint: &Fingerprint,
    mut vectors: Vec<Vec<f32>>,
    texts: usize,
) -> Result<Vec<Vec<f32>>> {
    let wrong = |message: String| Err(Error::new(Code::EmbedderUnavailable, message));
    if vectors.len() != texts {
        return wrong(format!("the embedder gave {} vectors for {texts} texts", vectors.len()));
    }
    for vector in &mut vectors {
        if vector.len() as u64 != u64::from(fingerprint.dimension) {
            return wrong(format!(
                "the embedder gave a vector of {} components, but the configured dimension is {}",
                vector.len(),
                fingerprint.dimension
            ));
        }
        if !vector.iter().all(|component| component.is_finite()) {
            return wrong("the embedder gave a component that is not a finite number".into());
        }
        let square: f64 = vector.iter().map(|c| f64::from(*c) * f64::from(*c)).sum();
        if square == 0.0 {
            return wrong("the embedder gave a vector of length zero".into());
        }
        let length = square.sqrt();
        vector.iter_mut().for_each(|c| *c = (f64::from(*c) / length) as f32);
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(dimension: u32) -> Fingerprint {
        Fingerprint { model_id: "m".into(), embedding_version: "1".into(), dimension }
    }

    #[test]
    fn what_is_no_vector_of_the_kind_is_refused() {
        for (vectors, texts, why) in [
            (vec![vec![1.0, 0.0]], 2, "1 vectors for 2"),
            (vec![vec![1.0]], 1, "1 components"),
            (vec![vec![1.0, f32::NAN]], 1, "finite"),
            (vec![vec![1.0, f32::INFINITY]], 1, "finite"),
            (vec![vec![0.0, 0.0]], 1, "length zero"),
        ] {
            let error = checked(&print(2), vectors, texts).unwrap_err();
            assert_eq!(error.code, Code::EmbedderUnavailable);
            assert!(error.message.contains(why), "{error}");
        }
        assert_eq!(checked(&print(2), vec![vec![3.0, 4.0]], 1).unwrap(), [[0.6, 0.8]]);
    }

    #[tokio::test]
    async fn the_lexical_one_answers_for_its_own_vectors_of_any_length_and_for_no_others() {
        let embedders = Embedders::default();
        assert!(!embedders.has_model());
        let short = Fingerprint { dimension: 64, ..lexical::OWN.clone() };
        let made =
            embedders.of(&short).unwrap().embed(&["a boat".into()], Kind::Query).await.unwrap();
        assert_eq!(made[0].len(), 64);
        let error = embedders.of(&print(64)).err().unwrap();
        assert_eq!(error.code, Code::VectorSettingMismatch);
    }

    #[test]
    fn the_next_one_answers_for_its_own_vectors() {
        let embedders = Embedders::default().with_next(Arc::new(Lexical::new(64)));
        assert_eq!(embedders.next().unwrap().dimension, 64);
        assert_eq!(embedders.fingerprint().dimension, lexical::OWN.dimension);
        assert!(embedders.of(&print(64)).is_err());
    }
}
