//! Gives the operator advice for each term that lowers the Conveyance score.

use super::formula::Term;

/// Advice for a term of the score that has no input.
pub(super) const NOTHING_COUNTED: &str = "the term has no counts yet: use the function that `lacks` names once, or ask for the agent's life (`--life`)";

/// Returns one sentence with the meaning of a low value of the term, and the operator's next step.
pub fn advice(term: Term) -> &'static str {
    match term {
        Term::W => {
            "messages without a position or searches without a result: run `vctx verify`, then check the questions"
        }
        Term::R => {
            "database requests without an answer: check vctx_store_unanswered_total and the database's own log"
        }
        Term::H => {
            "chains end at the limit of depth or duration: let the model yield, or check vctx_hb_terminated_total by reason"
        }
        Term::T => {
            "the slowest path takes too long: check the path with the highest cost, its index and its load"
        }
        Term::L => {
            "chunks came without late-chunking evidence: repair the ingest pipeline, the refused documents are in the error events"
        }
        Term::I => "a tier misses its probes: check vctx_tier_up, the sockets and the database",
        Term::A => {
            "flushes miss their target or their summaries lose too much: check the flush and summarize events"
        }
        Term::G => {
            "a guard fails or a write has no audit row: run the checks in guards/ and check vctx_guard_green"
        }
    }
}
