//! Checks the backlogs of a running deployment: vectors, reindexing, retention, schedules, runs and
//! moves.

use std::time::Duration;

use serde_json::{Value, json};

use super::health::guard;
use super::report::Rows;
use super::visit::Order;
use crate::checks;
use crate::limits::{EXPIRE_AGENTS_LOOKED, TICKS_LOOKED};
use crate::store::{self, Admin, Result, Ro, probe};
use vctx_base::clock::{Clock as _, SystemClock};

/// Maximum number of agents that a check reads, in the order of their keys.
const AGENTS_MAX: u64 = 4_096;
/// Longest time that an entry of recall storage may wait for its vector, in milliseconds.
const UNEMBEDDED_MS_MAX: u64 = 600_000;
/// Longest acceptable delay of a schedule, a run or a chain of heartbeats, in milliseconds. Normal
/// delays are much shorter: servers search for due work twice a second, and the lease of a
/// scheduled run lasts 15 s.
const OVERDUE_MS_MAX: u64 = 60_000;
/// Pause between two readings of a reindexing's progress, in milliseconds. A server searches for
/// work once a second.
const REINDEX_LOOK_MS: u64 = 5_000;

/// The result of a check: whether the check passed, and the observation.
type CheckOutcome = Result<(bool, String)>;

/// Runs all backlog checks; a fault in one check does not stop the others.
pub(super) async fn look(order: &Order, db: &Admin, ro: &Ro, rows: &mut Rows) {
    guard(rows, checks::H_RECALL, recall(db).await);
    guard(rows, checks::H_MANIFESTS, manifests(ro).await);
    guard(rows, checks::H_RETENTION, retention(order, ro).await);
    guard(rows, checks::H_SCHEDULES, schedules(ro).await);
    guard(rows, checks::H_RUNS, runs(ro).await);
    guard(rows, checks::H_MOVES, moves(ro).await);
}

/// Checks for entries without vectors, if the configuration requires vectors for recall storage.
async fn recall(db: &Admin) -> CheckOutcome {
    let marks = db.ask(http::Method::GET, "_api/collection/recall_marks/count", None).await?;
    if marks.body["count"].as_u64().unwrap_or(0) == 0 {
        return Ok((true, "recall storage has no vectors here".into()));
    }
    let binds = json!({"after": "", "limit": AGENTS_MAX});
    let answer = probe::run_batched(db, None, probe::UNEMBEDDED, &binds, AGENTS_MAX).await?;
    if !answer.is_ok() {
        return Ok((false, answer.to_string()));
    }
    let agents = answer.body["result"].as_array().cloned().unwrap_or_default();
    let waiting: Vec<&Value> = agents.iter().filter(|agent| agent["waits"] == true).collect();
    let oldest = waiting.iter().filter_map(|agent| agent["logged_ms"].as_u64()).min();
    let age = oldest.map_or(0, |ms| SystemClock.unix_ms().saturating_sub(ms));
    let seen = format!(
        "{} of {} agents have entries without vectors, the oldest for {} s",
        waiting.len(),
        agents.len(),
        age / 1000
    );
    Ok((age <= UNEMBEDDED_MS_MAX, seen))
}

/// Checks whether a running change of the vector setting makes progress.
async fn manifests(ro: &Ro) -> CheckOutcome {
    let Some(setting) = store::under_way(ro).await? else {
        return Ok((true, "no reindex is under way".into()));
    };
    let number = setting.next.as_ref().map_or(setting.number, |next| next.setting.number);
    let first = counted(ro, number).await?;
    if first.0 >= first.1 {
        return Ok((true, format!("all {} documents have the next vectors", first.1)));
    }
    tokio::time::sleep(Duration::from_millis(REINDEX_LOOK_MS)).await;
    let now = counted(ro, number).await?;
    let moved = now.0 > first.0 || now.0 >= now.1;
    Ok((
        moved,
        format!(
            "{} of {} documents are done; {} were done {REINDEX_LOOK_MS} ms earlier",
            now.0, now.1, first.0
        ),
    ))
}

/// Returns the number of documents that have vectors of the next vector setting, and the number of
/// all documents.
async fn counted(ro: &Ro, number: u64) -> Result<(u64, u64)> {
    let counts = store::reindex_counts(ro, number).await?;
    Ok((counts.made_documents.unwrap_or(0), counts.documents.unwrap_or(0)))
}

/// Checks for agents with texts that retention should already have removed.
async fn retention(order: &Order, ro: &Ro) -> CheckOutcome {
    let before = order.retention.before(SystemClock.unix_ms().saturating_sub(OVERDUE_MS_MAX));
    if before.is_empty() {
        return Ok((true, "the retention policy removes nothing".into()));
    }
    let (mut after, mut looked, mut due) = (String::new(), 0, 0);
    while looked < AGENTS_MAX {
        let page = store::due_agents(ro, &after, &before, EXPIRE_AGENTS_LOOKED).await?;
        looked += page.len() as u64;
        due += page.iter().filter(|agent| agent.due).count();
        match page.last() {
            Some(last) if page.len() as u64 == EXPIRE_AGENTS_LOOKED => after.clone_from(&last.key),
            _ => break,
        }
    }
    Ok((
        due == 0,
        format!(
            "{due} of {looked} agents have texts from before {before} that are due for removal"
        ),
    ))
}

/// Checks for schedules that are overdue.
async fn schedules(ro: &Ro) -> CheckOutcome {
    let waiting = store::due_ticks(ro, TICKS_LOOKED).await?;
    let late = waiting
        .due
        .iter()
        .map(|tick| waiting.now_ms.saturating_sub(tick.due_ms))
        .max()
        .unwrap_or(0);
    let seen = format!(
        "{} ticks are due, the oldest for {} s; {} runs are interrupted",
        waiting.due.len(),
        late / 1000,
        waiting.cut.len()
    );
    Ok((late <= OVERDUE_MS_MAX, seen))
}

/// Checks for unfinished runs and chains of heartbeats that no server continues.
async fn runs(ro: &Ro) -> CheckOutcome {
    let before = SystemClock.unix_ms().saturating_sub(OVERDUE_MS_MAX);
    let runs = store::expired_runs(ro, before, TICKS_LOOKED).await?.len();
    let chains = store::dead_chains(ro, before, TICKS_LOOKED).await?.len();
    Ok((runs == 0 && chains == 0, format!("{runs} runs, {chains} chains")))
}

/// Checks for unfinished agent moves that no server continues. Only the home database has the
/// directory with all moves.
async fn moves(ro: &Ro) -> CheckOutcome {
    let due = store::due_moves(ro).await?;
    let late = due.iter().map(|one| one.late_ms).fold(0.0, f64::max);
    let seen = format!("{} moves are interrupted, the oldest for {:.0} s", due.len(), late / 1e3);
    Ok((late <= OVERDUE_MS_MAX as f64, seen))
}
