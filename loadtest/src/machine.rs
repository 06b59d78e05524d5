//! Reads the facts about the machine that a report names: hardware, kernel, load, disk, commit.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;

fn first_line_after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns processor name, cores and memory as `name, n cores, n GiB`.
pub(crate) fn hardware() -> String {
    let processors = read("/proc/cpuinfo");
    let name = first_line_after(&processors, "model name").unwrap_or(std::env::consts::ARCH);
    let cores = available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = read("/proc/meminfo");
    let kibibytes = first_line_after(&memory, "MemTotal").and_then(|v| v.split(' ').next());
    let gibibytes = kibibytes.and_then(|v| v.parse::<f64>().ok()).unwrap_or(0.0) / 1_048_576.0;
    format!("{name}, {cores} cores, {gibibytes:.1} GiB")
}

/// Returns the name of the operating system and the release of the kernel.
pub(crate) fn kernel() -> String {
    format!("{} {}", std::env::consts::OS, read("/proc/sys/kernel/osrelease").trim())
}

/// Returns the system's load averages of 1, 5 and 15 minutes.
pub(crate) fn load_average() -> String {
    read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Whether the load average of the last minute exceeded half the number of cores.
pub(crate) fn busy(load_average: &str) -> bool {
    let cores = available_parallelism().map_or(1, std::num::NonZero::get);
    let last_minute = load_average.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    last_minute.is_some_and(|load| load > cores as f64 / 2.0)
}

/// Returns the scheduling policy of this process and of its child processes (`/proc/self/stat`,
/// field 41 of proc(5)).
pub(crate) fn scheduling() -> &'static str {
    let stat = read("/proc/self/stat");
    // The process name, in brackets in `/proc/self/stat`, may contain blanks. The first field after
    // the process name is field number 3.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    match fields.split(' ').nth(41 - 3) {
        Some("0") => "as any process",
        Some("1" | "2") => "real time (chrt): runs before every other process",
        _ => "unknown",
    }
}

/// Returns the type of the file system that contains a folder.
pub(crate) fn file_system(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    kind_of(&read("/proc/mounts"), &folder).unwrap_or_else(|| "unknown".into())
}

fn kind_of(mounts: &str, folder: &Path) -> Option<String> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let above = fields.filter(|f| f.len() > 2 && folder.starts_with(f[1]));
    above.max_by_key(|f| f[1].len()).map(|f| f[2].to_owned())
}

/// Returns the commit of the working directory, with a mark for uncommitted changes.
pub(crate) fn commit() -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "--short=12", "HEAD"]), git(&["status", "--porcelain"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit} with local changes"),
        (None, _) => "unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_decides_the_file_system() {
        let mounts = "a / ext4 rw 0 0\nb /tmp tmpfs rw 0 0\nc /tm xfs rw 0 0\n";
        for (folder, kind) in [("/tmp/x", "tmpfs"), ("/tmpx", "ext4"), ("/tm", "xfs")] {
            assert_eq!(kind_of(mounts, Path::new(folder)).as_deref(), Some(kind), "{folder}");
        }
    }
}
