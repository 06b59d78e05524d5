//! One visit: the steps in their order, each within its time, and scratch removed however it ends.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::timeout;

use super::check::{self, Step};
use super::report::{Ended, Report, Rows};
use super::scratch::{self, Ground, Name, Whose};
use super::server::{self, Server};
use super::{errors, health, objects, queries, rights, transactions, vectors};
use crate::store::{Credentials, Endpoint, Fault, FaultKind, Layout, Settings};
use vctx_base::clock::{Clock as _, SystemClock};
use vctx_core::policy::Retention;

/// What is looked at, by whom, and how much of it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The two ways of the server, its users and its database.
    pub store: Settings,
    /// The user that makes and drops indexes.
    pub index_user: String,
    /// Its password where it is known; else it is looked at by an administrator alone.
    pub index_password: Option<String>,
    /// The users of the server that setup makes, those whose passwords are known.
    pub application: Vec<Credentials>,
    /// What a setup makes.
    pub layout: Layout,
    /// The policy of retention.
    pub retention: Retention,
    /// Rows from which on a vector index is made.
    pub index_rows_min: u64,
    /// A running deployment is looked at, and nothing is written.
    pub health: bool,
    /// Nothing is waited for that takes longer than some seconds.
    pub quick: bool,
    /// Names of checks; none: all of them.
    pub only: Vec<String>,
    /// Age in seconds from which on scratch of others counts as left behind.
    pub leftover_s: u64,
}

impl Asked {
    /// Who asks.
    pub(super) fn who(&self) -> &Credentials {
        &self.store.rw_credentials
    }

    /// Where.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.store.rw
    }

    /// The path of the socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.store.rw.path().to_owned()
    }

    fn steps(&self) -> &'static [Step] {
        if self.health { &[Step::Health] } else { PROBED }
    }
}

/// Steps of a visit that probes.
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

/// Longest time of one step, in milliseconds: training is waited for 60 s, an idle transaction 75 s, a hundred queries 10 s each at worst.
const STEP_MS_MAX: u64 = 180_000;
/// Longest time of a whole visit without its removal, in milliseconds; below [`scratch::LEFTOVER_S`], so that no living visit is taken for dead.
const VISIT_MS_MAX: u64 = 600_000;
/// Longest time of the removal, in milliseconds.
const REMOVAL_MS_MAX: u64 = 60_000;
/// Pause before a removal whose answer was lost is tried again, in milliseconds.
const REMOVAL_PAUSE_MS: u64 = 200;

