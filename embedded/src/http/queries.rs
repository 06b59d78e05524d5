//! Reads queries and their options from request bodies, checks permissions, and runs, explains or
//! parses queries.

use std::time::Instant;

use crate::error::{Code, Error, Result};
use crate::query::{self, Access, Answer, Prepared, Query, QueryOptions, Stats};
use crate::txn::{Declared, Lent};
use crate::value::{Object, Value, write_text};

use super::auth::Level;
use super::call::{Call, Work};
use super::read_only;
use super::reply::{Reply, object};
use super::server::Mode;

/// Initial capacity for the text of `extra`, in bytes, which usually suffices.
const EXTRA_BYTES: usize = 512;

/// Reads a query with its bind parameters and options from a body; error 1502 if the query text is
/// missing.
pub(super) fn query_of(body: &Value) -> Result<Query> {
    let text = match body.attribute("query") {
        Value::String(text) if !text.trim().is_empty() => text.to_string(),
        Value::Null | Value::String(_) => return Err(Error::of(Code::QueryEmpty)),
        _ => return Err(Error::new(Code::BadParameter, "'query' must be a string")),
    };
    let binds = match body.attribute("bindVars") {
        Value::Null => Object::new(),
        Value::Object(binds) => std::sync::Arc::unwrap_or_clone(binds),
        _ => return Err(Error::new(Code::BadParameter, "'bindVars' must be an object")),
    };
    let options = body.attribute("options");
    if !options.is_null() && options.as_object().is_none() {
        return Err(Error::new(Code::BadParameter, "'options' must be an object"));
    }
    Ok(Query { text, binds, options: options_of(body, &options)? })
}

fn options_of(body: &Value, options: &Value) -> Result<QueryOptions> {
    let flag = |name: &str| matches!(options.attribute(name), Value::Bool(true));
    let memory_limit = number(body, "memoryLimit")?.or(number(options, "memoryLimit")?);
    let max_warning_count = number(options, "maxWarningCount")?.map(|n| n as usize);
    Ok(QueryOptions {
        full_count: flag("fullCount"),
        fail_on_warning: flag("failOnWarning"),
        max_warning_count,
        max_runtime_s: number(options, "maxRuntime")?.unwrap_or(0.0),
        memory_limit: memory_limit.unwrap_or(0.0) as u64,
        rules: rules_of(options),
        use_plan_cache: flag("usePlanCache"),
        profile: options.attribute("profile").as_f64().unwrap_or(0.0) as u8,
    })
}

