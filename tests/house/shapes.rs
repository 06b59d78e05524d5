//! Checks that vector and text searches have the query forms that ArangoDB accepts; for each rule,
//! this file contains a query that violates the rule, so that the check itself is tested.
//!
//! ArangoDB refuses a vector query of any other form with the error 1554. ArangoDB does not refuse
//! a text search of any other form. However, such a text search compares whole texts with single
//! tokens.

use std::collections::BTreeSet;

use arango_embedded::syntax::{Binary, Body, Expr, Key, SortDirection, Statement, parse};
use arango_embedded::value::Value;
use vctx::store::QUERIES;

use super::tree::{bodies, children, expressions, options, parts};

const OVER_A_COLLECTION: &str = "vector: FOR runs over a collection";
const NO_FILTER: &str = "vector: no FILTER between FOR and LIMIT";
/// Comment that marks a query that intentionally filters before its vector search.
const FILTERS_FIRST: &str = "\n// Filters first: ";
const ONLY_LET: &str = "vector: only LET between FOR and SORT";
const NO_ARITHMETIC: &str = "vector: the score is the call alone";
const SORTED: &str = "vector: SORT is by the score";
const ONE_KEY: &str = "vector: SORT has one key";
const DIRECTION: &str = "vector: cosine sorts DESC, L2 sorts ASC";
const LIMITED: &str = "vector: LIMIT stands right behind SORT";
const ANALYZED: &str =
    "search: PHRASE and TOKENS carry an analyzer, the same as the ANALYZER around them";
const WRAPPED: &str = "search: tokens are compared inside ANALYZER";
const IDENTITY: &str = "search: what is not text stands outside ANALYZER";
const SCOPED: &str = "search: the scope is a part of SEARCH that always holds";
const SCORED: &str = "search: a score belongs to a FOR with SEARCH";
const SCORED_BY_TOKENS: &str = "search: what is scored names its analyzer in SEARCH";
const BEST_FIRST: &str = "search: a score sorts DESC";
const NO_WAIT: &str = "search: no waitForSync";

/// Attributes that a search compares as whole values, without an analyzer.
const WHOLE: &[&str] = &["_from", "_to", "_key", "_id", "agent_id", "tenant"];
/// Functions that compute the score of a document in a view.
const SCORES: &[&str] = &["BM25", "TFIDF"];

type Broken = BTreeSet<&'static str>;

/// Returns the rules that a query text violates.
fn broken(text: &str) -> Broken {
    let body = parse(text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let mut broken = Broken::new();
    for body in bodies(&body) {
        vector(body, &mut broken);
        // A query with the comment `Filters first` filters inside the vector index. The server
        // sends it only to databases that support such filters.
        if text.contains(FILTERS_FIRST) {
            broken.remove(NO_FILTER);
        }
        search(body, &mut broken);
    }
    broken
}

fn call<'a>(expr: &'a Expr, name: &str) -> Option<&'a [Expr]> {
    match expr {
        Expr::Call(called, arguments) if **called == *name => Some(arguments),
        Expr::Group(inner) => call(inner, name),
        _ => None,
    }
}

/// Returns the function name if the expression is a call such as `APPROX_NEAR_COSINE`.
fn metric(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Call(name, _) if name.starts_with("APPROX_NEAR_") => Some(name),
        _ => None,
    }
}

