//! Tests of the keys that sign the heads of ledgers, and of those who check the signatures.

use std::fs;

use serde_json::{Value, json};

use crate::home::{Home, Tuning};
use crate::ledger::{self, copy};
use crate::talk::Agent;

/// A key that signed nothing here: the example in the documentation of Go's package `sumdb/note`.
const OTHER_KEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";

/// Returns the public key of the server at a socket.
pub(crate) async fn key(home: &Home, socket: &str) -> String {
    let told = home.wire(socket).get("/v1/ledgers").await.ok();
    told["key"].as_str().expect("a key").to_owned()
}

/// Runs `vctx verify --json` with further arguments. Returns the exit code and the report.
pub(crate) fn verified(home: &Home, arguments: &[&str]) -> (i32, Value) {
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

#[tokio::test(flavor = "multi_thread")]
async fn a_former_key_vouches_for_the_new_one_and_no_other_key_can() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    ada.append("user", "Before.").await;
    let former = key(&home, "vctx.sock").await;
    let [socket, data] = ["vctx.sock", "data"].map(|name| home.path(name).display().to_string());
    let rotate = ["checkpoints", "rotate", "--socket", &socket, "--data-dir", &data, "--json"];
    // A running server uses the key.
    assert_eq!(home.run(&rotate).status.code(), Some(65));
    assert!(server.stop().await.success());
    let output = home.run(&rotate);
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["former"], *former);
    let _server = home.serve().await;
    let new = key(&home, "vctx.sock").await;
    assert_eq!(told["key"], *new);
    for keys in [&[&former][..], &[&new], &[&new, &former]] {
        let mut arguments = vec!["--socket", &socket];
        keys.iter().for_each(|key| arguments.extend(["--key", key]));
        let (code, report) = verified(&home, &arguments);
        assert_eq!(code, 0, "{report:#}");
    }
    let path = format!("{}/export", ada.path());
    for text in ["", "After."] {
        if !text.is_empty() {
            ada.append("user", text).await;
        }
        let export = ada.wire.get(&path).await.text;
        for (key, agrees) in [(&former[..], true), (&new, true), (OTHER_KEY, false)] {
            let (found, told) = ledger::verified(&home, &export, key);
            assert_eq!(found, [agrees; 2], "{key}: {told}");
        }
        // Somebody else names the new key as a successor of a trusted key, which did not sign this.
        let forged = export.replace(&former, OTHER_KEY);
        assert_ne!(forged, export);
        let (found, told) = ledger::verified(&home, &forged, OTHER_KEY);
        assert_eq!(found, [false; 2], "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_names_the_newest_checkpoint_of_its_agent() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    ada.append("user", "Hello.").await;
    let receipt = ada.wire.get(&format!("{}/context?signed=true", ada.path())).await.ok();
    let note = receipt["signed"]["note"].as_str().expect("a note").to_owned();
    let headers = [("idempotency-key", "prompt"), ("if-match", "*")];
    let body = json!({"run": "r1", "model": "m"}).to_string();
    let prompts = format!("{}/prompts", ada.path());
    ada.wire.call("POST", &prompts, &headers, body).await.ok();
    let turn = format!("{prompts}/1");
    let told = ada.wire.get(&turn).await.ok();
    let named: Vec<&str> = note.lines().take(3).collect();
    assert_eq!(told["exact"], true, "{told:#}");
    let database = home.database_inside();
    let rows = database.rows("FOR p IN prompts RETURN p.checkpoint", json!({})).await;
    assert_eq!(rows, [json!(named.join(" "))]);
    home.assert_verified("vctx.sock", "ada");
    // A prompt of a history that this server did not sign names another checkpoint.
    let other = "FOR p IN prompts UPDATE p WITH { checkpoint: @other } IN prompts RETURN NEW.turn";
    database.row(other, json!({"other": format!("{} {} x", named[0], named[1])})).await;
    let told = ada.wire.get(&turn).await.ok();
    let what = told["differs"][0]["what"].as_str().unwrap_or_default();
    assert!(what.contains("did not sign"), "{told:#}");
    assert_eq!(told["exact"], false);
}
