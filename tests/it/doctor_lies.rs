//! Checks that `vctx doctor` detects falsified database answers: each answer on which a check
//! relies is falsified once, and the check must fail.

use std::collections::BTreeSet;

use arango_embedded::Options;
use serde_json::{Value, json};
use vctx::checks::by_hand;
use vctx::store::{QUERIES, probe};

use crate::chance::share;
use crate::doctor::{OLD, idle, said, scratch};
use crate::home::Home;
use crate::liar::{Liar, Told};
use crate::outside::needs_an_engine_of_its_own;
use crate::proxy::Exchange;
use crate::releases::engine;
use crate::setup::setup;

/// One way to falsify an answer, and the checks that must fail.
struct Fault {
    red: &'static [&'static str],
    lie: fn(&Exchange, &mut Told),
}

/// Whether a request runs the query with the given text.
fn runs(exchange: &Exchange, text: &str) -> bool {
    exchange.is_query() && exchange.request["query"] == text
}

/// Whether a request runs the query with the given name.
fn asks(exchange: &Exchange, name: &str) -> bool {
    let query = QUERIES.iter().find(|query| query.name == name).expect("a query");
    runs(exchange, query.statement())
}

/// Whether a request has the given method and a path with the given part.
pub(crate) fn is(exchange: &Exchange, method: &str, path: &str) -> bool {
    exchange.method == method && exchange.path.contains(path)
}

/// Replaces an answer with a query result that consists of the given rows.
fn rows_of(told: &mut Told, rows: Value) {
    told.status = 201;
    told.body = json!({"result": rows, "hasMore": false, "error": false, "code": 201});
}

/// Replaces an answer with an error in the database's format.
fn refuse(told: &mut Told, status: u16, num: u16) {
    told.status = status;
    told.body = json!({"error": true, "code": status, "errorNum": num, "errorMessage": "told"});
}

/// Falsified answers about the database server and about the objects that the doctor creates.
const SERVER: &[Fault] = &[
    Fault {
        red: &["server.root"],
        lie: |x, told| {
            if x.path == "/" {
                told.headers.push(("server", "nginx".into()));
            }
        },
    },
    Fault {
        red: &["server.availability"],
        lie: |x, told| {
            if is(x, "GET", "/availability") {
                told.body["mode"] = json!("readonly");
            }
        },
    },
    Fault {
        red: &["server.version"],
        lie: |x, told| {
            if x.path.ends_with("version?details=true") {
                told.body["version"] = json!("3.12.3");
            }
        },
    },
    Fault {
        red: &["server.status", "server.role"],
        lie: |x, told| {
            if is(x, "GET", "/_admin/status") {
                told.body["serverInfo"]["readOnly"] = json!(true);
                told.body["serverInfo"]["role"] = json!("PRIMARY");
            }
        },
    },
    Fault {
        red: &["server.license"],
        lie: |x, told| {
            if is(x, "GET", "/_admin/license") {
                told.body["diskUsage"]["status"] = json!("read-only");
            }
        },
    },
    Fault {
        red: &["server.auth"],
        lie: |x, told| {
            if x.path.ends_with("/_api/version") && told.status == 401 {
                *told = Told::new(200, json!({"server": "arango"}));
            }
        },
    },
    Fault {
        red: &["server.one-shard"],
        lie: |x, told| {
            if is(x, "GET", "/_admin/server/role") {
                told.body["role"] = json!("COORDINATOR");
            }
        },
    },
    Fault {
        red: &["objects.scratch"],
        lie: |x, told| {
            if is(x, "POST", "/_api/database") {
                refuse(told, 503, 503);
            }
        },
    },
    Fault {
        red: &["objects.setup", "objects.unique"],
        lie: |x, told| {
            if is(x, "POST", "/_api/index") && told.status == 200 {
                told.status = 201;
            }
        },
    },
    Fault {
        red: &["objects.collection"],
        lie: |x, told| {
            if is(x, "POST", "/_api/collection") && told.status == 409 {
                *told = Told::new(200, json!({}));
            }
        },
    },
    Fault {
        red: &["objects.ttl"],
        lie: |x, told| {
            if is(x, "POST", "/_api/index") && x.request["type"] == "ttl" {
                told.body["expireAfter"] = json!(3600);
            }
        },
    },
    Fault {
        red: &["objects.view"],
        lie: |x, told| {
            if is(x, "GET", "_view/properties") {
                told.body["links"] = json!({});
            }
        },
    },
    Fault {
        red: &["objects.view-transaction"],
        lie: |x, told| {
            if runs(x, probe::WORDED.statement()) && x.request["bindVars"]["text"] == "lighthouse" {
                rows_of(told, json!(["given_up"]));
            }
        },
    },
];