/// Checks the rules for a query level (a query or subquery) that calls an `APPROX_NEAR` function.
fn vector(body: &Body, broken: &mut Broken) {
    let near = |statement: &Statement| {
        expressions(statement).into_iter().flat_map(parts).any(|part| metric(part).is_some())
    };
    let statements = &body.statements;
    let Some(first) = statements.iter().position(near) else { return };
    let is_for = |statement: &Statement| {
        matches!(statement, Statement::For { .. } | Statement::Traversal(_))
    };
    let start = statements[..first].iter().rposition(is_for);
    let variables: Vec<&str> =
        statements[..start.unwrap_or(0)].iter().filter_map(declared).collect();
    let collection = start.is_some_and(|at| match &statements[at] {
        Statement::For { source: Expr::Name(name), search: None, .. } => {
            !variables.contains(&&**name)
        }
        _ => false,
    });
    if !collection {
        broken.insert(OVER_A_COLLECTION);
    }
    let level = &statements[start.map_or(0, |at| at + 1)..];
    let limit = level.iter().position(|s| matches!(s, Statement::Limit { .. }));
    let sort = level.iter().position(|s| matches!(s, Statement::Sort(_)));
    if level[..limit.unwrap_or(level.len())].iter().any(|s| matches!(s, Statement::Filter(_))) {
        broken.insert(NO_FILTER);
    }
    let before = &level[..sort.or(limit).unwrap_or(level.len())];
    if before.iter().any(|s| {
        !matches!(s, Statement::Let { .. } | Statement::Filter(_) | Statement::Return { .. })
    }) {
        broken.insert(ONLY_LET);
    }
    score(level, sort, broken);
    if sort.is_none_or(|at| !matches!(level.get(at + 1), Some(Statement::Limit { .. }))) {
        broken.insert(LIMITED);
    }
}

fn declared(statement: &Statement) -> Option<&str> {
    match statement {
        Statement::For { variable: name, .. } | Statement::Let { name, .. } => Some(name),
        _ => None,
    }
}

/// Checks the rules for the score: where it is computed, and how the query sorts by it.
fn score(level: &[Statement], sort: Option<usize>, broken: &mut Broken) {
    let mut scores: Vec<(&str, &str)> = Vec::new();
    for statement in level {
        let whole: Vec<&Expr> = match statement {
            Statement::Let { name, value } => {
                scores.extend(metric(value).map(|metric| (&**name, metric)));
                vec![value]
            }
            Statement::Sort(keys) => keys.iter().map(|(key, _)| key).collect(),
            _ => Vec::new(),
        };
        let calls = expressions(statement).into_iter().flat_map(parts);
        let calls = calls.filter(|part| metric(part).is_some()).count();
        if calls > whole.into_iter().filter(|value| metric(value).is_some()).count() {
            broken.insert(NO_ARITHMETIC);
        }
    }
    let Some(Statement::Sort(keys)) = sort.map(|at| &level[at]) else {
        broken.insert(SORTED);
        return;
    };
    if keys.len() != 1 {
        broken.insert(ONE_KEY);
    }
    let sorted = |key: &Expr| {
        let by_name = |name: &str| scores.iter().find(|(own, _)| *own == name).map(|(_, m)| *m);
        match key {
            Expr::Name(name) => by_name(name).map(str::to_owned),
            key => metric(key).map(str::to_owned),
        }
    };
    match keys.first().and_then(|(key, direction)| Some((sorted(key)?, direction))) {
        None => {
            broken.insert(SORTED);
        }
        Some((metric, direction)) if *direction != nearest_first(&metric) => {
            broken.insert(DIRECTION);
        }
        Some(_) => {}
    }
}

/// Distances sort ascending, similarities descending.
fn nearest_first(metric: &str) -> SortDirection {
    match metric {
        "APPROX_NEAR_L2" => SortDirection::Ascending,
        _ => SortDirection::Descending,
    }
}

