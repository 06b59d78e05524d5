//! The caller of a route: its user, its tenant, the names in the path, and the task that runs its
//! call.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use tokio::sync::{Semaphore, watch};
use tracing::Instrument as _;

use super::problem::IntoProblem as _;
use super::query::Query;
use crate::agent_loop::Processor;
use crate::executor::Executor;
use crate::limits::CALLS_IN_FLIGHT_MAX;
use vctx_base::metric;
use vctx_base::socket::PeerActor;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::NAME_BYTES_MAX;
use vctx_core::openai::DropinSettings;
use vctx_core::trust::{Actor, Principal};

/// State that the routes of one listener share.
pub(super) struct Front {
    pub(super) executor: Arc<Executor>,
    pub(super) processor: Arc<Processor>,
    pub(super) dropin: DropinSettings,
    tenant: String,
    pub(super) in_flight: Arc<Semaphore>,
    /// Permits for the tasks that run calls; a task continues if its client disconnects.
    pub(super) tasks: Arc<Semaphore>,
    /// Becomes true when the server stops.
    pub(super) stopping: watch::Receiver<bool>,
}

impl Front {
    pub(super) fn new(
        executor: Arc<Executor>,
        processor: Arc<Processor>,
        tenant: String,
        dropin: DropinSettings,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let permits = || Arc::new(Semaphore::new(CALLS_IN_FLIGHT_MAX));
        let (in_flight, tasks) = (permits(), permits());
        Self { executor, processor, dropin, tenant, in_flight, tasks, stopping }
    }
}

/// The caller of a route, with the names that the request's path contains.
pub(super) struct Caller {
    pub(super) front: Arc<Front>,
    pub(super) peer: PeerActor,
    pub(super) principal: Principal,
    /// The part `{agent}` of the path; empty on a path without `{agent}`.
    pub(super) given: String,
    /// Local key of the agent that the path names.
    pub(super) agent: String,
    /// The second parameter of the path, such as `{tool}` or `{turn}`; empty on a path without a
    /// second parameter.
    pub(super) item: String,
    pub(super) headers: HeaderMap,
    query: Option<String>,
}

impl FromRequestParts<Arc<Front>> for Caller {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        front: &Arc<Front>,
    ) -> std::result::Result<Self, Response> {
        let names = RawPathParams::from_request_parts(parts, front).await.map_err(|_| {
            Error::new(Code::InvalidName, "a name in the path is not UTF-8: use A-Z a-z 0-9 _ . -")
                .with("field", "agent")
                .into_problem()
        })?;
        let (mut given, mut item) = (String::new(), String::new());
        for (name, value) in &names {
            let place = if name == "agent" { &mut given } else { &mut item };
            value.clone_into(place);
        }
        let peer = parts.extensions.get::<PeerActor>().copied();
        let unknown = || Error::new(Code::Internal, "the caller is not known").into_problem();
        let peer = peer.ok_or_else(unknown)?;
        let label = parts.headers.get("x-vctx-label").and_then(|value| value.to_str().ok());
        let label = label
            .map(|text| text.chars().filter(|c| !c.is_control()).take(NAME_BYTES_MAX).collect());
        let actor = Actor { uid: peer.uid, pid: peer.pid, label };
        let mut principal = Principal { actor, tenant: front.tenant.clone(), called: None };
        let agent = front.executor.calling(&mut principal, &given);
        Ok(Self {
            front: Arc::clone(front),
            peer,
            principal,
            given,
            agent,
            item,
            headers: parts.headers.clone(),
            query: parts.uri.query().map(str::to_owned),
        })
    }
}

impl Caller {
    pub(super) fn executor(&self) -> &Executor {
        &self.front.executor
    }

    /// Returns the part of the caller that explains an error of the caller's call.
    pub(super) fn asker(&self) -> Asker {
        Asker {
            front: Arc::clone(&self.front),
            principal: self.principal.clone(),
            agent: self.agent.clone(),
        }
    }

    /// Whether the caller asks for the text that a model reads: `Accept` names `text/plain`, and
    /// not JSON, which is the default.
    pub(super) fn wants_text(&self) -> bool {
        let accepted = self.headers.get_all(header::ACCEPT).iter();
        let accepted: Vec<&str> = accepted.filter_map(|value| value.to_str().ok()).collect();
        let names = |kind: &str| {
            let named = accepted.iter().flat_map(|value| value.split(','));
            named
                .filter_map(|one| one.split(';').next())
                .any(|one| one.trim().eq_ignore_ascii_case(kind))
        };
        names("text/plain") && !names("application/json")
    }

    /// Returns the parsed query string of the request; `usage` lists the known parameters.
    pub(super) fn query(&self, usage: &str) -> Result<Query> {
        Query::parse(self.query.as_deref(), usage)
    }

    /// Returns which page of a list the query string requests: the number of the first row (1 by
    /// default) and the maximum number of rows.
    pub(super) fn page(&self, from: &str) -> Result<(u64, Option<u64>)> {
        let query = self.query(&format!("{from} and limit"))?;
        Ok((query.first(from)?, query.number("limit")?))
    }
}

/// A caller and the agent of its call.
pub(super) struct Asker {
    pub(super) front: Arc<Front>,
    principal: Principal,
    agent: String,
}

impl Asker {
    /// Returns the outcome of the call; explains the error if the agent is missing.
    pub(super) async fn explained<T>(&self, outcome: Result<T>) -> Result<T> {
        match outcome {
            Err(error) => {
                Err(self.front.executor.explained(&self.principal, &self.agent, error).await)
            }
            outcome => outcome,
        }
    }
}

/// Refuses a call about all agents, unless the caller is the server's own user or root.
pub fn check_operator(peer: PeerActor) -> Result<()> {
    let own = std::fs::metadata("/proc/self").ok().map(|own| own.uid());
    if peer.uid == 0 || own == Some(peer.uid) {
        return Ok(());
    }
    Err(Error::new(
        Code::Forbidden,
        "this call concerns all agents: only the server's own user may make it",
    ))
}

/// Runs work on a separate task, so that a disconnecting client does not interrupt it.
pub(super) async fn own_task(
    front: &Front,
    work: impl Future<Output = Result<Response>> + Send + 'static,
) -> Response {
    let Ok(permit) = Arc::clone(&front.tasks).try_acquire_owned() else { return crowded() };
    let work = async move {
        let _permit = permit;
        work.await
    };
    match tokio::spawn(work.in_current_span()).await {
        Ok(outcome) => outcome.unwrap_or_else(Error::into_problem),
        Err(error) => {
            tracing::error!(%error, "a call panicked");
            Error::new(Code::Internal, "the server has an internal error; retry with the same key")
                .into_problem()
        }
    }
}

pub(super) fn crowded() -> Response {
    overloaded(&format!(
        "more than {CALLS_IN_FLIGHT_MAX} calls at once: retry later with the same key"
    ))
}

pub(super) fn overloaded(text: &str) -> Response {
    metrics::counter!(metric::SHED).increment(1);
    Error::new(Code::Overloaded, text).into_problem()
}
