//! Checks that the top level of the repository contains exactly the agreed files and folders, and
//! that the architecture page names existing paths.

use std::collections::BTreeSet;
use std::fs;

use super::sources::{files, root, text};

/// The agreed files and folders at the top level of the repository, without dot files, the lock
/// file and build output.
const TOP: &[&str] = &[
    "Cargo.toml",
    "README.md",
    "rust-toolchain.toml",
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "src",
    "aql",
    "arango-setup",
    "clients",
    "deploy",
    "guards",
    "tests",
    "loadtest",
    "embedded",
    "fuzz",
    "docs",
];

#[test]
fn the_top_level_is_what_was_agreed() {
    let entries = fs::read_dir(root()).expect("a readable root");
    let names =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let kept = |name: &String| !name.starts_with('.') && name != "target" && name != "Cargo.lock";
    let found: BTreeSet<String> = names.filter(kept).collect();
    let agreed: BTreeSet<String> = TOP.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, agreed);
    for hidden in [".clippy.toml", ".deny.toml", ".cargo/config.toml"] {
        assert!(root().join(hidden).is_file(), "{hidden} is missing");
    }
}

#[test]
fn every_path_on_the_map_exists() {
    let map = text("docs/explanation/architecture.md");
    let ticked = map.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    // Words that start with a slash (paths of the HTTP API), patterns and media types are not
    // checked.
    let is_path = |word: &&str| {
        word.contains('/')
            && !word.starts_with('/')
            && !word.contains([' ', '*', '{', '$', '<', '(', ':', '…'])
            && !word.starts_with("application/")
            && !word.starts_with("text/")
    };
    let paths: Vec<&str> = ticked.filter(is_path).collect();
    assert!(paths.len() >= 10, "a map with {} paths shows little", paths.len());
    // A module may be named by its path within its crate.
    let exists = |path: &&&str| {
        ["", "src", "embedded/src"].iter().any(|at| root().join(at).join(path).exists())
    };
    let lost: Vec<&&str> = paths.iter().filter(|path| !exists(path)).collect();
    assert!(lost.is_empty(), "docs/explanation/architecture.md names what is not there: {lost:?}");
}

/// Sentence that the README's first screen must contain until the report of a run on a real arangod
/// is committed.
const NEVER_RUN: &str = "No real arangod has been run with this project yet.";
/// Number of lines that count as the README's first screen.
const SCREEN_LINES: usize = 24;

#[test]
fn the_readme_says_at_once_that_no_real_arangod_was_run() {
    let readme = text("README.md");
    let screen = readme.lines().take(SCREEN_LINES).collect::<Vec<_>>().join("\n");
    let reported = files("docs", "").iter().any(|path| path.starts_with("docs/doctor-report"));
    assert_ne!(screen.contains(NEVER_RUN), reported, "README.md and docs/doctor-report* differ");
}

/// Maximum number of lines of the README.
const README_LINES_MAX: usize = 120;
/// Attributes that a line of `.gitattributes` may set.
const ATTRIBUTES: &[&str] = &[
    "text=auto",
    "eol=lf",
    "binary",
    "linguist-generated",
    "linguist-documentation",
    "linguist-language=SQL",
];

#[test]
fn the_readme_is_short() {
    let lines = text("README.md").lines().count();
    assert!(lines <= README_LINES_MAX, "README.md has {lines} lines, at most {README_LINES_MAX}");
}

/// Returns the names in backticks that are at the beginnings of the lines of a list or table.
fn opening_names(lines: &str, opening: &str) -> BTreeSet<String> {
    let names = lines.lines().filter_map(|line| line.strip_prefix(opening)?.split('`').next());
    names.map(str::to_owned).collect()
}

#[test]
fn the_map_and_the_crate_doc_name_every_crate() {
    let parents = ["src", "loadtest"].map(|folder| root().join(folder));
    let folders = parents.iter().flat_map(|parent| fs::read_dir(parent).expect("a folder"));
    let folders = folders.map(|entry| entry.expect("an entry").path());
    let mut crates: BTreeSet<String> = folders
        .filter(|folder| folder.join("Cargo.toml").is_file())
        .map(|folder| folder.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(opening_names(&text("src/vctx/lib.rs"), "//! - `"), crates, "src/vctx/lib.rs");
    crates.extend(["vctx".to_owned(), "arango-embedded".to_owned()]);
    let map = text("docs/explanation/architecture.md");
    let table = map.split("\n## ").find(|section| section.starts_with("Crates\n"));
    assert_eq!(opening_names(table.expect("a section Crates"), "| `"), crates, "the map");
}

/// Whether a path matches a pattern: an exact path, `folder/**`, or `*.ending`.
fn matches(pattern: &str, path: &str) -> bool {
    match (pattern.strip_suffix("/**"), pattern.strip_prefix('*')) {
        (Some(folder), _) => path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
        (_, Some(ending)) => path.ends_with(ending),
        _ => path == pattern,
    }
}

#[test]
fn attributes_are_known_and_generated_files_are_marked() {
    let attributes = text(".gitattributes");
    let mut marked = Vec::new();
    let every: Vec<String> = ["src", "tests", "embedded", "loadtest", "clients", "docs", "aql"]
        .iter()
        .flat_map(|folder| files(folder, ""))
        .chain(["Cargo.lock".to_owned()])
        .collect();
    let lines = attributes.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let (pattern, said) = line.split_once(' ').unwrap_or((line, ""));
        let known = said.split(' ').all(|attribute| ATTRIBUTES.contains(&attribute));
        assert!(known, ".gitattributes: {line}");
        assert!(
            every.iter().any(|path| matches(pattern, path)),
            ".gitattributes: {pattern} is gone"
        );
        if said.contains("linguist-generated") {
            marked.push(pattern);
        }
    }
    let generated = every.iter().filter(|path| {
        let name = path.rsplit('/').next().expect("a name");
        let opens_so = |path: &str| {
            let opening = fs::read_to_string(root().join(path)).unwrap_or_default();
            let opening = opening.lines().take(4).collect::<Vec<_>>().join(" ");
            ["Printed from", "Printed by", "Made from"].iter().any(|said| opening.contains(said))
        };
        ["Cargo.lock", "package-lock.json"].contains(&name)
            || path.starts_with("tests/golden/")
            || path.starts_with("clients/typescript/types/")
            || (!path.ends_with(".rs") && opens_so(path))
    });
    for path in generated {
        assert!(marked.iter().any(|pattern| matches(pattern, path)), "{path} is not marked");
    }
}

/// Maximum number of lines of all golden files together. A reviewer cannot be expected to read more
/// lines.
const GOLDEN_LINES_MAX: usize = 10_000;

#[test]
fn golden_files_can_be_read() {
    let folders = ["tests/golden", "tests/scripts", "embedded/tests/scripts"];
    let printed = folders.iter().flat_map(|folder| files(folder, ""));
    let all = printed.chain(["embedded/tests/recorded/passing.txt".to_owned()]);
    let lines: usize = all.map(|path| text(&path).lines().count()).sum();
    assert!(lines <= GOLDEN_LINES_MAX, "{lines} lines, at most {GOLDEN_LINES_MAX}");
}
