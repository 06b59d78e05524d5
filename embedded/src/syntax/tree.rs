//! Converts a syntax tree to the form of `/_api/query`, with ArangoDB's node names, and with each
//! subquery as a `LET` before its use.

use super::ast::{
    Binary, Body, Collect, Direction, Expansion, Expr, Key, Name, PathSearch, Pattern, Quantifier,
    SortDirection, Source, Statement, Traversal, Unary, Upsert,
};
use crate::value::{Object, Value};

/// Returns `ast` of `/_api/query`.
pub fn tree(body: &Body) -> Value {
    let mut builder = Builder { scope: Vec::new(), next: 0, out: Vec::new() };
    Value::array(vec![builder.body("root", body)])
}

/// A name in scope, the id of the variable that it names, and the printed name of this variable.
type ScopedName = (Name, u64, Name);

/// Builds ArangoDB's syntax tree, and resolves names to the variables in scope.
struct Builder {
    scope: Vec<ScopedName>,
    next: u64,
    /// The converted statements of the current query or subquery.
    out: Vec<Value>,
}

fn node(kind: &str, below: Vec<Value>) -> Value {
    with(kind, [], below)
}

/// Returns a tree node with attributes and children; a node without children has no `subNodes`.
fn with<const N: usize>(kind: &str, more: [(&str, Value); N], below: Vec<Value>) -> Value {
    let mut out = Object::with_capacity(N + 2);
    out.push_new("type", kind.into());
    for (name, value) in more {
        out.push_new(name, value);
    }
    if !below.is_empty() {
        out.push_new("subNodes", Value::array(below));
    }
    Value::object(out)
}

fn nothing() -> Value {
    node("no-op", Vec::new())
}

fn constant(value: impl Into<Value>) -> Value {
    with("value", [("value", value.into())], Vec::new())
}

fn named(kind: &str, name: &str) -> Value {
    with(kind, [("name", name.into())], Vec::new())
}

fn source(source: &Source) -> Value {
    match source {
        Source::Name(name) => named("collection", name),
        Source::Bind(name) => named("datasource parameter", &format!("@{name}")),
        Source::ValueBind(name) => named("datasource parameter", name),
    }
}

/// Returns ArangoDB's number for a direction: 0 = any, 1 = inbound, 2 = outbound.
fn direction(direction: Direction) -> Value {
    constant(match direction {
        Direction::Any => 0_i64,
        Direction::Inbound => 1,
        Direction::Outbound => 2,
    })
}

impl Builder {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Returns a new variable name that is not in the query text.
    fn made_name(&mut self) -> Name {
        Name::from(self.number().to_string())
    }

    fn variable(&mut self, name: &Name) -> Value {
        let id = self.number();
        self.scope.push((name.clone(), id, name.clone()));
        with("variable", [("name", (&**name).into()), ("id", id.into())], Vec::new())
    }

    fn reference(&self, name: &str, id: u64, subquery: bool) -> Value {
        let more =
            [("name", name.into()), ("id", id.into()), ("subqueryReference", subquery.into())];
        with("reference", more, Vec::new())
    }

    fn body(&mut self, kind: &str, body: &Body) -> Value {
        let seen = self.scope.len();
        let outer = std::mem::take(&mut self.out);
        if !body.with.is_empty() {
            let sources = body.with.iter().map(source).collect();
            self.out.push(node("with", sources));
        }
        for statement in &body.statements {
            self.statement(statement);
        }
        self.scope.truncate(seen);
        node(kind, std::mem::replace(&mut self.out, outer))
    }

