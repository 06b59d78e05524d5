//! Checks that the sources contain no banned words. Each banned word is listed with the files that
//! may still use it and the reason for the ban.

use super::sources::{Source, files, root, rust, text, working};

/// `(words, files that may use the words, reason for the ban)`. A path with a slash at its end is a
/// folder, otherwise a file.
const BANS: &[(&[&str], &[&str], &str)] = &[
    (
        &["arangors"],
        &["src/server/store/"],
        "the store is the only module that speaks to the database",
    ),
    (
        &["hyperlocal"],
        &[
            "src/server/store/",
            "src/server/models/wire.rs",
            "src/server/checkpoints/witness.rs",
            "src/base/endpoint.rs",
            "src/client/",
            "src/proxy/upstream.rs",
        ],
        "only these go out through a socket",
    ),
    (&["figment"], &["src/cli/config.rs"], "settings are read in one place"),
    (
        &["std::env", "env::var", "env::var_os"],
        &["src/cli/", "src/client/paths.rs", "loadtest/lab/", "src/vctx/main.rs"],
        "the environment is read at the roof",
    ),
    (
        &["arango_embedded"],
        &["src/cli/app/engine.rs", "src/proxy/aql.rs"],
        "one file starts the engine; the proxy borrows its parser",
    ),
    (&["todo!", "unimplemented!", "dbg!"], &[], "no unfinished code"),
    (&[".unwrap()"], &[], "state why it cannot fail: `expect(\"…\")`"),
    (&["unsafe"], &[], "no unsafe code"),
];

/// Names of network types other than Unix sockets. Like the program, the tests must not use them.
const NETWORK: &[&str] = &["TcpListener", "TcpStream", "TcpSocket", "UdpSocket", "SocketAddrV4"];

fn may_stand(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| path == *place || place.ends_with('/') && path.starts_with(place))
}

fn lines(sources: &[Source], words: &[&str], places: &[&str]) -> Vec<String> {
    let banned = sources.iter().filter(|source| !may_stand(&source.path, places));
    banned.flat_map(|source| words.iter().flat_map(|word| source.lines_with(word))).collect()
}

#[test]
fn what_is_banned_stands_only_where_it_may() {
    let server = working(&["src", "loadtest/lab"]);
    let both = working(&["src", "embedded/src", "loadtest"]);
    let mut broken = Vec::new();
    for (words, places, why) in BANS {
        let sources = if places.is_empty() { &both } else { &server };
        broken.extend(lines(sources, words, places).iter().map(|line| format!("{line}: {why}")));
        for place in *places {
            assert!(root().join(place).exists(), "{place} may {words:?}, but is not there");
        }
    }
    assert!(broken.is_empty(), "bans:\n{}", broken.join("\n"));
}

#[test]
fn no_socket_but_unix_sockets() {
    let broken = lines(&rust(&["src", "embedded", "loadtest"]), NETWORK, &[]);
    assert!(broken.is_empty(), "networks:\n{}", broken.join("\n"));
}

#[test]
fn no_test_is_ignored_or_expects_a_panic_of_any_kind() {
    let sources = rust(&["src", "embedded", "loadtest", "tests"]);
    let broken = lines(&sources, &["#[ignore", "#[should_panic"], &[]);
    assert!(broken.is_empty(), "state what happens, or take the test out:\n{}", broken.join("\n"));
}

/// Maximum number of tests that `cargo test` does not run, because only `cargo it` and `.ci/run`
/// run them.
const LONG_TESTS_MAX: usize = 35;

#[test]
fn a_long_test_is_marked_in_one_way_and_runs_in_the_everyday_check() {
    let mark = r#"#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]"#;
    let (mut marked, mut broken) = (0, Vec::new());
    for Source { path, .. } in rust(&["src", "embedded", "loadtest", "tests/it"]) {
        let source = text(&path);
        let lines = source.lines().filter(|line| line.contains("#[cfg_attr("));
        for line in lines.filter(|line| line.contains("ignore")) {
            match line.trim() == mark && path.starts_with("tests/it/") {
                true => marked += 1,
                false => broken.push(format!("{path}: {line}")),
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(marked <= LONG_TESTS_MAX, "{marked} long tests: make some of them faster");
    // `--lib` adds the engine's unit tests, which `cargo test` leaves out.
    let everyday = "\ncargo test --locked --features vctx/long-tests --lib --tests\n";
    let runs = text(".ci/run").matches(everyday).count();
    assert_eq!(runs, 1, ".ci/run must run the long tests and the engine's unit tests");
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let own = root().to_string_lossy().into_owned();
    let homes = [concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/")];
    let folders = ["src", "embedded", "loadtest", "tests", "aql", "arango-setup", "deploy", "docs"];
    let mut paths: Vec<String> = folders.iter().flat_map(|folder| files(folder, "")).collect();
    paths.extend(files("guards", ""));
    paths.extend([".cargo", ".config", ".ci"].iter().flat_map(|folder| files(folder, "")));
    paths.extend(["README.md", "Cargo.toml", ".clippy.toml", ".deny.toml"].map(str::to_owned));
    let mut broken = Vec::new();
    for path in paths {
        let Ok(bytes) = std::fs::read(root().join(&path)) else { panic!("{path} is missing") };
        let text = String::from_utf8_lossy(&bytes);
        let machine = homes.iter().any(|home| text.contains(home)) || text.contains(&own);
        if machine {
            broken.push(path);
        }
    }
    assert!(broken.is_empty(), "paths of a particular machine in:\n{}", broken.join("\n"));
}

#[test]
fn crates_come_from_crates_io_or_from_here() {
    let lock = text("Cargo.lock");
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let mut elsewhere =
        sources.filter(|s| *s != "\"registry+https://github.com/rust-lang/crates.io-index\"");
    assert_eq!(elsewhere.next(), None, "another source in Cargo.lock");
    let settings = text(".cargo/config.toml");
    for word in ["[source", "[registr", "replace-with", "linker", "rustflags"] {
        assert!(!settings.contains(word), ".cargo/config.toml holds aliases only, not {word}");
    }
}
