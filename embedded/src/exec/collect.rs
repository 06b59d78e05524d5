//! Implements COLLECT: groups rows by keys, and returns the groups sorted by key.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::executor::Executor;
use crate::error::{Code, Error, Result};
use crate::expr::{Row, eval};
use crate::functions::{Call, function};
use crate::plan::{Aggregate, Collect, Into};
use crate::value::{Object, Ordered, Value, compare};

/// The groups of the rows added so far.
pub(super) struct Groups<'q> {
    collect: &'q Collect,
    groups: BTreeMap<Vec<Ordered>, Group>,
}

/// One group of rows.
struct Group {
    row: Row,
    count: i64,
    aggregates: Vec<State>,
    into: Vec<Value>,
}

/// The intermediate result of an aggregate.
#[derive(Clone)]
pub(super) enum State {
    Count(i64),
    Extreme(Option<Value>),
    Sum { integers: Option<i64>, sum: f64, numbers: i64, seen: bool, bad: bool },
    List(Vec<Value>),
}

impl<'q> Groups<'q> {
    /// Returns the collector of a COLLECT, which has no groups yet.
    pub(super) fn new(collect: &'q Collect) -> Self {
        Self { collect, groups: BTreeMap::new() }
    }

    fn group(&self, row: &Row) -> Group {
        let aggregates =
            self.collect.aggregates.iter().map(|(kind, ..)| State::of(*kind)).collect();
        Group { row: row.clone(), count: 0, aggregates, into: Vec::new() }
    }

    /// Adds a row to the row's group.
    pub(super) fn add(&mut self, executor: &mut Executor<'q>, row: &mut Row) -> Result<()> {
        let mut keys = Vec::with_capacity(self.collect.keys.len());
        for (key, _) in &self.collect.keys {
            keys.push(Ordered(eval(key, row, executor.binds, executor)?));
        }
        let mut values = Vec::with_capacity(self.collect.aggregates.len());
        for (_, value, _) in &self.collect.aggregates {
            values.push(eval(value, row, executor.binds, executor)?);
        }
        let kept = match &self.collect.into {
            Some((Into::Value(value), _)) => Some(eval(value, row, executor.binds, executor)?),
            Some((Into::Variables(variables), _)) => {
                let mut object = Object::with_capacity(variables.len());
                for (name, value) in variables {
                    object.insert(Arc::clone(name), eval(value, row, executor.binds, executor)?);
                }
                Some(Value::object(object))
            }
            None => None,
        };
        if !self.groups.contains_key(&keys) {
            executor.keep(row)?;
            self.groups.insert(keys.clone(), self.group(row));
        }
        let Some(group) = self.groups.get_mut(&keys) else { return Err(Error::of(Code::Internal)) };
        group.count += 1;
        for (((kind, ..), state), value) in
            self.collect.aggregates.iter().zip(&mut group.aggregates).zip(values)
        {
            if matches!(state, State::List(_)) {
                executor.budget.hold(value.size_bytes())?;
            }
            state.add(*kind, value);
        }
        if let Some(kept) = kept {
            executor.budget.hold(kept.size_bytes())?;
            group.into.push(kept);
        }
        Ok(())
    }

    /// Returns one row for each group. A COLLECT without keys returns one row even if there are no
    /// input rows.
    pub(super) fn finish(mut self, executor: &mut Executor<'q>, row: &Row) -> Result<Vec<Row>> {
        if self.groups.is_empty() && self.collect.keys.is_empty() {
            let group = self.group(row);
            self.groups.insert(Vec::new(), group);
        }
        let collect = self.collect;
        let mut rows = Vec::with_capacity(self.groups.len());
        for (keys, group) in self.groups {
            let mut row = group.row;
            for (key, (_, out)) in keys.into_iter().zip(&collect.keys) {
                row[*out] = key.0;
            }
            for (state, (kind, _, out)) in group.aggregates.into_iter().zip(&collect.aggregates) {
                row[*out] = state.finish(*kind, executor)?;
            }
            if let Some((_, out)) = &collect.into {
                row[*out] = Value::array(group.into);
            }
            if let Some(out) = collect.count {
                row[out] = Value::Int(group.count);
            }
            rows.push(row);
        }
        Ok(rows)
    }
}

impl State {
    /// The initial state of an aggregate.
    pub(super) fn of(kind: Aggregate) -> Self {
        match kind {
            Aggregate::Count => Self::Count(0),
            Aggregate::Min | Aggregate::Max => Self::Extreme(None),
            Aggregate::Sum | Aggregate::Average => {
                Self::Sum { integers: Some(0), sum: 0.0, numbers: 0, seen: false, bad: false }
            }
            Aggregate::OfList(_) | Aggregate::Push => Self::List(Vec::new()),
        }
    }

    /// Adds a value to the aggregate.
    pub(super) fn add(&mut self, kind: Aggregate, value: Value) {
        match self {
            Self::Count(n) => *n += 1,
            Self::Extreme(best) => {
                let better = match best {
                    None => true,
                    Some(best) if kind == Aggregate::Min => compare(&value, best).is_lt(),
                    Some(best) => compare(&value, best).is_gt(),
                };
                if better && !value.is_null() {
                    *best = Some(value);
                }
            }
            Self::Sum { integers, sum, numbers, seen, bad } => {
                *seen = true;
                match value.as_f64() {
                    Some(x) => {
                        *sum += x;
                        *numbers += 1;
                        *integers = match (&value, *integers) {
                            (Value::Int(i), Some(total)) => total.checked_add(*i),
                            _ => None,
                        };
                    }
                    None => *bad |= !value.is_null(),
                }
            }
            Self::List(items) => items.push(value),
        }
    }

    /// Returns the aggregate's result over all added values.
    pub(super) fn finish(self, kind: Aggregate, executor: &mut Executor<'_>) -> Result<Value> {
        Ok(match self {
            Self::Count(n) => Value::Int(n),
            Self::Extreme(best) => best.unwrap_or_default(),
            Self::Sum { seen: false, .. } | Self::Sum { bad: true, .. } => Value::Null,
            Self::Sum { sum, numbers, .. } if kind == Aggregate::Average => {
                if numbers == 0 {
                    Value::Null
                } else {
                    Value::finite(sum / numbers as f64).unwrap_or_default()
                }
            }
            Self::Sum { integers: Some(total), .. } => Value::Int(total),
            Self::Sum { sum, .. } => Value::finite(sum).unwrap_or_default(),
            Self::List(items) => match kind {
                Aggregate::OfList(name) => {
                    let function = function(name).ok_or_else(|| Error::of(Code::Internal))?;
                    let mut call = Call { name: function.name, warnings: &mut executor.warnings };
                    (function.run)(&mut call, &[Value::array(items)])?
                }
                _ => Value::array(items),
            },
        })
    }
}
