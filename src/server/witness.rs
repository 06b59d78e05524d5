//! A witness: keeps the newest checkpoint of each server, and cosigns a checkpoint only if it
//! continues the newest one. A witness that another machine or user runs therefore notices a server
//! whose data was put back to an earlier state, together with its checkpoints.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;

use vctx_base::clock::{Clock as _, SystemClock};
use vctx_base::signing::{SigningKey, verified};
use vctx_core::ledger::key::KeyKind;
use vctx_core::ledger::witness::{Refusal, SeenCheckpoint, WitnessRequest};
use vctx_core::memory::receipt::sha256;

/// Maximum length of a request, in bytes: as long as the longest line of a checkpoint file.
const REQUEST_BYTES_MAX: usize = 16 << 20;
/// Maximum number of servers whose checkpoints a witness keeps.
const ORIGINS_MAX: usize = 1_024;
/// Maximum length of the file about one server, in bytes.
const SEEN_BYTES_MAX: u64 = 4_096;
/// Number of hex digits of the digest that names the file about a server.
const SEEN_NAME_DIGITS: usize = 32;

/// A witness with its key and its files.
pub struct Witness {
    key: SigningKey,
    /// Directory with a file for each server.
    seen: PathBuf,
    /// The locked file of the directory; its holder handles the only request.
    turn: Mutex<File>,
}

impl Witness {
    /// Opens the key and the files in a directory, and makes what is missing. An error says what is
    /// wrong.
    pub fn open(directory: &Path) -> Result<Self, String> {
        let failed = |error: &io::Error| format!("{}: {error}", directory.display());
        let seen = directory.join("seen");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&seen);
        made.map_err(|error| failed(&error))?;
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = lock.open(directory.join("lock")).map_err(|error| failed(&error))?;
        let used = |_| format!("{} is in use by another witness", directory.display());
        lock.try_lock().map_err(used)?;
        let key = SigningKey::load_or_make(&directory.join("key"), KeyKind::Witness)?;
        let text = format!("{}\n", key.public().text());
        fs::write(directory.join("key.pub"), text).map_err(|error| failed(&error))?;
        Ok(Self { key, seen, turn: Mutex::new(lock) })
    }

    /// Returns the text of the public key, with which others verify the cosignatures.
    pub fn public_key(&self) -> String {
        self.key.public().text()
    }

    /// Returns the router of the witness's socket.
    pub fn router(self: Arc<Self>) -> Router {
        Router::new().route("/add-checkpoint", post(add)).with_state(self)
    }

    /// Handles a request; returns the status and the text of the answer.
    fn answer(&self, text: &str, at_s: u64) -> (StatusCode, String) {
        let asked = match WitnessRequest::parse(text) {
            Ok(asked) => asked,
            Err(why) => return (StatusCode::BAD_REQUEST, format!("the request {why}\n")),
        };
        let _turn = self.turn.lock().expect("no holder panics");
        let accepted = self.load(asked.origin()).map(|seen| {
            let accepted = asked.accepted(seen.as_ref(), verified);
            accepted
                .map(|(text, newest)| (text, (seen.as_ref() != Some(&newest)).then_some(newest)))
        });
        let kept = match accepted {
            Ok(Ok((text, newest))) => {
                newest.map_or(Ok(()), |newest| self.keep(&newest)).map(|()| text)
            }
            Ok(Err(Refusal::Conflict(number))) => {
                return (StatusCode::CONFLICT, format!("{number}\n"));
            }
            Ok(Err(Refusal::Unsigned(why))) => {
                let text = format!("the note {why}\n");
                return (StatusCode::FORBIDDEN, text);
            }
            Ok(Err(Refusal::Contradiction(why))) => {
                return (StatusCode::UNPROCESSABLE_ENTITY, format!("{why}\n"));
            }
            Err(error) => Err(error),
        };
        match kept {
            Ok(text) => (StatusCode::OK, self.key.cosignature_line(&text, at_s)),
            Err(error) => {
                tracing::error!(%error, "the witness cannot use its files");
                (StatusCode::INTERNAL_SERVER_ERROR, "the witness cannot use its files\n".to_owned())
            }
        }
    }

    fn path(&self, origin: &str) -> PathBuf {
        self.seen.join(&sha256(origin)[..SEEN_NAME_DIGITS])
    }

    fn load(&self, origin: &str) -> io::Result<Option<SeenCheckpoint>> {
        let path = self.path(origin);
        let there = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let count = fs::read_dir(&self.seen)?.take(ORIGINS_MAX).count();
                return match count < ORIGINS_MAX {
                    true => Ok(None),
                    false => Err(io::Error::other("it has seen too many servers")),
                };
            }
            there => there?,
        };
        if there.len() > SEEN_BYTES_MAX {
            return Err(io::Error::other(format!("{} is too long", path.display())));
        }
        let seen: SeenCheckpoint = serde_json::from_slice(&fs::read(&path)?)?;
        Ok(Some(seen))
    }

    /// Writes what the witness has seen. The file is on disk when this function returns, before the
    /// cosignature leaves the witness.
    fn keep(&self, seen: &SeenCheckpoint) -> io::Result<()> {
        let path = self.path(&seen.origin);
        let temporary = self.seen.with_file_name("seen.new");
        let _ = fs::remove_file(&temporary);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec(seen)?)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        File::open(&self.seen)?.sync_all()
    }
}

async fn add(State(witness): State<Arc<Witness>>, body: Body) -> Response {
    let read = to_bytes(body, REQUEST_BYTES_MAX).await.ok();
    let Some(text) = read.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()) else {
        return (StatusCode::BAD_REQUEST, "the request is too long or no text\n").into_response();
    };
    let at_s = SystemClock.unix_ms() / 1_000;
    let answer = tokio::task::spawn_blocking(move || witness.answer(&text, at_s)).await;
    let (status, text) = answer
        .unwrap_or_else(|_| (StatusCode::INTERNAL_SERVER_ERROR, "the witness failed\n".to_owned()));
    let kind = match status {
        StatusCode::CONFLICT => "text/x.tlog.size",
        _ => "text/plain; charset=utf-8",
    };
    (status, [(header::CONTENT_TYPE, kind)], text).into_response()
}
