//! Nobody reaches up or sideways, and rooms that think do not act.

use super::sources::{Source, files, holds, text, working};

/// The floors of the thinking crate: a room may lean on rooms of lower floors only.
const CORE_FLOORS: &[(&[&str], &str)] = &[
    (&["error", "clock", "ids", "limits"], "the ground"),
    (&["memory"], "values"),
    (&["policy"], "decisions"),
    (&["context", "conveyance", "chunk", "text"], "the window, the score, chunks, texts"),
    (&["tools"], "what a call does"),
    (&["dialect", "openai"], "other names and forms of the same calls"),
];

/// The floors of the acting crate.
const SERVER_FLOORS: &[(&[&str], &str)] = &[
    (&["models", "store"], "models and the database, one socket each"),
    (&["executor", "dispatch"], "runs calls"),
    (&["startup", "jobs", "agent_loop"], "self-checks, background work, the agent loop"),
    (&["http", "pulse", "doctor"], "routes, periodic checks, trials of a database"),
    (&["databases"], "several databases at one socket"),
];

/// What each crate may lean on, besides crates of others.
const CRATES: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("base", &["core"]),
    ("client", &["base", "core"]),
    ("embed-bert", &["base", "core"]),
    ("mcp", &["base", "client", "core"]),
    ("proxy", &["base", "core"]),
    ("server", &["base", "core"]),
    ("cli", &["base", "client", "core", "mcp", "proxy", "server"]),
    ("importers", &["cli", "client", "core"]),
    ("lab", &["base", "cli", "client", "core", "server"]),
];

/// Crates that the thinking one may use: values and texts, nothing that acts.
const CORE_DEPENDENCIES: &[&str] = &[
    "base64",
    "frostem",
    "schemars",
    "serde",
    "serde_json",
    "serde_path_to_error",
    "sha2",
    "thiserror",
    "tiktoken-rs",
    "unicode-segmentation",
    "uuid",
];

/// The floors of the engine.
const ENGINE_FLOORS: &[(&[&str], &str)] = &[
    (&["limits", "value", "error", "compat"], "the ground"),
    (&["syntax", "functions", "schema", "encode", "disk"], "texts, definitions, bytes"),
    (&["expr", "storage", "index", "vector"], "what is computed, what is kept"),
    (&["text"], "what is searched"),
    (&["txn"], "who sees what"),
    (&["plan"], "how a query will run"),
    (&["data", "tick"], "a document and all its entries; views follow"),
    (&["catalog"], "what there is"),
    (&["engine"], "the door"),
    (&["rewrite"], "the door's back side: what lives goes into new files"),
    (&["exec"], "how a query runs"),
    (&["query"], "a query's way"),
    (&["http"], "sockets and bytes"),
];

/// `(file, room)`: what may reach where it should not, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("embedded/src/error.rs", "value", "an error is answered as a value"),
    (
        "embedded/src/value/json_reader.rs",
        "error",
        "a text that is no JSON is one of ArangoDB's errors",
    ),
    ("embedded/src/catalog/collections.rs", "engine", "methods of the engine, by their noun"),
    ("embedded/src/catalog/databases.rs", "engine", "methods of the engine, by their noun"),
    ("embedded/src/catalog/indexes.rs", "engine", "methods of the engine, by their noun"),
    ("embedded/src/catalog/others.rs", "engine", "methods of the engine, by their noun"),
    ("embedded/src/catalog/vectors.rs", "engine", "methods of the engine, by their noun"),
    ("embedded/src/txn/registry.rs", "engine", "methods of the engine, by their noun"),
    ("embedded/src/data/ttl.rs", "catalog", "the sweeper looks for indexes in every database"),
    ("embedded/src/data/training.rs", "catalog", "the trainer looks for indexes in every database"),
];

/// Rooms that decide: all they need is in their arguments.
const THINKING: &[&str] = &[
    "src/core",
    "embedded/src/value",
    "embedded/src/syntax",
    "embedded/src/functions",
    "embedded/src/schema",
    "embedded/src/encode",
    "embedded/src/expr",
    "embedded/src/plan",
    "embedded/src/vector",
];

/// What a room that decides never names.
const ACTS: &[&str] = &[
    "async",
    "await",
    "tokio",
    "std::fs",
    "std::net",
    "std::os",
    "std::env",
    "std::thread",
    "std::process",
    "SystemTime",
    "Instant::now",
];

/// `(file, word, why)`: where a room that thinks acts all the same.
const ACTS_ALL_THE_SAME: &[(&str, &str, &str)] = &[
    ("embedded/src/functions/date.rs", "SystemTime", "`DATE_NOW` asks what time it is"),
    ("embedded/src/functions/type_check.rs", "std::net", "addresses are parsed, never called"),
];

