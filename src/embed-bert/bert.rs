//! Runs a BERT model with the library candle. Computes vectors of single texts, and vectors of
//! spans (ranges of a document's text). A span's vector is computed from the document's token
//! states, which are the model's output vectors for single tokens.

use std::fs;
use std::num::NonZero;
use std::ops::Range;
use std::path::Path;
use std::thread::{self, ScopedJoinHandle};

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokenizers::Tokenizer;

use super::windows::{Pool, windows};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::Fingerprint;

/// Maximum number of tokens in one input window of a local model, including special tokens. The
/// model all-MiniLM-L6-v2 was trained with windows of 256 tokens. A model with fewer than 256
/// positions gets shorter windows.
const BERT_TOKENS_MAX: usize = 256;
/// Maximum number of tokens in one batch, including padding. One thread reads a batch, so that the
/// batches and with them the last digits of the vectors are the same with any number of cores.
const BERT_BATCH_TOKENS_MAX: usize = 256;
/// Maximum number of batches that are read at the same time, on one core each.
const BERT_THREADS_MAX: usize = 8;
/// Maximum size of a model file, in bytes.
const BERT_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// A loaded model with its tokenizer.
pub(super) struct Bert {
    fingerprint: Fingerprint,
    model: BertModel,
    tokenizer: Tokenizer,
    /// Number of tokens in one input window, including special tokens.
    window_tokens: usize,
    marks: Marks,
    pad: u32,
    /// Pools of one thread each. candle splits each product among the threads of the pool that
    /// calls it, which takes longer for short texts than to read several batches side by side.
    threads: Vec<ThreadPool>,
}

/// Special tokens that the model expects around a text (`[CLS]`, `[SEP]`).
struct Marks {
    before: Vec<u32>,
    behind: Vec<u32>,
}

/// A tokenized text: token ids, and the start of each token in bytes.
struct Tokens {
    ids: Vec<u32>,
    starts: Vec<usize>,
}

fn unusable(what: &str) -> impl Fn(String) -> Error + '_ {
    move |why| Error::argument("embedder.model_dir", format!("{what}: {why}"))
}

fn failed<E: std::fmt::Display>(error: E) -> Error {
    Error::new(Code::EmbedderUnavailable, "the local model failed").caused_by(error.to_string())
}

