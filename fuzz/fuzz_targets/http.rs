//! Runs the target `http` in cargo-fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vctx_fuzz::http(input));
