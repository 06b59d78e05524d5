//! Handles `/_api/query/…`, which lists running and slow queries and ends queries.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use crate::error::{Code, Error, Result};
use crate::query::{Answer, Query};
use crate::value::Value;

use crate::http::auth::Level;
use crate::http::call::Call;
use crate::http::reply::{Reply, object};

/// Maximum number of listed running queries; further queries run but are not listed.
const QUERIES_LISTED_MAX: usize = 4096;
/// Default of `maxSlowQueries` (ArangoDB's): the maximum number of slow queries that are kept for a
/// database.
const SLOW_QUERIES: i64 = 64;
/// Upper limit of `maxSlowQueries`.
const SLOW_QUERIES_MAX: i64 = 16_384;
/// Default of `maxQueryStringLength` (ArangoDB's): the number of bytes of a query's text that are
/// kept.
const QUERY_TEXT_BYTES: i64 = 4096;

/// The options that determine which queries of a database are listed.
#[derive(Clone, Debug)]
struct Tracking {
    enabled: bool,
    slow: bool,
    bind_vars: bool,
    slow_max: i64,
    /// Run time in seconds from which a query counts as slow.
    threshold: f64,
    /// Run time in seconds from which a streaming query counts as slow.
    streaming_threshold: f64,
    text_bytes: i64,
}

/// ArangoDB's default options.
impl Default for Tracking {
    fn default() -> Self {
        Self {
            enabled: true,
            slow: true,
            bind_vars: true,
            slow_max: SLOW_QUERIES,
            threshold: 10.0,
            streaming_threshold: 10.0,
            text_bytes: QUERY_TEXT_BYTES,
        }
    }
}

/// A listed query.
#[derive(Debug)]
struct ListedQuery {
    id: u64,
    database: String,
    user: String,
    text: String,
    binds: Value,
    started: SystemTime,
    since: Instant,
    writes: bool,
    stream: bool,
    kill: Arc<AtomicBool>,
}

/// A finished query that exceeded the threshold for slow queries.
#[derive(Debug)]
struct Slow {
    entry: Arc<ListedQuery>,
    seconds: f64,
    peak_bytes: u64,
    warnings: u64,
    /// The `errorNum` with which the query failed; 0 if it succeeded.
    exit: u32,
}

#[derive(Debug, Default)]
struct Books {
    running: BTreeMap<u64, Arc<ListedQuery>>,
    tracking: HashMap<String, Tracking>,
    slow: HashMap<String, VecDeque<Slow>>,
}

/// The queries of one listener.
#[derive(Debug, Default)]
pub(in crate::http) struct Running {
    books: Mutex<Books>,
}

/// A guard that keeps a running query in the list; dropping it removes the query from the list.
pub(in crate::http) struct QueryEntry<'a> {
    running: &'a Running,
    entry: Option<Arc<ListedQuery>>,
}

/// The outcome of an ended query.
#[derive(Default)]
pub(in crate::http) struct QueryEnd {
    /// Peak memory of the query in bytes.
    pub(in crate::http) peak_bytes: u64,
    /// Number of warnings.
    pub(in crate::http) warnings: u64,
    /// The `errorNum` with which the query failed; 0 if it succeeded.
    pub(in crate::http) exit: u32,
}

impl QueryEnd {
    /// Returns the outcome of a query that returned an answer or failed.
    pub(in crate::http) fn of(ran: &Result<Answer>) -> Self {
        match ran {
            Ok(answer) => Self {
                peak_bytes: answer.stats.peak_memory_usage,
                warnings: answer.warnings.len() as u64,
                exit: 0,
            },
            Err(error) => Self { exit: error.code.num(), ..Self::default() },
        }
    }
}

impl Running {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of running queries.
    pub(in crate::http) fn number(&self) -> usize {
        self.books().running.len()
    }

