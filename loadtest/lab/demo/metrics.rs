//! Server counters read from the metrics socket (Prometheus text) and summed over all server
//! processes of the demo.

use vctx_client::{Client, Problem};

/// Sums of counters over all server processes whose metrics could be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Metrics {
    /// Number of committed stream transactions.
    pub committed: u64,
    /// Number of aborted stream transactions.
    pub aborted: u64,
    /// Number of database requests made through the typed functions of arangors, the database
    /// driver.
    pub typed: u64,
    /// Number of database requests made without the typed functions of arangors, the database
    /// driver.
    pub raw: u64,
}

impl Metrics {
    /// Reads the counters of the running server.
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

    /// Adds the counters of another server process.
    pub(super) fn add(&mut self, other: Metrics) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.typed += other.typed;
        self.raw += other.raw;
    }

    /// Returns the share of the database requests that were made through the typed functions of
    /// arangors; `None` if there were no database requests.
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
