//! Well-behaved models, which solve a task with nothing but the prompt and the offered tools.

use serde_json::{Value, json};

use super::answer::{Call, ModelAnswer};
use super::request::{Answered, ModelRequest, said_in};

/// Repeats the user's last message.
pub(super) fn echo(request: &ModelRequest) -> ModelAnswer {
    let user = request.messages().iter().rev().find(|message| message["role"] == "user");
    ModelAnswer::text(format!("You said: {}", user.map_or("", said_in)))
}

/// Nested key-value retrieval (MemGPT, arXiv 2310.08560, §3.2.2): looks up a key, then looks up its
/// value as the next key, until a value is not a key.
pub(super) fn nested_kv(request: &ModelRequest) -> ModelAnswer {
    let results = request.answered();
    let Some(result) = results.last() else {
        return match uuid_in(request.last_text()) {
            Some(key) => search(request, &key, None),
            None => ModelAnswer::text("Which key?"),
        };
    };
    let key = question_of(result).to_owned();
    if failed(result) {
        return search(request, &key, None);
    }
    if let Some(value) = value_of(result.content, &key) {
        return search(request, &value, None);
    }
    match next_page(result) {
        Some(page) => search(request, &key, Some(page)),
        None => ModelAnswer::text(format!("The value is {key}.")),
    }
}

/// Answers a question about a document of many pages: reads page after page, notes each finding in
/// a memory block, and answers after the last page. The user's question names the subject in
/// quotes: `Collect every code of "harbour log".`
pub(super) fn pages(request: &ModelRequest) -> ModelAnswer {
    let results = request.answered();
    let Some(result) = results.iter().rev().find(|result| is_search(result.name)) else {
        return match quoted(request.last_text()) {
            Some(subject) => search(request, subject, None),
            None => ModelAnswer::text("Which document?"),
        };
    };
    let question = question_of(result);
    if failed(result) {
        return search(request, question, None);
    }
    let found = codes(result.content);
    match next_page(result) {
        Some(page) => {
            let mut turned = search(request, question, Some(page));
            if !found.is_empty() {
                turned.calls.insert(0, note(request, &found.join(" ")));
            }
            turned
        }
        None => {
            let mut all = codes(request.block(NOTES).unwrap_or_default());
            all.extend(found);
            all.sort();
            all.dedup();
            ModelAnswer::text(format!("{} codes: {}", all.len(), all.join(" ")))
        }
    }
}

/// Name of the memory block for the notes.
const NOTES: &str = "notes";

/// Returns the codes in a text. Every word of five digits is a code.
fn codes(text: &str) -> Vec<String> {
    const DIGITS: usize = 5;
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let is_code = |word: &&str| word.len() == DIGITS && word.bytes().all(|b| b.is_ascii_digit());
    words.filter(is_code).map(str::to_owned).collect()
}

fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1).filter(|subject| !subject.is_empty())
}

/// Returns the first UUID of a text.
fn uuid_in(text: &str) -> Option<String> {
    const BYTES: usize = 36;
    let words = text.split(|c: char| !(c.is_ascii_hexdigit() || c == '-'));
    words.into_iter().find(|word| word.len() == BYTES).map(str::to_owned)
}

/// Returns the value of a key, if the text contains the key-value pair.
fn value_of(text: &str, key: &str) -> Option<String> {
    let rest = text.split_once(&format!("key = {key}, value = "))?.1;
    let value: String = rest.chars().take_while(|c| c.is_ascii_hexdigit() || *c == '-').collect();
    Some(value).filter(|value| !value.is_empty())
}

/// Whether a call failed. A system message says why.
fn failed(result: &Answered<'_>) -> bool {
    ["Failed.", "Error"].iter().any(|begin| result.content.starts_with(begin))
}

/// Returns the token that continues a list of results, which the list's last line names.
fn next_page(result: &Answered<'_>) -> Option<String> {
    let (_, rest) = result.content.rsplit_once("page_token ")?;
    Some(rest.lines().next()?.trim().to_owned())
}

/// Names of tools that search the archive.
const SEARCHES: [&str; 2] = ["search_archival", "archival_memory_search"];

fn is_search(name: &str) -> bool {
    SEARCHES.contains(&name)
}

fn question_of<'a>(result: &'a Answered<'_>) -> &'a str {
    let named = ["query_text", "query"].iter().find_map(|name| result.arguments[*name].as_str());
    named.unwrap_or_default()
}

/// Calls a search tool that the request offers. The call searches the archive and requests a
/// heartbeat.
fn search(request: &ModelRequest, question: &str, page: Option<String>) -> ModelAnswer {
    let paged = |mut arguments: Value| {
        if let Some(page) = page {
            arguments["page_token"] = page.into();
        }
        arguments
    };
    if request.has("archival_memory_search") {
        let arguments = paged(json!({"query": question, "request_heartbeat": true}));
        return ModelAnswer::call("archival_memory_search", &arguments);
    }
    let arguments =
        paged(json!({"query_text": question, "mode": "text", "limit": 40, "heartbeat": true}));
    ModelAnswer::call("search_archival", &arguments)
}

/// Calls a memory tool that the request offers. The call adds a line to the block of notes.
fn note(request: &ModelRequest, line: &str) -> Call {
    if request.has("core_memory_append") {
        return Call::new("core_memory_append", &json!({"label": NOTES, "content": line}));
    }
    Call::new(
        "store_core",
        &json!({"block_id": NOTES, "content": line, "policy": {"mode": "append"}}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_codes_and_questions_are_read_from_what_stands_there() {
        let key = "0b5e9bd2-4b4f-4a6f-9d7c-2f6d1f0a7a11";
        let value = "1c5e9bd2-4b4f-4a6f-9d7c-2f6d1f0a7a22";
        let text = format!("{{\"text\":\"Key-value pair: key = {key}, value = {value}\"}}");
        assert_eq!(value_of(&text, key).as_deref(), Some(value));
        assert_eq!(value_of(&text, value), None);
        assert_eq!(uuid_in(&format!("What is the value of the key {key}?")).as_deref(), Some(key));
        assert_eq!(codes("entry 7: code 12345, of 999999 and 54321."), ["12345", "54321"]);
        assert_eq!(quoted("Every code of \"harbour log\"."), Some("harbour log"));
    }
}
