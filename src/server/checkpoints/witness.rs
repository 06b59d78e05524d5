//! Sends checkpoints to a witness, which keeps the newest one and cosigns what continues it.
//!
//! One checkpoint is sent at a time, in order, and only in the background. After a start, the
//! server first sends the newest checkpoint that the witness cosigned. If the witness has seen a
//! newer one than the server has, then the server's data was put back to an earlier state.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use hyperlocal::UnixConnector;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Checkpoints;
use super::file::FoundLine;
use vctx_base::metric;
use vctx_core::ledger::note::SignedHead;
use vctx_core::ledger::witness::WitnessRequest;

/// Maximum time for one request to the witness, in milliseconds.
const WITNESS_MS_MAX: u64 = 5_000;
/// Maximum length of an answer of the witness, in bytes.
const WITNESS_ANSWER_BYTES_MAX: usize = 4_096;
/// Maximum number of checkpoints that are sent in one round.
const WITNESS_ROUND_MAX: usize = 64;
/// Pause after a request without an answer, in milliseconds.
const WITNESS_PAUSE_MS: u64 = 2_000;
/// Pause after a refusal, in milliseconds.
const WITNESS_REFUSED_MS: u64 = 10_000;
/// Maximum time that a caller who asks for a proof waits for its cosignature, in milliseconds.
const WITNESS_WAIT_MS: u64 = 1_500;

/// The connection of a server to its witness.
pub(super) struct Witness {
    socket: PathBuf,
    client: Client<UnixConnector, Full<Bytes>>,
    known: Mutex<Standing>,
    /// Number of the newest cosigned checkpoint.
    newest: watch::Sender<u64>,
}

/// What the server knows of its witness.
struct Standing {
    /// Number of the newest checkpoint that the witness has seen; 0 if it has seen none.
    number: u64,
    /// Whether the witness has said so since the server started.
    confirmed: bool,
    trouble: Option<Trouble>,
    /// Earliest time of the next request.
    next: Instant,
}

/// Why a witness does not cosign.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trouble {
    /// The witness does not answer.
    Failed(String),
    /// The witness contradicts the server.
    Refused(String),
}

/// An answer of the witness.
enum WitnessAnswer {
    Cosigned(String),
    Conflict(u64),
    Refused(String),
}

impl Witness {
    pub(super) fn new(socket: PathBuf, cosigned: u64) -> Self {
        Self {
            socket,
            client: Client::builder(TokioExecutor::new()).build(UnixConnector),
            known: Mutex::new(Standing {
                number: cosigned,
                confirmed: false,
                trouble: None,
                next: Instant::now(),
            }),
            newest: watch::Sender::new(cosigned),
        }
    }

    fn known(&self) -> MutexGuard<'_, Standing> {
        self.known.lock().expect("no holder panics")
    }

    async fn ask(&self, asked: &WitnessRequest) -> Result<WitnessAnswer, String> {
        let uri: hyper::Uri = hyperlocal::Uri::new(&self.socket, "/add-checkpoint").into();
        let request = Request::post(uri)
            .header("host", "localhost")
            .body(Full::new(Bytes::from(asked.text())))
            .map_err(|error| error.to_string())?;
        let work = async {
            let answer = self.client.request(request).await.map_err(|error| error.to_string())?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), WITNESS_ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            let text = String::from_utf8_lossy(&body).into_owned();
            match status {
                StatusCode::OK if is_signature_line(&text) => Ok(WitnessAnswer::Cosigned(text)),
                StatusCode::CONFLICT => {
                    let number = text.trim().parse().map_err(|_| "it told no number")?;
                    Ok(WitnessAnswer::Conflict(number))
                }
                StatusCode::FORBIDDEN | StatusCode::UNPROCESSABLE_ENTITY => {
                    Ok(WitnessAnswer::Refused(text.trim().to_owned()))
                }
                status => Err(format!("it answered {status}")),
            }
        };
        match tokio::time::timeout(Duration::from_millis(WITNESS_MS_MAX), work).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("it did not answer within {WITNESS_MS_MAX} ms")),
        }
    }

    fn agreed(&self, number: u64) {
        let mut known = self.known();
        if known.trouble.take().is_some() {
            tracing::info!(checkpoint = number, "the witness cosigns again");
        }
        (known.number, known.confirmed) = (number, true);
        drop(known);
        self.newest.send_if_modified(|newest| {
            let newer = number > *newest;
            *newest = number.max(*newest);
            newer
        });
    }

    /// Notes why the witness did not cosign. A new reason is logged and counted once.
    fn troubled(&self, trouble: Trouble) {
        let mut known = self.known();
        let (pause, is_new) = match &trouble {
            Trouble::Failed(_) => (WITNESS_PAUSE_MS, known.trouble.is_none()),
            Trouble::Refused(_) => {
                (WITNESS_REFUSED_MS, !matches!(known.trouble, Some(Trouble::Refused(_))))
            }
        };
        known.next = Instant::now() + Duration::from_millis(pause);
        match &trouble {
            Trouble::Failed(why) if is_new => {
                metrics::counter!(metric::WITNESS_FAILED).increment(1);
                tracing::warn!(why, "the witness does not cosign the checkpoints");
            }
            Trouble::Refused(why) if is_new => {
                metrics::counter!(metric::WITNESS_REFUSED).increment(1);
                tracing::error!(
                    why,
                    "the witness refuses the checkpoints: compare the data with a backup, and \
                     find out who changed it"
                );
            }
            _ => {}
        }
        // A witness that contradicts the server and then fails has not agreed.
        if is_new || !matches!(known.trouble, Some(Trouble::Refused(_))) {
            known.trouble = Some(trouble);
        }
    }
}

