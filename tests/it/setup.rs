//! Tests `vctx setup`: a first run creates everything, a second run changes nothing, a modified
//! rule is restored, and the created users have exactly the rights that they need.

use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use crate::database::Database;
use arango_embedded::Options;
use arango_embedded::compat::Role;

use crate::archival::{circle, eager, index_becomes, ingest};
use crate::home::{Home, PROGRAM, Tuning};
use crate::outside::needs_an_engine_of_its_own;
use crate::proxy::Proxy;
use crate::releases::engine;
use crate::retention::ttl_index;
use crate::talk::Agent;

/// Maximum number of polls for a line of the log, and the pause between two polls.
const LOOKS_MAX: usize = 600;
const LOOK: Duration = Duration::from_millis(50);

/// The content of `arango-setup/` in schema version 1.
const COLLECTIONS_1: &str = include_str!("../setup-1/collections.json");
const INDEXES_1: &str = include_str!("../setup-1/indexes.json");
const ANALYZERS_1: &str = include_str!("../setup-1/analyzers.json");
const VIEWS_1: &str = include_str!("../setup-1/view.json");
const GRAPHS_1: &str = include_str!("../setup-1/graph.json");

const USER_PASSWORD: &str = "a password of its own";

pub(crate) fn setup(home: &Home, address: &str) -> Output {
    setup_with(home, address, &[])
}

fn setup_with(home: &Home, address: &str, variables: &[(&str, &str)]) -> Output {
    setup_as(home, address, variables, &[])
}

fn setup_as(home: &Home, address: &str, variables: &[(&str, &str)], more: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.envs(variables.iter().copied());
    command.args(["setup", "--users", "--json"]).args(more).env("ARANGO_RW_UDS", address);
    home.add_database(&mut command);
    for name in ["ARANGO_RW_PASSWORD", "ARANGO_RO_PASSWORD", "ARANGO_INDEX_PASSWORD"] {
        command.env(name, USER_PASSWORD);
    }
    command.current_dir(home.path("")).output().expect("the program runs")
}

fn made(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let steps = report["steps"].as_array().expect("steps");
    let made = steps
        .iter()
        .filter(|s| s["made"] == true)
        .map(|s| s["what"].as_str().expect("a name").to_owned());
    made.collect()
}

#[tokio::test]
async fn a_second_setup_changes_nothing_and_a_rule_that_differs_is_renewed() {
    let home = Home::new();
    let _engine = home.engine().await;
    let socket = home.path("engine.sock").display().to_string();
    assert!(made(&setup(&home, &socket)).len() > 20);
    let encoded = format!("http+unix://{}", socket.replace('/', "%2F"));
    for spelling in [format!("unix://{socket}"), format!("http+unix://{socket}"), encoded] {
        assert_eq!(made(&setup(&home, &spelling)), Vec::<String>::new(), "{spelling}");
    }
    let loose = json!({"schema": {"rule": {"type": "object"}, "level": "new", "message": "loose"}});
    let changed = home.database().call("PUT", "/_api/collection/messages/properties", &loose).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(made(&setup(&home, &socket)), ["validation of collection messages"]);
    let refused =
        home.database().call("POST", "/_api/document/messages", &json!({"seq": "one"})).await;
    assert_eq!(
        (refused.status, &refused.body["errorNum"]),
        (400, &json!(1620)),
        "{}",
        refused.text
    );
    assert_eq!(made(&setup(&home, &socket)), Vec::<String>::new());
    let tcp = setup(&home, "tcp://127.0.0.1:8529");
    assert_eq!(tcp.status.code(), Some(78), "{}", String::from_utf8_lossy(&tcp.stderr));
}

