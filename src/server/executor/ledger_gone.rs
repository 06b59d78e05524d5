//! Compares the agents that the checkpoints name with the agents in the database: finds agents that
//! are missing, and tombstones of forgotten agents that were removed or changed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Executor;
use super::ledger::{scope_of, signed_told};
use super::moving::Home;
use crate::checkpoints::Checkpoints;
use crate::store::{self, Remains};
use vctx_core::error::Result;
use vctx_core::trust::{Principal, Scope};

/// Number of agents that one request lists when the signed agents are compared with the database.
const LISTED_AGENTS: u64 = 5_000;
/// Maximum number of such requests.
const LISTED_PAGES_MAX: usize = 10_000;
/// Number of agents that are gone about which one request asks.
const GONE_AGENTS: usize = 100;

impl Executor {
    /// Returns the public key of this server's checkpoints, and the agents of the caller's tenant
    /// that contradict them: those that have a signed head but are not in the database, and those
    /// that are signed as gone but have no right tombstone.
    pub async fn ledgers(&self, principal: &Principal) -> Result<Value> {
        let Some(checkpoints) = &self.checkpoints else {
            return Ok(json!({"key": null, "signed": 0, "missing": [], "tombstones": []}));
        };
        let tenant = principal.tenant.as_str();
        let of_tenant =
            |key: &String| key.split_once(':').map_or("", |(tenant, _)| tenant) == tenant;
        let mut missing: BTreeSet<String> =
            checkpoints.agents().into_iter().filter(of_tenant).collect();
        let count = missing.len();
        let mut after = String::new();
        for _ in 0..LISTED_PAGES_MAX {
            let page =
                self.kernel.read(|ro| store::list(ro, tenant, &after, LISTED_AGENTS)).await?;
            for agent in &page {
                let key = agent["_key"].as_str().unwrap_or_default();
                missing.remove(key);
                after = key.to_owned();
            }
            if (page.len() as u64) < LISTED_AGENTS {
                break;
            }
        }
        // An agent that was removed meanwhile is signed as gone now.
        self.sign_heads().await?;
        let missing = self.unexplained(checkpoints, missing).await?;
        let missing: Vec<Value> = missing
            .iter()
            .filter_map(|(key, what)| Some((key, what, checkpoints.signed(key)?)))
            .filter(|(_, _, signed)| signed.head.is_some())
            .map(|(key, what, signed)| {
                let mut told = signed_told(&signed);
                told["agent"] = name_of(key).into();
                told["what"] = (*what).into();
                told
            })
            .collect();
        let gone = checkpoints.gone().into_iter().filter(of_tenant).collect();
        let tombstones = self.false_tombstones(gone).await?;
        Ok(json!({"key": checkpoints.public_key(), "signed": count, "missing": missing,
            "tombstones": tombstones}))
    }

    /// Returns the agents that are in no database, although none of the database's servers forgot
    /// them, each with a sentence about it without a subject. An agent that another server forgot is
    /// signed as gone.
    async fn unexplained(
        &self,
        checkpoints: &Checkpoints,
        missing: BTreeSet<String>,
    ) -> Result<Vec<(String, &'static str)>> {
        let mut keys = Vec::with_capacity(missing.len());
        for key in missing {
            let is_there = checkpoints.signed(&key).is_some_and(|signed| signed.head.is_some());
            if is_there && !self.is_elsewhere(&key).await? {
                keys.push(key);
            }
        }
        let mut unexplained = Vec::new();
        for (scope, remains) in self.remains(keys).await? {
            let what = match remains {
                // A server has made the agent, or brought it back, meanwhile.
                Remains::Core => continue,
                Remains::Tombstone => {
                    self.kernel.rw.heads.gone(&scope);
                    continue;
                }
                Remains::Forged | Remains::Manifests => false_text(remains),
                Remains::Departure | Remains::Nothing => "is not in the database",
            };
            unexplained.push((scope.key().to_owned(), what));
        }
        self.sign_heads().await?;
        Ok(unexplained)
    }

    /// Returns those of the agents that are gone about which the database says otherwise.
    async fn false_tombstones(&self, gone: Vec<String>) -> Result<Vec<Value>> {
        let mut told = Vec::new();
        for (scope, remains) in self.remains(gone).await? {
            match remains {
                Remains::Core | Remains::Departure | Remains::Tombstone => {}
                Remains::Forged | Remains::Manifests | Remains::Nothing => {
                    told.push(json!({"agent": scope.agent(), "what": false_text(remains)}));
                }
            }
        }
        Ok(told)
    }

    async fn remains(&self, keys: Vec<String>) -> Result<Vec<(Scope, Remains)>> {
        let mut all = Vec::with_capacity(keys.len());
        for some in keys.chunks(GONE_AGENTS) {
            let scopes: Vec<Scope> = some.iter().map(|key| scope_of(key)).collect::<Result<_>>()?;
            let rw = &self.kernel.rw;
            let remains = self.kernel.patiently(|| store::remains(rw, &scopes)).await?;
            all.extend(scopes.into_iter().zip(remains));
        }
        Ok(all)
    }

    /// Returns whether the directory says that another database has the agent.
    async fn is_elsewhere(&self, key: &str) -> Result<bool> {
        if matches!(self.directory.home, Home::None) {
            return Ok(false);
        }
        let scope = scope_of(key)?;
        let found = self.kernel.read(|ro| store::located(ro, &scope)).await?;
        Ok(found.row.is_some_and(|row| row.place != self.directory.place))
    }
}

/// Returns the name of an agent without its tenant.
fn name_of(key: &str) -> &str {
    key.rsplit(':').next().unwrap_or_default()
}

/// Returns what is wrong with an agent that is gone, as a sentence without a subject.
fn false_text(remains: Remains) -> &'static str {
    match remains {
        Remains::Forged => {
            "has a tombstone in `forgets` that no server with the secret of this database wrote"
        }
        Remains::Manifests => {
            "has other manifests of forget operations in `forgets` than its tombstone says"
        }
        Remains::Nothing => {
            "was forgotten or has moved away, but its row in `forgets` or `departures` is missing"
        }
        Remains::Core | Remains::Departure | Remains::Tombstone => "is gone",
    }
}
