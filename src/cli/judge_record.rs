//! Reads what a judge needs to know of one prompt: the question, the context's texts, the answer,
//! and what the built-in judge measures.

use serde_json::{Value, json};

use crate::exit::Failure;
use crate::output;
use vctx_client::Client;
use vctx_core::context::{JudgedPrompt, JudgedText, Verdict};

/// The measures, in the order of [`Record::measures`].
pub(crate) const MEASURES: [&str; 3] = ["faithfulness", "relevance", "completeness"];
/// Number of messages after a prompt among which its answer is looked for: an answer follows the
/// calls of tools and their results.
const ANSWER_MESSAGES: u64 = 50;
/// Steps into which a measure is rounded.
const MEASURE_UNITS: f64 = 1_000.0;
/// Fields of a request that have the texts that the model saw, in all forms of requests.
const SEEN: [&str; 4] = ["system", "instructions", "messages", "input"];
/// Fields of a message that have no text.
const WITHOUT_TEXT: [&str; 5] = ["role", "type", "id", "call_id", "tool_call_id"];

/// The measures of a prompt with a context.
#[derive(Debug)]
pub(crate) struct Record {
    /// Number of the prompt.
    pub turn: u64,
    /// Faithfulness, relevance and completeness.
    pub measures: [Option<f64>; 3],
    /// What the context was built for.
    pub question: String,
}

/// Reads the measures of a prompt, and its line in the record; `None` if the prompt shows no
/// context.
pub(crate) async fn record(
    client: &Client,
    agent: &str,
    turn: u64,
) -> Result<Option<(Record, Value)>, Failure> {
    let replayed = client.prompt(agent, turn).await?;
    let prompt = &replayed["prompt"];
    if !prompt["pack"].is_string() {
        return Ok(None);
    }
    let why = client.why(agent, &[("turn", turn.to_string())]).await?;
    // A context for a given question names no message; its prompt answers the message that began
    // the run.
    let asked = why["context"]["question_seq"].as_u64();
    let question_seq = asked.unwrap_or(output::number(prompt, "/cause_seq")).max(1);
    let (page, _) = client.messages(agent, question_seq, 1).await?;
    let question = page.first().map(|message| output::field(message, "/content"));
    let answer = match prompt["answer_seq"].as_u64() {
        Some(seq) => answer_of(&client.messages(agent, seq, ANSWER_MESSAGES).await?.0),
        None => None,
    };
    let items = output::list(&why, "/context/items");
    let judged = JudgedPrompt {
        question: question.unwrap_or_default(),
        shown: items.iter().map(shown).collect(),
        seen: seen(replayed["request"].as_str().unwrap_or_default()),
        answer: answer.as_ref().map(|message| output::field(message, "/content")),
    };
    let verdict = judged.verdict();
    let measures = [verdict.faithfulness, verdict.relevance, verdict.completeness];
    let measures = measures.map(|measure| measure.map(rounded));
    let seqs = (question_seq, answer.as_ref().map(|message| output::number(message, "/seq")));
    let told = told(&replayed, items, &judged, (&verdict, measures), seqs);
    Ok(Some((Record { turn, measures, question: judged.question }, told)))
}

fn told(
    replayed: &Value,
    items: &[Value],
    judged: &JudgedPrompt,
    (verdict, measures): (&Verdict, [Option<f64>; 3]),
    (question_seq, answer_seq): (u64, Option<u64>),
) -> Value {
    let prompt = &replayed["prompt"];
    json!({"prompt": replayed["turn"], "created_at": prompt["created_at"], "model": prompt["model"],
        "exact": replayed["exact"], "pack": prompt["pack"],
        "question": judged.question, "question_seq": question_seq, "parts": verdict.parts,
        "context": items, "answer": judged.answer, "answer_seq": answer_seq,
        "faithfulness": measures[0], "relevance": measures[1], "completeness": measures[2],
        "unsupported": verdict.unsupported})
}

fn rounded(measure: f64) -> f64 {
    (measure * MEASURE_UNITS).round() / MEASURE_UNITS
}

fn shown(item: &Value) -> JudgedText {
    JudgedText {
        text: item["text"].as_str().map(str::to_owned),
        grade: item["grade"].as_f64().unwrap_or_default(),
        part: usize::try_from(output::number(item, "/part")).unwrap_or(usize::MAX),
    }
}

/// Returns the first message of a page with a text for the user, up to the user's next message.
fn answer_of(page: &[Value]) -> Option<Value> {
    let until_user = page.iter().take_while(|message| message["role"] != "user");
    let mut answers = until_user.filter(|message| {
        message["role"] == "assistant" && !output::field(message, "/content").trim().is_empty()
    });
    answers.next().cloned()
}

/// Returns the texts of a request, in any form of requests.
fn seen(request: &str) -> Vec<String> {
    let request: Value = serde_json::from_str(request).unwrap_or_default();
    let mut texts = Vec::new();
    SEEN.iter().for_each(|name| collect(&request[name], &mut texts));
    texts
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|value| collect(value, texts)),
        Value::Object(map) => {
            let told = map.iter().filter(|(name, _)| !WITHOUT_TEXT.contains(&name.as_str()));
            told.for_each(|(_, value)| collect(value, texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_a_request_are_found_in_each_form() {
        let chat = json!({"model": "m", "tools": [{"description": "d"}], "messages": [
            {"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]}]});
        let messages = json!({"system": [{"type": "text", "text": "a"}], "messages": [{"role": "user", "content": "b"}]});
        let responses = json!({"instructions": "a", "input": [{"type": "message", "content": [{"type": "input_text", "text": "b"}]}]});
        for request in [chat, messages, responses] {
            assert_eq!(seen(&request.to_string()), ["a", "b"], "{request}");
        }
        assert!(seen("").is_empty());
    }

    #[test]
    fn an_answer_follows_the_calls_of_tools_and_ends_before_the_next_question() {
        let message = |role: &str, content: &str| json!({"role": role, "content": content});
        let page = [
            message("assistant", ""),
            message("tool", "ok"),
            message("assistant", "Roe."),
            message("user", "And?"),
        ];
        assert_eq!(
            answer_of(&page).map(|one| output::field(&one, "/content")),
            Some("Roe.".into())
        );
        assert_eq!(answer_of(&[page[0].clone(), page[3].clone(), page[2].clone()]), None);
    }
}
