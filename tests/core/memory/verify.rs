//! Tests the verification of a log: a sound log passes, and each way to break it is reported with
//! the broken row.

use serde_json::{Value, json};
use vctx_core::memory::receipt;
use vctx_core::memory::verify::{FAULTS_MAX, FaultKind, Report, Verifier, text_of};

/// Returns a log of nine messages and the matching state of the core. The first four messages were
/// evicted, in two evictions.
pub(super) fn log() -> (Value, Vec<Value>) {
    let mut chain = receipt::genesis("ada");
    let mut messages = Vec::new();
    for seq in 1..=9u64 {
        let batch = match seq {
            1..=2 => json!("b1"),
            3..=4 => json!("b2"),
            _ => Value::Null,
        };
        let mut message = json!({
            "seq": seq, "id": format!("m{seq}"), "kind": "turn", "copy_of": null, "role": if seq % 2 == 1 { "user" } else { "assistant" },
            "content": format!("text {seq}"), "meta": {}, "token_estimate": 5, "created_at": format!("2026-01-01T00:00:00.{seq:03}Z"),
            "in_queue": seq >= 5, "evicted_batch_id": batch, "salt": format!("s{seq}"),
        });
        let digest =
            receipt::digest(&format!("s{seq}"), &receipt::canonical_message("ada", &message));
        chain = receipt::link(&chain, &digest);
        message["digest"] = json!(digest);
        message["chain"] = json!(chain);
        messages.push(message);
    }
    let state = json!({
        "agent": "ada", "version": 9, "queue": {"head_seq": 5, "next_seq": 10, "count": 5, "tokens": 25},
        "chain": {"head": chain, "length": 9},
    });
    (state, messages)
}

fn report(state: &Value, messages: &[Value], after: &Value) -> Report {
    let mut verifier = Verifier::new(state).unwrap();
    for message in messages {
        verifier.message(message);
    }
    verifier.finish(after)
}

/// Tampers with a valid log and returns the faults as `kind@seq`.
fn faults(tamper: impl FnOnce(&mut Value, &mut Vec<Value>)) -> Vec<String> {
    let (mut state, mut messages) = log();
    tamper(&mut state, &mut messages);
    let report = report(&state, &messages, &state);
    report
        .faults
        .iter()
        .map(|fault| {
            format!(
                "{}@{}",
                fault.kind.name(),
                fault.seq.map_or("core".into(), |seq| seq.to_string())
            )
        })
        .collect()
}

#[test]
fn a_sound_log_holds_and_is_counted() {
    let (state, messages) = log();
    let report = report(&state, &messages, &state);
    assert_eq!(report.faults, []);
    assert_eq!((report.messages, report.kept, report.evicted, report.other), (9, 5, 4, 0));
    assert_eq!(report.batches, [("b1".to_string(), 2), ("b2".to_string(), 2)]);
}

#[test]
fn digests_are_made_with_the_name_of_the_tenant_where_there_is_one() {
    let (mut state, messages) = log();
    state["agent"] = json!("short");
    state["agent_id"] = json!("ada");
    let report = report(&state, &messages, &state);
    assert!(report.holds());
    assert_eq!(report.agent, "short");
}

#[test]
fn an_empty_log_holds() {
    let state = json!({"agent": "ada", "version": 1, "queue": {"head_seq": 1, "next_seq": 1, "count": 0, "tokens": 0},
        "chain": {"head": receipt::genesis("ada"), "length": 0}});
    assert!(report(&state, &[], &state).holds());
}

