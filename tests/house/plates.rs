//! Checks that every source file begins with a sentence about its purpose and is short enough to
//! read.

use super::sources::{files, rust, text};

#[test]
fn every_rust_file_opens_with_a_plate() {
    let folders = ["src", "embedded/src", "embedded/tests", "loadtest", "tests"];
    let bare: Vec<String> = rust(&folders)
        .into_iter()
        .filter(|source| !source.text.starts_with("//! "))
        .map(|source| source.path)
        .collect();
    assert!(bare.is_empty(), "no `//!` sentence on the first line:\n{}", bare.join("\n"));
}

#[test]
fn every_query_guard_and_script_opens_with_its_comment() {
    let queries = files("aql", ".aql").into_iter().filter(|path| !text(path).starts_with("// "));
    let scripts = files("guards", ".sh").into_iter().filter(|path| {
        let text = text(path);
        let mut lines = text.lines();
        !(lines.next().is_some_and(|line| line.starts_with("#!"))
            && lines.next().is_some_and(|line| line.starts_with("# ")))
    });
    let bare: Vec<String> = queries.chain(scripts).collect();
    assert!(bare.is_empty(), "no comment at the top:\n{}", bare.join("\n"));
    assert!(!files("guards", ".sh").is_empty(), "there are no guards");
}

/// Maximum number of lines of a Rust file.
const FILE_LINES_MAX: usize = 600;

#[test]
fn a_rust_file_is_short_enough_to_read() {
    let long = rust(&["src", "embedded", "loadtest", "tests"]).into_iter().filter_map(|source| {
        let lines = source.text.lines().count();
        (lines > FILE_LINES_MAX).then(|| format!("{}: {lines} lines", source.path))
    });
    let long: Vec<String> = long.collect();
    assert!(long.is_empty(), "more than {FILE_LINES_MAX} lines:\n{}", long.join("\n"));
}
