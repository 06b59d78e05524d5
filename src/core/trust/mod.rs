//! Decides which callers may reach which agent and which texts are tainted, and traces where a text
//! came from.

mod admit;
mod taint;
mod trace;

pub use admit::{
    Actor, CalledName, Principal, Scope, admit, check_address, check_name, local_key, numbered,
    numbered_key,
};
pub use taint::{
    RULES, Rule, Scan, TaintMode, TaintReport, TaintSettings, chunk_place, from_outside,
    released_name, rules_of, rules_with_names, scan, shares_letters, shares_run, shows_outside,
    texts_of,
};
pub use trace::{Follow, Trace, TraceQuery, TraceStep, Vertex, VertexId, nothing_to_trace};
