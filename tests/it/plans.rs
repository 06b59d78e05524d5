//! Compares the plan of every query, as the database explains it, with `tests/golden/plans`, and
//! checks that each query uses an index.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use arango_embedded::syntax::{Body, Expr, Key, Statement, parse};
use serde_json::{Value, json};
use vctx::store::QUERIES;

use crate::database::Database;
use crate::home::Home;
use crate::tree::{bodies, expressions, parts};

const PLANS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/plans");
/// The beginning of a query's comment that says why it reads a whole collection:
/// `// Scans: NAME, because …`.
const SCANS: &str = "// Scans: ";

/// Functions whose bind parameters are vectors.
const VECTOR_FUNCTIONS: &[&str] =
    &["APPROX_NEAR_COSINE", "APPROX_NEAR_L2", "COSINE_SIMILARITY", "L2_DISTANCE"];
/// Dimension of the vectors of this test.
const DIMENSION: usize = 8;
/// Number of chunks that the vector indexes are trained on.
const CHUNKS: usize = 64;
/// Maximum number of polls of the index states, 50 ms apart.
const LOOKS_MAX: usize = 1_200;

/// Returns the value of a bind parameter whose type cannot be derived from the query text.
fn known(bind: &str) -> Option<Value> {
    Some(match bind {
        "sync" => json!(true),
        "expected_rev" => json!("_aaaaaaa---"),
        "n_probe" => json!(4),
        _ => return None,
    })
}

/// Returns values for all bind parameters of a query: a number in LIMIT and next to `<`, a list in
/// FOR, an object in a write, a vector in a vector function, and otherwise a string.
fn binds(body: &Body) -> Value {
    let mut binds = serde_json::Map::new();
    let mut give = |expr: &Expr, value: &Value| {
        for part in parts(expr) {
            if let Expr::Bind(name) = part {
                let value = known(name).unwrap_or_else(|| value.clone());
                binds.entry(name.to_string()).or_insert(value);
            }
        }
    };
    let levels = bodies(body);
    let statements = || levels.iter().flat_map(|level| &level.statements);
    for statement in statements() {
        match statement {
            Statement::Limit { .. } => {
                expressions(statement).into_iter().for_each(|expr| give(expr, &json!(10)));
            }
            Statement::For { source, .. } => give_list(source, &mut give),
            Statement::Insert { document, .. } => give(document, &json!({"a": 1})),
            Statement::Change { with: Some(patch), .. } => give(patch, &json!({"a": 1})),
            _ => {}
        }
        for part in expressions(statement).into_iter().flat_map(parts) {
            if let Expr::Binary(operator, a, b) = part
                && ["<", "<=", ">", ">="].contains(&operator.to_string().as_str())
            {
                give(a, &json!(1));
                give(b, &json!(1));
            }
            if let Expr::Call(function, arguments) = part
                && VECTOR_FUNCTIONS.contains(&&**function)
            {
                arguments.iter().for_each(|argument| give(argument, &json!(vec![0.5; DIMENSION])));
            }
            if let Expr::Binary(operator, _, list) = part
                && ["IN", "NOT IN"].contains(&operator.to_string().as_str())
                && matches!(&**list, Expr::Bind(_))
            {
                give(list, &json!(["a"]));
            }
        }
    }
    for expr in statements().flat_map(expressions) {
        give(expr, &json!("a"));
    }
    // This bind parameter is the name of an attribute; the queries bind only names of vector
    // attributes.
    for part in statements().flat_map(expressions).flat_map(parts) {
        if let Expr::Attribute(_, Key::Bind(name)) = part {
            binds.insert(name.to_string(), json!("embedding"));
        }
    }
    Value::Object(binds)
}

/// Sets an empty list for a bind parameter over which FOR iterates. The bind parameter may be
/// inside a conditional expression.
fn give_list(source: &Expr, give: &mut dyn FnMut(&Expr, &Value)) {
    match source {
        Expr::Bind(_) => give(source, &json!([])),
        Expr::Group(inner) => give_list(inner, give),
        Expr::Ternary(_, yes, no) => {
            yes.iter().for_each(|yes| give_list(yes, give));
            give_list(no, give);
        }
        _ => {}
    }
}

async fn explained(database: &Database, text: &str, body: &Body) -> Value {
    let request = json!({"query": text, "bindVars": binds(body)});
    let answer = database.call("POST", "/_api/explain", &request).await;
    assert_eq!(answer.status, 200, "{}\n{request:#}", answer.text);
    answer.body["plan"].clone()
}

