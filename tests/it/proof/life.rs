//! Tests the history of a fact: the prompts that contained it, and the texts that retention
//! removed.

use serde_json::{Value, json};

use super::{runtime, tools};
use crate::count;
use crate::home::Home;

/// Returns the turns in which a message of the prompt contains all of the given words.
fn turns_with(sent: &[String], words: &[&str]) -> Vec<u64> {
    let holds = |text: &str| {
        let lower = text.to_lowercase();
        let there: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
        words.iter().all(|word| there.contains(word))
    };
    let prompt = |request: &String| {
        let request: Value = serde_json::from_str(request).expect("JSON");
        let messages = request["messages"].as_array().expect("messages").clone();
        messages.iter().any(|m| m["content"].as_str().is_some_and(holds))
    };
    (1..).zip(sent).filter(|(_, request)| prompt(request)).map(|(turn, _)| turn).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_a_fact_is_what_the_prompts_held_and_its_command_brings_it_back() {
    const FACT: &str = "The berth at Quoxquay costs 14 crowns";
    const WORDS: [&str; 4] = ["berth", "quoxquay", "14", "crowns"];
    let home = Home::new();
    let _server = home.serve().await;
    let runtime = runtime(&home, 1024).await;
    let agent = &runtime.agent;
    let mut sent = Vec::new();
    for turn in 1..=60_u64 {
        let text = match turn {
            3 => format!("By the way: {FACT}."),
            _ => format!("Question {turn} about wave {}: {}", turn * 31, count::words(30)),
        };
        agent.append("user", text).await;
        if turn == 40 {
            agent
                .done("store_core", &json!({"block_id": "plan", "content": format!("{FACT}!")}))
                .await;
        }
        if turn == 50 {
            let delete = json!({"block_id": "plan", "content": "", "policy": {"mode": "delete"}});
            agent.done("store_core", &delete).await;
        }
        let asked = runtime.ask("r", &json!([])).await;
        sent.push(asked["request"].as_str().expect("bytes").to_owned());
        runtime
            .said(
                "r",
                turn,
                json!({"content": format!("Wave {turn} breaks. {}", count::words(20))}),
            )
            .await;
    }
    let path = |query: &str| format!("{}/why?{query}", agent.path());
    let asked = format!("text={}", FACT.replace(' ', "%20"));
    let life = agent.wire.get(&path(&asked)).await.ok();
    let said = &life["said"][0];
    assert_eq!((&said["role"], &said["says"]), (&json!("user"), &json!("exactly")), "{life:#}");
    assert!(said["left"]["batch"].is_string() && said["in_window"] == false, "{said:#}");
    let mut held = Vec::new();
    let mut places = std::collections::BTreeSet::new();
    for range in life["prompts"]["held"].as_array().expect("ranges") {
        let (first, last) = (range["turns"][0].as_u64(), range["turns"][1].as_u64());
        held.extend(first.expect("a turn")..=last.expect("a turn"));
        for place in range["as"].as_array().expect("places") {
            places.insert(
                place.as_str().expect("a name").split(' ').next().expect("a word").to_owned(),
            );
        }
    }
    assert_eq!(held, turns_with(&sent, &WORDS), "{life:#}");
    assert!(places.contains("message") && places.contains("block"), "{places:?}");
    let block = life["texts"]
        .as_array()
        .expect("spans")
        .iter()
        .find(|s| s["of"] == "block plan")
        .expect("a block");
    assert!(block["until_version"].as_u64() > block["from_version"].as_u64(), "{block}");
    // The history names the summary that contains the fact, and the revisions in which the fact
    // appeared and disappeared.
    let taken = said["left"]["summary_rev"].as_u64().expect("a revision");
    for span in life["texts"].as_array().expect("spans").iter().filter(|s| s["of"] == "summary") {
        assert!(span["from_revision"].as_u64() >= Some(taken) || span["says"].is_null(), "{span}");
    }
    assert_eq!(life["back"]["in_window"], false, "{}", life["back"]);
    let call = &life["back"]["call"];
    assert_eq!(call["tool"], "search_recall", "{}", life["back"]);
    assert!(
        life["back"]["command"]
            .as_str()
            .is_some_and(|c| c.starts_with("vctx tool search_recall --agent ada --args '"))
    );
    // The search copies the message, because there is room below the flush mark.
    agent.done("evict_fifo", &json!({"target_tokens": 400})).await;
    agent.done("search_recall", &call["arguments"]).await;
    let life = agent.wire.get(&path(&asked)).await.ok();
    assert_eq!(life["back"]["in_window"], true, "{:#}", life["back"]);
    let copies =
        life["said"].as_array().expect("a list").iter().filter(|s| s["kind"] == "copy").count();
    assert_eq!(copies, 1);

    // A page begins where the previous one ended. A query for an unknown text returns an empty
    // history. An empty query is refused.
    let later = agent.wire.get(&path(&format!("{asked}&from_turn=41"))).await.ok();
    assert!(later["prompts"]["held"][0]["turns"][0].as_u64() >= Some(41), "{:#}", later["prompts"]);
    let nothing = agent.wire.get(&path("text=walrus%20number%209")).await.ok();
    assert_eq!((&nothing["said"], &nothing["back"]["call"]), (&json!([]), &Value::Null));
    let none = "no message holds all of these words";
    assert!(nothing["note"].as_str().is_some_and(|note| note.starts_with(none)), "{nothing:#}");
    let near = agent.wire.get(&path("text=walrus%20berth")).await.ok();
    assert_eq!(near["said"], json!([]));
    let nearest = &near["nearest"][0];
    assert!(nearest["seq"].is_u64() && nearest["created_at"].is_string(), "{nearest}");
    assert!(nearest["text"].as_str().is_some_and(|text| text.contains("berth")), "{nearest}");
    let note = near["note"].as_str().expect("a sentence");
    let start = format!("no message holds all of these words; nearest: #{} 20", nearest["seq"]);
    assert!(note.starts_with(&start), "{note}");
    assert_eq!((&life["nearest"], &life["note"]), (&Value::Null, &Value::Null));
    agent.wire.get(&path("text=%20")).await.refused(400, "INVALID_ARGUMENT");
    agent.wire.get(&path("text=a&turn=1")).await.refused(400, "INVALID_ARGUMENT");

    let reasons = agent.wire.get(&path("turn=59")).await.ok();
    let sections: u64 = reasons["sections"]
        .as_array()
        .expect("sections")
        .iter()
        .filter_map(|s| s["tokens"].as_u64())
        .sum();
    assert_eq!(reasons["token_estimate"].as_u64(), Some(sections), "{reasons:#}");
    let evicted = &reasons["outside"]["evicted"];
    assert!(evicted["through_seq"].as_u64() > Some(5) && evicted["at"].is_string(), "{evicted}");
    assert!(
        evicted["occupancy_before"].as_u64() >= reasons["policy"]["flush"].as_u64(),
        "{evicted}"
    );
    assert_eq!(reasons["since"]["turn"], 58);

    for (arguments, wanted) in [
        (vec!["why", "ada", FACT], "held by prompts:"),
        (vec!["why", "ada", "--turn", "59"], "not in the window: everything up to message"),
        (vec!["replay", "ada", "--turn", "3"], "exact: these are the bytes that were sent"),
        (vec!["replay", "ada", "--limit", "60", "--check"], "exact"),
    ] {
        let socket = home.path("vctx.sock");
        let socket = socket.to_str().expect("a path");
        let output = home.run(&[arguments.as_slice(), &["--socket", socket]].concat());
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && told.contains(wanted),
            "{arguments:?}: {told}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_went_by_retention_is_said_to_be_gone() {
    let home = Home::new();
    let _server = home.serve().await;
    let runtime = runtime(&home, 1024).await;
    for turn in 1..=2 {
        runtime.agent.append("user", format!("Question {turn}.")).await;
        runtime.ask("r", &tools(1)).await;
        runtime.said("r", turn, json!({"content": format!("Answer {turn}.")})).await;
    }
    // The test changes the rows directly, as `aql/message_expire.aql` does.
    let database = home.database_inside();
    let expire = "FOR m IN messages FILTER m.seq == 1
        UPDATE m WITH {content: null, meta: null, salt: null, expired_at: '2030-01-01T00:00:00.000Z'} IN messages OPTIONS {keepNull: true}";
    database.rows(expire, json!({})).await;
    let found = runtime.replay(2).await;
    assert_eq!((&found["exact"], &found["differs"]), (&json!(false), &json!([])), "{found:#}");
    assert_eq!(
        (&found["gone"][0]["seq"], &found["gone"][0]["expired_at"]),
        (&json!(1), &json!("2030-01-01T00:00:00.000Z"))
    );
    let socket = home.path("vctx.sock");
    let output =
        home.run(&["replay", "ada", "--turn", "2", "--socket", socket.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(65));
    assert!(
        String::from_utf8_lossy(&output.stdout)
            .contains("removed by retention at 2030-01-01T00:00:00.000Z: message 1")
    );
}
