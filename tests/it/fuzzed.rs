//! Replays the inputs of the fuzzer's targets, so that a fault that the fuzzer found once does not
//! come back, and tries mutated inputs.

use std::path::Path;

use crate::chance::{Chance, setting};

#[allow(unreachable_pub, reason = "public for the programs of the fuzzer")]
#[path = "../../fuzz/targets.rs"]
mod targets;

/// The targets by the name of their folder.
const TARGETS: [(&str, fn(&[u8])); 6] = [
    ("aql", targets::aql),
    ("http", targets::http),
    ("import", targets::import),
    ("keys", targets::keys),
    ("page_token", targets::page_token),
    ("tools", targets::tools),
];

/// Number of mutated inputs for each target; `VCTX_FUZZED_INPUTS` sets another number.
const INPUTS: u64 = 300;

/// Pieces that parsers often fail on.
const PIECES: [&[u8]; 28] = [
    b"\"",
    b"'",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b",",
    b":",
    b"..",
    b"/*",
    b"null",
    b"-0",
    b"1e308",
    b"9223372036854775808",
    b"18446744073709551616",
    b"@@c",
    b"FOR x IN ",
    b"%2F",
    b"\xff",
    b"\xc3",
    b"\0",
    b"\n",
    b"\n\n",
];

/// Maximum length of a mutated input in bytes.
const BYTES_MAX: usize = 20_000;

fn corpus() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

/// Returns the names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file"));
    let mut names: Vec<String> =
        files.map(|file| file.file_name().into_string().expect("a plain name")).collect();
    names.sort();
    names
}

/// Returns the inputs of a target with their names.
fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = corpus().join(target);
    let read = |name: String| (name.clone(), std::fs::read(folder.join(name)).expect("an input"));
    names(&folder).into_iter().map(read).collect()
}

#[test]
fn every_input_of_the_corpus_is_read_or_refused() {
    assert_eq!(names(&corpus()), TARGETS.map(|(name, _)| name), "one folder for each target");
    for (target, call) in TARGETS {
        for (name, input) in inputs(target) {
            // A panic shows the last printed line.
            println!("{target}/{name}");
            call(&input);
        }
    }
}

/// Changes an input in one to four places: a byte or a piece is put in, taken out or replaced, or
/// the input continues as another one.
fn mutated(inputs: &[(String, Vec<u8>)], chance: &mut Chance) -> Vec<u8> {
    let mut input = chance.one_of(inputs).1.clone();
    for _ in 0..=chance.below(4) {
        let place = |chance: &mut Chance, length: usize| {
            usize::try_from(chance.below(length as u64 + 1)).expect("a place")
        };
        let at = place(chance, input.len());
        let end = (at + place(chance, 8)).min(input.len());
        match chance.below(6) {
            0 => drop(input.splice(at..at, chance.one_of(&PIECES).iter().copied())),
            1 => drop(input.splice(at..end, chance.one_of(&PIECES).iter().copied())),
            2 => drop(input.drain(at..end)),
            3 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << chance.below(8)),
            4 => {
                let piece = input[at..end].to_vec();
                drop(input.splice(at..at, piece));
            }
            _ => {
                let other = &chance.one_of(inputs).1;
                let from = place(chance, other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
    input.truncate(BYTES_MAX);
    input
}

#[test]
fn mutated_inputs_are_read_or_refused() {
    let only = std::env::var("VCTX_FUZZED_TARGET").ok();
    for (target, call) in TARGETS {
        if only.as_ref().is_some_and(|only| only != target) {
            continue;
        }
        let inputs = inputs(target);
        let mut chance = Chance::new(setting("VCTX_FUZZED_SEED", 7));
        for number in 0..setting("VCTX_FUZZED_INPUTS", INPUTS) {
            let input = mutated(&inputs, &mut chance);
            let shown = || format!("{target}, input {number}: {}", input.escape_ascii());
            let ended = std::panic::catch_unwind(|| call(&input));
            assert!(ended.is_ok(), "{}", shown());
        }
    }
}
