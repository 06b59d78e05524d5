//! Works on one answer of the database while it makes the next one.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use super::dump::Read;

/// Runs `work` while the database answers the request `next`, and returns the answer.
pub(super) async fn meanwhile<T>(
    next: impl Future<Output = Read<T>>,
    work: impl FnOnce() -> Read<()>,
) -> Read<T> {
    let mut next = pin!(next);
    // The first poll makes the request, and the connection's own task then sends it.
    let answered = poll_fn(|task| Poll::Ready(next.as_mut().poll(task))).await;
    tokio::task::yield_now().await;
    work()?;
    match answered {
        Poll::Ready(answer) => answer,
        Poll::Pending => next.await,
    }
}
