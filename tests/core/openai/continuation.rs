//! Tests how the server decides which known conversation a request continues.

use vctx_core::memory::message::Role;
use vctx_core::openai::{Decision, KnownMessage, Next, branch_name, decide, fresh_name};

fn found(at: usize, agent: &str, key: &str, next: &[(Role, u64)]) -> KnownMessage {
    let next = next
        .iter()
        .map(|(role, seq)| Next { thread: "t".into(), seq: *seq, role: *role })
        .collect();
    KnownMessage {
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

/// Returns the decision as text: its kind in one word, and the agent.
fn told(rows: &[KnownMessage], total: usize, named: bool) -> String {
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
        vctx_core::trust::check_name("agent", &branch_name(&"a".repeat(128), "x", None)).is_ok()
    );
    assert_ne!(branch_name("ada", "x", None), branch_name("bob", "x", None));
    assert_ne!(fresh_name("x", None), fresh_name("x", Some("s")));
}
