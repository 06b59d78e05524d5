//! Tests the grammar with tables of query texts, and tests that a printed syntax tree parses to an
//! equal tree.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::error::Code;
use crate::limits::QUERY_STACK_BYTES;
use crate::value::Value;

/// Parses an expression and prints it with all parentheses, which show the precedence.
fn shape(text: &str) -> String {
    print(&parse(&format!("RETURN {text}")).unwrap_or_else(|e| panic!("{text}: {e}")))[7..]
        .to_owned()
}

#[test]
fn operators_bind_as_the_server_binds_them() {
    for (text, expected) in [
        ("1 + 2 * 3 - 4", "((1 + (2 * 3)) - 4)"),
        ("a || b && c == d IN e < f .. g + h", "(a || (b && (c == (d IN (e < (f .. (g + h)))))))"),
        ("NOT a LIKE b", "((!a) LIKE b)"),
        ("a NOT LIKE b AND c NOT IN d", "((a NOT LIKE b) && (c NOT IN d))"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a ?: b ?: c", "(a ?: (b ?: c))"),
        ("-1 - -a", "((-1) - (-a))"),
        ("a ANY == 1 OR b ALL NOT IN c", "((a ANY == 1) || (b ALL NOT IN c))"),
        ("a AT LEAST (1+1) > 3", "(a AT LEAST ((1 + 1)) > 3)"),
        ("u[*].f[*].n", "u[*].f[*].n"),
        ("u[*].f[**].n", "u[*].f[**].n"),
        ("(u[*].f)[0]", "(u[*].f)[0]"),
        (
            "a[* FILTER CURRENT > 1 LIMIT 1, 2 RETURN CURRENT.x].y",
            "a[* FILTER (CURRENT > 1) LIMIT 1, 2 RETURN CURRENT.x].y",
        ),
        ("a[? 2..3 FILTER CURRENT == 1]", "a[? (2 .. 3) FILTER (CURRENT == 1)]"),
        ("a[? AT LEAST (2) FILTER CURRENT]", "a[? AT LEAST (2) FILTER CURRENT]"),
        ("{ a, 'b c': 1, [x]: 2, @k: 3, }", "{a: a, `b c`: 1, [x]: 2, @k: 3}"),
        ("doc.@a[@b]['c'].`filter`", "doc.@a[@b].c.`filter`"),
        ("length(for x in y return x)", "LENGTH((FOR x IN y\nRETURN x))"),
        ("like(a, 'b%', true)", "LIKE(a, \"b%\", true)"),
        ("my::Func(1) /* c */ + 0x10 + 0b11 // end", "((MY::FUNC(1) + 16) + 3)"),
        ("1..5", "(1 .. 5)"),
        ("1.5e3 + .5", "(1500 + 0.5)"),
        ("\"a\\u00e9\\n'\" + 'x\\'y'", "(\"aé\\n'\" + \"x'y\")"),
    ] {
        assert_eq!(shape(text), expected);
        assert_eq!(shape(expected), expected, "printed text reads back");
    }
}

#[test]
fn statements_read_back() {
    for text in [
        "FOR u IN users FILTER u.age > 3 SORT u.age DESC, u.name LIMIT 5, 10 RETURN DISTINCT u",
        "FOR u IN users LIMIT 5, null RETURN u",
        "LET a = 1, b = (FOR x IN 1..2 RETURN x) RETURN [a, b]",
        "FOR u IN users COLLECT c = u.c, d = u.d INTO g KEEP u OPTIONS {method: \"sorted\"} RETURN {c, g}",
        "FOR u IN users COLLECT c = u.c INTO g = u.name RETURN g",
        "FOR u IN users COLLECT WITH COUNT INTO n RETURN n",
        "FOR u IN users COLLECT c = u.c AGGREGATE m = MAX(u.x), n = COUNT() INTO g RETURN m",
        "INSERT {a: 1} INTO @@c OPTIONS {waitForSync: @sync} RETURN NEW",
        "UPDATE u WITH {a: 1} IN users",
        "UPDATE {_key: @k} WITH @body INTO users OPTIONS {keepNull: false} LET x = NEW._rev RETURN x",
        "REPLACE u IN users RETURN OLD",
        "FOR u IN users REMOVE u IN users",
        "REMOVE 'k' IN users LET removed = OLD RETURN removed",
        "UPSERT {a: 1} INSERT {a: 1, n: 1} UPDATE {n: OLD.n + 1} IN c RETURN {old: OLD}",
        "UPSERT FILTER CURRENT.a == 1 INSERT {} REPLACE {} INTO c",
        "WITH a, b FOR v, e, p IN 1..3 OUTBOUND 'a/1' e1, ANY e2 PRUNE x = v.y == 1 OPTIONS {order: \"bfs\"} RETURN v",
        "FOR v IN ANY start GRAPH 'g' RETURN v",
        "FOR v, e IN OUTBOUND SHORTEST_PATH 'a/1' TO 'a/2' GRAPH @g RETURN v",
        "FOR p IN 1..4 ANY K_PATHS 'a/1' TO 'a/2' edges LIMIT 3 RETURN p",
        "FOR d IN v SEARCH ANALYZER(d.t IN TOKENS(@q, 'text_en'), 'text_en') OPTIONS {waitForSync: true} SORT BM25(d) DESC RETURN d",
        "FOR t IN c SORT t.time WINDOW {preceding: 1, following: 1} AGGREGATE a = AVG(t.v) RETURN a",
        "FOR t IN c WINDOW t.time WITH {preceding: 'PT30M'} AGGREGATE a = AVG(t.v) RETURN a",
        "LET [a, , [b], {c, d: e, 'f g': [h]}] = x, {i} = y RETURN [a, b, c, e, h, i]",
        "FOR [k, v] IN ENTRIES(d) FOR {a: {b}, } IN v RETURN [k, b]",
        "FOR x IN y SORT x @direction, y 'desc', z true RETURN x",
        "FOR p IN INBOUND ALL_SHORTEST_PATHS a TO @b e1, OUTBOUND @e OPTIONS {useCache: false} RETURN p",
        "UPSERT @example INSERT {} UPDATE {} IN 'quoted name'",
        "WITH @c FOR x IN [1] RETURN x",
        "FOR `for` IN `let me` RETURN `for`.`a\\`b`",
        "FOR d IN c OPTIONS {indexHint: 'x'} FILTER d.x IN [1, 2] AND NOT d.y RETURN d",
        "FOR a IN x FOR b IN a.list[*] FILTER b REMOVE b IN c",
        "RETURN COUNT(keep) + count.options",
    ] {
        let tree = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let printed = print(&tree);
        let again = parse(&printed).unwrap_or_else(|e| panic!("{printed}: {e}"));
        assert_eq!(again, tree, "{printed}");
    }
}

#[test]
fn faults_name_their_place() {
    for (text, code, message) in [
        ("", Code::QueryEmpty, "query is empty"),
        (" // nothing\n", Code::QueryEmpty, "query is empty"),
        ("RETURN", Code::QueryParse, "unexpected end of query string near '' at position 1:7"),
        ("FOR x IN y", Code::QueryParse, "near '' at position 1:11"),
        (
            "FOR x IN y\n  RETRUN x",
            Code::QueryParse,
            "unexpected identifier near 'RETRUN x' at position 2:3",
        ),
        ("RETURN 1 RETURN 2", Code::QueryParse, "near 'RETURN 2' at position 1:10"),
        ("RETURN 'abc", Code::QueryParse, "unterminated string literal"),
        ("RETURN doc.filter", Code::QueryParse, "unexpected FILTER declaration"),
        ("RETURN 1 +", Code::QueryParse, "position 1:11"),
        ("RETURN 012", Code::QueryParse, "leading zero"),
        ("INSERT {} INTO", Code::QueryParse, "unexpected end"),
        ("RETURN #", Code::QueryParse, "unexpected invalid token near '#'"),
        ("LET x RETURN 1", Code::QueryParse, "unexpected RETURN declaration, expecting assignment"),
        ("RETURN ]", Code::QueryParse, "syntax error, unexpected ] near ']'"),
        ("RETURN 1 == , 2", Code::QueryParse, "unexpected \",\" near ', 2'"),
        ("RETURN DISTINCT 1", Code::QueryParse, "cannot use DISTINCT modifier on top-level"),
        ("FOR a, b IN c RETURN a", Code::QueryParse, "only allow a single return variable"),
        ("FOR {a} IN v SEARCH a RETURN a", Code::QueryParse, "incompatible with destructuring"),
        ("FOR [v] IN ANY 'a/1' e RETURN v", Code::QueryParse, "Traversal does not support array"),
        ("FOR v IN 1..2 ANY SHORTEST_PATH a TO b e RETURN v", Code::QueryParse, "syntax error"),
        ("FOR p, q IN ANY K_PATHS a TO b e RETURN p", Code::QueryParse, "K_PATHS only has one"),
        (
            "FOR p IN ANY K_PATHS a AS b e RETURN p",
            Code::QueryParse,
            "qualifier 'AS', expecting 'TO'",
        ),
        (
            "FOR x IN y WINDOW {} AGGREGATE a = SUM(x) RETURN a",
            Code::QueryParse,
            "At least one WINDOW",
        ),
        (
            "FOR x IN y WINDOW {up: 1} AGGREGATE a = SUM(x) RETURN a",
            Code::QueryParse,
            "attribute 'up'",
        ),
        ("FOR x IN y COLLECT INTO g RETURN g", Code::QueryParse, "syntax error"),
        ("FOR x IN y COLLECT AGGREGATE a = 1 RETURN a", Code::QueryParse, "syntax error"),
        ("UPSERT x INSERT {} UPDATE {} IN c", Code::QueryParse, "unexpected identifier"),
        (
            "INSERT {} INTO c SETTINGS {}",
            Code::QueryParse,
            "qualifier 'SETTINGS', expecting 'OPTIONS'",
        ),
        ("INSERT {} INTO c OPTIONS 1", Code::QueryParse, "'OPTIONS' have to be an object"),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.code, code, "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {}", error.message);
    }
}