impl Bert {
    /// Loads `config.json`, `tokenizer.json` and `model.safetensors` of a directory. The model's
    /// name is `name`, or the directory's name if `name` is empty. The model's version is a digest
    /// of the three files and the pooling method, so that a model with other weights counts as
    /// another embedder.
    pub(super) fn load(directory: &Path, name: &str) -> Result<Self> {
        let config = read(directory, "config.json")?;
        let tokenizer_bytes = read(directory, "tokenizer.json")?;
        let weights = read(directory, "model.safetensors")?;
        let described: Value =
            serde_json::from_slice(&config).map_err(|e| unusable("config.json")(e.to_string()))?;
        if described["model_type"] != "bert" {
            let kind = described["model_type"].to_string();
            return Err(unusable("config.json")(format!("model_type is {kind}, not bert")));
        }
        check_pooling(directory)?;
        let parsed: Config = serde_json::from_value(described)
            .map_err(|e| unusable("config.json")(e.to_string()))?;
        let mut tokenizer = Tokenizer::from_bytes(&tokenizer_bytes)
            .map_err(|e| unusable("tokenizer.json")(e.to_string()))?;
        // Truncation and padding are disabled. Otherwise the settings in the tokenizer file could
        // silently truncate long texts and pad short ones.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|e| unusable("tokenizer.json")(e.to_string()))?;
        let marks = marks(&tokenizer)?;
        let window_tokens = BERT_TOKENS_MAX.min(parsed.max_position_embeddings);
        if window_tokens < marks.before.len() + marks.behind.len() + 2 {
            return Err(unusable("config.json")("max_position_embeddings leaves no room".into()));
        }
        let mut digest = Sha256::new();
        for part in [&weights, &tokenizer_bytes, &config] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        digest.update(format!("mean, {window_tokens} tokens"));
        let version: String =
            digest.finalize().iter().take(VERSION_BYTES).map(|b| format!("{b:02x}")).collect();
        let own_name = directory.file_name().map(|n| n.to_string_lossy().into_owned());
        let fingerprint = Fingerprint {
            model_id: if name.is_empty() { own_name.unwrap_or_default() } else { name.to_owned() },
            embedding_version: version,
            dimension: u32::try_from(parsed.hidden_size).unwrap_or(u32::MAX),
        };
        let broken = |e: candle_core::Error| unusable("model.safetensors")(e.to_string());
        let variables = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu)
            .map_err(broken)?;
        let model = BertModel::load(variables, &parsed).map_err(broken)?;
        let pad = u32::try_from(parsed.pad_token_id).unwrap_or(0);
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let one = |_| ThreadPoolBuilder::new().num_threads(1).build();
        let threads: std::result::Result<Vec<_>, _> =
            (0..cores.min(BERT_THREADS_MAX)).map(one).collect();
        let threads = threads.map_err(failed)?;
        Ok(Self { fingerprint, model, tokenizer, window_tokens, marks, pad, threads })
    }

    /// Returns the fingerprint of the model's vectors.
    pub(super) fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Computes one vector for each text: the mean of the text's token states, including the states
    /// of special tokens, as in the model's training. For a text of several windows, the mean
    /// covers all windows, but not the special tokens. Texts of similar length form a batch;
    /// between batches, the function `between` is called, and the work ends with an error if it
    /// returns false.
    pub(super) fn embed(
        &self,
        texts: &[String],
        between: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Vec<f32>>> {
        let mut vectors = vec![Vec::new(); texts.len()];
        let mut short: Vec<(usize, Vec<u32>)> = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            let tokens = self.tokens(text)?;
            if tokens.ids.len() <= self.inner_tokens() {
                short.push((at, self.marked(&tokens.ids)));
            } else {
                let whole = 0..text.len();
                let pooled = self.pooled(&tokens, std::slice::from_ref(&whole), between)?;
                vectors[at] = pooled.into_iter().next().unwrap_or_default();
            }
        }
        // The windows are sorted by length, since windows of similar length need little padding.
        // The returned vectors keep the order of the texts.
        short.sort_by_key(|(_, ids)| ids.len());
        let (places, ids): (Vec<usize>, Vec<Vec<u32>>) = short.into_iter().unzip();
        self.read(&ids, between, &mut |window, states| {
            let mut pool = Pool::new(1, self.dimension());
            states.chunks_exact(self.dimension()).for_each(|state| pool.add(0, state, 1.0));
            vectors[places[window]] = pool.unit().into_iter().next().unwrap_or_default();
        })?;
        Ok(vectors)
    }

    /// Computes one vector for each span of a document, from the states of the document's tokens.
    pub(super) fn embed_spans(
        &self,
        document: &str,
        spans: &[Range<usize>],
        between: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Vec<f32>>> {
        let tokens = self.tokens(document)?;
        if tokens.ids.is_empty() {
            // A text that is only white space has no tokens of its own, so its vector is computed
            // from the special tokens.
            return self.embed(&vec![String::new(); spans.len()], between);
        }
        self.pooled(&tokens, spans, between)
    }

    /// Returns for each question the two numbers of its likeness with each text, one after the
    /// other: the cosine of the mean states, and the mean over the question's tokens of the
    /// greatest cosine with a token of the text. Of a long text, the first window counts.
    pub(super) fn compare(
        &self,
        questions: &[String],
        texts: &[String],
        between: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Vec<f32>>> {
        let asked = self.token_states(questions, between)?;
        let found = self.token_states(texts, between)?;
        let row = |one: &TokenStates| {
            found.iter().flat_map(|other| one.likeness(other, self.dimension())).collect()
        };
        Ok(asked.iter().map(row).collect())
    }

    /// Returns the states of the tokens of each text's first window, and their mean.
    fn token_states(
        &self,
        texts: &[String],
        between: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<TokenStates>> {
        let mut all = vec![TokenStates::default(); texts.len()];
        let mut windows = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            let mut ids = self.tokens(text)?.ids;
            ids.truncate(self.inner_tokens());
            windows.push((at, self.marked(&ids)));
        }
        windows.sort_by_key(|(_, ids)| ids.len());
        let (places, ids): (Vec<usize>, Vec<Vec<u32>>) = windows.into_iter().unzip();
        self.read(&ids, between, &mut |window, states| {
            let own = self.marks.before.len()..ids[window].len() - self.marks.behind.len();
            all[places[window]] = TokenStates::of(states, own, self.dimension());
        })?;
        Ok(all)
    }

    fn pooled(
        &self,
        tokens: &Tokens,
        spans: &[Range<usize>],
        between: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Vec<f32>>> {
        let length = tokens.ids.len();
        let places: Vec<Range<usize>> = spans.iter().map(|span| tokens.within(span)).collect();
        let windows = windows(length, self.inner_tokens());
        let mut cover = vec![0_u32; length];
        windows.iter().flat_map(Clone::clone).for_each(|token| cover[token] += 1);
        let mut pool = Pool::new(spans.len(), self.dimension());
        let ids: Vec<Vec<u32>> =
            windows.iter().map(|window| self.marked(&tokens.ids[window.clone()])).collect();
        self.read(&ids, between, &mut |window, states| {
            let window = &windows[window];
            let states = &states[self.marks.before.len() * self.dimension()..];
            for (span, place) in places.iter().enumerate() {
                let shared = place.start.max(window.start)..place.end.min(window.end);
                for token in shared {
                    let at = (token - window.start) * self.dimension();
                    let state = &states[at..at + self.dimension()];
                    let share = 1.0 / f64::from(cover[token]);
                    pool.add(span, state, share);
                }
            }
        })?;
        Ok(pool.unit())
    }

    /// Reads windows in batches, several at the same time, and calls `note` with the number of each
    /// window and the states of its tokens, one after the other.
    fn read(
        &self,
        windows: &[Vec<u32>],
        between: &mut dyn FnMut() -> bool,
        note: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<()> {
        let mut done = 0;
        while done < windows.len() {
            let mut batches = Vec::with_capacity(self.threads.len());
            let mut end = done;
            while end < windows.len() && batches.len() < self.threads.len() {
                let count = self.batch(windows[end..].iter().map(Vec::len));
                batches.push(&windows[end..end + count]);
                end += count;
            }
            let read: Vec<Result<Vec<Vec<f32>>>> = thread::scope(|scope| {
                let begun = self.threads.iter().zip(&batches);
                let begun: Vec<_> = begun
                    .map(|(own, batch)| scope.spawn(|| own.install(|| self.states(batch))))
                    .collect();
                let ended = |one: ScopedJoinHandle<'_, _>| {
                    one.join().unwrap_or_else(|_| Err(failed("a batch panicked")))
                };
                begun.into_iter().map(ended).collect()
            });
            for states in read {
                for states in states? {
                    note(done, &states[..windows[done].len() * self.dimension()]);
                    done += 1;
                }
            }
            if done < windows.len() && !between() {
                return Err(failed("the caller waits no longer"));
            }
        }
        Ok(())
    }

    /// Returns ids and byte offsets of a text's tokens, without special tokens.
    fn tokens(&self, text: &str) -> Result<Tokens> {
        let encoding = self.tokenizer.encode(text, false).map_err(failed)?;
        let starts = encoding.get_offsets().iter().map(|(start, _)| *start).collect();
        Ok(Tokens { ids: encoding.get_ids().to_vec(), starts })
    }

    fn marked(&self, ids: &[u32]) -> Vec<u32> {
        [&self.marks.before, ids, &self.marks.behind].concat()
    }

    fn dimension(&self) -> usize {
        self.fingerprint.dimension as usize
    }

    fn mark_tokens(&self) -> usize {
        self.marks.before.len() + self.marks.behind.len()
    }

    /// Returns the number of tokens in an input window, without special tokens.
    fn inner_tokens(&self) -> usize {
        self.window_tokens - self.mark_tokens()
    }

    /// Returns how many of the next windows form a batch: as many as the token limit allows, but at
    /// least one. Every window of a batch counts with the length of the batch's longest window,
    /// because all are padded to this length.
    fn batch(&self, lengths: impl Iterator<Item = usize>) -> usize {
        let (mut longest, mut count) = (0, 0);
        for length in lengths {
            longest = longest.max(length);
            if count > 0 && longest * (count + 1) > BERT_BATCH_TOKENS_MAX {
                break;
            }
            count += 1;
        }
        count
    }

    /// Returns the model's last hidden states for each window of a batch: the states of the
    /// window's tokens, one after the other. Each window is padded to the length of the longest.
    fn states(&self, windows: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        let longest = windows.iter().map(Vec::len).max().unwrap_or(0);
        let mut ids = Vec::with_capacity(windows.len() * longest);
        let mut mask = Vec::with_capacity(windows.len() * longest);
        for window in windows {
            let padding = longest - window.len();
            ids.extend_from_slice(window);
            ids.extend(std::iter::repeat_n(self.pad, padding));
            mask.extend(std::iter::repeat_n(1_u32, window.len()));
            mask.extend(std::iter::repeat_n(0_u32, padding));
        }
        let shape = (windows.len(), longest);
        let run = || {
            let ids = Tensor::from_vec(ids, shape, &Device::Cpu)?;
            let mask = Tensor::from_vec(mask, shape, &Device::Cpu)?;
            let kinds = ids.zeros_like()?;
            let states = self.model.forward(&ids, &kinds, Some(&mask))?.flatten_all()?;
            states.to_vec1::<f32>()
        };
        let states = run().map_err(failed)?;
        Ok(states.chunks(longest * self.dimension()).map(<[f32]>::to_vec).collect())
    }
}

/// The states of a text's tokens, each scaled to length 1.
#[derive(Clone, Default)]
struct TokenStates {
    /// Mean of all states, including those of special tokens.
    mean: Vec<f32>,
    /// States of the text's own tokens, one after the other.
    own: Vec<f32>,
}

impl TokenStates {
    /// `own` has the places of the text's own tokens among all states.
    fn of(states: &[f32], own: Range<usize>, dimension: usize) -> Self {
        let mut mean = Pool::new(1, dimension);
        states.chunks_exact(dimension).for_each(|state| mean.add(0, state, 1.0));
        let unit = |state: &[f32]| {
            let mut pool = Pool::new(1, dimension);
            pool.add(0, state, 1.0);
            pool.unit().concat()
        };
        let own = &states[own.start * dimension..own.end * dimension];
        Self {
            mean: mean.unit().concat(),
            own: own.chunks_exact(dimension).flat_map(unit).collect(),
        }
    }

    fn likeness(&self, text: &Self, dimension: usize) -> [f32; 2] {
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let whole = product(&self.mean, &text.mean);
        let greatest = |state: &[f32]| {
            text.own.chunks_exact(dimension).map(|other| product(state, other)).fold(0.0, f32::max)
        };
        let tokens = self.own.chunks_exact(dimension);
        let count = tokens.len();
        let sum: f32 = tokens.map(greatest).sum();
        [whole, if count == 0 { whole } else { sum / count as f32 }]
    }
}

impl Tokens {
    /// Returns the tokens that begin within a span. If no token begins there, returns the token
    /// before the span, or the document's first token if no token is before the span.
    fn within(&self, span: &Range<usize>) -> Range<usize> {
        let first = self.starts.partition_point(|start| *start < span.start);
        let end = self.starts.partition_point(|start| *start < span.end);
        if first < end {
            return first..end;
        }
        let nearest = first.saturating_sub(1);
        nearest..nearest + 1
    }
}

/// Number of digest bytes in a model's version.
const VERSION_BYTES: usize = 8;

fn read(directory: &Path, name: &str) -> Result<Vec<u8>> {
    let path = directory.join(name);
    let length = fs::metadata(&path).map_err(|e| unusable(name)(e.to_string()))?.len();
    if length > BERT_FILE_BYTES_MAX {
        return Err(unusable(name)(format!("{length} bytes, at most {BERT_FILE_BYTES_MAX}")));
    }
    fs::read(&path).map_err(|e| unusable(name)(e.to_string()))
}

/// Returns an error if the model configures a pooling method other than the mean.
fn check_pooling(directory: &Path) -> Result<()> {
    let name = "1_Pooling/config.json";
    if !directory.join(name).exists() {
        return Ok(());
    }
    let told: Value = serde_json::from_slice(&read(directory, name)?)
        .map_err(|e| unusable(name)(e.to_string()))?;
    if told["pooling_mode_mean_tokens"] == Value::Bool(false) {
        return Err(unusable(name)("the model's pooling method is not the mean".into()));
    }
    Ok(())
}

/// Returns the special tokens that the tokenizer puts around a text.
fn marks(tokenizer: &Tokenizer) -> Result<Marks> {
    let broken = |e: tokenizers::Error| unusable("tokenizer.json")(e.to_string());
    let bare = tokenizer.encode("a", false).map_err(broken)?;
    let marked = tokenizer.encode("a", true).map_err(broken)?;
    let (bare, marked) = (bare.get_ids(), marked.get_ids());
    let at = (0..=marked.len().saturating_sub(bare.len()))
        .find(|at| marked[*at..].starts_with(bare))
        .ok_or_else(|| {
            unusable("tokenizer.json")(
                "the tokenizer puts special tokens within the text, not only around it".into(),
            )
        })?;
    let (before, behind) = (marked[..at].to_vec(), marked[at + bare.len()..].to_vec());
    Ok(Marks { before, behind })
}
