//! Benchmark of contexts that are built for a question: how much of the evidence a context of a
//! given size contains, beside usual search methods. All contexts are built by the public route,
//! with the server's settings.

mod arms;
mod bm25;
mod conversations;
mod documents;
mod evidence;
mod figures;
mod fusion;
mod grades;
mod harm;
mod keys;
mod month;
mod order;
mod ranked;
mod suites;
mod told;
mod vector_cache;

pub(super) use arms::{Arm, Arms};
pub(super) use figures::{differences, share_of};
pub(super) use suites::{ContextSetting, Suite, run};
