//! Tests of the keys that sign the heads of ledgers, and of those who check the signatures.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::home::{Home, Tuning};
use crate::talk::Agent;

/// A key that signed nothing here: the example in the documentation of Go's package `sumdb/note`.
const OTHER_KEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";

/// Copies a directory without its sockets.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let (kind, target) = (entry.file_type().expect("a type"), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// Returns the public key of the server at a socket.
async fn key(home: &Home, socket: &str) -> String {
    let told = home.wire(socket).get("/v1/ledgers").await.ok();
    told["key"].as_str().expect("a key").to_owned()
}

/// Runs `vctx verify --json` with further arguments. Returns the exit code and the report.
fn verified(home: &Home, arguments: &[&str]) -> (i32, Value) {
    let output = home.run(&[&["verify", "--json"], arguments].concat());
    let told = String::from_utf8(output.stdout).expect("UTF-8");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code().expect("an exit code");
    (code, serde_json::from_str(&told).unwrap_or_else(|_| json!({"said": said})))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_carries_a_signed_head_which_a_key_checks() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    ada.append("user", "Before.").await;
    let key = key(&home, "vctx.sock").await;
    let socket = home.path("vctx.sock").display().to_string();
    let [receipt, saved] = ["receipt", "saved"].map(|name| home.path(name).display().to_string());
    assert!(server.stop().await.success());
    copy(&home.path("data"), &home.path("yesterday"));
    let server = home.serve().await;
    ada.append("user", "After.").await;
    let made = ["context", "--agent", "ada", "--save", &receipt, "--socket", &socket];
    assert!(home.run(&made).status.success());
    let made = ["--agent", "ada", "--save", &saved, "--socket", &socket, "--key", &key];
    assert_eq!(verified(&home, &made).0, 0);
    let name = key.split('+').next();
    let with_receipt = ["--receipt", &receipt, "--socket", &socket];
    for (given, code) in [(&key[..], 0), (OTHER_KEY, 65)] {
        let keyed = [&with_receipt[..], &["--key", given]].concat();
        let (found, report) = verified(&home, &keyed);
        assert_eq!(found, code, "{report:#}");
        let signers = if code == 0 { json!([name]) } else { json!([]) };
        assert_eq!(report["receipt"]["signed"]["keys"], signers, "{report:#}");
        assert_eq!(report["agents"][0]["ledger"]["signed"]["keys"], signers, "{report:#}");
        let (found, report) = verified(&home, &["--export", &saved, "--key", given]);
        assert_eq!((found, &report["agents"][0]["ledger"]["signed"]["keys"]), (code, &signers));
    }
    assert_eq!(verified(&home, &["--key", OTHER_KEY, "--key", &key, "--socket", &socket]).0, 0);
    // A receipt without a signed head does not have the signature that is asked for.
    let mut unsigned: Value =
        serde_json::from_str(&fs::read_to_string(&receipt).expect("a file")).expect("JSON");
    unsigned["signed"] = Value::Null;
    let bare = home.path("bare").display().to_string();
    fs::write(&bare, unsigned.to_string()).expect("a file");
    let bare = ["--receipt", &bare, "--socket", &socket];
    assert_eq!(verified(&home, &bare).0, 0);
    assert_eq!(verified(&home, &[&bare[..], &["--key", &key]].concat()).0, 65);
    // A receipt shows that the database and the checkpoints were both put back.
    assert!(server.stop().await.success());
    fs::remove_dir_all(home.path("data")).expect("a removal");
    copy(&home.path("yesterday"), &home.path("data"));
    let _server = home.serve().await;
    assert_eq!(verified(&home, &["--agent", "ada", "--key", &key, "--socket", &socket]).0, 0);
    let (code, report) = verified(&home, &with_receipt);
    assert_eq!(code, 65, "{report:#}");
    let differences = report["agents"][0]["ledger"]["differences"].to_string();
    assert!(differences.contains("was signed up to entry"), "{differences}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_server_of_a_database_signs_with_its_own_key() {
    let home = Home::new();
    let _engine = home.engine().await;
    let mut keys = Vec::new();
    let mut servers = Vec::new();
    let sockets = ["east.sock", "west.sock"];
    for socket in sockets {
        let tuning = Tuning::default();
        servers.push(home.server(socket, "engine.sock", "engine-ro.sock", &tuning).await);
        keys.push(key(&home, socket).await);
    }
    let ada = Agent::create(home.wire(sockets[0]), "ada", 8192, "Be brief.").await;
    ada.append("user", "In the east.").await;
    Agent::at(home.wire(sockets[1]), "ada").append("user", "In the west.").await;
    for (at, socket) in sockets.into_iter().enumerate() {
        let socket = home.path(socket).display().to_string();
        let asked = ["--agent", "ada", "--socket", &socket];
        let both = [&asked[..], &["--key", &keys[0], "--key", &keys[1]]].concat();
        let (code, report) = verified(&home, &both);
        assert_eq!(code, 0, "{report:#}");
        let signers = &report["agents"][0]["ledger"]["signed"]["keys"];
        assert_eq!(*signers, json!([keys[at].split('+').next()]));
        let other = [&asked[..], &["--key", &keys[1 - at]]].concat();
        assert_eq!(verified(&home, &other).0, 65);
    }
}
