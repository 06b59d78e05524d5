//! An agent as a file over HTTP: out in pieces as its reader takes them, in through a file that nobody else sees.

use std::fs::File;
use std::io::Read as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::http::{Front, Named, Shared, json_answer, own_task};
use super::problem::IntoProblem as _;
use crate::executor::{Exported, Incoming};
use vctx_base::socket::PeerActor;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{EXPORT_PIECE_BYTES, EXPORT_PIECES_WAITING, IMPORT_PIECE_MS_MAX};

/// The routes.
pub(super) fn routes() -> Router<Arc<Front>> {
    Router::new()
        .route("/v1/agents/{agent}/export", get(export))
        .route("/v1/agents/{agent}/import", post(import))
}

async fn export(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
) -> Response {
    let principal = front.principal(peer, &headers);
    own_task(&Arc::clone(&front), async move {
        Ok(file_answer(front.executor.export(&principal, &agent).await?))
    })
    .await
}

async fn import(
    State(front): Shared,
    Extension(peer): Extension<PeerActor>,
    Named(agent): Named<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let principal = front.principal(peer, &headers);
    let incoming = match front.executor.incoming() {
        Ok(incoming) => taken(incoming, body).await,
        Err(error) => Err(error),
    };
    let incoming = match incoming {
        Ok(incoming) => incoming,
        Err(error) => return error.into_problem(),
    };
    own_task(&Arc::clone(&front), async move {
        let told = front.executor.import(&principal, &agent, incoming).await?;
        let made = told["made"] == true;
        Ok(json_answer(if made { StatusCode::CREATED } else { StatusCode::OK }, &told))
    })
    .await
}

/// Takes a body in, piece by piece.
async fn taken(mut incoming: Incoming, mut body: Body) -> Result<Incoming> {
    let late = |_| {
        let text =
            format!("no more of the file came within {IMPORT_PIECE_MS_MAX} ms: send it again");
        Error::new(Code::Timeout, text)
    };
    loop {
        let piece = tokio::time::timeout(Duration::from_millis(IMPORT_PIECE_MS_MAX), body.frame());
        let Some(frame) = piece.await.map_err(late)? else { return Ok(incoming) };
        let frame = frame.map_err(|e| {
            Error::new(Code::InvalidJson, "the file was cut off on its way: send it again")
                .caused_by(e)
        })?;
        if let Ok(bytes) = frame.into_data() {
            incoming.take(&bytes)?;
        }
    }
}

fn file_answer(exported: Exported) -> Response {
    let bytes = exported.bytes;
    let (file, place) = exported.parts();
    let (give, take) = mpsc::channel(EXPORT_PIECES_WAITING);
    tokio::task::spawn_blocking(move || pieces(file, place, &give));
    let mut response = Response::new(Body::new(FileBody { take, left: bytes }));
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

type Piece = std::result::Result<Bytes, std::io::Error>;

/// Reads a file for as long as somebody takes it, with a bound for each piece: a reader that stands still would keep its place for ever.
fn pieces(mut file: File, _place: OwnedSemaphorePermit, give: &mpsc::Sender<Piece>) {
    let runtime = Handle::current();
    let most = Duration::from_millis(IMPORT_PIECE_MS_MAX);
    loop {
        let mut piece = vec![0; EXPORT_PIECE_BYTES];
        let read = file.read(&mut piece).map(|bytes| {
            piece.truncate(bytes);
            Bytes::from(piece)
        });
        let (empty, failed) = (read.as_ref().is_ok_and(Bytes::is_empty), read.is_err());
        if empty {
            return;
        }
        let given = runtime.block_on(async { tokio::time::timeout(most, give.send(read)).await });
        if failed || !matches!(given, Ok(Ok(()))) {
            return;
        }
    }
}

/// The body of such an answer; its length is known.
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
