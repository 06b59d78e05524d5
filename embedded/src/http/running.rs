//! Queries at work and those that were slow: `/_api/query/…`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use crate::error::{Code, Error, Result};
use crate::query::Query;
use crate::value::Value;

use super::auth::Level;
use super::call::Call;
use super::limits::{QUERIES_LISTED_MAX, QUERY_TEXT_BYTES, SLOW_QUERIES, SLOW_QUERIES_MAX};
use super::reply::{Reply, object};

/// What of the queries of a database is remembered.
#[derive(Clone, Debug)]
struct Tracking {
    enabled: bool,
    slow: bool,
    bind_vars: bool,
    slow_max: i64,
    /// Seconds.
    threshold: f64,
    /// Seconds.
    streaming_threshold: f64,
    text_bytes: i64,
}

/// ArangoDB's defaults.
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

/// One query, as it is listed.
#[derive(Debug)]
struct Entry {
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

/// A query that was slow.
#[derive(Debug)]
struct Slow {
    entry: Arc<Entry>,
    seconds: f64,
    peak_bytes: u64,
    warnings: u64,
    /// Error number, 0 for none.
    exit: u32,
}

#[derive(Debug, Default)]
struct Books {
    running: BTreeMap<u64, Arc<Entry>>,
    tracking: HashMap<String, Tracking>,
    slow: HashMap<String, VecDeque<Slow>>,
}

/// The queries of one listener.
#[derive(Debug, Default)]
pub(super) struct Running {
    books: Mutex<Books>,
}

/// A listed query; it is struck off when this goes.
pub(super) struct Listed<'a> {
    running: &'a Running,
    entry: Option<Arc<Entry>>,
}

/// How a query ended.
#[derive(Default)]
pub(super) struct Ended {
    /// Bytes it held at most.
    pub(super) peak_bytes: u64,
    /// How often it warned.
    pub(super) warnings: u64,
    /// Error number, 0 for none.
    pub(super) exit: u32,
}

impl Running {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are at work.
    pub(super) fn number(&self) -> usize {
        self.books().running.len()
    }

    /// Lists a query as long as the answer lives.
    pub(super) fn list(&self, call: &Call<'_>, query: &Query, writes: bool) -> Listed<'_> {
        let mut books = self.books();
        let standard = Tracking::default();
        let tracking = books.tracking.get(call.db()).unwrap_or(&standard);
        if !tracking.enabled || books.running.len() >= QUERIES_LISTED_MAX {
            return Listed { running: self, entry: None };
        }
        let binds = if tracking.bind_vars { query.binds.clone() } else { Default::default() };
        let entry = Arc::new(Entry {
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
        Listed { running: self, entry: Some(entry) }
    }
}

fn shortened(text: &str, bytes: i64) -> String {
    let bytes = usize::try_from(bytes).unwrap_or(0);
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("{}... ({})", &text[..text.floor_char_boundary(bytes)], text.len())
}

impl Listed<'_> {
    /// Notes how the query ended, and remembers it if it was slow.
    pub(super) fn ended(mut self, ended: &Ended) {
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
        let &Ended { peak_bytes, warnings, exit } = ended;
        slow.push_back(Slow { entry, seconds, peak_bytes, warnings, exit });
        while slow.len() > most {
            slow.pop_front();
        }
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry {
            self.running.books().running.remove(&entry.id);
        }
    }
}

impl Entry {
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

/// The databases whose queries are meant: with `all=true` in `_system` those of every database.
fn all(call: &Call<'_>) -> Result<bool> {
    if call.request.flag("all") != Some(true) {
        return Ok(false);
    }
    call.need_system()?;
    call.need_admin()?;
    Ok(true)
}

/// `GET /_api/query/current`
pub(super) fn current(call: &Call<'_>) -> Result<Reply> {
    let all = all(call)?;
    let books = call.front.running.books();
    let listed: Vec<Value> = books
        .running
        .values()
        .filter(|entry| all || entry.database == call.db())
        .map(|entry| entry.shown(entry.since.elapsed().as_secs_f64(), 0, "executing", 0))
        .collect();
    Ok(Reply::json(200, &listed.into()))
}

/// `GET /_api/query/slow`
pub(super) fn slow(call: &Call<'_>) -> Result<Reply> {
    let all = all(call)?;
    let books = call.front.running.books();
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
pub(super) fn clear_slow(call: &Call<'_>) -> Result<Reply> {
    if all(call)? {
        call.front.running.books().slow.clear();
    } else {
        call.front.running.books().slow.remove(call.db());
    }
    Ok(Reply::ok(200, object! {}))
}

/// `DELETE /_api/query/ID`: the query ends with 1500 at its next look.
pub(super) fn kill(call: &Call<'_>, id: &str) -> Result<Reply> {
    let all = all(call)?;
    let books = call.front.running.books();
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

/// Whole seconds are whole numbers.
fn seconds_of(seconds: f64) -> Value {
    if seconds.fract() == 0.0 { Value::Int(seconds as i64) } else { Value::Double(seconds) }
}

/// `GET /_api/query/properties`
pub(super) fn properties(call: &Call<'_>) -> Reply {
    shown(&call.front.running.books().tracking.get(call.db()).cloned().unwrap_or_default())
}

/// `PUT /_api/query/properties`
pub(super) fn change(call: &Call<'_>) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let body = Value::object(call.request.object()?);
    let mut books = call.front.running.books();
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
