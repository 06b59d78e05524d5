//! Tests that the import of an export restores the agent exactly, and that a changed export is
//! refused.

use crate::share;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use vctx_core::memory::archive::Metric;
use vctx_core::memory::export::{
    Checker, Header, ImportPlan, Owner, RowKind, Tally, VectorKind, carried, exact, line_of,
    parted, settled,
};
use vctx_core::memory::receipt;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn uuid(number: u64) -> String {
    format!("00000000-0000-7000-8000-{number:012x}")
}

/// Returns the lines of a small export with most kinds of rows.
fn lines() -> Vec<String> {
    let kind = VectorKind {
        dimension: 2,
        embedding_version: "1".into(),
        metric: Metric::Cosine,
        model_id: "m".into(),
    };
    let header = Header::new("ada", "acme:ada", 5, Some(kind));
    let mut chain = receipt::genesis("acme:ada");
    let mut rows = Vec::new();
    for seq in 1..=4_u64 {
        let mut message = json!({"id": uuid(seq), "seq": seq, "kind": "turn", "role": "user", "content": format!("said {seq}"),
            "meta": {}, "token_estimate": 3, "created_at": format!("2026-01-01T00:00:0{seq}.000Z"), "copy_of": null, "salt": "s"});
        let digest = receipt::digest("s", &receipt::canonical_message("acme:ada", &message));
        chain = receipt::link(&chain, &digest);
        message["digest"] = digest.into();
        message["chain"] = chain.as_str().into();
        if seq == 2 {
            for gone in ["content", "meta", "salt"] {
                message[gone] = Value::Null;
            }
            message["expired_at"] = json!("2026-01-02T00:00:00.000Z");
        }
        rows.push((RowKind::Messages, message));
    }
    let core = json!({"schema_version": 1, "context_window": 4096, "encoding": "o200k_base",
        "token_budget": {"warning": 1, "flush": 2, "target": 3, "max": 4}, "system": {"content": "s", "token_estimate": 1, "changed_at_version": 1},
        "working_blocks": [], "queue_head_summary": {"content": "x", "token_estimate": 1, "revision": 1, "changed_at_version": 2, "kept": "2"},
        "queue": {"head_seq": 2, "next_seq": 5, "count": 3, "tokens": 9, "changed_at_version": 2}, "notices": [],
        "chain": {"head": chain, "length": 4}, "counters": {"warnings": 0, "flushes": 1, "evicted": 1}, "recent_revisions": "",
        "version": 2, "created_at": "t", "updated_at": "t", "last_message_ms": 1});
    let copy = |version: u64| json!({"version": version, "system": {}, "working_blocks": [], "queue_head_summary": {}, "ts": "t"});
    let mut all =
        vec![(RowKind::Core, core), (RowKind::Versions, copy(1)), (RowKind::Versions, copy(2))];
    all.extend(rows);
    all.push((
        RowKind::Recall,
        json!({"id": uuid(1), "seq": 1, "payload": {"content": "said 1"}, "summary_rev": 1}),
    ));
    all.push((RowKind::RecallVectors, json!({"id": uuid(1), "seq": 1, "passage": 0, "start": 0, "end": 6, "fingerprint": "f", "embedding": [0.1, 1e-30]})));
    all.push((RowKind::Manifests, json!({"doc_id": "d", "chunks": 1, "provenance": {}})));
    all.push((RowKind::Passages, json!({"doc_id": "d", "chunk_id": "0", "index": 0, "text": "t", "provenance": {}, "embedding": [0.3, -1]})));
    all.push((
        RowKind::Cites,
        json!({"message": uuid(3), "seq": 3, "doc_id": "d", "chunk_id": "0"}),
    ));
    all.push((RowKind::Derived, json!({"version": 2, "message": uuid(1), "summary_rev": 1})));
    all.push((
        RowKind::Derived,
        json!({"chunk": {"doc_id": "d", "chunk_id": "0"}, "message": uuid(4)}),
    ));
    all.push((RowKind::Answers, json!({"key": "k", "tool": "append_fifo", "request_hash": "h", "response": {}, "expires_at": 1, "created_at": "t"})));
    all.push((RowKind::Events, json!({"type": "audit", "details": {"n": 1}, "ts": "t"})));
    all.push((RowKind::Events, json!({"type": "audit", "details": {"n": 1}, "ts": "t"})));
    of_rows(&header, all, &chain)
}

