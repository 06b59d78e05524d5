//! Lists the features of AQL that a query uses, from its syntax tree.

use std::collections::BTreeSet;

use arango_embedded::syntax::{
    Body, Direction, Expr, Key, Mentions, Quantifier, SortDirection, Statement,
};
use arango_embedded::value::Value;

use crate::tree::{bodies, expressions, options, parts};

/// Returns the AQL features that a query uses.
pub(crate) fn features(body: &Body) -> BTreeSet<String> {
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

/// Adds the features of one statement, and returns its keyword.
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
        Statement::Destructure { .. } => {
            add("destructuring");
            "LET"
        }
        Statement::Sort(keys) => {
            for (_, direction) in keys {
                add(match direction {
                    SortDirection::Ascending => "SORT",
                    SortDirection::Descending => "SORT … DESC",
                    SortDirection::Given(_) => "SORT by a computed direction",
                });
            }
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
            Expr::Literal(Value::String(value)) => add(&format!("{word} OPTIONS {name}: {value}")),
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
        Expr::Call(name, arguments) => {
            add(&format!("{name}()"));
            if let Some(Expr::Object(entries)) = arguments.last()
                && name.starts_with("APPROX_NEAR_")
            {
                entries.iter().for_each(|(key, _)| match key {
                    Key::Name(option) => add(&format!("{name}() with {option}")),
                    Key::Bind(_) | Key::Computed(_) => {
                        add(&format!("{name}() with a bound option"))
                    }
                });
            }
        }
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
fn features_are_told_from_the_tree() {
    let features = |text: &str| features(&arango_embedded::syntax::parse(text).expect("a query"));
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
