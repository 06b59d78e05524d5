//! A recorded prompt: the row stored before the request, the bytes of the request, and the outcome.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::core::{Block, Chain, Notice, Offered, OpenCall, System, TokenBudget, WindowClock};
use super::form::Form;
use super::held::{ChangedText, LostText};
use super::model_api::ModelApi;
use super::receipt::{canonical_json, sha256};
use super::run::Usage;
use super::tokens::Encoding;

/// Number of hex digits of the digest that names a tool set.
const TOOLS_DIGEST_DIGITS: usize = 32;

/// The agent's prompt that has no answer yet, stored in `core_memory.asked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptInput {
    /// Number of the prompt; prompts are numbered from 1 without gaps.
    pub turn: u64,
    /// Key of the run that sends the prompt.
    pub run: String,
    /// Name of the model.
    pub model: String,
    /// Cost of the prompt by the server's own count, in tokens.
    pub token_estimate: u64,
    /// Time when the prompt was recorded, in milliseconds since 1970.
    pub at_ms: u64,
}

/// The learned token factor of a model: how its provider counts tokens, compared with the server's
/// estimate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The model's name.
    pub model: String,
    /// The provider's tokens per thousand tokens of the server's estimate.
    pub factor_permille: u64,
    /// Number of prompts that the model's token factor is averaged over.
    pub samples: u64,
    /// Number of the last prompt that the model's token factor includes.
    pub turn: u64,
}

/// The row `prompts/{scope}:{turn}`, written before the request is sent to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// Key of the row: the scope (the agent's key) and the number of the prompt.
    #[serde(rename = "_key")]
    pub key: String,
    /// Key of the agent.
    pub agent_id: String,
    /// Number of the prompt; prompts are numbered from 1 without gaps.
    pub turn: u64,
    /// Key of the run that sends the prompt.
    pub run: String,
    /// Seq of the message that began the prompt's run.
    pub cause_seq: u64,
    /// The server or client that sends the prompt.
    pub owner: String,
    /// The window of the prompt.
    #[serde(flatten)]
    pub window: RenderedPrompt,
    /// The fields of the request other than the window.
    #[serde(flatten)]
    pub sent: SentPrompt,
    /// The model's token factor when the prompt was recorded: the provider's tokens per thousand
    /// tokens of the server's estimate.
    pub factor_permille: u64,
    /// Time when the prompt was recorded, ISO 8601.
    pub created_at: String,
    /// The newest checkpoint with a head of the agent at that time: origin, number and root, with
    /// spaces between them; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// The outcome of the prompt; `None` while it has no answer.
    #[serde(flatten)]
    pub end: Option<PromptEnd>,
}

/// The window of a prompt, stored as references from which the window can be rendered again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RenderedPrompt {
    /// Version of the core at the time of the prompt. The newest row of `core_versions` that is not
    /// newer than this version contains the prompt's texts.
    pub version: u64,
    /// Revision (`_rev`) of the core's document at the time of the prompt.
    pub core_rev: String,
    /// First seq of the prompt's queue.
    pub head_seq: u64,
    /// First seq after the prompt's queue.
    pub next_seq: u64,
    /// Head of the hash chain at the time of the prompt.
    pub chain: Chain,
    /// Revision of the summary at the time of the prompt.
    pub summary_rev: u64,
    /// Tool calls in the queue without a result; `None` in prompts that an earlier program version
    /// recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_calls: Option<Vec<OpenCall>>,
    /// Full texts of the notices at the time of the prompt.
    pub notices: Vec<Notice>,
    /// Encoding of the prompt's token counts.
    pub encoding: Encoding,
    /// Form of the window.
    #[serde(default, skip_serializing_if = "Form::is_one")]
    pub form: Form,
    /// Zone and costs of the clock; `None` in form 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<WindowClock>,
    /// Time that the clock shows; `None` in form 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Day of the queue's first message; `None` in form 1 and for an empty queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_on: Option<String>,
    /// Seqs of the messages with a filler, oldest first; only in the strict form. A later change of
    /// the form gives other fillers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fillers: Vec<u64>,
    /// Warning mark, flush mark and eviction target, in tokens.
    pub policy: TokenBudget,
    /// Digest and cost of the tools that the model was offered.
    #[serde(default)]
    pub offered: Offered,
    /// Digest of the context pack that the prompt showed; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<String>,
    /// SHA-256 of the canonical JSON of the prompt's messages.
    pub messages_digest: String,
    /// SHA-256 of the canonical JSON of the prompt's manifest, which lists the items of the window.
    pub context_digest: String,
    /// Cost of the prompt by the server's count, in tokens.
    pub token_estimate: u64,
}

