//! Checks that each AQL file is listed exactly once, that the code sets its bind parameters, and
//! that its comment names the right collections.

use std::collections::BTreeSet;

use arango_embedded::syntax::parse;
use serde_json::Value;
use vctx::store::QUERIES;

use super::sources::{Source, files, holds, text, working};

/// A query file of the folder `aql/`, parsed.
struct Twin {
    name: String,
    text: String,
    /// The syntax tree in its debug format, which shows the type of every node.
    tree: String,
}

fn twins() -> Vec<Twin> {
    let twin = |path: String| {
        let text = text(&path);
        let body = parse(&text).unwrap_or_else(|e| panic!("{path}: {e:?}"));
        let name = path.trim_start_matches("aql/").trim_end_matches(".aql").to_owned();
        Twin { name, text, tree: format!("{body:?}") }
    };
    // The probes of `vctx doctor` have their own rules, in `doctor.rs`.
    let own = files("aql", ".aql").into_iter().filter(|path| !path.starts_with("aql/doctor/"));
    let twins: Vec<Twin> = own.map(twin).collect();
    assert!(!twins.is_empty(), "no queries");
    twins
}

/// Returns the names that follow a given word in a printed syntax tree; each name ends at the next
/// quote.
fn behind<'a>(tree: &'a str, word: &str) -> BTreeSet<&'a str> {
    let ends = tree.match_indices(word).map(|(at, _)| &tree[at + word.len()..]);
    ends.map(|rest| rest.split('"').next().expect("a split gives one part")).collect()
}

impl Twin {
    fn binds(&self) -> BTreeSet<&str> {
        behind(&self.tree, "Bind(\"")
    }

    fn writes(&self) -> BTreeSet<&str> {
        let mut writes = behind(&self.tree, "into: Name(\"");
        writes.extend(behind(&self.tree, "from: Name(\""));
        writes
    }

    /// Returns the collections that a query reads in `FOR`, traversals and `WITH`; other names in
    /// these statements are variables.
    fn reads(&self, collections: &BTreeSet<String>) -> BTreeSet<&str> {
        let mut sources = behind(&self.tree, "source: Name(\"");
        sources.extend(behind(&self.tree, "edges: [(None, Name(\""));
        let reached = self.tree.split_once("with: [").and_then(|(_, rest)| rest.split_once(']'));
        sources.extend(behind(reached.map_or("", |(list, _)| list), "Name(\""));
        sources.retain(|name| collections.contains(*name));
        sources
    }

    /// Returns the names that a query's comment lists after `Reads:` or `Writes:`, up to the full
    /// stop.
    fn says(&self, word: &str) -> BTreeSet<&str> {
        let comment = self.text.lines().find(|line| line.starts_with("//") && line.contains(word));
        let line = comment.unwrap_or_else(|| panic!("{}: its comment has no `{word}`", self.name));
        let (_, list) = line.split_once(word).expect("just found");
        let list = list.split_once('.').map_or(list, |(list, _)| list);
        list.split(',').map(str::trim).filter(|name| *name != "nothing").collect()
    }

    /// Returns the source files of the store that use this query.
    fn owners<'a>(&self, store: &'a [Source]) -> Vec<&'a Source> {
        let name = format!(" = \"{}\",", self.name);
        let named = |source: &&Source| source.spoken.contains(&name);
        let owners: Vec<&Source> = store.iter().filter(named).collect();
        let times: usize = owners.iter().map(|source| source.spoken.matches(&name).count()).sum();
        assert_eq!(times, 1, "aql/{}.aql is named by {times} `{name}`, not by one", self.name);
        owners
    }
}

/// Returns the names of all collections and views that the setup creates.
fn collections() -> BTreeSet<String> {
    let list =
        |path: &str| -> Vec<Value> { serde_json::from_str(&text(path)).expect("a list in JSON") };
    let mut entries = list("arango-setup/collections.json");
    entries.extend(list("arango-setup/view.json"));
    let names = entries.iter().map(|entry| &entry["name"]);
    names.map(|name| name.as_str().expect("a name").to_owned()).collect()
}