#[test]
fn each_way_to_break_a_log_is_named_with_its_row() {
    // One evicted message is deleted; the later rows stay valid.
    assert_eq!(faults(|_, m| drop(m.remove(2))), ["missing@3"]);
    // A message in the middle of the queue is deleted; in another case, the last message is
    // deleted.
    assert_eq!(faults(|_, m| drop(m.remove(6))), ["missing@7", "count@core", "count@core"]);
    assert_eq!(faults(|_, m| drop(m.pop())), ["missing@9", "count@core", "count@core"]);
    // One eviction edge is removed.
    assert_eq!(faults(|_, m| m[1]["evicted_batch_id"] = Value::Null), ["edge_missing@2"]);
    // An eviction edge is added to a message that is still in the queue.
    assert_eq!(faults(|_, m| m[6]["evicted_batch_id"] = json!("b3")), ["edge_early@7"]);
    // The content, the role or the time of a message is changed.
    assert_eq!(faults(|_, m| m[5]["content"] = json!("text 7")), ["digest@6"]);
    assert_eq!(faults(|_, m| m[5]["role"] = json!("user")), ["digest@6"]);
    // The content and its digest are changed to match each other; the hash chain still reveals the
    // change.
    assert_eq!(
        faults(|_, m| {
            m[5]["content"] = json!("other");
            m[5]["digest"] =
                json!(receipt::digest("s6", &receipt::canonical_message("ada", &m[5])));
        }),
        ["chain@6"]
    );
    // The hash-chain value of a message is changed.
    assert_eq!(faults(|_, m| m[5]["chain"] = json!("00")), ["chain@6", "chain@7"]);
    // A value of the core is changed.
    assert_eq!(faults(|s, _| s["chain"]["head"] = json!("00")), ["chain_head@core"]);
    assert_eq!(faults(|s, _| s["chain"]["length"] = json!(8)), ["count@core"]);
    assert_eq!(faults(|s, _| s["queue"]["count"] = json!(4)), ["count@core"]);
    assert_eq!(faults(|s, _| s["queue"]["tokens"] = json!(24)), ["count@core"]);
    // A row exists twice.
    assert_eq!(faults(|_, m| m.insert(3, m[2].clone())), ["order@3", "time@3"]);
    // It is a fault if a text is removed but its salt remains. The server removes both when it
    // forgets a message.
    assert_eq!(faults(|_, m| m[0]["content"] = Value::Null), ["digest@1"]);
    assert_eq!(
        faults(|_, m| {
            m[0]["content"] = Value::Null;
            m[0]["salt"] = Value::Null;
        }),
        Vec::<String>::new()
    );
    // The test changes the first position of the queue in the agent's state.
    assert_eq!(
        faults(|s, _| s["queue"]["head_seq"] = json!(6)),
        ["edge_missing@5", "in_queue@5", "count@core", "count@core"]
    );
}

/// Returns the log of nine messages with the sixth row turned into a copy, and with the digests and
/// the hash chain recomputed.
fn log_with_copy() -> (Value, Vec<Value>) {
    let (mut state, mut messages) = log();
    messages[5]["kind"] = json!("copy");
    messages[5]["copy_of"] = json!("m1");
    let mut chain = receipt::genesis("ada");
    for message in &mut messages {
        let salt = text_of(message, "salt");
        let digest = receipt::digest(&salt, &receipt::canonical_message("ada", message));
        chain = receipt::link(&chain, &digest);
        message["digest"] = json!(digest);
        message["chain"] = json!(chain);
    }
    state["chain"]["head"] = json!(chain);
    (state, messages)
}

#[test]
fn a_copy_may_leave_while_the_log_is_read_but_not_before_and_is_never_logged() {
    let (state, mut messages) = log_with_copy();
    assert!(report(&state, &messages, &state).holds());
    messages[4]["evicted_batch_id"] = json!("b3");
    messages[4]["in_queue"] = json!(false);
    messages[5]["in_queue"] = json!(false);
    let mut after = state.clone();
    after["version"] = json!(10);
    after["queue"]["head_seq"] = json!(7);
    assert_eq!(report(&state, &messages, &after).faults, []);
    let names = |found: &Report| found.faults.iter().map(|f| f.kind.name()).collect::<Vec<_>>();
    after["queue"]["head_seq"] = json!(6);
    assert_eq!(names(&report(&state, &messages, &after)), ["in_queue"]);
    let (state, mut messages) = log_with_copy();
    messages[5]["logged"] = json!(true);
    assert_eq!(names(&report(&state, &messages, &state)), ["edge_double"]);
}

#[test]
fn two_swapped_numbers_are_called_swapped() {
    let (state, mut messages) = log();
    messages[6]["seq"] = json!(8);
    messages[7]["seq"] = json!(7);
    messages.swap(6, 7);
    let report = report(&state, &messages, &state);
    let first = &report.faults[0];
    assert_eq!(
        (first.seq, first.kind, first.id.as_deref()),
        (Some(7), FaultKind::Digest, Some("m8"))
    );
    assert!(first.what.contains("made with number 8"), "{}", first.what);
}

