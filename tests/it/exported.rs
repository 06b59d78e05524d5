//! Tests that an exported agent is unchanged after its import: every byte, every proof, every
//! answer. A modified file is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::process::Output;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::count;
use crate::database::Database;
use crate::home::{Home, Tuning};
use crate::isolation_cases::said_once;
use crate::keeper::{Keeper, NOBODYS, OWNED, plant};
use crate::outside::needs_an_engine_of_its_own;
use crate::standin::proxy;
use crate::talk::Agent;
use crate::wire::{Answer, Wire};

/// Maximum time that a test waits for background work.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of messages of the agent whose import is killed, enough for several batches.
const MANY: usize = 1_500;

/// Returns the lines of an export without the signed head, which differs from server to server.
async fn exported(wire: &Wire, name: &str) -> String {
    let file = signed(wire, name).await;
    let lines = file.lines().filter(|line| !line.starts_with(SIGNED));
    lines.map(|line| format!("{line}\n")).collect()
}

async fn signed(wire: &Wire, name: &str) -> String {
    let answer = wire.get(&format!("/v1/agents/{name}/export")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text
}

/// Beginning of the line with the signed head.
const SIGNED: &str = "{\"checkpoint\":";

async fn import(wire: &Wire, name: &str, file: &str) -> Answer {
    wire.call("POST", &format!("/v1/agents/{name}/import"), &[], file.to_owned()).await
}

fn trailer(file: &str) -> Value {
    let mut lines = file.lines().rev().skip_while(|line| line.starts_with(SIGNED));
    serde_json::from_str(lines.next().expect("a last line")).expect("JSON")
}

#[test]
fn the_table_of_whose_rows_lie_where_knows_what_a_keeper_keeps() {
    let table: BTreeSet<&str> = vctx::store::OWNED.iter().map(|owned| owned.collection).collect();
    let kept = OWNED.into_iter().chain(NOBODYS).filter(|name| *name != "vctx_meta");
    assert_eq!(table, kept.collect());
}

/// Creates an agent with every kind of data, including a vector of a recall entry and a message
/// whose text has expired.
async fn rich(home: &Home) -> Keeper {
    let keeper = plant(home, "vctx.sock", "ada", "ada").await;
    let database = home.database_inside();
    let entry = database
        .rows(
            "FOR e IN recall_log FILTER e._from == 'core_memory/ada' SORT e.seq LIMIT 1 RETURN e",
            json!({}),
        )
        .await
        .remove(0);
    // Floating-point numbers that an imprecise parser reads wrongly, by one bit, if they are
    // written with as few digits as possible.
    let vector = json!({"_key": format!("{}-0", entry["_key"].as_str().expect("a key")), "agent_id": "ada", "id": entry["_key"],
        "seq": entry["seq"], "passage": 0, "start": 0, "end": 5, "source": "message", "role": "user", "created_at": entry["created_at"],
        "embedding": [0.1, 0.30000000000000004, 7.038531e-26, -1.0, 2.225073858507201e-308], "fingerprint": "f"});
    let made = database.call("POST", "/_api/document/recall_vectors", &vector).await;
    assert!(made.status < 300, "{}", made.text);
    let expire = "FOR m IN messages FILTER m.agent_id == 'ada' AND m.kind == 'turn' SORT m.seq LIMIT 1
        UPDATE m WITH {content: null, meta: null, salt: null, expired_at: '2026-01-01T00:00:00.000Z'} IN messages OPTIONS {keepNull: true}
        RETURN NEW._key";
    assert_eq!(database.rows(expire, json!({})).await.len(), 1);
    keeper
}

/// Returns an agent's answers to queries, without the fields that differ after an import:
/// revisions, event ids, page tokens, and the versions of the core, whose number rises when a
/// search stores a page.
async fn answers(agent: &Agent, keeper: &Keeper) -> BTreeMap<&'static str, Value> {
    let word = &keeper.names.word;
    let mut told = BTreeMap::new();
    let bare = |mut value: Value| {
        fn strip(value: &mut Value) {
            match value {
                Value::Object(map) => {
                    for name in [
                        "_rev",
                        "version",
                        "next_page_token",
                        "agent",
                        "id",
                        "ts",
                        "score",
                        "similarity",
                    ] {
                        map.remove(name);
                    }
                    map.values_mut().for_each(strip);
                }
                Value::Array(items) => items.iter_mut().for_each(strip),
                _ => {}
            }
        }
        strip(&mut value);
        value
    };
    let recall = json!({"query": word, "rehydrate": false, "limit": 20});
    told.insert("recall", agent.done("search_recall", &recall).await["result"]["results"].clone());
    let archival = json!({"query_text": format!("{word} keeper of the lighthouse"), "limit": 10});
    told.insert(
        "archival",
        agent.done("search_archival", &archival).await["result"]["results"].clone(),
    );
    for (name, path) in [
        ("messages", "messages?limit=1000"),
        ("history", "history?limit=20"),
        ("prompts", "prompts?limit=200"),
        ("replay", "prompts/1"),
        ("schedules", "schedules"),
    ] {
        told.insert(name, agent.wire.get(&format!("{}/{path}", agent.path())).await.ok());
    }
    let why = format!("{}/why?text={word}%20keeper%20of%20the%20lighthouse", agent.path());
    told.insert("why", agent.wire.get(&why).await.ok());
    told.into_iter().map(|(name, value)| (name, bare(value))).collect()
}

