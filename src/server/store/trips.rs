//! Requests to the database, counted for the call that makes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arangors::ClientError;
use http::Response;

use super::fault::{LOST, UNREACHABLE};
use vctx_base::metric;

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    answered: AtomicU64,
}

tokio::task_local! {
    static COUNTS: Arc<Counts>;
}

/// Requests of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trips {
    /// Sent.
    pub sent: u64,
    /// Answered with something other than a fault of the server; a refusal (409, 412) is an answer.
    pub answered: u64,
}

/// Does the work and counts its requests.
pub async fn counted<T>(work: impl Future<Output = T>) -> (T, Trips) {
    let counts = Arc::<Counts>::default();
    let done = COUNTS.scope(Arc::clone(&counts), work).await;
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    (done, Trips { sent: load(&counts.sent), answered: load(&counts.answered) })
}

/// Notes a request that begins. One that is given up meanwhile stays without an answer.
pub(super) fn sent() {
    note(|counts| &counts.sent);
}

/// Notes how it ended.
pub(super) fn ended(answer: &Result<Response<String>, ClientError>) {
    match unanswered(answer) {
        None => note(|counts| &counts.answered),
        Some(why) => metrics::counter!(metric::STORE_UNANSWERED, "why" => why).increment(1),
    }
}

fn note(which: impl Fn(&Counts) -> &AtomicU64) {
    let noted = COUNTS.try_with(|counts| which(counts).fetch_add(1, Ordering::Relaxed));
    // Outside of a call (start, probes) nobody counts.
    noted.unwrap_or_default();
}

fn unanswered(answer: &Result<Response<String>, ClientError>) -> Option<&'static str> {
    match answer {
        Ok(response) if response.status().is_server_error() => Some("failed"),
        Ok(_) => None,
        Err(ClientError::HttpClient(text)) if text.starts_with(UNREACHABLE) => Some("unreachable"),
        Err(ClientError::HttpClient(text)) if text.starts_with(LOST) => Some("lost"),
        Err(_) => Some("garbage"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16) -> Result<Response<String>, ClientError> {
        Ok(Response::builder().status(status).body(String::new()).unwrap())
    }

    #[tokio::test]
    async fn refusals_are_answers_and_faults_are_none() {
        let lost = Err(ClientError::HttpClient(format!("{LOST}closed")));
        let (_, trips) = counted(async {
            for one in [answer(200), answer(409), answer(412), answer(500), answer(503), lost] {
                sent();
                ended(&one);
            }
        })
        .await;
        assert_eq!(trips, Trips { sent: 6, answered: 3 });
    }

    #[tokio::test]
    async fn each_call_counts_its_own() {
        let one = counted(async { sent() });
        let two = counted(async {
            sent();
            sent();
        });
        let ((_, one), (_, two)) = tokio::join!(one, two);
        assert_eq!((one.sent, two.sent), (1, 2));
        sent();
    }
}
