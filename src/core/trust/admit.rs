//! Identifies the caller of a call, and decides which agent's memory the call may reach. Only this
//! file creates a [`Scope`].

use serde::Serialize;

use crate::error::{Code, Error, Result};
use crate::limits::{INCARNATIONS_MAX, NAME_BYTES_MAX};

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
    /// The name by which the caller calls an agent, if it is not the agent's local key.
    pub called: Option<CalledName>,
}

impl Principal {
    /// Returns the name by which the caller calls the agent with this local key.
    pub fn name_of<'a>(&'a self, agent: &'a str) -> &'a str {
        let called = self.called.as_ref().filter(|called| called.key == agent);
        called.map_or(agent, |called| &called.name)
    }
}

/// A name that a caller uses for an agent with another local key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledName {
    /// The name.
    pub name: String,
    /// Local key of the agent: its key without the tenant.
    pub key: String,
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

    /// Returns the agent's key without the tenant.
    pub fn local_key(&self) -> &str {
        local_key(&self.tenant, &self.key)
    }

    /// Returns the tenant of the scope.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }
}

/// Admits a caller to an agent of the caller's tenant; `agent` is the agent's local key. Only an
/// invalid key is an error here: an agent of another tenant is later reported like a missing agent.
pub fn admit(principal: &Principal, agent: &str) -> Result<Scope> {
    check_address("agent", agent)?;
    let (name, number) = numbered(agent);
    let agent = &*numbered_key(name, number);
    let tenant = principal.tenant.clone();
    let key = if tenant.is_empty() { agent.to_owned() } else { format!("{tenant}:{agent}") };
    let agent = principal.name_of(agent).to_owned();
    Ok(Scope { tenant, agent, key })
}

/// Returns an agent's key without the tenant.
pub fn local_key<'a>(tenant: &str, key: &'a str) -> &'a str {
    match tenant {
        "" => key,
        _ => key.strip_prefix(tenant).and_then(|rest| rest.strip_prefix(':')).unwrap_or(key),
    }
}

/// Splits a local key, or the address of one agent among those that had a name one after another,
/// into the name and the number of the agent: `ada` and `ada@1` are the first agent of the name,
/// `ada@2` the second.
pub fn numbered(address: &str) -> (&str, u64) {
    match address.rsplit_once('@') {
        Some((name, number)) => (name, number.parse().unwrap_or(0)),
        None => (address, 1),
    }
}

/// Returns the local key of the agent with this number among those that had a name.
pub fn numbered_key(name: &str, number: u64) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}@{number}") }
}

/// Checks a name, or a name with the number of an agent: `ada@2`.
pub fn check_address(what: &str, address: &str) -> Result<()> {
    let Some((name, number)) = address.split_once('@') else { return check_name(what, address) };
    check_name(what, name)?;
    let parsed = number.parse().ok().filter(|parsed: &u64| parsed.to_string() == number);
    if parsed.is_some_and(|number| (1..=INCARNATIONS_MAX).contains(&number)) {
        return Ok(());
    }
    let text = format!("{what}: after `@`, give the number of an agent, 1 to {INCARNATIONS_MAX}");
    Err(Error::new(Code::InvalidName, text).with("field", what))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_one_agent_of_those_that_had_a_name() {
        for (address, fits) in [
            ("ada", true),
            ("ada@1", true),
            ("ada@2", true),
            ("ada@999", true),
            ("ada@0", false),
            ("ada@02", false),
            ("ada@+2", false),
            ("ada@1000", false),
            ("ada@", false),
            ("@2", false),
            ("ada@2@3", false),
            ("..@2", false),
        ] {
            assert_eq!(check_address("agent", address).is_ok(), fits, "{address}");
        }
        assert_eq!((numbered("ada"), numbered("ada@12")), (("ada", 1), ("ada", 12)));
        assert_eq!((&*numbered_key("ada", 1), &*numbered_key("ada", 2)), ("ada", "ada@2"));
        assert_eq!((local_key("t", "t:ada@2"), local_key("", "ada")), ("ada@2", "ada"));
    }
}
