//! Where a conversation goes on: in the agent that knows the longest part of it, in a branch of that agent, or in a new one.

use serde::Deserialize;

use crate::memory::message::Role;
use crate::memory::receipt::sha256;

/// A message that is known to stand at one of the places of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which place, counted from 0.
    pub at: usize,
    /// The agent whose message it is.
    pub agent: String,
    /// Its place on the agent's number line.
    pub seq: u64,
    /// Key of the message: the older, the smaller.
    pub key: String,
    /// When it was appended.
    pub created_at: String,
    /// Revision of the agent's core.
    pub rev: String,
    /// Whether the agent has the system text of the request.
    pub same_system: bool,
    /// What follows in the same thread.
    pub next: Vec<Next>,
}

/// A message that follows another one in its thread.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Next {
    /// Digest of its place.
    pub thread: String,
    /// Its place on the number line.
    pub seq: u64,
    /// Who speaks.
    pub role: Role,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// All of it is known, and so is the answer: it is given again.
    Known {
        /// The last message of the request.
        found: Found,
        /// Place of the answer's last message.
        answer: u64,
    },
    /// It goes on in this agent; messages from `new` on are new.
    GoOn {
        /// The last message that is known.
        found: Found,
        /// How many are known.
        new: usize,
    },
    /// Another message stands there: it goes on in a branch.
    Branch {
        /// The last message that both have.
        found: Found,
    },
    /// None of it is known.
    New,
}

