//! Tests the crate `core`, which decides without I/O: rules of the memory, splitters and text
//! functions.

mod anthropic;
mod chunk;
mod clock;
mod conveyance;
mod dialect;
mod ledger;
mod memory;
mod openai;
mod policy;
mod proof;
mod scripts;
mod search;
mod split;
mod text;
mod trust;
mod window;
mod world;

/// Returns the number of cases that a long test tries: all with `VCTX_ROUNDS=full`, otherwise an
/// eighth.
fn share(full: u32) -> u32 {
    if all_rounds() { full } else { full.div_ceil(8) }
}

/// Returns the number of cases of a test with very many cases: all with `VCTX_ROUNDS=full`,
/// otherwise a fortieth.
fn sample(full: u32) -> u32 {
    if all_rounds() { full } else { full.div_ceil(40) }
}

#[allow(clippy::disallowed_methods, reason = "a test reads its own switch")]
fn all_rounds() -> bool {
    std::env::var("VCTX_ROUNDS").is_ok_and(|rounds| rounds == "full")
}
