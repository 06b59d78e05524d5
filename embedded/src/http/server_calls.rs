//! Smaller calls about the server: echo, figures, logs, caches. What is not measured or kept is answered empty or with 0.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

use crate::error::{Code, Error, Result};
use crate::value::{Object, Value};

use super::auth::Caller;
use super::call::Call;
use super::reply::{Reply, object};
use super::server::Mode;

/// Ticks of the process clock in a second (`getconf CLK_TCK`; 100 on every Linux).
const CLOCK_TICKS_S: f64 = 100.0;
/// Log topics whose level can be asked for; arangod has more.
const TOPICS: [&str; 12] = [
    "agency",
    "aql",
    "authentication",
    "engines",
    "flush",
    "general",
    "queries",
    "requests",
    "startup",
    "threads",
    "trx",
    "views",
];
/// Levels in ArangoDB's words.
const LEVELS: [&str; 7] = ["FATAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "TRACE"];
/// Parameters of structured log lines.
const PARAMETERS: [&str; 7] =
    ["database", "username", "url", "collection", "pregelId", "dbuser", "queryId"];

/// What can be set and asked for again without changing what the engine does.
#[derive(Debug)]
pub(super) struct Settings {
    started: Instant,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    levels: BTreeMap<&'static str, String>,
    parameters: Vec<&'static str>,
    cache: Object,
}

impl Default for Settings {
    fn default() -> Self {
        let kept = Kept {
            levels: levels(),
            parameters: vec!["database", "url", "username"],
            cache: cache(),
        };
        Self { started: Instant::now(), kept: Mutex::new(kept) }
    }
}

fn levels() -> BTreeMap<&'static str, String> {
    TOPICS.iter().map(|topic| (*topic, "INFO".to_owned())).collect()
}

/// Properties of the results cache, which holds nothing here (recorded defaults of 3.12.10).
fn cache() -> Object {
    let mut cache = Object::with_capacity(5);
    cache.push_new("mode", "off".into());
    cache.push_new("maxResults", Value::Int(128));
    cache.push_new("maxResultsSize", Value::Int(268_435_456));
    cache.push_new("maxEntrySize", Value::Int(16_777_216));
    cache.push_new("includeSystem", Value::Bool(false));
    cache
}

