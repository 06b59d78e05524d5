//! Tests what a context shows beside the texts that answer its question: requests of the user for
//! all answers, and the replies to what was said.

use serde_json::{Value, json};

use crate::forgotten::forgotten;
use crate::home::Home;
use crate::talk::Agent;

async fn built(agent: &Agent, question: &str) -> Value {
    let path = format!("{}/context", agent.path());
    let body = json!({"question": question, "explain": true});
    agent.wire.call("POST", &path, &[], body.to_string()).await.ok()
}

fn text(told: &Value) -> &str {
    told["text"].as_str().expect("a text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_shows_what_the_user_asked_for_in_all_answers() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8_192, "Be brief.").await;
    let request = "Always give distances in sea miles when I ask about a voyage.";
    let own = "Never mention the regatta when I ask about the weather.";
    for (role, said) in [
        ("user", request),
        ("user", "The ferry to Lisbon leaves at nine."),
        ("assistant", "Always pack warm clothes when I ask about storms."),
        ("user", "I always sail with Bea."),
    ] {
        ada.append(role, said).await;
    }
    let question = "How far is Lisbon?";
    assert!(!text(&built(&ada, question).await).contains("sea miles"), "the window shows it");
    ada.done("evict_fifo", &json!({"target_tokens": 0, "summarize": false})).await;
    ada.append("user", own).await;
    let told = built(&ada, question).await;
    let shown = text(&told);
    assert!(shown.contains(request) && shown.contains("requests for all answers"), "{shown}");
    assert!(!shown.contains("warm clothes"), "the model asks for nothing: {shown}");
    assert!(!shown.contains("regatta"), "the window shows it: {shown}");
    let items = told["sections"][0]["items"].as_array().expect("items");
    let of = |part: &str| {
        let has = |item: &&Value| item["text"].as_str().is_some_and(|text| text.contains(part));
        items.iter().find(has).expect("an item")
    };
    assert_eq!(of("sea miles")["lasting"], true, "{told:#}");
    assert_eq!(of("ferry")["lasting"], Value::Null, "{told:#}");
    assert_eq!(text(&built(&ada, "Thank you!").await), "", "small talk needs nothing");
    // A request alone does not answer.
    let told = built(&ada, "What is my dentist called?").await;
    assert_eq!(told["found"], false, "{told:#}");
    assert!(
        text(&told).contains("holds nothing on this") && text(&told).contains(request),
        "{told:#}"
    );
    forgotten(&ada, &json!({"seqs": [1]})).await;
    let told = built(&ada, question).await;
    assert!(!text(&told).contains("sea miles"), "{told:#}");
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_has_what_was_replied() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8_192, "Be brief.").await;
    for (role, said) in [
        ("user", "The sloop leaks at the stern."),
        ("assistant", "Caulk the seam and let it dry for two days."),
        ("user", "Soup is fine today."),
        ("assistant", "Enjoy the meal."),
    ] {
        ada.append(role, said).await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 0, "summarize": false})).await;
    let path = format!("{}/context", ada.path());
    let question = "Summarize what we said about the sloop.";
    let body = json!({"question": question, "tokens_max": 90});
    let told = ada.wire.call("POST", &path, &[], body.to_string()).await.ok();
    assert!(text(&told).contains("Caulk the seam"), "{told:#}");
}