/// Formats a node of a query plan on one line: its type, collection, index and condition.
fn line(node: &Value) -> String {
    let mut line = node["type"].as_str().expect("a type").to_owned();
    for name in ["collection", "view", "edgeCollections", "directions", "graph"] {
        match &node[name] {
            Value::String(text) => write!(line, " {text}").expect("a text grows"),
            Value::Array(items) => {
                let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                write!(line, " {}", items.join(", ")).expect("a text grows");
            }
            _ => {}
        }
    }
    let indexes: Vec<&Value> = match &node["indexes"] {
        Value::Array(indexes) => indexes.iter().collect(),
        _ => node.get("index").into_iter().collect(),
    };
    for index in indexes {
        let name = index["name"].as_str().unwrap_or("?");
        write!(line, " by {name} {}", index["fields"]).expect("a text grows");
    }
    for (name, lead) in
        [("condition", ""), ("expression", ""), ("elements", ""), ("start", "from "), ("limit", "")]
    {
        match &node[name] {
            Value::Null => {}
            Value::String(text) => {
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                write!(line, " {lead}{text}").expect("a text grows");
            }
            Value::Number(number) => write!(line, " {lead}{number}").expect("a text grows"),
            other => write!(line, " {lead}{}", tree(other)).expect("a text grows"),
        }
    }
    if node["ascending"] == false {
        line.push_str(" backwards");
    }
    line
}

/// Formats a syntax tree briefly: attribute paths and constants as in AQL, other nodes by name.
fn tree(node: &Value) -> String {
    let all = |items: &Value| {
        let items = items.as_array().into_iter().flatten().map(tree);
        items.collect::<Vec<_>>().join(", ")
    };
    let below = &node["subNodes"];
    let name = node["name"].as_str().unwrap_or_default();
    match node["type"].as_str() {
        None if node.is_array() => format!("[{}]", all(node)),
        None if node["inVariable"].is_object() => {
            let down = if node["ascending"] == false { " desc" } else { "" };
            format!("{}{down}", node["inVariable"]["name"].as_str().unwrap_or("?"))
        }
        None => node.to_string(),
        Some("value") => node["value"].to_string(),
        Some("reference") => name.to_owned(),
        Some("attribute access") => format!("{}.{name}", tree(&below[0])),
        Some("array") => format!("[{}]", all(below)),
        Some("object element") => format!("{name}: {}", all(below)),
        Some("function call") => format!("{name}({})", all(&below[0]["subNodes"])),
        Some(kind) if below.as_array().is_some_and(|below| below.len() == 2) => {
            let sign = kind.trim_start_matches("compare ");
            format!("({} {sign} {})", tree(&below[0]), tree(&below[1]))
        }
        Some("n-ary or" | "n-ary and") => all(below),
        Some(kind) => format!("{kind}({})", all(below)),
    }
}

fn printed(plan: &Value) -> String {
    let mut text = String::new();
    let mut depth = 0;
    for node in plan["nodes"].as_array().expect("nodes") {
        let line = line(node);
        // Every plan begins with a singleton, and the indentation shows where a subquery ends.
        if line.starts_with("SubqueryEnd") {
            depth -= 1;
            continue;
        }
        if line == "SingletonNode" && depth == 0 {
            continue;
        }
        writeln!(text, "{}{line}", "  ".repeat(depth)).expect("a text grows");
        depth += usize::from(line.starts_with("SubqueryStart"));
    }
    let rules = plan["rules"].as_array().expect("rules").iter().filter_map(Value::as_str);
    writeln!(text, "rules: {}", rules.collect::<Vec<_>>().join(", ")).expect("a text grows");
    let used = plan["collections"].as_array().expect("collections").iter().map(|used| {
        let name = |name: &str| used[name].as_str().expect("a text");
        format!("{} ({})", name("name"), name("type"))
    });
    let used: Vec<String> = used.collect();
    if !used.is_empty() {
        writeln!(text, "collections: {}", used.join(", ")).expect("a text grows");
    }
    text
}

/// Returns the collections that a query reads as a whole, as its comment says.
fn said_to_be_scanned(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(SCANS));
    let name = |line: &str| {
        let (name, _) = line.split_once(", because ").expect("`// Scans: NAME, because …`");
        name.to_owned()
    };
    lines.map(name).collect()
}

fn scanned(plan: &Value) -> BTreeSet<String> {
    let nodes = plan["nodes"].as_array().expect("nodes").iter();
    // An index node without a condition reads the whole index, unless the index order allows a
    // LIMIT to stop early.
    let whole = |node: &Value| {
        node["type"] == "IndexNode" && node["condition"].as_object().is_some_and(|c| c.is_empty())
    };
    let scans = nodes.filter(|node| node["type"] == "EnumerateCollectionNode" || whole(node));
    scans.map(|node| node["collection"].as_str().expect("a name").to_owned()).collect()
}

