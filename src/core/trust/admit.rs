//! Identifies the caller of a call, and decides which agent's memory the call may reach. Only this
//! file creates a [`Scope`].

use serde::Serialize;

use crate::error::{Code, Error, Result};
use crate::limits::NAME_BYTES_MAX;

/// A caller, as far as the socket identifies it.
#[derive(Clone, Debug, Serialize)]
pub struct Actor {
    /// User id of the caller's process.
    pub uid: u32,
    /// Process id of the caller when the connection was made, for information only.
    pub pid: i32,
    /// The name that the caller gives itself; it is not verified.
    pub label: Option<String>,
}

/// A caller, and the tenant whose socket the caller uses.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The caller.
    pub actor: Actor,
    /// Tenant of the socket; empty for the default tenant.
    pub tenant: String,
}

/// Proof that a caller may reach an agent's memory. Every read and write needs a scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    tenant: String,
    agent: String,
    key: String,
}

impl Scope {
    /// Returns the key of the agent's core document, which is also the `agent_id` in all other rows
    /// of the agent.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the agent's name as the caller gave it.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Returns the tenant of the scope.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }
}

/// Admits a caller to an agent of the caller's tenant. Only an invalid name is an error here: an
/// agent of another tenant is later reported like a missing agent.
pub fn admit(principal: &Principal, agent: &str) -> Result<Scope> {
    check_name("agent", agent)?;
    let tenant = principal.tenant.clone();
    let key = if tenant.is_empty() { agent.to_owned() } else { format!("{tenant}:{agent}") };
    Ok(Scope { tenant, agent: agent.to_owned(), key })
}

/// Checks a name, for example of an agent or block: `[A-Za-z0-9_.-]{1,128}`, but not `.` or `..`.
pub fn check_name(what: &str, name: &str) -> Result<()> {
    let fits = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
    if fits && name != "." && name != ".." {
        return Ok(());
    }
    Err(Error::new(
        Code::InvalidName,
        format!("{what}: use 1 to {NAME_BYTES_MAX} of the characters A-Z a-z 0-9 _ . -"),
    )
    .with("field", what))
}
