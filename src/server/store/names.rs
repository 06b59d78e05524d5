//! Stores which agent a name means. The rows are in the directory of the home database.

use serde::{Deserialize, Serialize};

use super::db::{Ro, Rw, binds, must};
use super::fault::Result;
use super::query::queries;
use vctx_core::memory::forget::tombstone_key;
use vctx_core::trust::Scope;

queries! {
    FIND = "name_find",
    GIVE = "name_give",
    CONFIRM = "name_confirm",
    WITHDRAW = "name_withdraw",
    LIST = "name_list",
    PASS = "name_pass",
}

/// What the directory says about a name.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct NameRow {
    /// Key of the agent that the name means; `None` if the name itself is the agent's key.
    pub named: Option<String>,
    /// The agents that had the name before, the first agent first.
    pub earlier: Option<Vec<EarlierAgent>>,
}

/// An agent that had a name before, and was forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierAgent {
    /// Key of the agent.
    pub key: String,
    /// Document key of the record of the call that forgot the agent.
    pub answer_key: String,
}

/// A reservation of a name for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Giving {
    /// Key of the agent.
    pub to: String,
    /// Document key of the record of the call that reserved the name.
    pub by: String,
}

/// What an attempt to reserve a name found.
#[derive(Clone, Debug, Deserialize)]
pub struct NameGiven {
    /// Key of the agent that the name means, if it is another one than the name.
    pub named: Option<String>,
    /// An earlier reservation.
    pub giving: Option<Giving>,
    /// Whether this attempt reserved the name.
    pub given: bool,
}

/// A name that means an agent with another key.
#[derive(Clone, Debug, Deserialize)]
pub struct NameOf {
    /// The name, with its tenant.
    pub key: String,
    /// Key of the agent.
    pub named: String,
}

/// Returns what the directory says about a name; the scope's key is the name with its tenant.
pub async fn find_name(ro: &Ro, name: &Scope) -> Result<Option<NameRow>> {
    ro.row(FIND, binds!(name;)).await
}

/// Returns names that mean an agent with another key, at most `limit`.
pub async fn other_names(ro: &Ro, limit: u64) -> Result<Vec<NameOf>> {
    ro.rows(LIST, binds!(none; limit)).await
}

/// Gives a name to the agent with the key `to`, if the name still means the agent `before`, which
/// was forgotten. Returns the key of the agent that the name means now.
pub async fn pass_name(rw: &Rw, name: &Scope, before: &EarlierAgent, to: &str) -> Result<String> {
    #[derive(Deserialize)]
    struct Row {
        named: String,
    }
    let binds = binds!(name;
        from = before.key, to, before, tenant = name.tenant(), sync = rw.sync
    );
    let row: Row = must(rw.row(PASS, binds).await?, PASS)?;
    Ok(row.named)
}

/// Reserves a name for the agent with the key `to`, unless the name is or was an agent's.
pub async fn give_name(rw: &Rw, name: &Scope, to: &str, by: &str) -> Result<NameGiven> {
    let binds = binds!(name;
        to, by, tombstone = tombstone_key(name.key()), tenant = name.tenant(), sync = rw.sync
    );
    must(rw.row(GIVE, binds).await?, GIVE)
}

/// Gives a reserved name to its agent. Returns `false` if the name is not reserved for the agent.
pub async fn confirm_name(rw: &Rw, name: &Scope, to: &str) -> Result<bool> {
    rw.wrote(CONFIRM, binds!(name; to, sync = rw.sync)).await
}

/// Removes a reservation that the call with the record `by` made.
pub async fn withdraw_name(rw: &Rw, name: &Scope, by: &str) -> Result<bool> {
    rw.wrote(WITHDRAW, binds!(name; by, sync = rw.sync)).await
}
