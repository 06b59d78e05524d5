//! Runs the local model on a separate thread with a bounded queue of calls.
//!
//! Queries are answered between two batches of longer work.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Semaphore, oneshot};

use super::bert::Bert;
use vctx_base::embedder::{Embedder, Kind};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::MODEL_MS_MAX;
use vctx_core::memory::Fingerprint;
use vctx_core::search::Likeness;

/// Maximum number of calls that wait for the local model.
const EMBED_WAITING_MAX: usize = 64;

/// An embedder that sends its calls to the thread of the local model.
pub(super) struct LocalEmbedder {
    fingerprint: Fingerprint,
    jobs: Mutex<Sender<Job>>,
    places: Arc<Semaphore>,
    /// Maximum time that a query waits for its vector.
    limit: Duration,
}

/// Texts to embed, and the channel for the answer. A closed channel means that no caller waits any
/// more.
struct Job {
    work: Work,
    answer: oneshot::Sender<Result<Vec<Vec<f32>>>>,
}

enum Work {
    Texts(Vec<String>, Kind),
    Spans(String, Vec<Range<usize>>),
    /// Questions and texts to compare; the answer has two numbers for each pair.
    Comparison(Vec<String>, Vec<String>),
}

impl LocalEmbedder {
    /// Loads the model and starts the model's thread, which ends when the embedder is dropped.
    pub(super) fn start(directory: &Path, name: &str, limit: Duration) -> Result<Self> {
        let bert = Bert::load(directory, name)?;
        let fingerprint = bert.fingerprint().clone();
        let (jobs, coming) = channel();
        let own = Worker { bert, coming, later: VecDeque::new() };
        let spawned = thread::Builder::new().name("embedder".into()).spawn(move || own.run());
        spawned
            .map_err(|e| Error::new(Code::Internal, "start the embedder's thread").caused_by(e))?;
        let places = Arc::new(Semaphore::new(EMBED_WAITING_MAX));
        Ok(Self { fingerprint, jobs: Mutex::new(jobs), places, limit })
    }

    async fn ask(&self, work: Work, limit: Duration) -> Result<Vec<Vec<f32>>> {
        let wrong = |message: String| Error::new(Code::EmbedderUnavailable, message);
        let Ok(_place) = self.places.try_acquire() else {
            return Err(wrong(format!(
                "more than {EMBED_WAITING_MAX} calls wait for the local model"
            )));
        };
        let (answer, coming) = oneshot::channel();
        let gone = |_| wrong("the local model's thread has ended".into());
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        jobs.send(Job { work, answer }).map_err(|e| wrong(e.to_string()))?;
        match tokio::time::timeout(limit, coming).await {
            Ok(answer) => answer.map_err(gone)?,
            Err(_) => {
                Err(wrong(format!("the local model took longer than {} ms", limit.as_millis())))
            }
        }
    }
}

#[async_trait]
impl Embedder for LocalEmbedder {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    async fn embed(&self, texts: &[String], kind: Kind) -> Result<Vec<Vec<f32>>> {
        let limit = match kind {
            Kind::Query => self.limit,
            Kind::Passage => Duration::from_millis(MODEL_MS_MAX),
        };
        self.ask(Work::Texts(texts.to_vec(), kind), limit).await
    }

    async fn embed_spans(&self, document: &str, spans: &[Range<usize>]) -> Result<Vec<Vec<f32>>> {
        let work = Work::Spans(document.to_owned(), spans.to_vec());
        self.ask(work, Duration::from_millis(MODEL_MS_MAX)).await
    }

    fn has_token_vectors(&self) -> bool {
        true
    }

    async fn compare(&self, questions: &[String], texts: &[String]) -> Result<Vec<Vec<Likeness>>> {
        let work = Work::Comparison(questions.to_vec(), texts.to_vec());
        let rows = self.ask(work, Duration::from_millis(MODEL_MS_MAX)).await?;
        let pair = |two: &[f32]| Likeness { whole: two[0].into(), words: two[1].into() };
        Ok(rows.iter().map(|row| row.chunks_exact(2).map(pair).collect()).collect())
    }
}

/// State of the model's thread: the model, the incoming calls, and the calls that wait until the
/// incoming queries are answered.
struct Worker {
    bert: Bert,
    coming: Receiver<Job>,
    later: VecDeque<Job>,
}

impl Worker {
    /// Answers calls until all callers have disconnected.
    fn run(mut self) {
        loop {
            let next = match self.later.pop_front() {
                Some(job) => job,
                None => match self.coming.recv() {
                    Ok(job) => job,
                    Err(_) => return,
                },
            };
            self.work(next);
        }
    }

    fn work(&mut self, job: Job) {
        let Self { bert, coming, later } = self;
        let Job { work, answer } = job;
        // A caller that waits no longer, as its time is over, must not keep others waiting.
        let mut between = || {
            questions(bert, coming, later);
            !answer.is_closed()
        };
        if answer.is_closed() {
            return;
        }
        let made = match &work {
            Work::Texts(texts, _) => bert.embed(texts, &mut between),
            Work::Spans(document, spans) => bert.embed_spans(document, spans, &mut between),
            Work::Comparison(questions, texts) => bert.compare(questions, texts, &mut between),
        };
        // If the caller no longer waits for the vectors, `send` fails; this error is ignored.
        let _ = answer.send(made);
    }
}

/// Answers the queries that arrived during the current work; other calls remain in the queue.
fn questions(bert: &Bert, coming: &Receiver<Job>, later: &mut VecDeque<Job>) {
    loop {
        match coming.try_recv() {
            Ok(Job { work: Work::Texts(texts, Kind::Query), answer }) => {
                if !answer.is_closed() {
                    let _ = answer.send(bert.embed(&texts, &mut || true));
                }
            }
            Ok(job) => later.push_back(job),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
        }
    }
}
