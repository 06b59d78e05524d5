//! Checks that `vctx doctor` passes on every ArangoDB release and server role that the engine
//! emulates, fails for every fault of a setup, and removes all its probes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use arango_embedded::Options;
use arango_embedded::compat::{Release, Role};
use serde_json::{Value, json};
use vctx::checks::{Step, by_hand};
use vctx::store::{QUERIES, SCHEMA};

use crate::chance::share;
use crate::database::Database;
use crate::doctor_lies::is;
use crate::home::{Home, Process, Tuning, command};
use crate::liar::{Liar, Told};
use crate::outside::needs_an_engine_of_its_own;
use crate::proxy::Proxy;
use crate::releases::{engine, engine_as_told};
use crate::setup::setup;
use crate::talk::Agent;

/// Maximum time that a test waits for a process.
const SOON_MAX: Duration = Duration::from_secs(60);
/// Pause between two polls.
const LOOK: Duration = Duration::from_millis(20);
/// Idle limit of stream transactions in milliseconds, so short that no test has to wait a minute
/// for it.
const IDLE_MS: u64 = 2_500;
/// The prefix of the names of all probes (the objects that the doctor creates in the database).
const SCRATCH: &str = "vctx_doctor_";
/// The name of a probe that a doctor would have created in the year 1970.
pub(crate) const OLD: &str = "vctx_doctor_00000000001_0123abcd";

/// The result of a doctor run: exit code, report and output.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) report: Value,
    pub(crate) text: String,
}

