//! Bounds the memory of the answers that wait for their clients.

use std::sync::LazyLock;
use std::time::Duration;

use axum::body::HttpBody as _;
use axum::response::Response;
use tokio::sync::Semaphore;

use super::caller::overloaded;
use crate::limits::{ANSWER_BYTES_SMALL, ANSWERS_BYTES_MAX};
use vctx_base::crowd::Crowd;
use vctx_base::held::held;

/// Unit in which the length of answers is counted, in bytes.
const UNIT_BYTES: u64 = 1_024;
/// Number of attempts to make room for an answer, and pause between two of them, in milliseconds.
const ROOM_TRIES: (u32, u64) = (100, 20);

/// Marks an answer whose body is not in memory, whatever its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct FromFile;

/// The room for the answers of all listeners.
static ANSWERS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(ANSWERS_BYTES_MAX.div_ceil(UNIT_BYTES) as usize));

/// Counts an answer until it is sent. If there is no room for it, connections whose clients read
/// nothing are closed; if that does not suffice, the answer is dropped, and the client gets the
/// status 503.
pub(super) async fn counted(response: Response, crowd: Option<&Crowd>) -> Response {
    let bytes = response.body().size_hint().lower();
    if bytes <= ANSWER_BYTES_SMALL || response.extensions().get::<FromFile>().is_some() {
        return response;
    }
    let units = bytes.min(ANSWERS_BYTES_MAX).div_ceil(UNIT_BYTES);
    let units = u32::try_from(units).unwrap_or(u32::MAX);
    let (tries, pause_ms) = ROOM_TRIES;
    for _ in 0..tries {
        if let Ok(permit) = ANSWERS.try_acquire_many(units) {
            return held(response, permit);
        }
        if !crowd.is_some_and(Crowd::close_unread) {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        // A closed connection frees its answer when its task runs.
        tokio::task::yield_now().await;
    }
    overloaded("too many large answers wait for their clients: retry later with the same key")
}
