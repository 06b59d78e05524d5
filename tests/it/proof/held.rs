//! Tests that stored versions refer to the texts that did not change with them, and still give
//! every old text and prompt back.

use serde_json::{Value, json};

use super::{Runtime, runtime};
use crate::home::Home;
use crate::talk::Agent;

/// Length of each of the ten large blocks, in bytes.
const LARGE_BYTES: usize = 100 * 1024;
/// Number of edits of the small block.
const EDITS: u64 = 20;
/// A word of the first large block.
const WORD: &str = "Quoxquay";

fn large(n: u64) -> String {
    let line =
        format!("Harbour {n}: {} of the tide table.\n", ["the copy", WORD][usize::from(n == 0)]);
    let mut text = line.repeat(LARGE_BYTES / line.len());
    text.push_str(&"-".repeat(LARGE_BYTES - text.len()));
    text
}

async fn store(agent: &Agent, block: &str, content: &str) {
    agent.done("store_core", &json!({"block_id": block, "content": content})).await;
}

/// Gives an agent ten large blocks, and edits a small block between prompts. Returns the number of
/// the version before the edits, and the requests of the prompts.
async fn edited(runtime: &Runtime) -> (u64, Vec<Value>) {
    for n in 0..10 {
        store(&runtime.agent, &format!("b{n}"), &large(n)).await;
    }
    let before = runtime.agent.state().await["version"].as_u64().expect("a number");
    let mut requests = Vec::new();
    for edit in 0..EDITS {
        store(&runtime.agent, "small", &format!("Edit {edit}.")).await;
        if edit % 7 == 0 {
            requests.push(runtime.ask("r", &json!([])).await["request"].clone());
        }
    }
    store(&runtime.agent, "b9", "Short now.").await;
    requests.push(runtime.ask("r", &json!([])).await["request"].clone());
    (before, requests)
}

async fn assert_replayed(runtime: &Runtime, requests: &[Value]) {
    for (turn, request) in (1..).zip(requests) {
        let replayed = runtime.replay(turn).await;
        assert_eq!((&replayed["exact"], &replayed["differs"]), (&json!(true), &json!([])));
        assert!(replayed["request"] == *request, "prompt {turn} has other bytes");
    }
}

