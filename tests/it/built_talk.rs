//! Tests contexts of a conversation that grows beside the documents given with each of its
//! questions: all documents stay in the context, and each becomes shorter.

use serde_json::{Value, json};

use crate::count;
use crate::home::Home;
use crate::recall::view_shows;
use crate::talk::Agent;

/// Tokens of the prompt, and of a context beside a conversation that left the window.
const TOKENS_MAX: u64 = 800;
/// A window that leaves `TOKENS_MAX` tokens besides the reserve of a fifth.
const WINDOW: u64 = 1_000;

/// Five documents on one subject, longer together than `TOKENS_MAX`.
const DOCUMENTS: [(&str, &str); 5] = [
    (
        "window.md",
        "The context window of a model is its working memory, and it has a fixed number of \
         tokens. The system prompt comes first, because each answer needs it. Then come the \
         turns of the conversation, oldest first. When the window is full, a program must \
         decide what the model no longer sees. A program that cuts the oldest turns loses what \
         the user said at the beginning. A program that cuts the documents loses the evidence \
         for its answer. Both faults look like a weak model from outside. The tokens for the \
         answer are reserved before anything else is counted. Without this reserve a long \
         prompt ends in the middle of a sentence. A window of a million tokens moves the fault \
         and does not remove it, since a model reads the middle of a long context with less \
         attention than its edges. What is most relevant to the question therefore goes to the \
         beginning or to the end. Tools and their descriptions take tokens of the same window, \
         and each of them must earn its place. A program that never counts has no window but a \
         hope.",
    ),
    (
        "retrieval.md",
        "Retrieval finds the documents that share words or meaning with the question. Search by \
         words finds names and numbers exactly. Search by meaning finds a text that says the \
         same in other words. A context is more reliable if both lists are joined by rank. \
         Retrieval alone does not say how much of a document the context needs. Ten documents \
         that all repeat one fact fill the window and leave no room for the second fact. The \
         rank of a document says nothing of its length. Chunks of a few sentences are found \
         more exactly than whole chapters. A second stage may read the question and each \
         document together and order them again. This costs time for each document, so that \
         only the first ones are read in this way. A question with two parts needs the best \
         document of each part, even if ten documents on the first part have a better rank. A \
         retrieval that finds nothing must say so, since a model fills an empty context with \
         what it remembers.",
    ),
    (
        "compression.md",
        "Compression keeps the sentences of a document that answer the question. An extractive \
         method chooses sentences as they are and needs no model. An abstractive method writes \
         new sentences and may add an error to the context. Compression becomes stronger as the \
         conversation grows, because the turns take tokens of the window. A context that is cut \
         at a fixed place loses the end of each document. The share of a document that is kept \
         is measured in tokens. Sentences without a word of the question are left out first. \
         Old examples and greetings cost tokens and prove nothing. Half of the tokens of usual \
         documents can be left out while the answer stays in the context. What is left out must \
         be known, since a reader of the answer may ask for its source. A sentence that is kept \
         stays word by word as it was, so that a quotation can be checked. Below a few tokens \
         for each document no method keeps its meaning, and it is better to show fewer \
         documents.",
    ),
    (
        "memory.md",
        "Memory holds what was said in turns that left the window. A summary stands for the old \
         turns in a few lines. The newest turns stay as they are, since the next question \
         refers to them. Memory across sessions needs a store outside of the process. Each turn \
         that is kept in the context costs tokens that a document could use. A summary that is \
         written again and again loses numbers and names. The original turns must stay \
         searchable after they were summarised. A user notices a lost name sooner than a lost \
         paragraph. What a session learned about a user belongs into the next one, and what was \
         wrong must be replaced and not be told twice. A memory that only grows makes each \
         search slower and each context poorer. The time of a statement decides which of two \
         contradicting ones is shown as the present one. Notes beside the turns help a search \
         but are no evidence by themselves.",
    ),
    (
        "budget.md",
        "A budget gives each part of the context a share of the window. The documents have the \
         largest share, and the reserve for the answer is never used for anything else. Tokens \
         are counted before the prompt is sent and not after the provider refused it. A part \
         that needs less than its share leaves the rest to the documents. The budget of a \
         conversation is checked at each turn. An overflow is an error of the program and not \
         of the user. Four characters are about one token in English, and far fewer in other \
         languages. A count by the encoding of the model is exact. The share of the documents \
         falls when the history of the conversation grows, and a good budget makes this visible \
         in a measure. An alert at most of the window comes before the overflow and leaves time \
         to summarise. A budget that is a text in the prompt is a wish, while a budget in the \
         code of the program is a bound.",
    ),
];