/// Reads `optimizer.rules`; ignores items that are not texts.
fn rules_of(options: &Value) -> Vec<String> {
    match options.attribute("optimizer").attribute("rules") {
        Value::Array(rules) => rules.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Reads an optional attribute that must be a number of at least 0.
pub(super) fn number(body: &Value, name: &str) -> Result<Option<f64>> {
    match body.attribute(name) {
        Value::Null => Ok(None),
        value => match value.as_f64() {
            Some(number) if number >= 0.0 => Ok(Some(number)),
            _ => Err(Error::new(Code::BadParameter, format!("'{name}' must be a number from 0"))),
        },
    }
}

/// Prepares a query and checks the caller's permissions for all collections that the query uses.
fn prepare(call: &Call<'_>, query: &Query) -> Result<Prepared> {
    let prepared = query::prepare(&call.database, query)?;
    permit(call, &prepared.access)?;
    Ok(prepared)
}

fn permit(call: &Call<'_>, access: &Access) -> Result<()> {
    let writes = access.write.iter().chain(&access.exclusive);
    if call.front.mode == Mode::ReadOnly && writes.clone().next().is_some() {
        return Err(read_only::refusal());
    }
    for name in writes {
        call.need_collection(name, Level::Write)?;
    }
    for name in &access.read {
        match call.database.views.get(name) {
            None => call.need_collection(name, Level::Read)?,
            Some(view) => super::views::need_linked(call, view)?,
        }
    }
    Ok(())
}

/// A query that has run but is not committed yet.
pub(super) struct QueryRun {
    /// Rows, counters and warnings.
    pub(super) answer: Answer,
    /// Run time in seconds.
    pub(super) seconds: f64,
    /// Seconds from the start until the query was prepared.
    prepared_s: f64,
    /// Seconds from the start until the query's transaction had begun.
    ready_s: f64,
    /// Key of the shared plan, if the query used one.
    pub(super) shared: Option<String>,
    plan: Option<Value>,
    work: Work,
    savepoint: usize,
    wait_for_sync: bool,
}

impl QueryRun {
    /// Commits the request's own transaction, or returns the request's stream transaction.
    pub(super) fn finish(self) -> Result<Option<Lent>> {
        self.work.finish(self.wait_for_sync)?;
        Ok(match self.work {
            Work::Own(_) => None,
            Work::Lent(lent) => Some(lent),
        })
    }

    /// Undoes the query's writes.
    pub(super) fn undo(self) {
        self.work.undo(self.savepoint);
    }
}

/// Runs a query in its own transaction, or in the request's stream transaction, where a failure
/// undoes only the query.
pub(super) fn run(call: &Call<'_>, query: &Query) -> Result<QueryRun> {
    let started = Instant::now();
    let mut prepared = prepare(call, query)?;
    prepared.user = Some(call.caller.name().to_owned()).filter(|name| !name.is_empty());
    prepared.kill = Some(std::sync::Arc::clone(&call.request.cancelled));
    let shared = if query.options.use_plan_cache {
        prepared.may_share()?;
        #[cfg(feature = "conformance")]
        let shared = call.front.conformance.plans.visit(&call.database, query, &prepared);
        #[cfg(not(feature = "conformance"))]
        let shared = None;
        shared
    } else {
        None
    };
    let prepared_s = started.elapsed().as_secs_f64();
    let access = std::mem::take(&mut prepared.access);
    #[cfg(feature = "conformance")]
    let listed = {
        let writes = !access.write.is_empty() || !access.exclusive.is_empty();
        call.front.conformance.running.list(call, query, writes)
    };
    let wait_for_sync = access.wait_for_sync;
    let declared = Declared {
        read: access.read,
        write: access.write,
        exclusive: access.exclusive,
        // A collection that becomes known only while the query runs (`DOCUMENT`) cannot be checked
        // in advance. Reading it is allowed if the caller may read all collections.
        allow_implicit: call.reads_everything(),
    };
    let work = call.work(&declared, wait_for_sync)?;
    let ready_s = started.elapsed().as_secs_f64();
    let savepoint = work.savepoint();
    let ran = prepared.run(&call.database, &work).inspect_err(|_| work.undo(savepoint));
    #[cfg(feature = "conformance")]
    listed.ended(&super::conformance::QueryEnd::of(&ran));
    let answer = ran?;
    let seconds = started.elapsed().as_secs_f64();
    let plan = if query.options.profile >= 2 { Some(prepared.plan_value(&work)?) } else { None };
    Ok(QueryRun {
        answer,
        seconds,
        prepared_s,
        ready_s,
        shared,
        plan,
        work,
        savepoint,
        wait_for_sync,
    })
}

/// Returns `extra` of a cursor as JSON text; `profile` is 0, 1 (or true) or 2.
pub(super) fn extra(ran: &QueryRun, profile: &Value) -> String {
    let mut extra = String::with_capacity(EXTRA_BYTES);
    extra.push_str("{\"warnings\":");
    write_text(&warnings(&ran.answer.warnings).into(), &mut extra);
    let level = match profile {
        Value::Bool(true) => 1.0,
        other => other.as_f64().unwrap_or(0.0),
    };
    extra.push_str(",\"stats\":{");
    for (at, (name, value)) in counters(&ran.answer.stats, ran.seconds).into_iter().enumerate() {
        if !value.is_null() {
            extra.push_str(if at > 0 { ",\"" } else { "\"" });
            extra.push_str(name);
            extra.push_str("\":");
            write_text(&value, &mut extra);
        }
    }
    extra.push('}');
    if level >= 1.0 {
        extra.push_str(",\"profile\":");
        write_text(&phases(ran), &mut extra);
    }
    if let Some(plan) = &ran.plan {
        extra.push_str(",\"plan\":");
        write_text(plan, &mut extra);
    }
    extra.push('}');
    extra
}

/// Durations of the query's phases in seconds. All preparation counts as the phase `parsing`, and
/// the begin of the transaction as `initializing`.
fn phases(ran: &QueryRun) -> Value {
    let mut phases = Object::with_capacity(9);
    let names = [
        "initializing",
        "parsing",
        "optimizing ast",
        "loading collections",
        "instantiating plan",
        "optimizing plan",
        "instantiating executors",
        "executing",
        "finalizing",
    ];
    for name in names {
        let seconds = match name {
            "parsing" => ran.prepared_s,
            "initializing" => ran.ready_s - ran.prepared_s,
            "executing" => ran.seconds - ran.ready_s,
            _ => 0.0,
        };
        phases.push_new(name, Value::Double(seconds));
    }
    Value::object(phases)
}

fn warnings(warnings: &[(Code, String)]) -> Vec<Value> {
    let shown = |(code, message): &(Code, String)| {
        object! { "code" => i64::from(code.num()), "message" => message.as_str() }
    };
    warnings.iter().map(shown).collect()
}

/// Returns all attributes of `stats` in 3.12.10, because drivers need them in each batch.
/// `fullCount` is null unless requested.
fn counters(stats: &Stats, seconds: f64) -> [(&'static str, Value); 17] {
    [
        ("writesExecuted", stats.writes_executed.into()),
        ("writesIgnored", stats.writes_ignored.into()),
        ("documentLookups", stats.document_lookups.into()),
        ("seeks", stats.seeks.into()),
        ("scannedFull", stats.scanned_full.into()),
        ("scannedIndex", stats.scanned_index.into()),
        ("searchParallelism", Value::Int(1)),
        ("cursorsCreated", stats.cursors_created.into()),
        ("cursorsRearmed", stats.cursors_rearmed.into()),
        ("cacheHits", Value::Int(0)),
        ("cacheMisses", Value::Int(0)),
        ("filtered", stats.filtered.into()),
        ("httpRequests", Value::Int(0)),
        ("fullCount", stats.full_count.map_or(Value::Null, Value::from)),
        ("executionTime", Value::Double(seconds)),
        ("peakMemoryUsage", stats.peak_memory_usage.into()),
        ("intermediateCommits", Value::Int(0)),
    ]
}

/// Returns `stats` of a query as an object.
pub(super) fn stats(stats: &Stats, seconds: f64) -> Value {
    let mut all = Object::with_capacity(17);
    for (name, value) in counters(stats, seconds) {
        if !value.is_null() {
            all.push_new(name, value);
        }
    }
    Value::object(all)
}

/// `GET /_api/query/rules`
pub(super) fn rules() -> Reply {
    let shown = |(name, flags): &(&str, &str)| {
        let has = |flag: char| Value::Bool(flags.contains(flag));
        object! {
            "name" => *name,
            "flags" => object! {
                "hidden" => has('h'),
                "clusterOnly" => has('c'),
                "canBeDisabled" => has('d'),
                "canCreateAdditionalPlans" => has('p'),
                "disabledByDefault" => has('o'),
                "enterpriseOnly" => has('e'),
            },
        }
    };
    Reply::json(200, &Value::array(crate::plan::RULES.iter().map(shown).collect()))
}

/// `POST /_api/explain`. The planner makes only one plan, so `allPlans` returns a list of one.
pub(super) fn explain(call: &Call<'_>) -> Result<Reply> {
    let started = Instant::now();
    let body = Value::object(call.request.object()?);
    let query = query_of(&body)?;
    let prepared = prepare(call, &query)?;
    call.engine().check_vectors_ready(&prepared.vector_indexes())?;
    let kept = warnings(&prepared.warnings()?);
    let read: Vec<String> =
        [&prepared.access.read, &prepared.access.write, &prepared.access.exclusive]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
    let declared = Declared { read, allow_implicit: true, ..Declared::default() };
    let work = call.work(&declared, false)?;
    let plan = prepared.plan_value(&work)?;
    work.finish(false)?;
    let all_plans = matches!(body.attribute("options").attribute("allPlans"), Value::Bool(true));
    let (executed, skipped) = prepared.rules_run();
    let stats = object! {
        "rulesExecuted" => executed,
        "rulesSkipped" => skipped,
        "plansCreated" => 1_i64,
        "rules" => object! {},
        "peakMemoryUsage" => 0_i64,
        "executionTime" => Value::Double(started.elapsed().as_secs_f64()),
    };
    let cacheable = prepared.cacheable() && kept.is_empty();
    let mut answer = Object::new();
    if all_plans {
        answer.push_new("plans", vec![plan].into());
    } else {
        answer.push_new("plan", plan);
        answer.push_new("cacheable", cacheable.into());
    }
    answer.push_new("warnings", kept.into());
    answer.push_new("stats", stats);
    Ok(Reply::ok_last(200, answer))
}

/// `POST /_api/query`
pub(super) fn parse(call: &Call<'_>) -> Result<Reply> {
    let body = Value::object(call.request.object()?);
    let query = query_of(&body)?;
    let parsed = query::parse_only(&query.text)?;
    let mut answer = Object::new();
    answer.push_new("parsed", Value::Bool(true));
    if let Some(parsed) = parsed.as_object() {
        for (name, value) in parsed.iter() {
            answer.insert(name.clone(), value.clone());
        }
    }
    if answer.get("warnings").is_none() {
        answer.push_new("warnings", Vec::<Value>::new().into());
    }
    Ok(Reply::ok(200, Value::object(answer)))
}
