//! Runs the steps of a doctor's visit (one run of `vctx doctor`) in order, each step within a time
//! limit, and always removes scratch.

use std::time::Duration;

use tokio::time::timeout;

use super::report::{End, Report, Rows};
use super::scratch::{self, Ground, Name, Whose};
use super::server::{self, Server};
use super::{errors, health, objects, queries, rights, transactions, vectors};
use crate::checks::{self, Step};
use crate::store::{Credentials, Endpoint, Fault, FaultKind, Layout, Result, Settings};
use vctx_base::clock::{Clock as _, SystemClock};
use vctx_core::policy::Retention;

/// What a doctor's visit examines (the database and its users), and which checks it runs.
#[derive(Clone, Debug)]
pub struct Order {
    /// Sockets, users and database from the server's configuration.
    pub store: Settings,
    /// The user that creates and drops indexes.
    pub index_user: String,
    /// Password of the index user, if known. Without this password, only an administrator can check
    /// the rights of the index user.
    pub index_password: Option<String>,
    /// Credentials of the users that setup creates for the server; users without a known password
    /// are left out.
    pub application: Vec<Credentials>,
    /// The schema that setup creates.
    pub layout: Layout,
    /// Retention policy for texts.
    pub retention: Retention,
    /// Minimum number of chunks at which the server creates a vector index.
    pub index_rows_min: u64,
    /// Whether to check a running deployment, without writing to it.
    pub health: bool,
    /// Whether to skip checks that wait for more than a few seconds.
    pub quick: bool,
    /// Names of the checks to run; an empty list selects all checks.
    pub only: Vec<String>,
    /// Age in seconds after which another run's scratch counts as abandoned.
    pub leftover_s: u64,
}

impl Order {
    /// Returns the credentials that the doctor uses.
    pub(super) fn who(&self) -> &Credentials {
        &self.store.rw_credentials
    }

    /// Returns the database socket for writes.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.store.rw
    }

    fn steps(&self) -> &'static [Step] {
        if self.health { &[Step::Health] } else { PROBED }
    }
}

/// Steps of a visit that tests a database; a visit to a running deployment has only the health
/// step.
const PROBED: &[Step] = &[
    Step::Server,
    Step::Objects,
    Step::Vectors,
    Step::Queries,
    Step::Transactions,
    Step::Rights,
    Step::Errors,
    Step::Removal,
];

/// Longest time of one step of a visit, in milliseconds. Training a vector index takes up to 60 s;
/// the expiry of an idle transaction takes up to 75 s.
const STEP_MS_MAX: u64 = 180_000;
/// Longest time of a visit before scratch is removed, in milliseconds. It is shorter than
/// [`scratch::LEFTOVER_S`], so that no other doctor removes this visit's scratch.
const VISIT_MS_MAX: u64 = 600_000;
/// Time limit for the removal of scratch, in milliseconds.
const REMOVAL_MS_MAX: u64 = 60_000;
/// Pause in milliseconds before scratch is removed again, after the answer to the last removal was
/// lost.
const REMOVAL_PAUSE_MS: u64 = 200;

/// Runs a doctor's visit and returns the report. `stop` ends the visit early; the visit's scratch
/// is removed even then. `progress` receives the name of each step when it begins.
pub async fn examine(
    order: &Order,
    stop: impl Future<Output = ()>,
    progress: &dyn Fn(&str),
) -> Report {
    let mut rows = Rows::new(&order.only, order.steps());
    let name = Name::fresh();
    let bound = Duration::from_millis(VISIT_MS_MAX);
    let visit = timeout(bound, visit(order, &name, &mut rows, progress));
    let ended = tokio::select! {
        ended = visit => match ended {
            Ok(Ok(())) => End::Done,
            Ok(Err(fault)) => ended_by(&fault),
            Err(_) => End::Interrupted,
        },
        () = stop => End::Interrupted,
    };
    if !order.health && !matches!(ended, End::Unreachable(_) | End::Refused(_)) {
        progress("removing scratch");
        let removal = removal(order, &name, &mut rows);
        match timeout(Duration::from_millis(REMOVAL_MS_MAX), removal).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => rows.cut(Step::Removal, &format!("{fault}; {}", by_hand(&name))),
            Err(_) => {
                let why = format!("not done within {REMOVAL_MS_MAX} ms; {}", by_hand(&name));
                rows.cut(Step::Removal, &why);
            }
        }
    }
    rows.end(ended)
}

fn by_hand(name: &Name) -> String {
    format!(
        "the next `vctx doctor` removes {} when it is {} s old",
        name.text(),
        scratch::LEFTOVER_S
    )
}

fn ended_by(fault: &Fault) -> End {
    match fault.kind {
        FaultKind::Arango { status: 401 | 403, .. } => End::Refused(fault.to_string()),
        _ => End::Unreachable(fault.to_string()),
    }
}

