//! Compares the agents that the checkpoints name with the agents in the database: finds agents that
//! are missing, tombstones of forgotten agents that were removed or changed, and rows of agents
//! that do not exist.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Executor;
use super::ledger::{scope_of, signed_told};
use crate::store::{self, Remains, Stray, Strays};
use vctx_core::error::Result;
use vctx_core::trust::{Principal, Scope};

/// Number of agents that one request lists when the signed agents are compared with the database.
const LISTED_AGENTS: u64 = 5_000;
/// Maximum number of such requests.
const LISTED_PAGES_MAX: usize = 10_000;
/// Number of agents that are gone about which one request asks.
const GONE_AGENTS: usize = 100;

/// Longest wait for the agents of a database other than the home database, in milliseconds. After
/// that, the database counts as one that does not answer.
const PLACE_MS_MAX: u64 = 10_000;

impl Executor {
    /// Returns the public key of this server's checkpoints, and the agents of the caller's tenant
    /// that contradict them: those that have a signed head but are not in the database, and those
    /// that are signed as gone but have no right tombstone. Also returns the rows of agents that do
    /// not exist.
    pub async fn ledgers(&self, principal: &Principal) -> Result<Value> {
        Places { all: vec![self], away: Vec::new() }.ledgers(principal).await
    }

    /// Returns the same for several databases, the home database first, and the names of the
    /// databases that do not answer; `away` are those that the server has not reached.
    pub async fn ledgers_of(
        places: &[Arc<Self>],
        away: Vec<String>,
        principal: &Principal,
    ) -> Result<Value> {
        let mut places = Places { all: places.iter().map(Arc::as_ref).collect(), away };
        let mut told = places.ledgers(principal).await?;
        told["places_away"] = std::mem::take(&mut places.away).into();
        Ok(told)
    }

    /// Returns the keys of the tenant's agents in this database.
    async fn listed(&self, tenant: &str) -> Result<HashSet<String>> {
        let (mut all, mut after) = (HashSet::new(), String::new());
        for _ in 0..LISTED_PAGES_MAX {
            let page =
                self.kernel.read(|ro| store::list(ro, tenant, None, &after, LISTED_AGENTS)).await?;
            for agent in &page {
                agent["_key"].as_str().unwrap_or_default().clone_into(&mut after);
                all.insert(after.clone());
            }
            if (page.len() as u64) < LISTED_AGENTS {
                break;
            }
        }
        Ok(all)
    }

    /// Returns the rows of a tenant's agents that have no core in this database, although no server
    /// writes or removes these agents, and whether there may be more of them.
    async fn strays(&self, tenant: &str) -> Result<(Vec<Value>, bool)> {
        let Strays { found: first, .. } = self.strays_now(tenant).await?;
        if first.is_empty() {
            return Ok((Vec::new(), false));
        }
        // What a server removed or brought to its end meanwhile is not found again.
        let Strays { found: again, more } = self.strays_now(tenant).await?;
        let is_same =
            |one: &Stray, other: &Stray| (&one.of, &one.agent) == (&other.of, &other.agent);
        let both = again.iter().filter(|one| first.iter().any(|other| is_same(one, other)));
        let told = both.map(|one| {
            let agent = one.agent.as_str().map_or_else(|| one.agent.to_string(), str::to_owned);
            json!({"collection": one.of, "agent": name_of(&agent), "rows": one.rows})
        });
        let told: Vec<Value> = told.collect();
        let more = more && !told.is_empty();
        Ok((told, more))
    }

    async fn strays_now(&self, tenant: &str) -> Result<Strays> {
        let rw = &self.kernel.rw;
        let Strays { found, more } = self.kernel.patiently(|| store::strays(rw, tenant)).await?;
        let key = |one: &Stray| one.agent.as_str().unwrap_or_default().to_owned();
        // A writer to the database can give an agent a name that no agent can have.
        let keys: BTreeSet<String> =
            found.iter().map(key).filter(|key| scope_of(key).is_ok()).collect();
        let keys: Vec<String> = keys.into_iter().collect();
        let remains = self.remains(&keys).await?;
        let remains: HashMap<&String, Remains> = keys.iter().zip(remains).collect();
        let is_stray = |one: &Stray| match remains.get(&key(one)) {
            Some(
                Remains::Core | Remains::Departure(_) | Remains::Forgetting | Remains::Arriving,
            ) => false,
            Some(Remains::Tombstone | Remains::Manifests) => one.of != "forgets",
            Some(Remains::Forged | Remains::Old | Remains::Nothing) | None => true,
        };
        Ok(Strays { found: found.into_iter().filter(is_stray).collect(), more })
    }

