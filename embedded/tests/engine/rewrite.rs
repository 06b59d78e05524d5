//! After a rewrite of the store, no file contains removed data and live data is unchanged; a kill
//! at any moment loses nothing.

use std::fs;
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use arango_embedded::schema::{Collection, CollectionKind, View};
use arango_embedded::txn::{Declared, WriteOptions};
use arango_embedded::value::{Object, Value, parse};
use arango_embedded::{Engine, Options, rewrite};

const DOCUMENTS: i64 = 400;
/// A text in every document that the test removes; the files contain it in the stored document and
/// as a word in the view.
const SECRET: &str = "quoxcanary";
const LIVING: &str = "keepsake";

fn options() -> Options {
    Options { memtable_bytes: 64 << 10, view_commit_ms: 20, ..Options::default() }
}

fn document(number: i64) -> Value {
    let word = if number % 2 == 0 { SECRET } else { LIVING };
    let mut object = Object::new();
    object.insert("_key", format!("k{number}").as_str().into());
    object.insert("n", number.into());
    object.insert("text", format!("{word}{number} {}", "x".repeat(2_000)).as_str().into());
    Value::object(object)
}

fn view() -> View {
    let mut properties = Object::new();
    let links = br#"{"c": {"includeAllFields": true, "analyzers": ["text_en"]}}"#;
    properties.insert("links", parse(links).expect("links"));
    let properties = Value::object(properties);
    View { id: 0, name: "v".into(), kind: "arangosearch".into(), properties }
}

/// Fills an engine's directory and then removes every other document.
fn fill(directory: &Path) {
    let engine = Engine::open(directory, options()).unwrap();
    let collection = Collection::new("c", CollectionKind::Document);
    engine.create_collection("_system", collection).unwrap();
    engine.put_view("_system", view()).unwrap();
    let declared = Declared { write: vec!["c".into()], ..Declared::default() };
    let c = engine.database("_system").unwrap().collections["c"].clone();
    let o = WriteOptions::default();
    for number in 0..DOCUMENTS {
        let transaction = engine.begin("_system", &declared, false).unwrap();
        transaction.insert(&c, &document(number), &o).unwrap();
        transaction.commit(true).unwrap();
    }
    engine.commit_views().unwrap();
    assert!(holds(directory, SECRET), "a search that finds nothing before would prove nothing");
    for number in (0..DOCUMENTS).filter(|number| number % 2 == 0) {
        let transaction = engine.begin("_system", &declared, true).unwrap();
        transaction.remove(&c, &format!("k{number}"), None, &o).unwrap();
        transaction.commit(true).unwrap();
    }
    engine.commit_views().unwrap();
}

/// Whether any file below a directory contains the given text.
fn holds(directory: &Path, text: &str) -> bool {
    fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, text);
        }
        match fs::read(&path) {
            Ok(bytes) => bytes.windows(text.len()).any(|window| window == text.as_bytes()),
            Err(error) if was_merged(&path, &error) => false,
            Err(error) => panic!("{}: {error}", path.display()),
        }
    })
}

/// Whether a file is missing because a merge of segments removed it. Merges continue for a moment
/// after the engine is closed.
fn was_merged(path: &Path, error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound && path.components().any(|part| part.as_os_str() == "views")
}

/// Checks that exactly those documents exist that were not removed.
fn check(directory: &Path) {
    let engine = Engine::open(directory, options()).unwrap();
    let declared = Declared { read: vec!["c".into()], ..Declared::default() };
    let transaction = engine.begin("_system", &declared, false).unwrap();
    let c = engine.database("_system").unwrap().collections["c"].clone();
    for number in 0..DOCUMENTS {
        let found = transaction.get(&c, &format!("k{number}")).unwrap();
        assert_eq!(found.is_some(), number % 2 == 1, "document {number}");
    }
    assert_eq!(transaction.count(&c).unwrap(), DOCUMENTS as u64 / 2);
}

fn run(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arango-embedded"));
    command.arg("rewrite").arg("--json").arg("--data-dir").arg(directory);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_was_removed_is_in_no_file_any_more() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("data");
    fill(&directory);
    assert!(holds(&directory, SECRET), "removed documents leave their bytes behind");
    let output = run(&directory).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["after_bytes"].as_u64() < told["before_bytes"].as_u64(), "{told}");
    assert!(!holds(&directory, SECRET), "a removed text is still in a file");
    assert!(holds(&directory, LIVING));
    check(&directory);
    // The rebuilt views do not contain the removed text either. A second rewrite leaves the same
    // result.
    assert!(!holds(&directory, SECRET));
    rewrite(&directory, &mut |_| ()).unwrap();
    check(&directory);
}

#[test]
fn it_refuses_an_open_directory_a_missing_one_and_one_without_a_store() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("data");
    let engine = Engine::open(&directory, options()).unwrap();
    let output = run(&directory).output().unwrap();
    assert_eq!(output.status.code(), Some(65), "{}", said(&output));
    assert!(said(&output).contains("another engine"), "{}", said(&output));
    drop(engine);
    for (name, word) in [("nowhere", "no directory"), ("empty", "no store")] {
        let other = home.path().join(name);
        if name == "empty" {
            fs::create_dir(&other).unwrap();
        }
        let output = run(&other).output().unwrap();
        assert_eq!(output.status.code(), Some(65), "{}", said(&output));
        assert!(said(&output).contains(word), "{}", said(&output));
    }
    assert!(!home.path().join("nowhere").exists());
}

#[test]
fn a_kill_at_any_moment_leaves_what_was_or_what_is() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("data");
    fill(&directory);
    let begun = std::time::Instant::now();
    let whole = home.path().join("whole");
    copy(&directory, &whole);
    assert!(run(&whole).status().unwrap().success());
    let took = begun.elapsed();
    for part in 1..=12 {
        let mut running = run(&directory).spawn().unwrap();
        std::thread::sleep(took * part / 14);
        running.kill().unwrap();
        running.wait().unwrap();
        check(&directory);
    }
    assert!(run(&directory).status().unwrap().success());
    check(&directory);
    assert!(!holds(&directory, SECRET));
}

#[test]
fn each_step_of_the_swap_can_be_the_last() {
    let home = tempfile::tempdir().unwrap();
    let (before, after) = (home.path().join("before"), home.path().join("after"));
    fill(&before);
    copy(&before, &after);
    rewrite(&after, &mut |_| ()).unwrap();
    // Directory names of the old and of the new store after each step of a rewrite.
    for (old, new) in [
        (Some("store"), Some("store.new")),
        (Some("store.old"), Some("store.new")),
        (Some("store.old"), None),
        (Some("store.old"), Some("store")),
    ] {
        let directory = home.path().join("cut");
        fs::create_dir(&directory).unwrap();
        for (from, name) in [(&before, old), (&after, new)] {
            if let Some(name) = name {
                copy(&from.join("store"), &directory.join(name));
            }
        }
        fs::copy(before.join("seal"), directory.join("seal")).unwrap();
        check(&directory);
        let names = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains('.')).collect();
        assert!(left.is_empty(), "{left:?} is left of {old:?} and {new:?}");
        fs::remove_dir_all(&directory).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        match fs::copy(from, to) {
            Ok(_) => return,
            Err(error) if was_merged(from, &error) => return,
            Err(error) => panic!("{}: {error}", from.display()),
        }
    }
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}
