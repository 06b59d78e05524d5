//! Answers `GET /_admin/metrics`, and reads the figures of the engine's process.

use super::call::Call;
use super::reply::Reply;

/// Clock ticks per second, the unit of process times (`getconf CLK_TCK`; always 100 on Linux).
const CLOCK_TICKS_S: f64 = 100.0;

/// What the kernel reports about the engine's process; a missing figure is 0.
#[derive(Default)]
#[cfg_attr(not(feature = "conformance"), allow(dead_code, reason = "only the statistics need it"))]
pub(super) struct Process {
    pub(super) user_s: f64,
    pub(super) system_s: f64,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    pub(super) threads: u64,
    pub(super) resident_bytes: u64,
    pub(super) virtual_bytes: u64,
}

/// Reads the figures of the engine's process.
pub(super) fn process() -> Process {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let stat = read("/proc/self/stat");
    // Field 3 is the first one after the process name, which is in brackets (proc(5)).
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect())
        .unwrap_or_default();
    let field = |number: usize| -> u64 {
        fields.get(number - 3).and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let status = read("/proc/self/status");
    let kilobytes = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.unwrap_or(0) * 1024
    };
    Process {
        user_s: field(14) as f64 / CLOCK_TICKS_S,
        system_s: field(15) as f64 / CLOCK_TICKS_S,
        minor_faults: field(10),
        major_faults: field(12),
        threads: field(20),
        resident_bytes: kilobytes("VmRSS:"),
        virtual_bytes: kilobytes("VmSize:"),
    }
}

/// `GET /_admin/metrics[/v2]`, in the text format of Prometheus.
pub(super) fn metrics(call: &Call<'_>) -> Reply {
    let process = process();
    let uptime = call.front.started.elapsed().as_secs_f64();
    let gauges = [
        ("arangodb_process_statistics_number_of_threads", process.threads as f64),
        ("arangodb_process_statistics_resident_set_size", process.resident_bytes as f64),
        ("arangodb_process_statistics_virtual_memory_size", process.virtual_bytes as f64),
        ("arangodb_process_statistics_user_time", process.user_s),
        ("arangodb_process_statistics_system_time", process.system_s),
        ("arangodb_server_statistics_server_uptime_total", uptime),
    ];
    #[cfg(feature = "conformance")]
    let more = call.front.conformance.gauges();
    #[cfg(not(feature = "conformance"))]
    let more: [(&str, f64); 0] = [];
    let lines = gauges.iter().chain(&more).map(|(name, value)| {
        format!("# HELP {name} see the manual of ArangoDB\n# TYPE {name} gauge\n{name}{{role=\"SINGLE\"}} {value}\n")
    });
    Reply::text(200, lines.collect())
}
