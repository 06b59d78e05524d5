//! Tests the contexts in prompts of a client of the OpenAI API that sends its whole history and has
//! no tools: facts from hundreds of turns ago come back, and prompts keep the prefix that they
//! share.

use serde_json::{Value, json};

use crate::home::Home;
use crate::scripted::Scripted;
use crate::talk::Agent;

/// Number of facts, and of questions that must get their fact.
const FACTS: usize = 25;
const SHOWN_MIN: usize = 23;
/// Number of turns between the facts and the questions.
const TURNS: usize = 380;
/// Smallest share of prompts that keep the shared prefix, in percent.
const KEPT_PERCENT_MIN: usize = 98;

#[tokio::test(flavor = "multi_thread")]
async fn facts_of_four_hundred_turns_ago_come_into_the_prompts_of_a_client_without_tools() {
    let talk = Talk::held(FACTS + TURNS).await;
    talk.assert_facts_shown();
    talk.assert_prefix_kept();
}

/// Like the test above, but the client asks in each of its turns.
#[cfg(feature = "full-tests")]
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_in_each_of_four_hundred_turns_sees_the_facts_and_one_prefix() {
    let talk = Talk::held(0).await;
    talk.assert_facts_shown();
    talk.assert_prefix_kept();
}

/// A conversation that a client had.
struct Talk {
    /// The requests to the model, in order.
    requests: Vec<Value>,
    /// For each request, what an eviction or a new summary changes.
    moved: Vec<Value>,
    /// For each question on a fact, the number of its request, and the answer.
    asked: Vec<(usize, String)>,
}

impl Talk {
    /// Has a conversation: facts, other turns, and then questions on the facts between other turns.
    /// The first request of the client contains the given number of turns.
    async fn held(at_first: usize) -> Talk {
        let home = Home::new();
        let model = Scripted::start(&home, "echo", &[]).await;
        let mut tuning = model.tuning(&[]);
        tuning.environment.push(("VCTX_DROPIN__CONTEXT_WINDOW".into(), "4096".into()));
        // The test makes many appends; other tests check durability.
        tuning.environment.push(("VCTX_STORE__DURABLE".into(), "false".into()));
        let _server = home.serve_with("vctx.sock", &tuning).await;
        let wire = home.wire("vctx.sock");
        let facts: Vec<(String, String, String)> = (0..FACTS).map(fact).collect();
        let told = facts.iter().map(|(_, told, _)| (told.clone(), None));
        let step = |turn: usize| {
            let box_number = turn * 7 % 90;
            (format!("Step {turn}: I sorted box {box_number} of the attic."), None)
        };
        let asked = facts.iter().enumerate().flat_map(|(at, (question, _, answer))| {
            [(question.clone(), Some(answer.clone())), step(TURNS + at)]
        });
        let turns = told.chain((0..TURNS).map(step)).chain(asked);
        let said = |role: &str, text: &str| json!({"role": role, "content": text});
        let mut talk = Talk { requests: Vec::new(), moved: Vec::new(), asked: Vec::new() };
        let (mut messages, mut requests, mut name) = (Vec::new(), 0, String::new());
        for (turn, (text, answer)) in turns.enumerate() {
            messages.push(said("user", &text));
            if turn < at_first {
                messages.push(said("assistant", &format!("Turn {turn} is done.")));
                continue;
            }
            let body = json!({"model": "scripted", "messages": messages}).to_string();
            let told = wire.call("POST", "/v1/chat/completions", &[], body).await.ok();
            messages.push(told["choices"][0]["message"].clone());
            told["vctx"]["agent"].as_str().expect("an agent").clone_into(&mut name);
            talk.asked.extend(answer.map(|answer| (requests, answer)));
            requests += 1;
        }
        talk.requests = model.requests();
        assert_eq!(
            talk.requests.len(),
            requests,
            "one prompt for each request, as no tool is called"
        );
        for request in &talk.requests {
            assert_eq!(request["status"], 200, "longer than the window: {request:#}");
        }
        let agent = Agent::at(wire, &name);
        for turn in 1..=requests {
            let prompt = agent.wire.get(&format!("{}/prompts/{turn}", agent.path())).await.ok();
            assert_eq!(prompt["exact"], true, "{prompt:#}");
            talk.moved.push(moved(&prompt["manifest"]));
        }
        home.assert_verified("vctx.sock", &name);
        talk
    }

    fn assert_facts_shown(&self) {
        let is_shown = |(number, answer): &&(usize, String)| {
            self.messages(*number).iter().any(|one| one.to_string().contains(answer.as_str()))
        };
        let shown = self.asked.iter().filter(is_shown).count();
        assert_eq!(self.asked.len(), FACTS);
        assert!(shown >= SHOWN_MIN, "{shown} of {FACTS}");
    }

    /// Checks that a prompt begins with all of the prompt before it except its context. Prompts
    /// after an eviction or a new summary do not count.
    fn assert_prefix_kept(&self) {
        let (mut quiet, mut kept) = (0, 0);
        for number in 1..self.requests.len() {
            if self.moved[number - 1] != self.moved[number] {
                continue;
            }
            let (before, after) = (self.messages(number - 1), self.messages(number));
            let (before, after) = (conversation(before), conversation(after));
            quiet += 1;
            kept += usize::from(after.starts_with(&before));
        }
        println!("{kept} of {quiet} prompts keep the prefix");
        assert!(quiet * 2 > self.requests.len(), "{quiet} prompts without an eviction");
        assert!(kept * 100 >= KEPT_PERCENT_MIN * quiet, "{kept} of {quiet}");
    }

    fn messages(&self, number: usize) -> &[Value] {
        self.requests[number]["request"]["messages"].as_array().expect("messages")
    }
}

/// Returns the part of a prompt's manifest that an eviction or a new summary changes: the oldest
/// message of the queue, and the summary.
fn moved(manifest: &Value) -> Value {
    let items = manifest["items"].as_array().expect("items");
    let first = |section: &str| items.iter().find(|item| item["section"] == section);
    json!([first("fifo").map(|item| &item["seq"]), first("summary").map(|item| &item["digest"])])
}

/// Returns the messages of a prompt up to its question, without the context.
fn conversation(messages: &[Value]) -> Vec<&Value> {
    let end = messages.iter().rposition(|one| one["role"] == "user").expect("a question");
    let is_context = |one: &Value| {
        one["role"] == "system"
            && one["content"].as_str().is_some_and(|text| text.contains("[From memory]"))
    };
    messages[..=end].iter().filter(|one| !is_context(one)).collect()
}

/// Returns a question, a statement that answers it, and the answer.
fn fact(at: usize) -> (String, String, String) {
    const PETS: [&str; 5] = ["parrot", "tortoise", "hamster", "ferret", "goldfish"];
    const OWNERS: [&str; 5] = ["sister", "neighbour", "dentist", "teacher", "landlord"];
    const NAMES: [&str; 5] = ["Quill", "Biscuit", "Marlow", "Pepper", "Saffron"];
    let (pet, owner) = (PETS[at % 5], OWNERS[at / 5]);
    let name = format!("{}{}", NAMES[(at + at / 5) % 5], at);
    (
        format!("What is the {pet} of my {owner} called?"),
        format!("My {owner} has a {pet} that is called {name}."),
        name,
    )
}
