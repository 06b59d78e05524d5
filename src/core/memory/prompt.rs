//! A prompt as it was sent: what is kept of it, the bytes that follow from that, and what became of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::core::{Block, Chain, Notice, Offered, OpenCall, System, TokenBudget};
use super::receipt::{canonical_json, sha256};
use super::run::Usage;
use super::tokens::Encoding;

/// Hex digits of the digest that names a tool set.
const TOOLS_DIGEST_DIGITS: usize = 32;

/// A prompt that was sent and has no answer yet, as it lies in `core_memory.asked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Its number.
    pub turn: u64,
    /// Key of its run.
    pub run: String,
    /// The model.
    pub model: String,
    /// What we count it at.
    pub token_estimate: u64,
    /// When it was recorded, in milliseconds since 1970.
    pub at_ms: u64,
}

/// What was learned of a model's own counting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// The model's name.
    pub model: String,
    /// What it counts for each thousand tokens of our estimate.
    pub factor_permille: u64,
    /// Prompts that this rests on.
    pub samples: u64,
    /// The last of them.
    pub turn: u64,
}

/// The row `prompts/{scope}:{turn}` as it is written before the model is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// Scope and turn.
    #[serde(rename = "_key")]
    pub key: String,
    /// Whose it is.
    pub agent_id: String,
    /// Its number, dense from 1.
    pub turn: u64,
    /// Key of its run.
    pub run: String,
    /// Seq of the message that began the run.
    pub cause_seq: u64,
    /// Which server or client asked.
    pub owner: String,
    /// What was rendered.
    #[serde(flatten)]
    pub window: Rendered,
    /// What was sent beside it.
    #[serde(flatten)]
    pub sent: Sent,
    /// What the model counts for each thousand of our tokens, as far as it was known.
    pub factor_permille: u64,
    /// When it was recorded, in ISO form.
    pub created_at: String,
    /// What became of it.
    #[serde(flatten)]
    pub end: Option<PromptEnd>,
}

/// The window of a prompt: marks from which it is put together again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rendered {
    /// Version of the core; the newest copy of texts up to it holds those of the prompt.
    pub version: u64,
    /// Revision of the core.
    pub core_rev: String,
    /// First seq of the queue.
    pub head_seq: u64,
    /// Seq after the last.
    pub next_seq: u64,
    /// Head of the hash chain.
    pub chain: Chain,
    /// Revision of the summary.
    pub summary_rev: u64,
    /// Calls without a result, whole; none in prompts of before anything stood in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_calls: Option<Vec<OpenCall>>,
    /// Standing notices, whole.
    pub notices: Vec<Notice>,
    /// How tokens were counted.
    pub encoding: Encoding,
    /// Thresholds.
    pub policy: TokenBudget,
    /// What the core said of tools that are offered.
    #[serde(default)]
    pub offered: Offered,
    /// SHA-256 of the canonical JSON of the messages.
    pub messages_digest: String,
    /// SHA-256 of the canonical JSON of the manifest.
    pub context_digest: String,
    /// What all of it costs by our count.
    pub token_estimate: u64,
}

/// What of a request is not the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// The model's name.
    pub model: String,
    /// Digest of the tool set; none: no tools were offered.
    pub tools: Option<String>,
    /// Canonical JSON of everything else in the body.
    pub options: String,
    /// SHA-256 of the bytes that were sent.
    pub request_digest: String,
}

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptEnd {
    /// Why the model stopped, or what went wrong.
    pub finish: String,
    /// Seq of the answer; none if there was nothing to keep.
    pub answer_seq: Option<u64>,
    /// The provider's count.
    pub usage: Option<Usage>,
    /// What the provider counts for each thousand tokens of our estimate; none without its count.
    pub counted_permille: Option<u64>,
    /// Whether the two differ by more than the bound.
    pub variance_flag: bool,
    /// Time from the record to the answer, in milliseconds.
    pub duration_ms: u64,
    /// When, in ISO form.
    pub ended_at: String,
}

/// The row `tool_sets/{scope}:{digest}`: tool schemas as they were offered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSet {
    /// Scope and digest.
    #[serde(rename = "_key")]
    pub key: String,
    /// Whose it is.
    pub agent_id: String,
    /// Beginning of the SHA-256 of the text.
    pub digest: String,
    /// Canonical JSON of the list.
    pub text: String,
}

impl ToolSet {
    /// The row of a list of tools; none for an empty one.
    pub fn of(agent_id: &str, tools: &[Value]) -> Option<Self> {
        if tools.is_empty() {
            return None;
        }
        let text = canonical_json(&Value::Array(tools.to_vec()));
        let digest = tools_digest(&text);
        Some(Self {
            key: format!("{agent_id}:{digest}"),
            agent_id: agent_id.to_owned(),
            digest,
            text,
        })
    }

