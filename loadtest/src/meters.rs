//! What the server says of itself: its metrics socket, and the processor time of its threads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::Fault;
use crate::client::Client;

/// Samples by name and labels, as they stand in the text.
pub(crate) struct Samples(BTreeMap<String, f64>);

impl Samples {
    /// Reads the metrics socket beside the API's.
    pub(crate) fn scrape(socket: &Path) -> Result<Self, Fault> {
        let mut client = Client::connect(&socket.with_file_name("metrics.sock"))?;
        let answer = client.call("GET", "/metrics", "", b"")?;
        if answer.status != 200 {
            return Err(format!("the metrics socket answered {}", answer.status).into());
        }
        Ok(Self::parse(std::str::from_utf8(answer.body)?))
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.filter_map(|line| line.rsplit_once(' '));
        Self(samples.filter_map(|(name, value)| Some((name.into(), value.parse().ok()?))).collect())
    }

    /// The sum of a metric over those of its samples whose labels hold a text.
    pub(crate) fn sum(&self, name: &str, label: &str) -> f64 {
        let own = |sample: &str| {
            sample.strip_prefix(name).is_some_and(|labels| {
                (labels.is_empty() || labels.starts_with('{')) && labels.contains(label)
            })
        };
        self.0.iter().filter(|(sample, _)| own(sample)).map(|(_, value)| value).sum()
    }

    /// The upper end of the bucket that holds a quantile of what a histogram took in since an earlier look; infinite above the last
    /// bucket, none if it took in nothing.
    pub(crate) fn quantile_since(&self, before: &Self, name: &str, quantile: f64) -> Option<f64> {
        let (mine, theirs) = (self.buckets(name), before.buckets(name));
        let since = mine.iter().map(|(end, count)| {
            let earlier = theirs.iter().find(|(other, _)| other == end).map_or(0.0, |(_, n)| *n);
            (*end, count - earlier)
        });
        let mut since: Vec<(f64, f64)> = since.collect();
        since.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all = since.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
        let rank = (all * quantile).ceil();
        since.iter().find(|(_, count)| *count >= rank).map(|(end, _)| *end)
    }

    /// Upper ends of a histogram's buckets and how much lies below each, summed over all other labels.
    fn buckets(&self, name: &str) -> Vec<(f64, f64)> {
        let mut found: Vec<(f64, f64)> = Vec::new();
        for (sample, count) in &self.0 {
            let labels = sample.strip_prefix(name).and_then(|rest| rest.strip_prefix("_bucket{"));
            let Some(end) = labels.and_then(|labels| labels.split("le=\"").nth(1)) else {
                continue;
            };
            let end = end.split('"').next().unwrap_or_default();
            let Ok(end) = end.replace("+Inf", "inf").parse::<f64>() else { continue };
            match found.iter_mut().find(|(other, _)| *other == end) {
                Some((_, sum)) => *sum += count,
                None => found.push((end, *count)),
            }
        }
        found
    }
}

/// Processor time of a process so far, in seconds, by the names of its threads; threads that ended are not in it.
pub(crate) fn thread_seconds(id: u32) -> Result<BTreeMap<String, f64>, Fault> {
    let mut seconds = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{id}/task"))? {
        let task = entry?.path();
        // A thread may end between the list and the look.
        let (Ok(name), Ok(times)) =
            (fs::read_to_string(task.join("comm")), fs::read_to_string(task.join("schedstat")))
        else {
            continue;
        };
        let nanoseconds = times.split(' ').next().and_then(|first| first.parse::<f64>().ok());
        let nanoseconds = nanoseconds.ok_or("schedstat does not start with a number")?;
        *seconds.entry(name.trim().to_owned()).or_insert(0.0) += nanoseconds / 1e9;
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_over_their_labels() {
        let text =
            "# HELP a x\na{socket=\"ro\"} 2\na{socket=\"rw\",b=\"c d\"} 3\na_total 7\nb 1.5\n";
        let samples = Samples::parse(text);
        for (name, label, sum) in
            [("a", "", 5.0), ("a", "socket=\"rw\"", 3.0), ("b", "", 1.5), ("c", "", 0.0)]
        {
            assert!((samples.sum(name, label) - sum).abs() < 1e-9, "{name} {label}");
        }
    }

    #[test]
    fn a_quantile_is_of_what_came_since() {
        let parse = |a: u32, b: u32, all: u32| {
            Samples::parse(&format!(
                "t_bucket{{le=\"0.1\",of=\"x\"}} {a}\nt_bucket{{of=\"x\",le=\"0.25\"}} {b}\nt_bucket{{of=\"x\",le=\"+Inf\"}} {all}\nt_count {all}\n"
            ))
        };
        let (before, after) = (parse(90, 90, 90), parse(90, 180, 190));
        let of = |quantile| after.quantile_since(&before, "t", quantile);
        assert_eq!([of(0.5), of(0.9), of(0.99)], [Some(0.25), Some(0.25), Some(f64::INFINITY)]);
        assert_eq!(after.quantile_since(&Samples::parse(""), "t", 0.4), Some(0.1));
        assert_eq!(after.quantile_since(&after, "t", 0.5), None);
        assert_eq!(after.quantile_since(&before, "u", 0.5), None);
    }

    #[test]
    fn this_process_has_threads() {
        assert!(!thread_seconds(std::process::id()).unwrap().is_empty());
    }
}