/// The room of a file: the folder or file under the source folder; none for `lib.rs` and `main.rs`.
fn room<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    let inside = path.strip_prefix(folder)?.strip_prefix('/')?;
    let room = inside.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "main"].contains(&room)).then_some(room)
}

/// Rooms named after `crate::`, alone or in braces.
fn named(source: &Source) -> Vec<String> {
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut rooms = Vec::new();
    for (at, _) in source.bare.match_indices("crate::") {
        let after = &source.bare[at + "crate::".len()..];
        let Some(list) = after.strip_prefix('{') else {
            rooms.push(word(after));
            continue;
        };
        let mut depth = 1;
        let mut starts = true;
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => starts = true,
                _ if starts && c.is_alphabetic() => {
                    rooms.push(word(&list[at..]));
                    starts = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    rooms
}

fn check(folder: &str, floors: &[(&[&str], &str)]) {
    let floor = |room: &str| floors.iter().position(|(rooms, _)| rooms.contains(&room));
    let mut broken = Vec::new();
    for source in working(&[folder]) {
        let Some(own) = room(folder, &source.path) else { continue };
        let Some(stands) = floor(own) else {
            broken.push(format!("{}: room `{own}` is on no floor", source.path));
            continue;
        };
        for other in named(&source).iter().filter(|other| *other != own) {
            let excused =
                EXCEPTIONS.iter().any(|(file, room, _)| *file == source.path && room == other);
            // What is no room is a macro or an item of `lib.rs`.
            if floor(other).is_some_and(|leans| leans >= stands) && !excused {
                broken.push(format!("{}: `{own}` reaches up to `{other}`", source.path));
            }
        }
    }
    assert!(broken.is_empty(), "broken floors:\n{}", broken.join("\n"));
    for (rooms, _) in floors {
        for room in *rooms {
            let paths = [format!("{folder}/{room}.rs"), format!("{folder}/{room}/mod.rs")];
            let there = paths.iter().any(|path| super::sources::root().join(path).is_file());
            assert!(there, "`{room}` is on a floor of {folder}, but there is no such room");
        }
    }
}

#[test]
fn rooms_of_the_thinking_crate_lean_on_lower_floors_only() {
    check("src/core", CORE_FLOORS);
}

#[test]
fn rooms_of_the_server_lean_on_lower_floors_only() {
    check("src/server", SERVER_FLOORS);
}

/// Names of the dependencies of a crate, without those for tests.
fn dependencies(manifest: &str) -> Vec<String> {
    let text = text(manifest);
    let (_, rest) = text.split_once("[dependencies]\n").expect("dependencies");
    let lines = rest.lines().take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| Some(line.split(['.', ' ']).next()?.to_owned()))
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .collect()
}

#[test]
fn each_crate_leans_on_the_crates_that_its_row_names() {
    for (name, allowed) in CRATES {
        let found = dependencies(&format!("src/{name}/Cargo.toml"));
        let own = found.iter().filter_map(|d| d.strip_prefix("vctx-"));
        assert_eq!(own.collect::<Vec<_>>(), *allowed, "src/{name}/Cargo.toml");
    }
    assert_eq!(dependencies("src/core/Cargo.toml"), CORE_DEPENDENCIES, "src/core/Cargo.toml");
}

#[test]
fn nobody_in_the_engine_reaches_up_or_sideways() {
    check("embedded/src", ENGINE_FLOORS);
}

#[test]
fn every_exception_is_needed() {
    for (file, room, why) in EXCEPTIONS {
        let sources = working(&["src", "embedded/src"]);
        let source = sources.iter().find(|source| source.path == *file);
        let needed = source.is_some_and(|source| named(source).iter().any(|other| other == room));
        assert!(needed && !why.is_empty(), "{file} no longer reaches `{room}`: take the line out");
    }
    for (file, word, why) in ACTS_ALL_THE_SAME {
        let sources = working(&["src", "embedded/src"]);
        let needed = sources.iter().any(|s| s.path == *file && holds(&s.bare, word));
        assert!(needed && !why.is_empty(), "{file} no longer names `{word}`: take the line out");
    }
}

#[test]
fn rooms_that_think_do_not_act() {
    let mut broken = Vec::new();
    for thinking in THINKING {
        assert!(!files(thinking, ".rs").is_empty(), "no room {thinking}");
        for source in working(&[thinking]) {
            let excused = |act: &str| {
                ACTS_ALL_THE_SAME.iter().any(|(file, word, _)| *file == source.path && *word == act)
            };
            let acts = ACTS.iter().filter(|act| holds(&source.bare, act) && !excused(act));
            broken.extend(acts.flat_map(|act| source.lines_with(act)));
        }
    }
    assert!(broken.is_empty(), "rooms that think but act:\n{}", broken.join("\n"));
}
