//! Gives the operator advice for each term that lowers the Conveyance score.

use super::formula::Term;

/// Advice for a term of the score that has no input.
pub(super) const NOTHING_COUNTED: &str = "the term has no counts yet: use the function that `lacks` names once, or ask for the agent's life (`--life`)";

/// Returns one sentence with the meaning of a low value of the term, and the operator's next step.
pub fn advice(term: Term) -> &'static str {
    match term {
        Term::W => {
            "if conservation is below 1, messages have no place: run `vctx verify`; if the hit rate is low, searches found nothing: ask with fewer words, or look whether the text was ever stored (`vctx why`)"
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

/// Returns what the best value of the term means; the best value is 1, and for T at most 1.
pub(super) fn good(term: Term) -> &'static str {
    match term {
        Term::W => "every message has a place, and every search of recall storage finds something",
        Term::R => "the database answers every request",
        Term::H => "every chain of heartbeats ends by the model's decision",
        Term::T => "99 of 100 calls take at most the allowed time",
        Term::L => "every chunk comes with evidence of late chunking",
        Term::I => "every probe of a tier is answered",
        Term::A => "every flush reaches its target with a summary that keeps the text",
        Term::G => "every check passes, and every write has its audit row",
    }
}
