//! Names in scope, the collections met, and the order in which they are read and written.

use std::sync::Arc;

use super::node::{Node, Plan, Used};
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Register};
use crate::schema::Database;
use crate::syntax::{Name, Source};
use crate::value::{Object, Value};

/// Variables a query may have (the server's limit of registers).
const REGISTERS_MAX: usize = 1000;
/// Collections a query may touch (the server's limit).
const COLLECTIONS_MAX: usize = 2048;

/// A plan in the making.
pub(super) struct Builder<'a> {
    pub database: &'a Database,
    pub given: &'a Object,
    pub plan: Plan,
    /// Variables in sight, inner ones last.
    pub variables: Vec<(Name, Expr)>,
    /// Where the variables of the current query level begin.
    pub level: usize,
    /// Whether binds are needed as constants now (in `OPTIONS`).
    pub binds_as_constants: bool,
    /// Whether anything was written by what came before in the text.
    pub wrote: bool,
    /// What a SEARCH needs to be computed before its loop.
    pub hoisted: Vec<Node>,
    /// Whether a rule of that name may run.
    pub allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Builder<'a> {
    /// A builder that has seen nothing.
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

    /// A new register.
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

    /// Brings a variable into sight; 1511 if its name is taken.
    pub(super) fn declare(&mut self, name: &Name, value: Expr) -> Result<()> {
        self.check_new(name)?;
        self.variables.push((Name::clone(name), value));
        Ok(())
    }

    /// 1511 if a name is taken.
    pub(super) fn check_new(&self, name: &Name) -> Result<()> {
        if self.variables.iter().any(|(n, _)| n == name) {
            let message = format!("variable '{name}' is assigned multiple times");
            return Err(Error::new(Code::QueryVariableRedeclared, message));
        }
        Ok(())
    }

    /// Brings a variable with a register of its own into sight.
    pub(super) fn declare_new(&mut self, name: &Name) -> Result<Register> {
        let register = self.register(name)?;
        self.declare(name, Expr::Register(register))?;
        Ok(register)
    }

    /// The same for the variable of a loop whose items are taken apart: several loops may have one.
    pub(super) fn declare_item(&mut self, name: &Name) -> Result<Register> {
        if !name.starts_with('[') {
            return self.declare_new(name);
        }
        let register = self.register(name)?;
        self.declare_again(name, Expr::Register(register));
        Ok(register)
    }

    /// `OLD`, `NEW`, `CURRENT`: the last one counts.
    pub(super) fn declare_again(&mut self, name: &str, value: Expr) {
        self.variables.push((Name::from(name), value));
    }

    /// What a name in sight stands for; `$OLD` and `$NEW` are the names that `OLD` and `NEW` are short for.
    pub(super) fn variable(&self, name: &str) -> Option<&Expr> {
        let name = match name {
            "$OLD" => "OLD",
            "$NEW" => "NEW",
            other => other,
        };
        self.variables.iter().rev().find(|(n, _)| &**n == name).map(|(_, value)| value)
    }

    /// A bind whose value shapes the plan; 1551 if it is missing.
    pub(super) fn structural(&mut self, name: &str) -> Result<Value> {
        let Some(value) = self.given.get(name) else { return Err(missing_bind(name)) };
        if !self.plan.structural.iter().any(|(n, _)| n == name) {
            self.plan.structural.push((name.to_owned(), value.clone()));
        }
        Ok(value.clone())
    }

    /// The slot of a value bind.
    pub(super) fn slot(&mut self, name: &Name) -> usize {
        if let Some(at) = self.plan.binds.iter().position(|n| n == name) {
            return at;
        }
        self.plan.binds.push(Name::clone(name));
        self.plan.bind_was_null.push(self.given.get(name).is_none_or(Value::is_null));
        self.plan.binds.len() - 1
    }

    /// The name behind a written or bound collection.
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

    /// Notes a warning about the text.
    pub(super) fn warn(&mut self, code: Code, message: String) {
        self.plan.warnings.push((code, message));
    }

    /// The number of a collection in the plan; 1203 if there is none of that name, 501 for a view.
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

    /// Notes a read; 1579 behind a write of the same collection.
    pub(super) fn read(&mut self, collection: usize) -> Result<()> {
        let used = &mut self.plan.collections[collection];
        used.read = true;
        if used.write { Err(after_modification(&used.collection.name)) } else { Ok(()) }
    }

    /// Notes a write; 1579 behind another one of the same collection.
    pub(super) fn write(&mut self, collection: usize, exclusive: bool) -> Result<()> {
        self.wrote = true;
        let used = &mut self.plan.collections[collection];
        used.exclusive |= exclusive;
        if std::mem::replace(&mut used.write, true) {
            return Err(after_modification(&used.collection.name));
        }
        Ok(())
    }

    /// Notes a read of who knows which collection; 1579 behind any write.
    pub(super) fn read_anything(&self, what: &str) -> Result<()> {
        if self.wrote { Err(after_modification(what)) } else { Ok(()) }
    }
}

/// Error 1551.
pub(super) fn missing_bind(name: &str) -> Error {
    let message = format!("no value specified for declared bind parameter '{name}'");
    Error::new(Code::QueryBindParameterMissing, message)
}

fn after_modification(name: &str) -> Error {
    let message = format!("access after data-modification by '{name}'");
    Error::new(Code::QueryAccessAfterModification, message)
}
