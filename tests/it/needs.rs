//! What a test needs of its machine: without it the test is left out at a desk and fails in CI.

/// Says that a test is left out. In CI (`CI` is set) nothing may be left out.
pub(crate) fn left_out(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "CI must not leave this out: {why}");
    println!("left out: {why}");
}
