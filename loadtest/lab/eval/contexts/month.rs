//! The suite of a month of chats: whether a small context has a fact, and the newer statement
//! before the outdated one.

use std::path::Path;

use serde_json::{Value, json};

use super::conversations::{HeldQuestion, HeldTalk, smallest};
use super::figures::{Figures, flag};
use super::suites::WINDOW;
use super::told::{field, items, text};
use crate::eval::caller::Caller;
use crate::eval::corpus;
use crate::eval::host::Host;
use crate::eval::progress::Progress;
use vctx_cli::exit::Failure;

/// The month that is measured without data.
const SHIPPED: &str = include_str!("../../../../tests/fixtures/month/month.json");
/// Size of a context, in tokens.
const TOKENS: u64 = 1_024;

/// Measures the months in a directory or, without one, the shipped month.
pub(super) async fn run(
    host: &Host,
    directory: Option<&Path>,
    most: usize,
) -> Result<Vec<Figures>, Failure> {
    let mut months = Vec::new();
    match directory {
        Some(path) => {
            for file in corpus::files(path, ".json")? {
                months.push((corpus::stem(&file), corpus::json(&file)?));
            }
        }
        None => {
            months.push(("shipped".to_owned(), serde_json::from_str(SHIPPED).expect("JSON")));
        }
    }
    let what = "the fact is in 1024 tokens; what is new before what is outdated";
    let mut figures = Figures::new("month", what);
    let mut talks = Vec::new();
    for (name, month) in months {
        let questions: Vec<Value> =
            month["questions"].as_array().into_iter().flatten().take(most).cloned().collect();
        let talk = hold(host, &name, &month, &questions).await?;
        let progress = Progress::new(&format!("context month {name}"), questions.len());
        for asked in &questions {
            let body = json!({"question": asked["ask"], "tokens_max": TOKENS});
            let told = talk.caller.build_context(&body).await?;
            figures.note("fact", flag(has(text(&told), &asked["right"])));
            if asked["stale"].as_array().is_some_and(|stale| !stale.is_empty()) {
                figures.note("fresh before stale", flag(is_fresh_first(&told, asked)));
            }
            progress.add(1);
        }
        progress.close();
        talks.push(talk);
    }
    let size = smallest("month", &talks).await?;
    Ok(vec![figures, size])
}

/// Stores the messages, and lets all of them leave the window.
async fn hold(
    host: &Host,
    name: &str,
    month: &Value,
    questions: &[Value],
) -> Result<HeldTalk, Failure> {
    let agent = host.agent(&format!("context-month-{name}"));
    let caller = Caller::create(host.client(), agent, WINDOW).await?;
    let messages = month["messages"].as_array().cloned().unwrap_or_default();
    let progress = Progress::new(&format!("context month {name}, messages"), messages.len());
    for message in &messages {
        let parts = json!({"content": message["content"], "said_at": message["said_at"]});
        caller.append(field(message, "role"), &parts).await?;
        progress.add(1);
    }
    progress.close();
    caller.evict_all().await?;
    let question = |asked: &Value| {
        let right = asked["right"].clone();
        let holds = move |shown: &str| has(shown, &right);
        HeldQuestion { text: field(asked, "ask").to_owned(), holds: Box::new(holds) }
    };
    let texts = messages.iter().map(|message| field(message, "content").to_owned()).collect();
    Ok(HeldTalk { caller, texts, questions: questions.iter().map(question).collect() })
}

/// Whether the new statement is in the context, and no outdated one stands before it.
fn is_fresh_first(told: &Value, asked: &Value) -> bool {
    let place = |wanted: &Value| items(told).position(|item| has(field(item, "text"), wanted));
    let fresh = place(&asked["right"]);
    let stale = place(&asked["stale"]);
    fresh.is_some_and(|fresh| stale.is_none_or(|stale| fresh <= stale))
}

/// Whether a text contains all given texts, in any case of letters.
fn has(text: &str, wanted: &Value) -> bool {
    let text = text.to_lowercase();
    let parts: Vec<&str> =
        wanted.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    !parts.is_empty() && parts.iter().all(|part| text.contains(&part.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_statement_must_come_first() {
        let asked = json!({"right": ["16 April"], "stale": ["24 March"]});
        let told = |texts: &[&str]| {
            let items: Vec<Value> = texts.iter().map(|text| json!({"text": text})).collect();
            json!({"sections": [{"items": items}]})
        };
        for (texts, is_first) in [
            (&["On 16 april.", "On 24 March."][..], true),
            (&["On 24 March.", "On 16 April."][..], false),
            (&["On 16 April, not 24 March."][..], true),
            (&["On 16 April."][..], true),
            (&["On 24 March."][..], false),
            (&[][..], false),
        ] {
            assert_eq!(is_fresh_first(&told(texts), &asked), is_first, "{texts:?}");
        }
    }

    #[test]
    fn the_shipped_month_has_answers_in_its_messages() {
        let month: Value = serde_json::from_str(SHIPPED).unwrap();
        let messages = month["messages"].as_array().unwrap();
        let questions = month["questions"].as_array().unwrap();
        let said = |wanted: &Value| messages.iter().any(|one| has(field(one, "content"), wanted));
        assert!(questions.len() >= 25 && questions.iter().all(|one| said(&one["right"])));
        let changed = questions.iter().filter(|one| said(&one["stale"])).count();
        assert!(changed >= 8, "{changed}");
    }
}