impl Said {
    /// Returns the outcome and the text of a check in the report.
    #[track_caller]
    pub(crate) fn of(&self, id: &str) -> (&str, &str) {
        let rows = self.report["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["check"] == id);
        let row = row.unwrap_or_else(|| panic!("no row {id}: {}", self.text));
        (row["outcome"].as_str().expect("an outcome"), row["seen"].as_str().expect("a text"))
    }

    /// Returns the names of the checks with the given outcome.
    pub(crate) fn with(&self, outcome: &str) -> BTreeSet<String> {
        let rows = self.report["rows"].as_array().expect("rows").iter();
        rows.filter(|row| row["outcome"] == outcome)
            .map(|row| row["check"].as_str().expect("a name").to_owned())
            .collect()
    }
}

/// Returns the command that runs the doctor on the given socket.
fn doctor(home: &Home, socket: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = command(&Tuning::default());
    command.arg("doctor").args(arguments).env("ARANGO_RW_UDS", socket);
    home.add_database(&mut command);
    command.envs(variables.iter().copied());
    command
}

/// Runs the doctor with `--json` to its end, and returns the result.
pub(crate) fn said(
    home: &Home,
    socket: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Said {
    let mut command = doctor(home, socket, arguments, variables);
    let output = tokio::task::block_in_place(|| command.arg("--json").output());
    told(&output.expect("the program runs"))
}

/// Parses the report from the doctor's output.
fn told(output: &Output) -> Said {
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    let code = output.status.code().expect("an exit code");
    let last = text.lines().last().unwrap_or_default();
    let report = serde_json::from_str(last).unwrap_or_else(|e| {
        panic!("no JSON ({e}): {text}\n{}", String::from_utf8_lossy(&output.stderr))
    });
    Said { code, report, text }
}

/// Runs the doctor as administrator, directly on the engine's socket.
fn visited(home: &Home, arguments: &[&str]) -> Said {
    said(home, &home.path("engine.sock"), arguments, &[])
}

/// Returns the names of all probes that exist: databases, users, and objects in the test's
/// database.
pub(crate) async fn scratch(database: &Database) -> Vec<String> {
    let mut found = Vec::new();
    for (path, field) in [("/_api/database", ""), ("/_api/user", "user")] {
        let listed = database.system("GET", path, &Value::Null).await.ok();
        let entries = listed["result"].as_array().expect("a list").clone();
        let name = |entry: &Value| match field {
            "" => entry.as_str().map(str::to_owned),
            field => entry[field].as_str().map(str::to_owned),
        };
        found.extend(entries.iter().filter_map(name));
    }
    for path in ["/_api/collection", "/_api/view"] {
        let listed = database.call("GET", path, &Value::Null).await;
        let entries = listed.body["result"].as_array().cloned().unwrap_or_default();
        found.extend(entries.iter().filter_map(|entry| entry["name"].as_str().map(str::to_owned)));
    }
    found.retain(|name| name.starts_with(SCRATCH));
    found
}

/// Options of an engine whose stream transactions soon reach their idle limit.
pub(crate) fn idle() -> Options {
    Options { stream_idle_ms: IDLE_MS, ..Options::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_sees_everything_green_and_nothing_stays() {
    if needs_an_engine_of_its_own("lets a transaction idle") {
        return;
    }
    let home = Home::new();
    engine(&home, idle());
    // The database has the server's users and a read-only socket.
    assert!(setup(&home, &home.path("engine.sock").display().to_string()).status.success());
    let reads = home.path("engine-ro.sock").display().to_string();
    let password = "a password of its own";
    let variables = [
        ("ARANGO_RO_UDS", reads.as_str()),
        ("ARANGO_RW_PASSWORD", password),
        ("ARANGO_RO_USER", "vctx_ro"),
        ("ARANGO_RO_PASSWORD", password),
    ];
    let before = all_rows(&home.database()).await;
    let seen = said(&home, &home.path("engine.sock"), &[], &variables);
    assert_eq!(seen.with("failed"), BTreeSet::new(), "{:#}", seen.report);
    assert_eq!(
        seen.with("skipped"),
        BTreeSet::from(["server.one-shard".to_owned()]),
        "{:#}",
        seen.report
    );
    assert_eq!(seen.code, 0, "{}", seen.text);
    let probing = by_hand().filter(|check| check.step != Step::Health).count();
    assert_eq!(seen.report["rows"].as_array().map(Vec::len), Some(probing));
    assert_eq!(seen.report["ok"], json!(probing - 1));
    let all = format!("{0} of {0}", QUERIES.len());
    assert_eq!(seen.of("queries.run"), ("ok", all.as_str()));
    assert_eq!(seen.of("queries.explained"), ("ok", all.as_str()));
    assert_eq!(scratch(&home.database()).await, Vec::<String>::new());
    assert_eq!(all_rows(&home.database()).await, before, "nothing of the deployment is touched");

    // The doctor is given a read-only socket that allows writes, and a wrong password.
    let through = home.path("through.sock");
    std::os::unix::fs::symlink(home.path("engine.sock"), &through).expect("a link");
    let through = through.display().to_string();
    let variables = [("ARANGO_RO_UDS", through.as_str()), ("ARANGO_RW_PASSWORD", "wrong")];
    let only = ["--only", "rights.read-socket", "--only", "rights.application"];
    let seen = said(&home, &home.path("engine.sock"), &only, &variables);
    let red = ["rights.application", "rights.read-socket"].map(str::to_owned);
    assert_eq!((seen.code, seen.with("failed")), (65, BTreeSet::from(red)), "{:#}", seen.report);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_release_and_a_coordinator_are_green() {
    if needs_an_engine_of_its_own("chooses its release and role") {
        return;
    }
    for &release in share(&Release::ALL) {
        let home = Home::new();
        engine(&home, Options { release, ..Options::default() });
        let seen = visited(&home, &["--quick"]);
        assert_eq!(seen.with("failed"), BTreeSet::new(), "{release}: {:#}", seen.report);
        assert!(seen.of("server.version").1.contains(&release.to_string()), "{release}");
        assert_eq!(seen.code, 0, "{release}");
    }
    let home = Home::new();
    engine(&home, Options { role: Role::Coordinator, ..Options::default() });
    assert!(setup(&home, &home.path("engine.sock").display().to_string()).status.success());
    let seen = visited(&home, &["--quick"]);
    assert_eq!(seen.with("failed"), BTreeSet::new(), "coordinator: {:#}", seen.report);
    assert_eq!(seen.of("server.one-shard").0, "ok");
    let skipped = ["rights.application", "rights.read-socket", "transactions.idle"];
    assert_eq!(seen.with("skipped"), BTreeSet::from(skipped.map(str::to_owned)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_flag_that_is_off_is_told_and_the_rest_is_tried_all_the_same() {
    if needs_an_engine_of_its_own("starts it without vector indexes") {
        return;
    }
    let home = Home::new();
    engine_as_told(&home, Options::default());
    let seen = visited(&home, &["--quick"]);
    assert_eq!(seen.code, 65, "{}", seen.text);
    assert_eq!(seen.of("vectors.flag").0, "failed");
    assert!(seen.of("vectors.flag").1.contains("vector-index"), "{:?}", seen.of("vectors.flag"));
    assert_eq!(seen.of("vectors.refusals").0, "ok", "both say that it is off");
    assert_eq!(seen.of("vectors.ready").0, "skipped");
    assert_eq!(seen.of("transactions.commit").0, "ok");
    assert_eq!(seen.of("removal.scratch").0, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_has_to_be_said_where_a_server_runs_with_its_own_engine() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    ada.append("user", "Hello").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    if needs_an_engine_of_its_own("looks for it where the server keeps its data") {
        return;
    }
    let database = home.database_inside();
    let before = all_rows(&database).await;
    let run = |arguments: &[&str]| {
        let mut command = command(&Tuning::default());
        command.arg("doctor").args(arguments).arg("--json");
        command.env("VCTX_SERVER__DATA_DIR", home.path("data"));
        tokio::task::block_in_place(|| told(&command.output().expect("the program runs")))
    };
    let seen = run(&["--quick"]);
    assert_eq!((seen.code, seen.with("failed")), (0, BTreeSet::new()), "{:#}", seen.report);
    let seen = run(&["--health"]);
    assert_eq!((seen.code, seen.with("failed")), (0, BTreeSet::new()), "{:#}", seen.report);
    assert_eq!(seen.with("warning"), BTreeSet::new(), "{:#}", seen.report);
    assert_eq!(seen.of("health.views").0, "ok");
    assert_eq!(all_rows(&database).await, before, "nothing of the deployment is touched");
    home.assert_verified("vctx.sock", "ada");
}

/// Creates a user with the given rights on the test's database and its collections.
async fn user(database: &Database, name: &str, access: &str, documents: &str) {
    let body = json!({"user": name, "passwd": "secret", "active": true});
    assert_eq!(database.system("POST", "/_api/user", &body).await.status, 201);
    for (path, grant) in [
        (format!("/_api/user/{name}/database/{}", database.name), access),
        (format!("/_api/user/{name}/database/{}/*", database.name), documents),
    ] {
        let granted = database.system("PUT", &path, &json!({"grant": grant})).await;
        assert_eq!(granted.status, 200, "{}", granted.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_make_collections_gets_scratch_collections_and_an_application_user_none() {
    let home = Home::new();
    let _engine = home.engine().await;
    let socket = home.path("engine.sock");
    assert!(setup(&home, &socket.display().to_string()).status.success());
    let database = home.database();
    user(&database, "maker", "rw", "rw").await;
    let before = all_rows(&database).await;
    let maker = [("ARANGO_USER", "maker"), ("ARANGO_PASSWORD", "secret")];
    let seen = said(&home, &socket, &["--quick"], &maker);
    assert_eq!(seen.with("failed"), BTreeSet::new(), "{:#}", seen.report);
    assert!(seen.of("objects.scratch").1.contains(SCRATCH));
    assert_eq!(seen.of("vectors.exact").0, "ok");
    for id in ["objects.setup", "queries.run", "rights.writer", "server.one-shard"] {
        assert_eq!(seen.of(id).0, "skipped", "{id}: {}", seen.of(id).1);
    }
    assert!(seen.of("queries.run").1.contains("as administrator"), "how to run it");
    assert_eq!(scratch(&database).await, Vec::<String>::new());

    let application = [
        ("ARANGO_USER", "vctx_rw"),
        ("ARANGO_PASSWORD", "a password of its own"),
        ("ARANGO_RO_USER", "vctx_ro"),
        ("ARANGO_RO_PASSWORD", "a password of its own"),
    ];
    let seen = said(&home, &socket, &[], &application);
    assert_eq!(seen.with("failed"), BTreeSet::new(), "{:#}", seen.report);
    for id in [
        "server.version",
        "queries.explained",
        "rights.writer",
        "rights.writer-ddl",
        "rights.reader",
    ] {
        assert_eq!(seen.of(id).0, "ok", "{id}: {}", seen.of(id).1);
    }
    for id in ["objects.scratch", "transactions.idle", "vectors.flag", "errors.order"] {
        assert_eq!(seen.of(id).0, "skipped", "{id}");
        assert!(seen.of(id).1.contains("ARANGO_USER=root"), "{id}: how to run it");
    }
    assert_eq!(all_rows(&database).await, before, "nothing of the deployment is touched");
    assert_eq!(scratch(&database).await, Vec::<String>::new());

    // The doctor checks the index user only if it knows the user's password.
    let unasked = said(&home, &socket, &["--health"], &application);
    assert_eq!(unasked.of("health.indexer").0, "skipped", "{:#}", unasked.report);
    assert!(unasked.of("health.indexer").1.contains("ARANGO_INDEX_PASSWORD"));
    let mut with_index = application.to_vec();
    with_index.push(("ARANGO_INDEX_PASSWORD", "a password of its own"));
    let seen = said(&home, &socket, &["--health"], &with_index);
    assert_eq!(seen.of("health.indexer").0, "ok", "{:#}", seen.report);

    // The doctor detects excessive rights and a missing user.
    assert_eq!(database.system("DELETE", "/_api/user/vctx_index", &Value::Null).await.status, 202);
    let seen = said(&home, &socket, &["--health"], &[]);
    assert_eq!(seen.of("health.indexer").0, "warning", "{:#}", seen.report);
    assert!(seen.of("health.indexer").1.contains("vctx setup --users"));
    let grant = json!({"grant": "rw"});
    let path = format!("/_api/user/vctx_ro/database/{}/*", database.name);
    assert_eq!(database.system("PUT", &path, &grant).await.status, 200);
    let seen = said(&home, &socket, &["--health"], &[]);
    assert_eq!(seen.of("health.reader").0, "failed", "{:#}", seen.report);
    assert_eq!(seen.of("health.writer").0, "ok", "{:#}", seen.report);
}

/// Returns every document of every collection as text.
async fn all_rows(database: &Database) -> Vec<String> {
    let listed =
        database.call("GET", "/_api/collection?excludeSystem=true", &Value::Null).await.ok();
    let mut names: Vec<String> = listed["result"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["name"].as_str().expect("a name").to_owned())
        .collect();
    names.sort();
    let mut all = Vec::new();
    for name in names {
        let rows = database.rows("FOR d IN @@c SORT d._key RETURN d", json!({"@c": name})).await;
        all.push(format!("{name}: {}", json!(rows)));
        let indexes = database
            .call("GET", &format!("/_api/index?collection={name}"), &Value::Null)
            .await
            .ok();
        let mut names: Vec<String> = indexes["indexes"]
            .as_array()
            .expect("indexes")
            .iter()
            .map(|index| index["name"].as_str().expect("a name").to_owned())
            .collect();
        names.sort();
        all.push(format!("{name}: {names:?}"));
    }
    all
}

/// Waits until a probe exists.
async fn begun(database: &Database, doctor: &Process) -> Vec<String> {
    let until = Instant::now() + SOON_MAX;
    loop {
        let found = scratch(database).await;
        if !found.is_empty() {
            return found;
        }
        assert!(doctor.ended().is_none(), "it ended before: {}", doctor.said());
        assert!(Instant::now() < until, "no scratch: {}", doctor.said());
        tokio::time::sleep(LOOK).await;
    }
}

/// Starts a doctor that waits for the idle limit of a transaction; this leaves the test time to
/// kill the doctor.
fn waiting(home: &Home) -> Process {
    let socket = home.path("engine.sock");
    let only = ["--only", "transactions.idle", "--only", "removal.scratch", "--json"];
    Process::start(home, "doctor", doctor(home, &socket, &only, &[]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_visit_and_its_scratch() {
    let home = Home::new();
    let _engine = home.engine().await;
    let database = home.database();
    let doctor = waiting(&home);
    begun(&database, &doctor).await;
    let status = doctor.stop().await;
    assert_eq!(status.code(), Some(75), "{}", doctor.said());
    assert_eq!(scratch(&database).await, Vec::<String>::new(), "{}", doctor.said());
    assert!(doctor.said().contains("\"ended\":\"interrupted\""), "{}", doctor.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_doctor_leaves_goes_with_the_next_and_nothing_else() {
    let home = Home::new();
    let _engine = home.engine().await;
    let database = home.database();
    database.make().await;
    let doctor = waiting(&home);
    begun(&database, &doctor).await;
    doctor.kill();
    let left = scratch(&database).await;
    assert!(!left.is_empty(), "a kill leaves it behind");
    // The doctor must not remove objects that only have a similar name and that no doctor created.
    // Nor must it remove probes in other databases.
    let others = [
        "vctx_doctor_notes",
        "vctx_doctor_00000000001_0123abcde",
        "vctx_doctor_00000000001_0123abcd_mail",
    ];
    for other in others {
        let made = database.system("POST", "/_api/database", &json!({"name": other})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let made = database.call("POST", "/_api/collection", &json!({"name": other})).await;
        assert_eq!(made.status, 200, "{}", made.text);
    }
    assert_eq!(database.system("POST", "/_api/database", &json!({"name": OLD})).await.status, 201);
    user(&database, &format!("{OLD}_rw"), "ro", "rw").await;
    let docs = json!({"name": format!("{OLD}_docs")});
    assert_eq!(database.call("POST", "/_api/collection", &docs).await.status, 200);
    // Young probes stay, because they may belong to a running doctor; old probes are removed.
    let seen = visited(&home, &["--only", "removal.leftovers"]);
    assert_eq!(
        seen.of("removal.leftovers"),
        ("ok", format!("removed: {OLD}_rw, {OLD}, {OLD}_docs").as_str())
    );
    let there = scratch(&database).await;
    assert!(left.iter().all(|name| there.contains(name)), "{there:?}");
    let seen = visited(&home, &["--only", "removal.leftovers", "--sweep-after", "0"]);
    assert_eq!((seen.code, seen.of("removal.leftovers").0), (0, "ok"), "{}", seen.text);
    let mut there = scratch(&database).await;
    there.sort();
    let mut wanted: Vec<&str> = others.iter().chain(&others).copied().collect();
    wanted.sort_unstable();
    assert_eq!(there, wanted, "nothing else goes");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_wrong_credentials_and_a_wrong_command_line_have_codes_of_their_own() {
    let home = Home::new();
    let _engine = home.engine().await;
    let socket = home.path("engine.sock");
    let nobody = said(&home, &home.path("nobody.sock"), &[], &[]);
    assert_eq!((nobody.code, nobody.of("server.reached").0), (69, "failed"));
    let wrong = said(&home, &socket, &[], &[("ARANGO_PASSWORD", "wrong")]);
    assert_eq!((wrong.code, wrong.of("server.reached").0), (77, "failed"));
    assert_eq!(wrong.of("objects.unique").0, "skipped");
    let mut unknown = doctor(&home, &socket, &["--only", "server.nothing"], &[]);
    assert_eq!(unknown.output().expect("it runs").status.code(), Some(64));
    let mut tcp = doctor(&home, &socket, &["--endpoint", "tcp://127.0.0.1:8529"], &[]);
    assert_eq!(tcp.output().expect("it runs").status.code(), Some(78));
    let mut plain = doctor(
        &home,
        &home.path("nobody.sock"),
        &["--endpoint", socket.to_str().expect("a path"), "--only", "server.version", "--markdown"],
        &[],
    );
    let output = plain.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains("| `server.version` | ok | 3.12.4 to 3.12.10 |"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "no colours where nobody looks");
    assert!(String::from_utf8_lossy(&output.stderr).contains("doctor: "), "progress is on stderr");
    let list = home.run(&["doctor", "--list"]);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(by_hand().all(|check| list.contains(check.id)), "{list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_removed_is_told() {
    let home = Home::new();
    let _engine = home.engine().await;
    let (direct, socket) = (home.path("engine.sock"), home.path("liar.sock"));
    let liar = Liar::instead(&socket, &direct, |x| {
        is(x, "DELETE", "/_api/database/").then(|| Told::new(200, json!({"result": true})))
    });
    let only = ["--only", "objects.unique", "--only", "removal.scratch"];
    let seen = said(&home, &socket, &only, &[]);
    drop(liar);
    assert_eq!((seen.code, seen.of("removal.scratch").0), (65, "failed"), "{}", seen.text);
    assert_eq!(seen.of("objects.unique").0, "ok");
    assert_eq!(scratch(&home.database()).await.len(), 1);
    let seen = said(&home, &direct, &["--only", "removal.leftovers", "--sweep-after", "0"], &[]);
    assert_eq!((seen.code, seen.of("removal.leftovers").0), (0, "ok"));
    assert_eq!(scratch(&home.database()).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_schema_a_missing_index_and_an_open_transaction_are_seen() {
    let home = Home::new();
    let _engine = home.engine().await;
    let socket = home.path("engine.sock");
    let database = home.database();
    let unmade = said(&home, &socket, &["--health"], &[]);
    assert_eq!((unmade.code, unmade.of("health.schema").0), (65, "failed"), "{:#}", unmade.report);
    assert!(unmade.of("health.schema").1.contains("vctx setup"));
    assert!(setup(&home, &socket.display().to_string()).status.success());
    let before = all_rows(&database).await;
    let proxy = Proxy::start(&home.path("seen.sock"), &socket);
    let healthy = said(&home, &home.path("seen.sock"), &["--health"], &[]);
    assert_eq!(
        (healthy.code, healthy.with("failed")),
        (0, BTreeSet::new()),
        "{:#}",
        healthy.report
    );
    assert_eq!(healthy.with("warning"), BTreeSet::new(), "{:#}", healthy.report);
    assert_eq!(all_rows(&database).await, before, "health only reads");
    for exchange in proxy.record() {
        let text = exchange.request["query"].as_str().unwrap_or_default().to_uppercase();
        let reads = exchange.method == "GET"
            || exchange.is_query()
                && !["INSERT ", "UPDATE ", "REPLACE ", "REMOVE ", "UPSERT "]
                    .iter()
                    .any(|word| text.contains(word));
        assert!(reads, "{} {}: {text}", exchange.method, exchange.path);
    }

    let older = json!({"version": SCHEMA - 1});
    let changed = database.call("PATCH", "/_api/document/vctx_meta/schema", &older).await;
    assert!(changed.status < 300, "{}", changed.text);
    let dropped =
        database.call("DELETE", "/_api/index/messages/messages_by_seq", &Value::Null).await;
    assert_eq!(dropped.status, 200, "{}", dropped.text);
    let begin = json!({"collections": {"write": ["messages"]}});
    let open = database.call("POST", "/_api/transaction/begin", &begin).await.ok();
    assert_eq!(database.system("POST", "/_api/database", &json!({"name": OLD})).await.status, 201);
    let path = format!("/_api/user/vctx_rw/database/{}", database.name);
    assert_eq!(database.system("PUT", &path, &json!({"grant": "rw"})).await.status, 200);
    let path = format!("/_api/user/vctx_index/database/{}", database.name);
    assert_eq!(database.system("PUT", &path, &json!({"grant": "ro"})).await.status, 200);
    let seen = said(&home, &socket, &["--health"], &[]);
    let red = [
        "health.schema",
        "health.objects",
        "health.transactions",
        "health.leftovers",
        "health.writer",
        "health.indexer",
    ];
    let red: BTreeSet<String> = red.iter().map(|id| (*id).to_owned()).collect();
    assert_eq!((seen.code, seen.with("failed")), (65, red), "{:#}", seen.report);
    assert!(seen.of("health.objects").1.contains("messages.messages_by_seq"));
    let id = open["result"]["id"].as_str().expect("an id");
    database.call("DELETE", &format!("/_api/transaction/{id}"), &Value::Null).await;
    database.system("DELETE", &format!("/_api/database/{OLD}"), &Value::Null).await;
}