/// Makes a visit. `stop` ends it early; what it made is removed all the same. `progress` is told which step begins.
pub async fn examine(
    asked: &Asked,
    stop: impl Future<Output = ()>,
    progress: &dyn Fn(&str),
) -> Report {
    let mut rows = Rows::new(&asked.only, asked.steps());
    let name = Name::fresh();
    let bound = Duration::from_millis(VISIT_MS_MAX);
    let visit = timeout(bound, visit(asked, &name, &mut rows, progress));
    let ended = tokio::select! {
        ended = visit => match ended {
            Ok(Ok(())) => Ended::Done,
            Ok(Err(fault)) => ended_by(&fault),
            Err(_) => Ended::Interrupted,
        },
        () = stop => Ended::Interrupted,
    };
    if !asked.health && !matches!(ended, Ended::Unreachable(_) | Ended::Refused(_)) {
        progress("removing scratch");
        let removal = removal(asked, &name, &mut rows);
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

fn ended_by(fault: &Fault) -> Ended {
    match fault.kind {
        FaultKind::Arango { status: 401 | 403, .. } => Ended::Refused(fault.to_string()),
        _ => Ended::Unreachable(fault.to_string()),
    }
}

async fn visit(
    asked: &Asked,
    name: &Name,
    rows: &mut Rows,
    progress: &dyn Fn(&str),
) -> Result<(), Fault> {
    progress(if asked.health { "health of a running deployment" } else { "what answers" });
    if asked.health {
        let bound = Duration::from_millis(STEP_MS_MAX);
        return match timeout(bound, health::look(asked, rows)).await {
            Ok(looked) => looked.inspect_err(|fault| rows.cut(Step::Health, &fault.to_string())),
            Err(_) => {
                rows.cut(Step::Health, &format!("not done within {STEP_MS_MAX} ms"));
                Ok(())
            }
        };
    }
    let looked = server::look(asked, rows).await;
    let looked = looked.inspect_err(|fault| rows.cut(Step::Server, &fault.to_string()))?;
    let Some(server) = looked else { return Ok(()) };
    let steps: Vec<Step> =
        PROBED.iter().copied().filter(|step| rows.wants(*step) && is_probing(*step)).collect();
    if steps.is_empty() {
        return Ok(());
    }
    progress("scratch");
    let ground =
        match scratch::make(asked.endpoint(), asked.who(), &asked.store.database, name, rows).await
        {
            Ok(ground) => ground,
            Err(fault) => {
                rows.cut(Step::Objects, &fault.to_string());
                None
            }
        };
    let told = Told { asked, server: &server, name, ground: ground.as_ref() };
    for step in steps {
        progress(step.text());
        let bound = Duration::from_millis(STEP_MS_MAX);
        match timeout(bound, one(step, &told, rows)).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => rows.cut(step, &fault.to_string()),
            Err(_) => rows.cut(step, &format!("not done within {STEP_MS_MAX} ms")),
        }
    }
    Ok(())
}

/// Whether a step needs scratch.
fn is_probing(step: Step) -> bool {
    !matches!(step, Step::Server | Step::Health | Step::Removal)
}

/// What every step knows.
pub(super) struct Told<'a> {
    pub(super) asked: &'a Asked,
    pub(super) server: &'a Server,
    /// Of this visit.
    pub(super) name: &'a Name,
    /// None where nothing may be made.
    pub(super) ground: Option<&'a Ground>,
}

/// Why nothing can be tried without scratch, and what to do.
pub(super) const NO_GROUND: &str = "needs scratch, and none could be made (see objects.scratch): run `vctx doctor` as administrator (ARANGO_USER=root)";

async fn one(step: Step, told: &Told<'_>, rows: &mut Rows) -> Result<(), Fault> {
    match step {
        Step::Objects => objects::look(told, rows).await,
        Step::Vectors => vectors::look(told, rows).await,
        Step::Queries => queries::look(told, rows).await,
        Step::Transactions => transactions::look(told, rows).await,
        Step::Rights => rights::look(told, rows).await,
        Step::Errors => errors::look(told, rows).await,
        Step::Server | Step::Health | Step::Removal => Ok(()),
    }
}

/// Removes what this visit made, and what doctors that died left behind.
async fn removal(asked: &Asked, name: &Name, rows: &mut Rows) -> Result<(), Fault> {
    let (endpoint, who, database) = (asked.endpoint(), asked.who(), &asked.store.database);
    let gone = loop {
        match scratch::remove(endpoint, who, database, Whose::Own(name)).await {
            // A database that drops slowly has not answered in time: what is left is looked for again, within the bound of all of it.
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
    rows.see(check::REMOVED, left.is_empty(), seen);
    let before = Whose::Before(SystemClock.unix_ms().saturating_sub(asked.leftover_s * 1000));
    let gone = scratch::remove(endpoint, who, database, before).await?;
    let left = scratch::left(endpoint, who, database, before).await?;
    let seen = match (gone.as_slice(), left.as_slice()) {
        ([], []) => "there was nothing".to_owned(),
        (gone, []) => format!("removed: {}", gone.join(", ")),
        (_, left) => format!("left, since this user may not remove it: {}", left.join(", ")),
    };
    rows.see(check::LEFTOVERS, left.is_empty(), seen);
    Ok(())
}