#[test]
fn nesting_has_an_end() {
    // The stack of a test thread is too small, so the test runs in a thread with the stack size of
    // query threads.
    let thread = std::thread::Builder::new().stack_size(QUERY_STACK_BYTES).spawn(nested);
    thread.expect("a thread").join().expect("the parser limits the depth of nesting");
}

fn nested() {
    let deep = |n: usize, open: &str, close: &str| {
        format!("RETURN {}1{}", open.repeat(n), close.repeat(n))
    };
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("-", ""),
        ("1 + (", ")"),
        ("{a:", "}"),
        ("1 +", ""),
        ("(return ", ")"),
    ] {
        assert!(parse(&deep(90, open, close)).is_ok(), "{open}");
        let error = parse(&deep(5000, open, close)).expect_err(open);
        assert_eq!(error.code, Code::QueryTooMuchNesting, "{open}");
    }
}

fn name() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![
        Just("a"),
        Just("doc"),
        Just("_b1"),
        Just("filter"),
        Just("odd name"),
        Just("ti`ck"),
        Just("KEEP"),
        Just("At"),
    ]
    .prop_map(Arc::from)
}

fn literal() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u64>().prop_map(Value::from),
        (0.0..1e25f64).prop_map(Value::Double),
        "[a-c\"'\\\\ \n\u{e9}]{0,5}".prop_map(Value::from),
    ]
}

