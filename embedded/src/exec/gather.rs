//! Collects all rows before the next node runs, for sorts, COLLECT, WINDOW and the buffer before a
//! write.

use super::collect::Groups;
use super::executor::Executor;
#[cfg(feature = "conformance")]
use super::window::Windowed;
use crate::error::Result;
use crate::expr::{Expr, Row, eval};
use crate::plan::Collect;
use crate::value::{Value, compare};

/// Number of rows that a sort with a limit may keep in excess of the limit.
const SORT_SLACK: usize = 256;

/// The rows that a stage has collected.
pub(super) enum Gathered<'q> {
    /// Collects no rows, because this stage is the last one.
    Nothing,
    /// Rows in the order of arrival.
    Rows(Vec<Row>),
    /// Rows with their sort keys.
    Sorted { keys: &'q [(Expr, bool)], keep: Option<usize>, rows: Vec<(Vec<Value>, Row)> },
    /// Rows grouped by a `COLLECT`.
    Groups(Groups<'q>),
    /// Rows with the arguments of a WINDOW's aggregates.
    #[cfg(feature = "conformance")]
    Windowed(Windowed<'q>),
}

impl<'q> Gathered<'q> {
    /// Returns a collector for a sort, which may need only the first `keep` rows.
    pub(super) fn sorted(keys: &'q [(Expr, bool)], keep: Option<usize>) -> Self {
        Self::Sorted { keys, keep, rows: Vec::new() }
    }

    /// Returns a collector for the groups of a `COLLECT`.
    pub(super) fn groups(collect: &'q Collect) -> Self {
        Self::Groups(Groups::new(collect))
    }

    /// Adds a row.
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
                    let held = executor.budget.bytes_held().saturating_sub(gone as u64);
                    executor.budget.release_to(held);
                }
            }
            Self::Groups(groups) => groups.add(executor, row)?,
            #[cfg(feature = "conformance")]
            Self::Windowed(windowed) => windowed.add(executor, row)?,
        }
        Ok(())
    }

    /// Returns the rows for the next stage; `None` if there is no next stage.
    pub(super) fn finish(self, executor: &mut Executor<'q>, row: &Row) -> Result<Option<Vec<Row>>> {
        Ok(match self {
            Self::Nothing => None,
            Self::Rows(rows) => Some(rows),
            Self::Sorted { keys, mut rows, .. } => {
                sort(&mut rows, keys);
                Some(rows.into_iter().map(|(_, row)| row).collect())
            }
            Self::Groups(groups) => Some(groups.finish(executor, row)?),
            #[cfg(feature = "conformance")]
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
