//! What to do about a term that pulls the score down, in one sentence for whoever is on call.

use super::formula::Term;

/// What to do about a term that lacks an input.
pub(super) const NOTHING_COUNTED: &str = "nothing was counted for it yet: use what `lacks` names once, or ask for the agent's life (`--life`)";

/// One sentence: what the term means when it is low, and the next step.
pub fn advice(term: Term) -> &'static str {
    match term {
        Term::W => {
            "messages without a place or searches that find nothing: run `vctx verify`, then look at what is searched for"
        }
        Term::R => {
            "database requests without an answer: look at vctx_store_unanswered_total and at the database's own log"
        }
        Term::H => {
            "chains run into depth or duration: let the model yield, or look at vctx_hb_terminated_total by reason"
        }
        Term::T => {
            "the slowest way takes too long: look at the path with the highest cost, its index and its load"
        }
        Term::L => {
            "chunks came without late-chunking evidence: mend the ingest pipeline, the refused documents are in the error events"
        }
        Term::I => "a tier misses its probes: look at vctx_tier_up, the sockets and the database",
        Term::A => {
            "flushes miss their target or their summaries lose too much: look at the flush and summarize events"
        }
        Term::G => {
            "a guard is red or a write has no audit row: run the checks in guards/ and look at vctx_guard_green"
        }
    }
}