/// How far a request is known: `total` messages, the first answer among them at `answered` (`total` where there is none); `named` says whether the
/// request names its agent.
///
/// Of agents that know the same part the one with the same system text comes first, then the oldest. Without a name the system text counts where it would
/// have made another answer: before any answer was given a conversation under another one is another conversation, and an answer is given again under
/// its own alone.
pub fn decide(found: &[Found], total: usize, answered: usize, named: bool) -> Decision {
    let whose = |found: &&Found| named || found.same_system || found.at >= answered;
    let order =
        |found: &&Found| (std::cmp::Reverse(found.at), !found.same_system, found.key.clone());
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

/// What becomes of a request whose last known message this is.
fn decided(best: &Found, total: usize) -> Decision {
    let (best, new) = (best.clone(), best.at + 1);
    let answers = best.next.iter().filter(|next| next.role == Role::Assistant);
    match answers.map(|next| next.seq).min() {
        Some(answer) if new == total => Decision::Known { found: best, answer },
        _ if best.next.is_empty() => Decision::GoOn { found: best, new },
        _ => Decision::Branch { found: best },
    }
}

/// Digits of a digest in a name: 128 bits.
const NAME_DIGITS: usize = 32;

/// Bytes of a parent's name that a branch keeps.
const ROOT_BYTES_MAX: usize = 64;

/// Name of the agent of a conversation that nobody knows: the same request has the same agent.
pub fn fresh_name(last: &str, system: Option<&str>) -> String {
    let digest = sha256(&format!("{last}\0{}", system.unwrap_or_default()));
    format!("chat-{}", &digest[..NAME_DIGITS])
}

/// Name of a branch: what its parent is called without a branch of its own, and the place and system text that the branch was made for.
pub fn branch_name(parent: &str, last: &str, system: Option<&str>) -> String {
    let digest = sha256(&format!("branch\0{parent}\0{last}\0{}", system.unwrap_or_default()));
    let root = match parent.rsplit_once('.') {
        Some((root, tail)) if is_digest(tail) => root,
        _ => parent,
    };
    // Names are ASCII, so that every byte ends a character.
    let root = &root[..root.len().min(ROOT_BYTES_MAX)];
    format!("{root}.{}", &digest[..NAME_DIGITS])
}

fn is_digest(tail: &str) -> bool {
    tail.len() == NAME_DIGITS && tail.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(at: usize, agent: &str, key: &str, next: &[(Role, u64)]) -> Found {
        let next = next
            .iter()
            .map(|(role, seq)| Next { thread: "t".into(), seq: *seq, role: *role })
            .collect();
        Found {
            at,
            agent: agent.into(),
            seq: at as u64 + 1,
            key: key.into(),
            created_at: String::new(),
            rev: "r".into(),
            same_system: true,
            next,
        }
    }

    /// The decision in a word, and the agent.
    fn told(rows: &[Found], total: usize, named: bool) -> String {
        match decide(rows, total, 1, named) {
            Decision::Known { found, answer } => format!("known {} {answer}", found.agent),
            Decision::GoOn { found, new } => format!("go on {} {new}", found.agent),
            Decision::Branch { found } => format!("branch {} {}", found.agent, found.seq),
            Decision::New => "new".into(),
        }
    }

    #[test]
    fn the_longest_known_part_decides() {
        let known = [
            found(0, "a", "1", &[(Role::Assistant, 2)]),
            found(1, "a", "2", &[(Role::User, 3)]),
            found(2, "a", "3", &[]),
        ];
        assert_eq!(told(&known, 5, false), "go on a 3", "all that is known is at the end");
        assert_eq!(told(&known, 3, false), "go on a 3", "asked before, never answered");
        assert_eq!(told(&known[..2], 3, false), "branch a 2", "something else was said there");
        assert_eq!(told(&known[..1], 3, false), "branch a 1", "the answer was edited");
        assert_eq!(told(&known[..1], 1, false), "known a 2");
        assert_eq!(told(&[], 3, false), "new");
    }

    #[test]
    fn a_message_that_was_said_further_without_its_answer_is_asked_in_a_branch() {
        assert_eq!(told(&[found(0, "a", "1", &[(Role::User, 2)])], 1, false), "branch a 1");
    }

    #[test]
    fn of_several_the_one_with_the_same_system_text_then_the_oldest() {
        let mut rows = [found(1, "b", "2", &[]), found(1, "a", "1", &[]), found(0, "c", "0", &[])];
        assert_eq!(told(&rows, 3, false), "go on a 2");
        rows[1].same_system = false;
        assert_eq!(told(&rows, 3, false), "go on b 2");
    }

    #[test]
    fn a_conversation_without_an_answer_is_nobodys_under_another_system_text() {
        let mut row = found(0, "a", "1", &[(Role::Assistant, 2)]);
        row.same_system = false;
        assert_eq!(told(&[row.clone()], 1, false), "new");
        assert_eq!(told(&[row.clone()], 1, true), "known a 2");
        row.at = 1;
        assert_eq!(told(&[row.clone()], 3, false), "branch a 1");
        row.next.clear();
        assert_eq!(told(&[row], 3, false), "go on a 2", "a system text may change on the way");
    }

    #[test]
    fn an_answer_is_given_again_under_its_own_system_text_alone() {
        let mut rows = [found(1, "a", "1", &[(Role::Assistant, 3)]), found(0, "b", "2", &[])];
        assert_eq!(told(&rows, 2, false), "known a 3");
        rows[0].same_system = false;
        assert_eq!(told(&rows, 2, false), "go on b 1", "the same words under two system texts");
        assert_eq!(told(&rows[..1], 2, false), "branch a 2");
        assert_eq!(told(&rows, 2, true), "known a 3");
    }

    #[test]
    fn a_branch_of_a_branch_has_a_name_as_long() {
        let first = branch_name("ada", "x", None);
        let second = branch_name(&first, "y", None);
        assert_eq!((first.len(), second.len()), (36, 36));
        assert!(second.starts_with("ada.") && second != first);
        assert!(
            crate::policy::check_name("agent", &branch_name(&"a".repeat(128), "x", None)).is_ok()
        );
        assert_ne!(branch_name("ada", "x", None), branch_name("bob", "x", None));
        assert_ne!(fresh_name("x", None), fresh_name("x", Some("s")));
    }
}
