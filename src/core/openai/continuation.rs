//! Finds where a client's conversation continues: in the agent whose log contains the longest
//! prefix of the conversation, in a branch of this agent, or in a new agent.

use serde::Deserialize;

use crate::memory::message::Role;
use crate::memory::receipt::sha256;
use crate::trust::numbered;

/// A message of a request that an agent's log already contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownMessage {
    /// Index of the known message in the request, from 0.
    pub at: usize,
    /// The agent whose log contains the message.
    pub agent: String,
    /// Position of the message in the agent's log.
    pub seq: u64,
    /// Key of the known message; older messages have smaller keys.
    pub key: String,
    /// Time when the known message was appended.
    pub created_at: String,
    /// Revision of the agent's core.
    pub rev: String,
    /// Whether the agent's system text equals the request's system text.
    pub same_system: bool,
    /// The messages that directly follow the known message in the thread.
    pub next: Vec<Next>,
}

/// A message that follows another message in a thread.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Next {
    /// Digest of the thread up to and including the following message.
    pub thread: String,
    /// Position of the message in the agent's log.
    pub seq: u64,
    /// Role of the message's speaker.
    pub role: Role,
}

/// Where the server continues the conversation of a client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request and its answer are already in the log, so the answer is sent again.
    Known {
        /// The last message of the request.
        found: KnownMessage,
        /// Position of the answer's last message.
        answer: u64,
    },
    /// The conversation continues in the known agent, and the request's messages from index `new`
    /// on are appended.
    GoOn {
        /// The last of the request's messages that the agent's log contains.
        found: KnownMessage,
        /// Index of the request's first message that the agent's log does not contain.
        new: usize,
    },
    /// After the known messages, the agent's log differs from the request, so a branch is created.
    Branch {
        /// The last message that is both in the request and in the log.
        found: KnownMessage,
    },
    /// No agent's log contains a usable prefix of the conversation, so a new agent is created.
    New,
}

/// Decides where the conversation of a request continues. `total` is the number of messages in the
/// request. `answered` is the index of the first answer in the request, or `total` without an
/// answer. `named` is true if the request names an agent.
///
/// Among agents whose logs contain equally many messages of the request, an agent with the
/// request's system text is preferred. Among the remaining agents, the agent whose last known
/// message is the oldest is preferred. If the request names no agent, two more rules apply. An
/// agent whose known messages all precede the first answer matches only if it has the request's
/// system text. A known answer is sent again only if the agent has the request's system text.
pub fn decide(found: &[KnownMessage], total: usize, answered: usize, named: bool) -> Decision {
    let whose = |found: &&KnownMessage| named || found.same_system || found.at >= answered;
    let order = |found: &&KnownMessage| {
        (std::cmp::Reverse(found.at), !found.same_system, found.key.clone())
    };
    let Some(best) = found.iter().filter(whose).min_by_key(order) else { return Decision::New };
    let decision = decided(best, total);
    if named || best.same_system || !matches!(decision, Decision::Known { .. }) {
        return decision;
    }
    match found.iter().filter(|found| found.same_system).min_by_key(order) {
        Some(own) => decided(own, total),
        None => Decision::Branch { found: best.clone() },
    }
}

/// Returns the decision for a request whose last known message is `best`.
fn decided(best: &KnownMessage, total: usize) -> Decision {
    let (best, new) = (best.clone(), best.at + 1);
    let answers = best.next.iter().filter(|next| next.role == Role::Assistant);
    match answers.map(|next| next.seq).min() {
        Some(answer) if new == total => Decision::Known { found: best, answer },
        _ if best.next.is_empty() => Decision::GoOn { found: best, new },
        _ => Decision::Branch { found: best },
    }
}

/// Number of hex digits of the digest in a generated agent name (128 bits).
const NAME_DIGITS: usize = 32;

/// Maximum length in bytes of the part of a branch's name that repeats the name of the root agent.
const ROOT_BYTES_MAX: usize = 64;

/// Returns the name of a new agent for an unknown conversation. Equal requests give equal names.
pub fn fresh_name(last: &str, system: Option<&str>) -> String {
    let digest = sha256(&format!("{last}\0{}", system.unwrap_or_default()));
    format!("chat-{}", &digest[..NAME_DIGITS])
}

/// Returns the name of a new branch. The name consists of the root agent's name and a digest of the
/// parent agent's name, the position in the thread, and the system text.
pub fn branch_name(parent: &str, last: &str, system: Option<&str>) -> String {
    let digest = sha256(&format!("branch\0{parent}\0{last}\0{}", system.unwrap_or_default()));
    let (name, _) = numbered(parent);
    let root = match name.rsplit_once('.') {
        Some((root, tail)) if is_digest(tail) => root,
        _ => name,
    };
    // Agent names are ASCII, so any byte index is a character boundary.
    let root = &root[..root.len().min(ROOT_BYTES_MAX)];
    format!("{root}.{}", &digest[..NAME_DIGITS])
}

fn is_digest(tail: &str) -> bool {
    tail.len() == NAME_DIGITS && tail.bytes().all(|b| b.is_ascii_hexdigit())
}