/// Returns whether a text is one line with a signature.
fn is_signature_line(text: &str) -> bool {
    let line = text.strip_suffix('\n').unwrap_or_default();
    line.starts_with("\u{2014} ") && !line.contains(char::is_control)
}

impl Checkpoints {
    /// Sets the witness to which the checkpoints are sent, by its socket.
    #[must_use]
    pub fn with_witness(mut self, socket: PathBuf) -> Self {
        let cosigned = self.state.lock().expect("no holder panics").cosigned;
        self.witness = Some(Witness::new(socket, cosigned));
        self
    }

    /// Returns whether checkpoints are sent to a witness.
    pub fn has_witness(&self) -> bool {
        self.witness.is_some()
    }

    /// Returns the witness's state for `/readyz`: null without a witness.
    pub fn witness_told(&self) -> Value {
        let Some(witness) = &self.witness else { return Value::Null };
        let known = witness.known();
        let (state, why) = match &known.trouble {
            None if known.confirmed => ("cosigns", None),
            None => ("not asked yet", None),
            Some(Trouble::Failed(why)) => ("does not answer", Some(why)),
            Some(Trouble::Refused(why)) => ("refuses", Some(why)),
        };
        json!({"state": state, "checkpoint": known.number, "why": why})
    }

    /// Waits a short time until the witness has cosigned the newest checkpoint.
    pub async fn until_cosigned(&self) {
        let Some(witness) = &self.witness else { return };
        if witness.known().trouble.is_some() {
            return;
        }
        let number = self.state.lock().expect("no holder panics").number;
        let mut newest = witness.newest.subscribe();
        let cosigned = newest.wait_for(|newest| *newest >= number);
        drop(tokio::time::timeout(Duration::from_millis(WITNESS_WAIT_MS), cosigned).await);
    }

    /// Sends the checkpoints to the witness that it has not seen, and keeps its cosignatures.
    pub async fn ask_witness(self: &Arc<Self>) -> io::Result<()> {
        let Some(witness) = &self.witness else { return Ok(()) };
        for _ in 0..WITNESS_ROUND_MAX {
            let (number, confirmed, next) = {
                let known = witness.known();
                (known.number, known.confirmed, known.next)
            };
            if next > Instant::now() {
                return Ok(());
            }
            let all = Arc::clone(self);
            let found = blocking(move || all.to_send(number, confirmed)).await?;
            let (Some(found), newest) = found else { return Ok(()) };
            match witness.ask(&self.request(&found, number)).await {
                Ok(WitnessAnswer::Cosigned(line)) => {
                    let (all, at) = (Arc::clone(self), found.number);
                    blocking(move || all.keep_cosignature(at, &line)).await?;
                    witness.agreed(found.number);
                }
                Ok(WitnessAnswer::Conflict(seen)) if seen > newest => {
                    witness.troubled(Trouble::Refused(format!(
                        "it has seen checkpoint {seen}, but the newest one here is {newest}: the \
                         data of this server was put back to an earlier state"
                    )));
                }
                Ok(WitnessAnswer::Conflict(seen)) if seen == number => {
                    witness.troubled(Trouble::Refused(format!(
                        "it needs the checkpoint after {seen}, which is not in the file any more"
                    )));
                }
                Ok(WitnessAnswer::Conflict(seen)) => {
                    if seen == 0 {
                        tracing::warn!("the witness has lost what it had seen of this server");
                    }
                    let mut known = witness.known();
                    (known.number, known.confirmed) = (seen, false);
                }
                Ok(WitnessAnswer::Refused(why)) => witness.troubled(Trouble::Refused(why)),
                Err(why) => witness.troubled(Trouble::Failed(why)),
            }
        }
        Ok(())
    }

    /// Returns the checkpoint to send to a witness that has seen the one with the given number, and
    /// the number of the newest one. `confirmed` says whether the witness has said that it has.
    fn to_send(&self, number: u64, confirmed: bool) -> io::Result<(Option<FoundLine>, u64)> {
        let state = self.state.lock().expect("no holder panics");
        let (newest, file, bytes) = (state.number, state.file.try_clone()?, state.bytes);
        let after = match number {
            0 => newest.saturating_sub(1),
            _ if confirmed => number,
            _ => number - 1,
        };
        let start = if after >= state.sent.0 { state.sent.1 } else { 0 };
        drop(state);
        if after >= newest {
            return Ok((None, newest));
        }
        let found = super::file::found(&file, start, bytes, after)?;
        if let Some(found) = &found {
            let mut state = self.state.lock().expect("no holder panics");
            state.sent = (found.number - 1, found.position);
        }
        Ok((found, newest))
    }

    fn request(&self, found: &FoundLine, old: u64) -> WitnessRequest {
        let text = |name: &str| found.row[name].as_str().unwrap_or_default().to_owned();
        let heads = found.row["heads"].as_array().map(Vec::as_slice).unwrap_or_default();
        WitnessRequest {
            old,
            key: self.key.public().clone(),
            before: text("before"),
            leaves: heads.iter().filter_map(SignedHead::of_list).map(|one| one.leaf()).collect(),
            note: text("note"),
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
