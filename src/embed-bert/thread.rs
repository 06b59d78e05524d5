//! The local model on a thread of its own, behind a bounded queue: questions go first, between two batches of what takes longer.

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
use vctx_core::limits::{EMBED_WAITING_MAX, MODEL_MS_MAX};
use vctx_core::memory::Fingerprint;

/// The local model as an embedder.
pub(super) struct LocalEmbedder {
    fingerprint: Fingerprint,
    jobs: Mutex<Sender<Job>>,
    places: Arc<Semaphore>,
    /// Longest wait for the vector of a question.
    limit: Duration,
}

/// Something to embed, and where the answer goes; nobody waits there any more once it is closed.
struct Job {
    work: Work,
    answer: oneshot::Sender<Result<Vec<Vec<f32>>>>,
}

enum Work {
    Texts(Vec<String>, Kind),
    Spans(String, Vec<Range<usize>>),
}

impl LocalEmbedder {
    /// Loads the model and starts its thread, which ends with the embedder.
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
                "more than {EMBED_WAITING_MAX} texts wait for the local model"
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
}

/// The thread's own: the model, what comes, and what waits because questions go first.
struct Worker {
    bert: Bert,
    coming: Receiver<Job>,
    later: VecDeque<Job>,
}

impl Worker {
    /// Works until nobody can ask any more.
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
        let mut between = || questions(bert, coming, later);
        let Job { work, answer } = job;
        if answer.is_closed() {
            return;
        }
        let made = match &work {
            Work::Texts(texts, _) => bert.embed(texts, &mut between),
            Work::Spans(document, spans) => bert.embed_spans(document, spans, &mut between),
        };
        // Whoever asked may have stopped waiting.
        let _ = answer.send(made);
    }
}

/// Answers the questions that came meanwhile; everything else waits for its turn.
fn questions(bert: &Bert, coming: &Receiver<Job>, later: &mut VecDeque<Job>) {
    loop {
        match coming.try_recv() {
            Ok(Job { work: Work::Texts(texts, Kind::Query), answer }) => {
                if !answer.is_closed() {
                    let _ = answer.send(bert.embed(&texts, &mut || {}));
                }
            }
            Ok(job) => later.push_back(job),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
        }
    }
}
