//! Who a caller is, and which memory a call may touch: the only maker of a [`Scope`].

use serde::Serialize;

use crate::error::{Code, Error, Result};
use crate::limits::NAME_BYTES_MAX;

/// A caller as the socket knows it.
#[derive(Clone, Debug, Serialize)]
pub struct Actor {
    /// User id of the peer process.
    pub uid: u32,
    /// Process id of the peer at the time of its connect; for people only.
    pub pid: i32,
    /// What the caller calls itself; proves nothing.
    pub label: Option<String>,
}

/// A caller and the tenant that its socket belongs to.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The caller.
    pub actor: Actor,
    /// Tenant of the listener; empty for the default one.
    pub tenant: String,
}

/// One memory that a caller was admitted to. Nothing reads or writes without one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    tenant: String,
    agent: String,
    key: String,
}

impl Scope {
    /// Key of the core and `agent_id` of everything else.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The agent's name as the caller gave it.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }
}

/// Admits a caller to an agent of its own tenant. Forbidden and missing look alike outside, so this fails only for bad names.
pub fn admit(principal: &Principal, agent: &str) -> Result<Scope> {
    check_name("agent", agent)?;
    let tenant = principal.tenant.clone();
    let key = if tenant.is_empty() { agent.to_owned() } else { format!("{tenant}:{agent}") };
    Ok(Scope { tenant, agent: agent.to_owned(), key })
}

/// Names of agents, blocks and tenants: `[A-Za-z0-9_.-]{1,128}`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_alphabet_are_refused() {
        for good in ["a", "A-1_b.c", &"x".repeat(128)] {
            assert!(check_name("agent", good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "a/b", "a:b", "ä", "..", ".", &"x".repeat(129), "a\n"] {
            assert_eq!(check_name("agent", bad).unwrap_err().code, Code::InvalidName, "{bad}");
        }
    }

    #[test]
    fn two_tenants_never_share_a_key() {
        let actor = Actor { uid: 1, pid: 1, label: None };
        let of = |tenant: &str| Principal { actor: actor.clone(), tenant: tenant.into() };
        let keys: Vec<String> =
            ["", "t", "u"].iter().map(|t| admit(&of(t), "a").unwrap().key().to_owned()).collect();
        assert_eq!(keys, ["a", "t:a", "u:a"]);
    }
}