    fn push(&mut self, kind: &str, below: Vec<Value>) {
        self.out.push(node(kind, below));
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::For { variable, source, search, options } => {
                let from = self.expression(source);
                let mut below = vec![self.variable(variable), from];
                below.extend(search.as_ref().map(|search| self.expression(search)));
                below.push(self.or_nothing(options));
                self.push(if search.is_some() { "for view" } else { "for" }, below);
            }
            Statement::Traversal(traversal) => self.traversal(traversal),
            Statement::Filter(condition) => {
                let below = vec![self.expression(condition)];
                self.push("filter", below);
            }
            Statement::Let { name, value } => {
                let value = self.expression(value);
                let variable = self.variable(name);
                self.push("let", vec![variable, value]);
            }
            Statement::Destructure { pattern, value } => {
                let value = self.expression(value);
                self.destructure(pattern, value);
            }
            Statement::Sort(keys) => {
                let mut elements = Vec::new();
                for (key, direction) in keys {
                    let direction = match direction {
                        SortDirection::Ascending => constant(true),
                        SortDirection::Descending => constant(false),
                        SortDirection::Given(value) => self.expression(value),
                    };
                    elements.push(node("sort element", vec![self.expression(key), direction]));
                }
                self.push("sort", vec![node("array", elements)]);
            }
            Statement::Limit { offset, count } => {
                let offset = match offset {
                    Some(offset) => self.expression(offset),
                    None => constant(0_i64),
                };
                let below = vec![offset, self.expression(count)];
                self.push("limit", below);
            }
            Statement::Collect(collect) => self.collect(collect),
            Statement::Window(window) => {
                let mut below = vec![self.expression(&window.bounds)];
                below.push(self.or_nothing(&window.range));
                let aggregates = self.assignments(&window.aggregates);
                below.push(node("array", aggregates));
                self.push("window", below);
            }
            Statement::Return { distinct, value } => {
                let value = self.expression(value);
                let value = if *distinct { node("distinct", vec![value]) } else { value };
                self.push("return", vec![value]);
            }
            Statement::Insert { document, into, options } => {
                let document = self.expression(document);
                let mut below = vec![source(into), self.or_nothing(options), document];
                below.push(self.variable(&Name::from("$NEW")));
                self.push("insert", below);
            }
            Statement::Change { replace, key, with, into, options } => {
                let key = self.expression(key);
                let mut below = vec![source(into), self.or_nothing(options)];
                match with {
                    Some(patch) => below.extend([self.expression(patch), key]),
                    None => below.extend([key, nothing()]),
                }
                below.push(self.variable(&Name::from("$OLD")));
                below.push(self.variable(&Name::from("$NEW")));
                self.push(if *replace { "replace" } else { "update" }, below);
            }
            Statement::Remove { key, from, options } => {
                let key = self.expression(key);
                let mut below = vec![source(from), self.or_nothing(options), key];
                below.push(self.variable(&Name::from("$OLD")));
                self.push("remove", below);
            }
            Statement::Upsert(upsert) => self.upsert(upsert),
        }
    }

    fn traversal(&mut self, t: &Traversal) {
        let depth = match &t.depth {
            Some(depth) => self.expression(depth),
            None => constant(1_i64),
        };
        let mut below = vec![node("direction", vec![direction(t.direction), depth])];
        below.push(self.expression(&t.start));
        below.extend(t.target.as_ref().map(|target| self.expression(target)));
        below.push(match &t.graph {
            Some(graph) => self.expression(graph),
            None => {
                let edges = t.edges.iter().map(|(own, edges)| match own {
                    Some(own) => node("direction", vec![direction(*own), source(edges)]),
                    None => source(edges),
                });
                node("collection list", edges.collect())
            }
        });
        let variables: Vec<Value> = t.variables.iter().map(|name| self.variable(name)).collect();
        if t.search == PathSearch::Traversal {
            below.push(match &t.prune {
                Some((_, condition)) => self.expression(condition),
                None => nothing(),
            });
        }
        below.push(self.or_nothing(&t.options));
        below.extend(variables);
        self.push(
            match t.search {
                PathSearch::Traversal => "traversal",
                PathSearch::Shortest => "shortest path",
                _ => "enumerate paths",
            },
            below,
        );
        if let Some((Some(name), condition)) = &t.prune {
            let value = self.expression(condition);
            let variable = self.variable(name);
            self.push("let", vec![variable, value]);
        }
    }

    fn collect(&mut self, collect: &Collect) {
        let options = self.or_nothing(&collect.options);
        let keys = self.assignments(&collect.keys);
        let aggregates = match &collect.count {
            Some(count) => {
                let call = Expr::Call(Name::from("COUNT"), Vec::new());
                self.assignments(&[(count.clone(), call)])
            }
            None => self.assignments(&collect.aggregates),
        };
        let aggregates = node("aggregations", vec![node("array", aggregates)]);
        let (mut into, mut value) = (nothing(), nothing());
        if let Some((name, given)) = &collect.into {
            value = self.or_nothing(given);
            into = self.variable(name);
        }
        let keep = match collect.keep.as_slice() {
            [] => nothing(),
            kept => {
                let kept = kept.iter().map(|name| self.name(name)).collect();
                node("array", kept)
            }
        };
        self.push("collect", vec![options, node("array", keys), aggregates, into, value, keep]);
    }

    /// Converts an `UPSERT`; the lookup becomes a subquery before the `UPSERT`.
    fn upsert(&mut self, upsert: &Upsert) {
        let old = self.variable(&Name::from("$OLD"));
        let found = Name::from(if upsert.filter { "CURRENT" } else { "" });
        let outer = std::mem::take(&mut self.out);
        let seen = self.scope.len();
        let found = if found.is_empty() { self.made_name() } else { found };
        let variable = self.variable(&found);
        self.push("for", vec![variable, source(&upsert.into), nothing()]);
        let search = self.expression(&upsert.search);
        let condition =
            if upsert.filter { search } else { node("example", vec![self.name(&found), search]) };
        self.push("filter", vec![condition]);
        self.push("limit", vec![constant(0_i64), constant(1_i64)]);
        let below = vec![self.name(&found)];
        self.push("return", below);
        self.scope.truncate(seen);
        let lookup = node("subquery", std::mem::replace(&mut self.out, outer));
        let name = self.made_name();
        let variable = self.variable(&name);
        self.push("let", vec![variable, lookup]);
        let first = node("indexed access", vec![self.name(&name), constant(0_i64)]);
        self.push("let", vec![old, first]);
        let mut below = vec![source(&upsert.into), self.or_nothing(&upsert.options)];
        below.push(self.name("$OLD"));
        below.push(self.expression(&upsert.insert));
        below.push(self.expression(&upsert.update));
        below.push(self.name("$OLD"));
        below.push(self.variable(&Name::from("$NEW")));
        self.push("upsert", below);
    }

    fn destructure(&mut self, pattern: &Pattern, value: Value) {
        match pattern {
            Pattern::Hole => {}
            Pattern::Name(name) => {
                let variable = self.variable(name);
                self.push("let", vec![variable, value]);
            }
            Pattern::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    let index = constant(at as u64);
                    self.destructure(item, node("indexed access", vec![value.clone(), index]));
                }
            }
            Pattern::Object(items) => {
                for (name, item) in items.iter().flatten() {
                    let more = [("name", (&**name).into())];
                    self.destructure(item, with("attribute access", more, vec![value.clone()]));
                }
            }
        }
    }

    fn assignments(&mut self, items: &[(Name, Expr)]) -> Vec<Value> {
        let values: Vec<Value> = items.iter().map(|(_, value)| self.expression(value)).collect();
        items
            .iter()
            .zip(values)
            .map(|((name, _), value)| node("assign", vec![self.variable(name), value]))
            .collect()
    }

    fn or_nothing(&mut self, expr: &Option<Expr>) -> Value {
        match expr {
            Some(expr) => self.expression(expr),
            None => nothing(),
        }
    }

    fn name(&self, name: &str) -> Value {
        let special = match name {
            "OLD" => "$OLD",
            "NEW" => "$NEW",
            other => other,
        };
        match self.scope.iter().rev().find(|(known, ..)| **known == *special) {
            Some((_, id, name)) => self.reference(name, *id, false),
            None => named("collection", name),
        }
    }

    fn expressions(&mut self, items: &[Expr]) -> Vec<Value> {
        items.iter().map(|item| self.expression(item)).collect()
    }

    fn call(&mut self, name: &str, arguments: &[&Expr]) -> Value {
        let arguments = arguments.iter().map(|argument| self.expression(argument)).collect();
        let kind = if name.contains("::") { "user function call" } else { "function call" };
        with(kind, [("name", name.into())], vec![node("array", arguments)])
    }

    fn expression(&mut self, expr: &Expr) -> Value {
        match expr {
            Expr::Literal(Value::Double(number)) if number.is_infinite() => constant(Value::Null),
            Expr::Literal(value) => constant(value.clone()),
            Expr::Name(name) => self.name(name),
            Expr::Bind(name) => named("parameter", name),
            Expr::CollectionBind(name) => named("datasource parameter", &format!("@{name}")),
            Expr::Element => self.name(ITEM),
            Expr::Attribute(base, key) => {
                let base = self.expression(base);
                match key {
                    Key::Name(name) => {
                        with("attribute access", [("name", (&**name).into())], vec![base])
                    }
                    Key::Bind(name) => {
                        node("bound attribute access", vec![base, named("parameter", name)])
                    }
                    Key::Computed(name) => {
                        node("indexed access", vec![base, self.expression(name)])
                    }
                }
            }
            Expr::Index(base, index) => {
                node("indexed access", vec![self.expression(base), self.expression(index)])
            }
            Expr::Array(items) => node("array", self.expressions(items)),
            Expr::Object(entries) => {
                let mut elements = Vec::new();
                for (key, value) in entries {
                    let value = self.expression(value);
                    elements.push(match key {
                        Key::Name(name) => {
                            with("object element", [("name", (&**name).into())], vec![value])
                        }
                        Key::Bind(name) => {
                            let name = named("parameter", name);
                            node("calculated object element", vec![name, value])
                        }
                        Key::Computed(name) => {
                            node("calculated object element", vec![self.expression(name), value])
                        }
                    });
                }
                node("object", elements)
            }
            Expr::Unary(operator, value) => self.unary(*operator, value),
            Expr::Binary(operator, a, b) => self.binary(*operator, a, b),
            Expr::Quantified(quantifier, operator, a, b) => {
                let kind = format!("array {}", word(*operator));
                let below =
                    vec![self.expression(a), self.expression(b), self.quantifier(quantifier)];
                if matches!(operator, Binary::In | Binary::NotIn) {
                    return with(&kind, [("sorted", false.into())], below);
                }
                node(&kind, below)
            }
            Expr::Ternary(condition, yes, no) => {
                let mut below = vec![self.expression(condition)];
                below.extend(yes.as_ref().map(|yes| self.expression(yes)));
                below.push(self.expression(no));
                node("ternary", below)
            }
            Expr::Call(name, arguments) => self.call(name, &arguments.iter().collect::<Vec<_>>()),
            Expr::Expansion(expansion) => self.expansion(expansion),
            Expr::Question(base, quantifier, filter) => {
                let quantifier = match quantifier {
                    Some(quantifier) => self.quantifier(quantifier),
                    None => nothing(),
                };
                let (iterator, seen) = self.iterator(base);
                let item = self.name(ITEM);
                let filter = match filter {
                    Some(filter) => node("array filter", vec![quantifier, self.expression(filter)]),
                    None => nothing(),
                };
                self.scope.truncate(seen);
                let more = [("levels", 1_i64.into()), ("booleanize", true.into())];
                with("expansion", more, vec![iterator, item, filter, nothing(), nothing()])
            }
            Expr::Group(inner) => node("passthru", vec![self.expression(inner)]),
            Expr::Subquery(body) => {
                let subquery = self.body("subquery", body);
                let name = self.made_name();
                let variable = self.variable(&name);
                self.push("let", vec![variable, subquery]);
                self.reference(&name, self.next - 1, true)
            }
        }
    }

    fn unary(&mut self, operator: Unary, value: &Expr) -> Value {
        if let (Unary::Minus, Expr::Literal(Value::Int(n))) = (operator, value) {
            return constant(n.wrapping_neg());
        }
        let kind = match operator {
            Unary::Not => "unary not",
            Unary::Plus => "unary plus",
            Unary::Minus => "unary minus",
        };
        node(kind, vec![self.expression(value)])
    }

    fn binary(&mut self, operator: Binary, a: &Expr, b: &Expr) -> Value {
        let negated = |value| node("unary not", vec![value]);
        match operator {
            Binary::Like => self.call("LIKE", &[a, b]),
            Binary::NotLike => negated(self.call("LIKE", &[a, b])),
            Binary::Match => self.call("REGEX_TEST", &[a, b]),
            Binary::NotMatch => negated(self.call("REGEX_TEST", &[a, b])),
            _ => {
                let below = vec![self.expression(a), self.expression(b)];
                match operator {
                    Binary::In | Binary::NotIn => {
                        with(word(operator), [("sorted", false.into())], below)
                    }
                    Binary::Equal => with(word(operator), [("excludesNull", false.into())], below),
                    _ => node(word(operator), below),
                }
            }
        }
    }

    fn quantifier(&mut self, quantifier: &Quantifier) -> Value {
        let (word, count) = match quantifier {
            Quantifier::All => ("all", None),
            Quantifier::Any => ("any", None),
            Quantifier::None => ("none", None),
            Quantifier::AtLeast(count) => ("at least", Some(count)),
            Quantifier::Exactly(count) => return self.expression(count),
        };
        let below = count.map(|count| self.expression(count)).into_iter().collect();
        with("quantifier", [("quantifier", word.into())], below)
    }

    /// Adds the variable of an expansion to the scope. Returns the iterator node, and the number of
    /// names in the scope before the addition.
    fn iterator(&mut self, base: &Expr) -> (Value, usize) {
        let base = self.expression(base);
        let seen = self.scope.len();
        let name = Name::from(format!("{}_", self.made_name()));
        let variable = self.variable(&name);
        let id = self.next - 1;
        // `CURRENT` and the internal name of the current item both name this variable.
        let seen_as = |known: &str| (Name::from(known), id, name.clone());
        self.scope.extend([seen_as("CURRENT"), seen_as(ITEM)]);
        (node("iterator", vec![variable, base]), seen)
    }

    fn expansion(&mut self, expansion: &Expansion) -> Value {
        let (iterator, seen) = self.iterator(&expansion.base);
        let filter = match &expansion.filter {
            Some(filter) => node("array filter", vec![nothing(), self.expression(filter)]),
            None => nothing(),
        };
        let limit = match &expansion.limit {
            Some((offset, count)) => {
                let offset = match offset {
                    Some(offset) => self.expression(offset),
                    None => constant(0_i64),
                };
                node("array limit", vec![offset, self.expression(count)])
            }
            None => nothing(),
        };
        let projection = self.or_nothing(&expansion.projection);
        let tail = self.expression(&expansion.tail);
        self.scope.truncate(seen);
        let more = [("levels", Value::from(expansion.stars as u64))];
        with("expansion", more, vec![iterator, tail, filter, limit, projection])
    }
}

/// The internal name of an expansion's current item, used in the accesses after the expansion's
/// brackets.
const ITEM: &str = "[*]";

fn word(operator: Binary) -> &'static str {
    match operator {
        Binary::Or => "logical or",
        Binary::And => "logical and",
        Binary::Equal => "compare ==",
        Binary::NotEqual => "compare !=",
        Binary::Less => "compare <",
        Binary::LessEqual => "compare <=",
        Binary::Greater => "compare >",
        Binary::GreaterEqual => "compare >=",
        Binary::In => "compare in",
        Binary::NotIn => "compare not in",
        Binary::Like | Binary::NotLike | Binary::Match | Binary::NotMatch => "function call",
        Binary::Add => "plus",
        Binary::Subtract => "minus",
        Binary::Multiply => "times",
        Binary::Divide => "division",
        Binary::Modulo => "modulus",
        Binary::Range => "range",
    }
}
