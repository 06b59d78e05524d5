//! The body of an answer, with a value that lives until the body is sent or its client is gone.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Error;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};

struct HeldBody<G> {
    body: Body,
    begun: bool,
    _guard: G,
}

impl<G: Unpin> HttpBody for HeldBody<G> {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.begun = true;
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        // hyper drops a body as soon as the body says that it has ended, although the last bytes
        // may still wait for the client. Therefore only an empty body says so.
        !self.begun && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Keeps a value until the answer is sent.
pub fn held<G: Send + Unpin + 'static>(response: Response, guard: G) -> Response {
    response.map(|body| Body::new(HeldBody { body, begun: false, _guard: guard }))
}
