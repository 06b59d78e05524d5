//! Requests that are answered later: `x-arango-async` and `/_api/job`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Code, Error, Result};
use crate::value::Value;

use super::call::Call;
use super::limits::{JOB_BYTES_MAX, JOBS_LISTED, JOBS_MAX};
use super::reply::{Reply, object};

/// Header of an answer that names its job.
pub(super) const JOB_HEADER: &str = "x-arango-async-id";

/// The jobs of one listener.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    jobs: BTreeMap<u64, Job>,
    bytes: usize,
}

#[derive(Debug)]
struct Job {
    /// User that alone may see it.
    owner: String,
    /// Set to end the queries of the job.
    cancelled: Arc<AtomicBool>,
    done: Option<Done>,
}

#[derive(Debug)]
struct Done {
    reply: Reply,
    /// Seconds since 1970.
    at: f64,
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn unknown() -> Error {
    Error::of(Code::HttpNotFound)
}

impl Kept {
    fn remove(&mut self, id: u64) -> Option<Job> {
        let job = self.jobs.remove(&id)?;
        self.bytes -= job.done.as_ref().map_or(0, |done| done.reply.bytes());
        Some(job)
    }
}

impl Jobs {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(super) fn number(&self) -> usize {
        self.kept().jobs.len()
    }

    /// Notes a job whose answer is to be kept; 503/21003 when there are too many.
    pub(super) fn begin(&self, id: u64, owner: &str, cancelled: Arc<AtomicBool>) -> Result<()> {
        let mut kept = self.kept();
        if kept.jobs.len() >= JOBS_MAX {
            return Err(Error::of(Code::QueueFull));
        }
        kept.jobs.insert(id, Job { owner: owner.to_owned(), cancelled, done: None });
        Ok(())
    }

    /// Keeps the answer of a job; one that was deleted meanwhile is forgotten.
    pub(super) fn finish(&self, id: u64, reply: Reply) {
        let mut kept = self.kept();
        let fits = kept.bytes + reply.bytes() <= JOB_BYTES_MAX;
        let reply = if fits {
            reply
        } else {
            let message = "the kept answers of jobs take too much room";
            Reply::error(&Error::new(Code::ResourceLimit, message))
        };
        let bytes = reply.bytes();
        if let Some(job) = kept.jobs.get_mut(&id) {
            job.done = Some(Done { reply, at: now_s() });
            kept.bytes += bytes;
        }
    }

    /// Whether a job of `owner` is done (404 if there is none).
    fn is_done(&self, id: &str, owner: &str) -> Result<bool> {
        let id: u64 = id.parse().map_err(|_| unknown())?;
        let kept = self.kept();
        let job = kept.jobs.get(&id).filter(|job| may(job, owner)).ok_or_else(unknown)?;
        Ok(job.done.is_some())
    }

    fn take(&self, id: &str, owner: &str) -> Result<Job> {
        self.is_done(id, owner)?;
        let id = id.parse().map_err(|_| unknown())?;
        self.kept().remove(id).ok_or_else(unknown)
    }

    fn list(&self, owner: &str, done: bool, most: usize) -> Vec<Value> {
        let kept = self.kept();
        let mine = kept.jobs.iter().filter(|(_, job)| may(job, owner));
        let wanted = mine.filter(|(_, job)| job.done.is_some() == done);
        wanted.take(most).map(|(id, _)| Value::from(id.to_string())).collect()
    }

    /// Forgets the jobs of `owner` that were done before `stamp`, or all of them.
    fn clear(&self, owner: &str, stamp: Option<f64>) {
        let mut kept = self.kept();
        let is_over = |job: &Job| match stamp {
            None => true,
            Some(stamp) => job.done.as_ref().is_some_and(|done| done.at < stamp),
        };
        let over: Vec<u64> = kept
            .jobs
            .iter()
            .filter(|(_, job)| may(job, owner) && is_over(job))
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            kept.remove(id);
        }
    }
}

/// A server token (whose name is empty) may see every job.
fn may(job: &Job, owner: &str) -> bool {
    owner.is_empty() || job.owner == owner
}

fn done_reply() -> Reply {
    Reply::json(200, &object! { "result" => true })
}

/// `GET /_api/job/done`, `…/pending`, `…/ID`
pub(super) fn get(call: &Call<'_>, what: &str) -> Result<Reply> {
    let (jobs, owner) = (&call.front.jobs, call.caller.name());
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

/// `PUT /_api/job/ID`: the answer of the job, once.
pub(super) fn fetch(call: &Call<'_>, id: &str) -> Result<Reply> {
    let (jobs, owner) = (&call.front.jobs, call.caller.name());
    if !jobs.is_done(id, owner)? {
        return Ok(Reply::empty(204));
    }
    let done = jobs.take(id, owner)?.done.ok_or_else(unknown)?;
    Ok(done.reply.header(JOB_HEADER, id))
}

/// `PUT /_api/job/ID/cancel`: queries of the job end with 1500; what is no query goes on to its end.
pub(super) fn cancel(call: &Call<'_>, id: &str) -> Result<Reply> {
    let (jobs, owner) = (&call.front.jobs, call.caller.name());
    jobs.is_done(id, owner)?;
    let id: u64 = id.parse().map_err(|_| unknown())?;
    if let Some(job) = jobs.kept().jobs.get(&id) {
        job.cancelled.store(true, Ordering::Relaxed);
    }
    Ok(done_reply())
}

/// `DELETE /_api/job/all`, `…/expired?stamp=`, `…/ID`
pub(super) fn remove(call: &Call<'_>, what: &str) -> Result<Reply> {
    let (jobs, owner) = (&call.front.jobs, call.caller.name());
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
        assert!(jobs.take("7", "ann").expect("known").done.is_some());
        assert!(jobs.take("7", "ann").is_err());
        assert_eq!(jobs.kept().bytes, 0);
    }

    #[test]
    fn what_does_not_fit_is_answered_as_an_error_and_what_is_old_is_forgotten() {
        let jobs = Jobs::default();
        jobs.kept().bytes = JOB_BYTES_MAX;
        jobs.begin(1, "ann", Arc::default()).expect("room");
        jobs.finish(1, Reply::json(200, &object! {}));
        assert!(jobs.is_done("1", "ann").expect("known"));
        jobs.clear("ann", Some(1.0));
        assert_eq!(jobs.list("ann", true, 10).len(), 1);
        jobs.clear("ann", Some(now_s() + 1.0));
        assert!(jobs.list("ann", true, 10).is_empty());
    }
}
