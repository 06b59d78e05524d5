//! Finds, without a schema, the collections, bind parameters and functions that a query names, and
//! whether the query modifies data.

use std::collections::BTreeSet;

use super::ast::{Body, Expr, Key, Name, Quantifier, SortDirection, Source, Statement};

/// The collections, bind parameters and functions that a query names.
#[derive(Debug, Default)]
pub struct Mentions {
    /// Names of the collections in the query text; collections in bind parameters are not included.
    pub collections: BTreeSet<String>,
    /// Names of the bind parameters as in `bindVars`, in the order of the query text.
    pub binds: Vec<String>,
    /// Whether any statement of the query or of a subquery modifies data.
    pub modifies: bool,
    /// Names of the collections in the query text that the query modifies.
    pub written: BTreeSet<String>,
    /// Names, as in `bindVars`, of the bind parameters that name a collection which the query
    /// modifies.
    pub written_binds: BTreeSet<String>,
    /// Names of the called functions, in capitals; user-defined functions include their group
    /// (`GROUP::NAME`).
    pub calls: BTreeSet<String>,
    scope: Vec<Name>,
}

impl Mentions {
    /// Collects the collections, bind parameters and functions that a query or subquery names.
    pub fn read(&mut self, body: &Body) {
        let seen = self.scope.len();
        body.with.iter().for_each(|source| self.source(source));
        body.statements.iter().for_each(|statement| self.statement(statement));
        self.scope.truncate(seen);
    }

    /// Collects the names in a single expression.
    pub fn value(&mut self, value: &Expr) {
        self.expr(value);
    }

    fn source(&mut self, source: &Source) {
        match source {
            Source::Name(name) => {
                self.collections.insert(name.to_string());
            }
            Source::Bind(name) => {
                self.bind(format!("@{name}"));
            }
            Source::ValueBind(name) => {
                self.bind(name.to_string());
            }
        }
    }

    fn modified(&mut self, source: &Source) {
        self.modifies = true;
        match source {
            Source::Name(name) => self.written.insert(name.to_string()),
            Source::Bind(name) => self.written_binds.insert(format!("@{name}")),
            Source::ValueBind(name) => self.written_binds.insert(name.to_string()),
        };
        self.source(source);
    }

    fn bind(&mut self, name: String) {
        if !self.binds.contains(&name) {
            self.binds.push(name);
        }
    }

    fn some(&mut self, expr: &Option<Expr>) {
        if let Some(expr) = expr {
            self.expr(expr);
        }
    }

    fn named(&mut self, items: &[(Name, Expr)]) {
        for (name, value) in items {
            self.expr(value);
            self.scope.push(name.clone());
        }
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::For { variable, source, search, options } => {
                self.expr(source);
                self.scope.push(variable.clone());
                self.some(search);
                self.some(options);
            }
            Statement::Traversal(t) => {
                self.some(&t.depth);
                self.expr(&t.start);
                self.some(&t.target);
                self.some(&t.graph);
                t.edges.iter().for_each(|(_, source)| self.source(source));
                self.scope.extend(t.variables.iter().cloned());
                if let Some((_, condition)) = &t.prune {
                    self.expr(condition);
                }
                self.some(&t.options);
            }
            Statement::Filter(value) | Statement::Return { value, .. } => self.expr(value),
            Statement::Let { name, value } => {
                self.expr(value);
                self.scope.push(name.clone());
            }
            Statement::Destructure { pattern, value } => {
                self.expr(value);
                pattern.names(&mut |name| self.scope.push(name.clone()));
            }
            Statement::Sort(keys) => {
                for (key, direction) in keys {
                    self.expr(key);
                    if let SortDirection::Given(value) = direction {
                        self.expr(value);
                    }
                }
            }
            Statement::Limit { offset, count } => {
                self.some(offset);
                self.expr(count);
            }
            Statement::Collect(c) => {
                self.named(&c.keys);
                self.named(&c.aggregates);
                if let Some((name, value)) = &c.into {
                    self.some(value);
                    self.scope.push(name.clone());
                }
                self.scope.extend(c.count.clone());
                self.some(&c.options);
            }
            Statement::Window(w) => {
                self.some(&w.range);
                self.expr(&w.bounds);
                self.named(&w.aggregates);
            }
            Statement::Insert { document: value, into, options }
            | Statement::Remove { key: value, from: into, options } => {
                self.expr(value);
                self.modified(into);
                self.some(options);
            }
            Statement::Change { key, with, into, options, .. } => {
                self.expr(key);
                self.some(with);
                self.modified(into);
                self.some(options);
            }
            Statement::Upsert(u) => {
                [&u.search, &u.insert, &u.update].into_iter().for_each(|value| self.expr(value));
                self.modified(&u.into);
                self.some(&u.options);
            }
        }
    }

    fn key(&mut self, key: &Key) {
        match key {
            Key::Name(_) => {}
            Key::Bind(name) => {
                self.bind(name.to_string());
            }
            Key::Computed(value) => self.expr(value),
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Literal(_) | Expr::Element => {}
            Expr::Name(name) => {
                let variable = matches!(&**name, "OLD" | "NEW" | "$OLD" | "$NEW" | "CURRENT")
                    || self.scope.contains(name);
                if !variable {
                    self.collections.insert(name.to_string());
                }
            }
            Expr::Bind(name) => {
                self.bind(name.to_string());
            }
            Expr::CollectionBind(name) => {
                self.bind(format!("@{name}"));
            }
            Expr::Attribute(base, key) => {
                self.expr(base);
                self.key(key);
            }
            Expr::Index(a, b) | Expr::Binary(_, a, b) => {
                self.expr(a);
                self.expr(b);
            }
            Expr::Array(items) => items.iter().for_each(|item| self.expr(item)),
            Expr::Call(name, items) => {
                if !self.calls.contains(&**name) {
                    self.calls.insert(name.to_string());
                }
                items.iter().for_each(|item| self.expr(item));
            }
            Expr::Object(entries) => {
                for (key, value) in entries {
                    self.key(key);
                    self.expr(value);
                }
            }
            Expr::Unary(_, inner) | Expr::Group(inner) => self.expr(inner),
            Expr::Quantified(quantifier, _, a, b) => {
                self.quantifier(quantifier);
                self.expr(a);
                self.expr(b);
            }
            Expr::Ternary(condition, yes, no) => {
                self.expr(condition);
                if let Some(yes) = yes {
                    self.expr(yes);
                }
                self.expr(no);
            }
            Expr::Expansion(e) => {
                self.expr(&e.base);
                self.some(&e.filter);
                if let Some((offset, count)) = &e.limit {
                    self.some(offset);
                    self.expr(count);
                }
                self.some(&e.projection);
                self.expr(&e.tail);
            }
            Expr::Question(base, quantifier, filter) => {
                self.expr(base);
                if let Some(quantifier) = quantifier {
                    self.quantifier(quantifier);
                }
                if let Some(filter) = filter {
                    self.expr(filter);
                }
            }
            Expr::Subquery(body) => self.read(body),
        }
    }

    fn quantifier(&mut self, quantifier: &Quantifier) {
        if let Quantifier::AtLeast(count) | Quantifier::Exactly(count) = quantifier {
            self.expr(count);
        }
    }
}