fn of_rows(header: &Header, rows: Vec<(RowKind, Value)>, chain: &str) -> Vec<String> {
    let mut lines = vec![header.line()];
    let mut tally = Tally::begun(&lines[0]);
    for (part, row) in rows {
        let line = line_of(part, &object(row));
        tally.row(part, &line);
        lines.push(line);
    }
    lines.push(tally.trailer(chain));
    lines
}

fn check(lines: &[String]) -> Result<ImportPlan, String> {
    let mut checker = Checker::new(5);
    lines.iter().try_for_each(|line| checker.line(line))?;
    checker.finish()
}

/// Checks an export in which one row is changed and all checksums match the change.
fn with(
    part: RowKind,
    at: usize,
    change: impl FnOnce(&mut Map<String, Value>),
) -> Result<ImportPlan, String> {
    let lines = lines();
    let mut rows: Vec<(RowKind, Map<String, Value>)> =
        lines[1..lines.len() - 1].iter().map(|line| parted(line).unwrap()).collect();
    let row = rows.iter_mut().filter(|(of, _)| *of == part).nth(at).unwrap();
    change(&mut row.1);
    let header: Header = serde_json::from_str(&lines[0]).unwrap();
    let head = rows[0].1["chain"]["head"].as_str().unwrap().to_owned();
    check(&of_rows(
        &header,
        rows.into_iter().map(|(part, row)| (part, row.into())).collect(),
        &head,
    ))
}

#[test]
fn a_sound_file_is_taken() {
    let checked = check(&lines()).unwrap();
    assert_eq!((checked.rows, checked.counts["messages"].as_u64()), (17, Some(4)));
    assert_eq!(checked.header.sealed_as, "acme:ada");
}

#[test]
fn numbers_are_read_to_their_last_bit() {
    for text in [
        "0.1",
        "1e-7",
        "123456789012345680000",
        "0.30000000000000004",
        "5e-324",
        "1.7976931348623157e308",
        "9007199254740993",
        "-0.0",
        "7.038531e-26",
        "2.2250738585072011e-308",
    ] {
        let value = exact(&format!("[\"1e5\\\"2\", {{\"a\": {text}}}]")).unwrap();
        let read = &value[1]["a"];
        if read.is_f64() {
            let bits = text.parse::<f64>().unwrap().to_bits();
            assert_eq!(read.as_f64().unwrap().to_bits(), bits, "{text}");
        }
        assert_eq!(exact(&read.to_string()).unwrap(), *read, "{text}");
    }
    for bad in [
        "{\"a\":1,\"a\":2}",
        "[1",
        "{\"a\": 1e999}",
        &format!("{}1{}", "[".repeat(200), "]".repeat(200)),
    ] {
        assert!(exact(bad).is_err(), "{bad}");
    }
}

#[test]
fn what_is_wrong_in_a_row_is_refused_though_all_sums_fit() {
    let cases = [
        (RowKind::Messages, 0, "content", json!("else"), "digest"),
        (RowKind::Messages, 1, "chain", json!("00"), "hash chain"),
        (RowKind::Messages, 1, "seq", json!(3), "seq"),
        (RowKind::Messages, 2, "id", json!("../../etc/passwd"), "UUID"),
        (RowKind::Messages, 2, "id", json!(uuid(3).to_uppercase().replace('0', "A")), "canonical"),
        (RowKind::Messages, 3, "agent_id", json!("bob"), "unknown attribute"),
        (RowKind::Messages, 3, "_key", json!("x"), "unknown attribute"),
        (RowKind::Messages, 0, "kind", json!("gossip"), "no row"),
        (RowKind::Recall, 0, "id", json!(uuid(9)), "no message"),
        (RowKind::Recall, 0, "seq", json!(2), "no message"),
        (RowKind::RecallVectors, 0, "embedding", json!([]), "dimension"),
        (RowKind::Passages, 0, "embedding", json!([1, 2, 3]), "dimension"),
        (RowKind::Passages, 0, "doc_id", json!("e"), "no document"),
        (RowKind::Passages, 0, "index", json!(1), "comes next"),
        (RowKind::Manifests, 0, "chunks", json!(2), "missing chunks"),
        (RowKind::Cites, 0, "chunk_id", json!("7"), "no chunk"),
        (RowKind::Derived, 0, "version", json!(9), "neither"),
        (RowKind::Derived, 1, "message", json!(uuid(8)), "no message"),
        (RowKind::Versions, 0, "version", json!(2), "first copy"),
        (RowKind::Core, 0, "queue/next_seq", json!(9), "queue"),
        (RowKind::Answers, 0, "key", json!(""), "key"),
        (RowKind::Events, 0, "type", json!("rumour"), "no row"),
    ];
    for (part, at, field, value, why) in cases {
        let change = |row: &mut Map<String, Value>| match field.split_once('/') {
            Some((outer, inner)) => row[outer][inner] = value,
            None => drop(row.insert(field.into(), value)),
        };
        let said = with(part, at, change).unwrap_err();
        assert!(said.contains(why), "{part:?} {at} {field}: {said}, not {why}");
    }
}