impl Settings {
    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A moment in UTC to the second, as the server writes it.
pub(super) fn date_of(moment: SystemTime) -> String {
    let moment = Timestamp::try_from(moment).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `/_admin/echo`: the request as it was understood, without its credentials.
pub(super) fn echo(call: &Call<'_>) -> Reply {
    let request = call.request;
    let mut headers = Object::new();
    for (name, value) in &request.headers {
        let text = String::from_utf8_lossy(value.as_bytes());
        let text = if name == "authorization" { "…".into() } else { text };
        headers.insert(name.as_str(), Value::from(&*text));
    }
    let bytes: Vec<Value> = request.bytes().iter().map(|b| Value::Int(i64::from(*b))).collect();
    let parameters: Object =
        request.parameters().map(|(name, value)| (name.into(), Value::from(value))).collect();
    Reply::json(
        200,
        &object! {
            "authorized" => true,
            "user" => call.caller.name(),
            "isAdminUser" => call.is_admin(),
            "database" => call.db(),
            "url" => format!("/{}", request.path.join("/")),
            "protocol" => "http",
            "server" => object! { "address" => "", "port" => 0_i64, "endpoint" => "unix" },
            "client" => object! { "address" => "local", "port" => 0_i64, "id" => "" },
            "internals" => object! {},
            "headers" => Value::object(headers),
            "requestType" => request.method.as_str(),
            "requestBody" => &*String::from_utf8_lossy(request.bytes()),
            "rawRequestBody" => object! { "type" => "Buffer", "data" => bytes },
            "parameters" => Value::object(parameters),
            "cookies" => object! {},
            "suffix" => Vec::<Value>::new(),
            "rawSuffix" => Vec::<Value>::new(),
            "path" => "/",
        },
    )
}

/// What the operating system says of this process; 0 where it says nothing.
#[derive(Default)]
struct Process {
    user_s: f64,
    system_s: f64,
    minor_faults: u64,
    major_faults: u64,
    threads: u64,
    resident_bytes: u64,
    virtual_bytes: u64,
}

fn process() -> Process {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let stat = read("/proc/self/stat");
    // Field 3 comes behind the name in brackets (proc(5)).
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

/// A distribution that nothing was counted in.
fn nothing_counted(parts: usize) -> Value {
    object! { "sum" => 0_i64, "count" => 0_i64, "counts" => vec![Value::Int(0); parts] }
}

fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// `GET /_admin/statistics`: the process as it is; requests are not counted.
pub(super) fn statistics(call: &Call<'_>) -> Reply {
    let process = process();
    let client = || {
        object! {
            "httpConnections" => 0_i64,
            "connectionTime" => nothing_counted(4),
            "totalTime" => nothing_counted(10),
            "requestTime" => nothing_counted(10),
            "queueTime" => nothing_counted(10),
            "ioTime" => nothing_counted(10),
            "bytesSent" => nothing_counted(6),
            "bytesReceived" => nothing_counted(6),
        }
    };
    let kinds = [
        "Total",
        "Superuser",
        "User",
        "Async",
        "Get",
        "Head",
        "Post",
        "Put",
        "Patch",
        "Delete",
        "Options",
        "Other",
    ];
    let http: Object =
        kinds.iter().map(|kind| (format!("requests{kind}").into(), Value::Int(0))).collect();
    Reply::ok(
        200,
        object! {
            "time" => Value::Double(seconds_now()),
            "enabled" => false,
            "system" => object! {
                "minorPageFaults" => process.minor_faults,
                "majorPageFaults" => process.major_faults,
                "userTime" => Value::Double(process.user_s),
                "systemTime" => Value::Double(process.system_s),
                "numberOfThreads" => process.threads,
                "residentSize" => process.resident_bytes,
                "residentSizePercent" => 0_i64,
                "virtualSize" => process.virtual_bytes,
            },
            "client" => client(),
            "clientUser" => client(),
            "http" => Value::object(http),
            "server" => object! {
                "uptime" => Value::Double(call.front.settings.started.elapsed().as_secs_f64()),
                "physicalMemory" => 0_i64,
                "transactions" => object! {
                    "started" => 0_i64,
                    "aborted" => 0_i64,
                    "committed" => 0_i64,
                    "intermediateCommits" => 0_i64,
                },
            },
        },
    )
}

/// `GET /_admin/statistics-description`: the figures that are measured.
pub(super) fn statistics_description() -> Reply {
    let groups = [("system", "Process Statistics"), ("server", "Server Statistics")];
    let groups: Vec<Value> = groups
        .iter()
        .map(|(group, name)| {
            object! { "group" => *group, "name" => *name, "description" => "" }
        })
        .collect();
    let figures = [
        ("system", "userTime", "User Time", "accumulated", "seconds"),
        ("system", "systemTime", "System Time", "accumulated", "seconds"),
        ("system", "numberOfThreads", "Number of Threads", "current", "number"),
        ("system", "residentSize", "Resident Set Size", "current", "bytes"),
        ("system", "virtualSize", "Virtual Memory Size", "current", "bytes"),
        ("system", "minorPageFaults", "Minor Page Faults", "accumulated", "number"),
        ("system", "majorPageFaults", "Major Page Faults", "accumulated", "number"),
        ("server", "uptime", "Server Uptime", "current", "seconds"),
    ];
    let figures: Vec<Value> = figures
        .iter()
        .map(|(group, identifier, name, kind, units)| {
            object! {
                "group" => *group,
                "identifier" => *identifier,
                "name" => *name,
                "description" => "",
                "type" => *kind,
                "units" => *units,
            }
        })
        .collect();
    Reply::ok(200, object! { "groups" => groups, "figures" => figures })
}

/// `GET /_admin/metrics[/v2]` in the text form of Prometheus.
pub(super) fn metrics(call: &Call<'_>) -> Reply {
    let process = process();
    let uptime = call.front.settings.started.elapsed().as_secs_f64();
    let gauges = [
        ("arangodb_process_statistics_number_of_threads", process.threads as f64),
        ("arangodb_process_statistics_resident_set_size", process.resident_bytes as f64),
        ("arangodb_process_statistics_virtual_memory_size", process.virtual_bytes as f64),
        ("arangodb_process_statistics_user_time", process.user_s),
        ("arangodb_process_statistics_system_time", process.system_s),
        ("arangodb_server_statistics_server_uptime_total", uptime),
        ("arangodb_aql_current_query", call.front.running.number() as f64),
        ("arango_embedded_jobs", call.front.jobs.number() as f64),
    ];
    let lines = gauges.iter().map(|(name, value)| {
        format!("# HELP {name} see the manual of ArangoDB\n# TYPE {name} gauge\n{name}{{role=\"SINGLE\"}} {value}\n")
    });
    Reply::text(200, lines.collect())
}

fn need_log(call: &Call<'_>) -> Result<()> {
    call.need_system()?;
    call.need_admin()
}

/// `GET /_admin/log/entries`: logs go to stderr and are not kept.
pub(super) fn log_entries(call: &Call<'_>) -> Result<Reply> {
    need_log(call)?;
    Ok(Reply::json(200, &object! { "total" => 0_i64, "messages" => Vec::<Value>::new() }))
}

/// `GET /_admin/log`, the older form.
pub(super) fn log(call: &Call<'_>) -> Result<Reply> {
    need_log(call)?;
    let none = Vec::<Value>::new;
    Ok(Reply::json(
        200,
        &object! {
            "totalAmount" => 0_i64,
            "lid" => none(),
            "topic" => none(),
            "level" => none(),
            "timestamp" => none(),
            "text" => none(),
        },
    ))
}

/// `DELETE /_admin/log`
pub(super) fn clear_log(call: &Call<'_>) -> Result<Reply> {
    need_log(call)?;
    Ok(Reply::ok(200, object! {}))
}

/// `/_admin/log/level`: kept and answered; what is logged is `RUST_LOG`'s to say.
pub(super) fn log_levels(call: &Call<'_>) -> Result<Reply> {
    need_log(call)?;
    let mut kept = call.front.settings.kept();
    match call.request.method.as_str() {
        "DELETE" => kept.levels = levels(),
        "PUT" => {
            let body = call.request.object()?;
            let wanted = |topic: &str| {
                let given = body.get(topic).or_else(|| body.get("all"))?.as_str()?;
                LEVELS.iter().find(|level| level.eq_ignore_ascii_case(given))
            };
            for (topic, level) in &mut kept.levels {
                if let Some(wanted) = wanted(topic) {
                    (*wanted).clone_into(level);
                }
            }
        }
        _ => {}
    }
    let shown: Object =
        kept.levels.iter().map(|(topic, level)| ((*topic).into(), level.as_str().into())).collect();
    let shown = Value::object(shown);
    Ok(Reply::json(
        200,
        &if call.request.flag("withAppenders") == Some(true) {
            object! { "global" => shown, "appenders" => object! {} }
        } else {
            shown
        },
    ))
}

/// `/_admin/log/structured`: kept and answered.
pub(super) fn log_parameters(call: &Call<'_>) -> Result<Reply> {
    need_log(call)?;
    let mut kept = call.front.settings.kept();
    if call.request.method == http::Method::PUT {
        let body = call.request.object()?;
        let old = std::mem::take(&mut kept.parameters);
        kept.parameters = PARAMETERS
            .into_iter()
            .filter(|name| match body.get(name) {
                Some(Value::Bool(wanted)) => *wanted,
                _ => old.contains(name),
            })
            .collect();
    }
    let shown: Object = kept.parameters.iter().map(|n| ((*n).into(), Value::Bool(true))).collect();
    Ok(Reply::json(200, &Value::object(shown)))
}

/// `GET /_admin/database/target-version`
pub(super) fn target_version(call: &Call<'_>) -> Reply {
    let version = call.engine().options().release.to_string();
    let parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let number = parts.fold(0_u64, |all, part: u64| all * 100 + part);
    Reply::ok(200, object! { "version" => number.to_string() })
}

/// `GET /_admin/support-info`
pub(super) fn support_info(call: &Call<'_>) -> Result<Reply> {
    call.need_system()?;
    call.need_admin()?;
    let host = object! {
        "role" => call.engine().options().role.name(),
        "maintenance" => false,
        "readOnly" => call.front.is_read_only(),
        "version" => call.engine().options().release.to_string(),
        "license" => "embedded",
        "os" => std::env::consts::OS,
        "platform" => std::env::consts::ARCH,
    };
    let date = date_of(SystemTime::now());
    let deployment = object! { "type" => "single" };
    Ok(Reply::json(200, &object! { "deployment" => deployment, "host" => host, "date" => date }))
}

/// `PUT /_admin/server/mode`: the mode is that of the socket and cannot be changed.
pub(super) fn set_mode(call: &Call<'_>) -> Result<Reply> {
    call.need_admin()?;
    let body = Value::object(call.request.object()?);
    match body.text_of("mode") {
        Some("default") if call.front.mode == Mode::ReadWrite => {
            Ok(Reply::ok(200, object! { "mode" => "default" }))
        }
        Some("default" | "readonly") => Err(Error::unsupported("changing the server mode")),
        _ => Err(Error::new(Code::BadParameter, "mode invalid")),
    }
}

/// `GET /_admin/server/{api-calls, aql-queries}`: nothing is recorded.
pub(super) fn recording(call: &Call<'_>, what: &'static str) -> Result<Reply> {
    call.need_system()?;
    call.need_admin()?;
    Ok(Reply::result(200, object! { what => Vec::<Value>::new() }))
}

fn need_server_token(call: &Call<'_>) -> Result<()> {
    match call.caller {
        Caller::Server => Ok(()),
        Caller::User(..) => Err(Error::of(Code::Forbidden)),
    }
}

/// `PUT /_admin/compact`: the store compacts itself.
pub(super) fn compact(call: &Call<'_>) -> Result<Reply> {
    need_server_token(call)?;
    Ok(Reply::json(200, &object! {}))
}

/// `GET` and `POST /_admin/server/tls`: there are no certificates.
pub(super) fn tls(call: &Call<'_>) -> Result<Reply> {
    if call.request.method == http::Method::POST {
        need_server_token(call)?;
    }
    Ok(Reply::result(200, object! {}))
}

/// `GET /_admin/options-description`
pub(super) fn options_description(call: &Call<'_>) -> Result<Reply> {
    call.need_system()?;
    need_server_token(call)?;
    let vector = object! {
        "category" => "option",
        "default" => false,
        "description" => "Accept definitions of vector indexes.",
        "type" => "boolean",
    };
    Ok(Reply::json(200, &object! { "vector-index" => vector }))
}

/// `GET /_api/endpoint`: a Unix socket does not know its own name here.
pub(super) fn endpoints(call: &Call<'_>) -> Result<Reply> {
    call.need_system()?;
    Ok(Reply::json(200, &vec![object! { "endpoint" => "unix://" }].into()))
}

/// What coordinators alone answer.
pub(super) fn no_cluster() -> Error {
    Error::new(Code::HttpServerNotImplemented, "this operation is only supported on a coordinator")
}

/// `GET /_api/query-cache/properties`
pub(super) fn cache_properties(call: &Call<'_>) -> Reply {
    Reply::json(200, &Value::object(call.front.settings.kept().cache.clone()))
}

/// `PUT /_api/query-cache/properties`: kept and answered; nothing is ever cached.
pub(super) fn change_cache(call: &Call<'_>) -> Result<Reply> {
    let body = call.request.object()?;
    let wrong = |name: &str| Error::new(Code::BadParameter, format!("invalid value for '{name}'"));
    let mut changed = call.front.settings.kept().cache.clone();
    for (name, value) in body.iter() {
        let fits = match (&**name, value) {
            ("mode", mode) => matches!(mode.as_str(), Some("off" | "on" | "demand")),
            ("maxResults" | "maxResultsSize" | "maxEntrySize", Value::Int(number)) => *number >= 0,
            ("includeSystem", Value::Bool(_)) => true,
            ("maxResults" | "maxResultsSize" | "maxEntrySize" | "includeSystem", _) => false,
            _ => continue,
        };
        if !fits {
            return Err(wrong(name));
        }
        changed.insert(name.clone(), value.clone());
    }
    call.front.settings.kept().cache = changed;
    Ok(cache_properties(call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let table = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_785_857_312, "2026-08-04T15:28:32Z"),
        ];
        for (seconds, text) in table {
            assert_eq!(date_of(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
