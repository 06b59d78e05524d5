//! Measures a process from outside: metrics, processor time, and use of main memory and disk.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use crate::Fault;
use crate::client::Client;

/// Values of metrics, by name and labels as in the text of `/metrics`.
pub(crate) struct Samples(BTreeMap<String, f64>);

impl Samples {
    /// Reads the metrics of a server; `socket` is its API socket, and the metrics socket is in the
    /// same folder.
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

    /// Returns the sum of those samples of a metric whose labels contain the text `label`.
    pub(crate) fn sum(&self, name: &str, label: &str) -> f64 {
        let own = |sample: &str| {
            sample.strip_prefix(name).is_some_and(|labels| {
                (labels.is_empty() || labels.starts_with('{')) && labels.contains(label)
            })
        };
        self.0.iter().filter(|(sample, _)| own(sample)).map(|(_, value)| value).sum()
    }

    /// Returns a quantile of the values that a histogram recorded since the earlier samples
    /// `before`. The result is the upper bound of the bucket that contains the quantile; the bound
    /// of the last bucket is infinite. Returns `None` if the histogram recorded no value.
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

    /// Returns upper bounds and counts of a histogram's buckets, summed over all labels except the
    /// bound.
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

/// Processor time that each thread of a process has used so far: name and nanoseconds by thread id.
pub(crate) struct ProcessorTime(HashMap<u64, (String, u64)>);

impl ProcessorTime {
    /// Reads the processor times of a process's threads from `/proc`.
    pub(crate) fn of(process: u32) -> Result<Self, Fault> {
        let mut threads = HashMap::new();
        for entry in fs::read_dir(format!("/proc/{process}/task"))? {
            let path = entry?.path();
            let thread = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            let read = |name: &str| fs::read_to_string(path.join(name));
            // A thread may end between the listing and the reading of `/proc`.
            let (Ok(name), Ok(times)) = (read("comm"), read("schedstat")) else { continue };
            let spent = times.split(' ').next().and_then(|first| first.parse().ok());
            let (thread, spent) = thread.zip(spent).ok_or("schedstat is not as in proc(5)")?;
            threads.insert(thread, (name.trim().to_owned(), spent));
        }
        Ok(Self(threads))
    }

    /// Returns the processor time in microseconds that each thread used since an earlier sample.
    /// Threads that have ended are left out.
    pub(crate) fn by_thread(&self, earlier: &Self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(thread, (name, now))| {
            let before = earlier.0.get(thread).map_or(0, |(_, before)| *before);
            (name.as_str(), now.saturating_sub(before) as f64 / 1e3)
        })
    }

    /// Returns the sum of the processor times in microseconds that all threads used since an
    /// earlier sample. Threads that have ended are left out.
    pub(crate) fn since(&self, earlier: &Self) -> f64 {
        self.by_thread(earlier).map(|(_, micros)| micros).sum()
    }
}

/// Returns the processor time that all threads of a process have used so far, ended ones too, in
/// microseconds. The kernel counts it in ticks of ten milliseconds (`USER_HZ`).
pub(crate) fn process_micros(process: u32) -> Result<f64, Fault> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name of the program, in parentheses, may contain spaces.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    match ticks[..] {
        [user, system] => Ok((user + system) * 1e4),
        _ => Err("stat is not as in proc(5)".into()),
    }
}

/// Returns the main memory that a process uses, in MiB, from the line of `/proc/PID/status` that
/// begins with `name`.
pub(crate) fn memory_mib(process: u32, name: &str) -> Result<f64, Fault> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kibibytes.ok_or_else(|| format!("no {name} in /proc"))? / 1024.0)
}

/// Returns the number of bytes that all files below a folder occupy on disk.
pub(crate) fn disk_bytes(folder: &Path) -> Result<u64, Fault> {
    use std::os::unix::fs::MetadataExt as _;
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A file may be removed between the listing of a folder and the reading of the file.
        let Ok(metadata) = entry.metadata() else { continue };
        sum += match metadata.is_dir() {
            true => disk_bytes(&entry.path())?,
            false => metadata.blocks() * 512,
        };
    }
    Ok(sum)
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
    fn a_quantile_is_of_what_was_recorded_since() {
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
    fn this_process_takes_time_and_memory() {
        let before = ProcessorTime(HashMap::new());
        assert!(ProcessorTime::of(std::process::id()).unwrap().since(&before) > 0.0);
        assert!(memory_mib(std::process::id(), "VmRSS").unwrap() > 0.0);
        assert!(memory_mib(std::process::id(), "Vm").is_err());
    }
}