/// All fields of a request to a model except the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentPrompt {
    /// The model's name.
    pub model: String,
    /// The API in whose form the request was sent.
    #[serde(default, skip_serializing_if = "ModelApi::is_chat")]
    pub api: ModelApi,
    /// Digest of the tool set; `None` without tools.
    pub tools: Option<String>,
    /// Canonical JSON of the fields of the request's body other than the model, the messages and
    /// the tools.
    pub options: String,
    /// SHA-256 of the sent bytes of the request.
    pub request_digest: String,
    /// Time when a request to forget removed the options; `None` while the options exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options_forgotten_at: Option<String>,
    /// Time when a request to forget removed the texts of the notices; `None` while they exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notices_forgotten_at: Option<String>,
}

/// The outcome of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptEnd {
    /// Why the model stopped, or the error of the request.
    pub finish: String,
    /// Seq of the answer; `None` if no answer was stored.
    pub answer_seq: Option<u64>,
    /// Token counts that the provider reported, if any.
    pub usage: Option<Usage>,
    /// The provider's tokens per thousand tokens of the server's estimate; `None` if the provider
    /// reported no count.
    pub counted_permille: Option<u64>,
    /// Whether the provider's count and the server's estimate differ by more than the allowed
    /// variance.
    pub variance_flag: bool,
    /// Time from the recording of the prompt to the answer, in milliseconds.
    pub duration_ms: u64,
    /// Time when the prompt ended, ISO 8601.
    pub ended_at: String,
}

/// The row `tool_sets/{scope}:{digest}`, which contains the schemas of the tools that a model is
/// offered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSet {
    /// Key of the row: the scope (the agent's key) and the digest.
    #[serde(rename = "_key")]
    pub key: String,
    /// Key of the agent.
    pub agent_id: String,
    /// First digits of the SHA-256 of the tool set's text.
    pub digest: String,
    /// Canonical JSON of the list of tools.
    pub text: String,
}

impl ToolSet {
    /// Returns the row of `tool_sets` for a list of tools; `None` for an empty list.
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

    /// Whether the tool set's text matches its digest.
    pub fn holds(&self) -> bool {
        tools_digest(&self.text) == self.digest
    }
}

fn tools_digest(text: &str) -> String {
    let mut digest = sha256(text);
    digest.truncate(TOOLS_DIGEST_DIGITS);
    digest
}

/// A stored core version: a row of `core_versions` with all texts of one version of an agent's
/// core, also those that other versions hold.
#[derive(Clone, Debug, Deserialize)]
pub struct Texts {
    /// Document key of this row in `core_versions`.
    #[serde(rename = "_key")]
    pub key: String,
    /// Version of the core that had these texts.
    pub version: u64,
    /// The system text (instructions for the model).
    pub system: System,
    /// The blocks of the working context.
    pub working_blocks: Vec<Block>,
    /// The summary of this core version. After retention has removed the summary's text, `content`
    /// is null.
    pub queue_head_summary: Value,
    /// Size of the window, in tokens.
    pub context_window: u64,
    /// Encoding of the token counts in this row.
    pub encoding: Encoding,
    /// Warning mark, flush mark and eviction target, in tokens.
    pub token_budget: TokenBudget,
    /// Time when this row was written.
    pub ts: String,
    /// Time when retention removed the summary from this row; `None` while the summary exists.
    #[serde(default)]
    pub expired_at: Option<String>,
    /// Time when a forget operation removed a text of this row; `None` while the texts exist.
    #[serde(default)]
    pub forgotten_at: Option<String>,
    /// Texts that are missing in the versions that held them.
    #[serde(default)]
    pub lost: Vec<LostText>,
    /// Texts that do not match their digests.
    #[serde(default)]
    pub changed: Vec<ChangedText>,
}

/// The fields of a prompt's row that identify the texts in the prompt's window.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Marks {
    /// Number of the prompt.
    pub turn: u64,
    /// Version of the core at the time of the prompt.
    pub version: u64,
    /// First seq of the prompt's queue.
    pub head_seq: u64,
    /// First seq after the prompt's queue.
    pub next_seq: u64,
    /// Digest of the context pack that the prompt showed.
    pub pack: Option<String>,
}

/// Returns the key of a row of `prompts`.
pub fn prompt_key(agent_id: &str, turn: u64) -> String {
    format!("{agent_id}:{turn}")
}

/// Returns the patch that adds the outcome of a prompt to its row in `prompts`.
pub fn ended(agent_id: &str, turn: u64, end: &PromptEnd) -> Value {
    let mut patch = json!(end);
    patch["_key"] = prompt_key(agent_id, turn).into();
    patch
}
