//! Every file says over its door what it is for.

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
