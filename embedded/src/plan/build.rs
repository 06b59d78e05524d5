//! Plans statements. Each statement becomes one node or several nodes of the plan; the nodes have
//! the order of the query text.

use super::near;
use super::node::{Node, Pipeline, Plan, Write, WriteKind};
use super::rules;
use super::scope::Builder;
use super::uses;
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Register};
use crate::schema::Database;
use crate::syntax::{self, Binary, Body, Key, Name, Pattern, SortDirection, Source, Statement};
use crate::txn::OverwriteMode;
use crate::value::{Object, Value};

/// Maximum number of nodes in one query. The number is limited because each row passes through the
/// nodes recursively on the stack.
const NODES_MAX: usize = 1000;

/// Plans a query. Reads the values of only those bind parameters that shape the plan: collections,
/// attribute names and options. Runs only those optimizer rules that `allowed` accepts.
pub fn plan(
    body: &Body,
    database: &Database,
    binds: &Object,
    allowed: &dyn Fn(&str) -> bool,
) -> Result<Plan> {
    let mut builder = Builder::new(database, binds, allowed);
    for source in &body.with {
        let name = builder.source_name(source)?;
        let collection = builder.collection(&name)?;
        builder.plan.collections[collection].read = true;
    }
    let root = builder.body(body)?;
    let mut plan = builder.plan;
    plan.root = root;
    let nodes =
        plan.root.nodes.len() + plan.subqueries.iter().map(|s| s.nodes.len()).sum::<usize>();
    if nodes > NODES_MAX {
        return Err(Error::new(
            Code::ResourceLimit,
            format!("more than {NODES_MAX} execution nodes"),
        ));
    }
    rules::finish(&mut plan);
    if allowed("reduce-extraction-to-projection") {
        uses::note_covered(&mut plan);
    }
    Ok(plan)
}

