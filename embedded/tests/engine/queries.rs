//! Queries: limits, conflicts, cached plans, and optimizer rules that never change a result.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arango_embedded::error::{Code, Result};
use arango_embedded::query::{Answer, Query, QueryOptions, parse_only, prepare};
use arango_embedded::schema::{Collection, CollectionKind, Index, IndexKind};
use arango_embedded::txn::{Declared, Transaction, WriteOptions};
use arango_embedded::value::{Object, Value, parse};
use arango_embedded::{Engine, Options};
use proptest::prelude::*;

mod growing;

const DATABASE: &str = "_system";

struct Session {
    engine: Arc<Engine>,
    _directory: tempfile::TempDir,
}

impl Session {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let options = Options { sync: false, ..Options::default() };
        let engine = Engine::open(directory.path(), options).expect("an empty engine");
        let collection = Collection::new("c", CollectionKind::Document);
        engine.create_collection(DATABASE, collection).expect("a collection");
        Self { engine, _directory: directory }
    }

    fn index(&self, fields: &[&str], sparse: bool) {
        let index = Index {
            id: 0,
            name: String::new(),
            kind: IndexKind::Persistent,
            fields: fields.iter().map(|field| vec![(*field).to_owned()]).collect(),
            unique: false,
            sparse,
            definition: Value::object(Object::new()),
        };
        self.engine.create_index(DATABASE, "c", index).expect("an index");
    }

    fn begin(&self) -> Transaction {
        let database = self.engine.database(DATABASE).expect("a database");
        let own = database.collections.values().filter(|collection| !collection.is_system);
        let write = own.map(|collection| collection.name.clone()).collect();
        let declared = Declared { write, ..Declared::default() };
        self.engine.begin(DATABASE, &declared, false).expect("a transaction")
    }

    fn run(&self, text: &str) -> Result<Answer> {
        self.run_with(text, "{}", QueryOptions::default())
    }

    fn run_with(&self, text: &str, binds: &str, options: QueryOptions) -> Result<Answer> {
        let transaction = self.begin();
        let answer = self.run_in(&transaction, text, binds, options)?;
        transaction.commit(false)?;
        Ok(answer)
    }

    fn run_in(
        &self,
        transaction: &Transaction,
        text: &str,
        binds: &str,
        options: QueryOptions,
    ) -> Result<Answer> {
        let binds = parse(binds.as_bytes())?.as_object().expect("an object").clone();
        let database = self.engine.database(DATABASE)?;
        let query = Query { text: text.to_owned(), binds, options };
        prepare(&database, &query)?.run(&database, transaction)
    }

    fn code(&self, text: &str, options: QueryOptions) -> Code {
        self.run_with(text, "{}", options).expect_err(text).code
    }
}

