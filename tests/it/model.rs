//! A scripted model on a Unix socket: an endpoint of the OpenAI API that is as slow as a test
//! needs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::home::Tuning;

/// Maximum length of a request that the model reads, in bytes.
const REQUEST_BYTES_MAX: usize = 16 << 20;

/// The model's constant answer.
pub(crate) const SUMMARY: &str = "- The tide turns at seven.\n- The scripted model was here.";

/// Text in place of which the model answers with the status 500.
const FAILS: &str = "500";

/// The scripted model, which ends when this value is dropped.
pub(crate) struct Model {
    socket: PathBuf,
    asked: Arc<AtomicUsize>,
    answered: Arc<AtomicUsize>,
    /// The newest request that the model received.
    heard: Arc<Mutex<String>>,
    /// Whether the model may answer.
    open: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Model {
    /// Starts a model that gives the constant answer to each request, after the given time.
    pub(crate) fn start(socket: &Path, after: Duration) -> Model {
        Model::saying(socket, after, &[SUMMARY])
    }

    /// Starts a model that gives the listed answers in order and repeats the last one.
    pub(crate) fn saying(socket: &Path, after: Duration, texts: &[&str]) -> Model {
        let model = Model::held(socket, after, texts);
        model.release();
        model
    }

    /// Starts a model that answers, like that of [`Model::saying`], only after [`Model::release`].
    pub(crate) fn held(socket: &Path, after: Duration, texts: &[&str]) -> Model {
        let texts: Arc<[String]> = texts.iter().map(|text| (*text).to_owned()).collect();
        let listener = UnixListener::bind(socket).expect("the model listens");
        let (asked, answered) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (seen, said) = (Arc::clone(&asked), Arc::clone(&answered));
        let heard = Arc::<Mutex<String>>::default();
        let ear = Arc::clone(&heard);
        let (open, opened) = watch::channel(false);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, said, texts) =
                    (Arc::clone(&seen), Arc::clone(&said), Arc::clone(&texts));
                let (wait, ear) = ((after, opened.clone()), Arc::clone(&ear));
                tokio::spawn(async move { answer(stream, wait, &texts, &ear, &seen, &said).await });
            }
        });
        Model { socket: socket.to_owned(), asked, answered, heard, open, task }
    }

    /// Lets a held model answer, the waiting requests, too.
    pub(crate) fn release(&self) {
        self.open.send_replace(true);
    }

    /// Starts a model that answers each request with the status 500.
    pub(crate) fn failing(socket: &Path) -> Model {
        Model::saying(socket, Duration::ZERO, &[FAILS])
    }

    /// Returns the number of requests that the model received.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Returns the newest request.
    pub(crate) fn heard(&self) -> String {
        self.heard.lock().expect("no panic").clone()
    }

    /// Returns the number of requests that the model answered.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    /// Returns the section of a configuration in which this model has a role.
    pub(crate) fn role(&self, role: &str, timeout_ms: u64) -> String {
        format!(
            "[models.{role}]\nsocket = {:?}\nmodel = \"scripted\"\ntimeout_ms = {timeout_ms}\n",
            self.socket
        )
    }

    /// Writes a configuration file for a server that uses this model; returns the options of such a
    /// server.
    pub(crate) fn tuning(&self, file: &Path) -> Tuning {
        let text = format!("[summariser]\nsocket = {:?}\nmodel = \"scripted\"\n", self.socket);
        std::fs::write(file, text).expect("a configuration");
        Tuning { config: Some(file.to_owned()), ..Tuning::default() }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    mut stream: UnixStream,
    (after, mut opened): (Duration, watch::Receiver<bool>),
    texts: &[String],
    heard: &Mutex<String>,
    asked: &AtomicUsize,
    answered: &AtomicUsize,
) {
    let mut request = Vec::new();
    while !whole(&request) {
        match stream.read_buf(&mut request).await {
            Ok(read) if read > 0 && request.len() < REQUEST_BYTES_MAX => {}
            _ => return,
        }
    }
    *heard.lock().expect("no panic") = String::from_utf8_lossy(&request).into_owned();
    let number = asked.fetch_add(1, Ordering::SeqCst);
    let text = &texts[number.min(texts.len() - 1)];
    tokio::time::sleep(after).await;
    if opened.wait_for(|open| *open).await.is_err() {
        return;
    }
    answered.fetch_add(1, Ordering::SeqCst);
    // A cross-encoder has an answer of another form, which the test gives as it is.
    let body = match request.starts_with(b"POST /v1/rerank") {
        true => text.clone(),
        false => {
            json!({"choices": [{"message": {"role": "assistant", "content": text}}]}).to_string()
        }
    };
    let status = if text == FAILS { "500 Internal Server Error" } else { "200 OK" };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    // The write fails if the server was killed meanwhile, which is no error here.
    drop(stream.write_all(format!("{head}{body}").as_bytes()).await);
}

fn whole(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|w| w == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length
        .and_then(|l| l.trim().parse::<usize>().ok())
        .is_some_and(|l| request.len() >= end + 4 + l)
}
