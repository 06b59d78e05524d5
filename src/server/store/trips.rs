//! Counts the database requests of a call.

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

/// How many database requests a call sent, and how many of them were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trips {
    /// Number of sent requests.
    pub sent: u64,
    /// Number of requests that got an answer with a status below 500; a refusal (409, 412) counts
    /// as an answer.
    pub answered: u64,
}

/// Runs a future, and counts the database requests that it sends.
pub async fn counted<T>(work: impl Future<Output = T>) -> (T, Trips) {
    let counts = Arc::<Counts>::default();
    let done = COUNTS.scope(Arc::clone(&counts), work).await;
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    (done, Trips { sent: load(&counts.sent), answered: load(&counts.answered) })
}

/// Counts a request as sent. A sent request that is abandoned is never counted as answered.
pub(super) fn count_request() {
    note(|counts| &counts.sent);
}

/// Counts a request as answered.
pub(super) fn count_answer() {
    note(|counts| &counts.answered);
}

/// Counts the request as answered. If it got no answer, a metric counts the reason instead.
pub(super) fn ended(answer: &Result<Response<String>, ClientError>) {
    match unanswered(answer) {
        None => count_answer(),
        Some(why) => metrics::counter!(metric::STORE_UNANSWERED, "why" => why).increment(1),
    }
}

fn note(which: impl Fn(&Counts) -> &AtomicU64) {
    let noted = COUNTS.try_with(|counts| which(counts).fetch_add(1, Ordering::Relaxed));
    // Requests that do not belong to a call (at the server's start, in probes) are not counted.
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
                count_request();
                ended(&one);
            }
        })
        .await;
        assert_eq!(trips, Trips { sent: 6, answered: 3 });
    }

    #[tokio::test]
    async fn each_call_counts_its_own() {
        let one = counted(async { count_request() });
        let two = counted(async {
            count_request();
            count_request();
        });
        let ((_, one), (_, two)) = tokio::join!(one, two);
        assert_eq!((one.sent, two.sent), (1, 2));
        count_request();
    }
}
