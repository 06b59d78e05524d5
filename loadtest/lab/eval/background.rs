//! Waits for vectors of recall entries, which a server with an embedding model computes in the
//! background.

use std::time::Duration;

use super::host::Host;
use super::progress::note;
use vctx_base::clock;
use vctx_base::metric;

/// Maximum wait for vectors; a model on one core computes about ten vectors a second.
const WAIT_MAX: Duration = Duration::from_secs(3 * 3600);
/// Time without a new vector after which the wait ends. The first value is for a server that is
/// known to have an embedding model, the second for any other server.
const QUIET: Duration = Duration::from_secs(60);
const QUIET_UNKNOWN: Duration = Duration::from_secs(10);
/// Pause between two checks, and between two lines of progress.
const LOOK: Duration = Duration::from_millis(500);
const TOLD_EACH: Duration = Duration::from_secs(30);

/// Returns the number of vectors computed so far, read from the metrics; 0 without metrics.
pub(super) async fn vectors_made(host: &Host) -> u64 {
    host.metrics().await.map_or(0, |text| counter(&text, metric::RECALL_VECTORS))
}

/// Waits until the server has computed `expected` vectors in addition to the first `before` ones.
/// Returns a note for the report, or `None` if no vectors were expected.
pub(super) async fn wait(host: &Host, before: u64, expected: u64) -> Option<String> {
    let quiet = match host.has_model() {
        Some(false) => return None,
        Some(true) => QUIET,
        None => QUIET_UNKNOWN,
    };
    let began = clock::now();
    let (mut last, mut changed, mut told) = (before, began, began);
    loop {
        let now = vectors_made(host).await;
        if now != last {
            (last, changed) = (now, clock::now());
        }
        let done = now.saturating_sub(before);
        let is_over = changed.elapsed() > quiet || began.elapsed() > WAIT_MAX;
        if done >= expected || is_over {
            let seconds = began.elapsed().as_secs();
            return (done > 0 || host.has_model() == Some(true))
                .then(|| format!("vectors of {done} of {expected} passages were made in the background in {seconds} s"));
        }
        if told.elapsed() > TOLD_EACH {
            told = clock::now();
            note(&format!("waiting for vectors: {done} of {expected}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the sum of all samples of a counter in a metrics text.
fn counter(text: &str, name: &str) -> u64 {
    let samples = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value =
            rest.strip_prefix(' ').or_else(|| rest.split_once("} ").map(|(_, value)| value))?;
        value.trim().parse::<f64>().ok()
    });
    samples.sum::<f64>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_read_with_and_without_labels() {
        let text = "# TYPE a_total counter\na_total 5\na_total{of=\"x\"} 2\na_total_more 9\n";
        assert_eq!(counter(text, "a_total"), 7);
        assert_eq!(counter(text, "b_total"), 0);
    }
}