/// Adds chunks on which the vector indexes are trained, because the database does not explain a
/// query on an untrained index (error 1555).
async fn train(database: &Database) {
    let vector = |index: usize| -> Vec<usize> {
        (0..DIMENSION).map(|at| (index >> (at % 4) & 1) + 1).collect()
    };
    let chunk = |index: usize| {
        let embedding = vector(index);
        json!({"agent_id": "a", "doc_id": "a", "chunk_id": index.to_string(), "index": index, "text": "t", "embedding": embedding,
            "dimension": DIMENSION, "metric": "cosine", "embedding_version": "1", "model_id": "m", "provenance": {"owner": "a"},
            "chunk_links": {"previous": null, "next": null}, "freshness_ts": "t", "token_estimate": 1, "revision": "r"})
    };
    let passage = |index: usize| {
        json!({"agent_id": "a", "id": "e", "seq": index + 1, "passage": 0, "start": 0, "end": 1,
            "embedding": vector(index), "fingerprint": "f"})
    };
    let chunks: Value = (0..CHUNKS).map(chunk).collect();
    let passages: Value = (0..CHUNKS).map(passage).collect();
    for (collection, documents) in [("archival_docs", chunks), ("recall_vectors", passages)] {
        let path = format!("/_api/document/{collection}");
        let stored = database.call("POST", &path, &documents).await;
        assert!(stored.status < 300 && !stored.text.contains("errorNum"), "{}", stored.text);
        ready(database, collection).await;
    }
}

/// Waits until the vector indexes of a collection are trained.
async fn ready(database: &Database, collection: &str) {
    for look in 0.. {
        assert!(look < LOOKS_MAX, "the indexes of {collection} are never ready");
        let path = format!("/_api/index?collection={collection}");
        let indexes = database.call("GET", &path, &Value::Null).await.ok();
        let waits = |index: &Value| index["type"] == "vector" && index["trainingState"] != "ready";
        if !indexes["indexes"].as_array().expect("indexes").iter().any(waits) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_runs_by_an_index_as_its_golden_file_says() {
    let home = Home::new();
    let _serve = home.serve().await;
    let database = home.database_inside();
    // A server creates a vector index only when there are vectors for training, and for the archive
    // only with the metric of the first ingest. The test therefore creates the vector indexes of
    // all metrics itself.
    for (collection, metric) in
        [("archival_docs", "cosine"), ("archival_docs", "l2"), ("recall_vectors", "cosine")]
    {
        let index = json!({"type": "vector", "name": format!("passages_by_{metric}"), "fields": ["embedding"], "sparse": true,
            "params": {"metric": metric, "dimension": DIMENSION, "nLists": 4}});
        let path = format!("/_api/index?collection={collection}");
        let made = database.call("POST", &path, &index).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    train(&database).await;
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    std::fs::create_dir_all(PLANS).expect("the folder of the golden files");
    let mut wrong = Vec::new();
    for query in QUERIES.iter() {
        let body = parse(query.text).unwrap_or_else(|e| panic!("{}: {e:?}", query.name));
        let plan = explained(&database, query.text, &body).await;
        let (is, said) = (scanned(&plan), said_to_be_scanned(query.text));
        if is != said {
            wrong.push(format!("aql/{}.aql scans {is:?}, its comment says {said:?}", query.name));
        }
        let (path, text) = (format!("{PLANS}/{}.txt", query.name), printed(&plan));
        if update {
            std::fs::write(&path, &text).expect("a golden file");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        if golden != text {
            wrong.push(format!("tests/golden/plans/{}.txt:\n{text}", query.name));
        }
    }
    for entry in std::fs::read_dir(PLANS).expect("the golden files") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        if !QUERIES.iter().any(|query| format!("{}.txt", query.name) == name) {
            wrong.push(format!("tests/golden/plans/{name} belongs to no query"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn binds_are_told_from_their_places() {
    let text = "FOR r IN @rows FILTER r.a > @low FOR c IN c FILTER c.k IN @keys AND c.s == @scope
        LIMIT @first, @limit UPDATE r WITH @patch IN c OPTIONS {waitForSync: @sync}";
    let given = binds(&parse(text).expect("a query"));
    let expected = json!({"rows": [], "low": 1, "keys": ["a"], "scope": "a", "first": 10, "limit": 10,
        "patch": {"a": 1}, "sync": true});
    assert_eq!(given, expected);
}