    /// Returns what this database says about each of the agents.
    async fn remains(&self, keys: &[String]) -> Result<Vec<Remains>> {
        let mut all = Vec::with_capacity(keys.len());
        for some in keys.chunks(GONE_AGENTS) {
            let checkpoints = self.kernel.checkpoints.as_ref();
            let signed = |key: &String| {
                let signed = checkpoints.and_then(|all| all.signed(key));
                Ok((scope_of(key)?, signed.and_then(|signed| signed.last().cloned())))
            };
            let signed = some.iter().map(signed).collect::<Result<Vec<_>>>()?;
            let rw = &self.kernel.rw;
            all.extend(self.kernel.patiently(|| store::remains(rw, &signed)).await?);
        }
        Ok(all)
    }
}

/// The databases of a server. All of them have the same checkpoints.
struct Places<'a> {
    /// The databases that answer, the home database first.
    all: Vec<&'a Executor>,
    /// Names of the databases that do not answer.
    away: Vec<String>,
}

impl Places<'_> {
    async fn ledgers(&mut self, principal: &Principal) -> Result<Value> {
        let Some(checkpoints) = self.home().kernel.checkpoints.clone() else {
            return Ok(json!({"key": null, "signed": 0, "missing": [], "tombstones": [],
                "strays": [], "strays_more": false}));
        };
        let tenant = principal.tenant.as_str();
        let of_tenant = |key: &String| tenant_of(key) == tenant;
        let mut missing: BTreeSet<String> =
            checkpoints.agents().into_iter().filter(of_tenant).collect();
        let count = missing.len();
        let mut answering = Vec::with_capacity(self.all.len());
        let wait = Duration::from_millis(PLACE_MS_MAX);
        for place in std::mem::take(&mut self.all) {
            // A database that has just failed does not keep the caller waiting for the others.
            let listed = match answering.is_empty() {
                true => place.listed(tenant).await.map(Some)?,
                false => {
                    tokio::time::timeout(wait, place.listed(tenant)).await.ok().and_then(Result::ok)
                }
            };
            match listed {
                Some(keys) => {
                    missing.retain(|key| !keys.contains(key));
                    answering.push(place);
                }
                None => self.away.push(place.database_name().to_owned()),
            }
        }
        self.all = answering;
        // An agent that was removed meanwhile is signed as gone now.
        self.sign_heads().await?;
        let missing = self.twice(missing.into_iter().collect(), Self::missing_now).await?;
        self.sign_heads().await?;
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
        let tombstones = self.twice(gone, Self::false_tombstone).await?;
        let tombstones: Vec<Value> = tombstones
            .iter()
            .map(|(key, what)| json!({"agent": name_of(key), "what": what}))
            .collect();
        let (mut strays, mut strays_more) = (Vec::new(), false);
        for place in &self.all {
            let (found, more) = place.strays(tenant).await?;
            strays_more |= more;
            strays.extend(found.into_iter().map(|mut one| {
                if self.all.len() > 1 {
                    one["place"] = place.database_name().into();
                }
                one
            }));
        }
        Ok(json!({"key": checkpoints.public_key(), "signed": count, "missing": missing,
            "tombstones": tombstones, "strays": strays, "strays_more": strays_more}))
    }

    fn home(&self) -> &Executor {
        self.all[0]
    }

    async fn sign_heads(&self) -> Result<()> {
        for place in &self.all {
            place.sign_heads().await?;
        }
        Ok(())
    }

    /// Returns the agents about which `wrong` finds something in what the databases say, with what
    /// it found. The databases are asked one after the other, so an agent may move meanwhile: only
    /// what is found twice counts.
    async fn twice(
        &self,
        mut keys: Vec<String>,
        wrong: impl Fn(&Self, &Scope, &[Remains]) -> Option<&'static str>,
    ) -> Result<Vec<(String, &'static str)>> {
        let mut found = Vec::new();
        for _ in 0..2 {
            let mut all: Vec<Vec<Remains>> = vec![Vec::new(); keys.len()];
            for place in &self.all {
                let remains = place.remains(&keys).await?;
                all.iter_mut().zip(remains).for_each(|(all, one)| all.push(one));
            }
            found.clear();
            for (key, remains) in keys.into_iter().zip(all) {
                let scope = scope_of(&key)?;
                if let Some(what) = wrong(self, &scope, &remains)
                    && !self.is_away(&scope).await?
                {
                    found.push((key, what));
                }
            }
            if found.is_empty() {
                break;
            }
            keys = found.iter().map(|(key, _)| key.clone()).collect();
        }
        Ok(found)
    }

    /// Returns what is wrong with an agent that has a signed head and was in no list of agents, as
    /// a sentence without a subject. An agent that another server forgot is signed as gone.
    fn missing_now(&self, scope: &Scope, remains: &[Remains]) -> Option<&'static str> {
        // A server has made the agent, brought it back, or moves it.
        if remains.contains(&Remains::Core) || is_moving(remains) {
            return None;
        }
        let forgotten = |one: &Remains| {
            matches!(one, Remains::Tombstone | Remains::Forgetting | Remains::Manifests)
        };
        if let Some(at) = remains.iter().position(forgotten) {
            self.all[at].kernel.rw.heads.gone(scope);
            return None;
        }
        let forged = |one: &&Remains| matches!(one, Remains::Forged | Remains::Old);
        let forged = remains.iter().find(forged);
        Some(forged.map_or("is not in the database", false_text))
    }

    /// Returns what is wrong with an agent that is signed as gone, as a sentence without a subject.
    fn false_tombstone(&self, scope: &Scope, remains: &[Remains]) -> Option<&'static str> {
        let explains = |one: &Remains| match one {
            Remains::Core | Remains::Tombstone | Remains::Forgetting => true,
            // Another database of this server must say what became of the agent.
            Remains::Departure(to) => self.all.iter().all(|place| place.database_name() != to),
            Remains::Forged
            | Remains::Old
            | Remains::Manifests
            | Remains::Arriving
            | Remains::Nothing => false,
        };
        if remains.iter().any(explains) || is_moving(remains) {
            let checkpoints = self.home().kernel.checkpoints.as_ref();
            let is_broken = checkpoints.is_some_and(|all| all.is_broken(scope.key()));
            let is_forgotten = remains.contains(&Remains::Tombstone);
            return (is_broken && is_forgotten && !remains.contains(&Remains::Core))
                .then_some("had a ledger that did not continue the last signed entry");
        }
        let wrong =
            |one: &&Remains| matches!(one, Remains::Forged | Remains::Old | Remains::Manifests);
        let told = remains.iter().find(wrong);
        Some(false_text(told.unwrap_or(&Remains::Nothing)))
    }

    /// Returns whether the agent may be in a database that does not answer.
    async fn is_away(&self, scope: &Scope) -> Result<bool> {
        if self.away.is_empty() {
            return Ok(false);
        }
        let found = self.home().kernel.read(|ro| store::located(ro, scope)).await?;
        let is_away = |place| self.away.contains(&place);
        Ok(found.row.is_none_or(|row| row.place.is_some_and(is_away)))
    }
}

/// Returns whether an agent has left one database and arrives in another one.
fn is_moving(remains: &[Remains]) -> bool {
    remains.contains(&Remains::Arriving)
        && remains.iter().any(|one| matches!(one, Remains::Departure(_)))
}

fn tenant_of(key: &str) -> &str {
    key.split_once(':').map_or("", |(tenant, _)| tenant)
}

/// Returns the name of an agent without its tenant.
fn name_of(key: &str) -> &str {
    key.rsplit(':').next().unwrap_or_default()
}

/// Returns what is wrong with an agent that is gone, as a sentence without a subject.
fn false_text(remains: &Remains) -> &'static str {
    match remains {
        Remains::Forged => {
            "has a tombstone in `forgets` that no server with the secret of this database wrote"
        }
        Remains::Old => "has a tombstone in `forgets` from before its last signed entry",
        Remains::Manifests => {
            "has other manifests of forget operations in `forgets` than its tombstone says"
        }
        Remains::Arriving | Remains::Nothing => {
            "was forgotten or has moved away, but its row in `forgets` or `departures` is missing"
        }
        Remains::Core | Remains::Departure(_) | Remains::Tombstone | Remains::Forgetting => {
            "is gone"
        }
    }
}
