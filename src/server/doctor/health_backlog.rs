//! What waits in a running deployment: vectors that are to be made, changes under way, texts whose time is over, schedules, runs and moves.

use std::time::Duration;

use serde_json::{Value, json};

use super::check;
use super::health::guard;
use super::report::Rows;
use super::visit::Asked;
use crate::store::{self, Admin, Fault, Ro, probe};
use vctx_base::clock::{Clock as _, SystemClock};
use vctx_core::limits::{EXPIRE_AGENTS_LOOKED, TICKS_LOOKED};

/// Agents looked at, at most, where each is asked for something: those with the first keys.
const AGENTS_MAX: u64 = 4_096;
/// Longest wait of an entry for its vector, in milliseconds.
const UNEMBEDDED_MS_MAX: u64 = 600_000;
/// Longest time behind its moment of a schedule, a run or a chain, in milliseconds: servers look twice a second, a claim lasts 15 s.
const OVERDUE_MS_MAX: u64 = 60_000;
/// Pause between two looks at a change of vectors, in milliseconds: a server looks for work once a second.
const REINDEX_LOOK_MS: u64 = 5_000;

/// What was seen: whether it holds, and in which words.
type Seen = Result<(bool, String), Fault>;

/// Looks at all of them; one that cannot be asked fails by itself.
pub(super) async fn look(asked: &Asked, db: &Admin, ro: &Ro, rows: &mut Rows) {
    guard(rows, check::H_RECALL, recall(db).await);
    guard(rows, check::H_MANIFESTS, manifests(ro).await);
    guard(rows, check::H_RETENTION, retention(asked, ro).await);
    guard(rows, check::H_SCHEDULES, schedules(ro).await);
    guard(rows, check::H_RUNS, runs(ro).await);
    guard(rows, check::H_MOVES, moves(ro).await);
}

/// Entries without vectors, where vectors of recall storage are made.
async fn recall(db: &Admin) -> Seen {
    let marks = db.ask(http::Method::GET, "_api/collection/recall_marks/count", None).await?;
    if marks.body["count"].as_u64().unwrap_or(0) == 0 {
        return Ok((true, "no vectors of recall storage are made".into()));
    }
    let binds = json!({"after": "", "limit": AGENTS_MAX});
    let answer = probe::run_batched(db, None, probe::UNEMBEDDED, &binds, AGENTS_MAX).await?;
    if !answer.is_ok() {
        return Ok((false, answer.told()));
    }
    let agents = answer.body["result"].as_array().cloned().unwrap_or_default();
    let waiting: Vec<&Value> = agents.iter().filter(|agent| agent["waits"] == true).collect();
    let oldest = waiting.iter().filter_map(|agent| agent["logged_ms"].as_u64()).min();
    let age = oldest.map_or(0, |ms| SystemClock.unix_ms().saturating_sub(ms));
    let seen = format!(
        "{} of {} agents wait, the longest for {} s",
        waiting.len(),
        agents.len(),
        age / 1000
    );
    Ok((age <= UNEMBEDDED_MS_MAX, seen))
}

/// A change of vectors that goes on.
async fn manifests(ro: &Ro) -> Seen {
    let Some(setting) = store::under_way(ro).await? else {
        return Ok((true, "no change is under way".into()));
    };
    let number = setting.next.as_ref().map_or(setting.number, |next| next.setting.number);
    let first = counted(ro, number).await?;
    if first.0 >= first.1 {
        return Ok((true, format!("all {} documents are done", first.1)));
    }
    tokio::time::sleep(Duration::from_millis(REINDEX_LOOK_MS)).await;
    let now = counted(ro, number).await?;
    let moved = now.0 > first.0 || now.0 >= now.1;
    Ok((
        moved,
        format!("{} of {} documents, {} before {REINDEX_LOOK_MS} ms", now.0, now.1, first.0),
    ))
}

/// Documents that have the next vectors, and all.
async fn counted(ro: &Ro, number: u64) -> Result<(u64, u64), Fault> {
    let counts = store::reindex_counts(ro, number).await?;
    Ok((counts.made_documents.unwrap_or(0), counts.documents.unwrap_or(0)))
}

/// Agents of which something is due to go.
async fn retention(asked: &Asked, ro: &Ro) -> Seen {
    let before = asked.retention.before(SystemClock.unix_ms().saturating_sub(OVERDUE_MS_MAX));
    if before.is_empty() {
        return Ok((true, "everything is kept for ever".into()));
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
    Ok((due == 0, format!("{due} of {looked} agents hold something that ended before {before}")))
}

/// Schedules whose moment is over for long.
async fn schedules(ro: &Ro) -> Seen {
    let waiting = store::due_ticks(ro, TICKS_LOOKED).await?;
    let late = waiting
        .due
        .iter()
        .map(|tick| waiting.now_ms.saturating_sub(tick.due_ms))
        .max()
        .unwrap_or(0);
    let seen = format!(
        "{} due, the longest for {} s; {} runs cut off",
        waiting.due.len(),
        late / 1000,
        waiting.cut.len()
    );
    Ok((late <= OVERDUE_MS_MAX, seen))
}

/// Runs and chains that nobody ended.
async fn runs(ro: &Ro) -> Seen {
    let before = SystemClock.unix_ms().saturating_sub(OVERDUE_MS_MAX);
    let runs = store::expired_runs(ro, before, TICKS_LOOKED).await?.len();
    let chains = store::dead_chains(ro, before, TICKS_LOOKED).await?.len();
    Ok((runs == 0 && chains == 0, format!("{runs} runs, {chains} chains")))
}

/// Moves that no server goes on with. The directory of the home place knows them all; in another place there are none.
async fn moves(ro: &Ro) -> Seen {
    let due = store::due_moves(ro).await?;
    let late = due.iter().map(|one| one.late_ms).fold(0.0, f64::max);
    let seen = format!("{} wait for a server, the longest for {:.0} s", due.len(), late / 1e3);
    Ok((late <= OVERDUE_MS_MAX as f64, seen))
}
