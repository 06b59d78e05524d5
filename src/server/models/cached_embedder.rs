//! Caches an embedder's vectors, keyed by the hash of the embedded texts.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::models::limits::EMBED_BATCH_TEXTS_MAX;
use vctx_base::embedder::{Embedder, Kind, checked, likeness_of};
use vctx_base::metric;
use vctx_core::error::Result;
use vctx_core::memory::Fingerprint;
use vctx_core::memory::receipt::sha256;
use vctx_core::search::Likeness;

/// Maximum number of vectors in a server's cache (25 MB for vectors of 384 components).
const EMBED_CACHED_MAX: usize = 16_384;

/// An embedder with a cache of its vectors.
pub struct CachedEmbedder {
    inner: Arc<dyn Embedder>,
    kept: Mutex<VectorCache>,
}

/// The two halves of the vector cache. A vector found in the old half moves to the young half. A
/// full young half replaces the old half, whose vectors are lost.
#[derive(Default)]
struct VectorCache {
    young: HashMap<String, Vec<f32>>,
    old: HashMap<String, Vec<f32>>,
}

impl VectorCache {
    fn get(&mut self, key: &str) -> Option<Vec<f32>> {
        if let Some(vector) = self.young.get(key) {
            return Some(vector.clone());
        }
        let vector = self.old.remove(key)?;
        self.put(key.to_owned(), vector.clone());
        Some(vector)
    }

    fn put(&mut self, key: String, vector: Vec<f32>) {
        if self.young.len() >= EMBED_CACHED_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, vector);
    }
}

impl CachedEmbedder {
    /// Adds a cache to an embedder.
    pub fn new(inner: Arc<dyn Embedder>) -> Self {
        Self { inner, kept: Mutex::default() }
    }

    /// Returns the cached vectors of the given texts, with `None` for each missing one.
    fn recalled(&self, keys: &[String]) -> Vec<Option<Vec<f32>>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().map(|key| kept.get(key)).collect()
    }
}

#[async_trait]
impl Embedder for CachedEmbedder {
    fn fingerprint(&self) -> &Fingerprint {
        self.inner.fingerprint()
    }

