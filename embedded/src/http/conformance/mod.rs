//! Handlers of calls that only drivers and ArangoDB's own tests make: imports, jobs, running
//! queries, the plan cache, and minor calls about the server.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use crate::error::{Code, Error, Result};
use crate::value::Value;

use super::call::Call;
use super::front::Front;
use super::pool::Lane;
use super::reply::{Reply, object};
use super::request::Request;
use super::routes;

mod import;
mod jobs;
mod plan_cache;
mod running;
mod server_calls;

pub(super) use running::QueryEnd;

/// The state of the conformance calls of one listener.
#[derive(Debug)]
pub(super) struct State {
    /// The listener's event loop, for asynchronous requests that may outlive their connection.
    events: Handle,
    jobs: jobs::Jobs,
    pub(super) plans: plan_cache::PlanCache,
    pub(super) running: running::Running,
    settings: server_calls::Settings,
}

impl State {
    /// Returns the initial state; `events` is the listener's event loop.
    pub(super) fn new(events: Handle) -> Self {
        Self {
            events,
            jobs: jobs::Jobs::default(),
            plans: plan_cache::PlanCache::default(),
            running: running::Running::default(),
            settings: server_calls::Settings::default(),
        }
    }

    /// Returns the metrics of jobs and running queries.
    pub(super) fn gauges(&self) -> [(&'static str, f64); 2] {
        [
            ("arangodb_aql_current_query", self.running.number() as f64),
            ("arango_embedded_jobs", self.jobs.number() as f64),
        ]
    }
}

/// Answers a call that only a build with the feature `conformance` supports; `None` for all other
/// calls.
#[rustfmt::skip]
pub(super) fn dispatch(call: &Call<'_>, method: &str, path: &[&str]) -> Option<Result<Reply>> {
    Some(match (method, path) {
        ("GET", ["_admin", "echo"]) | ("POST", ["_admin", "echo"]) => Ok(server_calls::echo(call)),
        ("GET", ["_admin", "statistics"]) => Ok(server_calls::statistics(call)),
        ("GET", ["_admin", "statistics-description"]) => Ok(server_calls::statistics_description()),
        ("GET", ["_admin", "log", "entries"]) => server_calls::log_entries(call),
        ("GET", ["_admin", "log"]) => server_calls::log(call),
        ("DELETE", ["_admin", "log"]) => server_calls::clear_log(call),
        ("GET" | "PUT" | "DELETE", ["_admin", "log", "level"]) => server_calls::log_levels(call),
        ("GET" | "PUT", ["_admin", "log", "structured"]) => server_calls::log_parameters(call),
        ("GET", ["_admin", "database", "target-version"]) => Ok(server_calls::target_version(call)),
        ("GET" | "POST", ["_admin", "routing", "reload"]) => Ok(Reply::ok(200, object! {})),
        ("GET", ["_admin", "support-info"]) => server_calls::support_info(call),
        ("PUT", ["_admin", "server", "mode"]) => server_calls::set_mode(call),
        ("GET", ["_admin", "server", "api-calls"]) => server_calls::recording(call, "calls"),
        ("GET", ["_admin", "server", "aql-queries"]) => server_calls::recording(call, "queries"),
        ("GET" | "POST", ["_admin", "server", "tls"]) => server_calls::tls(call),
        ("GET", ["_admin", "options-description"]) => server_calls::options_description(call),
        ("PUT", ["_admin", "compact"]) => server_calls::compact(call),
        ("GET", ["_api", "endpoint"]) => server_calls::endpoints(call),
        ("GET", ["_api", "job", what]) => jobs::get(call, what),
        ("PUT", ["_api", "job", id]) => jobs::fetch(call, id),
        ("PUT", ["_api", "job", id, "cancel"]) => jobs::cancel(call, id),
        ("DELETE", ["_api", "job", what]) => jobs::remove(call, what),
        ("GET" | "PUT" | "DELETE", ["_api", "job", ..]) => Err(Error::of(Code::HttpBadParameter)),
        ("POST", ["_api", "import"]) => import::import(call),
        ("GET", ["_api", "query", "current"]) => running::current(call),
        ("GET", ["_api", "query", "slow"]) => running::slow(call),
        ("DELETE", ["_api", "query", "slow"]) => running::clear_slow(call),
        ("GET", ["_api", "query", "properties"]) => Ok(running::properties(call)),
        ("PUT", ["_api", "query", "properties"]) => running::change(call),
        ("DELETE", ["_api", "query", id]) => running::kill(call, id),
        ("GET", ["_api", "query-plan-cache"]) => Ok(plan_cache::list(call)),
        ("DELETE", ["_api", "query-plan-cache"]) => plan_cache::clear(call),
        ("GET", ["_api", "query-cache", "properties"]) => Ok(server_calls::cache_properties(call)),
        ("PUT", ["_api", "query-cache", "properties"]) => server_calls::change_cache(call),
        ("GET", ["_api", "query-cache", "entries"]) => Ok(Reply::json(200, &Vec::<Value>::new().into())),
        ("DELETE", ["_api", "query-cache"]) => Ok(Reply::ok(200, object! {})),
        _ => return None,
    })
}

/// Runs an asynchronous request: checks the caller, answers 202, then runs the request. With
/// `x-arango-async: store` the answer is stored as a job.
pub(super) async fn later(
    front: &Arc<Front>,
    request: Request,
    lane: Lane,
    room: OwnedSemaphorePermit,
) -> Reply {
    let stored = request.header(super::service::ASYNC_HEADER) == Some("store");
    let request = Arc::new(request);
    let (work, asked) = (Arc::clone(front), Arc::clone(&request));
    let admit = move || {
        let caller = routes::admit(&work, &asked)?;
        let id = work.engine.next_id();
        if stored {
            work.conformance.jobs.begin(id, caller.name(), Arc::clone(&asked.cancelled))?;
        }
        Ok(id)
    };
    let id = match front.pool.run(Lane::Common, admit).await.and_then(|id| id) {
        Ok(id) => id,
        Err(error) => return Reply::error(&error),
    };
    let front = Arc::clone(front);
    // The task runs on the listener's event loop, because the current event loop may end with its
    // connection.
    front.conformance.events.clone().spawn(async move {
        let work = Arc::clone(&front);
        let answer = move || {
            let _room = room;
            routes::answer(&work, &request)
        };
        let reply = front.pool.run(lane, answer).await;
        if stored {
            front.conformance.jobs.finish(id, reply.unwrap_or_else(|error| Reply::error(&error)));
        }
    });
    let reply = Reply::empty(202);
    if stored { reply.header(jobs::JOB_HEADER, &id.to_string()) } else { reply }
}
