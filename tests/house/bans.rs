//! What stands nowhere, or in few places: each ban with its places and its reason.

use super::sources::{Source, files, root, rust, text, working};

/// `(words, where they may stand, why nowhere else)`; a place ends in a slash or is a file.
const BANS: &[(&[&str], &[&str], &str)] = &[
    (
        &["arangors"],
        &["src/server/store/"],
        "the store is the only room that speaks to the database",
    ),
    (
        &["hyperlocal"],
        &[
            "src/server/store/",
            "src/server/models/wire.rs",
            "src/base/endpoint.rs",
            "src/client/",
            "src/proxy/upstream.rs",
        ],
        "only these go out through a socket",
    ),
    (&["figment"], &["src/cli/config.rs"], "settings are read in one place"),
    (
        &["std::env", "env::var", "env::var_os"],
        &["src/cli/", "src/client/paths.rs", "src/lab/", "src/vctx/main.rs"],
        "the environment is read at the roof",
    ),
    (
        &["arango_embedded"],
        &["src/cli/app.rs", "src/proxy/aql.rs"],
        "only the composition may start the engine; a proxy borrows its parser",
    ),
    (&["todo!", "unimplemented!", "dbg!"], &[], "nothing stands half done"),
    (&[".unwrap()"], &[], "say why it cannot fail: `expect(\"…\")`"),
    (&["unsafe"], &[], "no unsafe code"),
];

/// Words of networks other than Unix sockets, forbidden in tests too.
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
    let server = working(&["src"]);
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
