//! Rules for dependencies: no banned crate is used, each chosen crate is used, and golden files
//! state the number of crates and which crates have several versions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::Command;

use serde_json::Value;

use super::golden::golden;
use super::sources::{holds, root, text, working};

/// Crates that are banned, also as indirect dependencies.
const BANNED: &[&str] = &["reqwest", "openssl", "openssl-sys", "native-tls", "async-std"];

/// Crates that the project decided to use: each must be a direct dependency, and `src` must use it.
const CARD: &[&str] = &[
    "tokio",
    "hyper",
    "hyperlocal",
    "arangors",
    "serde",
    "serde_json",
    "tiktoken-rs",
    "uuid",
    "tracing",
    "metrics",
    "metrics-exporter-prometheus",
    "figment",
];

/// Returns the target triple of the machine that runs the tests.
fn host() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.expect("`rustc -vV` names its host").to_owned()
}

/// Returns Cargo's metadata of the crates that this machine builds. Cargo downloads the crates that
/// no build has needed so far.
fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform"])
        .arg(host())
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Returns names and versions of the crates in the lock file, which covers all platforms.
fn locked() -> BTreeMap<String, BTreeSet<String>> {
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut name = String::new();
    for line in text("Cargo.lock").lines() {
        if let Some(found) = line.strip_prefix("name = ") {
            name = found.trim_matches('"').to_owned();
        } else if let Some(version) = line.strip_prefix("version = ").filter(|_| !name.is_empty()) {
            crates.entry(name.clone()).or_default().insert(version.trim_matches('"').to_owned());
        }
    }
    crates
}

#[test]
fn no_banned_crate_is_in_the_graph() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let nodes = metadata["resolve"]["nodes"].as_array().expect("a resolved graph");
    assert!(nodes.len() > 50, "a graph of {} crates is too small", nodes.len());
    let built: BTreeSet<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let locked = locked();
    for banned in BANNED {
        assert!(!built.contains(banned), "{banned} is built");
        assert!(!locked.contains_key(*banned), "{banned} is in Cargo.lock");
    }
}

#[test]
fn every_crate_of_the_card_is_direct_and_at_work() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages").iter();
    let own = packages.filter(|p| p["name"].as_str().is_some_and(|name| name.starts_with("vctx")));
    let dependencies: Vec<&Value> =
        own.flat_map(|p| p["dependencies"].as_array().expect("dependencies")).collect();
    let sources = working(&["src"]);
    for name in CARD {
        let direct = dependencies.iter().any(|d| d["name"] == *name && d["kind"].is_null());
        assert!(direct, "{name} is no direct dependency of vctx");
        let word = format!("{}::", name.replace('-', "_"));
        let at_work = sources.iter().any(|source| holds(&source.bare, &word));
        assert!(at_work, "{name} is named in no line of src");
    }
}

#[test]
fn the_number_of_crates_and_their_doubles_are_known() {
    let locked = locked();
    let count: usize = locked.values().map(BTreeSet::len).sum();
    golden("crates.txt", &format!("{count}\n"));
    let mut doubles = String::new();
    for (name, versions) in locked.iter().filter(|(_, versions)| versions.len() > 1) {
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        writeln!(doubles, "{name} {}", versions.join(" ")).expect("a text takes all");
    }
    golden("duplicates.txt", &doubles);
}

#[test]
fn every_dependency_of_the_workspace_is_used_by_a_member() {
    let workspace = format!("\n{}", text("Cargo.toml"));
    let section = |name: &str| {
        let sections = workspace.split("\n[").find_map(|part| part.strip_prefix(name));
        sections.unwrap_or_else(|| panic!("no section {name}")).to_owned()
    };
    let declared = section("workspace.dependencies]\n");
    let names: Vec<&str> =
        declared.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    let list = section("workspace]\n");
    let members = list.split_once("members = [").expect("members").1.split(']').next();
    let members: String = members
        .expect("a list")
        .split('"')
        .skip(1)
        .step_by(2)
        .map(|member| text(&format!("{member}/Cargo.toml")))
        .collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        let forms = [format!("\n{name}.workspace = true"), format!("\n{name} = {{ workspace")];
        assert!(forms.iter().any(|form| members.contains(form)), "no member uses {name}");
    }
}
