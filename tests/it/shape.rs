//! What a request to the database is made of: its shape without names and values, and the features of AQL that its query uses.

use std::collections::BTreeSet;

use arango_embedded::syntax::{Body, Direction, Expr, Key, Mentions, Quantifier, Statement, parse};
use arango_embedded::value::Value as Constant;
use serde_json::Value;

use crate::proxy::Exchange;
use crate::tree::{bodies, expressions, options, parts};

/// Words of a path below `/_api/NOUN`; anything else there is a name.
const WORDS: &[&str] =
    &["begin", "properties", "count", "database", "current", "user", "vertex", "edge", "write"];
/// Parts of a body whose attributes are names of ours.
const NAMED: &[&str] = &["links", "fields"];
/// Parts of a body that are looked into nowhere.
const CLOSED: &[&str] = &["bindVars", "rule"];
/// Levels of a body that belong to its shape.
const DEPTH_MAX: usize = 6;

/// The lines that one request adds to the list of what is sent: `HTTP …` and `AQL …`.
pub(crate) fn lines_of(exchange: &Exchange) -> BTreeSet<String> {
    let mut lines = BTreeSet::from([format!("HTTP {}", request(exchange))]);
    lines.extend(exchange.headers.iter().map(|header| format!("HTTP header {header}")));
    if let Some(text) = exchange.request["query"].as_str() {
        let body = parse(text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        lines.extend(features(&body).into_iter().map(|feature| format!("AQL {feature}")));
    }
    lines
}

/// `POST /_db/{}/_api/index?collection={} {fields, name, type=ttl}`
fn request(exchange: &Exchange) -> String {
    let (path, query) = exchange.path.split_once('?').unwrap_or((&exchange.path, ""));
    let mut shape = format!("{} {}", exchange.method, path_shape(path));
    let mut pairs: Vec<String> =
        query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
    pairs.sort();
    if !pairs.is_empty() {
        shape.push_str(&format!("?{}", pairs.join("&")));
    }
    let mut attributes = BTreeSet::new();
    attributes_of(&exchange.request, "", 0, &mut attributes);
    if !attributes.is_empty() {
        let attributes: Vec<String> = attributes.into_iter().collect();
        shape.push_str(&format!(" {{{}}}", attributes.join(", ")));
    }
    if exchange.transaction.is_some() {
        shape.push_str(" in a stream transaction");
    }
    shape
}

fn path_shape(path: &str) -> String {
    let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let noun = segments.iter().position(|s| ["_api", "_admin", "_open"].contains(s));
    let shown = segments.iter().enumerate().map(|(at, segment)| match noun {
        Some(noun) if at > noun + 1 && segments[noun] == "_api" && !WORDS.contains(segment) => "{}",
        Some(noun) if at < noun && at == 1 => "{}",
        _ => segment,
    });
    format!("/{}", shown.collect::<Vec<_>>().join("/"))
}

fn pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, value @ ("true" | "false"))) => format!("{name}={value}"),
        Some((name, _)) => format!("{name}={{}}"),
        None => pair.to_owned(),
    }
}

/// Attributes by their path; `type` with its value, since it decides what the others mean.
fn attributes_of(body: &Value, path: &str, depth: usize, found: &mut BTreeSet<String>) {
    let Value::Object(attributes) = body else { return };
    let parent = path.trim_end_matches(['.', ']', '[']).rsplit('.').next().unwrap_or_default();
    for (name, value) in attributes {
        let name = if NAMED.contains(&parent) { "{}" } else { name };
        let here = format!("{path}{name}");
        let inner = match value {
            Value::Array(items) => items.iter().filter(|item| item.is_object()).collect(),
            Value::Object(_) => vec![value],
            _ => Vec::new(),
        };
        if inner.is_empty() || CLOSED.contains(&name) || depth == DEPTH_MAX {
            found.insert(match value {
                Value::String(kind) if name == "type" => format!("{here}={kind}"),
                Value::Number(kind) if name == "type" => format!("{here}={kind}"),
                _ => here,
            });
            continue;
        }
        let lead = if value.is_array() { format!("{here}[].") } else { format!("{here}.") };
        inner.into_iter().for_each(|item| attributes_of(item, &lead, depth + 1, found));
    }
}

/// What a query uses of AQL.
fn features(body: &Body) -> BTreeSet<String> {
    let mut mentions = Mentions::default();
    mentions.read(body);
    let mut found = BTreeSet::new();
    let mut add = |feature: &str| {
        found.insert(feature.to_owned());
    };
    if !body.with.is_empty() {
        add("WITH");
    }
    let levels = bodies(body);
    let mut written = Vec::new();
    for (depth, level) in levels.iter().enumerate() {
        for statement in &level.statements {
            let word = statement_features(statement, &mentions, &mut add);
            if let Some(options) = options(statement) {
                options_features(word, options, &mut add);
            }
            if let Some(collection) = writes(statement) {
                if depth > 0 {
                    add("a modification in a subquery");
                }
                written.push(collection);
            }
            for expr in expressions(statement) {
                let inside = options(statement).is_some_and(|options| std::ptr::eq(options, expr));
                for part in parts(expr).into_iter().filter(|_| !inside) {
                    expression_features(part, &mut add);
                }
            }
        }
    }
    if written.len() > 1 {
        add("several modifications in one query");
    }
    found
}