#[test]
fn what_was_cut_doubled_moved_or_is_newer_is_refused() {
    let whole = lines();
    for cut in 0..whole.len() {
        assert!(check(&whole[..cut]).is_err(), "cut behind line {cut}");
    }
    for at in 1..whole.len() {
        let mut doubled = whole.clone();
        doubled.insert(at, whole[at].clone());
        assert!(check(&doubled).is_err(), "line {at} twice");
        let mut without = whole.clone();
        without.remove(at);
        assert!(check(&without).is_err(), "without line {at}");
        let mut swapped = whole.clone();
        swapped.swap(at, at - 1);
        assert!(swapped == whole || check(&swapped).is_err(), "lines {at} and {} swapped", at - 1);
    }
    for (from, to, why) in [
        ("\"version\":1", "\"version\":2", "newer"),
        ("\"schema\":5", "\"schema\":99", "newer"),
        ("\"agent\":\"ada\"", "\"agent\":\"../ada\"", "agent"),
        ("acme:ada", "acme:ada:x", "sealed_as"),
        ("\"format\"", "\"extra\":1,\"format\"", "unknown field"),
    ] {
        let mut changed = whole.clone();
        changed[0] = changed[0].replace(from, to);
        let said = check(&changed).unwrap_err();
        assert!(said.contains(why), "{said}, not {why}");
    }
    let mut unknown = whole.clone();
    unknown[3] = unknown[3].replace("core_versions", "_users");
    assert!(check(&unknown).unwrap_err().contains("unknown kind"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(share(400)))]

    #[test]
    fn one_bit_anywhere_is_found_out(at in 0_usize..100_000, bit in 0_u8..8) {
        let text = lines().join("\n");
        let mut bytes = text.clone().into_bytes();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Ok(text) = String::from_utf8(bytes) {
            let lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
            prop_assert!(check(&lines).is_err(), "bit {} of byte {}", bit, at);
        }
    }
}

#[test]
fn a_row_is_the_same_wherever_its_agent_lies() {
    let owner = |scope: &str, tenant: &str, number: u64| Owner {
        scope: scope.into(),
        tenant: tenant.into(),
        sealed_as: "acme:ada".into(),
        vector: Some(VectorKind {
            dimension: 2,
            embedding_version: "1".into(),
            metric: Metric::Cosine,
            model_id: "m".into(),
        }),
        number,
    };
    let whole = lines();
    for line in &whole[1..whole.len() - 1] {
        let (part, row) = parted(line).unwrap();
        for to in [owner("acme:ada", "acme", 1), owner("bea", "", 3)] {
            let mut there = settled(part, row.clone(), &to).unwrap();
            there.insert("_id".into(), json!("x/y"));
            there.insert("_rev".into(), json!("_r"));
            there.entry("_key").or_insert(json!("17"));
            if let (RowKind::Derived, Some(chunk)) = (part, row.get("chunk")) {
                // The query that reads a citation edge for an export also returns the cited chunk.
                there.insert("chunk".into(), chunk.clone());
            }
            assert_eq!(line_of(part, &carried(part, there.clone(), &to).unwrap()), *line);
            if !matches!(part, RowKind::Messages | RowKind::Events) {
                let other = owner("eve", "", 1);
                assert!(carried(part, there, &other).is_err(), "{part:?} of another agent leaves");
            }
        }
    }
}

#[test]
fn a_line_with_more_values_than_any_row_is_refused_before_it_is_parsed() {
    let mut lines = lines();
    let most = usize::try_from(vctx_core::limits::EXPORT_LINE_VALUES_MAX).unwrap();
    // The line is not even JSON.
    lines[1] = format!("{{\"in\":\"core_memory\",\"row\":{{\"a\":[{}", "[],".repeat(most / 2));
    let why = check(&lines).unwrap_err();
    assert_eq!(
        why,
        format!(
            "line 2 has over {most} values, more than any row of an agent has: export the agent again"
        )
    );
}
