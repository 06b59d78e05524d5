//! What makes vectors of texts: one trait for all embedders, and the choice between the configured one and the lexical one that is always there.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;

use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::Fingerprint;
use vctx_core::text::lexical::{self, Lexical, embed_document, embed_query, narrowed};

/// What a text is to be compared as; some models prefix the two sides differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What is looked for.
    Query,
    /// What may be found.
    Passage,
}

/// Makes vectors of texts: finite, of length 1, with as many components as its fingerprint says.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// What its vectors are.
    fn fingerprint(&self) -> &Fingerprint;

    /// One vector for each text, each embedded alone. Fails with `EMBEDDER_UNAVAILABLE` as a whole.
    async fn embed(&self, texts: &[String], kind: Kind) -> Result<Vec<Vec<f32>>>;

    /// One vector for each span (in bytes) of a document, each made in the light of the whole (late chunking). An embedder that gives no
    /// token states refuses with `LATE_CHUNKING_REQUIRED`.
    async fn embed_spans(&self, document: &str, spans: &[Range<usize>]) -> Result<Vec<Vec<f32>>>;
}

/// Loads the model in a directory, under a name, and says how long a question may wait for its vector.
pub type LoadModel = fn(&Path, &str, Duration) -> Result<Arc<dyn Embedder>>;

static MODEL: OnceLock<LoadModel> = OnceLock::new();

/// Offers models in this process (`embedder.kind = "local"`). The program does it once, at its start, if it
/// was built with them; a second offer changes nothing.
pub fn offer_model(load: LoadModel) {
    MODEL.get_or_init(|| load);
}

/// How a model in this process is loaded; `None` in a program that was built without.
pub fn model_in_process() -> Option<LoadModel> {
    MODEL.get().copied()
}

#[async_trait]
impl Embedder for Lexical {
    fn fingerprint(&self) -> &Fingerprint {
        self.fingerprint()
    }

    /// Both kinds alike: words are words on either side.
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
    /// The one that the archive is to change to, or has changed to.
    next: Option<Arc<dyn Embedder>>,
}

impl Default for Embedders {
    fn default() -> Self {
        Self::new(Arc::new(Lexical::default()))
    }
}

impl Embedders {
    /// Those of a server that is configured for one.
    pub fn new(configured: Arc<dyn Embedder>) -> Self {
        Self { configured, next: None }
    }

    /// The same, with one that the archive is to change to.
    #[must_use]
    pub fn with_next(self, next: Arc<dyn Embedder>) -> Self {
        Self { next: Some(next), ..self }
    }

    /// What the vectors of the embedder are that the archive is to change to, if one is configured.
    pub fn next(&self) -> Option<&Fingerprint> {
        self.next.as_ref().map(|next| next.fingerprint())
    }

    /// What the configured embedder's vectors are.
    pub fn fingerprint(&self) -> &Fingerprint {
        self.configured.fingerprint()
    }

    /// The configured embedder.
    pub fn configured(&self) -> &Arc<dyn Embedder> {
        &self.configured
    }

    /// Whether a real model is configured: a hashed embedder adds nothing to a ranking by words.
    pub fn has_model(&self) -> bool {
        !lexical::makes(self.fingerprint())
    }

    /// Who makes vectors of that fingerprint; refused with `VECTOR_SETTING_MISMATCH` where nobody here does.
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
            "no embedder of this server makes vectors of the kind that the database holds",
        ))
    }
}

/// Checks what an embedder answered: one vector for each text, of the right length, finite, with a direction; and gives each length 1.
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
                "the embedder gave {} components, configured are {}",
                vector.len(),
                fingerprint.dimension
            ));
        }
        if !vector.iter().all(|component| component.is_finite()) {
            return wrong("the embedder gave a component that is not a finite number".into());
        }
        let square: f64 = vector.iter().map(|c| f64::from(*c) * f64::from(*c)).sum();
        if square == 0.0 {
            return wrong("the embedder gave a vector without a direction".into());
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
            (vec![vec![0.0, 0.0]], 1, "direction"),
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