#[test]
fn a_kept_plan_sees_new_indexes_other_binds_and_dropped_collections() {
    let session = Session::new();
    session
        .run("FOR i IN 1..50 INSERT {_key: CONCAT('k', i), a: i % 5, s: i == 7 ? i : null} INTO c")
        .expect("documents");
    let text = "FOR d IN c FILTER d.a == @a RETURN d._key";
    let scanned = |binds: &str| {
        let answer = session.run_with(text, binds, QueryOptions::default()).expect(text);
        (answer.rows.len(), answer.stats.scanned_full, answer.stats.scanned_index)
    };
    assert_eq!(scanned(r#"{"a": 1}"#), (10, 50, 0));
    assert_eq!(scanned(r#"{"a": 9}"#), (0, 50, 0));
    session.index(&["a"], false);
    assert_eq!(scanned(r#"{"a": 2}"#), (10, 0, 10));
    assert_eq!(scanned(r#"{"a": "x"}"#), (0, 0, 0));

    session.index(&["s"], true);
    let text = "FOR d IN c FILTER d.s == @s RETURN d._key";
    let found = |binds: &str| {
        session.run_with(text, binds, QueryOptions::default()).expect(text).rows.len()
    };
    assert_eq!((found(r#"{"s": 7}"#), found(r#"{"s": null}"#), found(r#"{"s": 7}"#)), (1, 49, 1));

    let missing =
        session.run_with(text, "{}", QueryOptions::default()).expect_err("a missing bind");
    assert_eq!(missing.code, Code::QueryBindParameterMissing);
    let extra = session
        .run_with(text, r#"{"s": 1, "t": 1}"#, QueryOptions::default())
        .expect_err("an extra bind");
    assert_eq!(extra.code, Code::QueryBindParameterUndeclared);
    session.engine.drop_collection(DATABASE, "c").expect("dropped");
    let database = session.engine.database(DATABASE).expect("a database");
    let binds = parse(br#"{"s": 1}"#).expect("JSON").as_object().expect("an object").clone();
    let query = Query { text: text.to_owned(), binds, options: QueryOptions::default() };
    assert_eq!(
        prepare(&database, &query).expect_err("no collection").code,
        Code::DataSourceNotFound
    );
}

/// A breadth-first traversal keeps the whole document of each vertex with pending edges in memory.
/// This memory counts toward the query's memory limit.
#[test]
fn the_vertices_that_a_traversal_holds_count() {
    let session = Session::new();
    let mut edges = Collection::clone(&session.engine.database(DATABASE).unwrap().collections["c"]);
    (edges.name, edges.kind) = ("e".to_owned(), CollectionKind::Edge);
    session.engine.create_collection(DATABASE, edges).unwrap();
    let none = QueryOptions::default;
    for text in [
        r#"INSERT {_key: "root"} INTO c"#,
        r#"INSERT {_key: "leaf"} INTO c"#,
        r#"FOR i IN 1..200 INSERT {_key: CONCAT("m", i), text: REPEAT("t", 10000)} INTO c"#,
        r#"FOR i IN 1..200 INSERT {_from: "c/root", _to: CONCAT("c/m", i)} INTO e"#,
        r#"FOR i IN 1..200 INSERT {_from: CONCAT("c/m", i), _to: "c/leaf"} INTO e"#,
    ] {
        session.run_with(text, "{}", none()).unwrap();
    }
    let limit = || QueryOptions { memory_limit: 1 << 20, ..QueryOptions::default() };
    let walk = |order| {
        format!(
            r#"FOR v IN 2..2 OUTBOUND "c/root" e OPTIONS {{order: "{order}"}} COLLECT WITH COUNT INTO n RETURN n"#
        )
    };
    assert_eq!(session.code(&walk("bfs"), limit()), Code::ResourceLimit);
    let deep = session.run_with(&walk("dfs"), "{}", limit()).unwrap();
    assert_eq!(deep.rows, [Value::Int(200)]);
    let wide = session.run_with(&walk("bfs"), "{}", none()).unwrap();
    assert_eq!(wide.rows, [Value::Int(200)]);
}

#[test]
fn memory_time_warnings_and_kills_end_a_query() {
    let session = Session::new();
    let memory = |bytes| QueryOptions { memory_limit: bytes, ..QueryOptions::default() };
    let sorted = "FOR i IN 1..100000 SORT -i RETURN i";
    assert_eq!(session.code(sorted, memory(1 << 20)), Code::ResourceLimit);
    let first = session
        .run_with("FOR i IN 1..100000 SORT -i LIMIT 1 RETURN i", "{}", memory(1 << 20))
        .expect("a short sort");
    assert_eq!(first.rows, [Value::Int(100_000)]);
    let many = "FOR i IN 1..200 LET l = (FOR j IN 1..1000 RETURN j) RETURN LENGTH(l)";
    assert!(
        session.run_with(many, "{}", memory(1 << 20)).is_ok(),
        "subqueries give back what they held"
    );

    let short = QueryOptions { max_runtime_s: 0.05, ..QueryOptions::default() };
    let endless = "FOR i IN 1..1000000000 FILTER i < 0 RETURN i";
    assert_eq!(session.code(endless, short), Code::QueryKilled);
    let strict = QueryOptions { fail_on_warning: true, ..QueryOptions::default() };
    assert_eq!(session.code("RETURN 1 / 0", strict), Code::QueryDivisionByZero);
    let few = QueryOptions { max_warning_count: Some(2), ..QueryOptions::default() };
    assert_eq!(
        session.run_with("FOR i IN 1..5 RETURN i / 0", "{}", few).expect("warnings").warnings.len(),
        2
    );

    let database = session.engine.database(DATABASE).expect("a database");
    let query = Query { text: endless.to_owned(), ..Query::default() };
    let mut prepared = prepare(&database, &query).expect(endless);
    prepared.kill = Some(Arc::new(AtomicBool::new(true)));
    assert_eq!(
        prepared.run(&database, &session.begin()).expect_err("killed").code,
        Code::QueryKilled
    );
}

#[test]
fn what_would_never_end_or_hold_everything_is_ended() {
    let session = Session::new();
    let mut edges = Collection::clone(&session.engine.database(DATABASE).unwrap().collections["c"]);
    (edges.name, edges.kind) = ("e".to_owned(), CollectionKind::Edge);
    session.engine.create_collection(DATABASE, edges).unwrap();
    for text in [
        "FOR i IN 1..40 INSERT {_key: TO_STRING(i)} INTO c",
        r#"FOR i IN 1..40 FOR j IN 1..40 FILTER i != j INSERT {_from: CONCAT("c/", i), _to: CONCAT("c/", j)} INTO e"#,
    ] {
        session.run(text).unwrap();
    }
    let short = || QueryOptions { max_runtime_s: 0.1, ..QueryOptions::default() };
    let little = || QueryOptions { memory_limit: 1 << 20, ..QueryOptions::default() };
    let mut endless = vec![
        r#"FOR v, x, p IN 1..30 OUTBOUND "c/1" e OPTIONS {order: "weighted"} FILTER p.x RETURN 1"#,
        "FOR a IN 1..1000000 FOR b IN 1..1000000 FOR c IN 1..1000000 FILTER a + b + c < 0 RETURN 1",
        "FOR i IN 1..1000000000000 COLLECT WITH COUNT INTO n RETURN n",
    ];
    let mut large = vec![
        "FOR i IN 1..1000000 COLLECT AGGREGATE n = COUNT() INTO g RETURN LENGTH(g)",
        "FOR i IN 1..1000000 RETURN DISTINCT i",
    ];
    if cfg!(feature = "conformance") {
        endless.extend([
            r#"FOR p IN 1..30 OUTBOUND K_PATHS "c/1" TO "c/2" e FILTER p.x RETURN 1"#,
            r#"FOR p IN OUTBOUND K_SHORTEST_PATHS "c/1" TO "c/2" e FILTER p.x RETURN 1"#,
            "FOR i IN 1..30000 WINDOW {preceding: 15000, following: 15000} AGGREGATE s = SUM(i) RETURN s",
        ]);
        large.extend([
            "FOR i IN 1..1000000 WINDOW {following: 1} AGGREGATE n = COUNT() RETURN n",
            r#"FOR i IN 1..1000 WINDOW {preceding: "unbounded"} AGGREGATE l = PUSH(i) RETURN l"#,
            r#"FOR p IN OUTBOUND K_SHORTEST_PATHS "c/1" TO "c/2" e RETURN p"#,
            r#"FOR p IN OUTBOUND ALL_SHORTEST_PATHS "c/1" TO "c/2" e FOR i IN 1..100000 RETURN p"#,
        ]);
    }
    for text in endless {
        assert_eq!(session.code(text, short()), Code::QueryKilled, "{text}");
    }
    for text in large {
        assert_eq!(session.code(text, little()), Code::ResourceLimit, "{text}");
    }
    assert_eq!(session.code("RETURN LENGTH(1..1000000000000)", short()), Code::ResourceLimit);
    let many = format!("RETURN 1 IN [{}]", vec!["2"; 200_000].join(","));
    assert_eq!(session.run(&many).expect("a long list").rows, [Value::Bool(false)]);
}

#[test]
fn an_error_names_the_nodes_it_went_through() {
    let session = Session::new();
    for (text, expected) in [
        ("REMOVE 'foo' IN c", "AQL: document not found [node #3: RemoveNode] (while executing)"),
        ("FOR x IN {} RETURN x", "[node #3: EnumerateListNode] [node #4: ReturnNode] (while exec"),
        ("FOR x IN [1] RETURN FAIL('a')", "[node #4: CalculationNode] [node #5: ReturnNode] (whi"),
    ] {
        let message = session.run(text).expect_err(text).message;
        assert!(message.contains(expected), "{text}: {message}");
    }
    let little = QueryOptions { memory_limit: 100_000, ..QueryOptions::default() };
    let sorted = session.run_with("FOR i IN 1..100000 SORT i RETURN i", "{}", little);
    assert_eq!(
        sorted.expect_err("too much").message,
        "AQL: query would use more memory than allowed [node #3: EnumerateListNode] [node #4: SortNode] \
         [node #4: SortNode] [node #5: ReturnNode] (while executing)"
    );
}

#[test]
fn two_writers_of_one_document_conflict_and_a_failed_statement_is_undone_alone() {
    let session = Session::new();
    session.run("INSERT {_key: 'k', n: 0} INTO c").expect("a document");
    let (first, second) = (session.begin(), session.begin());
    let update = "UPDATE 'k' WITH {n: @n} IN c RETURN NEW.n";
    session
        .run_in(&first, update, r#"{"n": 1}"#, QueryOptions::default())
        .expect("the first writer");
    let error = session
        .run_in(&second, update, r#"{"n": 2}"#, QueryOptions::default())
        .expect_err("the second");
    assert_eq!((error.code, error.status()), (Code::Conflict, 409));
    second.abort();

    let savepoint = first.savepoint();
    let twice = "FOR k IN ['new', 'k'] INSERT {_key: k} INTO c";
    let error =
        session.run_in(&first, twice, "{}", QueryOptions::default()).expect_err("a duplicate");
    assert_eq!(error.code, Code::UniqueConstraintViolated);
    first.rollback_to(savepoint);
    first.commit(false).expect("a commit");
    let rows = session.run("FOR d IN c SORT d._key RETURN [d._key, d.n]").expect("a read").rows;
    assert_eq!(Value::array(rows).to_json(), r#"[["k",1]]"#);
}

#[test]
fn a_loop_never_sees_what_it_writes() {
    let session = Session::new();
    session.index(&["n"], false);
    session.run("FOR i IN 1..100 INSERT {n: i} INTO c").expect("documents");
    let grown = session
        .run("FOR d IN c FILTER d.n > 0 SORT d.n UPDATE d WITH {n: d.n + 1000} IN c")
        .expect("an update");
    assert_eq!(grown.stats.writes_executed, 100);
    let removed = session
        .run("FOR d IN c FILTER d.n > 1090 LIMIT 3 REMOVE d IN c RETURN OLD.n")
        .expect("a removal");
    assert_eq!((removed.rows.len(), removed.stats.writes_executed), (3, 3));
    let nested = session
        .run("FOR d IN c LET x = (INSERT {n: 0} INTO c RETURN 1) RETURN x[0]")
        .expect("a subquery");
    assert_eq!(nested.rows.len(), 97);
}

#[test]
fn parsing_alone_names_collections_and_binds() {
    let parsed = parse_only(
        "FOR d IN c FILTER d.x == @x AND d.@y LET z = LENGTH(e) INSERT d INTO @@out RETURN NEW",
    )
    .expect("good");
    assert_eq!(parsed.attribute("collections").to_json(), r#"["c","e"]"#);
    assert_eq!(parsed.attribute("bindVars").to_json(), r#"["@out","y","x"]"#);
    assert_eq!(parse_only("FOR").expect_err("bad").code, Code::QueryParse);
}

fn small() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "null", "false", "0", "1", "2", "1.5", "\"a\"", "\"b\"", "[]", "[1]", "{}",
    ])
    .prop_map(str::to_owned)
}

fn condition() -> impl Strategy<Value = String> {
    let operator = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let field = prop::sample::select(vec!["d.a", "d.b", "d.s", "d._key", "d.o.x"]);
    prop_oneof![
        (field.clone(), operator.clone(), small()).prop_map(|(f, o, v)| format!("{f} {o} {v}")),
        (field.clone(), operator, small()).prop_map(|(f, o, v)| format!("{v} {o} {f}")),
        (field.clone(), small(), small()).prop_map(|(f, v, w)| format!("{f} IN [{v}, {w}, {v}]")),
        (field, small(), small()).prop_map(|(f, v, w)| format!("({f} == {v} OR {f} == {w})")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// A query returns the same rows in the same order whether it uses indexes or has the option
    /// `disableIndex`.
    #[test]
    fn rules_never_change_an_answer(
        documents in prop::collection::vec((small(), small(), small()), 1..40),
        queries in prop::collection::vec(
            (prop::collection::vec(condition(), 0..4), any::<(bool, bool)>(), 0..3usize, prop::option::of(1..5usize)),
            1..30,
        ),
    ) {
        let session = Session::new();
        session.index(&["a", "b"], false);
        session.index(&["b"], false);
        session.index(&["s"], true);
        let transaction = session.begin();
        let database = session.engine.database(DATABASE).expect("a database");
        for (at, (a, b, s)) in documents.iter().enumerate() {
            let text = format!(r#"{{"_key":"{at}","a":{a},"b":{b},"s":{s},"o":{{"x":{a}}}}}"#);
            let document = parse(text.as_bytes()).expect("JSON");
            transaction.insert(&database.collections["c"], &document, &WriteOptions::default()).expect("an insert");
        }
        transaction.commit(false).expect("a commit");
        for (conditions, (first, second), sort, limit) in queries {
            let filters: String = conditions.iter().map(|c| format!(" FILTER {c}")).collect();
            let way = |down: bool| if down { " DESC" } else { "" };
            let sort = match sort {
                0 => format!("SORT d.a{}, d.b{}, d._key", way(first), way(second)),
                1 => format!("SORT d.a{0}, d.b{0}", way(first)),
                _ => format!("SORT d._key{}", way(first)),
            };
            let limit = limit.map_or_else(String::new, |n| format!(" LIMIT {n}"));
            // Rows with equal keys may come in any order, so only the sort keys are compared.
            let shown = if sort.contains("_key") { "d._key" } else { "[d.a, d.b]" };
            let ask = |options: &str| {
                let text = format!("FOR d IN c{options}{filters} {sort}{limit} RETURN {shown}");
                session.run(&text).map(|answer| Value::array(answer.rows).to_json())
            };
            let plain = ask(" OPTIONS {disableIndex: true}").expect("a plain answer");
            prop_assert_eq!(ask("").expect("an answer"), &*plain, "{} {}{}", filters, sort, limit);
            // The result is the same, whichever optimizer rules are disabled.
            let text = format!("FOR d IN c{filters} {sort}{limit} RETURN {shown}");
            for rules in [
                &["-all"][..],
                &["-use-indexes"],
                &["-use-index-for-sort", "-move-filters-up"],
                &["-all", "+use-indexes", "no-such-rule"],
            ] {
                let rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
                let options = QueryOptions { rules, ..QueryOptions::default() };
                let answer = session.run_with(&text, "{}", options.clone()).expect("an answer");
                prop_assert_eq!(Value::array(answer.rows).to_json(), &*plain, "{} {:?}", text, options);
            }
        }
    }
}
