//! Asynchronous requests, whose answers are fetched later: `x-arango-async` and `/_api/job`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Code, Error, Result};
use crate::value::Value;

use crate::http::call::Call;
use crate::http::reply::{Reply, object};

/// Maximum number of jobs of `x-arango-async: store` on one listener, running or with a stored
/// answer; a further job gets 503/21003.
const JOBS_MAX: usize = 10_000;
/// Maximum total size of the stored answers of a listener's jobs, in bytes; an answer that exceeds
/// the limit is replaced by 500/32.
const JOB_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Default number of listed jobs (ArangoDB's).
const JOBS_LISTED: usize = 100;

/// Header of an answer, with the id of the created job.
pub(in crate::http) const JOB_HEADER: &str = "x-arango-async-id";

/// The jobs of one listener.
#[derive(Debug, Default)]
pub(in crate::http) struct Jobs {
    table: Mutex<JobTable>,
}

#[derive(Debug, Default)]
struct JobTable {
    jobs: BTreeMap<u64, Job>,
    bytes: usize,
}

#[derive(Debug)]
struct Job {
    /// The only user who may see the job.
    owner: String,
    /// Set to true to end the job's queries.
    cancelled: Arc<AtomicBool>,
    result: Option<JobResult>,
}

#[derive(Debug)]
struct JobResult {
    reply: Reply,
    /// Time when the job finished, in seconds since 1970.
    at: f64,
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn unknown() -> Error {
    Error::of(Code::HttpNotFound)
}

impl JobTable {
    fn remove(&mut self, id: u64) -> Option<Job> {
        let job = self.jobs.remove(&id)?;
        self.bytes -= job.result.as_ref().map_or(0, |result| result.reply.bytes());
        Some(job)
    }
}

impl Jobs {
    fn table(&self) -> MutexGuard<'_, JobTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of jobs that run or have a stored answer.
    pub(in crate::http) fn number(&self) -> usize {
        self.table().jobs.len()
    }

    /// Adds a job whose answer will be stored; error 503/21003 if there are too many jobs.
    pub(in crate::http) fn begin(
        &self,
        id: u64,
        owner: &str,
        cancelled: Arc<AtomicBool>,
    ) -> Result<()> {
        let mut table = self.table();
        if table.jobs.len() >= JOBS_MAX {
            return Err(Error::of(Code::QueueFull));
        }
        table.jobs.insert(id, Job { owner: owner.to_owned(), cancelled, result: None });
        Ok(())
    }

    /// Stores the answer of a job, unless the job was removed.
    pub(in crate::http) fn finish(&self, id: u64, reply: Reply) {
        let mut table = self.table();
        let fits = table.bytes + reply.bytes() <= JOB_BYTES_MAX;
        let reply = if fits {
            reply
        } else {
            let message = "the stored answers of jobs exceed their memory limit";
            Reply::error(&Error::new(Code::ResourceLimit, message))
        };
        let bytes = reply.bytes();
        if let Some(job) = table.jobs.get_mut(&id) {
            job.result = Some(JobResult { reply, at: now_s() });
            table.bytes += bytes;
        }
    }

    /// Whether a job of `owner` has finished; error 404 for an unknown job.
    fn is_done(&self, id: &str, owner: &str) -> Result<bool> {
        let id: u64 = id.parse().map_err(|_| unknown())?;
        let table = self.table();
        let job = table.jobs.get(&id).filter(|job| may(job, owner)).ok_or_else(unknown)?;
        Ok(job.result.is_some())
    }

    fn take(&self, id: &str, owner: &str) -> Result<Job> {
        self.is_done(id, owner)?;
        let id = id.parse().map_err(|_| unknown())?;
        self.table().remove(id).ok_or_else(unknown)
    }

    fn list(&self, owner: &str, done: bool, most: usize) -> Vec<Value> {
        let table = self.table();
        let mine = table.jobs.iter().filter(|(_, job)| may(job, owner));
        let wanted = mine.filter(|(_, job)| job.result.is_some() == done);
        wanted.take(most).map(|(id, _)| Value::from(id.to_string())).collect()
    }

    /// Removes the jobs of `owner` that ended before the time `stamp`; without `stamp` removes all
    /// jobs of `owner`.
    fn clear(&self, owner: &str, stamp: Option<f64>) {
        let mut table = self.table();
        let is_over = |job: &Job| match stamp {
            None => true,
            Some(stamp) => job.result.as_ref().is_some_and(|result| result.at < stamp),
        };
        let over: Vec<u64> = table
            .jobs
            .iter()
            .filter(|(_, job)| may(job, owner) && is_over(job))
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            table.remove(id);
        }
    }
}

/// Whether the caller with the name `owner` may see a job. Only the job's owner and callers with a
/// server token, whose name is empty, may see the job.
fn may(job: &Job, owner: &str) -> bool {
    owner.is_empty() || job.owner == owner
}

fn done_reply() -> Reply {
    Reply::json(200, &object! { "result" => true })
}

/// `GET /_api/job/done` and `…/pending` list the caller's jobs; `…/ID` answers 200 if the job has
/// finished, otherwise 204.
pub(in crate::http) fn get(call: &Call<'_>, what: &str) -> Result<Reply> {
    let (jobs, owner) = (&call.front.conformance.jobs, call.caller.name());
    if what.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(Reply::empty(if jobs.is_done(what, owner)? { 200 } else { 204 }));
    }
    let most = call.request.parameter("count").and_then(|count| count.parse().ok());
    let most = most.unwrap_or(JOBS_LISTED);
    match what {
        "done" | "pending" => Ok(Reply::json(200, &jobs.list(owner, what == "done", most).into())),
        _ => Err(Error::of(Code::HttpBadParameter)),
    }
}

