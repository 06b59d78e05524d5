//! Makes the doctor's report with one row for each selected check.
//!
//! A check that did not run never counts as passed.

use serde_json::{Value, json};

use crate::checks::{Check, Finding, Step, by_hand};

/// Outcome of a check in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The database gave the expected answer.
    Ok,
    /// The check passed, but the result needs attention.
    Warning,
    /// The database gave an unexpected answer.
    Failed,
    /// The check did not run; the row's `seen` says why, and how to run the check.
    Skipped,
}

impl Outcome {
    /// Returns the outcome as a word of the report.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

/// One row of the doctor's report.
#[derive(Clone, Debug)]
pub struct Row {
    /// The check of this row.
    pub check: &'static Check,
    /// The outcome of the check.
    pub outcome: Outcome,
    /// What the check observed, or why it observed nothing.
    pub seen: String,
}

/// How a doctor's visit (one run of `vctx doctor`) ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The doctor ran every possible check.
    Done,
    /// A signal or the time limit ended the doctor's visit.
    Interrupted,
    /// The visit ended early because the database does not answer.
    Unreachable(String),
    /// The visit ended early because the database refuses the credentials.
    Refused(String),
}

/// The result of a doctor's visit.
#[derive(Clone, Debug)]
pub struct Report {
    /// Rows of the report in the order of the checks.
    pub rows: Vec<Row>,
    /// How the visit ended.
    pub ended: End,
}

/// Maximum length of the text `seen`, in characters.
const SEEN_CHARS_MAX: usize = 400;

/// The selected checks, and the report's rows so far.
pub(super) struct Rows {
    wanted: Vec<&'static Check>,
    seen: Vec<Row>,
}

impl Rows {
    /// Selects the checks with the given names among those of the given steps; without names,
    /// selects all checks of these steps.
    pub(super) fn new(only: &[String], steps: &[Step]) -> Self {
        let named = |check: &&Check| only.is_empty() || only.iter().any(|id| id == check.id);
        let of_steps = |check: &&Check| steps.contains(&check.step);
        let wanted = by_hand().filter(of_steps).filter(named).collect();
        Self { wanted, seen: Vec::new() }
    }

    /// Returns whether a check of the given step is selected.
    pub(super) fn wants(&self, step: Step) -> bool {
        self.wanted.iter().any(|check| check.step == step)
    }

    /// Returns whether a check is selected.
    pub(super) fn wants_check(&self, check: &Check) -> bool {
        self.wanted.iter().any(|other| other.id == check.id)
    }

    fn note(&mut self, check: &'static Check, outcome: Outcome, seen: String) {
        let known = self.seen.iter().any(|row| row.check.id == check.id);
        if !self.wants_check(check) || known {
            return;
        }
        let seen = seen.chars().map(|c| if c.is_control() { ' ' } else { c });
        let seen = seen.take(SEEN_CHARS_MAX).collect();
        self.seen.push(Row { check, outcome, seen });
    }

    /// Records what a check observed, and whether this was expected.
    pub(super) fn see(&mut self, check: &'static Check, holds: bool, seen: impl Into<String>) {
        let outcome = if holds { Outcome::Ok } else { Outcome::Failed };
        self.note(check, outcome, seen.into());
    }

    /// Records the finding of a check that the server also runs itself.
    pub(super) fn find(&mut self, finding: Finding) {
        self.see(finding.check, finding.passed, finding.sentence);
    }

    /// Records a check that passed but needs attention.
    pub(super) fn warn(&mut self, check: &'static Check, seen: impl Into<String>) {
        self.note(check, Outcome::Warning, seen.into());
    }

    /// Records that a check cannot run, with the reason and a way to run it.
    pub(super) fn skip(&mut self, check: &'static Check, why: impl Into<String>) {
        self.note(check, Outcome::Skipped, why.into());
    }

    /// Skips all checks of a step that have no row in the report yet.
    pub(super) fn skip_rest(&mut self, step: Step, why: &str) {
        for check in self.open(step) {
            self.skip(check, why);
        }
    }

    /// Ends a step early: its next check counts as failed, and its later checks are skipped.
    pub(super) fn cut(&mut self, step: Step, why: &str) {
        for (at, check) in self.open(step).into_iter().enumerate() {
            match at {
                0 => self.see(check, false, why),
                _ => self.skip(check, format!("the step ended before this check: {why}")),
            }
        }
    }

    fn open(&self, step: Step) -> Vec<&'static Check> {
        let open = |check: &&&Check| {
            check.step == step && !self.seen.iter().any(|row| row.check.id == check.id)
        };
        self.wanted.iter().filter(open).copied().collect()
    }

    /// Makes the report in the order of the checks; a check without a recorded row counts as
    /// skipped.
    pub(super) fn end(mut self, ended: End) -> Report {
        let why = match &ended {
            End::Done => "not looked at",
            End::Interrupted => {
                "the visit ended early (by a signal or its time limit of 10 min); run it again"
            }
            End::Unreachable(_) | End::Refused(_) => "the database could not be asked any further",
        };
        for check in self.wanted.clone() {
            self.skip(check, why);
        }
        let place = |row: &Row| by_hand().position(|check| check.id == row.check.id);
        self.seen.sort_by_key(place);
        Report { rows: self.seen, ended }
    }
}

impl Report {
    /// Returns the number of report rows with the given outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.rows.iter().filter(|row| row.outcome == outcome).count()
    }

    /// Returns the report as JSON: the counts of the outcomes, and all rows.
    pub fn to_json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({"check": row.check.id, "step": row.check.step.text(), "outcome": row.outcome.text().to_lowercase(),
                    "expected": row.check.expected, "seen": row.seen, "why": row.check.why})
            })
            .collect();
        let ended = match &self.ended {
            End::Done => "done",
            End::Interrupted => "interrupted",
            End::Unreachable(_) => "unreachable",
            End::Refused(_) => "refused",
        };
        json!({
            "ended": ended, "ok": self.count(Outcome::Ok), "warning": self.count(Outcome::Warning),
            "failed": self.count(Outcome::Failed), "skipped": self.count(Outcome::Skipped), "rows": rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{COMMIT, IDLE, REACHED, ROOT};

    #[test]
    fn what_nobody_spoke_of_is_skipped_and_what_was_cut_fails_once() {
        let mut rows = Rows::new(&[], &[Step::Server, Step::Transactions]);
        rows.see(REACHED, true, "a\nb");
        rows.see(REACHED, false, "only the first word counts");
        rows.cut(Step::Transactions, "no answer");
        let report = rows.end(End::Done);
        let of = |check: &Check| {
            let row = report.rows.iter().find(|row| row.check.id == check.id).expect("a row");
            (row.outcome, row.seen.as_str())
        };
        assert_eq!(of(REACHED), (Outcome::Ok, "a b"));
        assert_eq!(of(ROOT), (Outcome::Skipped, "not looked at"));
        assert_eq!(of(IDLE).0, Outcome::Skipped);
        assert_eq!((report.count(Outcome::Failed), of(COMMIT).0), (1, Outcome::Skipped));
    }

    #[test]
    fn only_what_is_named_is_wanted() {
        let rows = Rows::new(&["transactions.idle".into()], &[Step::Server, Step::Transactions]);
        assert!(rows.wants(Step::Transactions) && !rows.wants(Step::Server));
        assert_eq!(rows.end(End::Done).rows.len(), 1);
    }
}