    /// Adds a query to the list until the returned guard is dropped.
    pub(in crate::http) fn list(
        &self,
        call: &Call<'_>,
        query: &Query,
        writes: bool,
    ) -> QueryEntry<'_> {
        let mut books = self.books();
        let standard = Tracking::default();
        let tracking = books.tracking.get(call.db()).unwrap_or(&standard);
        if !tracking.enabled || books.running.len() >= QUERIES_LISTED_MAX {
            return QueryEntry { running: self, entry: None };
        }
        let binds = if tracking.bind_vars { query.binds.clone() } else { Default::default() };
        let entry = Arc::new(ListedQuery {
            id: call.engine().next_id(),
            database: call.db().to_owned(),
            user: call.caller.name().to_owned(),
            text: shortened(&query.text, tracking.text_bytes),
            binds: Value::object(binds),
            started: SystemTime::now(),
            since: Instant::now(),
            writes,
            stream: false,
            kill: Arc::clone(&call.request.cancelled),
        });
        books.running.insert(entry.id, Arc::clone(&entry));
        QueryEntry { running: self, entry: Some(entry) }
    }
}

fn shortened(text: &str, bytes: i64) -> String {
    let bytes = usize::try_from(bytes).unwrap_or(0);
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("{}... ({})", &text[..text.floor_char_boundary(bytes)], text.len())
}

impl QueryEntry<'_> {
    /// Removes an ended query from the list of running queries and, if it was slow, adds it to the
    /// list of slow queries.
    pub(in crate::http) fn ended(mut self, ended: &QueryEnd) {
        let Some(entry) = self.entry.take() else { return };
        let mut books = self.running.books();
        books.running.remove(&entry.id);
        let standard = Tracking::default();
        let tracking = books.tracking.get(&entry.database).unwrap_or(&standard);
        let seconds = entry.since.elapsed().as_secs_f64();
        if !tracking.slow || seconds < tracking.threshold {
            return;
        }
        let most = usize::try_from(tracking.slow_max).unwrap_or(0);
        let slow = books.slow.entry(entry.database.clone()).or_default();
        let &QueryEnd { peak_bytes, warnings, exit } = ended;
        slow.push_back(Slow { entry, seconds, peak_bytes, warnings, exit });
        while slow.len() > most {
            slow.pop_front();
        }
    }
}

impl Drop for QueryEntry<'_> {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry {
            self.running.books().running.remove(&entry.id);
        }
    }
}

impl ListedQuery {
    fn shown(&self, seconds: f64, peak_bytes: u64, state: &str, warnings: u64) -> Value {
        object! {
            "id" => self.id.to_string(),
            "database" => self.database.as_str(),
            "user" => self.user.as_str(),
            "query" => self.text.as_str(),
            "bindVars" => self.binds.clone(),
            "started" => super::server_calls::date_of(self.started),
            "runTime" => Value::Double(seconds),
            "peakMemoryUsage" => peak_bytes,
            "state" => state,
            "stream" => self.stream,
            "modificationQuery" => self.writes,
            "warnings" => warnings,
        }
    }
}

/// Whether a request asks with `all=true` for the queries of all databases. Such a request is
/// allowed only in `_system`.
fn all(call: &Call<'_>) -> Result<bool> {
    if call.request.flag("all") != Some(true) {
        return Ok(false);
    }
    call.need_system()?;
    call.need_admin()?;
    Ok(true)
}

/// `GET /_api/query/current`
pub(in crate::http) fn current(call: &Call<'_>) -> Result<Reply> {
    let all = all(call)?;
    let books = call.front.conformance.running.books();
    let listed: Vec<Value> = books
        .running
        .values()
        .filter(|entry| all || entry.database == call.db())
        .map(|entry| entry.shown(entry.since.elapsed().as_secs_f64(), 0, "executing", 0))
        .collect();
    Ok(Reply::json(200, &listed.into()))
}