async fn visit(order: &Order, name: &Name, rows: &mut Rows, progress: &dyn Fn(&str)) -> Result<()> {
    progress(if order.health { "health of a running deployment" } else { "what answers" });
    if order.health {
        let bound = Duration::from_millis(STEP_MS_MAX);
        return match timeout(bound, health::look(order, rows)).await {
            Ok(looked) => looked.inspect_err(|fault| rows.cut(Step::Health, &fault.to_string())),
            Err(_) => {
                rows.cut(Step::Health, &format!("not done within {STEP_MS_MAX} ms"));
                Ok(())
            }
        };
    }
    let looked = server::look(order, rows).await;
    let looked = looked.inspect_err(|fault| rows.cut(Step::Server, &fault.to_string()))?;
    let Some(server) = looked else { return Ok(()) };
    let steps: Vec<Step> =
        PROBED.iter().copied().filter(|step| rows.wants(*step) && is_probing(*step)).collect();
    if steps.is_empty() {
        return Ok(());
    }
    progress("scratch");
    let ground =
        match scratch::make(order.endpoint(), order.who(), &order.store.database, name, rows).await
        {
            Ok(ground) => ground,
            Err(fault) => {
                rows.cut(Step::Objects, &fault.to_string());
                None
            }
        };
    let visit = Visit { order, server: &server, name, ground: ground.as_ref() };
    for step in steps {
        progress(step.text());
        let bound = Duration::from_millis(STEP_MS_MAX);
        match timeout(bound, one(step, &visit, rows)).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => rows.cut(step, &fault.to_string()),
            Err(_) => rows.cut(step, &format!("not done within {STEP_MS_MAX} ms")),
        }
    }
    Ok(())
}

/// Returns whether a step of the visit needs scratch.
fn is_probing(step: Step) -> bool {
    !matches!(step, Step::Server | Step::Health | Step::Removal)
}

/// The data that all steps of a visit share: the order (what to examine), the database server and
/// the scratch.
pub(super) struct Visit<'a> {
    pub(super) order: &'a Order,
    pub(super) server: &'a Server,
    /// Base name of this run's scratch objects.
    pub(super) name: &'a Name,
    /// The scratch of this visit; `None` if the user may not create scratch.
    pub(super) ground: Option<&'a Ground>,
}

/// Reason that the report gives for checks that are skipped because there is no scratch.
pub(super) const NO_GROUND: &str = "needs scratch, and none could be made (see objects.scratch): run `vctx doctor` as administrator (ARANGO_USER=root)";

async fn one(step: Step, visit: &Visit<'_>, rows: &mut Rows) -> Result<()> {
    match step {
        Step::Objects => objects::look(visit, rows).await,
        Step::Vectors => vectors::look(visit, rows).await,
        Step::Queries => queries::look(visit, rows).await,
        Step::Transactions => transactions::look(visit, rows).await,
        Step::Rights => rights::look(visit, rows).await,
        Step::Errors => errors::look(visit, rows).await,
        Step::Server | Step::Health | Step::Removal => Ok(()),
    }
}

/// Removes the scratch of this visit, and abandoned scratch of killed doctors.
async fn removal(order: &Order, name: &Name, rows: &mut Rows) -> Result<()> {
    let (endpoint, who, database) = (order.endpoint(), order.who(), &order.store.database);
    let gone = loop {
        match scratch::remove(endpoint, who, database, Whose::Own(name)).await {
            // The removal of scratch may take longer than the doctor waits for the database's
            // answer. The removal is therefore tried again, until its own time limit.
            Err(fault) if fault.kind == FaultKind::Lost => {
                tokio::time::sleep(Duration::from_millis(REMOVAL_PAUSE_MS)).await;
            }
            other => break other?,
        }
    };
    let left = scratch::left(endpoint, who, database, Whose::Own(name)).await?;
    let seen = match (gone.len(), left.as_slice()) {
        (gone, []) => format!("{gone} removed, nothing left"),
        (_, left) => format!("left: {}; {}", left.join(", "), by_hand(name)),
    };
    rows.see(checks::REMOVED, left.is_empty(), seen);
    let before = Whose::Before(SystemClock.unix_ms().saturating_sub(order.leftover_s * 1000));
    let gone = scratch::remove(endpoint, who, database, before).await?;
    let left = scratch::left(endpoint, who, database, before).await?;
    let seen = match (gone.as_slice(), left.as_slice()) {
        ([], []) => "there was nothing".to_owned(),
        (gone, []) => format!("removed: {}", gone.join(", ")),
        (_, left) => format!("not removed, since this user may not do so: {}", left.join(", ")),
    };
    rows.see(checks::LEFTOVERS, left.is_empty(), seen);
    Ok(())
}