    async fn embed(&self, texts: &[String], kind: Kind) -> Result<Vec<Vec<f32>>> {
        let keys: Vec<String> = texts.iter().map(|text| key(text, kind)).collect();
        let mut found = self.recalled(&keys);
        let mut missing: Vec<usize> = Vec::new();
        let mut asked: HashMap<&str, usize> = HashMap::new();
        for at in (0..texts.len()).filter(|at| found[*at].is_none()) {
            asked.entry(&keys[at]).or_insert_with(|| {
                missing.push(at);
                missing.len() - 1
            });
        }
        let hits = (texts.len() - missing.len()) as u64;
        metrics::counter!(metric::EMBEDDER_TEXTS, "from" => "memory").increment(hits);
        metrics::counter!(metric::EMBEDDER_TEXTS, "from" => "model")
            .increment(missing.len() as u64);
        let mut made: Vec<Vec<f32>> = Vec::with_capacity(missing.len());
        // Each batch is cached immediately, so that it is kept even if a later batch fails or the
        // caller leaves.
        for part in missing.chunks(EMBED_BATCH_TEXTS_MAX) {
            let new: Vec<String> = part.iter().map(|at| texts[*at].clone()).collect();
            let answer = self.inner.embed(&new, kind).await?;
            let vectors = checked(self.fingerprint(), answer, new.len())?;
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            for (at, vector) in part.iter().zip(vectors) {
                kept.put(keys[*at].clone(), vector.clone());
                made.push(vector);
            }
        }
        for at in 0..texts.len() {
            if found[at].is_none() {
                found[at] = asked.get(keys[at].as_str()).map(|place| made[*place].clone());
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    async fn embed_spans(&self, document: &str, spans: &[Range<usize>]) -> Result<Vec<Vec<f32>>> {
        // The spans of a document are embedded together, so a single missing vector makes it
        // necessary to embed all spans again.
        let whole = sha256(document);
        let key = |span: &Range<usize>| format!("span {} {} {whole}", span.start, span.end);
        let keys: Vec<String> = spans.iter().map(key).collect();
        let found: Option<Vec<Vec<f32>>> = self.recalled(&keys).into_iter().collect();
        let count = spans.len() as u64;
        if let Some(found) = found {
            metrics::counter!(metric::EMBEDDER_TEXTS, "from" => "memory").increment(count);
            return Ok(found);
        }
        metrics::counter!(metric::EMBEDDER_TEXTS, "from" => "model").increment(count);
        let made = self.inner.embed_spans(document, spans).await?;
        let made = checked(self.fingerprint(), made, spans.len())?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, vector) in keys.into_iter().zip(&made) {
            kept.put(key, vector.clone());
        }
        Ok(made)
    }

    fn has_token_vectors(&self) -> bool {
        self.inner.has_token_vectors()
    }

    async fn compare(&self, questions: &[String], texts: &[String]) -> Result<Vec<Vec<Likeness>>> {
        if self.inner.has_token_vectors() {
            // The vectors of single tokens are too large for the cache.
            return self.inner.compare(questions, texts).await;
        }
        let asked = self.embed(questions, Kind::Query).await?;
        let found = self.embed(texts, Kind::Passage).await?;
        Ok(likeness_of(&asked, &found))
    }
}

fn key(text: &str, kind: Kind) -> String {
    match kind {
        Kind::Query => sha256(&format!("query\0{text}")),
        Kind::Passage => sha256(&format!("passage\0{text}")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use vctx_core::error::{Code, Error};
    use vctx_core::text::lexical::Lexical;

    /// An embedder that counts the texts it gets, and refuses some of them.
    struct Counting(Lexical, AtomicUsize);

    #[async_trait]
    impl Embedder for Counting {
        fn fingerprint(&self) -> &Fingerprint {
            self.0.fingerprint()
        }

        async fn embed(&self, texts: &[String], kind: Kind) -> Result<Vec<Vec<f32>>> {
            if texts.iter().any(|text| text == "unspeakable") {
                return Err(Error::new(Code::EmbedderUnavailable, "no"));
            }
            self.1.fetch_add(texts.len(), Ordering::SeqCst);
            self.0.embed(texts, kind).await
        }

        async fn embed_spans(&self, text: &str, spans: &[Range<usize>]) -> Result<Vec<Vec<f32>>> {
            self.1.fetch_add(spans.len(), Ordering::SeqCst);
            self.0.embed_spans(text, spans).await
        }
    }

    /// An embedder whose likeness of single tokens is always one half.
    struct ByTokens(Lexical);

    #[async_trait]
    impl Embedder for ByTokens {
        fn fingerprint(&self) -> &Fingerprint {
            self.0.fingerprint()
        }

        async fn embed(&self, texts: &[String], kind: Kind) -> Result<Vec<Vec<f32>>> {
            self.0.embed(texts, kind).await
        }

        async fn embed_spans(&self, text: &str, spans: &[Range<usize>]) -> Result<Vec<Vec<f32>>> {
            self.0.embed_spans(text, spans).await
        }

        fn has_token_vectors(&self) -> bool {
            true
        }

        async fn compare(&self, _: &[String], texts: &[String]) -> Result<Vec<Vec<Likeness>>> {
            Ok(vec![vec![Likeness { whole: 1.0, words: 0.5 }; texts.len()]])
        }
    }

    #[tokio::test]
    async fn texts_are_compared_by_their_tokens_if_the_embedder_can() {
        let (asked, found) = (texts(&["a boat"]), texts(&["a boat", "a sail"]));
        let by_tokens = CachedEmbedder::new(Arc::new(ByTokens(Lexical::new(8))));
        let likeness = by_tokens.compare(&asked, &found).await.unwrap();
        assert_eq!(likeness[0].iter().map(|one| one.words).collect::<Vec<f64>>(), [0.5, 0.5]);
        let counting = Arc::new(Counting(Lexical::new(8), AtomicUsize::new(0)));
        let by_vectors = CachedEmbedder::new(Arc::clone(&counting) as Arc<dyn Embedder>);
        for _ in 0..2 {
            let likeness = by_vectors.compare(&asked, &found).await.unwrap();
            assert!(likeness[0][0].whole > 0.999 && likeness[0][1].whole < 0.999, "{likeness:?}");
            assert_eq!(counting.1.load(Ordering::SeqCst), 3, "the cache keeps the vectors");
        }
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[tokio::test]
    async fn a_text_is_embedded_once_and_each_answer_stands_in_its_place() {
        let counting = Arc::new(Counting(Lexical::new(8), AtomicUsize::new(0)));
        let remembered = CachedEmbedder::new(Arc::clone(&counting) as Arc<dyn Embedder>);
        let plain = Lexical::new(8);
        for (list, made) in
            [(&["a boat", "a sail", "a boat"][..], 2), (&["a sail", "a mast"], 3), (&[], 3)]
        {
            let list = texts(list);
            let found = remembered.embed(&list, Kind::Passage).await.unwrap();
            for (vector, text) in found.iter().zip(&list) {
                let alone = plain.embed(std::slice::from_ref(text), Kind::Passage).await.unwrap();
                let near: f32 = vector.iter().zip(&alone[0]).map(|(a, b)| a * b).sum();
                assert!(near > 0.9999, "{text}");
            }
            assert_eq!(found.len(), list.len());
            assert_eq!(counting.1.load(Ordering::SeqCst), made);
        }
        remembered.embed(&texts(&["a mast"]), Kind::Query).await.unwrap();
        assert_eq!(counting.1.load(Ordering::SeqCst), 4, "a query is not a passage");
        for _ in 0..2 {
            remembered.embed_spans("a boat, a sail", &[0..6, 8..14]).await.unwrap();
            assert_eq!(counting.1.load(Ordering::SeqCst), 6, "the cache keeps spans");
        }
        remembered.embed_spans("a boat, a sail, a mast", &[0..6, 8..14]).await.unwrap();
        assert_eq!(counting.1.load(Ordering::SeqCst), 8, "spans of another document");
    }

    #[tokio::test]
    async fn what_was_made_before_a_failure_is_not_made_again() {
        let counting = Arc::new(Counting(Lexical::new(8), AtomicUsize::new(0)));
        let remembered = CachedEmbedder::new(Arc::clone(&counting) as Arc<dyn Embedder>);
        let count = EMBED_BATCH_TEXTS_MAX * 2;
        let mut list: Vec<String> = (0..count).map(|n| format!("boat {n}")).collect();
        list.push("unspeakable".into());
        assert!(remembered.embed(&list, Kind::Passage).await.is_err());
        assert_eq!(counting.1.load(Ordering::SeqCst), count);
        list.pop();
        assert_eq!(remembered.embed(&list, Kind::Passage).await.unwrap().len(), count);
        assert_eq!(counting.1.load(Ordering::SeqCst), count);
    }

    #[test]
    fn the_memory_has_an_end_and_keeps_what_is_asked_for() {
        let mut kept = VectorCache::default();
        kept.put("asked".into(), vec![1.0]);
        for n in 0..EMBED_CACHED_MAX * 2 {
            kept.put(n.to_string(), vec![0.0]);
            assert!(kept.young.len() + kept.old.len() <= EMBED_CACHED_MAX);
            if n % 100 == 0 {
                assert!(kept.get("asked").is_some(), "after {n}");
            }
        }
        assert!(kept.get("0").is_none());
    }
}
