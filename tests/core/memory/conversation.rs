//! Tests of a client's messages: their digests, and which histories count as equal.

use vctx_core::memory::conversation::{ClientCall, ClientMessage, beginning, places};
use vctx_core::memory::message::Role;

fn call(arguments: &str) -> ClientMessage {
    let call = ClientCall { id: "c1".into(), name: "look".into(), arguments: arguments.into() };
    ClientMessage { calls: vec![call], ..ClientMessage::text(Role::Assistant, "") }
}

#[test]
fn what_is_empty_and_the_order_of_arguments_make_no_other_message() {
    let named =
        ClientMessage { name: Some(String::new()), ..ClientMessage::text(Role::User, " hi\n") };
    assert_eq!(named.canonical(), r#"{"role":"user","text":"hi"}"#);
    assert_eq!(call(r#"{"a":1,"b":2}"#).canonical(), call(r#"{ "b": 2.0, "a": 1 }"#).canonical());
    assert_ne!(call(r#"{"a":1}"#).canonical(), call(r#"{"a":2}"#).canonical());
    assert_eq!(call("not json").canonical(), call("not json").canonical());
    assert_ne!(call("not json").canonical(), call("not  json").canonical());
}

#[test]
fn every_part_of_a_message_counts() {
    let plain = ClientMessage::text(Role::User, "hi");
    let others = [
        ClientMessage { role: Role::System, ..plain.clone() },
        ClientMessage { text: "hi there".into(), ..plain.clone() },
        ClientMessage { name: Some("ada".into()), ..plain.clone() },
        ClientMessage { call_id: Some("c1".into()), ..plain.clone() },
        call("{}"),
    ];
    let mut all: Vec<String> = others.iter().map(ClientMessage::canonical).collect();
    all.push(plain.canonical());
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6);
}

#[test]
fn a_place_is_named_by_all_that_was_said_up_to_it_and_by_whose_it_is() {
    let said = [
        ClientMessage::text(Role::User, "a"),
        ClientMessage::text(Role::Assistant, "b"),
        ClientMessage::text(Role::User, "a"),
    ];
    let of = |uid, agent, user| places(&beginning("", uid, agent, user), &said);
    let mine = of(1, None, None);
    assert_eq!(mine[1].follows, mine[0].thread);
    assert_eq!(mine[2].follows, mine[1].thread);
    assert_ne!(mine[2].thread, mine[0].thread, "the same words at another place");
    assert_eq!(mine, of(1, None, None));
    for other in [of(2, None, None), of(1, Some("a"), None), of(1, None, Some("a"))] {
        assert!(other.iter().all(|place| mine.iter().all(|own| own.thread != place.thread)));
    }
    assert_eq!(places(&mine[0].thread, &said[1..]), mine[1..], "a chain goes on from any place");
}