#[test]
fn what_happens_while_the_log_is_read_is_no_fault() {
    let (before, mut messages) = log();
    let mut after = before.clone();
    after["queue"]["head_seq"] = json!(7);
    after["queue"]["next_seq"] = json!(11);
    after["version"] = json!(11);
    for message in &mut messages[4..6] {
        message["evicted_batch_id"] = json!("b3");
        message["in_queue"] = json!(false);
    }
    messages.push(json!({"seq": 10}));
    assert_eq!(report(&before, &messages, &after).faults, []);
}

#[test]
fn listed_faults_have_an_end() {
    let (state, _) = log();
    let mut verifier = Verifier::new(&state).unwrap();
    for _ in 0..FAULTS_MAX + 7 {
        verifier.message(&json!({"id": "x"}));
    }
    let report = verifier.finish(&state);
    assert_eq!(report.faults.len(), FAULTS_MAX);
    assert!(report.faults_more >= 7);
}

#[test]
fn a_state_without_figures_is_refused_by_name() {
    assert_eq!(
        Verifier::new(&json!({"agent": "a"})).err().unwrap(),
        "the state has no whole number at /version"
    );
}

#[test]
fn a_recall_entry_needs_an_edge_but_no_eviction() {
    let entry = |logged: Value| {
        let found = faults(|_, messages| {
            messages[6]["kind"] = json!("recall");
            messages[6]["in_queue"] = json!(false);
            messages[6]["logged"] = logged;
        });
        found.contains(&"edge_missing@7".to_owned())
    };
    assert_eq!([json!(true), json!(false), Value::Null].map(entry), [false, true, true]);
}

/// Removes the text of a row as retention does.
fn expire(message: &mut Value) {
    for gone in ["content", "meta", "salt", "evicted_batch_id"] {
        message[gone] = Value::Null;
    }
    message["logged"] = json!(false);
    message["expired_at"] = json!("2026-02-01T00:00:00.000Z");
}

#[test]
fn what_expired_by_the_policy_is_told_from_what_was_lost() {
    let (mut state, mut messages) = log();
    messages[..2].iter_mut().for_each(expire);
    state["expired"] = json!({"messages": 2});
    let found = report(&state, &messages, &state);
    assert!(found.holds(), "{:?}", found.faults);
    assert_eq!((found.expired, found.evicted, found.kept, found.forgotten), (2, 2, 5, 0));
    // Expired messages keep their digests, so the hash chain over these messages is still checked.
    assert_eq!(
        faults(|s, m| {
            s["expired"] = json!({"messages": 2});
            m[..2].iter_mut().for_each(expire);
            m[1]["digest"] = json!("00");
        }),
        ["chain@2"]
    );
    // The core's count of expired messages does not include a message whose text another program
    // removed.
    assert_eq!(faults(|_, m| expire(&mut m[0])), ["count@core"]);
    // A text must not be removed while its message is in the queue.
    assert_eq!(
        faults(|s, m| {
            s["expired"] = json!({"messages": 1});
            expire(&mut m[6]);
        }),
        ["expired_early@7"]
    );
    // A row that is marked as expired but has a text is still checked against its digest.
    assert_eq!(
        faults(|s, m| {
            s["expired"] = json!({"messages": 0});
            m[6]["expired_at"] = json!("t");
            m[6]["content"] = json!("another");
        }),
        ["digest@7"]
    );
}

#[test]
fn an_entry_that_went_before_its_text_is_expiring_if_the_policy_says_so() {
    let without_entry = |before: Value, after: Value| {
        let (mut state, mut messages) = log();
        messages[0]["evicted_batch_id"] = Value::Null;
        state["retention"] = json!({"before": before});
        let mut later = state.clone();
        later["retention"] = json!({"before": after});
        let found = report(&state, &messages, &later);
        (found.expiring, found.faults.len())
    };
    let (long_ago, now) = (json!("2025-01-01T00:00:00.000Z"), json!("2026-01-02T00:00:00.000Z"));
    assert_eq!(without_entry(now.clone(), now.clone()), (1, 0));
    assert_eq!(
        without_entry(long_ago.clone(), now),
        (1, 0),
        "it became old while the log was read"
    );
    assert_eq!(without_entry(long_ago.clone(), long_ago), (0, 1));
    assert_eq!(without_entry(Value::Null, Value::Null), (0, 1));
}