#[test]
fn every_query_is_a_file_and_every_file_is_listed() {
    let listed: Vec<(&str, &str)> = QUERIES.iter().map(|query| (query.name, query.text)).collect();
    let names: BTreeSet<&str> = listed.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), listed.len(), "a query is listed twice");
    let twins = twins();
    let there: BTreeSet<&str> = twins.iter().map(|twin| twin.name.as_str()).collect();
    assert_eq!(there, names, "files of aql/ and store::QUERIES differ");
    for twin in &twins {
        assert!(listed.contains(&(&twin.name, &twin.text)), "aql/{}.aql: other text", twin.name);
    }
}

#[test]
fn the_store_file_that_names_a_query_binds_all_of_it() {
    let store = working(&["src/server/store"]);
    for twin in twins() {
        let owner = twin.owners(&store)[0];
        let spoken = owner.spoken.split_whitespace().collect::<Vec<_>>().join(" ");
        let bound: Vec<&str> = spoken.split("binds!(").skip(1).map(arguments).collect();
        for bind in twin.binds() {
            let is_named = |pair: &str| pair.split(" = ").next().is_some_and(|name| name == bind);
            let mut pairs = bound.iter().filter_map(|all| all.split_once(';'));
            let is_bound = match bind {
                "scope" => pairs.any(|(scope, _)| scope != "none"),
                _ => pairs.any(|(_, pairs)| pairs.split(',').map(str::trim).any(is_named)),
            };
            let added = spoken.contains(&format!("(\"{bind}\", "));
            let text = format!("`@{bind}` of aql/{}.aql is not bound there", twin.name);
            assert!(is_bound || added, "{}: {text}", owner.path);
        }
    }
}

/// Returns the arguments of a call, from the text after the opening bracket.
fn arguments(text: &str) -> &str {
    let mut open = 1;
    let end = text.find(|c: char| {
        open += i32::from(c == '(') - i32::from(c == ')');
        open == 0
    });
    &text[..end.expect("a closed call")]
}

#[test]
fn every_query_has_a_scope_or_says_why_not() {
    for twin in twins() {
        let excused = twin.text.lines().any(|line| line.starts_with("// Scope: none, because "));
        assert_ne!(twin.binds().contains("scope"), excused, "aql/{}.aql: @scope", twin.name);
    }
}

#[test]
fn the_comment_of_a_query_tells_what_it_reads_and_writes() {
    let collections = collections();
    for twin in twins() {
        let said = (twin.says("Reads:"), twin.says("Writes:"));
        let done = (twin.reads(&collections), twin.writes());
        assert_eq!(said, done, "aql/{}.aql: (reads, writes) said and done differ", twin.name);
        assert!(twin.says("Writes:").iter().all(|name| collections.contains(*name)));
        // The comparison does not find collections in bind parameters or functions. Nor does it
        // support traversals of a named graph, along several edge collections, or without `WITH`.
        // The assertions below therefore forbid such queries.
        let along = ["graph: Some(", ")), (None, Name(", "edges: [(Some("];
        let hidden = ["CollectionBind(", "into: Bind(", "from: Bind(", "DOCUMENT"];
        let is_walk = twin.tree.contains("Traversal(");
        assert!(!is_walk || twin.text.contains("\nWITH "), "aql/{}.aql: no WITH", twin.name);
        for hidden in along.into_iter().chain(hidden) {
            assert!(!twin.tree.contains(hidden), "aql/{}.aql: {hidden}", twin.name);
        }
    }
}

#[test]
fn no_query_is_put_together_from_texts() {
    const STATEMENTS: &[(&str, &str)] = &[
        ("FOR", "IN"),
        ("INSERT", "IN"),
        ("INSERT", "INTO"),
        ("UPDATE", "IN"),
        ("REPLACE", "IN"),
        ("REMOVE", "IN"),
        ("UPSERT", "IN"),
    ];
    let mut broken = Vec::new();
    for source in working(&["src"]) {
        for literal in &source.literals {
            if STATEMENTS.iter().any(|(verb, into)| holds(literal, verb) && holds(literal, into)) {
                broken.push(format!("{}: {literal}", source.path));
            }
        }
    }
    assert!(broken.is_empty(), "AQL outside of aql/:\n{}", broken.join("\n"));
}
