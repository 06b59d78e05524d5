//! Nodes that need all rows first: sorts, groups, and the halt before a write.

use super::collect::Groups;
use super::executor::Executor;
use super::window::Windowed;
use crate::error::Result;
use crate::expr::{Expr, Row, eval};
use crate::plan::Collect;
use crate::value::{Value, compare};

/// Rows a sort with a limit may hold beyond those it needs.
const SORT_SLACK: usize = 256;

/// What a stage has gathered so far.
pub(super) enum Gathered<'q> {
    /// The stage ends the pipeline.
    Nothing,
    /// Rows as they came.
    Rows(Vec<Row>),
    /// Rows with their sort keys.
    Sorted { keys: &'q [(Expr, bool)], keep: Option<usize>, rows: Vec<(Vec<Value>, Row)> },
    /// Groups.
    Groups(Groups<'q>),
    /// Rows with what the aggregates of a window take of them.
    Windowed(Windowed<'q>),
}

impl<'q> Gathered<'q> {
    /// A sort; with `keep` only the first rows matter.
    pub(super) fn sorted(keys: &'q [(Expr, bool)], keep: Option<usize>) -> Self {
        Self::Sorted { keys, keep, rows: Vec::new() }
    }

    /// The groups of a `COLLECT`.
    pub(super) fn groups(collect: &'q Collect) -> Self {
        Self::Groups(Groups::new(collect))
    }

    /// Takes a row in.
    pub(super) fn add(&mut self, executor: &mut Executor<'q>, row: &mut Row) -> Result<()> {
        match self {
            Self::Nothing => {}
            Self::Rows(rows) => {
                executor.keep(row)?;
                rows.push(row.clone());
            }
            Self::Sorted { keys, keep, rows } => {
                let mut values = Vec::with_capacity(keys.len());
                for (key, _) in *keys {
                    values.push(eval(key, row, executor.binds, executor)?);
                }
                executor.keep(row)?;
                rows.push((values, row.clone()));
                if let Some(keep) = *keep
                    && rows.len() >= keep.saturating_mul(2).saturating_add(SORT_SLACK)
                {
                    sort(rows, keys);
                    let gone: usize =
                        rows.drain(keep..).map(|(_, row)| executor.own_bytes(&row)).sum();
                    let held = executor.budget.held().saturating_sub(gone as u64);
                    executor.budget.release_to(held);
                }
            }
            Self::Groups(groups) => groups.add(executor, row)?,
            Self::Windowed(windowed) => windowed.add(executor, row)?,
        }
        Ok(())
    }

    /// The rows for the next stage; none if there is no next stage.
    pub(super) fn finish(self, executor: &mut Executor<'q>, row: &Row) -> Result<Option<Vec<Row>>> {
        Ok(match self {
            Self::Nothing => None,
            Self::Rows(rows) => Some(rows),
            Self::Sorted { keys, mut rows, .. } => {
                sort(&mut rows, keys);
                Some(rows.into_iter().map(|(_, row)| row).collect())
            }
            Self::Groups(groups) => Some(groups.finish(executor, row)?),
            Self::Windowed(windowed) => Some(windowed.finish(executor)?),
        })
    }
}

fn sort(rows: &mut [(Vec<Value>, Row)], keys: &[(Expr, bool)]) {
    rows.sort_by(|(a, _), (b, _)| {
        for ((x, y), (_, descending)) in a.iter().zip(b).zip(keys) {
            let order = compare(x, y);
            if order.is_ne() {
                return if *descending { order.reverse() } else { order };
            }
        }
        std::cmp::Ordering::Equal
    });
}