fn writes(statement: &Statement) -> Option<String> {
    match statement {
        Statement::Insert { into, .. } | Statement::Change { into, .. } => Some(into.to_string()),
        Statement::Remove { from, .. } => Some(from.to_string()),
        Statement::Upsert(upsert) => Some(upsert.into.to_string()),
        _ => None,
    }
}

/// Adds what the statement itself is, and answers its word.
fn statement_features(
    statement: &Statement,
    mentions: &Mentions,
    add: &mut dyn FnMut(&str),
) -> &'static str {
    match statement {
        Statement::For { source, search, .. } => {
            let named = match source {
                Expr::Name(name) => mentions.collections.contains(&**name),
                Expr::CollectionBind(_) => true,
                _ => false,
            };
            add(match (named, search.is_some()) {
                (_, true) => "FOR … IN view SEARCH",
                (true, false) => "FOR … IN collection",
                (false, false) => "FOR … IN list",
            });
            "FOR"
        }
        Statement::Traversal(t) => {
            add("FOR … IN min..max (traversal)");
            let own = t.edges.iter().filter_map(|(direction, _)| *direction);
            for direction in own.chain([t.direction]) {
                add(match direction {
                    Direction::Outbound => "OUTBOUND",
                    Direction::Inbound => "INBOUND",
                    Direction::Any => "ANY (direction)",
                });
            }
            add(if t.graph.is_some() { "GRAPH" } else { "edge collections of a traversal" });
            if t.prune.is_some() {
                add("PRUNE");
            }
            "traversal"
        }
        Statement::Filter(_) => {
            add("FILTER");
            "FILTER"
        }
        Statement::Let { .. } => {
            add("LET");
            "LET"
        }
        Statement::Sort(keys) => {
            add(if keys.iter().any(|(_, descending)| *descending) {
                "SORT … DESC"
            } else {
                "SORT"
            });
            if keys.len() > 1 {
                add("SORT by several keys");
            }
            "SORT"
        }
        Statement::Limit { offset, count } => {
            add(if offset.is_some() { "LIMIT offset, count" } else { "LIMIT" });
            if [offset.as_ref(), Some(count)]
                .into_iter()
                .flatten()
                .any(|e| matches!(e, Expr::Bind(_)))
            {
                add("LIMIT by a bind parameter");
            }
            "LIMIT"
        }
        Statement::Collect(c) => {
            add("COLLECT");
            for (there, what) in [
                (!c.aggregates.is_empty(), "COLLECT AGGREGATE"),
                (c.into.is_some(), "COLLECT INTO"),
                (c.count.is_some(), "COLLECT WITH COUNT INTO"),
            ] {
                if there {
                    add(what);
                }
            }
            "COLLECT"
        }
        Statement::Window(_) => {
            add("WINDOW");
            "WINDOW"
        }
        Statement::Return { distinct, .. } => {
            add(if *distinct { "RETURN DISTINCT" } else { "RETURN" });
            "RETURN"
        }
        Statement::Insert { .. } => {
            add("INSERT … INTO");
            "INSERT"
        }
        Statement::Change { replace, with, .. } => {
            add(match (replace, with.is_some()) {
                (false, true) => "UPDATE … WITH … IN",
                (false, false) => "UPDATE … IN",
                (true, true) => "REPLACE … WITH … IN",
                (true, false) => "REPLACE … IN",
            });
            if *replace { "REPLACE" } else { "UPDATE" }
        }
        Statement::Remove { .. } => {
            add("REMOVE … IN");
            "REMOVE"
        }
        Statement::Upsert(u) => {
            add(if u.filter { "UPSERT FILTER" } else { "UPSERT" });
            add(if u.replace { "UPSERT … REPLACE" } else { "UPSERT … UPDATE" });
            "UPSERT"
        }
    }
}

fn options_features(word: &str, options: &Expr, add: &mut dyn FnMut(&str)) {
    let Expr::Object(entries) = options else {
        return add(&format!("{word} OPTIONS by a bind parameter"));
    };
    for (key, value) in entries {
        let Key::Name(name) = key else { continue };
        match value {
            Expr::Literal(Constant::String(value)) => {
                add(&format!("{word} OPTIONS {name}: {value}"))
            }
            _ => add(&format!("{word} OPTIONS {name}")),
        }
        if matches!(value, Expr::Bind(_)) {
            add("OPTIONS with a bind parameter");
        }
    }
}

