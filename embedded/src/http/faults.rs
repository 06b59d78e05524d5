//! Simulates faults that a test requests in order to check how a client reacts; needs the start
//! option `--faults`.

use std::sync::{Mutex, PoisonError};

use crate::error::{Code, Error, Result};
use crate::value::Value;

use super::call::Call;
use super::index_body::bad;
use super::limits::{FAULT_ORDERS_MAX, FAULT_TIMES_MAX};
use super::reply::{Reply, object};
use super::request::Request;

/// Header with which a request asks for a fault in its own answer: `name` or `name;after`.
const HEADER: &str = "x-arango-embedded-fault";

/// The faults that a test can request.
const FAULTS: [(&str, Code); 17] = [
    ("moved-leader", Code::ClusterNotLeader),
    ("leadership-challenge", Code::ClusterLeadershipChallengeOngoing),
    ("backend-unavailable", Code::ClusterBackendUnavailable),
    ("cluster-timeout", Code::ClusterTimeout),
    ("write-concern", Code::ReplicationWriteConcernNotFulfilled),
    ("shutting-down", Code::ShuttingDown),
    ("starting-up", Code::StartingUp),
    ("queue-full", Code::QueueFull),
    ("queue-time", Code::QueueTimeRequirementViolated),
    ("read-only", Code::ReadOnly),
    ("lock-timeout", Code::LockTimeout),
    ("locked", Code::Locked),
    ("deadlock", Code::Deadlock),
    ("conflict", Code::Conflict),
    ("resource-limit", Code::ResourceLimit),
    ("cursor-gone", Code::CursorNotFound),
    ("transaction-gone", Code::TransactionNotFound),
];

/// One simulated fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    code: Code,
    /// Whether the request is executed before the fault, so that only the request's answer is lost.
    pub(super) after: bool,
}

/// A requested fault, which the next `times` requests with this method and path prefix get.
#[derive(Debug)]
struct Order {
    fault: Fault,
    times: u64,
    method: Option<String>,
    path: String,
}

/// The simulated faults that clients have requested for one listener.
#[derive(Debug)]
pub(super) struct Faults {
    allowed: bool,
    orders: Mutex<Vec<Order>>,
}

impl Fault {
    fn by_name(name: &str, after: bool) -> Result<Self> {
        let known = FAULTS.iter().find(|(known, _)| *known == name);
        let (_, code) = known.ok_or_else(|| bad(format!("'{name}' is no fault of this engine")))?;
        Ok(Self { code: *code, after })
    }

    /// Returns the error with which the request is answered.
    pub(super) fn error(self) -> Error {
        Error::of(self.code)
    }
}

impl Faults {
    /// Returns the faults of a new listener: none. `allowed` is the start option `--faults`.
    pub(super) fn new(allowed: bool) -> Self {
        Self { allowed, orders: Mutex::default() }
    }

    /// Returns the fault for a request, if any: the fault in the request's header, otherwise the
    /// fault of the first matching order.
    pub(super) fn of(&self, request: &Request) -> Result<Option<Fault>> {
        let path = request.segments();
        if !self.allowed || path.starts_with(&["_admin", "embedded"]) {
            return Ok(None);
        }
        if let Some(text) = request.header(HEADER) {
            let (name, after) =
                text.strip_suffix(";after").map_or((text, false), |name| (name, true));
            return Fault::by_name(name, after).map(Some);
        }
        let path = format!("/{}", path.join("/"));
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |order: &Order| {
            path.starts_with(&order.path)
                && order.method.as_deref().is_none_or(|method| method == request.method.as_str())
        };
        let Some(at) = orders.iter().position(fits) else { return Ok(None) };
        let fault = orders[at].fault;
        orders[at].times -= 1;
        if orders[at].times == 0 {
            orders.remove(at);
        }
        Ok(Some(fault))
    }
}

/// `PUT /_admin/embedded/faults`: orders a fault for later requests. The body has `fault`, and
/// optionally `times`, `after`, `method` and `path` (a prefix).
pub(super) fn order(call: &Call<'_>) -> Result<Reply> {
    let faults = allowed(call)?;
    let body = Value::object(call.request.object()?);
    let name = body.text_of("fault").ok_or_else(|| bad("'fault' must be a name"))?;
    let after = super::index_body::flag(&body, "after", false)?;
    let times = match body.attribute("times") {
        Value::Null => 1,
        Value::Int(times) if (1..=FAULT_TIMES_MAX as i64).contains(&times) => times.unsigned_abs(),
        _ => return Err(bad(format!("'times' must be a number from 1 to {FAULT_TIMES_MAX}"))),
    };
    let order = Order {
        fault: Fault::by_name(name, after)?,
        times,
        method: body.text_of("method").map(str::to_owned),
        path: body.text_of("path").unwrap_or("/").to_owned(),
    };
    let mut orders = faults.orders.lock().unwrap_or_else(PoisonError::into_inner);
    if orders.len() >= FAULT_ORDERS_MAX {
        return Err(Error::new(
            Code::ResourceLimit,
            format!("{FAULT_ORDERS_MAX} requested faults are still pending"),
        ));
    }
    orders.push(order);
    Ok(Reply::ok(200, object! { "faults" => orders.len() as u64 }))
}

/// `DELETE /_admin/embedded/faults`: removes all ordered faults that are still pending.
pub(super) fn clear(call: &Call<'_>) -> Result<Reply> {
    let faults = allowed(call)?;
    faults.orders.lock().unwrap_or_else(PoisonError::into_inner).clear();
    Ok(Reply::ok(200, object! { "faults" => 0_u64 }))
}

fn allowed<'a>(call: &'a Call<'_>) -> Result<&'a Faults> {
    call.need_admin()?;
    if call.front.faults.allowed {
        return Ok(&call.front.faults);
    }
    Err(Error::unsupported(
        "/_admin/embedded/faults of an engine that was started without --faults",
    ))
}
