//! What a handler left of a request's body is read all the same: a connection that is closed upon a sender takes the answer with it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Error;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;

use vctx_core::limits::{BODY_DRAINED_BYTES_MAX, BODY_MS_MAX};

/// A body that is given back when it is dropped before its end.
struct Lent {
    body: Option<Body>,
    back: Option<oneshot::Sender<Body>>,
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = frame {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(body), Some(back)) = (self.body.take(), self.back.take())
            && !body.is_end_stream()
        {
            // Nobody waits for it where the answer was given before: the connection is closed then.
            drop(back.send(body));
        }
    }
}

/// Lets a request be answered, and reads beside the answer what its handler left of its body, up to [`BODY_DRAINED_BYTES_MAX`] and for at most
/// [`BODY_MS_MAX`]; upon a longer one the connection is closed, at once where its length was told. A sender that waits for `100 Continue` sends nothing behind an answer.
pub(super) async fn read_on(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return next.run(request).await;
    }
    let (back, mut left) = oneshot::channel();
    let lent = |body| Body::new(Lent { body: Some(body), back: Some(back) });
    let response = next.run(request.map(lent)).await;
    if let Ok(body) = left.try_recv()
        && body.size_hint().lower() <= BODY_DRAINED_BYTES_MAX as u64
    {
        tokio::spawn(thrown_away(body));
    }
    response
}

async fn thrown_away(mut body: Body) {
    let mut length = 0;
    let all = async {
        while let Some(Ok(frame)) = body.frame().await {
            length += frame.data_ref().map_or(0, Bytes::len);
            if length > BODY_DRAINED_BYTES_MAX {
                break;
            }
        }
    };
    // What takes longer is closed upon.
    drop(tokio::time::timeout(Duration::from_millis(BODY_MS_MAX), all).await);
}
