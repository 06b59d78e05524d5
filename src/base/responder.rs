//! What answers the requests of a listener.

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use tower::ServiceExt as _;

/// Answers the requests that arrive on a socket.
pub trait Responder: Clone + Send + Sync + 'static {
    /// Answers one request, whose extensions are the
    /// [`PeerActor`](super::socket::PeerActor) and the [`Crowd`](super::crowd::Crowd) of its
    /// connection.
    fn respond(&self, request: Request) -> impl Future<Output = Response> + Send;
}

impl Responder for Router {
    async fn respond(&self, request: Request) -> Response {
        match self.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}
