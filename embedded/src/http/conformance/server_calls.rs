//! Handlers of minor calls about the server: echo, statistics, logs, caches. Figures that are not
//! measured are 0 or empty.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

use crate::error::{Code, Error, Result};
use crate::value::{Object, Value};

use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::metrics::process;
use crate::http::reply::{Reply, object};
use crate::http::server::Mode;

/// The log topics whose level clients can set, a subset of arangod's topics.
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
/// ArangoDB's names of log levels.
const LEVELS: [&str; 7] = ["FATAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "TRACE"];
/// The parameters that structured log lines can contain.
const PARAMETERS: [&str; 7] =
    ["database", "username", "url", "collection", "pregelId", "dbuser", "queryId"];

/// Settings that clients can change and read, but that have no effect on the engine.
#[derive(Debug)]
pub(in crate::http) struct Settings {
    values: Mutex<SettingValues>,
}

#[derive(Debug)]
struct SettingValues {
    levels: BTreeMap<&'static str, String>,
    parameters: Vec<&'static str>,
    cache: Object,
}

impl Default for Settings {
    fn default() -> Self {
        let values = SettingValues {
            levels: levels(),
            parameters: vec!["database", "url", "username"],
            cache: cache(),
        };
        Self { values: Mutex::new(values) }
    }
}

fn levels() -> BTreeMap<&'static str, String> {
    TOPICS.iter().map(|topic| (*topic, "INFO".to_owned())).collect()
}

/// Default properties of the query results cache, recorded from 3.12.10. The engine has no such
/// cache.
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
    fn values(&self) -> std::sync::MutexGuard<'_, SettingValues> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Formats a UTC time as ArangoDB does, with whole seconds.
pub(in crate::http) fn date_of(moment: SystemTime) -> String {
    let moment = Timestamp::try_from(moment).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `/_admin/echo`: the decoded request, without its credentials.
pub(in crate::http) fn echo(call: &Call<'_>) -> Reply {
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

/// Returns a distribution (histogram) without values, with `parts` zero counts.
fn nothing_counted(parts: usize) -> Value {
    object! { "sum" => 0_i64, "count" => 0_i64, "counts" => vec![Value::Int(0); parts] }
}

fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// `GET /_admin/statistics`: figures of the process; requests are not counted.
pub(in crate::http) fn statistics(call: &Call<'_>) -> Reply {
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
                "uptime" => Value::Double(call.front.started.elapsed().as_secs_f64()),
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

/// `GET /_admin/statistics-description`: describes the measured figures.
pub(in crate::http) fn statistics_description() -> Reply {
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

fn need_log(call: &Call<'_>) -> Result<()> {
    call.need_system()?;
    call.need_admin()
}

/// `GET /_admin/log/entries`: always empty, because logs go to stderr and are not kept.
pub(in crate::http) fn log_entries(call: &Call<'_>) -> Result<Reply> {
    need_log(call)?;
    Ok(Reply::json(200, &object! { "total" => 0_i64, "messages" => Vec::<Value>::new() }))
}

/// `GET /_admin/log`, the older form of `GET /_admin/log/entries`.
pub(in crate::http) fn log(call: &Call<'_>) -> Result<Reply> {
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
pub(in crate::http) fn clear_log(call: &Call<'_>) -> Result<Reply> {
    need_log(call)?;
    Ok(Reply::ok(200, object! {}))
}

/// `/_admin/log/level`: stores and returns log levels, which have no effect; only `RUST_LOG`
/// affects logging.
pub(in crate::http) fn log_levels(call: &Call<'_>) -> Result<Reply> {
    need_log(call)?;
    let mut values = call.front.conformance.settings.values();
    match call.request.method.as_str() {
        "DELETE" => values.levels = levels(),
        "PUT" => {
            let body = call.request.object()?;
            let wanted = |topic: &str| {
                let given = body.get(topic).or_else(|| body.get("all"))?.as_str()?;
                LEVELS.iter().find(|level| level.eq_ignore_ascii_case(given))
            };
            for (topic, level) in &mut values.levels {
                if let Some(wanted) = wanted(topic) {
                    (*wanted).clone_into(level);
                }
            }
        }
        _ => {}
    }
    let shown: Object = values
        .levels
        .iter()
        .map(|(topic, level)| ((*topic).into(), level.as_str().into()))
        .collect();
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

/// `/_admin/log/structured`: stores and returns the parameters of structured logs, which have no
/// effect.
pub(in crate::http) fn log_parameters(call: &Call<'_>) -> Result<Reply> {
    need_log(call)?;
    let mut values = call.front.conformance.settings.values();
    if call.request.method == http::Method::PUT {
        let body = call.request.object()?;
        let old = std::mem::take(&mut values.parameters);
        values.parameters = PARAMETERS
            .into_iter()
            .filter(|name| match body.get(name) {
                Some(Value::Bool(wanted)) => *wanted,
                _ => old.contains(name),
            })
            .collect();
    }
    let shown: Object =
        values.parameters.iter().map(|n| ((*n).into(), Value::Bool(true))).collect();
    Ok(Reply::json(200, &Value::object(shown)))
}

/// `GET /_admin/database/target-version`
pub(in crate::http) fn target_version(call: &Call<'_>) -> Reply {
    let version = call.engine().options().release.to_string();
    let parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let number = parts.fold(0_u64, |all, part: u64| all * 100 + part);
    Reply::ok(200, object! { "version" => number.to_string() })
}

/// `GET /_admin/support-info`
pub(in crate::http) fn support_info(call: &Call<'_>) -> Result<Reply> {
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

/// `PUT /_admin/server/mode`: refused, because the mode of the listening socket is fixed.
pub(in crate::http) fn set_mode(call: &Call<'_>) -> Result<Reply> {
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

/// `GET /_admin/server/{api-calls, aql-queries}`: always empty, because the engine records no
/// calls.
pub(in crate::http) fn recording(call: &Call<'_>, what: &'static str) -> Result<Reply> {
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

/// `PUT /_admin/compact`: has no effect, because the store compacts itself.
pub(in crate::http) fn compact(call: &Call<'_>) -> Result<Reply> {
    need_server_token(call)?;
    Ok(Reply::json(200, &object! {}))
}

/// `GET` and `POST /_admin/server/tls`: an empty answer, because the engine has no certificates.
pub(in crate::http) fn tls(call: &Call<'_>) -> Result<Reply> {
    if call.request.method == http::Method::POST {
        need_server_token(call)?;
    }
    Ok(Reply::result(200, object! {}))
}

/// `GET /_admin/options-description`
pub(in crate::http) fn options_description(call: &Call<'_>) -> Result<Reply> {
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

/// `GET /_api/endpoint`: returns `unix://` without a path, because the engine does not know the
/// path of its socket.
pub(in crate::http) fn endpoints(call: &Call<'_>) -> Result<Reply> {
    call.need_system()?;
    Ok(Reply::json(200, &vec![object! { "endpoint" => "unix://" }].into()))
}

/// `GET /_api/query-cache/properties`
pub(in crate::http) fn cache_properties(call: &Call<'_>) -> Reply {
    Reply::json(200, &Value::object(call.front.conformance.settings.values().cache.clone()))
}

/// `PUT /_api/query-cache/properties`: stores and returns the properties, although results are
/// never cached.
pub(in crate::http) fn change_cache(call: &Call<'_>) -> Result<Reply> {
    let body = call.request.object()?;
    let wrong = |name: &str| Error::new(Code::BadParameter, format!("invalid value for '{name}'"));
    let mut changed = call.front.conformance.settings.values().cache.clone();
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
    call.front.conformance.settings.values().cache = changed;
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