#[tokio::test]
async fn a_setup_without_a_configuration_leaves_the_index_of_ages_and_one_that_wants_none_takes_it()
{
    let home = Home::new();
    let _engine = home.engine().await;
    let socket = home.path("engine.sock").display().to_string();
    let with = |text: &str| {
        let path = home.path("vctx.toml");
        std::fs::write(&path, text).expect("a file");
        made(&setup_as(&home, &socket, &[], &["--config", &path.display().to_string()]))
    };
    let days = "[retention]\nrecall_ttl_days = 2\n";
    assert!(with(days).iter().any(|what| what.contains("recall_expires")));
    let there = json!(2 * 24 * 60 * 60);
    assert_eq!(ttl_index(&home.database()).await, there);
    assert_eq!(made(&setup(&home, &socket)), Vec::<String>::new());
    assert_eq!(ttl_index(&home.database()).await, there, "nobody said that it may go");
    assert_eq!(with(days), Vec::<String>::new());
    let gone = with("[retention]\n");
    assert!(gone.len() == 1 && gone[0].contains("recall_expires"), "{gone:?}");
    assert_eq!(ttl_index(&home.database()).await, Value::Null);
}

#[tokio::test]
async fn the_users_of_setup_do_their_work_and_no_more() {
    let home = Home::new();
    let _engine = home.engine().await;
    made(&setup(&home, &home.path("engine.sock").display().to_string()));
    let mut tuning = eager();
    for (name, value) in [
        ("ARANGO_INDEX_PASSWORD", USER_PASSWORD),
        ("ARANGO_USER", "vctx_rw"),
        ("ARANGO_PASSWORD", USER_PASSWORD),
        ("ARANGO_RO_USER", "vctx_ro"),
        ("ARANGO_RO_PASSWORD", USER_PASSWORD),
    ] {
        tuning.environment.push((name.into(), value.into()));
    }
    let _server = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let wire = home.wire("vctx.sock");
    let created = wire.put("/v1/agents/ada", &json!({"context_window": 8192})).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let ada = Agent::at(wire, "ada");
    ada.append("user", "Hello").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    home.assert_verified("vctx.sock", "ada");
    // The creation of an index needs more rights than writing, so there is a third user only for
    // indexes.
    ingest(&ada, &circle("d", 0, 120, "cosine"), "*").await.ok();
    let told = index_becomes(&ada, "ready").await;
    assert!(told["reason"].is_null(), "{told}");
    let definer = home.database_as("vctx_index", USER_PASSWORD);

    let writer = home.database_as("vctx_rw", USER_PASSWORD);
    let reader = home.database_as("vctx_ro", USER_PASSWORD);
    let collection = json!({"name": "mine"});
    let index = json!({"type": "persistent", "name": "mine", "fields": ["mine"]});
    for (who, method, path, body) in [
        (&writer, "POST", "/_api/collection", &collection),
        (&writer, "DELETE", "/_api/collection/messages", &Value::Null),
        (&reader, "POST", "/_api/document/vctx_meta", &collection),
        (&reader, "POST", "/_api/collection", &collection),
        (&writer, "POST", "/_api/index?collection=archival_docs", &index),
        (&definer, "POST", "/_api/index?collection=messages", &index),
        (&definer, "POST", "/_api/document/messages", &collection),
        (&definer, "DELETE", "/_api/collection/messages", &Value::Null),
    ] {
        let answer = who.call(method, path, body).await;
        assert_eq!(
            (answer.status, &answer.body["errorNum"]),
            (403, &json!(11)),
            "{method} {path}: {}",
            answer.text
        );
    }
}

fn listed(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("a list")
}

