//! Tests runs that are interrupted or disturbed: another server continues or ends the run of a
//! killed server, a client disconnects during its run, and other callers write to the agent during
//! a run.

use std::time::Duration;

use serde_json::{Value, json};

use super::{SOCKET, Stage, WINDOW, patch, run};
use crate::home::{Home, Tuning};
use crate::scripted::Scripted;
use crate::talk::{Agent, key, run_events, said};

/// Pause of a slow step in milliseconds, long enough that a kill happens during it.
const SLOW_MS: u64 = 400;

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_server_was_killed_goes_on_where_it_stood() {
    let search = |word: &str| {
        json!({"pause_ms": SLOW_MS / 8, "calls": [{"name": "store_core",
            "arguments": {"block_id": "notes", "content": word, "policy": {"mode": "append"}, "request_heartbeat": true}}]})
    };
    let mut steps: Vec<Value> = (0..4).map(|n| search(&format!("note {n}"))).collect();
    steps.push(json!({"text": "All noted.", "repeat": true}));
    for killed_after_ms in [50, 250, 450, 700, 1_000] {
        let stage = Stage::steps(&steps, &["store_core"]).await;
        let body = json!({"input": "Take four notes."});
        let first = {
            let ada = stage.ada.again();
            let body = body.clone();
            tokio::spawn(async move {
                let path = format!("{}/runs", ada.path());
                ada.wire
                    .try_call("POST", &path, &[("idempotency-key", "notes")], body.to_string())
                    .await
            })
        };
        tokio::time::sleep(Duration::from_millis(killed_after_ms)).await;
        stage.server.kill();
        let cut_off = first.await.expect("a task");
        let server = stage.home.serve_with(SOCKET, &stage.model.tuning(&["store_core"])).await;
        server.expect(crate::home::TORN_TAIL);
        let ada = stage.ada.again();
        let end = run(&ada, &body, "notes").await.ok();
        assert_eq!(
            (&end["reason"], &end["text"]),
            (&json!("yield"), &json!("All noted.")),
            "{killed_after_ms}"
        );
        if let Ok(answer) = cut_off {
            assert_eq!(answer.ok()["text"], end["text"]);
        }
        // The model took each step once, and each note exists once, so no call was repeated.
        let notes = ada.done("fetch_core", &json!({"block_id": "notes"})).await;
        let notes = notes["result"]["content"].as_str().expect("a text").to_owned();
        let asked = stage.model.requests().len();
        let lines: Vec<&str> = notes.lines().collect();
        let mut once = lines.clone();
        once.dedup();
        assert_eq!(lines, once, "{killed_after_ms}: {asked} asked");
        let stage = Stage { server, ada, ..stage };
        stage.assert_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_goes_on_with_is_ended_and_its_agent_is_free() {
    let home = Home::new();
    let model = Scripted::start(&home, "slow", &[]).await;
    let engine = home.engine().await;
    let tuning = model.tuning(&["store_core"]);
    let first = home.server("first.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let second =
        home.server("second.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    let ada = Agent::create(home.wire("first.sock"), "ada", WINDOW, "").await;
    let path = format!("{}/runs", ada.path());
    let body = json!({"input": "Hello"}).to_string();
    let away = ada.again();
    let cut_off = tokio::spawn(async move {
        away.wire.try_call("POST", &path, &[("idempotency-key", "k")], body).await
    });
    while model.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    first.kill();
    assert!(cut_off.await.expect("a task").is_err());
    let ada = Agent::at(home.wire("second.sock"), "ada");
    // A background job of the other server, the sweep, ends the run, although no client sends a
    // request.
    let mut ends = Vec::new();
    for _ in 0..600 {
        ends = run_events(&ada).await;
        ends.retain(|event| event["event"] == "end");
        if !ends.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(ends.len(), 1);
    assert_eq!((&ends[0]["reason"], &ends[0]["by"]), (&json!("cancelled"), &json!("sweep")));
    ada.append("user", "Anybody?").await;
    home.assert_verified("second.sock", "ada");
    drop((second, engine));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_ends_its_run_and_nothing_is_half_said() {
    let stage = Stage::new("slow", &["store_core"], WINDOW, &[]).await;
    let away = stage.ada.again();
    let asked = tokio::spawn(async move { run(&away, &json!({"input": "Hello"}), "gone").await });
    while stage.model.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    asked.abort();
    let mut ends = Vec::new();
    for _ in 0..600 {
        ends = stage.run_events("end").await;
        if !ends.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((ends.len(), &ends[0]["reason"]), (1, &json!("cancelled")));
    assert_eq!(said(&stage.ada.messages().await), [("user".to_owned(), "Hello".to_owned())]);
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_has_read_of_an_answer_that_was_ended_is_kept() {
    let stage = Stage::new("slow", &["store_core"], WINDOW, &[]).await;
    let mut chat = std::process::Command::new(crate::home::PROGRAM);
    crate::home::unconfigured(&mut chat);
    chat.args(["chat", "ada", "--socket"]).arg(stage.home.path("vctx.sock"));
    chat.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut chat = chat.spawn().expect("the chat");
    let mut input = chat.stdin.take().expect("stdin");
    std::io::Write::write_all(&mut input, b"Hello\n").expect("a line");
    let mut shown = std::io::BufReader::new(chat.stdout.take().expect("stdout"));
    let mut first = String::new();
    std::io::BufRead::read_line(&mut shown, &mut first).expect("the picture of the window");
    let mut piece = [0; 8];
    std::io::Read::read_exact(&mut shown, &mut piece).expect("the beginning of the answer");
    // Ctrl-C ends the answer, and not the chat.
    let kill = ["-c", &format!("kill -INT {}", chat.id())].map(str::to_owned);
    assert!(std::process::Command::new("sh").args(kill).status().expect("sh").success());
    drop(input);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut shown, &mut rest).expect("the end of the answer");
    assert!(rest.contains("the memory keeps what was told"), "{rest}");
    assert!(chat.wait().expect("it ends").success());
    let mut ends = Vec::new();
    for _ in 0..600 {
        ends = stage.run_events("end").await;
        if !ends.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((ends.len(), &ends[0]["reason"]), (1, &json!("cancelled")));
    let kept = said(&stage.ada.messages().await);
    assert_eq!((kept.len(), kept[1].0.as_str()), (2, "assistant"), "{kept:?}");
    assert!(kept[1].1.as_bytes().starts_with(&piece), "{kept:?}");
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_wrote_while_the_model_was_thinking_is_not_overwritten() {
    let store = |block: &str, content: &str, mode: &str| {
        json!({"name": "store_core",
            "arguments": {"block_id": block, "content": content, "policy": {"mode": mode}}})
    };
    let calls = [
        store("human", "Mine.", "replace"),
        store("plans", "Sail.", "replace"),
        store("plans", " At dawn.", "append"),
    ];
    let steps = [
        json!({"when": "go", "calls": calls, "pause_ms": 300}),
        json!({"text": "Noted.", "repeat": true}),
    ];
    let stage = Stage::steps(&steps, &["store_core"]).await;
    stage.ada.done("store_core", &json!({"block_id": "human", "content": "As it was."})).await;
    let runner = stage.ada.again();
    let running = tokio::spawn(async move { run(&runner, &json!({"input": "go"}), &key()).await });
    while stage.model.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.ada.done("store_core", &json!({"block_id": "human", "content": "Theirs."})).await;
    let end = running.await.expect("a run").ok();
    assert_eq!((&end["reason"], &end["text"]), (&json!("yield"), &json!("Noted.")), "{end:#}");
    let context = stage.ada.context().await["messages"].to_string();
    assert!(context.contains("Theirs.") && !context.contains("As it was."), "{context}");
    let messages = stage.ada.messages().await;
    let texts = |role: &str| -> Vec<&str> {
        let of = messages.iter().filter(|message| message["role"] == role);
        of.map(|message| message["content"].as_str().expect("a text")).collect()
    };
    assert_eq!(texts("tool"), ["Failed.", "Done.", "Done."]);
    assert!(texts("system")[0].starts_with("Error REVISION_STALE: "), "{messages:?}");
    let core = stage.ada.state().await["blocks"].to_string();
    assert!(core.contains("Theirs.") && !core.contains("Mine."), "{core}");
    assert!(core.contains("Sail.") && core.contains("At dawn."), "one's own is no news: {core}");
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_is_it_by_a_run_that_another_server_goes_on_with() {
    let beat = json!({"name": "record_heartbeat", "arguments": {"state": "continue"}});
    let store = json!({"name": "store_core",
        "arguments": {"block_id": "human", "content": "Mine."}});
    let steps = [
        json!({"when": "go", "calls": [beat, beat, beat, beat, beat, store]}),
        json!({"text": "Noted.", "repeat": true}),
    ];
    let tools = ["record_heartbeat", "store_core"];
    let stage = Stage::steps(&steps, &tools).await;
    stage.ada.done("store_core", &json!({"block_id": "human", "content": "As it was."})).await;
    // With a limit of one heartbeat per second, the run waits between its calls; the server is
    // killed during such a wait.
    patch(&stage.ada, &json!({"heartbeat": {"rps_limit": 1}})).await;
    let runner = stage.ada.again();
    let body = json!({"input": "go"});
    let first = {
        let (path, body) = (format!("{}/runs", runner.path()), body.to_string());
        tokio::spawn(async move {
            runner.wire.try_call("POST", &path, &[("idempotency-key", "go")], body).await
        })
    };
    while !stage.ada.messages().await.iter().any(|message| message["role"] == "tool") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.server.kill();
    assert!(first.await.expect("a task").is_err(), "it was over before it was killed");
    let server = stage.home.serve_with(SOCKET, &stage.model.tuning(&tools)).await;
    server.expect(crate::home::TORN_TAIL);
    let ada = stage.ada.again();
    ada.done("store_core", &json!({"block_id": "human", "content": "Theirs."})).await;
    let end = run(&ada, &body, "go").await.ok();
    assert_eq!((&end["reason"], &end["text"]), (&json!("yield"), &json!("Noted.")), "{end:#}");
    let blocks = ada.state().await["blocks"].to_string();
    assert!(blocks.contains("Theirs.") && !blocks.contains("Mine."), "{blocks}");
    let messages = ada.messages().await;
    let refused = messages.iter().filter(|message| message["role"] == "system");
    let refused = refused.filter(|m| m["content"].to_string().contains("REVISION_STALE"));
    assert_eq!(refused.count(), 1);
    let stage = Stage { server, ada, ..stage };
    stage.assert_clean().await;
}