/// Returns the lengths of the blocks' texts in a version, as `history` shows it.
async fn lengths(agent: &Agent, version: u64) -> Vec<usize> {
    let path = format!("{}/history?from_version={version}&limit=1", agent.path());
    let row = agent.wire.get(&path).await.ok()["versions"][0].clone();
    let shown = row["working_blocks"].as_array().expect("blocks").iter();
    let marks = ["at", "salt", "digest"];
    assert!(shown.clone().all(|block| marks.iter().all(|mark| block.get(mark).is_none())));
    shown.map(|block| block["content"].as_str().expect("a text").len()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_holds_only_the_texts_that_changed_with_it() {
    let home = Home::new();
    let server = home.serve().await;
    let first = runtime(&home, 1_000_000).await;
    let (before, requests) = edited(&first).await;
    let database = home.database_inside();
    let bytes = "RETURN SUM(FOR v IN core_versions FILTER v.version > @before AND v.version <= @before + @edits
        RETURN LENGTH(JSON_STRINGIFY(v)))";
    let bytes = database.row(bytes, json!({"before": before, "edits": EDITS})).await;
    let copied = 10 * LARGE_BYTES as u64 * EDITS;
    assert!(bytes.as_u64() < Some(copied / 10), "{bytes} bytes instead of {copied}");
    assert_replayed(&first, &requests).await;
    let mut shown = vec![LARGE_BYTES; 10];
    shown.push("Edit 4.".len());
    assert_eq!(lengths(&first.agent, before + 5).await, shown);
    home.assert_verified("vctx.sock", "ada");

    // The texts are there after another start, and in an import under another name.
    assert!(server.stop().await.success());
    let _server = home.serve().await;
    let runtime = Runtime::at(Agent::at(home.wire("vctx.sock"), "ada"));
    assert_replayed(&runtime, &requests).await;
    let there = Home::new();
    let _there = there.serve().await;
    let file = runtime.agent.wire.get("/v1/agents/ada/export").await.text;
    let wire = there.wire("vctx.sock");
    wire.call("POST", "/v1/agents/bea/import", &[], file).await.ok();
    let bea = Runtime::at(Agent::at(wire, "bea"));
    assert_replayed(&bea, &requests).await;
    there.assert_verified("vctx.sock", "bea");
    store(&bea.agent, "small", "In another house.").await;
    there.assert_verified("vctx.sock", "bea");

    // A changed text is noticed in the version that holds it and in the prompts that showed it.
    let change = |from: &str, to: &str| {
        format!("FOR v IN core_versions FILTER LENGTH(v.working_blocks[* FILTER CURRENT.id == 'b3' AND CONTAINS(CURRENT.content, '{from}')]) > 0
           LET blocks = v.working_blocks[* RETURN CURRENT.id == 'b3' AND CURRENT.content != null ?
             MERGE(CURRENT, {{ content: SUBSTITUTE(CURRENT.content, '{from}', '{to}', 1) }}) : CURRENT]
           UPDATE v WITH {{ working_blocks: blocks }} IN core_versions RETURN v.version")
    };
    let versions = database.rows(&change("copy", "cody"), json!({})).await;
    assert_eq!(versions.len(), 1, "one version holds the text");
    let found = runtime.replay(2).await;
    assert!(found["differs"].to_string().contains("block b3"), "{}", found["differs"]);
    let (code, report) = home.verify("vctx.sock", "ada");
    let told = &report["agents"][0]["ledger"]["differences"];
    assert_eq!((code, &told[0]["row"]), (65, &json!(versions[0].to_string())), "{told:#}");
    database.rows(&change("cody", "copy"), json!({})).await;
    home.assert_verified("vctx.sock", "ada");

    // A forgotten text is in no version any more; the other texts of all versions stay.
    let asked = json!({"match": WORD, "blocks": true});
    let headers = [("idempotency-key", "forget"), ("if-match", "*")];
    let path = format!("{}/forget", runtime.agent.path());
    let told = runtime.agent.wire.call("POST", &path, &headers, asked.to_string()).await.ok();
    assert_eq!(told["state"], "done", "{told:#}");
    for collection in ["core_versions", "core_memory", "idempotency", "prompts"] {
        let holds = format!(
            "FOR d IN {collection} FILTER CONTAINS(JSON_STRINGIFY(d), @word) RETURN d._key"
        );
        let rows = database.rows(&holds, json!({"word": WORD})).await;
        assert_eq!(rows, Vec::<Value>::new(), "{collection}");
    }
    shown[0] = 0;
    assert_eq!(lengths(&runtime.agent, before + 5).await, shown);
    let found = runtime.replay(2).await;
    assert_eq!(found["gone"][0]["id"], "block b0", "{}", found["gone"]);
    assert!(found["gone"][0]["forgotten_at"].is_string(), "{}", found["gone"]);
    assert_eq!(found["differs"], json!([]));
    // The digests of the rest are still compared.
    database.rows(&change("copy", "cody"), json!({})).await;
    let found = runtime.replay(2).await;
    assert!(found["differs"].to_string().contains("block b3"), "{}", found["differs"]);
    database.rows(&change("cody", "copy"), json!({})).await;
    home.assert_verified("vctx.sock", "ada");
    // The next version refers to no earlier text.
    store(&runtime.agent, "small", "The last edit.").await;
    let sent = runtime.ask("r", &json!([])).await["request"].clone();
    let turn = requests.len() as u64 + 1;
    let replayed = runtime.replay(turn).await;
    assert_eq!((&replayed["exact"], &replayed["request"]), (&json!(true), &sent));
}