/// Falsified answers about vector indexes and query plans.
const PLANS: &[Fault] = &[
    Fault {
        red: &["vectors.flag", "vectors.refusals"],
        lie: |x, told| {
            if is(x, "POST", "/_api/index") && x.request["params"]["dimension"] == 0 {
                refuse(told, 400, 10);
                told.body["errorMessage"] = json!("start it with --vector-index");
            }
        },
    },
    Fault {
        red: &["vectors.empty"],
        lie: |x, told| {
            if is(x, "GET", "_empty") {
                told.body["indexes"] = json!([{"type": "vector", "trainingState": "ready"}]);
            }
        },
    },
    Fault {
        red: &["vectors.made"],
        lie: |x, told| {
            if is(x, "POST", "_vectors") && told.status == 201 {
                told.status = 202;
            }
        },
    },
    Fault {
        red: &["vectors.ready"],
        lie: |x, told| {
            if is(x, "GET", "_vectors") {
                told.body["indexes"] = json!([{"type": "vector", "trainingState": "training"}]);
            }
        },
    },
    Fault {
        red: &["vectors.node", "queries.nodes"],
        lie: |x, told| {
            if is(x, "POST", "/_api/explain") {
                told.body["plan"]["nodes"] = json!([]);
            }
        },
    },
    Fault {
        red: &["queries.indexed"],
        lie: |x, told| {
            if is(x, "POST", "/_api/explain") {
                told.body["plan"]["nodes"] =
                    json!([{"type": "EnumerateCollectionNode", "collection": "messages"}]);
            }
        },
    },
    Fault {
        red: &["queries.explained", "queries.run"],
        lie: |x, told| {
            let explains =
                is(x, "POST", "/_api/explain") && x.request["query"] == QUERIES[0].statement();
            if explains || asks(x, QUERIES[0].name) {
                refuse(told, 400, 1501);
            }
        },
    },
];

/// Falsified answers about transactions, refusals, users, and the removal of probes.
const ANSWERS: &[Fault] = &[
    // Each refusal of a query is replaced by a success.
    Fault {
        red: &[
            "objects.schema",
            "vectors.wrong",
            "vectors.shape",
            "transactions.conflict",
            "transactions.undeclared",
            "transactions.unknown",
            "rights.reader-writes",
            "errors.duplicate",
            "errors.missing",
            "errors.revision",
            "errors.after-write",
            "errors.extra-bind",
            "errors.missing-bind",
            "errors.no-list",
            "errors.key",
            "errors.warnings",
        ],
        lie: |x, told| {
            if x.is_query() && told.status >= 400 {
                rows_of(told, json!([]));
            }
        },
    },
    // Each query result is replaced by an empty one.
    Fault {
        red: &[
            "objects.view-lag",
            "objects.tokens",
            "objects.keys",
            "objects.pages",
            "objects.batches",
            "vectors.exact",
            "vectors.transaction",
            "transactions.reads",
            "transactions.commit",
            "transactions.commit-header",
            "transactions.busy",
            "rights.reader",
            "errors.order",
            "errors.nulls",
        ],
        lie: |x, told| {
            if x.is_query() && told.status == 201 {
                rows_of(told, json!([]));
            }
        },
    },
    Fault {
        red: &["transactions.begin", "transactions.idle"],
        lie: |x, told| {
            if x.method == "GET" && x.path.ends_with("/_api/transaction") {
                told.body = json!({"transactions": []});
            }
        },
    },
    Fault {
        red: &["transactions.abort", "transactions.commit", "transactions.commit-header"],
        lie: |x, told| {
            if is(x, "GET", "/_api/transaction/") {
                told.body["result"]["status"] = json!("running");
            }
        },
    },
    Fault {
        red: &["rights.writer", "rights.reader"],
        lie: |x, told| {
            if is(x, "POST", "/_api/user") {
                refuse(told, 403, 11);
            }
        },
    },
    Fault {
        red: &["rights.writer-ddl"],
        lie: |x, told| {
            if is(x, "POST", "/_api/collection") && told.status == 403 {
                *told = Told::new(200, json!({}));
            }
        },
    },
    Fault {
        red: &["rights.stranger"],
        lie: |x, told| {
            if is(x, "GET", "/_api/database/current") && told.status == 401 {
                let result = json!({"id": "1", "name": "let_in", "isSystem": false, "path": ""});
                *told = Told::new(200, json!({"error": false, "code": 200, "result": result}));
            }
        },
    },
    Fault {
        red: &["errors.items"],
        lie: |x, told| {
            if is(x, "POST", "/_api/document/") {
                told.body = json!([{"_key": "item"}, {"_key": "taken"}]);
            }
        },
    },
    Fault {
        red: &["errors.index", "errors.cursor"],
        lie: |x, told| {
            if is(x, "DELETE", "/_api/index/") || is(x, "POST", "/_api/cursor/") {
                *told = Told::new(200, json!({"result": [], "hasMore": false}));
            }
        },
    },
    Fault {
        red: &["removal.leftovers"],
        lie: |x, told| {
            if x.method == "GET" && x.path.ends_with("/_api/database") {
                let listed = told.body["result"].as_array_mut().expect("a list");
                listed.push(json!(OLD));
            }
        },
    },
];

