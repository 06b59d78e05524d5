//! The names in scope during planning, and the collections that a query reads and writes.

use std::sync::Arc;

use super::node::{Node, Plan, Used};
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Register};
use crate::schema::Database;
use crate::syntax::{Name, Source};
use crate::value::{Object, Value};

/// Maximum number of variables in one query, which is ArangoDB's limit of registers.
const REGISTERS_MAX: usize = 1000;
/// Maximum number of collections in one query, which is ArangoDB's limit.
const COLLECTIONS_MAX: usize = 2048;

/// The state of planning: the plan that is being built, and the variables in scope.
pub(super) struct Builder<'a> {
    pub database: &'a Database,
    pub given: &'a Object,
    pub plan: Plan,
    /// Variables in scope; variables of a subquery come after those of the query that contains it.
    pub variables: Vec<(Name, Expr)>,
    /// Index in `variables` of the first variable of the current query or subquery.
    pub level: usize,
    /// Whether bind parameters are compiled to constants, as in `OPTIONS`.
    pub binds_as_constants: bool,
    /// Whether a statement planned so far modifies data.
    pub wrote: bool,
    /// Nodes that must run before the loop of a SEARCH, such as subqueries in its condition.
    pub hoisted: Vec<Node>,
    /// Returns whether the optimizer rule with the given name may run.
    pub allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Builder<'a> {
    /// Creates a builder with an empty plan.
    pub(super) fn new(
        database: &'a Database,
        given: &'a Object,
        allowed: &'a dyn Fn(&str) -> bool,
    ) -> Self {
        Self {
            database,
            given,
            plan: Plan { release: database.release, ..Plan::default() },
            variables: Vec::new(),
            level: 0,
            binds_as_constants: false,
            wrote: false,
            hoisted: Vec::new(),
            allowed,
        }
    }

    /// Adds a new register to the plan.
    pub(super) fn register(&mut self, name: &str) -> Result<Register> {
        if self.plan.variables.len() >= REGISTERS_MAX {
            return Err(Error::new(
                Code::ResourceLimit,
                format!("more than {REGISTERS_MAX} variables"),
            ));
        }
        self.plan.variables.push(name.to_owned());
        Ok(self.plan.variables.len() - 1)
    }

    /// Adds a variable to the scope, or returns error 1511 if the variable's name is taken.
    pub(super) fn declare(&mut self, name: &Name, value: Expr) -> Result<()> {
        self.check_new(name)?;
        self.variables.push((Name::clone(name), value));
        Ok(())
    }

    /// Returns error 1511 if a variable with the name exists.
    pub(super) fn check_new(&self, name: &Name) -> Result<()> {
        if self.variables.iter().any(|(n, _)| n == name) {
            let message = format!("variable '{name}' is assigned multiple times");
            return Err(Error::new(Code::QueryVariableRedeclared, message));
        }
        Ok(())
    }

    /// Adds a variable with a new register to the scope.
    pub(super) fn declare_new(&mut self, name: &Name) -> Result<Register> {
        let register = self.register(name)?;
        self.declare(name, Expr::Register(register))?;
        Ok(register)
    }

    /// Declares a loop variable with a new register. The variable of a loop that destructures its
    /// items has an internal name, which begins with `[`. Several loops may use the same internal
    /// name.
    pub(super) fn declare_item(&mut self, name: &Name) -> Result<Register> {
        if !name.starts_with('[') {
            return self.declare_new(name);
        }
        let register = self.register(name)?;
        self.declare_again(name, Expr::Register(register));
        Ok(register)
    }

    /// Declares `OLD`, `NEW` or `CURRENT`, which may be declared repeatedly; the last declaration
    /// is used.
    pub(super) fn declare_again(&mut self, name: &str, value: Expr) {
        self.variables.push((Name::from(name), value));
    }

    /// Returns the expression of a variable in scope; `$OLD` and `$NEW` are other names of `OLD`
    /// and `NEW`.
    pub(super) fn variable(&self, name: &str) -> Option<&Expr> {
        let name = match name {
            "$OLD" => "OLD",
            "$NEW" => "NEW",
            other => other,
        };
        self.variables.iter().rev().find(|(n, _)| &**n == name).map(|(_, value)| value)
    }

    /// Returns the value of a bind parameter and records that the plan depends on it. Returns error
    /// 1551 for a missing bind parameter.
    pub(super) fn structural(&mut self, name: &str) -> Result<Value> {
        let Some(value) = self.given.get(name) else { return Err(missing_bind(name)) };
        if !self.plan.structural.iter().any(|(n, _)| n == name) {
            self.plan.structural.push((name.to_owned(), value.clone()));
        }
        Ok(value.clone())
    }

    /// Returns the slot number of a value bind parameter. Assigns a slot number at the parameter's
    /// first use.
    pub(super) fn slot(&mut self, name: &Name) -> usize {
        if let Some(at) = self.plan.binds.iter().position(|n| n == name) {
            return at;
        }
        self.plan.binds.push(Name::clone(name));
        self.plan.bind_was_null.push(self.given.get(name).is_none_or(Value::is_null));
        self.plan.binds.len() - 1
    }

    /// Returns a collection's name, which is in the query text or in a bind parameter.
    pub(super) fn source_name(&mut self, source: &Source) -> Result<Name> {
        match source {
            Source::Name(name) => Ok(Name::clone(name)),
            Source::Bind(bind) => self.bound_name(&format!("@{bind}")),
            Source::ValueBind(bind) => self.bound_name(bind),
        }
    }

    fn bound_name(&mut self, bind: &str) -> Result<Name> {
        match self.structural(bind)? {
            Value::String(name) if !name.is_empty() => Ok(name),
            _ => {
                let message = format!("bind parameter '{bind}' has an invalid value or type");
                Err(Error::new(Code::QueryBindParameterType, message))
            }
        }
    }

    /// Records a warning about the query text.
    pub(super) fn warn(&mut self, code: Code, message: String) {
        self.plan.warnings.push((code, message));
    }

    /// Returns the collection's index in [`Plan::collections`] and adds the collection at its first
    /// use. Returns error 1203 for an unknown collection, or error 9 (HTTP status 501) for a view.
    pub(super) fn collection(&mut self, name: &str) -> Result<usize> {
        if let Some(at) = self.plan.collections.iter().position(|u| u.collection.name == name) {
            return Ok(at);
        }
        if self.database.views.contains_key(name) {
            return Err(Error::unsupported(format!("the view '{name}' outside of FOR")));
        }
        let Some(collection) = self.database.collections.get(name) else {
            return Err(Error::new(
                Code::DataSourceNotFound,
                format!("collection or view not found: {name}"),
            ));
        };
        if self.plan.collections.len() >= COLLECTIONS_MAX {
            return Err(Error::of(Code::QueryTooManyCollections));
        }
        let collection = Arc::clone(collection);
        self.plan.collections.push(Used {
            collection,
            read: false,
            write: false,
            exclusive: false,
        });
        Ok(self.plan.collections.len() - 1)
    }

    /// Records a read of a collection. Returns error 1579 after a write to the same collection.
    pub(super) fn read(&mut self, collection: usize) -> Result<()> {
        let used = &mut self.plan.collections[collection];
        used.read = true;
        if used.write { Err(after_modification(&used.collection.name)) } else { Ok(()) }
    }

    /// Records a write to a collection. Returns error 1579 after another write to the same
    /// collection.
    pub(super) fn write(&mut self, collection: usize, exclusive: bool) -> Result<()> {
        self.wrote = true;
        let used = &mut self.plan.collections[collection];
        used.exclusive |= exclusive;
        if std::mem::replace(&mut used.write, true) {
            return Err(after_modification(&used.collection.name));
        }
        Ok(())
    }

    /// Checks a read whose collection is known only at run time. Returns error 1579 after any
    /// write.
    pub(super) fn read_anything(&self, what: &str) -> Result<()> {
        if self.wrote { Err(after_modification(what)) } else { Ok(()) }
    }
}

/// Returns error 1551 for a missing bind parameter.
pub(super) fn missing_bind(name: &str) -> Error {
    let message = format!("no value specified for declared bind parameter '{name}'");
    Error::new(Code::QueryBindParameterMissing, message)
}

fn after_modification(name: &str) -> Error {
    let message = format!("access after data-modification by '{name}'");
    Error::new(Code::QueryAccessAfterModification, message)
}