/// Checks the rules for the body of a query or subquery that contains a SEARCH or a score.
fn search(body: &Body, broken: &mut Broken) {
    let mut found: Vec<(&str, bool)> = Vec::new();
    let mut scores: Vec<&str> = Vec::new();
    for statement in &body.statements {
        if let Statement::For { variable, search: Some(condition), .. } = statement {
            found.push((variable, parts(condition).into_iter().any(names_an_analyzer)));
            condition_rules(condition, None, broken);
            if !conjuncts(condition).into_iter().any(is_scope) {
                broken.insert(SCOPED);
            }
            let waits = |options: &Expr| match options {
                Expr::Object(entries) => format!("{entries:?}").contains("waitForSync"),
                _ => true,
            };
            if options(statement).is_some_and(waits) {
                broken.insert(NO_WAIT);
            }
            continue;
        }
        let is_score =
            |part: &Expr| SCORES.iter().find_map(|name| call(part, name)).map(<[Expr]>::to_vec);
        for arguments in expressions(statement).into_iter().flat_map(parts).filter_map(is_score) {
            let of = match arguments.first() {
                Some(Expr::Name(name)) => found.iter().find(|(variable, _)| *variable == &**name),
                _ => None,
            };
            match of {
                None => broken.insert(SCORED),
                Some((_, false)) => broken.insert(SCORED_BY_TOKENS),
                Some((_, true)) => false,
            };
        }
        if let Statement::Let { name, value } = statement
            && is_score(value).is_some()
        {
            scores.push(name);
        }
        if let Statement::Sort(keys) = statement {
            let by_score = |key: &Expr| match key {
                Expr::Name(name) => scores.contains(&&**name),
                key => is_score(key).is_some(),
            };
            if keys
                .iter()
                .any(|(key, direction)| by_score(key) && *direction != SortDirection::Descending)
            {
                broken.insert(BEST_FIRST);
            }
        }
    }
}

/// Whether an expression calls a function and names the analyzer in the last argument.
fn names_an_analyzer(part: &Expr) -> bool {
    let least = [("ANALYZER", 2), ("PHRASE", 3), ("TOKENS", 2)];
    least.iter().any(|(name, least)| {
        call(part, name).is_some_and(|arguments| {
            let last = arguments.last();
            arguments.len() >= *least && matches!(last, Some(Expr::Literal(Value::String(_))))
        })
    })
}

/// Checks a SEARCH condition; `around` is the analyzer that an enclosing ANALYZER call sets.
fn condition_rules(expr: &Expr, around: Option<&str>, broken: &mut Broken) {
    let own = |argument: Option<&Expr>| match argument {
        Some(Expr::Literal(Value::String(name))) => Some(name.to_string()),
        _ => None,
    };
    match expr {
        Expr::Call(name, arguments) if **name == *"ANALYZER" => {
            let analyzer = own(arguments.get(1));
            if analyzer.is_none() {
                broken.insert(ANALYZED);
            }
            if let Some(inner) = arguments.first() {
                condition_rules(inner, Some(analyzer.as_deref().unwrap_or("?")), broken);
            }
            return;
        }
        Expr::Call(name, arguments) if ["PHRASE", "TOKENS"].contains(&&**name) => {
            // Both functions take texts and the analyzer as last argument; PHRASE also takes
            // numbers of skipped words between its texts.
            let least = if **name == *"PHRASE" { 3 } else { 2 };
            let carried = (arguments.len() >= least).then(|| own(arguments.last())).flatten();
            let agrees = match (&carried, around) {
                (Some(own), Some(around)) => own == around,
                (Some(_), None) | (None, Some(_)) => true,
                (None, None) => false,
            };
            if !agrees {
                broken.insert(ANALYZED);
            }
        }
        Expr::Binary(_, a, b) => {
            let sides = [&**a, &**b];
            let plain = around.is_none_or(|analyzer| analyzer == "identity");
            if sides.iter().any(|side| call(side, "TOKENS").is_some()) && plain {
                broken.insert(WRAPPED);
            }
            if !plain && sides.into_iter().any(is_whole) {
                broken.insert(IDENTITY);
            }
        }
        _ => {}
    }
    for child in children(expr) {
        condition_rules(child, around, broken);
    }
}

fn is_whole(expr: &Expr) -> bool {
    matches!(expr, Expr::Attribute(_, Key::Name(name)) if WHOLE.contains(&&**name))
}

fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Binary(Binary::And, a, b) => [conjuncts(a), conjuncts(b)].concat(),
        Expr::Group(inner) => conjuncts(inner),
        // BOOST changes the score of its condition, but not whether the condition holds.
        Expr::Call(name, arguments) if **name == *"BOOST" => {
            arguments.first().map_or(vec![expr], conjuncts)
        }
        other => vec![other],
    }
}

