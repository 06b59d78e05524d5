//! Tests that every client finds the one server of a memory, whatever the client's environment: by
//! the link that the server keeps in its data directory.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::home::{Home, Process, Tuning, command};
use crate::line::Line;
use crate::outside::needs_an_engine_of_its_own;

/// Exit codes of the commands (sysexits).
const UNAVAILABLE: i32 = 69;
const CANNOT_CREATE: i32 = 73;

/// A home directory of a user. A shell and an MCP client have different environments of it.
struct User {
    home: Home,
}

impl User {
    fn new() -> User {
        let user = User { home: Home::new() };
        for name in ["me", "run"] {
            std::fs::create_dir(user.home.path(name)).expect("a directory");
        }
        user
    }

    fn data(&self) -> PathBuf {
        self.home.path("me/.local/state/vctx")
    }

    /// Returns the program in the environment of a shell, with a runtime directory.
    fn shell(&self) -> Command {
        let mut program = self.client();
        program.env("XDG_RUNTIME_DIR", self.home.path("run"));
        program
    }

    /// Returns the program in the environment that an MCP client hands on.
    fn client(&self) -> Command {
        let mut program = command(&Tuning::default());
        program.env("HOME", self.home.path("me"));
        program.env_remove("XDG_RUNTIME_DIR").env_remove("XDG_STATE_HOME");
        program
    }

    async fn serve(&self) -> Process {
        let mut program = self.shell();
        program.arg("serve");
        let process = Process::start(&self.home, "serve", program);
        process.ready(&[], Some(&self.home.path("run/vctx/vctx.sock"))).await;
        process
    }
}

fn done(mut program: Command, arguments: &[&str]) -> (i32, Value, String) {
    let Output { status, stdout, stderr } = program.args(arguments).output().expect("it runs");
    let told = serde_json::from_slice(&stdout).unwrap_or(Value::Null);
    (status.code().expect("a code"), told, String::from_utf8_lossy(&stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_and_an_mcp_client_find_the_server_of_a_shell() {
    if needs_an_engine_of_its_own("the data directory has the engine") {
        return;
    }
    let user = User::new();
    let (code, _, said) = done(user.client(), &["status", "--json"]);
    assert_eq!(code, UNAVAILABLE, "{said}");
    assert!(said.contains("no server serves the memory in"), "{said}");
    let server = user.serve().await;
    for program in [user.shell(), user.client()] {
        let (code, told, said) = done(program, &["status", "--json"]);
        assert_eq!((code, &told["ready"]), (0, &json!(true)), "{said}");
        assert_eq!(told["pid"], server.id());
        assert_eq!(told["socket"], user.home.path("run/vctx/vctx.sock").display().to_string());
        assert_eq!(told["data_dir"], user.data().display().to_string());
    }
    let (code, _, said) = done(user.client(), &["agent", "create", "ada", "--json"]);
    assert_eq!(code, 0, "{said}");
    let mut client = Line::run(user.client(), &["--agent", "ada"]);
    client.initialize("2025-06-18").await;
    let block = json!({"block_id": "human", "content": "Ada sails.", "policy": {"mode": "append"}});
    Line::done(client.tool("store_core", block).await);
    let (_, state, _) = done(user.shell(), &["state", "--agent", "ada", "--json"]);
    assert!(state.to_string().contains("Ada sails."), "{state}");
    // A second server is refused, and told which one serves.
    let (code, _, said) = done(user.client(), &["serve"]);
    assert_eq!(code, CANNOT_CREATE, "{said}");
    assert!(said.contains(&format!("a server with the pid {}", server.id())), "{said}");
    assert!(said.contains("run/vctx/vctx.sock") && said.contains("vctx stop"), "{said}");
    client.leave().await;
    let (code, told, said) = done(user.client(), &["stop", "--json"]);
    assert_eq!((code, &told["stopped"]), (0, &json!(true)), "{said}");
    assert!(server.end().await.success());
    assert!(!user.data().join("server.sock").is_symlink(), "the link is gone");
    assert_eq!(done(user.client(), &["stop"]).0, UNAVAILABLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_finds_the_server_that_an_mcp_client_started() {
    if needs_an_engine_of_its_own("the data directory has the engine") {
        return;
    }
    let user = User::new();
    let mut client = Line::run(user.client(), &["--agent", "ada"]);
    client.initialize("2025-06-18").await;
    let block = json!({"block_id": "human", "content": "Ada sails.", "policy": {"mode": "append"}});
    Line::done(client.tool("store_core", block).await);
    let (code, told, said) = done(user.shell(), &["status", "--json"]);
    assert_eq!((code, &told["ready"]), (0, &json!(true)), "{said}");
    let (_, state, _) = done(user.shell(), &["state", "--agent", "ada", "--json"]);
    assert!(state.to_string().contains("Ada sails."), "{state}");
    let (code, _, said) = done(user.shell(), &["serve"]);
    assert_eq!(code, CANNOT_CREATE, "{said}");
    assert!(said.contains(&format!("a server with the pid {}", told["pid"])), "{said}");
    // After a stop, a server of the shell serves the same client.
    assert_eq!(done(user.shell(), &["stop"]).0, 0);
    let server = user.serve().await;
    let block = json!({"block_id": "human", "content": "Often.", "policy": {"mode": "append"}});
    Line::done(client.tool("store_core", block).await);
    let (_, state, _) = done(user.shell(), &["state", "--agent", "ada", "--json"]);
    assert!(state.to_string().contains("Often."), "{state}");
    client.leave().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_which_directory_it_cannot_use() {
    let user = User::new();
    let mut homeless = user.client();
    homeless.env_remove("HOME");
    let (code, _, said) = done(homeless, &["serve"]);
    assert_eq!(code, 78, "{said}");
    assert!(said.contains("neither HOME nor XDG_STATE_HOME is set"), "{said}");
    let file = user.home.path("file");
    std::fs::write(&file, "").expect("a file");
    let below = file.join("data").display().to_string();
    let (code, _, said) = done(user.client(), &["serve", "--data-dir", &below]);
    assert_eq!(code, CANNOT_CREATE, "{said}");
    assert!(said.contains(&format!("make the directory {below}")), "{said}");
    assert!(said.contains("--data-dir names another one"), "{said}");
}
