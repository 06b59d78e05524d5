//! What was seen: one row for each check that was wanted, none of them silently green.

use serde_json::{Value, json};

use super::check::{CHECKS, Check, Step};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was expected was seen.
    Ok,
    /// It works, but somebody should look.
    Warning,
    /// Something else was seen.
    Failed,
    /// It could not be made; `seen` says why, and how to run it.
    Skipped,
}

impl Outcome {
    /// As it stands in the table.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was looked at.
    pub check: &'static Check,
    /// How it ended.
    pub outcome: Outcome,
    /// What was seen, or why nothing was.
    pub seen: String,
}

/// Why a visit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything was looked at that could be.
    Done,
    /// A signal came.
    Interrupted,
    /// Nobody answers.
    Unreachable(String),
    /// The credentials are refused.
    Refused(String),
}

/// Everything that was seen.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order of the checks.
    pub rows: Vec<Row>,
    /// Why it ended.
    pub ended: Ended,
}

/// Longest text of `seen`, in characters.
const SEEN_CHARS_MAX: usize = 400;

/// What is wanted, and what was seen of it so far.
pub(super) struct Rows {
    wanted: Vec<&'static Check>,
    seen: Vec<Row>,
}

impl Rows {
    /// For those of the wanted names; all of the given steps if none is named.
    pub(super) fn new(only: &[String], steps: &[Step]) -> Self {
        let named = |check: &&&Check| only.is_empty() || only.iter().any(|id| id == check.id);
        let of_steps = |check: &&&Check| steps.contains(&check.step);
        let wanted = CHECKS.iter().filter(of_steps).filter(named).copied().collect();
        Self { wanted, seen: Vec::new() }
    }

    /// Whether something of a step is wanted.
    pub(super) fn wants(&self, step: Step) -> bool {
        self.wanted.iter().any(|check| check.step == step)
    }

    /// Whether a check is wanted.
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

    /// What was seen, and whether it is what was expected.
    pub(super) fn see(&mut self, check: &'static Check, holds: bool, seen: impl Into<String>) {
        let outcome = if holds { Outcome::Ok } else { Outcome::Failed };
        self.note(check, outcome, seen.into());
    }

    /// It works, but somebody should look.
    pub(super) fn warn(&mut self, check: &'static Check, seen: impl Into<String>) {
        self.note(check, Outcome::Warning, seen.into());
    }

    /// It cannot be made: why, and how to run it.
    pub(super) fn skip(&mut self, check: &'static Check, why: impl Into<String>) {
        self.note(check, Outcome::Skipped, why.into());
    }

    /// Everything of a step that was not seen cannot be made.
    pub(super) fn skip_rest(&mut self, step: Step, why: &str) {
        for check in self.open(step) {
            self.skip(check, why);
        }
    }

    /// A step ended early: what it was at failed, what was to follow was not made.
    pub(super) fn cut(&mut self, step: Step, why: &str) {
        for (at, check) in self.open(step).into_iter().enumerate() {
            match at {
                0 => self.see(check, false, why),
                _ => self.skip(check, format!("the step ended before: {why}")),
            }
        }
    }

    fn open(&self, step: Step) -> Vec<&'static Check> {
        let open = |check: &&&Check| {
            check.step == step && !self.seen.iter().any(|row| row.check.id == check.id)
        };
        self.wanted.iter().filter(open).copied().collect()
    }

    /// The rows in the order of the checks; what nobody spoke of is skipped, and says so.
    pub(super) fn end(mut self, ended: Ended) -> Report {
        let why = match &ended {
            Ended::Done => "not looked at",
            Ended::Interrupted => {
                "the visit was ended before (a signal, or its bound of 10 min); run it again"
            }
            Ended::Unreachable(_) | Ended::Refused(_) => {
                "the database could not be asked any further"
            }
        };
        for check in self.wanted.clone() {
            self.skip(check, why);
        }
        let place = |row: &Row| CHECKS.iter().position(|check| check.id == row.check.id);
        self.seen.sort_by_key(place);
        Report { rows: self.seen, ended }
    }
}

impl Report {
    /// Rows that ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.rows.iter().filter(|row| row.outcome == outcome).count()
    }

    /// Counts and rows for programs.
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
            Ended::Done => "done",
            Ended::Interrupted => "interrupted",
            Ended::Unreachable(_) => "unreachable",
            Ended::Refused(_) => "refused",
        };
        json!({
            "ended": ended, "ok": self.count(Outcome::Ok), "warning": self.count(Outcome::Warning),
            "failed": self.count(Outcome::Failed), "skipped": self.count(Outcome::Skipped), "rows": rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{COMMIT, IDLE, REACHED, ROOT};
    use super::*;

    #[test]
    fn what_nobody_spoke_of_is_skipped_and_what_was_cut_fails_once() {
        let mut rows = Rows::new(&[], &[Step::Server, Step::Transactions]);
        rows.see(REACHED, true, "a\nb");
        rows.see(REACHED, false, "only the first word counts");
        rows.cut(Step::Transactions, "no answer");
        let report = rows.end(Ended::Done);
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
        assert_eq!(rows.end(Ended::Done).rows.len(), 1);
    }
}