/// `GET /_api/query/slow`
pub(in crate::http) fn slow(call: &Call<'_>) -> Result<Reply> {
    let all = all(call)?;
    let books = call.front.conformance.running.books();
    let wanted = books.slow.iter().filter(|(database, _)| all || *database == call.db());
    let listed = wanted.flat_map(|(_, slow)| slow).map(|slow| {
        let state = if slow.exit == Code::QueryKilled.num() { "killed" } else { "finished" };
        let shown = slow.entry.shown(slow.seconds, slow.peak_bytes, state, slow.warnings);
        let mut shown = shown.as_object().cloned().unwrap_or_default();
        shown.push_new("exitCode", i64::from(slow.exit).into());
        Value::object(shown)
    });
    Ok(Reply::json(200, &listed.collect::<Vec<_>>().into()))
}

/// `DELETE /_api/query/slow`
pub(in crate::http) fn clear_slow(call: &Call<'_>) -> Result<Reply> {
    if all(call)? {
        call.front.conformance.running.books().slow.clear();
    } else {
        call.front.conformance.running.books().slow.remove(call.db());
    }
    Ok(Reply::ok(200, object! {}))
}

/// `DELETE /_api/query/ID`: ends a query with error 1500 at its next check.
pub(in crate::http) fn kill(call: &Call<'_>, id: &str) -> Result<Reply> {
    let all = all(call)?;
    let books = call.front.conformance.running.books();
    let entry = id.parse().ok().and_then(|id: u64| books.running.get(&id));
    let entry = entry.filter(|entry| {
        let mine =
            entry.user == call.caller.name() || call.caller.database(call.db()) == Level::Write;
        mine && (all || entry.database == call.db())
    });
    let entry = entry
        .ok_or_else(|| Error::new(Code::QueryNotFound, format!("cannot find query id {id}")))?;
    entry.kill.store(true, Ordering::Relaxed);
    Ok(Reply::ok(200, object! {}))
}

fn shown(tracking: &Tracking) -> Reply {
    Reply::ok(
        200,
        object! {
            "enabled" => tracking.enabled,
            "trackSlowQueries" => tracking.slow,
            "trackBindVars" => tracking.bind_vars,
            "maxSlowQueries" => tracking.slow_max,
            "slowQueryThreshold" => seconds_of(tracking.threshold),
            "slowStreamingQueryThreshold" => seconds_of(tracking.streaming_threshold),
            "maxQueryStringLength" => tracking.text_bytes,
        },
    )
}

/// Converts seconds to a value: an integer if they are whole, otherwise a double.
fn seconds_of(seconds: f64) -> Value {
    if seconds.fract() == 0.0 { Value::Int(seconds as i64) } else { Value::Double(seconds) }
}

/// `GET /_api/query/properties`
pub(in crate::http) fn properties(call: &Call<'_>) -> Reply {
    shown(
        &call
            .front
            .conformance
            .running
            .books()
            .tracking
            .get(call.db())
            .cloned()
            .unwrap_or_default(),
    )
}

/// `PUT /_api/query/properties`
pub(in crate::http) fn change(call: &Call<'_>) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let body = Value::object(call.request.object()?);
    let mut books = call.front.conformance.running.books();
    let tracking = books.tracking.entry(call.db().to_owned()).or_default();
    let flags = [
        ("enabled", &mut tracking.enabled),
        ("trackSlowQueries", &mut tracking.slow),
        ("trackBindVars", &mut tracking.bind_vars),
    ];
    for (name, flag) in flags {
        if let Value::Bool(given) = body.attribute(name) {
            *flag = given;
        }
    }
    let seconds = [
        ("slowQueryThreshold", &mut tracking.threshold),
        ("slowStreamingQueryThreshold", &mut tracking.streaming_threshold),
    ];
    for (name, seconds) in seconds {
        if let Some(given) = body.attribute(name).as_f64().filter(|given| *given >= 0.0) {
            *seconds = given;
        }
    }
    let numbers = [
        ("maxSlowQueries", &mut tracking.slow_max, SLOW_QUERIES_MAX),
        ("maxQueryStringLength", &mut tracking.text_bytes, 64 * 1024),
    ];
    for (name, number, most) in numbers {
        if let Value::Int(given) = body.attribute(name) {
            *number = given.clamp(0, most);
        }
    }
    Ok(shown(tracking))
}
