//! Checks that a module uses only modules of lower layers, and that modules with decision logic do
//! no I/O.

use super::sources::{Source, files, holds, text, working};

/// The layers of the core crate: a module may use only modules of lower layers.
const CORE_LAYERS: &[(&[&str], &str)] = &[
    (&["sha"], "digests of bytes"),
    (&["bound", "error", "clock", "ids", "limits", "seeded"], "the ground"),
    (&["memory"], "values"),
    (&["window"], "the sections of the window and what they cost"),
    (&["model_api"], "the request to a model in the form of its server's API"),
    (&["search", "trust"], "what is found, which texts are trusted"),
    (&["ledger"], "the digests of all rows"),
    (&["policy"], "decisions"),
    (&["proof", "conveyance", "chunk", "text"], "the past, the score, chunks, texts"),
    (&["context"], "contexts for a question"),
    (&["tools"], "what a call does"),
    (&["dialect", "openai"], "other names and forms of the same calls"),
    (&["anthropic"], "the conversations of the OpenAI API in Anthropic's form"),
];

/// The layers of the server crate, from the lowest to the highest.
const SERVER_LAYERS: &[(&[&str], &str)] = &[
    (&["limits"], "the ground"),
    (&["models", "store"], "models and the database, one socket each"),
    (&["checkpoints", "witness"], "signed heads, outside the database"),
    (&["executor"], "runs calls"),
    (&["checks", "agent_loop"], "self-checks, the agent loop"),
    (&["jobs"], "background work"),
    (&["http", "doctor"], "routes, trials of a database"),
    (&["databases"], "several databases at one socket"),
];

/// The folder of each crate, and the crates of this workspace on which it may depend.
const CRATES: &[(&str, &[&str])] = &[
    ("src/core", &[]),
    ("src/base", &["core"]),
    ("src/client", &["base", "core"]),
    ("src/embed-bert", &["base", "core"]),
    ("src/mcp", &["base", "client", "core"]),
    ("src/proxy", &["base", "core"]),
    ("src/server", &["base", "core"]),
    ("src/cli", &["base", "client", "core", "mcp", "proxy", "server"]),
    ("src/importers", &["cli", "client", "core"]),
    ("loadtest", &["core"]),
    ("loadtest/lab", &["base", "cli", "client", "core", "server"]),
];

/// External crates that the core crate may use: for values and texts, not for I/O.
const CORE_DEPENDENCIES: &[&str] = &[
    "base64",
    "frostem",
    // `jiff` is used for dates and their text form, without a clock and without time zones.
    "jiff",
    "regex",
    // `ring` is used for SHA-256 only.
    "ring",
    "rustc-hash",
    "schemars",
    "serde",
    "serde_json",
    "serde_path_to_error",
    "thiserror",
    "tiktoken-rs",
    "unicode-normalization",
    "unicode-security",
    "unicode-segmentation",
    "uuid",
    "xxhash-rust",
];

/// The layers of the engine, from the lowest to the highest.
const ENGINE_LAYERS: &[(&[&str], &str)] = &[
    (&["bound"], "how limits are declared"),
    (&["limits", "value", "error", "compat", "random"], "the ground"),
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

/// `(file, module, why)`: allowed uses of a higher layer.
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

/// Folders of modules with decision logic, which get all inputs as arguments.
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

/// Words for I/O, time and concurrency that a module with decision logic must not use.
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
    "Timestamp::now",
    "Zoned::now",
];

/// `(file, word, why)`: allowed uses of a forbidden word.
const ACTS_ALLOWED: &[(&str, &str, &str)] =
    &[("embedded/src/functions/type_check.rs", "std::net", "addresses are parsed, never called")];

/// Returns the top-level module to which a file belongs; `None` for `lib.rs` and `main.rs`.
fn module<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    let inside = path.strip_prefix(folder)?.strip_prefix('/')?;
    let module = inside.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "main"].contains(&module)).then_some(module)
}