/// Sets a database up as schema version 1 did.
async fn set_up_as_version_1(database: &Database) {
    database.make().await;
    for (path, list) in [
        ("/_api/collection", COLLECTIONS_1),
        ("/_api/analyzer", ANALYZERS_1),
        ("/_api/view", VIEWS_1),
        ("/_api/gharial", GRAPHS_1),
    ] {
        for definition in listed(list) {
            let made = database.call("POST", path, &definition).await;
            assert!(made.status < 300, "{path}: {}", made.text);
        }
    }
    for entry in listed(INDEXES_1) {
        let collection = entry["collection"].as_str().expect("a name");
        let path = format!("/_api/index?collection={collection}");
        let made = database.call("POST", &path, &entry["index"]).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    let meta = json!({"_key": "schema", "version": 1});
    assert!(database.call("POST", "/_api/document/vctx_meta", &meta).await.status < 300);
}

#[tokio::test]
async fn a_database_of_version_1_gets_what_is_missing() {
    let home = Home::new();
    let _engine = home.engine().await;
    let database = home.database();
    set_up_as_version_1(&database).await;
    for (seq, said_at, created_at) in [
        (1, json!(null), "2026-03-04T05:06:07.008Z"),
        (2, json!("2025-12-24"), "2026-03-04T05:06:07.008Z"),
        (3, json!("one evening"), "t"),
    ] {
        let edge = json!({"_key": format!("old{seq}"), "_from": "core_memory/ada", "_to": "messages/old", "seq": seq, "created_at": created_at,
            "payload": {"role": "user", "content": "x", "meta": {"said_at": said_at}, "token_estimate": 5},
            "evicted_batch_id": null, "summary_rev": 0});
        let kept = database.call("POST", "/_api/document/recall_log", &edge).await;
        assert!(kept.status < 300, "{}", kept.text);
    }
    let tuning = Tuning::default();
    let _server = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let version = database.row("FOR m IN vctx_meta RETURN m.version", json!({})).await;
    assert_eq!(version, json!(vctx::store::SCHEMA));
    let address = home.path("engine.sock").display().to_string();
    let again = made(&setup(&home, &address));
    assert!(again.iter().all(|what| what.starts_with("user ")), "made late: {again:?}");
    assert_eq!(database.rows("FOR p IN pages RETURN p", json!({})).await, Vec::<Value>::new());
    let dates = database.rows("FOR e IN recall_log SORT e.seq RETURN e.at_ms", json!({})).await;
    let (said, appended) = (json!(1_766_534_400_000_u64), json!(1_772_600_767_008_u64));
    assert_eq!(dates, [appended, said, json!(null)]);
    let view = database.call("GET", "/_api/view/recall_view/properties", &Value::Null).await;
    let fields = &view.body["links"]["recall_log"]["fields"];
    assert_eq!(fields["at_ms"]["analyzers"], json!(["identity"]), "{}", view.text);
    let ada = Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be kind.").await;
    ada.append("user", "Hello").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    home.assert_verified("vctx.sock", "bob");
}

/// Runs a setup, and returns what it sent to the database: the option `sharding` of the database,
/// the definition of `recall_log`, and whether the index of `recall_log` by seq is unique.
async fn sent(variables: &[(&str, &str)]) -> (Home, Value, Value, Value) {
    let home = Home::new();
    engine(&home, Options { role: Role::Coordinator, ..Options::default() });
    let proxy = Proxy::start(&home.path("rw.sock"), &home.path("engine.sock"));
    let address = home.path("rw.sock").display().to_string();
    let output = tokio::task::block_in_place(|| setup_with(&home, &address, variables));
    made(&output);
    let record = proxy.record();
    let body = |path: &str, wanted: &dyn Fn(&Value) -> bool| {
        let of_path = record.iter().filter(|e| e.method == "POST" && e.path.ends_with(path));
        of_path.map(|e| e.request.clone()).find(wanted).expect(path)
    };
    let database = body("/_api/database", &|_| true)["options"]["sharding"].clone();
    let mut log = body("/_api/collection", &|body| body["name"] == "recall_log");
    log.as_object_mut().expect("an object").remove("schema");
    let index = body("/_api/index?collection=recall_log", &|body| body["name"] == "recall_by_seq");
    (home, database, log, index["unique"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn recall_log_is_laid_out_in_a_cluster_as_the_configuration_says() {
    if needs_an_engine_of_its_own("chooses its role") {
        return;
    }
    let (_home, database, log, unique) = sent(&[]).await;
    assert_eq!(
        (database, unique),
        (json!("single"), json!(true)),
        "OneShard unless told otherwise"
    );
    assert_eq!(log, json!({"name": "recall_log", "type": 3}));

    let (_home, database, log, _) = sent(&[("VCTX_STORE__RECALL_REPLICATION_FACTOR", "2")]).await;
    assert_eq!(database, json!("single"));
    assert_eq!(log, json!({"name": "recall_log", "type": 3, "replicationFactor": 2}));

    let spread =
        [("VCTX_STORE__RECALL_SHARDS", "3"), ("VCTX_STORE__RECALL_REPLICATION_FACTOR", "2")];
    let (home, database, log, unique) = sent(&spread).await;
    assert_eq!(
        (database, unique),
        (json!("flexible"), json!(false)),
        "a unique index would have to hold the shard keys"
    );
    let wanted = json!({"name": "recall_log", "type": 3, "numberOfShards": 3, "shardKeys": ["_key"], "replicationFactor": 2});
    assert_eq!(log, wanted);
    let told = home
        .database()
        .call("GET", "/_api/collection/recall_log/properties", &Value::Null)
        .await
        .ok();
    assert_eq!((&told["numberOfShards"], &told["shardKeys"]), (&json!(3), &json!(["_key"])));
    // The server refuses a database that has no transactions over all its collections.
    let serving =
        home.server_begun("vctx.sock", "engine.sock", "engine-ro.sock", &Tuning::default());
    serving.expect("");
    let status = tokio::task::block_in_place(|| {
        loop {
            match serving.ended() {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    });
    assert_eq!(status.code(), Some(77), "{}", serving.said());
    assert!(serving.said().contains("one-shard"), "{}", serving.said());

    let home = Home::new();
    for (name, value) in [
        ("VCTX_STORE__RECALL_SHARDS", "0"),
        ("VCTX_STORE__RECALL_SHARDS", "2000"),
        ("VCTX_STORE__RECALL_SHARD_KEYS", "[\"seq\"]"),
        ("VCTX_STORE__RECALL_REPLICATION_FACTOR", "11"),
    ] {
        let refused = setup_with(&home, "unix:///nowhere.sock", &[(name, value)]);
        let said = String::from_utf8_lossy(&refused.stderr).to_lowercase();
        let key = name.trim_start_matches("VCTX_STORE__").to_lowercase();
        assert_eq!(refused.status.code(), Some(78), "{name}={value}: {said}");
        assert!(said.contains(&key), "{name}={value}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_production_without_a_database_ends_and_names_what_to_set() {
    let home = Home::new();
    for variables in [&[][..], &[("ARANGO_URL", "http://db:8529")], &[("ARANGO_RW_UDS", "")]] {
        let mut command = crate::home::command(&Tuning::default());
        // A server that starts successfully would exit with a code other than 78.
        command.args(["serve", "--idle-exit-s", "1", "--socket"]).arg(home.path("vctx.sock"));
        command.arg("--data-dir").arg(home.path("data"));
        command.env("VCTX_SERVER__PRODUCTION", "true").envs(variables.iter().copied());
        let ended = command.output().expect("the program runs");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(78), "{variables:?}: {said}");
        for name in ["ARANGO_RO_UDS", "ARANGO_RW_UDS", "server.production"] {
            assert!(said.contains(name), "{variables:?}: {said}");
        }
        assert!(!home.path("data").exists(), "{variables:?}: an embedded database was made");
    }
    let _engine = home.engine().await;
    let named = Tuning::variable("VCTX_SERVER__PRODUCTION", "true");
    home.server("vctx.sock", "engine.sock", "engine-ro.sock", &named).await.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_database_does_not_answer_says_so_and_serves_once_it_does() {
    if needs_an_engine_of_its_own("starts the database after the server") {
        return;
    }
    let home = Home::new();
    let (rw, ro) = ("engine.sock", "engine-ro.sock");
    let server = home.server_begun("vctx.sock", rw, ro, &Tuning::default());
    server.expect("not ready: ");
    for _ in 0..LOOKS_MAX {
        if server.said().contains("not ready: ") {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let said = server.said();
    let told: Vec<&str> = said.lines().filter(|line| line.contains("not ready: ")).collect();
    assert_eq!(told.len(), 1, "once for each reason: {said}");
    let waits = home.wire("vctx.sock").get("/readyz").await;
    assert_eq!(waits.status, 503, "{}", waits.text);
    let _engine = home.engine().await;
    server.ready(&[], Some(&home.path("vctx.sock"))).await;
}