/// Whether an expression has the form `something == … @scope …`.
fn is_scope(expr: &Expr) -> bool {
    let bound = |part: &&Expr| matches!(part, Expr::Bind(name) if **name == *"scope");
    matches!(expr, Expr::Binary(Binary::Equal, ..)) && parts(expr).iter().any(bound)
}

#[test]
fn every_query_has_the_shapes_that_the_index_rules_know() {
    for query in QUERIES.iter() {
        let mut broken = broken(query.text);
        // A query over all agents must state its reason in a comment; `twins.rs` checks the scope
        // of every other query.
        if query.text.lines().any(|line| line.starts_with("// Scope: none, because ")) {
            broken.remove(SCOPED);
        }
        assert!(broken.is_empty(), "aql/{}.aql breaks: {broken:#?}", query.name);
    }
}

/// Query texts with allowed forms, which violate no rule.
const GOOD: &[&str] = &[
    r#"FOR d IN docs LET s = APPROX_NEAR_COSINE(d.v, @q, {nProbe: @n}) SORT s DESC LIMIT @k RETURN {s, k: d._key}"#,
    r#"FOR d IN docs SORT APPROX_NEAR_L2(d.v, @q) LIMIT 3 RETURN d._key"#,
    r#"FOR h IN (FOR d IN docs LET s = APPROX_NEAR_COSINE(d.v, @q) SORT s DESC LIMIT 5 RETURN {s, d}) FILTER h.d.a == @scope RETURN h"#,
    r#"FOR d IN v SEARCH d._from == CONCAT("a/", @scope) AND ANALYZER(d.t IN TOKENS(@q, "text_en"), "text_en")
       LET s = BM25(d) SORT s DESC, d.seq LIMIT 5 RETURN d"#,
    r#"FOR d IN v SEARCH d.a == @scope AND (PHRASE(d.t, @q, "text_en") OR PHRASE(d.t, "a", 1, "b", "text_en")) SORT BM25(d) DESC RETURN d"#,
];

