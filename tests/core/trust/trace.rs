//! Tests where a provenance trace may start, and its limits.

use vctx_core::memory::archive::passage_key;
use vctx_core::trust::{Actor, Follow, Principal, Scope, TraceQuery, VertexId, admit};

fn scope() -> Scope {
    let actor = Actor { uid: 1, pid: 1, label: None };
    admit(&Principal { actor, tenant: "acme".into(), called: None }, "ada").unwrap()
}

#[test]
fn a_trace_begins_with_a_seq_an_id_or_the_agent() {
    for (text, place) in [
        ("17", VertexId::Seq(17)),
        ("#17", VertexId::Seq(17)),
        ("tides.md#2", VertexId::Chunk(passage_key("acme:ada", "tides.md", "2"))),
        ("0190-ab", VertexId::Message("0190-ab".into())),
        ("messages/m1", VertexId::Message("m1".into())),
        ("archival_docs/c1", VertexId::Chunk("c1".into())),
        ("core_versions/acme:ada:3", VertexId::Version("acme:ada:3".into())),
        ("core_memory/bob", VertexId::Agent("bob".into())),
        ("agent", VertexId::Agent("acme:ada".into())),
    ] {
        assert_eq!(VertexId::parse(text, &scope()).unwrap(), place, "{text}");
    }
    let long = "x".repeat(256 + 1 + 128 + 1);
    for text in
        ["", "/", "messages/", "users/x", "a b", "messages/a/b", "99999999999999999999", &long]
    {
        assert_eq!(VertexId::parse(text, &scope()).unwrap_err().fields["field"], "from", "{text}");
    }
}

#[test]
fn each_bound_of_a_trace_is_named() {
    let ask =
        |depth, around, limit| TraceQuery::checked(VertexId::Seq(1), &[], depth, around, limit);
    assert_eq!(ask(1, 2, 20).unwrap().follow.len(), Follow::ALL.len());
    for (depth, around, limit, field) in [
        (0, 2, 20, "depth"),
        (4, 2, 20, "depth"),
        (1, 99, 20, "around"),
        (1, 2, 0, "limit"),
        (1, 2, 999, "limit"),
    ] {
        assert_eq!(ask(depth, around, limit).unwrap_err().fields["field"], field);
    }
    assert!(Follow::ALL.iter().all(|one| Follow::by_name(one.text()).unwrap() == *one));
    assert!(Follow::by_name("likes").is_err());
}
