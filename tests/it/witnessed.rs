//! Tests that a witness notices a server whose whole data was put back, and delays no call.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::home::{Home, Tuning};
use crate::ledger::{self, copy};
use crate::signed::{key, verified};
use crate::talk::Agent;

/// Maximum number of looks at the state of the witness, and the pause between two of them.
const LOOKS: usize = 1_200;
const LOOK: Duration = Duration::from_millis(50);

/// Waits until `/readyz` tells this state of the witness, and returns what it tells.
async fn state(home: &Home, state: &str) -> Value {
    let wire = home.wire("vctx.sock");
    for _ in 0..LOOKS {
        let told = wire.get("/readyz").await.ok()["witness"].clone();
        if told["state"] == state {
            return told;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("the witness's state does not become {state}");
}

/// Returns the setting of a server that names the witness.
fn tuning(home: &Home) -> Tuning {
    let socket = home.path("witness.sock").display().to_string();
    Tuning::variable("VCTX_SERVER__WITNESS", &socket)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_whole_data_was_put_back_is_refused_by_its_witness() {
    let home = Home::new();
    let _witness = home.witness().await;
    let tuning = tuning(&home);
    let server = home.serve_with("vctx.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    ada.append("user", "Before.").await;
    let server_key = key(&home, "vctx.sock").await;
    let witness_key = fs::read_to_string(home.path("witness/key.pub")).expect("a key");
    let witness_name = witness_key.split('+').next().expect("a name").to_owned();
    let witness_key = witness_key.trim();
    let socket = home.path("vctx.sock").display().to_string();
    let keyed = ["--key", &server_key, "--witness-key", witness_key];
    let online = [&["--socket", &socket][..], &keyed].concat();
    let (code, report) = verified(&home, &online);
    assert_eq!(code, 0, "{report:#}");
    let by = |report: &Value, at: &str| report.pointer(at).cloned().unwrap_or_default();
    let name = by(&report, "/agents/0/ledger/signed/cosigned/0/by");
    assert_eq!(name, *witness_name, "{report:#}");
    // An export carries the cosignature along.
    let export = ada.wire.get(&format!("{}/export", ada.path())).await.text;
    let (agrees, told) = ledger::verified(&home, &export, &server_key);
    assert_eq!(agrees, [true; 2], "{told}");
    let file = home.path("export.jsonl").display().to_string();
    let (code, report) = verified(&home, &[&["--export", &file][..], &keyed].concat());
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(by(&report, "/ledger/signed/cosigned/0/by"), *witness_name);
    let bare = export.replace(&format!("\u{2014} {witness_name} "), "\u{2014} another ");
    fs::write(&file, bare).expect("a file");
    assert_eq!(verified(&home, &[&["--export", &file][..], &keyed].concat()).0, 65);
    assert!(server.stop().await.success());
    drop(server);
    copy(&home.path("data"), &home.path("yesterday"));
    // The witness goes on after a restart of the server, and after a change of the key.
    let data = home.path("data").display().to_string();
    let rotate = ["checkpoints", "rotate", "--socket", &socket, "--data-dir", &data];
    assert!(home.run(&rotate).status.success());
    let server = home.serve_with("vctx.sock", &tuning).await;
    ada.append("user", "After.").await;
    assert_eq!(verified(&home, &online).0, 0);
    let seen = state(&home, "cosigns").await["checkpoint"].as_u64();
    assert!(server.stop().await.success());
    drop(server);
    // Database, key and checkpoints are put back together: nothing here contradicts itself.
    fs::remove_dir_all(home.path("data")).expect("a removal");
    copy(&home.path("yesterday"), &home.path("data"));
    let server = home.serve_with("vctx.sock", &tuning).await;
    server.expect("the witness refuses the checkpoints");
    assert_eq!(verified(&home, &["--socket", &socket, "--key", &server_key]).0, 0);
    let told = state(&home, "refuses").await;
    assert!(told["checkpoint"].as_u64() < seen, "{told}");
    assert!(told["why"].as_str().is_some_and(|why| why.contains("put back")), "{told}");
    let metrics = home.wire("metrics.sock").get("/metrics").await.text;
    assert!(metrics.contains("vctx_witness_refused_total 1"), "{metrics}");
    ada.append("user", "Again.").await;
    let (code, report) = verified(&home, &online);
    assert_eq!(code, 65, "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_that_is_away_delays_nothing_and_gets_the_checkpoints_later() {
    let home = Home::new();
    let server = home.serve_with("vctx.sock", &tuning(&home)).await;
    server.expect("the witness does not cosign the checkpoints");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    state(&home, "does not answer").await;
    for turn in 0..3 {
        ada.append("user", format!("Turn {turn}.")).await;
    }
    let server_key = key(&home, "vctx.sock").await;
    let _witness = home.witness().await;
    state(&home, "cosigns").await;
    ada.append("user", "More.").await;
    let witness_key = fs::read_to_string(home.path("witness/key.pub")).expect("a key");
    let socket = home.path("vctx.sock").display().to_string();
    let keyed = ["--key", &server_key, "--witness-key", witness_key.trim(), "--socket", &socket];
    let (code, report) = verified(&home, &keyed);
    assert_eq!(code, 0, "{report:#}");
}
