//! Plans `COLLECT` and its aggregates.

use super::build::is_hidden;
use super::compile::unknown_function;
use super::node::{Aggregate, Collect, Into, Node};
use super::scope::Builder;
use crate::error::{Code, Error, Result};
use crate::expr::Expr;
use crate::functions::{function, left_out, refused};
use crate::syntax::{self, Mentions, Name};
use crate::value::Value;

impl Builder<'_> {
    pub(super) fn collect(&mut self, collect: &syntax::Collect) -> Result<Node> {
        let mut keys = Vec::new();
        for (name, value) in &collect.keys {
            keys.push((self.expression(value)?, self.register(name)?));
        }
        let mut aggregates = Vec::new();
        self.own_names(collect)?;
        for (name, value) in &collect.aggregates {
            let (kind, value) = self.aggregate(value)?;
            aggregates.push((kind, value, self.register(name)?));
        }
        let into = match &collect.into {
            Some((name, value)) => {
                let kept = match value {
                    Some(value) => Into::Value(self.expression(value)?),
                    None => Into::Variables(self.kept_variables(&collect.keep)?),
                };
                Some((kept, self.register(name)?))
            }
            None => None,
        };
        let count = collect.count.as_ref().map(|name| self.register(name)).transpose()?;
        let options = self.options(collect.options.as_ref())?;
        self.known_options(
            &options,
            "COLLECT",
            &["method", "disableIndex", "aggregateIntoExpressionOnDBServers"],
        );
        self.variables.truncate(self.level);
        let key_names =
            collect.keys.iter().map(|(name, _)| name).zip(keys.iter().map(|(_, out)| *out));
        let aggregate_names = collect
            .aggregates
            .iter()
            .map(|(name, _)| name)
            .zip(aggregates.iter().map(|(_, _, out)| *out));
        let into_name =
            collect.into.as_ref().map(|(name, _)| name).zip(into.as_ref().map(|(_, out)| *out));
        let count_name = collect.count.as_ref().zip(count);
        for (name, out) in key_names.chain(aggregate_names).chain(into_name).chain(count_name) {
            self.declare(name, Expr::Register(out))?;
        }
        Ok(Node::Collect(Box::new(Collect { keys, aggregates, into, count })))
    }

    /// Returns error 1511 for a variable name that is taken, or 1512 if the `COLLECT` uses
    /// variables that it declares.
    fn own_names(&self, collect: &syntax::Collect) -> Result<()> {
        let mut made: Vec<&Name> = Vec::new();
        let uses = |value: &syntax::Expr, name: &Name| {
            let mut mentions = Mentions::default();
            mentions.value(value);
            mentions.collections.contains(&**name)
        };
        let wrong = |message: String| Err(Error::new(Code::QueryVariableNameUnknown, message));
        for (name, _) in &collect.keys {
            self.check_new(name)?;
            made.push(name);
        }
        let keys = made.len();
        for (name, value) in &collect.aggregates {
            self.check_new(name)?;
            made.push(name);
            if let Some(name) = made[..keys].iter().find(|name| uses(value, name)) {
                let what = "in AGGREGATE expression";
                return wrong(format!("use of unknown variable '{name}' {what}"));
            }
            if let Some(name) = made[keys..].iter().find(|name| uses(value, name)) {
                return wrong(format!("use of COLLECT variable '{name}' inside same COLLECT"));
            }
        }
        if let Some((_, Some(value))) = &collect.into
            && let Some(name) = made.iter().find(|name| uses(value, name))
        {
            let what = "inside same COLLECT's expression";
            return wrong(format!("use of COLLECT variable '{name}' {what}"));
        }
        if let Some(name) = collect.keep.iter().find(|name| made.contains(name)) {
            let what = "inside same COLLECT's expression";
            return wrong(format!("use of COLLECT variable '{name}' {what}"));
        }
        let into = collect.into.as_ref().map(|(name, _)| name);
        into.into_iter().chain(&collect.count).try_for_each(|name| self.check_new(name))
    }

    /// Returns those variables of the current query or subquery that `INTO` stores for each row of
    /// a group.
    fn kept_variables(&self, keep: &[Name]) -> Result<Vec<(Name, Expr)>> {
        let own = &self.variables[self.level..];
        if keep.is_empty() {
            return Ok(own.iter().filter(|(name, _)| !is_hidden(name)).cloned().collect());
        }
        keep.iter()
            .map(|name| {
                own.iter().find(|(n, _)| n == name).cloned().ok_or_else(|| {
                    let message = format!("use of unknown variable '{name}' for KEEP");
                    Error::new(Code::QueryParse, message)
                })
            })
            .collect()
    }

    /// Returns the aggregate function and argument of a call, or error 1574 for any other
    /// expression.
    pub(super) fn aggregate(&mut self, value: &syntax::Expr) -> Result<(Aggregate, Expr)> {
        let bad = |what| Error::new(Code::QueryInvalidAggregateExpression, what);
        let syntax::Expr::Call(name, arguments) = value else {
            return Err(bad("aggregate expression must be a function call"));
        };
        if left_out(name) {
            return Err(unknown_function(name));
        }
        let Some(kind) = aggregate_of(name) else {
            if function(name).is_none() && !refused(name) {
                return Err(unknown_function(name));
            }
            return Err(bad("unknown aggregate function used"));
        };
        let value = match (kind, arguments.as_slice()) {
            (_, [one]) => self.expression(one)?,
            (Aggregate::Count, []) => Expr::Const(Value::Null),
            _ => {
                let message = format!("invalid number of arguments for function '{name}()'");
                return Err(Error::new(Code::QueryFunctionArgumentNumberMismatch, message));
            }
        };
        Ok((kind, value))
    }
}

fn aggregate_of(name: &str) -> Option<Aggregate> {
    Some(match name {
        "LENGTH" | "COUNT" => Aggregate::Count,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        "SUM" => Aggregate::Sum,
        "AVERAGE" | "AVG" => Aggregate::Average,
        "VARIANCE_POPULATION" | "VARIANCE" => Aggregate::OfList("VARIANCE_POPULATION"),
        "VARIANCE_SAMPLE" => Aggregate::OfList("VARIANCE_SAMPLE"),
        "STDDEV_POPULATION" | "STDDEV" => Aggregate::OfList("STDDEV_POPULATION"),
        "STDDEV_SAMPLE" => Aggregate::OfList("STDDEV_SAMPLE"),
        "UNIQUE" => Aggregate::OfList("UNIQUE"),
        "SORTED_UNIQUE" => Aggregate::OfList("SORTED_UNIQUE"),
        "COUNT_DISTINCT" | "COUNT_UNIQUE" => Aggregate::OfList("COUNT_DISTINCT"),
        "BIT_AND" => Aggregate::OfList("BIT_AND"),
        "BIT_OR" => Aggregate::OfList("BIT_OR"),
        "BIT_XOR" => Aggregate::OfList("BIT_XOR"),
        "PUSH" => Aggregate::Push,
        _ => return None,
    })
}

/// Whether a function name is an aggregate of `COLLECT`.
pub(super) fn aggregate_needs_group(name: &str) -> bool {
    aggregate_of(name).is_some()
}
