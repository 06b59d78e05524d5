//! Loads for vctx.

fn main() {}
