//! Percentiles of the durations of tool calls, read from the histogram buckets of the metrics
//! socket (Prometheus text).

use vctx_base::metric;

/// Displayed percentiles, each with its quantile in thousandths and its name.
pub(super) const SHOWN: [(u64, &str); 3] = [(500, "p50"), (900, "p90"), (990, "p99")];

/// Number of calls to one tool, and the percentiles of their durations. Each percentile is the
/// upper bound of its histogram bucket in seconds, which is infinite for the last bucket.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Latency {
    pub(super) tool: String,
    pub(super) calls: u64,
    pub(super) percentiles: [f64; 3],
}

/// Reads the latencies of all tools from a metrics text, most used tool first.
pub(super) fn latencies(text: &str) -> Vec<Latency> {
    let prefix = format!("{}_bucket{{", metric::TOOL_SECONDS);
    let mut tools: Vec<(String, Vec<(f64, u64)>)> = Vec::new();
    for line in text.lines() {
        let Some(sample) = line.strip_prefix(&prefix) else { continue };
        let Some((labels, value)) = sample.rsplit_once('}') else { continue };
        let (Some(tool), Some(bound)) = (label(labels, "tool"), label(labels, "le")) else {
            continue;
        };
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap_or(f64::NAN) };
        let Ok(count) = value.trim().parse::<f64>() else { continue };
        let bucket = (bound, count as u64);
        match tools.iter_mut().find(|(known, _)| *known == tool) {
            Some((_, buckets)) => buckets.push(bucket),
            None => tools.push((tool, vec![bucket])),
        }
    }
    let mut found: Vec<Latency> = tools.into_iter().map(|(tool, b)| of(tool, b)).collect();
    found.sort_by_key(|latency| std::cmp::Reverse(latency.calls));
    found
}

fn of(tool: String, mut buckets: Vec<(f64, u64)>) -> Latency {
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let calls = buckets.last().map_or(0, |b| b.1);
    let percentiles = SHOWN.map(|(thousandths, _)| {
        let rank = (calls * thousandths).div_ceil(1000);
        buckets.iter().find(|(_, count)| *count >= rank).map_or(f64::INFINITY, |b| b.0)
    });
    Latency { tool, calls, percentiles }
}

fn label(labels: &str, name: &str) -> Option<String> {
    let start = labels.find(&format!("{name}=\""))? + name.len() + 2;
    labels[start..].split('"').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_upper_bounds_of_buckets() {
        let name = metric::TOOL_SECONDS;
        let text = format!(
            "{name}_bucket{{tool=\"a\",le=\"0.001\"}} 5\n{name}_bucket{{tool=\"a\",le=\"0.01\"}} 9\n\
             {name}_bucket{{tool=\"a\",le=\"+Inf\"}} 10\n{name}_bucket{{tool=\"b\",le=\"+Inf\"}} 1\n{name}_sum{{tool=\"a\"}} 3\n"
        );
        let found = latencies(&text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].tool.as_str(), found[0].calls), ("a", 10));
        assert_eq!(found[0].percentiles, [0.001, 0.01, f64::INFINITY]);
        assert!(latencies("").is_empty());
    }
}
