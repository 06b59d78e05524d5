//! Implements WINDOW: computes for each row the aggregates of its neighbouring rows, which are
//! selected by count or by value.

use super::collect::State;
use super::executor::Executor;
use crate::error::{Code, Result};
use crate::expr::{Row, eval};
use crate::plan::{Bounds, Window, shifted};
use crate::value::Value;

/// Valid dates in milliseconds since 1970: the years 0 to 9999.
const TIMES: std::ops::RangeInclusive<f64> = -62_167_219_200_000.0..=253_402_300_799_999.0;

/// A row's value, and the smallest and largest value that the row's window includes.
#[derive(Clone, Copy)]
struct Reach {
    value: f64,
    low: f64,
    high: f64,
    valid: bool,
}

/// A row of a WINDOW and the arguments of the row's aggregates.
type WindowRow = (Row, Vec<Value>);

/// The rows added so far.
pub(super) struct Windowed<'q> {
    window: &'q Window,
    rows: Vec<WindowRow>,
    reaches: Vec<Reach>,
}

impl<'q> Windowed<'q> {
    /// Returns a WINDOW to which no rows have been added yet.
    pub(super) fn new(window: &'q Window) -> Self {
        Self { window, rows: Vec::new(), reaches: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, executor: &mut Executor<'q>, row: &mut Row) -> Result<()> {
        let mut values = Vec::with_capacity(self.window.aggregates.len());
        for (_, value, _) in &self.window.aggregates {
            values.push(eval(value, row, executor.binds, executor)?);
        }
        if let Some(range) = &self.window.range {
            let value = eval(range, row, executor.binds, executor)?;
            self.reaches.push(reach(&self.window.bounds, &value, executor)?);
        }
        executor.keep(row)?;
        executor.budget.hold(values.iter().map(Value::size_bytes).sum())?;
        self.rows.push((row.clone(), values));
        Ok(())
    }

    /// Returns all rows of a WINDOW; each row has the values of its aggregates.
    pub(super) fn finish(mut self, executor: &mut Executor<'q>) -> Result<Vec<Row>> {
        match self.window.bounds {
            Bounds::Rows(u64::MAX, 0) => self.run_on(executor)?,
            Bounds::Rows(before, behind) => {
                let last = self.rows.len().saturating_sub(1);
                let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
                for at in 0..self.rows.len() {
                    let from = at.saturating_sub(count(before));
                    let to = at.saturating_add(count(behind)).min(last);
                    self.fill(at, from..=to, executor)?;
                }
            }
            Bounds::Numbers(..) | Bounds::Durations(..) => self.by_value(executor)?,
        }
        Ok(self.rows.into_iter().map(|(row, _)| row).collect())
    }

    fn states(&self) -> Vec<State> {
        self.window.aggregates.iter().map(|(kind, ..)| State::of(*kind)).collect()
    }

    /// Computes the aggregates if every window begins with the first row. In this case each row is
    /// added to the aggregates only once.
    fn run_on(&mut self, executor: &mut Executor<'q>) -> Result<()> {
        let mut states = self.states();
        for at in 0..self.rows.len() {
            self.take(&mut states, at, executor)?;
            self.put(at, states.clone(), executor)?;
        }
        Ok(())
    }

    /// Returns the rows of a WINDOW that selects by value, in the order of the values. A row whose
    /// value is not a number has no window, and its value counts as 0 in the windows of other rows.
    fn by_value(&mut self, executor: &mut Executor<'q>) -> Result<()> {
        for at in 0..self.rows.len() {
            let here = self.reaches[at];
            if !here.valid {
                for (.., out) in &self.window.aggregates {
                    self.rows[at].0[*out] = Value::Null;
                }
                continue;
            }
            let inside: Vec<usize> = (0..self.rows.len())
                .take_while(|other| self.reaches[*other].value <= here.high)
                .filter(|other| here.low <= self.reaches[*other].value)
                .collect();
            executor.budget.row()?;
            self.fill(at, inside.into_iter(), executor)?;
        }
        Ok(())
    }

    fn fill(
        &mut self,
        at: usize,
        inside: impl Iterator<Item = usize>,
        executor: &mut Executor<'q>,
    ) -> Result<()> {
        let mut states = self.states();
        for other in inside {
            self.take(&mut states, other, executor)?;
        }
        self.put(at, states, executor)
    }

    fn take(&self, states: &mut [State], at: usize, executor: &mut Executor<'q>) -> Result<()> {
        executor.budget.row()?;
        for ((state, (kind, ..)), value) in
            states.iter_mut().zip(&self.window.aggregates).zip(&self.rows[at].1)
        {
            state.add(*kind, value.clone());
        }
        Ok(())
    }

    fn put(&mut self, at: usize, states: Vec<State>, executor: &mut Executor<'q>) -> Result<()> {
        for (state, (kind, _, out)) in states.into_iter().zip(&self.window.aggregates) {
            let value = state.finish(*kind, executor)?;
            executor.budget.hold(value.size_bytes())?;
            self.rows[at].0[*out] = value;
        }
        Ok(())
    }
}

/// Returns the range of values in a row's window; records a warning if the row's value is not
/// valid.
fn reach(bounds: &Bounds, value: &Value, executor: &mut Executor<'_>) -> Result<Reach> {
    const NOWHERE: Reach = Reach { value: 0.0, low: 0.0, high: 0.0, valid: false };
    match bounds {
        Bounds::Durations(before, behind) => {
            let Some(time) = value.as_f64().map(f64::trunc).filter(|time| TIMES.contains(time))
            else {
                let code = Code::QueryInvalidDateValue;
                executor.warnings.raise(code, code.text())?;
                return Ok(NOWHERE);
            };
            let date = Value::Double(time);
            let mut moved = |by: &str, duration: &Option<_>| match duration {
                Some(duration) => shifted(by, &date, duration, &mut executor.warnings),
                None => Ok(Some(time)),
            };
            let (low, high) = (moved("DATE_SUBTRACT", before)?, moved("DATE_ADD", behind)?);
            Ok(Reach {
                value: time,
                low: low.unwrap_or(f64::NEG_INFINITY),
                high: high.unwrap_or(f64::INFINITY),
                valid: true,
            })
        }
        Bounds::Numbers(before, behind) => {
            let Some(number) = value.to_number().and_then(|number| number.as_f64()) else {
                let code = Code::QueryInvalidArithmeticValue;
                executor.warnings.raise(code, code.text())?;
                return Ok(NOWHERE);
            };
            Ok(Reach { value: number, low: number - before, high: number + behind, valid: true })
        }
        Bounds::Rows(..) => Ok(NOWHERE),
    }
}
