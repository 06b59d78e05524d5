//! Runs the tests of the clients in `clients/python` and `clients/typescript`, where each test
//! starts servers and, at the end, verifies every agent's memory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::home::{Home, PROGRAM, unconfigured};
use crate::needs::left_out;

fn clients(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name)
}

/// Whether a program exists and is new enough: it runs with the arguments `check` and exits
/// successfully.
fn there(program: impl AsRef<OsStr>, check: &[&str]) -> bool {
    Command::new(program).args(check).output().is_ok_and(|output| output.status.success())
}

/// Returns a Python interpreter that has the packages of the examples. If there is none, it returns
/// any interpreter, and the tests skip examples with missing packages.
fn python() -> PathBuf {
    if let Some(named) = std::env::var_os("VCTX_CLIENTS_PYTHON") {
        return PathBuf::from(named);
    }
    let target = Path::new(PROGRAM).ancestors().nth(2).expect("the target directory");
    let own = target.join("clients-venv/bin/python");
    if own.exists() { own } else { PathBuf::from("python3") }
}

/// Tells the tests of a client which program to start, and how many rounds to try.
fn configured(tests: &mut Command, home: &Home) {
    tests.env("VCTX_PROGRAM", PROGRAM);
    if let Some(rounds) = std::env::var_os("VCTX_ROUNDS") {
        tests.env("VCTX_ROUNDS", rounds);
    }
    home.add_outside(tests);
}

fn assert_passed(what: &str, output: &Output) {
    let (said, fault) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}:\n{said}\n{fault}");
}

#[test]
fn the_python_client_drives_every_path() {
    let python = python();
    if !there(&python, &["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]) {
        left_out("no Python 3.11 or later");
        return;
    }
    let home = Home::new();
    let mut tests = Command::new(&python);
    unconfigured(&mut tests);
    tests
        .args(["-W", "error::ResourceWarning", "-m", "unittest", "-q"])
        .current_dir(clients("python"));
    tests.env("PYTHONPATH", clients("python").join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
    configured(&mut tests, &home);
    assert_passed("python3 -m unittest", &tests.output().expect("python3"));
}

#[test]
fn the_typescript_client_drives_every_path() {
    if !there(
        "node",
        &["-e", "process.exit(Number(process.versions.node.split('.')[0]) < 20 ? 1 : 0)"],
    ) {
        left_out("no Node 20 or later");
        return;
    }
    let home = Home::new();
    let mut tests = Command::new("node");
    unconfigured(&mut tests);
    tests.args([
        "--test",
        "tests/ai.test.js",
        "tests/contract.test.js",
        "tests/examples.test.js",
        "tests/lasting.test.js",
        "tests/wire.test.js",
    ]);
    tests.current_dir(clients("typescript"));
    configured(&mut tests, &home);
    assert_passed("node --test", &tests.output().expect("node"));
}
