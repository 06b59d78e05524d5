//! The top of the repository is what was agreed, and the map names only what is there.

use std::collections::BTreeSet;
use std::fs;

use super::sources::{files, root, text};

/// The entries at the top, beside dot files, the lock file and what building leaves.
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
    for hidden in [".clippy.toml", ".deny.toml", ".config/nextest.toml", ".cargo/config.toml"] {
        assert!(root().join(hidden).is_file(), "{hidden} is missing");
    }
}

#[test]
fn every_path_on_the_map_exists() {
    let map = text("docs/explanation/architecture.md");
    let ticked = map.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    // Paths of the API start with a slash; patterns and media types are no paths.
    let is_path = |word: &&str| {
        word.contains('/')
            && !word.starts_with('/')
            && !word.contains([' ', '*', '{', '$', '<', '(', ':', '…'])
            && !word.starts_with("application/")
            && !word.starts_with("text/")
    };
    let paths: Vec<&str> = ticked.filter(is_path).collect();
    assert!(paths.len() >= 10, "a map with {} paths shows little", paths.len());
    // A room may be named as it is inside its crate.
    let exists = |path: &&&str| {
        ["", "src", "embedded/src"].iter().any(|at| root().join(at).join(path).exists())
    };
    let lost: Vec<&&str> = paths.iter().filter(|path| !exists(path)).collect();
    assert!(lost.is_empty(), "docs/explanation/architecture.md names what is not there: {lost:?}");
}

/// What the first screen of the README says as long as no report of a run on a real arangod is committed.
const NEVER_RUN: &str = "No real arangod has been run with this project yet.";
/// Lines of a first screen.
const SCREEN_LINES: usize = 24;

#[test]
fn the_readme_says_at_once_that_no_real_arangod_was_run() {
    let readme = text("README.md");
    let screen = readme.lines().take(SCREEN_LINES).collect::<Vec<_>>().join("\n");
    let reported = files("docs", "").iter().any(|path| path.starts_with("docs/doctor-report"));
    assert_ne!(screen.contains(NEVER_RUN), reported, "README.md and docs/doctor-report* differ");
}
