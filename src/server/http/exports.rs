//! Streams an agent's export over HTTP, and receives an import into a temporary file.

use std::fs::File;
use std::io::Read as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::answers::FromFile;
use super::body::refuse_announced;
use super::caller::{Caller, own_task};
use super::problem::IntoProblem as _;
use super::reply::json_answer;
use crate::executor::{Exported, Incoming};
use crate::limits::{IMPORT_PIECE_MS_MAX, TRANSFER_BYTES_PER_S_MIN, TRANSFER_MS_MAX};
use vctx_base::clock;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{EXPORT_BYTES_MAX, EXPORT_PIECE_BYTES, EXPORT_PIECES_WAITING};

/// Returns whether a transfer that has moved the given number of bytes so far must be ended.
fn is_slow(bytes: u64, elapsed: Duration) -> bool {
    let counted = elapsed.saturating_sub(Duration::from_millis(IMPORT_PIECE_MS_MAX));
    elapsed > Duration::from_millis(TRANSFER_MS_MAX)
        || bytes < counted.as_secs() * TRANSFER_BYTES_PER_S_MIN
}

/// Streams an export; the file is complete before its first byte is sent.
pub(super) async fn export(caller: Caller, _body: Body) -> Result<Response> {
    Ok(file_answer(caller.executor().export(&caller.principal, &caller.agent).await?))
}

/// Receives the complete file of an import, then creates the agent from it.
pub(super) async fn import(caller: Caller, body: Body) -> Response {
    let incoming = async {
        refuse_announced(&body, EXPORT_BYTES_MAX)?;
        caller.executor().check_quota(&caller.principal, &caller.agent).await?;
        received(caller.executor().transfers().incoming()?, body).await
    };
    let incoming = match incoming.await {
        Ok(incoming) => incoming,
        Err(error) => return error.into_problem(),
    };
    own_task(&Arc::clone(&caller.front), async move {
        let (principal, agent) = (&caller.principal, &caller.agent);
        let report = caller.executor().transfers().import(principal, agent, incoming).await?;
        let made = report["made"] == true;
        Ok(json_answer(if made { StatusCode::CREATED } else { StatusCode::OK }, &report))
    })
    .await
}

/// Writes an import's body to the temporary file, piece by piece.
async fn received(mut incoming: Incoming, mut body: Body) -> Result<Incoming> {
    let late = |_| {
        let text =
            format!("no more of the file came within {IMPORT_PIECE_MS_MAX} ms: send it again");
        Error::new(Code::Timeout, text)
    };
    let (begun, mut bytes) = (clock::now(), 0);
    loop {
        let piece = tokio::time::timeout(Duration::from_millis(IMPORT_PIECE_MS_MAX), body.frame());
        let Some(frame) = piece.await.map_err(late)? else { return Ok(incoming) };
        let frame = frame.map_err(|e| {
            Error::new(Code::InvalidJson, "the file was cut off during the transfer: send it again")
                .caused_by(e)
        })?;
        if let Ok(piece) = frame.into_data() {
            bytes += piece.len() as u64;
            incoming.take(&piece)?;
        }
        if is_slow(bytes, begun.elapsed()) {
            let text = format!(
                "the file came too slowly: send at least {TRANSFER_BYTES_PER_S_MIN} bytes a second, for at most {TRANSFER_MS_MAX} ms"
            );
            return Err(Error::new(Code::Timeout, text));
        }
    }
}

fn file_answer(exported: Exported) -> Response {
    let bytes = exported.bytes;
    let (file, permit) = exported.parts();
    let (give, take) = mpsc::channel(EXPORT_PIECES_WAITING);
    tokio::task::spawn_blocking(move || pieces(file, permit, &give));
    let mut response = Response::new(Body::new(FileBody { take, left: bytes }));
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.extensions_mut().insert(FromFile);
    response
}

type Piece = std::result::Result<Bytes, std::io::Error>;

/// Sends a file to the client in pieces. Waits only a limited time for the client to take each
/// piece, since a client that stops reading would otherwise hold the permit forever.
fn pieces(mut file: File, _permit: OwnedSemaphorePermit, give: &mpsc::Sender<Piece>) {
    let runtime = Handle::current();
    let most = Duration::from_millis(IMPORT_PIECE_MS_MAX);
    let (begun, mut sent) = (clock::now(), 0);
    loop {
        let mut piece = vec![0; EXPORT_PIECE_BYTES];
        let read = file.read(&mut piece).map(|bytes| {
            piece.truncate(bytes);
            Bytes::from(piece)
        });
        let (empty, failed) = (read.as_ref().is_ok_and(Bytes::is_empty), read.is_err());
        sent += read.as_ref().map_or(0, |piece| piece.len() as u64);
        if empty {
            return;
        }
        let given = runtime.block_on(async { tokio::time::timeout(most, give.send(read)).await });
        if failed || !matches!(given, Ok(Ok(()))) || is_slow(sent, begun.elapsed()) {
            return;
        }
    }
}

/// Response body of an export, with known length.
struct FileBody {
    take: mpsc::Receiver<Piece>,
    left: u64,
}

impl hyper::body::Body for FileBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        self.take.poll_recv(context).map(|piece| {
            piece.map(|piece| {
                piece.map(|bytes| {
                    self.left = self.left.saturating_sub(bytes.len() as u64);
                    Frame::data(bytes)
                })
            })
        })
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_must_keep_its_pace_and_end() {
        let s = Duration::from_secs;
        for (bytes, elapsed, expected) in [
            (0, s(30), false),
            (0, s(31), true),
            (TRANSFER_BYTES_PER_S_MIN, s(31), false),
            (TRANSFER_BYTES_PER_S_MIN * 9, s(40), true),
            (TRANSFER_BYTES_PER_S_MIN * 10, s(40), false),
            (u64::MAX, s(3_600), false),
            (u64::MAX, s(3_601), true),
        ] {
            assert_eq!(is_slow(bytes, elapsed), expected, "{bytes} bytes in {elapsed:?}");
        }
    }
}
