//! Group writes: changes of several agents that arrive while other writes are on their way go to
//! the database together, in one request.

use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::db::{Binds, Link, binds};
use super::fault::{Fault, FaultKind, Result};
use super::limits::{TOGETHER_CHANGES_MAX, TOGETHER_SENT_MAX, TOGETHER_WAITING_MAX};
use super::query::queries;
use super::trips;
use vctx_base::metric;
use vctx_core::trust::Scope;

queries! {
    CHANGES = "core_changes",
}

/// Bind variables of one change that become rows of the request for several changes.
const ROWS: [&str; 3] = ["messages", "kept", "events"];
/// Bind variables of one change that stay together.
const FIELDS: [&str; 5] = ["scope", "expected_rev", "core", "replay", "response"];
/// Bind variables of one change that must be empty, because the request for several changes has no
/// statements for them.
const EMPTY: [&str; 5] = ["last_keys", "recall", "pages", "cites", "folded"];

/// Outcome of a change that was written together with others.
#[derive(Debug)]
pub(super) enum Shared {
    /// The change was written. The value is the core's new revision.
    Written(String),
    /// The database refused the request, maybe because of another change; nothing was written.
    Refused,
}

/// The changes that wait until a request has been answered.
pub(super) struct Together {
    link: Arc<Link>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// Number of requests on their way, with one change or with several.
    sent: usize,
    waiting: Vec<Waiting>,
}

struct Waiting {
    agent: String,
    binds: Binds,
    answer: oneshot::Sender<Result<Shared>>,
}

/// The permission to send one request. Dropping it sends the changes that wait meanwhile.
pub(super) struct Permit(Arc<Together>);

impl Drop for Permit {
    fn drop(&mut self) {
        let next = {
            let mut queue = self.0.queue.lock().expect("no holder panics");
            let next = group(&mut queue.waiting);
            queue.sent -= usize::from(next.is_empty());
            next
        };
        // While the runtime ends, the waiting changes are dropped with their calls.
        if let (false, Ok(runtime)) = (next.is_empty(), Handle::try_current()) {
            let together = Arc::clone(&self.0);
            runtime.spawn(async move { together.send(next).await });
        }
    }
}

/// How a change is written.
pub(super) enum Way {
    /// In its own request, which the caller sends while it holds the permit.
    Alone(Binds, Option<Permit>),
    /// Together with others; the value is the outcome.
    Shared(Result<Shared>),
}

impl Together {
    /// Returns an empty queue for a connection.
    pub(super) fn new(link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self { link, queue: Mutex::default() })
    }

    /// Returns the permission to write a change alone if few requests are on their way. Otherwise,
    /// waits until one of them is answered, and writes the change together with the other waiting
    /// changes. A change that must be alone does not wait.
    pub(super) async fn write(self: &Arc<Self>, scope: &Scope, binds: Binds) -> Way {
        let may_share = EMPTY.iter().all(|name| is_empty(&binds, name));
        let answer = {
            let mut queue = self.queue.lock().expect("no holder panics");
            if queue.sent < TOGETHER_SENT_MAX {
                queue.sent += 1;
                return Way::Alone(binds, Some(Permit(Arc::clone(self))));
            }
            if !may_share || queue.waiting.len() >= TOGETHER_WAITING_MAX {
                return Way::Alone(binds, None);
            }
            let (answer, answered) = oneshot::channel();
            queue.waiting.push(Waiting { agent: scope.key().to_owned(), binds, answer });
            answered
        };
        trips::count_request();
        let outcome = answer.await.unwrap_or_else(|_| {
            Err(Fault::new(FaultKind::Lost, "a request for several changes was abandoned"))
        });
        if outcome.as_ref().map_or_else(Fault::is_refusal, |_| true) {
            trips::count_answer();
        }
        Way::Shared(outcome)
    }

    /// Sends changes in one request, and gives each its outcome.
    async fn send(self: Arc<Self>, group: Vec<Waiting>) {
        let permit = Permit(Arc::clone(&self));
        let (binds, answers) = joined(group);
        metrics::counter!(metric::STORE_TRIPS, "socket" => "rw").increment(1);
        let row = self.link.rows::<Row>(CHANGES, binds).await;
        drop(permit);
        let revs = match row.map(|rows| rows.into_iter().next()) {
            Ok(Some(Row { new_revs })) if new_revs.len() == answers.len() => new_revs,
            Ok(_) => {
                let fault = || Fault::new(FaultKind::Garbage, "not one revision for each change");
                return tell(answers, || Err(fault()));
            }
            Err(fault) if fault.is_refusal() => return tell(answers, || Ok(Shared::Refused)),
            Err(fault) => {
                return tell(answers, || Err(Fault::new(fault.kind, fault.message.as_str())));
            }
        };
        let mut revs = revs.into_iter();
        tell(answers, || Ok(revs.next().map_or(Shared::Refused, Shared::Written)));
    }
}

#[derive(Deserialize)]
struct Row {
    new_revs: Vec<String>,
}

type Answers = Vec<oneshot::Sender<Result<Shared>>>;

fn tell(answers: Answers, mut outcome: impl FnMut() -> Result<Shared>) {
    for answer in answers {
        // The receiver is gone if the call was given up.
        let _ = answer.send(outcome());
    }
}

fn is_empty(binds: &Binds, name: &str) -> bool {
    binds.0.get(name).and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Takes the changes of the next request out of the queue, at most one of each agent.
fn group(waiting: &mut Vec<Waiting>) -> Vec<Waiting> {
    let mut group: Vec<Waiting> = Vec::new();
    for one in std::mem::take(waiting) {
        let is_other = group.iter().any(|other| other.agent == one.agent);
        if is_other || group.len() >= TOGETHER_CHANGES_MAX {
            waiting.push(one);
        } else {
            group.push(one);
        }
    }
    group
}

/// Returns the bind variables of the request for several changes.
fn joined(group: Vec<Waiting>) -> (Binds, Answers) {
    let mut changes = Vec::with_capacity(group.len());
    let mut rows = ROWS.map(|_| Vec::new());
    let mut answers = Vec::with_capacity(group.len());
    let mut sync = Value::Null;
    for Waiting { mut binds, answer, .. } in group {
        let mut take = |name: &str| binds.0.remove(name).unwrap_or_default();
        let fields = FIELDS.map(|name| (name.to_owned(), take(name)));
        changes.push(Value::Object(Map::from_iter(fields)));
        for (name, rows) in ROWS.iter().zip(&mut rows) {
            if let Value::Array(more) = take(name) {
                rows.extend(more);
            }
        }
        sync = take("sync");
        answers.push(answer);
    }
    let [messages, kept, events] = rows.map(Value::Array);
    let mut binds = binds!(none; sync);
    binds.0.extend([
        ("changes", Value::Array(changes)),
        ("messages", messages),
        ("kept", kept),
        ("events", events),
    ]);
    (binds, answers)
}