/// Waits until the views show all rows, because a view with only some of the rows ranks
/// differently.
async fn shown(home: &Home) {
    let database = home.database_inside();
    for view in ["recall_view", "archival_view"] {
        let query = format!(
            "FOR d IN {view} OPTIONS {{waitForSync: true}} COLLECT WITH COUNT INTO shown RETURN shown"
        );
        let shown = database.rows(&query, json!({})).await;
        assert!(shown[0].as_u64().is_some_and(|rows| rows > 0), "{view}: {shown:?}");
    }
}

/// Waits until the views show all rows, and compares the answers.
async fn answers_become(agent: &Agent, keeper: &Keeper, wanted: &BTreeMap<&'static str, Value>) {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = answers(agent, keeper).await;
        let differs = wanted.keys().find(|name| found[*name] != wanted[*name]);
        let Some(name) = differs else { return };
        assert!(Instant::now() < until, "{name}: {:#}\nis not\n{:#}", found[name], wanted[name]);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_the_same_elsewhere_byte_by_byte_and_answer_by_answer() {
    let (here, there) = (Home::new(), Home::new());
    let (_one, _two) = (here.serve().await, there.serve().await);
    let keeper = rich(&here).await;
    let ada = &keeper.agent;
    shown(&here).await;
    let said = answers(ada, &keeper).await;
    let mut proof = here.verify("vctx.sock", "ada");
    let file = exported(&ada.wire, "ada").await;
    assert_eq!(exported(&ada.wire, "ada").await, file, "two exports of one state");
    let counts = trailer(&file)["counts"].clone();
    let empty: Vec<&String> = counts
        .as_object()
        .expect("counts")
        .iter()
        .filter(|(_, n)| **n == 0)
        .map(|(name, _)| name)
        .collect();
    assert!(empty.is_empty(), "nothing of {empty:?} is tried here");

    let wire = there.wire("vctx.sock");
    let told = import(&wire, "ada", &file).await;
    assert_eq!((told.status, &told.body["made"]), (201, &json!(true)), "{}", told.text);
    assert_eq!(exported(&wire, "ada").await, file, "export, import, export");
    let again = import(&wire, "ada", &file).await;
    assert_eq!((again.status, &again.body["made"]), (200, &json!(false)), "{}", again.text);
    let twin = Agent::at(wire, "ada");
    answers_become(&twin, &keeper, &said).await;
    let mut told = there.verify("vctx.sock", "ada");
    for report in [&mut told.1, &mut proof.1] {
        // Jobs of both servers may add entries meanwhile.
        let ledger = report["agents"][0]["ledger"].as_object_mut().expect("a ledger");
        for name in ["entries", "head", "rows", "signed"] {
            assert!(ledger.remove(name).is_some(), "{name}");
        }
    }
    assert_eq!(told, proof);

    // The first server answered this call before the export. The second server returns the stored
    // answer, which the import has restored.
    let replayed = twin.tool("append_fifo", &said_once(), &keeper.names.key, "*").await.ok();
    assert_eq!(replayed["replayed"], true, "{replayed}");
    let other = twin
        .tool("append_fifo", &json!({"message": "Else.", "role": "user"}), &keeper.names.key, "*")
        .await;
    other.refused(409, "IDEMPOTENCY_KEY_REUSED");
    // The imported agent can be used: an append continues the hash chain. The append changes the
    // agent's state, so another import of the file is refused.
    twin.append("user", "The voyage goes on.").await;
    assert_eq!(there.verify("vctx.sock", "ada").0, proof.0);
    import(&twin.wire, "ada", &file).await.refused(409, "AGENT_EXISTS");
}

#[tokio::test(flavor = "multi_thread")]
async fn under_another_name_and_tenant_it_keeps_its_proofs_and_comes_back_as_it_was() {
    let (here, there, back) = (Home::new(), Home::new(), Home::new());
    let acme = Tuning::variable("VCTX_SERVER__TENANT", "acme");
    let _one = here.serve().await;
    let _two = there.serve_with("vctx.sock", &acme).await;
    let _three = back.serve().await;
    let keeper = plant(&here, "vctx.sock", "ada", "ada").await;
    let proof = here.verify("vctx.sock", "ada").1;
    let replay = keeper.agent.wire.get("/v1/agents/ada/prompts/1").await.ok();
    let file = exported(&keeper.agent.wire, "ada").await;
    let wire = there.wire("vctx.sock");
    // In the second database, the vectors are stored in an attribute with another name.
    let shelf = Agent::create(wire.again(), "shelf", 4096, "").await;
    shelf.done("ingest_archival", &json!({"doc_id": "d", "chunks": ["A shelf."]})).await;
    let database = there.database_inside();
    let renamed = "LET a = (FOR d IN archival_docs UPDATE d WITH {embedding_2: d.embedding, embedding: null} IN archival_docs OPTIONS {keepNull: false})
        LET b = (FOR m IN archival_manifests UPDATE m WITH {embedded: 2} IN archival_manifests)
        FOR v IN vctx_meta FILTER v._key == 'vector' UPDATE v WITH {number: 2, last: 2} IN vctx_meta RETURN NEW.number";
    assert_eq!(database.rows(renamed, json!({})).await, [json!(2)]);

    let made = import(&wire, "bea", &file).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let vectors = "FOR d IN archival_docs FILTER d.agent_id == 'acme:bea'
        COLLECT here = d.embedding_2 != null, before = d.embedding != null, owner = d.provenance.owner RETURN [here, before, owner]";
    assert_eq!(database.rows(vectors, json!({})).await, [json!([true, false, "acme:bea"])]);
    let (code, report) = there.verify("vctx.sock", "bea");
    assert_eq!(
        (code, &report["agents"][0]["chain_head"]),
        (0, &proof["agents"][0]["chain_head"]),
        "{report}"
    );
    let again = wire.get("/v1/agents/bea/prompts/1").await.ok();
    assert_eq!(again["exact"], replay["exact"], "{again}");
    let second = exported(&wire, "bea").await;
    assert_eq!(trailer(&second)["state"], trailer(&file)["state"], "one state has one hash");
    assert_ne!(second, file, "the name is another one");

    let wire = back.wire("vctx.sock");
    assert_eq!(import(&wire, "ada", &second).await.status, 201);
    assert_eq!(exported(&wire, "ada").await, file, "twice back");

    // One database cannot contain the same messages twice, even under different agents; the refused
    // import leaves no rows.
    let before = rows_of(&back.database_inside()).await;
    import(&wire, "bea", &file).await.refused(409, "AGENT_EXISTS");
    assert_eq!(rows_of(&back.database_inside()).await, before);
    wire.get("/v1/agents/bea").await.refused(404, "AGENT_NOT_FOUND");

    // The agent continues under the new name; new digests still contain the original name.
    let bea = Agent::at(there.wire("vctx.sock"), "bea");
    bea.append("user", "A word under the new name.").await;
    there.assert_verified("vctx.sock", "bea");
}

/// Returns the number of rows in each collection.
async fn rows_of(database: &Database) -> Value {
    let query = "RETURN { core: LENGTH(core_memory), versions: LENGTH(core_versions), messages: LENGTH(messages), recall: LENGTH(recall_log),
        vectors: LENGTH(recall_vectors), manifests: LENGTH(archival_manifests), docs: LENGTH(archival_docs), cites: LENGTH(cites),
        derived: LENGTH(derived_from), prompts: LENGTH(prompts), tools: LENGTH(tool_sets), packs: LENGTH(context_packs), answers: LENGTH(idempotency),
        schedules: LENGTH(schedules), events: LENGTH(memory_events), meta: LENGTH(vctx_meta) }";
    database.row(query, json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_touched_is_refused_whole() {
    let (here, there) = (Home::new(), Home::new());
    let (_one, _two) = (here.serve().await, there.serve().await);
    let keeper = plant(&here, "vctx.sock", "ada", "ada").await;
    let file = exported(&keeper.agent.wire, "ada").await;
    let wire = there.wire("vctx.sock");
    let shelf = Agent::create(wire.again(), "shelf", 4096, "").await;
    let empty = rows_of(&there.database_inside()).await;
    let whole = signed(&keeper.agent.wire, "ada").await;
    let last = whole.lines().last().expect("a line");
    assert!(last.starts_with(SIGNED), "{last}");
    let lines: Vec<&str> = file.lines().collect();
    let joined = |lines: &[&str]| format!("{}\n", lines.join("\n"));
    let replaced = |from: &str, to: &str| {
        assert!(file.contains(from), "{from} is not in the file");
        file.replacen(from, to, 1)
    };
    let middle = lines.len() / 2;
    let mut swapped = lines.clone();
    swapped.swap(middle, middle + 1);
    let mut doubled = lines.clone();
    doubled.insert(middle, lines[middle]);
    let cases = [
        ("nothing", String::new()),
        ("cut behind a line", joined(&lines[..middle])),
        ("cut within a line", file[..file.len() / 2].to_owned()),
        ("without its last line", joined(&lines[..lines.len() - 1])),
        ("swapped", joined(&swapped)),
        ("doubled", joined(&doubled)),
        ("more behind it", format!("{file}{}\n", lines[1])),
        ("two signed heads", format!("{whole}{last}\n")),
        ("a signed head with more", format!("{file}{}\n", last.replacen('{', "{ ", 1))),
        ("a word changed", replaced("keeper of the lighthouse", "keeper of the lighthouze")),
        (
            "a row of somebody else",
            replaced(
                "{\"in\":\"messages\",\"row\":{",
                "{\"in\":\"messages\",\"row\":{\"agent_id\":\"shelf\",",
            ),
        ),
        ("an unknown kind", replaced("{\"in\":\"messages\"", "{\"in\":\"_users\"")),
        ("a newer format", replaced("\"version\":1}", "\"version\":2}")),
        ("other vectors", replaced("\"dimension\":", "\"dimension\":1")),
        ("deep", format!("{}\n{}{}\n", lines[0], "[".repeat(100_000), "]".repeat(100_000))),
        ("not of ours", "{\"vctx_export\":1,\"state\":{}}\n".into()),
    ];
    for (what, case) in cases {
        let refused = import(&wire, "ada", &case).await.refused(400, "INVALID_ARGUMENT");
        let detail = refused["detail"].as_str().expect("a text");
        assert!(detail.contains("nothing was imported"), "{what}: {detail}");
        assert_eq!(rows_of(&there.database_inside()).await, empty, "{what} left something");
    }
    // The vectors in the file come from another model than the vectors in the database.
    shelf.done("ingest_archival", &json!({"doc_id": "d", "chunks": ["A shelf."]})).await;
    let database = there.database_inside();
    database.rows("FOR v IN vctx_meta FILTER v._key == 'vector' UPDATE v WITH {model_id: 'else'} IN vctx_meta RETURN 1", json!({})).await;
    let before = rows_of(&database).await;
    import(&wire, "ada", &file).await.refused(409, "VECTOR_SETTING_MISMATCH");
    assert_eq!(rows_of(&database).await, before);
    // If the client disconnects in the middle of the file, the import leaves no rows.
    let mut stream = UnixStream::connect(there.path("vctx.sock")).expect("a socket");
    let head = format!(
        "POST /v1/agents/ada/import HTTP/1.1\r\nhost: v\r\ncontent-length: {}\r\n\r\n",
        file.len()
    );
    stream.write_all(head.as_bytes()).expect("bytes go");
    stream.write_all(&file.as_bytes()[..file.len() / 2]).expect("bytes go");
    drop(stream);
    wire.get("/v1/agents/ada").await.refused(404, "AGENT_NOT_FOUND");
    assert_eq!(rows_of(&database).await, before);
}

/// Creates an agent with many messages, which are written in a few calls.
async fn many(wire: Wire, name: &str) -> Agent {
    let agent = Agent::create(wire, name, 8192, "You keep a log.").await;
    for part in 0..MANY.div_ceil(250) {
        let entries: Vec<Value> = (0..250)
            .map(|n| json!({"content": format!("Entry {part}-{n} of the log: {}", count::words(12))}))
            .collect();
        agent.done("write_recall", &json!({"entries": entries})).await;
    }
    agent
}

/// Makes the lease of an interrupted import expire, so that another import may begin.
async fn lapse(database: &Database) {
    let query = "FOR m IN vctx_meta FILTER m._key == 'import:log' UPDATE m WITH {until_ms: 0} IN vctx_meta RETURN m.rows";
    assert_eq!(database.rows(query, json!({})).await.len(), 1, "one import is under way");
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_killed_shows_nothing_and_the_next_one_finishes_or_cleans() {
    if needs_an_engine_of_its_own(
        "kills a server within an import and looks at the database meanwhile",
    ) {
        return;
    }
    let (here, there) = (Home::new(), Home::new());
    let _one = here.serve().await;
    let log = many(here.wire("vctx.sock"), "log").await;
    let first = exported(&log.wire, "log").await;
    log.append("user", "One more.").await;
    let second = exported(&log.wire, "log").await;
    let _engine = there.engine().await;
    let database = there.database();
    let tuning = Tuning::default();
    let mut server = there.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let before = rows_of(&database).await;
    let mut last = json!(null);
    for file in [&first, &first, &second] {
        let wire = there.wire("vctx.sock");
        let path = "/v1/agents/log/import".to_owned();
        let sent = file.clone();
        let sending =
            tokio::spawn(async move { wire.try_call("POST", &path, &[], sent).await.is_ok() });
        let until = Instant::now() + PATIENCE;
        // The loop waits until the row with the import's progress differs from the row that the
        // killed import left.
        let mark = "FOR m IN vctx_meta FILTER m._key == 'import:log' AND m.rows > 0 RETURN [m.state, m.rows]";
        loop {
            let rows = database.rows(mark, json!({})).await;
            if let Some(found) = rows.into_iter().next().filter(|found| *found != last) {
                last = found;
                break;
            }
            assert!(Instant::now() < until, "the import never wrote");
        }
        server.kill();
        assert!(!sending.await.expect("a task"), "the import ended before it was killed");
        // On a slow machine the lease could end before the next import is refused. A lease that
        // ends later than this is not valid.
        let longer = "FOR m IN vctx_meta FILTER m._key == 'import:log' UPDATE m WITH {until_ms: DATE_NOW() + 25000} IN vctx_meta RETURN 1";
        assert_eq!(database.rows(longer, json!({})).await.len(), 1);
        server = there.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuning).await;
        let wire = there.wire("vctx.sock");
        wire.get("/v1/agents/log").await.refused(404, "AGENT_NOT_FOUND");
        assert_eq!(wire.get("/v1/agents").await.ok()["agents"], json!([]), "after {last}");
        let busy = import(&wire, "log", file).await.refused(409, "CONFLICT");
        assert!(busy["detail"].as_str().expect("a text").contains("under way"), "{busy}");
        lapse(&database).await;
    }
    // The agent's name is also free for a new agent, whose creation removes the leftover rows.
    let wire = there.wire("vctx.sock");
    let made = wire.put("/v1/agents/log", &json!({"context_window": 4096})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let after = rows_of(&database).await;
    assert_eq!(
        (&after["messages"], &after["recall"], &after["answers"]),
        (&before["messages"], &before["recall"], &before["answers"])
    );
    assert_eq!(
        (&after["core"], &after["versions"], &after["meta"]),
        (&json!(1), &json!(1), &before["meta"]),
        "{after}"
    );
    database.rows("FOR c IN core_memory REMOVE c IN core_memory", json!({})).await;
    database.rows("FOR v IN core_versions REMOVE v IN core_versions", json!({})).await;
    database.rows("FOR e IN memory_events REMOVE e IN memory_events", json!({})).await;
    // The agent was removed without the server, so its signed head must go, too.
    drop(server);
    fs::remove_dir_all(there.path("server/ledger")).expect("a removal");
    let _server = there.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let told = import(&wire, "log", &second).await;
    assert_eq!(told.status, 201, "{}", told.text);
    assert_eq!(exported(&wire, "log").await, second);
    there.assert_verified("vctx.sock", "log");
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_proxies_of_which_the_one_for_reads_passes_no_transaction_it_is_the_same() {
    let home = Home::new();
    let _engine = home.engine().await;
    let usual = Tuning::default();
    let _direct = home.server("direct.sock", "engine.sock", "engine-ro.sock", &usual).await;
    let _reads = proxy(&home, "ro", "ro.sock", "engine.sock", &usual).await;
    let _writes = proxy(&home, "rw", "rw.sock", "engine.sock", &usual).await;
    let _server = home.server("vctx.sock", "rw.sock", "ro.sock", &usual).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be kind.").await;
    ada.append("user", "Hello through two proxies.").await;
    let file = exported(&ada.wire, "ada").await;
    assert_eq!(exported(&home.wire("direct.sock"), "ada").await, file);
    let again = import(&ada.wire, "ada", &file).await;
    assert_eq!((again.status, &again.body["made"]), (200, &json!(false)), "{}", again.text);
}

fn vctx(home: &Home, arguments: &[&str]) -> Output {
    let socket = home.path("vctx.sock").display().to_string();
    home.run(&[arguments, &["--socket", &socket]].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_pack_check_and_tell() {
    let (here, there) = (Home::new(), Home::new());
    let (_one, _two) = (here.serve().await, there.serve().await);
    let keeper = plant(&here, "vctx.sock", "ada", "ada").await;
    let plain = here.path("ada.jsonl").display().to_string();
    let packed = here.path("ada.jsonl.gz").display().to_string();
    for path in [&plain, &packed] {
        let done = vctx(&here, &["export", "--agent", "ada", "--out", path, "--json"]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let told: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!(told["agent"], "ada", "{told}");
    }
    let file = signed(&keeper.agent.wire, "ada").await;
    assert_eq!(fs::read_to_string(&plain).expect("a file"), file);
    let stdout = vctx(&here, &["export", "--agent", "ada"]);
    assert_eq!(String::from_utf8_lossy(&stdout.stdout), file);
    assert!(fs::metadata(&packed).expect("a file").len() < file.len() as u64 / 2);
    let missing = vctx(&here, &["export", "--agent", "nobody", "--out", &format!("{plain}.none")]);
    assert_eq!(missing.status.code(), Some(67), "{}", String::from_utf8_lossy(&missing.stderr));
    assert!(!fs::exists(format!("{plain}.none")).expect("a look"));

    let dry = vctx(&there, &["import", &packed, "--as", "bea", "--dry-run"]);
    assert!(String::from_utf8_lossy(&dry.stdout).contains("bea would be made"), "{dry:?}");
    let done = vctx(&there, &["import", &packed, "--as", "bea"]);
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("the agent bea was made"), "{said} {done:?}");
    let again = vctx(&there, &["import", "--from", "vctx", &plain, "--agent", "bea", "--json"]);
    let told: Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!(told["made"], false, "{told}");
    there.assert_verified("vctx.sock", "bea");

    // The client refuses to send a damaged file, or a compressed file whose content is far longer
    // than the file.
    let bomb = here.path("bomb.gz");
    let mut packer = GzEncoder::new(fs::File::create(&bomb).expect("a file"), Compression::best());
    packer.write_all(file.lines().next().expect("a line").as_bytes()).expect("bytes go");
    packer.write_all(b"\n").expect("bytes go");
    let zeros = vec![b'0'; 1 << 20];
    (0..160).for_each(|_| packer.write_all(&zeros).expect("bytes go"));
    packer.finish().expect("a file");
    let mut broken = fs::read(&packed).expect("a file");
    let middle = broken.len() / 2;
    broken[middle] ^= 0x10;
    fs::write(here.path("broken.gz"), &broken).expect("a file");
    for (name, why) in [("bomb.gz", "too long"), ("broken.gz", "")] {
        let path = here.path(name).display().to_string();
        let refused = vctx(&there, &["import", "--from", "vctx", &path, "--as", "eve"]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(65), "{name}: {said}");
        assert!(said.contains(why), "{name}: {said}");
    }
    let unknown = vctx(&there, &["import", &here.path("vctx.sock").display().to_string()]);
    assert_eq!(unknown.status.code(), Some(64));
    there.wire("vctx.sock").get("/v1/agents/eve").await.refused(404, "AGENT_NOT_FOUND");
}
