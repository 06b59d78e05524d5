//! Reads the rest of a request body that a handler did not read, because a client that is still
//! sending when the connection closes would lose the answer.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Error;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use axum::response::Response;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;

use vctx_core::limits::{BODY_DRAINED_BYTES_MAX, BODY_MS_MAX};

/// A request body. If it is dropped before its end was read, it is sent back through the channel
/// `back`.
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
            // If the answer was already sent, no receiver waits for the body and the connection is
            // closed.
            drop(back.send(body));
        }
    }
}

/// A request body that the client sends only after `100 Continue`, which the first read of the body
/// causes. Its size hint has the announced length as the lower bound, but no upper bound. A handler
/// recognises such a body by this, and can refuse an announced length without a read.
struct AnnouncedBody(Body);

impl HttpBody for AnnouncedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        Pin::new(&mut self.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.0.size_hint().lower());
        hint
    }
}

/// Answers a request. While the answer is sent, reads the rest of the body that the handler did not
/// read: at most [`BODY_DRAINED_BYTES_MAX`], for at most [`BODY_MS_MAX`]. If the rest is larger,
/// the connection is closed: immediately if the client announced the length of the body, otherwise
/// when the limit is reached. If the client waits for `100 Continue`, nothing is read, because
/// after an answer such a client sends no body.
pub(super) async fn read_on<F: Future<Output = Response>>(
    request: Request,
    respond: impl FnOnce(Request) -> F,
) -> Response {
    let waits = request.headers().contains_key(header::EXPECT);
    if request.body().is_end_stream() || waits {
        let announced = |body| if waits { Body::new(AnnouncedBody(body)) } else { body };
        return respond(request.map(announced)).await;
    }
    let (back, mut left) = oneshot::channel();
    let lent = |body| Body::new(Lent { body: Some(body), back: Some(back) });
    let response = respond(request.map(lent)).await;
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
    // After this time limit, the connection is closed even if a part of the body is still unread.
    drop(tokio::time::timeout(Duration::from_millis(BODY_MS_MAX), all).await);
}
