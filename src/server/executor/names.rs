//! Finds the agent that a caller's name means, and gives the name of a forgotten agent to a new
//! one.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::Value;

use super::executor::Executor;
use super::kernel::{no_agent, patience};
use super::request::{CallRequest, ReplayKeys, check_guarded, key_of};
use crate::executor::limits::ATTEMPTS_MAX;
use crate::store::{self, EarlierAgent};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::INCARNATIONS_MAX;
use vctx_core::memory::answer_key::{answer_key, kept_key};
use vctx_core::memory::forget::tombstone_key;
use vctx_core::tools::{NewAgent, RenameAgent};
use vctx_core::trust::{
    CalledName, Principal, Scope, admit, check_address, check_name, local_key, numbered,
    numbered_key,
};

/// Maximum number of names with another agent's key that a server remembers; a full cache is
/// emptied, and the server then asks the directory about a name whose agent it does not find.
const NAMES_KNOWN_MAX: usize = 100_000;
/// Number of these names that a server reads at its start.
const NAMES_READ_MAX: u64 = 10_000;

/// The names that mean an agent with another key, as far as this server knows them. A name that is
/// missing here is the local key of its agent. An outdated entry leads to no other agent: keys are
/// not used again, so the call finds no agent, and the server then asks the directory.
#[derive(Default)]
pub(super) struct KnownNames {
    known: Mutex<HashMap<String, String>>,
}

impl KnownNames {
    /// Returns the key of the agent that a name means; both have the tenant.
    fn key_of(&self, name: &str) -> Option<String> {
        self.known.lock().expect("no holder panics").get(name).cloned()
    }

    /// Remembers the key of the agent that a name means.
    pub(super) fn note(&self, name: &str, key: &str) {
        let mut known = self.known.lock().expect("no holder panics");
        if name == key {
            known.remove(name);
            return;
        }
        if known.len() >= NAMES_KNOWN_MAX {
            known.clear();
        }
        known.insert(name.to_owned(), key.to_owned());
    }
}

/// Returns the error for a call with a name that means another agent than the server knew.
pub(super) fn outdated() -> Error {
    let text = "another server has given this name to another agent: repeat the call";
    Error::new(Code::NotReady, text)
}

/// Returns a name with its tenant as a scope.
fn name_of(principal: &Principal, name: &str) -> Result<Scope> {
    admit(&Principal { called: None, ..principal.clone() }, name)
}

/// Returns the number of the agent with the local key `local` among those that had the name.
fn number_of(name: &str, local: &str) -> u64 {
    match numbered(local) {
        (own, number) if own == name => number,
        _ => 1,
    }
}

impl Executor {
    /// Reads the names that mean an agent with another key, so that calls find these agents without
    /// asking the directory.
    pub async fn read_names(&self) -> Result<()> {
        for row in self.home_kernel().read(|ro| store::other_names(ro, NAMES_READ_MAX)).await? {
            self.kernel.names.note(&row.key, &row.named);
        }
        Ok(())
    }

    /// Returns the local key of the agent that a caller means by a name, or by an address such as
    /// `ada@1`. Notes in the principal how the caller calls the agent.
    pub fn calling(&self, principal: &mut Principal, given: &str) -> String {
        principal.called = None;
        if check_address("agent", given).is_err() {
            // The call will be refused.
            return given.to_owned();
        }
        let local = if given.contains('@') {
            let (name, number) = numbered(given);
            numbered_key(name, number)
        } else {
            self.meant(principal, given)
        };
        if local != given || given.contains('@') {
            principal.called = Some(CalledName { name: given.to_owned(), key: local.clone() });
        }
        local
    }

    /// Returns the local key of the agent that a name means, as far as this server knows.
    fn meant(&self, principal: &Principal, name: &str) -> String {
        let scope = name_of(principal, name).ok();
        let key = scope.and_then(|scope| self.kernel.names.key_of(scope.key()));
        key.map_or_else(|| name.to_owned(), |key| local_key(&principal.tenant, &key).to_owned())
    }

