//! Rows of the engine benchmark's report: figures of the engine and of the compared program, and a
//! goal.

use serde_json::{Value, json};

use crate::load::Measured;

/// Durations of a call of the engine or of the compared program, in microseconds; `None` for a
/// figure that was not measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) wall_p50: Option<f64>,
    pub(crate) wall_p99: Option<f64>,
    /// Processor time of the measured program's threads.
    pub(crate) cpu_p50: Option<f64>,
    pub(crate) cpu_mean: Option<f64>,
}

/// Returns a quantile of the values; `None` if there are no values.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((share * last as f64).round() as usize).copied()
}

/// Returns the mean of the values; `None` if there are no values.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

impl Figures {
    /// Computes figures from the durations of single calls, in microseconds.
    pub(crate) fn of(wall: &[f64], cpu: &[f64]) -> Self {
        Self {
            wall_p50: quantile(wall, 0.5),
            wall_p99: quantile(wall, 0.99),
            cpu_p50: quantile(cpu, 0.5),
            cpu_mean: mean(cpu),
        }
    }

    /// Computes the figures of calls that a closed loop made. `cpu_seconds` is the processor time
    /// of all calls together.
    pub(crate) fn of_loop(measured: &Measured, cpu_seconds: Option<f64>) -> Self {
        let calls = measured.calls().max(1) as f64;
        Self {
            wall_p50: Some(measured.micros(0.5)),
            wall_p99: Some(measured.micros(0.99)),
            cpu_p50: None,
            cpu_mean: cpu_seconds.map(|seconds| seconds * 1e6 / calls),
        }
    }

    fn json(&self) -> Value {
        json!({
            "wall_p50_us": self.wall_p50, "wall_p99_us": self.wall_p99,
            "cpu_p50_us": self.cpu_p50, "cpu_mean_us": self.cpu_mean,
        })
    }
}

/// A goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// A row of the engine benchmark's report.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Letter of the benchmark's part: a to f.
    pub(crate) part: char,
    /// The measured operation.
    pub(crate) what: String,
    pub(crate) engine: Figures,
    /// Name and figures of the compared program.
    pub(crate) other: Option<(String, Figures)>,
    /// Name of the figure that the goal concerns.
    pub(crate) basis: &'static str,
    /// Value of the figure that the goal concerns: a ratio, a rate, or seconds.
    pub(crate) is: Option<f64>,
    pub(crate) goal: Option<Goal>,
    /// Further facts about the measurement: recall, parameters, counts.
    pub(crate) note: String,
}

impl Row {
    /// Whether the figure meets the goal; `None` if the row has no goal or no figure.
    pub(crate) fn met(&self) -> Option<bool> {
        match (self.is?, self.goal?) {
            (is, Goal::AtMost(most)) => Some(is <= most),
            (is, Goal::AtLeast(least)) => Some(is >= least),
        }
    }

    /// Returns the row as JSON.
    pub(crate) fn json(&self) -> Value {
        let goal = match self.goal {
            None => Value::Null,
            Some(Goal::AtMost(most)) => json!({"at_most": most}),
            Some(Goal::AtLeast(least)) => json!({"at_least": least}),
        };
        json!({
            "part": self.part.to_string(), "what": self.what, "engine": self.engine.json(),
            "other": self.other.as_ref().map(|(name, figures)| json!({"name": name, "figures": figures.json()})),
            "basis": self.basis, "is": self.is, "goal": goal, "met": self.met(), "note": self.note,
        })
    }
}

/// Returns the ratio of the engine's figure to the compared program's figure.
pub(crate) fn ratio(ours: Option<f64>, theirs: Option<f64>) -> Option<f64> {
    let (ours, theirs) = (ours?, theirs?);
    (theirs > 0.0).then_some(ours / theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_goals() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 0.5), Some(50.0));
        assert_eq!(quantile(&values, 0.99), Some(99.0));
        assert_eq!(quantile(&[], 0.5), None);
        let row = |is, goal| Row {
            part: 'a',
            what: String::new(),
            engine: Figures::default(),
            other: None,
            basis: "",
            is,
            goal,
            note: String::new(),
        };
        assert_eq!(row(Some(1.3), Some(Goal::AtMost(1.3))).met(), Some(true));
        assert_eq!(row(Some(1.4), Some(Goal::AtMost(1.3))).met(), Some(false));
        assert_eq!(row(Some(1.4), Some(Goal::AtLeast(1.3))).met(), Some(true));
        assert_eq!(row(None, Some(Goal::AtLeast(1.3))).met(), None);
    }
}