fn binary() -> impl Strategy<Value = Binary> {
    use Binary::*;
    prop::sample::select(vec![
        Or,
        And,
        Equal,
        NotEqual,
        Less,
        LessEqual,
        Greater,
        GreaterEqual,
        In,
        NotIn,
        Like,
        NotLike,
        Match,
        NotMatch,
        Add,
        Subtract,
        Multiply,
        Divide,
        Modulo,
        Range,
    ])
}

fn expression() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        literal().prop_map(Expr::Literal),
        name().prop_map(Expr::Name),
        Just(Expr::Bind(Arc::from("b"))),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (boxed(), name()).prop_map(|(b, n)| Expr::Attribute(b, Key::Name(n))),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Expr::Array),
            prop::collection::vec((name().prop_map(Key::Name), inner.clone()), 0..3)
                .prop_map(Expr::Object),
            boxed().prop_map(|e| Expr::Unary(Unary::Not, e)),
            boxed().prop_map(|e| Expr::Unary(Unary::Minus, e)),
            (binary(), boxed(), boxed()).prop_map(|(o, a, b)| Expr::Binary(o, a, b)),
            (boxed(), boxed()).prop_map(|(a, b)| Expr::Quantified(
                Box::new(Quantifier::Any),
                Binary::Less,
                a,
                b
            )),
            (boxed(), prop::option::of(boxed()), boxed())
                .prop_map(|(c, y, n)| Expr::Ternary(c, y, n)),
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|a| Expr::Call(Arc::from("CONCAT"), a)),
            (boxed(), boxed()).prop_map(|(a, i)| match *i {
                Expr::Literal(Value::String(n)) => Expr::Attribute(a, Key::Name(n)),
                i => Expr::Index(a, Box::new(i)),
            }),
            (inner.clone(), inner.clone()).prop_map(|(c, r)| Expr::Subquery(Box::new(Body {
                with: Vec::new(),
                statements: vec![
                    Statement::For {
                        variable: Arc::from("x"),
                        source: r.clone(),
                        search: None,
                        options: None
                    },
                    Statement::Filter(c),
                    Statement::Return { distinct: false, value: r },
                ],
            }))),
            (inner.clone(), prop::option::of(inner.clone())).prop_map(
                |(base, filter)| Expr::Group(Box::new(Expr::Expansion(Box::new(Expansion {
                    base,
                    stars: 1,
                    filter,
                    limit: None,
                    projection: None,
                    tail: Expr::Element,
                }))))
            ),
        ]
    })
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let leaf = prop_oneof![Just(Pattern::Hole), name().prop_map(Pattern::Name)];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let named = (name(), inner.clone().prop_filter("a place", |p| *p != Pattern::Hole));
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Pattern::Array),
            prop::collection::vec(prop::option::of(named), 0..3).prop_map(Pattern::Object),
        ]
    })
    .prop_filter("something to take apart", |p| matches!(p, Pattern::Array(_) | Pattern::Object(_)))
}

