//! Compares the agents that the checkpoints name with the agents in the database: finds agents that
//! are missing, tombstones of forgotten agents that were removed or changed, and rows of agents
//! that do not exist.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use super::Executor;
use super::ledger::{scope_of, signed_told};
use super::moving::Home;
use crate::checkpoints::Checkpoints;
use crate::store::{self, Remains, Stray};
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
    /// that are signed as gone but have no right tombstone. Also returns the rows of agents that do
    /// not exist.
    pub async fn ledgers(&self, principal: &Principal) -> Result<Value> {
        let Some(checkpoints) = &self.kernel.checkpoints else {
            return Ok(json!({"key": null, "signed": 0, "missing": [], "tombstones": [],
                "strays": []}));
        };
        let tenant = principal.tenant.as_str();
        let of_tenant = |key: &String| tenant_of(key) == tenant;
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
            "tombstones": tombstones, "strays": self.strays(tenant).await?}))
    }

    /// Returns the rows of a tenant's agents that have no core, although no server writes or
    /// removes these agents.
    async fn strays(&self, tenant: &str) -> Result<Vec<Value>> {
        let first = self.strays_now(tenant).await?;
        if first.is_empty() {
            return Ok(Vec::new());
        }
        // What a server removed or brought to its end meanwhile is not found again.
        let again = self.strays_now(tenant).await?;
        let is_same =
            |one: &Stray, other: &Stray| (&one.of, &one.agent) == (&other.of, &other.agent);
        let both = again.iter().filter(|one| first.iter().any(|other| is_same(one, other)));
        let told = both.map(|one| {
            let agent = one.agent.as_str().map_or_else(|| one.agent.to_string(), str::to_owned);
            json!({"collection": one.of, "agent": name_of(&agent), "rows": one.rows})
        });
        Ok(told.collect())
    }

    async fn strays_now(&self, tenant: &str) -> Result<Vec<Stray>> {
        let found = self.kernel.patiently(|| store::strays(&self.kernel.rw)).await?;
        let key = |one: &Stray| one.agent.as_str().unwrap_or_default().to_owned();
        let found: Vec<Stray> =
            found.into_iter().filter(|one| tenant_of(&key(one)) == tenant).collect();
        // A writer to the database can give an agent a name that no agent can have.
        let keys: BTreeSet<String> =
            found.iter().map(key).filter(|key| scope_of(key).is_ok()).collect();
        let remains = self.remains(keys.into_iter().collect()).await?;
        let remains: HashMap<String, Remains> =
            remains.into_iter().map(|(scope, remains)| (scope.key().to_owned(), remains)).collect();
        let is_stray = |one: &Stray| match remains.get(&key(one)) {
            Some(Remains::Core | Remains::Departure | Remains::Forgetting | Remains::Arriving) => {
                false
            }
            Some(Remains::Tombstone | Remains::Manifests) => one.of != "forgets",
            Some(Remains::Forged | Remains::Nothing) | None => true,
        };
        Ok(found.into_iter().filter(is_stray).collect())
    }

    /// Returns the agents that are in no database, although none of the database's servers forgot
    /// them, each with a sentence about it without a subject. An agent that another server forgot
    /// is signed as gone.
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
                Remains::Tombstone | Remains::Forgetting | Remains::Manifests => {
                    self.kernel.rw.heads.gone(&scope);
                    continue;
                }
                Remains::Forged => false_text(remains),
                Remains::Departure | Remains::Arriving | Remains::Nothing => {
                    "is not in the database"
                }
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
                Remains::Core | Remains::Departure | Remains::Tombstone | Remains::Forgetting => {}
                Remains::Forged | Remains::Manifests | Remains::Arriving | Remains::Nothing => {
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

fn tenant_of(key: &str) -> &str {
    key.split_once(':').map_or("", |(tenant, _)| tenant)
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
        Remains::Arriving | Remains::Nothing => {
            "was forgotten or has moved away, but its row in `forgets` or `departures` is missing"
        }
        Remains::Core | Remains::Departure | Remains::Tombstone | Remains::Forgetting => "is gone",
    }
}
