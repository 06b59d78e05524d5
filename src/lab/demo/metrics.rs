//! What the server counts, read from its metrics socket (Prometheus text) and summed over its lives.

use vctx_client::{Client, Problem};

/// Sums over all lives of the server, as far as they could be read before each end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Metrics {
    /// Stream transactions committed.
    pub committed: u64,
    /// Stream transactions aborted.
    pub aborted: u64,
    /// Database requests through arangors' typed calls.
    pub typed: u64,
    /// Database requests beside them.
    pub raw: u64,
}

impl Metrics {
    /// Reads the figures of the running server.
    pub(super) async fn scrape(client: &Client) -> Result<Metrics, Problem> {
        Ok(Metrics::parse(&client.text("/metrics").await?))
    }

    fn parse(text: &str) -> Metrics {
        let sum = |name: &str, label: &str| -> u64 {
            let samples = text
                .lines()
                .filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.rsplit_once('}'));
            let wanted =
                samples.filter(|(labels, _)| labels.split(',').any(|given| given.trim() == label));
            wanted
                .filter_map(|(_, value)| value.split_whitespace().next()?.parse::<f64>().ok())
                .map(|value| value as u64)
                .sum()
        };
        Metrics {
            committed: sum("vctx_transactions_total", "outcome=\"committed\""),
            aborted: sum("vctx_transactions_total", "outcome=\"aborted\""),
            typed: sum("vctx_store_requests_total", "path=\"typed\""),
            raw: sum("vctx_store_requests_total", "path=\"raw\""),
        }
    }

    /// Adds the figures of another life.
    pub(super) fn add(&mut self, other: Metrics) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.typed += other.typed;
        self.raw += other.raw;
    }

    /// Share of the database requests that went through arangors' typed calls; `None` without requests.
    pub(super) fn typed_share(&self) -> Option<f64> {
        let all = self.typed + self.raw;
        (all > 0).then(|| (self.typed as f64 / all as f64 * 10_000.0).round() / 10_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_summed_over_their_other_labels() {
        let text = "# HELP vctx_transactions_total x\n# TYPE vctx_transactions_total counter\n\
            vctx_transactions_total{outcome=\"committed\",tool=\"append_fifo\"} 3\nvctx_transactions_total{outcome=\"committed\"} 4 1700000000\n\
            vctx_transactions_total{outcome=\"aborted\"} 1\nvctx_store_requests_total{path=\"typed\"} 30\nvctx_store_requests_total{path=\"raw\"} 10\n\
            vctx_transactions_total_other{outcome=\"committed\"} 100\n";
        let metrics = Metrics::parse(text);
        assert_eq!(metrics, Metrics { committed: 7, aborted: 1, typed: 30, raw: 10 });
        assert_eq!(metrics.typed_share(), Some(0.75));
        assert_eq!(Metrics::parse("").typed_share(), None);
    }
}