    /// Whether the text is what the digest says.
    pub fn holds(&self) -> bool {
        tools_digest(&self.text) == self.digest
    }
}

fn tools_digest(text: &str) -> String {
    let mut digest = sha256(text);
    digest.truncate(TOOLS_DIGEST_DIGITS);
    digest
}

/// A copy of everything that is text in a core.
#[derive(Clone, Debug, Deserialize)]
pub struct Texts {
    /// Key of the copy.
    #[serde(rename = "_key")]
    pub key: String,
    /// Version of the core.
    pub version: u64,
    /// System instructions.
    pub system: System,
    /// Working context.
    pub working_blocks: Vec<Block>,
    /// The summary; its `content` is null once it went by its age.
    pub queue_head_summary: Value,
    /// Size of the window.
    pub context_window: u64,
    /// How tokens were counted.
    pub encoding: Encoding,
    /// Thresholds.
    pub token_budget: TokenBudget,
    /// When it was made.
    pub ts: String,
    /// When the summary went; none while it is there.
    #[serde(default)]
    pub expired_at: Option<String>,
    /// When all its texts were forgotten by request; none while they are there.
    #[serde(default)]
    pub forgotten_at: Option<String>,
}

/// What of a prompt tells which texts it held.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Marks {
    /// Its number.
    pub turn: u64,
    /// Version of the core.
    pub version: u64,
    /// First seq of its queue.
    pub head_seq: u64,
    /// Seq after the last.
    pub next_seq: u64,
}

/// Key of a row of `prompts`.
pub fn prompt_key(agent_id: &str, turn: u64) -> String {
    format!("{agent_id}:{turn}")
}

/// The patch of a row of `prompts` that ends it.
pub fn ended(agent_id: &str, turn: u64, end: &PromptEnd) -> Value {
    let mut patch = json!(end);
    patch["_key"] = prompt_key(agent_id, turn).into();
    patch
}

/// The bytes of a request: canonical JSON of the options with `model`, `messages` and, where there are any, `tools`. Whoever sends a prompt
/// sends exactly this, so that it can be made again from what is stored.
pub fn request_text(
    model: &str,
    messages: &[Value],
    tools: Option<Value>,
    options: &Map<String, Value>,
) -> String {
    let mut body = options.clone();
    body.insert("model".into(), model.into());
    body.insert("messages".into(), Value::Array(messages.to_vec()));
    if let Some(tools) = tools {
        body.insert("tools".into(), tools);
    }
    canonical_json(&Value::Object(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_same_text_whatever_the_order_of_its_parts() {
        let options = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        let messages = [json!({"role": "user", "content": "hi"})];
        let text = |given: &str| request_text("m", &messages, None, &options(given));
        assert_eq!(
            text(r#"{"temperature": 1.0, "stream": true}"#),
            text(r#"{"stream": true, "temperature": 1}"#)
        );
        assert_eq!(
            text(r#"{"stream": true}"#),
            r#"{"messages":[{"content":"hi","role":"user"}],"model":"m","stream":true}"#
        );
    }

    #[test]
    fn a_tool_set_knows_whether_it_was_changed() {
        assert_eq!(ToolSet::of("ada", &[]), None);
        let mut set = ToolSet::of("ada", &[json!({"name": "a"})]).unwrap();
        assert!(set.holds() && set.key.starts_with("ada:"));
        set.text = set.text.replace('a', "b");
        assert!(!set.holds());
    }

    #[test]
    fn a_row_survives_the_trip_through_json_with_and_without_an_end() {
        let mut row = json!({"_key": "ada:3", "agent_id": "ada", "turn": 3, "run": "r", "cause_seq": 1, "owner": "o",
            "version": 9, "core_rev": "_x", "head_seq": 1, "next_seq": 4, "chain": {"head": "c", "length": 3}, "summary_rev": 0,
            "notices": [], "encoding": "o200k_base", "policy": {"warning": 1, "flush": 2, "target": 3, "max": 4},
            "messages_digest": "m", "context_digest": "c", "token_estimate": 7, "model": "m", "tools": null, "options": "{}",
            "request_digest": "r", "factor_permille": 1000, "created_at": "t"});
        let prompt: Prompt = serde_json::from_value(row.clone()).unwrap();
        assert_eq!(prompt.end, None);
        let end = PromptEnd {
            finish: "stop".into(),
            answer_seq: Some(4),
            usage: Some(Usage { prompt: 8, completion: 2 }),
            counted_permille: Some(1142),
            variance_flag: true,
            duration_ms: 5,
            ended_at: "u".into(),
        };
        for (name, value) in ended("ada", 3, &end).as_object().unwrap() {
            row[name] = value.clone();
        }
        let prompt: Prompt = serde_json::from_value(row).unwrap();
        assert_eq!((prompt.end, prompt.key.as_str()), (Some(end), "ada:3"));
    }
}
