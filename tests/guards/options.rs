//! Tests the guards that check database options: the vector index, authentication, dumps and
//! restores.

use std::fs;
use std::path::Path;

use vctx::checks::sentences::{self as said, Sentence};

use super::{GOOD, Host, check};

#[test]
fn the_vector_flag_is_found_in_every_form_and_missed_when_absent() {
    let host = Host::new();
    let off = Err(said::VECTOR_OFF);
    #[rustfmt::skip]
    let table: &[(&str, &str, &str, Result<(), Sentence>)] = &[
        ("a configuration", "vector-index = true\n[server]\nendpoint = unix:///a\n", "", GOOD),
        ("the older name", "experimental-vector-index=true\n", "", GOOD),
        ("the older name where it belongs", "experimental-vector-index = true\n", "3.12.5", GOOD),
        ("the newer name where it belongs", "vector-index = true\r\n", "3.12.10", GOOD),
        ("a start line", "arangod --server.endpoint unix:///a --vector-index true", "3.12.6", GOOD),
        ("a bare flag", "arango-embedded serve --vector-index --socket /a", "", GOOD),
        ("a flag with an equals sign", "arangod --experimental-vector-index=true", "3.12.4", GOOD),
        ("the older name too late", "experimental-vector-index = true\n", "3.12.6", off),
        ("the newer name too early", "vector-index = true\n", "3.12.5", off),
        ("no flag", "[server]\nendpoint = unix:///a\n", "", off),
        ("an empty file", "", "", off),
        ("switched off", "vector-index = false\n", "", off),
        ("switched off on the start line", "arangod --vector-index false", "", off),
        ("on and off", "vector-index = true\nexperimental-vector-index = false\n", "", off),
        ("in a comment", "# vector-index = true\n; vector-index = true\n", "", off),
        ("in another section", "[server]\nvector-index = true\n", "", off),
        ("no start line flag", "arangod --server.endpoint unix:///a", "", off),
        ("an engine too old", "vector-index = true\n", "3.12.3", Err(said::VERSION)),
        ("no version", "vector-index = true\n", "latest", Err(said::VERSION)),
    ];
    for profile in ["single", "cluster", "embedded"] {
        for &(case, text, version, expected) in table {
            let file = host.file("arangod.conf", text);
            let source =
                if text.starts_with("arango") { ["--command", text] } else { ["--config", &file] };
            let mut arguments = vec!["--profile", profile, source[0], source[1]];
            arguments.extend(
                (!version.is_empty()).then_some(["--version", version]).into_iter().flatten(),
            );
            check(case, host.run("vector-flag.sh", &arguments), expected);
        }
    }
    check(
        "no such file",
        host.run("vector-flag.sh", &["--profile", "single", "--config", "/nowhere"]),
        Err(said::UNREADABLE),
    );
    check(
        "nothing given",
        host.run("vector-flag.sh", &["--profile", "single"]),
        Err(said::ARGUMENTS),
    );
    let good = host.file("good.conf", "vector-index = true\n");
    for arguments in [
        &["--command", "arangod --vector-index"][..],
        &["--profile", "none", "--config", &good],
        &["--profile", "single", "--config"],
        &["--profile", "single", "--config", &good, "--colour", "red"],
    ] {
        let come = host.run("vector-flag.sh", arguments);
        check(&format!("{arguments:?}"), come, Err(said::ARGUMENTS));
    }
    let plain = ["--profile", "single", "--command", "vector-index=true"];
    check("a word that is no option", host.run("vector-flag.sh", &plain), off);
    let called = Path::new("vector-flag.sh");
    let by_name =
        host.run_as(called, "vector-flag.sh", &["--profile", "single", "--config", &good]);
    check("called without a path", by_name, GOOD);
    fs::remove_file(host.bin().join("awk")).expect("the link");
    check(
        "no awk",
        host.run("vector-flag.sh", &["--profile", "single", "--command", "x"]),
        Err(said::TOOL_MISSING),
    );
}