/// Falsified answers that `vctx doctor --health` must detect.
const DEPLOYED: &[Fault] = &[
    Fault {
        red: &["health.vectors"],
        lie: |x, told| {
            if is(x, "GET", "/_api/index?collection=archival_docs") {
                let listed = told.body["indexes"].as_array_mut().expect("a list");
                listed.push(json!({"type": "vector", "name": "v", "trainingState": "unusable"}));
            }
        },
    },
    Fault {
        red: &["health.views"],
        lie: |x, told| {
            if is(x, "GET", "/_api/collection/recall_log/count") {
                told.body["count"] = json!(7);
            }
        },
    },
    Fault {
        red: &["health.clock"],
        lie: |x, told| {
            if runs(x, probe::VALUES.statement()) {
                let now = told.body["result"][0]["now_ms"].as_u64().expect("a moment");
                told.body["result"][0]["now_ms"] = json!(now - 3_600_000);
            }
        },
    },
    Fault {
        red: &["health.license", "health.mode", "health.queue", "health.metrics"],
        lie: |x, told| {
            if is(x, "GET", "/_admin/license") {
                told.body["diskUsage"]["status"] = json!("limit-reached");
            }
            if is(x, "GET", "/availability") {
                refuse(told, 503, 503);
            }
            if x.path.ends_with("/_api/version") {
                told.headers.push(("x-arango-queue-time-seconds", "4.5".into()));
            }
            if is(x, "GET", "/_admin/metrics") {
                told.body = json!("nothing is measured\n");
            }
        },
    },
    Fault {
        red: &[
            "health.recall",
            "health.schedules",
            "health.runs",
            "health.retention",
            "health.moves",
        ],
        lie: |x, told| {
            if is(x, "GET", "/_api/collection/recall_marks/count") {
                told.body["count"] = json!(1);
            }
            if runs(x, probe::UNEMBEDDED.statement()) {
                rows_of(told, json!([{"agent": "ada", "logged_ms": 1, "waits": true}]));
            }
            if asks(x, "schedule_due") {
                let tick = json!({"agent_id": "ada", "tenant": "", "name": "daily", "due_ms": 1, "failures": 0});
                rows_of(told, json!([{"now_ms": 3_600_000, "due": [tick], "cut": []}]));
            }
            if asks(x, "core_expired_runs") {
                rows_of(
                    told,
                    json!([{"key": "ada", "tenant": "", "run": "r", "cause_seq": 1, "until_ms": 1}]),
                );
            }
            if asks(x, "retention_agents") {
                rows_of(told, json!([{"key": "ada", "tenant": "", "due": true}]));
            }
            if asks(x, "directory_due") {
                let row = json!({"agent_id": "ada", "tenant": "", "to": "east", "late_ms": 60_001});
                rows_of(told, json!([row]));
            }
        },
    },
    Fault {
        red: &["health.manifests"],
        lie: |x, told| {
            if asks(x, "reindex_load") {
                let setting = json!({"dimension": 2, "metric": "cosine", "embedding_version": "1", "model_id": "m", "defaultNProbe": 1,
                    "created_at": "2026-01-01T00:00:00.000Z", "number": 1});
                rows_of(told, json!([setting]));
            }
            if asks(x, "manifest_counts") {
                rows_of(
                    told,
                    json!([{"documents": 2, "chunks": 2, "made_documents": 1, "made_chunks": 1, "by_caller": 0}]),
                );
            }
        },
    },
];