    /// Explains an error of a call for the agent with the local key `agent`. If the agent is
    /// missing because the caller's name now means another agent, the caller should repeat the
    /// call.
    pub async fn explained(&self, principal: &Principal, agent: &str, error: Error) -> Error {
        if !matches!(error.code, Code::AgentNotFound | Code::AgentForgotten) {
            return error;
        }
        let name = principal.name_of(agent);
        match self.is_renewed(principal, name, agent).await {
            Ok(true) => outdated(),
            Ok(false) => error,
            Err(fault) => fault,
        }
    }

    /// Fails if the caller's name does not mean the agent with the local key `agent` any more.
    pub(super) async fn check_current(&self, principal: &Principal, agent: &str) -> Result<()> {
        match self.is_renewed(principal, principal.name_of(agent), agent).await? {
            true => Err(no_agent()),
            false => Ok(()),
        }
    }

    /// Asks the directory which agent a name means. Returns whether it is another one than the
    /// agent with the local key `local`.
    async fn is_renewed(&self, principal: &Principal, name: &str, local: &str) -> Result<bool> {
        if check_name("agent", name).is_err() {
            return Ok(false);
        }
        let scope = &name_of(principal, name)?;
        let row = self.home_kernel().read(|ro| store::find_name(ro, scope)).await?;
        let key = row.and_then(|row| row.named);
        let key = key.as_deref().unwrap_or(scope.key());
        self.kernel.names.note(scope.key(), key);
        Ok(local_key(scope.tenant(), key) != local)
    }

    /// Creates an agent under a name. With `incarnation`, the caller says how many agents have had
    /// the name, with the new one; without it, a name of a forgotten agent is refused.
    pub async fn create_named(
        &self,
        principal: &Principal,
        name: &str,
        body: NewAgent,
    ) -> Result<(bool, Value)> {
        check_name("agent", name)?;
        let body = body.checked()?;
        for _ in 0..ATTEMPTS_MAX {
            let mut principal = principal.clone();
            let local = self.calling(&mut principal, name);
            let number = number_of(name, &local);
            let wanted = body.incarnation.unwrap_or(number);
            let made = if wanted == number {
                self.create(&principal, &local, body.clone()).await
            } else if wanted == number + 1 {
                match self.pass_on(&principal, name, &local).await {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                }
            } else if wanted < number {
                Err(forgotten_as(number, "an earlier agent of this name was forgotten"))
            } else {
                Err(Error::argument("incarnation", format!("the name has had {number} agents")))
            };
            match made {
                Err(error) => {
                    if self.is_renewed(&principal, name, &local).await? {
                        continue;
                    }
                    return Err(match error.code {
                        Code::AgentForgotten if wanted == number => forgotten_as(
                            number + 1,
                            "the agent of this name was forgotten: choose another name, or make a new agent of this name with the given `incarnation`",
                        ),
                        _ => error,
                    });
                }
                made => return made,
            }
        }
        Err(outdated())
    }

    /// Gives a name to the next agent, if the agent that had it was forgotten.
    async fn pass_on(&self, principal: &Principal, name: &str, local: &str) -> Result<()> {
        let scope = admit(principal, local)?;
        let number = number_of(name, local);
        let tomb = tombstone_key(scope.key());
        let Some(row) = self.kernel.read(|ro| store::forgetting(ro, &scope, &tomb)).await? else {
            let text = match self.kernel.fresh(&scope, &[], patience()).await {
                Ok(_) => format!("agent {number} of this name exists: delete it first"),
                Err(error) if error.code == Code::AgentNotFound => {
                    format!("no agent {number} of this name was forgotten: use {number}")
                }
                Err(error) => return Err(error),
            };
            return Err(Error::argument("incarnation", text));
        };
        if number >= INCARNATIONS_MAX {
            let text = format!("a name has at most {INCARNATIONS_MAX} agents: choose another name");
            return Err(Error::argument("incarnation", text));
        }
        let of_name = name_of(principal, name)?;
        let next = name_of(principal, &numbered_key(name, number + 1))?;
        let before = EarlierAgent { key: scope.key().to_owned(), answer_key: row.answer_key };
        let pass = |rw| store::pass_name(rw, &of_name, &before, next.key());
        let named: String = self.home_kernel().write(pass).await?;
        tracing::info!(agent = named, "a name was given to a new agent");
        self.kernel.names.note(of_name.key(), &named);
        Ok(())
    }