#[test]
fn authentication_has_to_be_switched_on_by_name_and_in_fact() {
    let host = Host::new();
    let off = Err(said::AUTHENTICATION_OFF);
    #[rustfmt::skip]
    let table: &[(&str, &str, Result<(), Sentence>)] = &[
        ("both in the section", "[server]\nauthentication = true\nauthentication-unix-sockets = true\n", GOOD),
        ("both dotted", "server.authentication=true\nserver.authentication-unix-sockets=true\n", GOOD),
        ("both on the start line", "arangod --server.authentication true --server.authentication-unix-sockets=true", GOOD),
        ("sockets left to the default", "[server]\nauthentication = true\n", off),
        ("sockets open", "[server]\nauthentication = true\nauthentication-unix-sockets = false\n", off),
        ("all open", "[server]\nauthentication = false\nauthentication-unix-sockets = true\n", off),
        ("opened again below", "[server]\nauthentication = true\nauthentication-unix-sockets = true\nauthentication = false\n", off),
        ("in comments", "[server]\n# authentication = true\n# authentication-unix-sockets = true\n", off),
        ("in another section", "[log]\nauthentication = true\nauthentication-unix-sockets = true\n", off),
        ("an included file", "[server]\nauthentication = true\nauthentication-unix-sockets = true\n@include open\n", off),
        ("an empty file", "", off),
    ];
    for profile in ["single", "cluster"] {
        for &(case, text, expected) in table {
            let file = host.file("arangod.conf", text);
            let source =
                if text.starts_with("arangod") { ["--command", text] } else { ["--config", &file] };
            check(
                case,
                host.run("auth.sh", &["--profile", profile, source[0], source[1]]),
                expected,
            );
        }
        check("nothing given", host.run("auth.sh", &["--profile", profile]), Err(said::ARGUMENTS));
    }
    let socket = host.socket();
    let asked = ["--profile", "embedded", "--socket", &socket];
    check("no curl", host.run("auth.sh", &asked), Err(said::TOOL_MISSING));
    let answers = [
        ("401", GOOD),
        ("200", Err(said::AUTHENTICATION_OPEN)),
        ("000", Err(said::SOCKET_SILENT)),
        ("503", Err(said::SOCKET_SILENT)),
        ("", Err(said::SOCKET_SILENT)),
    ];
    for (status, expected) in answers {
        host.fake("curl", &format!("{status}\n"), if status == "000" { 7 } else { 0 });
        check(&format!("the engine answers {status}"), host.run("auth.sh", &asked), expected);
    }
    let good = host
        .file("good.conf", "[server]\nauthentication = true\nauthentication-unix-sockets = true\n");
    for arguments in [
        &["--profile", "single", "--config"][..],
        &["--profile", "none", "--config", &good],
        &["--config", &good],
        &["--profile", "single", "--config", &good, "--colour", "red"],
    ] {
        check(&format!("{arguments:?}"), host.run("auth.sh", arguments), Err(said::ARGUMENTS));
    }
    let called = Path::new("auth.sh");
    let by_name = host.run_as(called, "auth.sh", &["--profile", "single", "--config", &good]);
    check("called without a path", by_name, GOOD);
    host.fake("curl", "200\n", 0);
    let both = ["--profile", "single", "--config", &good, "--socket", &socket];
    check("configured but open", host.run("auth.sh", &both), Err(said::AUTHENTICATION_OPEN));
    check(
        "embedded without a socket",
        host.run("auth.sh", &["--profile", "embedded", "--config", &good]),
        Err(said::ARGUMENTS),
    );
    check(
        "no such file",
        host.run("auth.sh", &["--profile", "single", "--config", "/nowhere"]),
        Err(said::UNREADABLE),
    );
    fs::remove_file(host.bin().join("awk")).expect("the link");
    check("no awk", host.run("auth.sh", &asked), Err(said::TOOL_MISSING));
}