/// Checks of the doctor that no falsified answer of this file makes fail. Each is listed with the
/// other test that makes it fail, or with the reason why there is no such test.
const SHOWN_ELSEWHERE: &[(&str, &str)] = &[
    (
        "server.reached",
        "nobody_there_wrong_credentials_and_a_wrong_command_line_have_codes_of_their_own",
    ),
    (
        "server.tcp",
        "a TCP listener, which nothing of this repository may open; the same check of the start is held against guards/",
    ),
    ("removal.scratch", "what_cannot_be_removed_is_told"),
    ("rights.read-socket", "an_administrator_sees_everything_green_and_nothing_stays"),
    ("rights.application", "an_administrator_sees_everything_green_and_nothing_stays"),
    ("health.schema", "an_older_schema_a_missing_index_and_an_open_transaction_are_seen"),
    ("health.objects", "an_older_schema_a_missing_index_and_an_open_transaction_are_seen"),
    ("health.transactions", "an_older_schema_a_missing_index_and_an_open_transaction_are_seen"),
    ("health.leftovers", "an_older_schema_a_missing_index_and_an_open_transaction_are_seen"),
    ("health.indexer", "an_older_schema_a_missing_index_and_an_open_transaction_are_seen"),
    ("health.writer", "an_older_schema_a_missing_index_and_an_open_transaction_are_seen"),
    (
        "health.reader",
        "who_may_make_collections_gets_scratch_collections_and_an_application_user_none",
    ),
];

/// Falsifies one answer after another; the checks that rely on the answer must fail.
async fn lied_to(faults: &[Fault], arguments: &[&str]) {
    let home = Home::new();
    engine(&home, Options { view_commit_ms: 100, ..idle() });
    let direct = home.path("engine.sock");
    assert!(
        tokio::task::block_in_place(|| setup(&home, &direct.display().to_string()))
            .status
            .success()
    );
    let socket = home.path("liar.sock");
    let variables = [("VCTX_RETENTION__RECALL_TTL_DAYS", "1")];
    for fault in share(faults) {
        let mut arguments = arguments.to_vec();
        arguments.extend(fault.red.iter().flat_map(|id| ["--only", id]));
        let liar = Liar::changing(&socket, &direct, fault.lie);
        let seen = said(&home, &socket, &arguments, &variables);
        drop(liar);
        let red: BTreeSet<String> = fault.red.iter().map(|id| (*id).to_owned()).collect();
        assert_eq!(seen.with("failed"), red, "{:#}", seen.report);
        assert_ne!(seen.code, 0, "{}", seen.text);
        // The same checks pass without a falsified answer.
        let seen = said(&home, &direct, &arguments, &variables);
        assert_eq!(seen.with("failed"), BTreeSet::new(), "{:#}", seen.report);
    }
    assert_eq!(scratch(&home.database()).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn lies_about_the_server_and_its_objects_are_seen() {
    if needs_an_engine_of_its_own("lies about it") {
        return;
    }
    lied_to(SERVER, &["--quick"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lies_about_vectors_and_plans_are_seen() {
    if needs_an_engine_of_its_own("lies about it") {
        return;
    }
    lied_to(PLANS, &["--quick"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lies_about_answers_are_seen() {
    if needs_an_engine_of_its_own("lies about it") {
        return;
    }
    lied_to(ANSWERS, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lies_about_a_deployment_are_seen() {
    if needs_an_engine_of_its_own("lies about it") {
        return;
    }
    lied_to(DEPLOYED, &["--health"]).await;
}

#[test]
fn every_check_is_turned_red_by_a_fault() {
    let lies = [SERVER, PLANS, ANSWERS, DEPLOYED].into_iter().flatten();
    let mut red: BTreeSet<&str> = lies.flat_map(|fault| fault.red.iter().copied()).collect();
    red.extend(SHOWN_ELSEWHERE.iter().map(|(id, _)| *id));
    let all: BTreeSet<&str> = by_hand().map(|check| check.id).collect();
    assert_eq!(red, all);
}
