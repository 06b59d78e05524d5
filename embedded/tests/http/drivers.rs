//! Tests the official drivers over a Unix socket: python-arango and arangojs run the scenarios of
//! `drivers/` against the engine's binary.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PASSWORD: &str = "driver";

/// A server on its own socket, killed when the test ends.
struct Server {
    child: Child,
    directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut child = Command::new(env!("CARGO_BIN_EXE_arango-embedded"))
            .arg("serve")
            .arg("--socket")
            .arg(directory.path().join("s"))
            .arg("--data-dir")
            .arg(directory.path().join("data"))
            .env("ARANGO_ROOT_PASSWORD", PASSWORD)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("one line");
        assert!(line.contains("listens on"), "{line}");
        Self { child, directory }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server is usually still running; it may be killed, because its data is discarded.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Path of a driver's packages below the target directory, if `.ci/full` installed them.
fn installed(name: &str, file: &str) -> Option<PathBuf> {
    let binary = Path::new(env!("CARGO_BIN_EXE_arango-embedded"));
    let target = binary.ancestors().nth(2).expect("the target directory");
    Some(target.join(name)).filter(|path| path.join(file).exists())
}

fn scenarios(folder: &str, file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers").join(folder).join(file)
}

/// Runs all scenarios of a driver; each must pass.
fn drive(command: &mut Command) {
    let server = Server::start();
    let output = command.arg(server.socket()).arg(PASSWORD).output().expect("the driver runs");
    let told = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{complaints}");
    let passed = told.lines().filter(|line| line.starts_with("passed ")).count();
    assert!(passed >= 12, "only {passed} scenarios ran:\n{told}\n{complaints}");
}

#[test]
fn python_arango_feels_at_home() {
    let home = installed("driver-venv", "bin/python").expect(
        "no python-arango under target/driver-venv (tests/drivers/python/requirements.txt)",
    );
    let mut command = Command::new(home.join("bin/python"));
    drive(command.env("PYTHONDONTWRITEBYTECODE", "1").arg(scenarios("python", "scenarios.py")));
}

#[test]
fn arangojs_feels_at_home() {
    let home = installed("driver-node", "node_modules/arangojs/package.json")
        .expect("no arangojs under target/driver-node (tests/drivers/javascript/package.json)");
    drive(Command::new("node").current_dir(home).arg(scenarios("javascript", "scenarios.mjs")));
}