/// For each rule, a query text that violates it.
const BAD: &[(&str, &str)] = &[
    (
        OVER_A_COLLECTION,
        r#"FOR d IN @list LET s = APPROX_NEAR_COSINE(d.v, @q) SORT s DESC LIMIT 5 RETURN d"#,
    ),
    (
        OVER_A_COLLECTION,
        r#"LET l = [] FOR d IN l LET s = APPROX_NEAR_COSINE(d.v, @q) SORT s DESC LIMIT 5 RETURN d"#,
    ),
    (
        NO_FILTER,
        r#"FOR d IN docs FILTER d.a == @scope LET s = APPROX_NEAR_COSINE(d.v, @q) SORT s DESC LIMIT 5 RETURN d"#,
    ),
    (
        NO_FILTER,
        r#"FOR d IN docs LET s = APPROX_NEAR_COSINE(d.v, @q) FILTER s > 0.5 SORT s DESC LIMIT 5 RETURN d"#,
    ),
    (
        ONLY_LET,
        r#"FOR d IN docs FOR t IN [1] LET s = APPROX_NEAR_COSINE(d.v, @q) COLLECT x = s SORT x DESC LIMIT 5 RETURN x"#,
    ),
    (
        NO_ARITHMETIC,
        r#"FOR d IN docs LET s = 1 - APPROX_NEAR_COSINE(d.v, @q) SORT s DESC LIMIT 5 RETURN d"#,
    ),
    (NO_ARITHMETIC, r#"FOR d IN docs SORT APPROX_NEAR_L2(d.v, @q) * 2 LIMIT 5 RETURN d"#),
    (SORTED, r#"FOR d IN docs LET s = APPROX_NEAR_COSINE(d.v, @q) LIMIT 5 RETURN [d, s]"#),
    (
        SORTED,
        r#"FOR d IN docs LET s = APPROX_NEAR_COSINE(d.v, @q) SORT s + 1 DESC LIMIT 5 RETURN [d, s]"#,
    ),
    (
        ONE_KEY,
        r#"FOR d IN docs LET s = APPROX_NEAR_COSINE(d.v, @q) SORT s DESC, d._key LIMIT 5 RETURN d"#,
    ),
    (DIRECTION, r#"FOR d IN docs LET s = APPROX_NEAR_COSINE(d.v, @q) SORT s LIMIT 5 RETURN d"#),
    (DIRECTION, r#"FOR d IN docs LET s = APPROX_NEAR_L2(d.v, @q) SORT s DESC LIMIT 5 RETURN d"#),
    (LIMITED, r#"FOR d IN docs LET s = APPROX_NEAR_COSINE(d.v, @q) SORT s DESC RETURN d"#),
    (
        LIMITED,
        r#"FOR d IN docs LET s = APPROX_NEAR_COSINE(d.v, @q) SORT s DESC LET t = s LIMIT 5 RETURN d"#,
    ),
    (ANALYZED, r#"FOR d IN v SEARCH d.a == @scope AND PHRASE(d.t, @q) RETURN d"#),
    (
        ANALYZED,
        r#"FOR d IN v SEARCH d.a == @scope AND ANALYZER(d.t IN TOKENS(@q, "identity"), "text_en") RETURN d"#,
    ),
    (ANALYZED, r#"FOR d IN v SEARCH d.a == @scope AND ANALYZER(d.t == @q, @analyzer) RETURN d"#),
    (WRAPPED, r#"FOR d IN v SEARCH d.a == @scope AND d.t IN TOKENS(@q, "text_en") RETURN d"#),
    (
        IDENTITY,
        r#"FOR d IN v SEARCH ANALYZER(d._from == CONCAT("a/", @scope) AND d.t IN TOKENS(@q, "text_en"), "text_en") RETURN d"#,
    ),
    (
        SCOPED,
        r#"FOR d IN v SEARCH ANALYZER(d.t IN TOKENS(@q, "text_en"), "text_en") FILTER d.a == @scope RETURN d"#,
    ),
    (SCOPED, r#"FOR d IN v SEARCH d.a == @scope OR PHRASE(d.t, @q, "text_en") RETURN d"#),
    (SCORED, r#"FOR d IN docs SORT BM25(d) DESC RETURN d"#),
    (
        SCORED_BY_TOKENS,
        r#"FOR d IN v SEARCH d.a == @scope AND d.t == @q LET s = BM25(d) SORT s DESC LIMIT 5 RETURN d"#,
    ),
    (
        BEST_FIRST,
        r#"FOR d IN v SEARCH d.a == @scope AND PHRASE(d.t, @q, "text_en") LET s = BM25(d) SORT s LIMIT 5 RETURN d"#,
    ),
    (
        NO_WAIT,
        r#"FOR d IN v SEARCH d.a == @scope AND PHRASE(d.t, @q, "text_en") OPTIONS {waitForSync: true} RETURN d"#,
    ),
];

#[test]
fn every_forbidden_shape_is_refused_by_the_name_of_its_rule() {
    for text in GOOD {
        assert_eq!(broken(text), Broken::new(), "{text}");
    }
    for (rule, text) in BAD {
        assert!(broken(text).contains(rule), "not refused by `{rule}`: {text}");
    }
    let all = [
        OVER_A_COLLECTION,
        NO_FILTER,
        ONLY_LET,
        NO_ARITHMETIC,
        SORTED,
        ONE_KEY,
        DIRECTION,
        LIMITED,
        ANALYZED,
        WRAPPED,
        IDENTITY,
        SCOPED,
        SCORED,
        SCORED_BY_TOKENS,
        BEST_FIRST,
        NO_WAIT,
    ];
    for rule in all {
        assert!(BAD.iter().any(|(of, _)| *of == rule), "no text breaks `{rule}`");
    }
}