/// The turns of the conversation: a question on all documents, and an answer to it.
const TURNS: [(&str, &str); 5] = [
    (
        "How should a program divide the tokens of the context window?",
        "Reserve the answer first, give the documents the largest share, and count all tokens \
         before the prompt is sent. A part that needs less leaves the rest to the documents.",
    ),
    (
        "Which sentences of the documents should the context keep?",
        "Those that share words or meaning with the question. Sentences without a word of it go \
         first, and greetings or old examples are never worth their tokens in a full window.",
    ),
    (
        "What happens to the turns of a conversation when the window is full?",
        "The oldest turns leave the window and a summary stands for them. The originals stay \
         searchable in the memory, since a summary that is written again loses names and \
         numbers.",
    ),
    (
        "Why do retrieval and compression keep less of the documents with each turn of memory?",
        "Each turn that is kept takes tokens of the window that a document could use, so that a \
         smaller share of each document is kept while the reserve for the answer stays.",
    ),
    (
        "How do documents, memory and the budget of tokens share one context window?",
        "By shares that are checked at each turn, with compression as the means to keep them.",
    ),
];

fn documents() -> Value {
    DOCUMENTS.iter().map(|(id, text)| json!({"id": id, "text": text})).collect()
}

async fn built(agent: &Agent, body: &Value) -> Value {
    let path = format!("{}/context", agent.path());
    agent.wire.call("POST", &path, &[], body.to_string()).await.ok()
}

/// Returns the names of the documents in a context.
fn shown(built: &Value) -> Vec<&str> {
    let sections = built["sections"].as_array().expect("sections").iter();
    let documents = sections.filter(|section| section["name"] == "documents");
    let items = documents.flat_map(|section| section["items"].as_array().expect("items"));
    items.map(|item| item["origin"]["id"].as_str().expect("a name")).collect()
}

/// Returns the share of the documents' tokens that a context shows.
fn kept(built: &Value) -> f64 {
    let text = built["text"].as_str().expect("a text");
    let whole: u64 = DOCUMENTS.iter().map(|(_, text)| count::text(text)).sum();
    let begin = text.find("[From documents]").unwrap_or(0);
    count::text(&text[begin..]) as f64 / whole as f64
}

/// Checks that each turn keeps a smaller share of the documents than the turn before it, by this
/// test's count and by the server's.
fn assert_falling(shares: &[(f64, f64)]) {
    println!("shares of the documents' tokens, and what the server says: {shares:?}");
    assert!(shares[0].0 < 1.0, "{shares:?}");
    for pair in shares.windows(2) {
        assert!(pair[1].0 < pair[0].0 && pair[1].1 < pair[0].1, "{shares:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_documents_become_shorter_as_the_conversation_grows() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", WINDOW, "Answer from the texts.").await;
    let slots = json!({"system": 5, "history": 20, "summary": 10, "documents": 45, "reserve": 20});
    let mut shares = Vec::new();
    for (question, answer) in TURNS {
        ada.append("user", question).await;
        let told = built(&ada, &json!({"documents": documents(), "slots": slots})).await;
        let messages = told["messages"].as_array().expect("messages");
        let (text, prompt) = (told["text"].as_str().expect("a text"), count::window(messages));
        assert_eq!(shown(&told).len(), DOCUMENTS.len(), "{told:#}");
        assert!(prompt <= TOKENS_MAX, "{prompt} tokens: {told:#}");
        assert_eq!(told["tokens_used"], count::text(text), "{told:#}");
        shares.push((kept(&told), told["compression_ratio"].as_f64().expect("a share")));
        ada.append("assistant", answer).await;
    }
    assert_falling(&shares);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_documents_become_shorter_beside_a_conversation_that_left_the_window() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8_192, "Answer from the texts.").await;
    let mut shares = Vec::new();
    for (question, answer) in TURNS {
        ada.append("user", question).await;
        let told = built(&ada, &json!({"documents": documents(), "tokens_max": TOKENS_MAX})).await;
        let text = told["text"].as_str().expect("a text");
        assert_eq!(shown(&told).len(), DOCUMENTS.len(), "{told:#}");
        assert_eq!(told["tokens_used"], count::text(text), "{told:#}");
        assert!(count::text(text) <= TOKENS_MAX, "{told:#}");
        shares.push((kept(&told), told["compression_ratio"].as_f64().expect("a share")));
        ada.append("assistant", answer).await;
        ada.done("evict_fifo", &json!({"target_tokens": 0, "summarize": false})).await;
        // A search orders messages a little differently until the view shows them.
        view_shows(&home.database_inside(), 2 * shares.len()).await;
    }
    assert_falling(&shares);
    home.assert_verified("vctx.sock", "ada");
}