#[test]
fn dumps_and_restores_need_the_flag() {
    let host = Host::new();
    let without = Err(said::RESTORE_WITHOUT_VECTOR);
    #[rustfmt::skip]
    let table: &[(&str, &str, &str, Result<(), Sentence>)] = &[
        ("on the line", "single", "#!/bin/sh\narangorestore --vector-index true --input-directory dump\n", GOOD),
        ("the older name", "single", "arangodump --experimental-vector-index=true --output-directory dump\n", GOOD),
        ("over several lines", "single", "arangorestore \\\n  --input-directory dump \\\n  --vector-index true\n", GOOD),
        ("on the engine's line", "single", "arangod --vector-index true --daemon &\narangorestore --input-directory dump\n", GOOD),
        ("the embedded engine", "embedded", "arango-embedded serve --vector-index --socket s &\narangorestore --server.endpoint unix://s\n", GOOD),
        ("a guard that ends the script", "single", "set -eu\nguards/vector-flag.sh --profile single --config c\narangorestore --input-directory d\n", GOOD),
        ("a guard and and", "cluster", "guards/vector-flag.sh --profile cluster --config c && arangodump --output-directory d\n", GOOD),
        ("a guard or exit", "single", "vector-flag.sh --profile single --config c || exit 1\narangorestore --input-directory d\n", GOOD),
        ("a unit", "single", "[Service]\nExecStartPre=/opt/guards/vector-flag.sh --profile single --config c\nExecStart=/usr/bin/arangodump --output-directory d\n", GOOD),
        ("without", "single", "arangorestore --input-directory dump\n", without),
        ("with a path", "single", "/usr/bin/arangodump --output-directory dump\n", without),
        ("a backup without", "cluster", "arangobackup create\n", without),
        ("one of two without", "single", "arangodump --vector-index true\narangorestore --input-directory d\n", without),
        ("in a comment", "single", "# --vector-index true\narangorestore --input-directory d # --vector-index true\n", without),
        ("switched off", "single", "arangorestore --vector-index false --input-directory d\n", without),
        ("an engine without", "single", "arangod --vector-index true &\narangod --daemon\narangorestore --input-directory d\n", without),
        ("an engine of the other profile", "single", "arango-embedded serve --vector-index &\narangorestore --input-directory d\n", without),
        ("a guard nobody heeds", "single", "guards/vector-flag.sh --profile single --config c\narangorestore --input-directory d\n", without),
        ("a unit that ignores it", "single", "ExecStartPre=-/opt/guards/vector-flag.sh --config c\nExecStart=/usr/bin/arangorestore\n", without),
        ("a guard that comes late", "single", "set -e\narangorestore --input-directory d\nguards/vector-flag.sh --config c\n", without),
        ("nothing to check", "single", "echo hello\n", without),
        ("an empty file", "single", "", without),
    ];
    for &(case, profile, text, expected) in table {
        let script = host.file("restore", text);
        check(case, host.run("restore.sh", &["--profile", profile, "--script", &script]), expected);
    }
    let good = host.file("good", "arangodump --vector-index true\n");
    let bad = host.file("bad", "arangodump\n");
    check(
        "one of two files",
        host.run("restore.sh", &["--profile", "single", "--script", &good, "--script", &bad]),
        without,
    );
    check(
        "no such file",
        host.run("restore.sh", &["--profile", "single", "--script", "/nowhere"]),
        Err(said::UNREADABLE),
    );
    let directory = host.root.path().display().to_string();
    let of_directory = host.run("restore.sh", &["--profile", "single", "--script", &directory]);
    check("a directory", of_directory, Err(said::UNREADABLE));
    for arguments in [
        &["--profile", "none", "--script", &good][..],
        &["--profile", "single", "--script"],
        &["--profile", "single", "--script", &good, "--colour", "red"],
    ] {
        check(&format!("{arguments:?}"), host.run("restore.sh", arguments), Err(said::ARGUMENTS));
    }
    check("no script", host.run("restore.sh", &["--profile", "single"]), Err(said::ARGUMENTS));
    check("no profile", host.run("restore.sh", &["--script", &good]), Err(said::ARGUMENTS));
    fs::remove_file(host.bin().join("awk")).expect("the link");
    check(
        "no awk",
        host.run("restore.sh", &["--profile", "single", "--script", &good]),
        Err(said::TOOL_MISSING),
    );
}
