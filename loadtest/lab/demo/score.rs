//! Checks the limits of the context window on every answer of the server.

use serde_json::Value;

use vctx_cli::output::number;
use vctx_core::window::Section;

/// Maximum number of violated limits that are reported in full.
const BROKEN_MAX: usize = 20;

/// Maximum size of a summary, in percent of the window (specification 002).
const SUMMARY_PERCENT_MAX: u64 = 15;

/// The limits of the context window, and the broken limits found so far.
#[derive(Debug, Clone, Default)]
pub struct Score {
    pub window: u64,
    pub warning: u64,
    pub flush: u64,
    pub target: u64,
    pub occupancy_max: u64,
    pub summary_tokens_max: u64,
    /// Number of flushes that could not reach the window's target mark.
    pub short_of_target: u64,
    /// One sentence for each broken limit of the window.
    pub broken: Vec<String>,
}

/// An eviction as reported in an answer of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flush {
    pub count: u64,
    pub batch: String,
    pub first_seq: u64,
    pub last_seq: u64,
    pub summary_tokens: u64,
    pub after: u64,
    pub reached: bool,
}

impl Flush {
    fn read(answer: &Value) -> Option<Flush> {
        let flush = answer.get("flush").filter(|flush| flush.is_object())?;
        Some(Flush {
            count: number(flush, "/evicted_count"),
            batch: vctx_cli::output::field(flush, "/evicted_batch_id"),
            first_seq: number(flush, "/first_seq"),
            last_seq: number(flush, "/last_seq"),
            summary_tokens: number(flush, "/new_summary_tokens"),
            after: number(flush, "/after_occupancy"),
            reached: flush.get("target_reached").and_then(Value::as_bool).unwrap_or(true),
        })
    }
}

impl Score {
    /// Reads the limits of the window from the state of a new agent.
    pub fn new(state: &Value) -> Score {
        Score {
            window: number(state, "/token_budget/max"),
            warning: number(state, "/token_budget/warning"),
            flush: number(state, "/token_budget/flush"),
            target: number(state, "/token_budget/target"),
            ..Score::default()
        }
    }

    /// Checks a server answer, or an agent's state, against the window's limits; returns the
    /// eviction that the answer reports, if any.
    pub fn take(&mut self, at: &str, answer: &Value) -> Option<Flush> {
        let Some(occupancy) = answer.pointer("/tokens/occupancy").and_then(Value::as_u64) else {
            self.broke(format!("{at}: the answer has no occupancy"));
            return None;
        };
        let summary = number(answer, "/tokens/summary");
        self.occupancy_max = self.occupancy_max.max(occupancy);
        if occupancy > self.window {
            self.broke(format!(
                "{at}: occupancy {occupancy} is above the window of {}",
                self.window
            ));
        }
        self.summary(at, summary);
        let cost = |section: Section| number(answer, &format!("/tokens/{}", section.name()));
        let sum: u64 = Section::ALL.into_iter().map(cost).sum();
        if sum != occupancy {
            self.broke(format!(
                "{at}: the sections have {sum} tokens, the occupancy is {occupancy}"
            ));
        }
        let flush = Flush::read(answer)?;
        self.summary(at, flush.summary_tokens);
        if !flush.reached {
            self.short_of_target += 1;
        } else if flush.after > self.target {
            self.broke(format!(
                "{at}: {} tokens after the flush, target {}",
                flush.after, self.target
            ));
        }
        Some(flush)
    }

    fn summary(&mut self, at: &str, tokens: u64) {
        self.summary_tokens_max = self.summary_tokens_max.max(tokens);
        if tokens > self.window * SUMMARY_PERCENT_MAX / 100 {
            self.broke(format!("{at}: the summary has {tokens} tokens, more than {SUMMARY_PERCENT_MAX} % of the window"));
        }
    }

    fn broke(&mut self, what: String) {
        if self.broken.len() < BROKEN_MAX {
            self.broken.push(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn score() -> Score {
        Score::new(
            &json!({"token_budget": {"warning": 700, "flush": 900, "target": 500, "max": 1000}}),
        )
    }

    fn answer(fifo: u64, summary: u64) -> Value {
        json!({"tokens": {"system": 10, "working": 0, "summary": summary, "notices": 0, "fifo": fifo, "occupancy": 10 + fifo + summary}})
    }

    #[test]
    fn what_keeps_the_limits_is_counted_only() {
        let mut score = score();
        let mut flushed = answer(300, 150);
        flushed["flush"] = json!({"evicted_count": 9, "evicted_batch_id": "b", "first_seq": 1, "last_seq": 9, "new_summary_tokens": 150,
            "after_occupancy": 460, "target_reached": true});
        assert_eq!(score.take("1", &answer(990, 0)), None);
        assert_eq!(score.take("2", &flushed).unwrap().last_seq, 9);
        flushed["flush"]["target_reached"] = json!(false);
        flushed["flush"]["after_occupancy"] = json!(600);
        assert!(score.take("3", &flushed).is_some());
        assert_eq!(
            (score.occupancy_max, score.summary_tokens_max, score.short_of_target),
            (1000, 150, 1)
        );
        assert_eq!(score.broken, Vec::<String>::new());
    }

    #[test]
    fn each_broken_limit_is_told() {
        let mut score = score();
        score.take("1", &answer(991, 0));
        score.take("2", &answer(0, 151));
        let mut flushed = answer(600, 0);
        flushed["flush"] = json!({"after_occupancy": 610, "target_reached": true});
        score.take("3", &flushed);
        score.take("4", &json!({}));
        let mut wrong = answer(100, 0);
        wrong["tokens"]["occupancy"] = json!(100);
        score.take("5", &wrong);
        let starts: Vec<&str> = score.broken.iter().map(|text| &text[..2]).collect();
        assert_eq!(starts, ["1:", "2:", "3:", "4:", "5:"], "{:?}", score.broken);
    }
}
