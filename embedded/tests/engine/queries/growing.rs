//! Tests that no expression makes more than the query's memory limit allows or outlives its query.

use arango_embedded::error::Code;
use arango_embedded::query::QueryOptions;
use arango_embedded::value::Value;

use super::Session;

/// The memory limit of the queries here, in bytes.
const LIMIT: u64 = 16 << 20;

fn little() -> QueryOptions {
    QueryOptions { memory_limit: LIMIT, max_runtime_s: 120.0, ..QueryOptions::default() }
}

/// A query that applies `step` (with `#` for the former value) to `first` again and again.
fn again(first: &str, step: &str, times: usize, last: &str) -> String {
    let steps: String = (0..times)
        .map(|n| format!("LET v{} = {} ", n + 1, step.replace('#', &format!("v{n}"))))
        .collect();
    format!("LET v0 = {first} {steps} RETURN {}", last.replace('#', &format!("v{times}")))
}

#[test]
fn every_form_that_grows_ends_at_the_memory_limit() {
    let session = Session::new();
    let text = r#"REPEAT("x", 1000000)"#;
    for query in [
        again(text, "CONCAT(#, #, #, #)", 8, "LENGTH(#)"),
        again(text, r#"CONCAT_SEPARATOR(",", #, #, #)"#, 8, "LENGTH(#)"),
        again(text, r#"SUBSTITUTE(#, "x", "xxxx")"#, 8, "LENGTH(#)"),
        again("1..1000", "APPEND(#, #)", 20, "LENGTH(#)"),
        again("1..1000", "UNION(#, #, #, #)", 20, "LENGTH(#)"),
        again("1..1000", "INTERLEAVE(#, #)", 20, "LENGTH(#)"),
        again("[1, 2]", "[#, #, #]", 60, "# == #"),
        again("[1, 2]", "[#, #, #]", 60, "LENGTH(FLATTEN(#, 60))"),
        again("{a: 1}", "{a: #, b: #}", 60, "# == #"),
        again("{a: 1}", "MERGE(#, {b: #, c: [#]})", 60, "LENGTH(#)"),
        again("[1]", "PUSH(#, #)", 60, "# == #"),
        again("[1]", "(FOR i IN 1..4 RETURN #)", 60, "# == #"),
        again("[1]", "(1..4)[* RETURN #]", 60, "# == #"),
        again(text, "[JSON_STRINGIFY([#, #])][0]", 20, "LENGTH(#)"),
        format!(r#"RETURN LENGTH(SPLIT({text}, ""))"#),
        "RETURN LENGTH(1..9000000)".into(),
        r#"RETURN LENGTH((1..1000000)[* RETURN CONCAT(REPEAT("x", 100), CURRENT)])"#.into(),
        r#"RETURN LENGTH((1..1000000)[* RETURN [[[CONCAT(REPEAT("x", 100), CURRENT)]]]])"#.into(),
        format!("RETURN LENGTH(CONCAT({}))", vec![text; 300].join(", ")),
    ] {
        assert_eq!(session.code(&query, little()), Code::ResourceLimit, "{query}");
    }
}

#[test]
fn what_a_row_has_made_is_free_after_the_row() {
    let session = Session::new();
    for (query, expected) in [
        (
            r#"FOR i IN 1..40 FILTER LENGTH(REPEAT("x", 1000000 + i)) > 0 COLLECT WITH COUNT INTO n RETURN n"#,
            40,
        ),
        (
            r#"FOR i IN 1..40 LET t = REPEAT("x", 1000000 + i) COLLECT WITH COUNT INTO n RETURN n"#,
            40,
        ),
        (
            r#"RETURN LENGTH((1..40000)[* FILTER LENGTH(CONCAT(REPEAT("x", 1000), CURRENT)) > 0 RETURN 1])"#,
            40_000,
        ),
        (
            r#"RETURN SUM((1..40000)[* RETURN LENGTH(CONCAT(REPEAT("x", 1000), CURRENT)) > 0 ? 1 : 0])"#,
            40_000,
        ),
    ] {
        let answer = session.run_with(query, "{}", little()).expect(query);
        assert_eq!(answer.rows, [Value::Int(expected)], "{query}");
    }
}

#[test]
fn an_expression_without_rows_ends_at_the_deadline() {
    let session = Session::new();
    let short = || QueryOptions { max_runtime_s: 0.05, ..QueryOptions::default() };
    for query in [
        "RETURN LENGTH((1..1000000)[* FILTER LENGTH((1..1000000)[* FILTER CURRENT < 0]) < 0])",
        "LET l = 1..1000000 RETURN (1..1000000)[? ANY FILTER l ALL > 0 AND CURRENT < 0]",
        r#"RETURN LENGTH((1..1000000)[* FILTER LENGTH(REPEAT("x", 1000000 + CURRENT)) < 0])"#,
    ] {
        assert_eq!(session.code(query, short()), Code::QueryKilled, "{query}");
    }
}
