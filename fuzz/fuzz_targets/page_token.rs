//! Runs the target `page_token` in cargo-fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vctx_fuzz::page_token(input));
