//! Tests names of agents and the keys of tenants.

use vctx_core::error::Code;
use vctx_core::trust::{Actor, Principal, admit, check_name};

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
    let of = |tenant: &str| Principal { actor: actor.clone(), tenant: tenant.into(), called: None };
    let keys: Vec<String> =
        ["", "t", "u"].iter().map(|t| admit(&of(t), "a").unwrap().key().to_owned()).collect();
    assert_eq!(keys, ["a", "t:a", "u:a"]);
}