impl Builder<'_> {
    /// Plans a query or subquery, and then removes its variables from the scope.
    pub(super) fn body(&mut self, body: &Body) -> Result<Pipeline> {
        let seen = self.variables.len();
        let own_from = self.plan.variables.len();
        let outer = std::mem::replace(&mut self.level, seen);
        let near = near::may_use_index(body, self.database.release);
        let mut nodes = Vec::new();
        let mut statements = body.statements.as_slice();
        while let [statement, rest @ ..] = statements {
            self.statement(statement, &mut nodes)?;
            let taken = self.take_filters(statement, rest, &mut nodes)?;
            statements = &rest[taken..];
        }
        self.variables.truncate(seen);
        self.level = outer;
        let mut pipeline = Pipeline { nodes, stages: Vec::new(), own_from };
        let allowed = |rule: &str| (near || rule != "use-vector-index") && (self.allowed)(rule);
        rules::improve(&mut pipeline, &mut self.plan, &allowed)?;
        Ok(pipeline)
    }

    /// Replaces the FILTERs after a loop over a collection by a search in the inverted index that
    /// the loop's hint names. Returns the number of replaced FILTERs.
    fn take_filters(
        &mut self,
        statement: &Statement,
        rest: &[Statement],
        nodes: &mut Vec<Node>,
    ) -> Result<usize> {
        let (Statement::For { options, .. }, Some(node)) = (statement, nodes.last()) else {
            return Ok(0);
        };
        if !matches!(node, Node::EnumerateCollection { hint, .. } if !hint.names.is_empty()) {
            return Ok(0);
        }
        let filter = |statement: &'_ Statement| matches!(statement, Statement::Filter(_));
        let count = rest.iter().take_while(|statement| filter(statement)).count();
        let filters = rest[..count].iter().filter_map(|statement| match statement {
            Statement::Filter(condition) => Some(condition),
            _ => None,
        });
        let filters: Vec<&syntax::Expr> = filters.collect();
        let options = self.options(options.as_ref())?;
        let node = nodes.pop().expect("looked at above");
        match self.inverted_loop(&node, &filters, &options)? {
            Some(indexed) => {
                nodes.push(indexed);
                Ok(count)
            }
            None => {
                nodes.push(node);
                Ok(0)
            }
        }
    }

    fn statement(&mut self, statement: &Statement, nodes: &mut Vec<Node>) -> Result<()> {
        match statement {
            Statement::For { variable, source, search, options } => {
                self.for_loop(variable, source, search, options, nodes)?;
            }
            Statement::Traversal(traversal) => {
                let node = self.traversal(traversal)?;
                nodes.push(node);
            }
            #[cfg(feature = "conformance")]
            Statement::Window(window) => self.window(window, nodes)?,
            #[cfg(not(feature = "conformance"))]
            Statement::Window(_) => return Err(Error::unsupported("WINDOW")),
            Statement::Filter(condition) => {
                let condition = self.expression(condition)?;
                conjuncts(condition, nodes);
            }
            Statement::Let { name, value } => {
                let value = self.expression(value)?;
                if is_cheap(&value) {
                    self.declare(name, value)?;
                } else {
                    let out = self.declare_new(name)?;
                    nodes.push(Node::Calculation { value, out });
                }
            }
            Statement::Destructure { pattern, value } => {
                let mut value = self.expression(value)?;
                if !is_cheap(&value) {
                    let out = self.register("")?;
                    nodes.push(Node::Calculation { value, out });
                    value = Expr::Register(out);
                }
                self.destructure(pattern, value)?;
            }
            Statement::Sort(keys) => {
                let keys: Vec<(Expr, bool)> = keys
                    .iter()
                    .map(|(key, direction)| Ok((self.expression(key)?, self.descends(direction)?)))
                    .collect::<Result<_>>()?;
                let keys: Vec<_> =
                    keys.into_iter().filter(|(key, _)| !matches!(key, Expr::Const(_))).collect();
                if !keys.is_empty() {
                    nodes.push(Node::Sort(keys));
                }
            }
            Statement::Limit { offset, count } => {
                let offset = match offset {
                    Some(offset) => self.limit(offset)?,
                    None => Expr::Const(Value::Int(0)),
                };
                nodes.push(Node::Limit { offset, count: self.limit(count)? });
            }
            Statement::Collect(collect) => {
                let node = self.collect(collect)?;
                nodes.push(node);
            }
            Statement::Return { distinct, value } => {
                nodes.push(Node::Return { value: self.expression(value)?, distinct: *distinct });
            }
            Statement::Insert { document, into, options } => {
                let document = self.expression(document)?;
                let write =
                    self.write_node(into, options.as_ref(), WriteKind::Insert { document })?;
                nodes.push(write);
            }
            Statement::Change { replace, key, with, into, options } => {
                let key = self.expression(key)?;
                let patch = with.as_ref().map(|patch| self.expression(patch)).transpose()?;
                let kind = WriteKind::Change { key, patch, replace: *replace };
                let write = self.write_node(into, options.as_ref(), kind)?;
                nodes.push(write);
            }
            Statement::Remove { key, from, options } => {
                let key = self.expression(key)?;
                let write = self.write_node(from, options.as_ref(), WriteKind::Remove { key })?;
                nodes.push(write);
            }
            Statement::Upsert(upsert) => {
                let write = self.upsert(upsert)?;
                nodes.push(write);
            }
        }
        Ok(())
    }

    fn for_loop(
        &mut self,
        variable: &Name,
        source: &syntax::Expr,
        search: &Option<syntax::Expr>,
        options: &Option<syntax::Expr>,
        nodes: &mut Vec<Node>,
    ) -> Result<()> {
        let name = match source {
            syntax::Expr::Name(name) if self.variable(name).is_none() => Some(Name::clone(name)),
            syntax::Expr::CollectionBind(bind) => {
                Some(self.source_name(&Source::Bind(Name::clone(bind)))?)
            }
            _ => None,
        };
        if let Some(name) = &name
            && self.database.views.contains_key(&**name)
        {
            return self.view_loop(variable, name, search.as_ref(), options.as_ref(), nodes);
        }
        let hint = self.hint(options.as_ref())?;
        if let Some(name) = name {
            let collection = self.collection(&name)?;
            if search.is_some() {
                let message = format!("SEARCH condition used with '{name}', which is not a view");
                return Err(Error::new(Code::QueryParse, message));
            }
            self.read(collection)?;
            let out = self.declare_item(variable)?;
            nodes.push(Node::EnumerateCollection { collection, out, hint });
            return Ok(());
        }
        if search.is_some() {
            let message = "SEARCH condition used with something that is not a view";
            return Err(Error::new(Code::QueryParse, message));
        }
        let source = self.expression(source)?;
        let out = self.declare_item(variable)?;
        nodes.push(Node::EnumerateList { source, out });
        Ok(())
    }

    fn limit(&mut self, expr: &syntax::Expr) -> Result<Expr> {
        let compiled = self.expression(expr)?;
        if compiled.is_free() {
            return Ok(compiled);
        }
        let message = "LIMIT offset/count values must be constant numeric values";
        Err(Error::new(Code::QueryNumberOutOfRange, message))
    }

    fn descends(&mut self, direction: &SortDirection) -> Result<bool> {
        let given = match direction {
            SortDirection::Ascending => return Ok(false),
            SortDirection::Descending => return Ok(true),
            SortDirection::Given(value) => self.constant(value)?,
        };
        Ok(match given {
            Expr::Const(Value::String(word)) if word.eq_ignore_ascii_case("asc") => false,
            Expr::Const(Value::String(word)) if word.eq_ignore_ascii_case("desc") => true,
            Expr::Const(value) => !value.is_true(),
            _ => false,
        })
    }

    /// Declares a variable for each part of a destructured value.
    fn destructure(&mut self, pattern: &Pattern, value: Expr) -> Result<()> {
        match pattern {
            Pattern::Hole => {}
            Pattern::Name(name) => self.declare(name, value)?,
            Pattern::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    // If the destructured value is not a list, each variable is null.
                    let index = Expr::Const(Value::from(at as u64));
                    let part = Expr::Index(Box::new(value.clone()), Box::new(index));
                    self.destructure(item, part)?;
                }
            }
            Pattern::Object(items) => {
                for (name, item) in items.iter().flatten() {
                    let part = Expr::Attribute(Box::new(value.clone()), Name::clone(name));
                    self.destructure(item, part)?;
                }
            }
        }
        Ok(())
    }

    fn write_node(
        &mut self,
        into: &Source,
        options: Option<&syntax::Expr>,
        kind: WriteKind,
    ) -> Result<Node> {
        let word = match &kind {
            WriteKind::Insert { .. } => "INSERT",
            WriteKind::Change { replace: false, .. } => "UPDATE",
            WriteKind::Change { replace: true, .. } => "REPLACE",
            WriteKind::Remove { .. } => "REMOVE",
            WriteKind::Upsert { .. } => "UPSERT",
        };
        let options = self.modification(options, word)?;
        let name = self.source_name(into)?;
        let collection = self.collection(&name)?;
        self.write(collection, options.exclusive)?;
        self.plan.wait_for_sync |= options.wait_for_sync;
        let (old, new) = (self.register("OLD")?, self.register("NEW")?);
        self.forget_old_and_new();
        if !matches!(kind, WriteKind::Remove { .. }) {
            self.declare_again("NEW", Expr::Register(new));
        }
        let replaces =
            matches!(options.write.overwrite, OverwriteMode::Replace | OverwriteMode::Update);
        if !matches!(kind, WriteKind::Insert { .. }) || replaces {
            self.declare_again("OLD", Expr::Register(old));
        }
        let (write, ignore_errors) = (options.write, options.ignore_errors);
        Ok(Node::Write(Box::new(Write {
            collection,
            kind,
            options: write,
            ignore_errors,
            old,
            new,
        })))
    }

    /// Removes `OLD` and `NEW` of an earlier modification from the scope.
    fn forget_old_and_new(&mut self) {
        let level = self.level;
        let mut at = 0;
        self.variables.retain(|(name, _)| {
            at += 1;
            at <= level || !matches!(&**name, "OLD" | "NEW")
        });
    }

    fn upsert(&mut self, upsert: &syntax::Upsert) -> Result<Node> {
        let options = self.modification(upsert.options.as_ref(), "UPSERT")?;
        let name = self.source_name(&upsert.into)?;
        let collection = self.collection(&name)?;
        self.read(collection)?;
        let (old, new) = (self.register("OLD")?, self.register("NEW")?);
        let mut nodes =
            vec![Node::EnumerateCollection { collection, out: old, hint: options.hint.clone() }];
        self.upsert_search(upsert, old, &mut nodes)?;
        nodes.push(Node::Limit {
            offset: Expr::Const(Value::Int(0)),
            count: Expr::Const(Value::Int(1)),
        });
        nodes.push(Node::Return { value: Expr::Register(old), distinct: false });
        let mut lookup = Pipeline { nodes, stages: Vec::new(), own_from: old };
        rules::improve(&mut lookup, &mut self.plan, self.allowed)?;
        self.forget_old_and_new();
        let insert = self.expression(&upsert.insert)?;
        self.declare_again("OLD", Expr::Register(old));
        let update = self.expression(&upsert.update)?;
        self.declare_again("NEW", Expr::Register(new));
        self.write(collection, options.exclusive)?;
        self.plan.wait_for_sync |= options.wait_for_sync;
        let kind = WriteKind::Upsert { lookup, insert, update, replace: upsert.replace };
        let (write, ignore_errors) = (options.write, options.ignore_errors);
        Ok(Node::Write(Box::new(Write {
            collection,
            kind,
            options: write,
            ignore_errors,
            old,
            new,
        })))
    }

    fn upsert_search(
        &mut self,
        upsert: &syntax::Upsert,
        found: Register,
        nodes: &mut Vec<Node>,
    ) -> Result<()> {
        if upsert.filter {
            let seen = self.variables.len();
            self.declare_again("CURRENT", Expr::Register(found));
            let condition = self.expression(&upsert.search)?;
            self.variables.truncate(seen);
            conjuncts(condition, nodes);
            return Ok(());
        }
        let bound;
        let example = match &upsert.search {
            syntax::Expr::Bind(bind) => {
                bound = syntax::Expr::Literal(self.structural(bind)?);
                &bound
            }
            written => written,
        };
        let place = Expr::Register(found);
        self.upsert_example(example, &place, nodes)
    }

    /// Returns one condition for each attribute of an example document, including attributes of
    /// nested objects.
    fn upsert_example(
        &mut self,
        example: &syntax::Expr,
        place: &Expr,
        nodes: &mut Vec<Node>,
    ) -> Result<()> {
        let below = |name: &Name| Expr::Attribute(Box::new(place.clone()), Name::clone(name));
        match example {
            syntax::Expr::Object(entries) => {
                for (key, value) in entries {
                    let name = match key {
                        Key::Name(name) => Name::clone(name),
                        Key::Bind(bind) => match self.structural(bind)? {
                            Value::String(name) => name,
                            _ => return Err(Error::of(Code::QueryBindParameterType)),
                        },
                        Key::Computed(_) => {
                            let message =
                                "expecting object literal with literal attribute names in example";
                            return Err(Error::new(Code::QueryParse, message));
                        }
                    };
                    self.upsert_part(value, below(&name), nodes)?;
                }
            }
            syntax::Expr::Literal(Value::Object(object)) => {
                for (name, value) in object.iter() {
                    let value = syntax::Expr::Literal(value.clone());
                    self.upsert_part(&value, below(name), nodes)?;
                }
            }
            _ => {
                let message = "expecting object literal for UPSERT lookup parameter";
                return Err(Error::new(Code::QueryParse, message));
            }
        }
        Ok(())
    }

    fn upsert_part(
        &mut self,
        value: &syntax::Expr,
        place: Expr,
        nodes: &mut Vec<Node>,
    ) -> Result<()> {
        let nested = match value {
            syntax::Expr::Object(entries) => !entries.is_empty(),
            syntax::Expr::Literal(Value::Object(object)) => !object.is_empty(),
            _ => false,
        };
        if nested {
            return self.upsert_example(value, &place, nodes);
        }
        let value = self.expression(value)?;
        nodes.push(Node::Filter(Expr::Binary(Binary::Equal, Box::new(place), Box::new(value))));
        Ok(())
    }
}

/// Whether a variable is internal: its name cannot occur in a query text.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('[')
}

/// Adds one filter for each operand of an AND, so that rules can move each filter separately.
fn conjuncts(condition: Expr, nodes: &mut Vec<Node>) {
    match condition {
        Expr::Binary(Binary::And, a, b) => {
            conjuncts(*a, nodes);
            conjuncts(*b, nodes);
        }
        Expr::Const(value) if value.is_true() => {}
        other => nodes.push(Node::Filter(other)),
    }
}

/// Whether an expression is a constant, bind parameter, variable or path. The value of such an
/// expression needs no separate register.
fn is_cheap(value: &Expr) -> bool {
    match value {
        Expr::Const(_) | Expr::Bind(_) | Expr::Register(_) => true,
        Expr::Attribute(base, _) => is_cheap(base),
        Expr::Index(base, index) => is_cheap(base) && matches!(**index, Expr::Const(_)),
        _ => false,
    }
}
