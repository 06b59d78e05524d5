//! Tests `vctx config show`: every setting with its value and its source, and no secret.

use std::collections::BTreeMap;
use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::home::{Home, Tuning, command};

/// A password that no output may contain.
const SECRET: &str = "tide-and-ebb-4711";

fn shown(variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = command(&Tuning::default());
    command.envs(variables.iter().copied()).args(["config", "show"]).args(arguments);
    command.output().expect("an output")
}

fn rows(output: &Output, list: &str) -> BTreeMap<String, Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = told[list].as_array().expect("a list").iter();
    rows.map(|row| (row["name"].as_str().expect("a name").to_owned(), row.clone())).collect()
}

#[test]
fn every_setting_is_shown_with_its_value_and_its_source() {
    let home = Home::new();
    let (file, password) = (home.path("vctx.toml"), home.path("password"));
    fs::write(&file, "[recall]\nmax_memories = 50\n[heartbeat]\nrps_limit = 5\n").expect("a file");
    fs::write(&password, SECRET).expect("a file");
    fs::create_dir(home.path("credentials")).expect("a directory");
    fs::write(home.path("credentials/vctx-chat-key"), SECRET).expect("a file");
    let text = |name: &str| home.path(name).to_str().expect("a plain path").to_owned();
    let (file, password, credentials) = (text("vctx.toml"), text("password"), text("credentials"));
    let (socket, rw) = (text("own.sock"), text("rw.sock"));
    let variables = [
        ("VCTX_HEARTBEAT__RPS_LIMIT", "7"),
        ("ARANGO_RW_UDS", rw.as_str()),
        ("ARANGO_PASSWORD", SECRET),
        ("ARANGO_RO_PASSWORD_FILE", password.as_str()),
        ("CREDENTIALS_DIRECTORY", credentials.as_str()),
    ];
    let arguments = ["--config", &file, "--socket", &socket, "--json"];
    let output = shown(&variables, &arguments);
    let settings = rows(&output, "settings");
    for (name, value, source, from) in [
        ("recall.max_memories", json!(50), "file", json!(file)),
        ("heartbeat.rps_limit", json!(7), "environment", json!("VCTX_HEARTBEAT__RPS_LIMIT")),
        ("store.rw_uds", json!(rw), "environment", json!("ARANGO_RW_UDS")),
        ("server.socket", json!(socket), "flag", json!("--socket")),
        ("summary.batch_messages", json!(2000), "default", Value::Null),
        ("summariser.model", json!(""), "default", Value::Null),
    ] {
        let wanted = json!({"name": name, "value": value, "source": source, "from": from});
        assert_eq!(settings[name], wanted);
    }
    // A path that is empty in the configuration is shown as the path that the server uses.
    assert_eq!(settings["server.metrics_socket"]["value"], text("metrics.sock"));
    assert_ne!(settings["server.data_dir"]["value"], "");
    let secrets = rows(&output, "secrets");
    for (name, source, from) in [
        ("ARANGO_PASSWORD", "environment", json!("ARANGO_PASSWORD")),
        ("ARANGO_RO_PASSWORD", "file", json!(password)),
        ("VCTX_CHAT_KEY", "credential", json!(format!("{credentials}/vctx-chat-key"))),
        ("VCTX_EMBEDDER_KEY", "none", Value::Null),
    ] {
        let set = source != "none";
        let wanted = json!({"name": name, "set": set, "source": source, "from": from});
        assert_eq!(secrets[name], wanted);
    }
    let table = shown(&variables, &arguments[..4]);
    for output in [&output, &table] {
        assert!(!String::from_utf8_lossy(&output.stdout).contains(SECRET));
    }
    let table = String::from_utf8(table.stdout).expect("UTF-8");
    let line = table.lines().find(|line| line.starts_with("heartbeat.rps_limit")).expect("a line");
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells, ["heartbeat.rps_limit", "7", "environment", "VCTX_HEARTBEAT__RPS_LIMIT"]);
}

#[test]
fn every_line_of_the_default_configuration_is_shown() {
    let settings = rows(&shown(&[], &["--json"]), "settings");
    let example = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/config.example.toml"));
    let mut section = "";
    let mut count = 0;
    for line in example.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if let Some((key, _)) = line.split_once(" = ") {
            assert!(settings.contains_key(&format!("{section}.{key}")), "{section}.{key}");
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
    assert!(settings.values().all(|setting| setting["source"] == "default"));
}

#[test]
fn a_wrong_configuration_is_refused_with_the_bounds() {
    let output = shown(&[("VCTX_SUMMARY__BATCH_MESSAGES", "15")], &[]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{told}");
    assert!(told.contains("summary.batch_messages: use 16 to 2000"), "{told}");
}