fn path_search() -> impl Strategy<Value = Statement> {
    let kinds = prop::sample::select(vec![
        PathSearch::Traversal,
        PathSearch::Shortest,
        PathSearch::AllShortest,
        PathSearch::KShortest,
        PathSearch::KPaths,
    ]);
    let direction =
        prop::sample::select(vec![Direction::Outbound, Direction::Inbound, Direction::Any]);
    let end = || prop_oneof![name().prop_map(Expr::Name), Just(Expr::Bind(Arc::from("b")))];
    (kinds, direction, name(), end(), end(), name(), any::<bool>()).prop_map(
        |(search, direction, variable, start, target, edges, deep)| {
            let deep = deep && matches!(search, PathSearch::Traversal | PathSearch::KPaths);
            Statement::Traversal(Box::new(Traversal {
                variables: vec![variable],
                search,
                depth: deep.then_some(Expr::Literal(Value::Int(2))),
                direction,
                start,
                target: (search != PathSearch::Traversal).then_some(target),
                graph: None,
                edges: vec![(Some(direction), Source::Name(edges))],
                prune: None,
                options: None,
            }))
        },
    )
}

fn statement() -> impl Strategy<Value = Statement> {
    let small = || prop_oneof![literal().prop_map(Expr::Literal), name().prop_map(Expr::Name)];
    let direction = prop_oneof![
        Just(SortDirection::Ascending),
        Just(SortDirection::Descending),
        Just(SortDirection::Given(Box::new(Expr::Bind(Arc::from("b"))))),
    ];
    let aggregates = || {
        (name(), small())
            .prop_map(|(name, value)| vec![(name, Expr::Call(Arc::from("SUM"), vec![value]))])
    };
    prop_oneof![
        (pattern(), small()).prop_map(|(pattern, value)| Statement::Destructure { pattern, value }),
        prop::collection::vec((small(), direction), 1..3).prop_map(Statement::Sort),
        (prop::option::of(name().prop_map(Expr::Name)), small(), aggregates()).prop_map(
            |(range, bound, aggregates)| {
                let bounds = Expr::Object(vec![(Key::Name(Arc::from("preceding")), bound)]);
                Statement::Window(Box::new(Window { range, bounds, aggregates }))
            }
        ),
        path_search(),
    ]
}

proptest! {
    #[test]
    fn printed_statements_read_back(statements in prop::collection::vec(statement(), 1..4)) {
        let mut body = Body { with: Vec::new(), statements };
        let value = Expr::Literal(Value::Null);
        body.statements.push(Statement::Return { distinct: false, value });
        let text = print(&body);
        let again = parse(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        prop_assert_eq!(again, body, "{}", text);
    }

    #[test]
    fn a_printed_tree_reads_back(value in expression()) {
        let body = Body { with: Vec::new(), statements: vec![Statement::Return { distinct: false, value }] };
        let text = print(&body);
        let again = parse(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        prop_assert_eq!(again, body, "{}", text);
    }

    #[test]
    fn no_text_panics(text in "[ -~]{0,60}") {
        let _ = parse(&text);
    }
}