/// Returns the modules that a source names after `crate::`, alone or in braces.
fn named(source: &Source) -> Vec<String> {
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut modules = Vec::new();
    for (at, _) in source.bare.match_indices("crate::") {
        let after = &source.bare[at + "crate::".len()..];
        let Some(list) = after.strip_prefix('{') else {
            modules.push(word(after));
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
                    modules.push(word(&list[at..]));
                    starts = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    modules
}

fn check(folder: &str, layers: &[(&[&str], &str)]) {
    let layer = |module: &str| layers.iter().position(|(modules, _)| modules.contains(&module));
    let mut broken = Vec::new();
    for source in working(&[folder]) {
        let Some(own) = module(folder, &source.path) else { continue };
        let Some(stands) = layer(own) else {
            broken.push(format!("{}: module `{own}` is on no layer", source.path));
            continue;
        };
        for other in named(&source).iter().filter(|other| *other != own) {
            let excused =
                EXCEPTIONS.iter().any(|(file, module, _)| *file == source.path && module == other);
            // If a name belongs to no layer, it is not the name of a module, but of a macro or an
            // item of `lib.rs`.
            if layer(other).is_some_and(|leans| leans >= stands) && !excused {
                broken.push(format!("{}: `{own}` reaches up to `{other}`", source.path));
            }
        }
    }
    assert!(broken.is_empty(), "broken layers:\n{}", broken.join("\n"));
    for (modules, _) in layers {
        for module in *modules {
            let paths = [format!("{folder}/{module}.rs"), format!("{folder}/{module}/mod.rs")];
            let there = paths.iter().any(|path| super::sources::root().join(path).is_file());
            assert!(there, "`{module}` is on a layer of {folder}, but there is no such module");
        }
    }
}

#[test]
fn modules_of_the_thinking_crate_lean_on_lower_layers_only() {
    check("src/core", CORE_LAYERS);
}

#[test]
fn modules_of_the_server_lean_on_lower_layers_only() {
    check("src/server", SERVER_LAYERS);
}

/// Returns the names of a crate's dependencies, without those for tests.
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
    for (folder, allowed) in CRATES {
        let found = dependencies(&format!("{folder}/Cargo.toml"));
        let own = found.iter().filter_map(|d| d.strip_prefix("vctx-"));
        assert_eq!(own.collect::<Vec<_>>(), *allowed, "{folder}/Cargo.toml");
    }
    assert_eq!(dependencies("src/core/Cargo.toml"), CORE_DEPENDENCIES, "src/core/Cargo.toml");
}

#[test]
fn nobody_in_the_engine_reaches_up_or_sideways() {
    check("embedded/src", ENGINE_LAYERS);
}

#[test]
fn every_exception_is_needed() {
    for (file, module, why) in EXCEPTIONS {
        let sources = working(&["src", "embedded/src"]);
        let source = sources.iter().find(|source| source.path == *file);
        let needed = source.is_some_and(|source| named(source).iter().any(|other| other == module));
        assert!(
            needed && !why.is_empty(),
            "{file} no longer reaches `{module}`: take the line out"
        );
    }
    for (file, word, why) in ACTS_ALLOWED {
        let sources = working(&["src", "embedded/src"]);
        let needed = sources.iter().any(|s| s.path == *file && holds(&s.bare, word));
        assert!(needed && !why.is_empty(), "{file} no longer names `{word}`: take the line out");
    }
}

#[test]
fn modules_that_think_do_not_act() {
    let mut broken = Vec::new();
    for thinking in THINKING {
        assert!(!files(thinking, ".rs").is_empty(), "no module {thinking}");
        for source in working(&[thinking]) {
            let excused = |act: &str| {
                ACTS_ALLOWED.iter().any(|(file, word, _)| *file == source.path && *word == act)
            };
            let acts = ACTS.iter().filter(|act| holds(&source.bare, act) && !excused(act));
            broken.extend(acts.flat_map(|act| source.lines_with(act)));
        }
    }
    assert!(broken.is_empty(), "deciding modules that act:\n{}", broken.join("\n"));
}