    /// Gives an agent a further name; its earlier names still reach it. The name is reserved first,
    /// then listed in the agent's core, and only then reaches the agent, so that a call that was
    /// interrupted is completed by its repetition.
    pub async fn rename(&self, request: &CallRequest, rename: &RenameAgent) -> Result<Value> {
        let principal = &request.principal;
        let scope = admit(principal, &request.agent)?;
        let (key, _) = key_of(request, || self.kernel.ids.key())?;
        check_guarded(request)?;
        let keys = ReplayKeys::of(&scope, &key);
        let name = &name_of(principal, &rename.name)?;
        for _ in 0..ATTEMPTS_MAX {
            let (core, _) = self.kernel.fresh(&scope, &[], patience()).await?;
            rename.check(&core)?;
            let reserved = self.reserve(name, &scope, &keys.key).await?;
            let body = match self.call(request).await {
                Ok(reply) => reply.body,
                Err(error) => {
                    if reserved && error.code.status() < 500 {
                        let withdraw = |rw| store::withdraw_name(rw, name, &keys.key);
                        self.home_kernel().write(withdraw).await?;
                    }
                    return Err(error);
                }
            };
            if !self.is_own(name, &scope).await? {
                let confirm = |rw| store::confirm_name(rw, name, scope.key());
                if !self.home_kernel().write(confirm).await? && !self.is_own(name, &scope).await? {
                    continue;
                }
            }
            self.kernel.names.note(name.key(), scope.key());
            return Ok(body);
        }
        let text = "other calls gave the name each time: try again";
        Err(Error::new(Code::Conflict, text))
    }

    /// Reserves a name for an agent; returns whether this call did it. Refuses a name that another
    /// agent has, had, or is given.
    async fn reserve(&self, name: &Scope, scope: &Scope, by: &str) -> Result<bool> {
        if self.is_own(name, scope).await? {
            return Ok(false);
        }
        let give = |rw| store::give_name(rw, name, scope.key(), by);
        let found = self.home_kernel().write(give).await?;
        let is_its = |key: &String| key == scope.key();
        if found.given || found.giving.is_some_and(|giving| is_its(&giving.to)) {
            return Ok(found.given);
        }
        if found.named.as_ref().is_some_and(is_its) {
            return Ok(false);
        }
        let text = "the name is another agent's, or was: choose another name";
        Err(Error::new(Code::AgentExists, text).with("field", "name"))
    }

    /// Returns whether a name means the agent already.
    async fn is_own(&self, name: &Scope, scope: &Scope) -> Result<bool> {
        let row = self.home_kernel().read(|ro| store::find_name(ro, name)).await?;
        let named = row.and_then(|row| row.named);
        Ok(named.as_deref().unwrap_or(name.key()) == scope.key())
    }

    /// Refuses a call that forgot an earlier agent of the caller's name: a repetition of the call
    /// must not forget the present one.
    pub(super) async fn check_forgets_this(
        &self,
        principal: &Principal,
        scope: &Scope,
        key: &str,
    ) -> Result<()> {
        let name = principal.name_of(scope.local_key());
        if name == scope.local_key() || name.contains('@') {
            return Ok(());
        }
        let name = &name_of(principal, name)?;
        let row = self.home_kernel().read(|ro| store::find_name(ro, name)).await?;
        let earlier = row.and_then(|row| row.earlier).unwrap_or_default();
        let is_its = |one: &EarlierAgent| {
            [kept_key(key).as_str(), key]
                .iter()
                .any(|key| answer_key(&one.key, key, None) == one.answer_key)
        };
        match earlier.iter().any(is_its) {
            false => Ok(()),
            true => Err(Error::new(
                Code::AgentForgotten,
                "the call with this key has forgotten an earlier agent of this name: use a new key for the present one",
            )),
        }
    }
}

fn forgotten_as(incarnation: u64, text: &str) -> Error {
    Error::new(Code::AgentForgotten, text).with("incarnation", incarnation)
}