/// `PUT /_api/job/ID`: returns the answer of the job and removes the job.
pub(in crate::http) fn fetch(call: &Call<'_>, id: &str) -> Result<Reply> {
    let (jobs, owner) = (&call.front.conformance.jobs, call.caller.name());
    if !jobs.is_done(id, owner)? {
        return Ok(Reply::empty(204));
    }
    let result = jobs.take(id, owner)?.result.ok_or_else(unknown)?;
    Ok(result.reply.header(JOB_HEADER, id))
}

/// `PUT /_api/job/ID/cancel`: ends a running query of the job with error 1500. A job without
/// queries runs to its end.
pub(in crate::http) fn cancel(call: &Call<'_>, id: &str) -> Result<Reply> {
    let (jobs, owner) = (&call.front.conformance.jobs, call.caller.name());
    jobs.is_done(id, owner)?;
    let id: u64 = id.parse().map_err(|_| unknown())?;
    if let Some(job) = jobs.table().jobs.get(&id) {
        job.cancelled.store(true, Ordering::Relaxed);
    }
    Ok(done_reply())
}

/// `DELETE /_api/job/all`, `…/expired?stamp=` and `…/ID`: removes all of the caller's jobs, the
/// jobs that ended before a time, or one job.
pub(in crate::http) fn remove(call: &Call<'_>, what: &str) -> Result<Reply> {
    let (jobs, owner) = (&call.front.conformance.jobs, call.caller.name());
    match what {
        "all" => jobs.clear(owner, None),
        "expired" => {
            let stamp = call.request.parameter("stamp").and_then(|stamp| stamp.parse().ok());
            jobs.clear(owner, Some(stamp.ok_or_else(|| Error::of(Code::HttpBadParameter))?));
        }
        id => {
            jobs.take(id, owner)?;
        }
    }
    Ok(done_reply())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_seen_by_its_owner_alone_and_answered_once() {
        let jobs = Jobs::default();
        jobs.begin(7, "ann", Arc::default()).expect("room");
        assert!(!jobs.is_done("7", "ann").expect("known"));
        assert!(jobs.is_done("7", "bob").is_err());
        jobs.finish(7, Reply::json(200, &object! { "a" => 1_i64 }));
        assert_eq!(jobs.list("ann", true, 10).len(), 1);
        assert!(jobs.list("bob", true, 10).is_empty());
        assert!(jobs.take("7", "ann").expect("known").result.is_some());
        assert!(jobs.take("7", "ann").is_err());
        assert_eq!(jobs.table().bytes, 0);
    }

    #[test]
    fn what_does_not_fit_is_answered_as_an_error_and_what_is_old_is_forgotten() {
        let jobs = Jobs::default();
        jobs.table().bytes = JOB_BYTES_MAX;
        jobs.begin(1, "ann", Arc::default()).expect("room");
        jobs.finish(1, Reply::json(200, &object! {}));
        assert!(jobs.is_done("1", "ann").expect("known"));
        jobs.clear("ann", Some(1.0));
        assert_eq!(jobs.list("ann", true, 10).len(), 1);
        jobs.clear("ann", Some(now_s() + 1.0));
        assert!(jobs.list("ann", true, 10).is_empty());
    }
}