fn expression_features(expr: &Expr, add: &mut dyn FnMut(&str)) {
    match expr {
        Expr::Literal(_) | Expr::Element | Expr::Group(_) => {}
        Expr::Name(name) if ["OLD", "NEW", "CURRENT"].contains(&&**name) => add(name),
        Expr::Name(_) => {}
        Expr::Bind(_) => add("@bind"),
        Expr::CollectionBind(_) => add("@@collection"),
        Expr::Attribute(_, Key::Name(_)) => add("a.b"),
        Expr::Attribute(..) => add("a.@bind"),
        Expr::Index(..) => add("a[n]"),
        Expr::Array(_) => add("[a, b]"),
        Expr::Object(entries) => {
            add("{a: b}");
            if entries.iter().any(|(key, _)| !matches!(key, Key::Name(_))) {
                add("{[a]: b}");
            }
        }
        Expr::Unary(operator, _) => add(&format!("operator {operator:?}").to_lowercase()),
        Expr::Binary(operator, ..) => add(&format!("operator {operator}")),
        Expr::Quantified(quantifier, operator, ..) => {
            let quantifier = match **quantifier {
                Quantifier::All => "ALL",
                Quantifier::Any => "ANY",
                Quantifier::None => "NONE",
                Quantifier::AtLeast(_) => "AT LEAST",
                Quantifier::Exactly(_) => "exactly",
            };
            add(&format!("operator {quantifier} {operator}"));
        }
        Expr::Ternary(_, yes, _) => add(if yes.is_some() { "a ? b : c" } else { "a ?: c" }),
        Expr::Call(name, _) => add(&format!("{name}()")),
        Expr::Expansion(e) => {
            add("a[*]");
            for (there, what) in [
                (e.filter.is_some(), "a[* FILTER]"),
                (e.limit.is_some(), "a[* LIMIT]"),
                (e.projection.is_some(), "a[* RETURN]"),
            ] {
                if there {
                    add(what);
                }
            }
        }
        Expr::Question(..) => add("a[? …]"),
        Expr::Subquery(_) => add("(subquery)"),
    }
}

#[test]
fn names_and_values_do_not_belong_to_a_shape() {
    let exchange = |method: &str, path: &str, body: &str| Exchange {
        method: method.into(),
        path: path.into(),
        headers: BTreeSet::new(),
        transaction: None,
        request: serde_json::from_str(body).unwrap_or(Value::Null),
        status: None,
        reply: Value::Null,
    };
    for (method, path, body, shape) in [
        ("GET", "/_db/vctx/_api/version?details=true", "", "GET /_db/{}/_api/version?details=true"),
        ("PUT", "/_db/vctx/_api/transaction/123", "", "PUT /_db/{}/_api/transaction/{}"),
        (
            "POST",
            "/_db/vctx/_api/transaction/begin",
            "{\"waitForSync\": true}",
            "POST /_db/{}/_api/transaction/begin {waitForSync}",
        ),
        (
            "PUT",
            "/_db/_system/_api/user/u/database/vctx/*",
            "{\"grant\": \"rw\"}",
            "PUT /_db/{}/_api/user/{}/database/{}/{} {grant}",
        ),
        (
            "POST",
            "/_db/vctx/_api/index?collection=c",
            r#"{"type": "ttl", "fields": ["a"], "params": {"x": 1}}"#,
            "POST /_db/{}/_api/index?collection={} {fields, params.x, type=ttl}",
        ),
        (
            "POST",
            "/_api/view",
            r#"{"links": {"c": {"fields": {"t": {"analyzers": ["a"]}}}}}"#,
            "POST /_api/view {links.{}.fields.{}.analyzers}",
        ),
        (
            "POST",
            "/_api/gharial",
            r#"{"edgeDefinitions": [{"from": ["a"]}]}"#,
            "POST /_api/gharial {edgeDefinitions[].from}",
        ),
        (
            "POST",
            "/_api/cursor",
            r#"{"bindVars": {"a": {"b": 1}}, "query": "RETURN @a"}"#,
            "POST /_api/cursor {bindVars, query}",
        ),
    ] {
        assert_eq!(request(&exchange(method, path, body)), shape);
    }
}

#[test]
fn features_are_told_from_the_tree() {
    let features = |text: &str| features(&parse(text).expect("a query"));
    let found = features(
        "FOR c IN c FILTER c.a == @a LET x = (FOR y IN @l INSERT y INTO d OPTIONS {overwriteMode: 'ignore', waitForSync: @s})
         SORT c.b DESC LIMIT @n UPDATE c WITH {z: FIRST(x)[0]} IN c RETURN NEW._rev",
    );
    let expected = [
        "(subquery)",
        "@bind",
        "FILTER",
        "FIRST()",
        "FOR … IN collection",
        "FOR … IN list",
        "INSERT OPTIONS overwriteMode: ignore",
        "INSERT OPTIONS waitForSync",
        "INSERT … INTO",
        "LET",
        "LIMIT",
        "LIMIT by a bind parameter",
        "NEW",
        "OPTIONS with a bind parameter",
        "RETURN",
        "SORT … DESC",
        "UPDATE … WITH … IN",
        "a modification in a subquery",
        "a.b",
        "a[n]",
        "operator ==",
        "several modifications in one query",
        "{a: b}",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
}
