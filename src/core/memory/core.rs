//! The core of one agent, as stored in `core_memory`.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::archive::Archived;
use super::engineer::Engineer;
use super::form::Form;
use super::heartbeat::Heartbeat;
use super::held::HeldTexts;
use super::local_time::{LocalTime, zone_of};
use super::outbound::{Outbound, Spending};
use super::pack::CoreContext;
use super::prompt::{Estimate, PromptInput};
use super::run::OpenRun;
use super::tokens::Encoding;

/// The core of one agent, stored as the document `core_memory/{scope}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Core {
    /// Document key of the core: the agent, or `tenant:agent`.
    #[serde(rename = "_key")]
    pub key: String,
    /// Revision of the core from the database; empty before the first write.
    #[serde(rename = "_rev", default, skip_serializing_if = "String::is_empty")]
    pub rev: String,
    /// Tenant of the agent; empty for the default tenant.
    pub tenant: String,
    /// The agent's id, equal to the document key of the core; messages and events contain this id.
    pub agent_id: String,
    /// Schema number of the core's document, for migrations.
    pub schema_version: u32,
    /// Size of the window in tokens.
    pub context_window: u64,
    /// Encoding that counts the agent's tokens.
    pub encoding: Encoding,
    /// Form of the agent's window; form 1 in a core that an earlier program version wrote.
    #[serde(default, skip_serializing_if = "Form::is_one")]
    pub form: Form,
    /// The clock at the end of the window; `None` in form 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_clock: Option<WindowClock>,
    /// Warning mark, flush mark and eviction target, in tokens.
    pub token_budget: TokenBudget,
    /// The system text (instructions for the model).
    pub system: System,
    /// The blocks of the working context.
    pub working_blocks: Vec<Block>,
    /// Blocks that were removed since the oldest revision in `recent_revisions`.
    #[serde(default)]
    pub removed_blocks: Vec<RemovedBlock>,
    /// Recursive summary of the evicted messages.
    pub queue_head_summary: Summary,
    /// Which stored versions hold the long texts of the core; `None` in a core without long texts,
    /// and in a core that an earlier program version wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldTexts>,
    /// The queue, as a range of positions in the agent's log.
    pub queue: Queue,
    /// Tool calls in the queue whose result is missing, oldest first; `None` in a core that an
    /// earlier program version wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_calls: Option<Vec<OpenCall>>,
    /// Current notices in the window, at most one of each kind.
    pub notices: Vec<Notice>,
    /// Head of the hash chain over all messages of the agent.
    pub chain: Chain,
    /// Counts of warnings, evictions and searches since the agent's creation.
    pub counters: Counters,
    /// Limits and state of the agent's heartbeat chains.
    #[serde(default)]
    pub heartbeat: Heartbeat,
    /// The core's latest revisions with their version numbers, newest last.
    pub recent_revisions: RecentRevisions,
    /// Version of the core: the number of writes to its document.
    pub version: u64,
    /// When the agent was created.
    pub created_at: String,
    /// When the core's document was last written.
    pub updated_at: String,
    /// `created_at` of the newest message, in milliseconds. The next message gets a later
    /// `created_at`.
    pub last_message_ms: u64,
    /// Number of documents and chunks in the agent's archive.
    #[serde(default)]
    pub archived: Archived,
    /// Counts of the texts that retention removed.
    #[serde(default)]
    pub expired: Expired,
    /// Count of the messages whose text a forget operation removed.
    #[serde(default)]
    pub forgotten: Forgotten,
    /// The run that is under way, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<OpenRun>,
    /// Number of prompts since the agent's creation.
    #[serde(default)]
    pub turns: u64,
    /// The last prompt, until its answer is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<PromptInput>,
    /// For each model that received prompts, the learned ratio of the provider's token count to the
    /// server's estimate. The model with the latest prompt is last.
    #[serde(default)]
    pub learned: Vec<Estimate>,
    /// Digests of the tool sets (the sets of tools offered to the model) that were stored last,
    /// newest at the end.
    #[serde(default)]
    pub tool_sets: Vec<String>,
    /// The newest context that was built for a prompt, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<CoreContext>,
    /// When the agent's prompts get a context that is built for their question; `None` for the
    /// configured choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engineer: Option<Engineer>,
    /// The tools that a caller offers to the model.
    #[serde(default)]
    pub tools: Offered,
    /// The tools that the open run offers to the model, while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Offered>,
    /// Which models may receive the agent's texts; `None` for all that the configuration names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbound: Option<Outbound>,
    /// The tokens of the agent's prompts and answers today, and the agent's own limit of them;
    /// `None` if there was no answer and there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spending: Option<Spending>,
    /// The person to whom the agent belongs, by whose name agents are listed and searched together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The agent that this agent branched from, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
    /// Tainted items released from quarantine, stored as digests of the items' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<String>,
    /// Random bits, renewed with every write, so that a digest of the core cannot confirm a guess
    /// of its texts after they are gone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub salt: String,
    /// The agent whose memory this agent began with, if it was made as a clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloned: Option<CloneSource>,
    /// Names that the agent was given after it was made, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The agent's former name, if an import renamed the agent. The digests of the agent's messages
    /// contain the former name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_as: Option<String>,
    /// Number of entries of the ledger that an import brought along; 0 for an agent that was made
    /// in its database.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub imported_entries: u64,
    /// The agent's move to another database, while the move is under way. Until the end of the
    /// move, other writes to the agent are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<Leaving>,
}

/// A move of an agent that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// The server that moves the agent.
    pub by: String,
    /// The target database.
    pub to: String,
}

/// The origin of a clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloneSource {
    /// Key of the source.
    pub from: String,
    /// Number of the newest entry in the ledger of the source; 0 without a ledger.
    pub n: u64,
    /// Hash of this entry.
    pub hash: String,
    /// Document key of the record of the call that made the clone.
    pub by: String,
}

/// The origin of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Name of the parent agent.
    pub parent: String,
    /// Seq, in the parent's log, of the last message that parent and branch share.
    pub seq: u64,
}

/// The tools that a model is offered with every request; the tools take tokens of the model's
/// window like a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Offered {
    /// SHA-256 of the tools' schemas (hex); empty if no tools are offered.
    pub digest: String,
    /// Cost of the tools in the model's window, in tokens; 0 if no tools are offered.
    pub token_estimate: u64,
}

/// The clock at the end of the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowClock {
    /// Time zone of all times in the window: a name of the IANA time zone database, or `UTC`.
    pub zone: String,
    /// Rendered cost of the clock, in tokens.
    pub token_estimate: u64,
    /// Rendered cost of the line with the date of the queue's first message, in tokens.
    pub opening_tokens: u64,
    /// Time of the prompt that is rendered, as `2026-05-05 Tue 09:14`. Without a prompt, the clock
    /// shows the time of the newest message, so that the window depends on the memory alone.
    #[serde(skip)]
    pub now: Option<String>,
}

impl WindowClock {
    /// Returns a clock in a zone, whose costs are not counted yet.
    pub fn of(zone: String) -> Self {
        Self { zone, token_estimate: 0, opening_tokens: 0, now: None }
    }

    /// Sets the clock to the time of a prompt.
    pub fn set(&mut self, unix_ms: u64) {
        let zone = zone_of(&self.zone).unwrap_or(TimeZone::UTC);
        self.now = Some(LocalTime::at(unix_ms, &zone).to_string());
    }
}

/// Counts of the texts that retention removed, and how far retention has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expired {
    /// Number of messages whose text was removed.
    pub messages: u64,
    /// Seq up to which retention has removed all texts of messages.
    pub through_seq: u64,
    /// Time when the message at the position `through_seq` was appended.
    pub through_at: String,
    /// Version of the core up to which retention has removed the summaries from the stored core
    /// versions.
    pub through_version: u64,
}

/// Count of the messages whose text a forget operation removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// Number of messages whose text was removed.
    pub messages: u64,
}

/// Warning mark, flush mark and target of an eviction: 70, 90 and 50 % of the window, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBudget {
    /// Number of tokens in the window at which the pressure notice appears.
    pub warning: u64,
    /// Number of tokens in the window at which the oldest messages are evicted.
    pub flush: u64,
    /// Number of tokens that an eviction leaves in the window, if possible.
    pub target: u64,
    /// Size of the window, in tokens.
    pub max: u64,
}

/// The system text: instructions for the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// The instructions.
    pub content: String,
    /// Rendered cost of the system text, in tokens.
    pub token_estimate: u64,
    /// Version of the core in which the system text last changed.
    pub changed_at_version: u64,
}

/// A block of the working context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Name of the block, unique within the agent.
    pub id: String,
    /// Purpose of the block (`persona`, `human`, …); free text.
    pub role: String,
    /// The text of the block.
    pub content: String,
    /// Rendered cost of the block, in tokens.
    pub token_estimate: u64,
    /// Whether the block is pinned; all pinned blocks together may take a quarter of the window.
    pub pinned: bool,
    /// Version of the core in which the block last changed.
    pub changed_at_version: u64,
    /// Why the block contains tainted text; `None` if the block contains no tainted text. The
    /// window never shows this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taint: Option<BlockTaint>,
    /// Whether block tags in the block's text are escaped when the window is rendered. The value is
    /// `false` for a text without block tags. It is also `false` in blocks that an earlier program
    /// version wrote, because these blocks must render unchanged.
    #[serde(default, skip_serializing_if = "is_false")]
    pub escaped: bool,
}

impl Block {
    /// Returns all texts that the block's writer gave: the name, the content, the role, and the
    /// justification of tainted text.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let why = self.taint.as_ref().map(|taint| taint.justification.as_str());
        [self.id.as_str(), self.content.as_str(), self.role.as_str()].into_iter().chain(why)
    }
}

impl Core {
    /// Whether a name that the core keeps contains one of the given texts: the name of a removed
    /// block, of a model, or of a run and its owner.
    pub fn has_name_with(&self, holds: impl Fn(&str) -> bool) -> bool {
        self.removed_blocks.iter().any(|block| holds(&block.id))
            || self.learned.iter().any(|model| holds(&model.model))
            || self.run.as_ref().is_some_and(|run| holds(&run.id) || holds(&run.owner))
            || self.asked.as_ref().is_some_and(|asked| holds(&asked.run) || holds(&asked.model))
    }
}

/// Why a block contains tainted text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockTaint {
    /// The injection rules that the block's text matches. An injection rule recognizes text that
    /// reads like an instruction to the model.
    pub rules: Vec<String>,
    /// Whether the block contains a sequence of words from a tainted text in the queue.
    pub shared: bool,
    /// The writer's justification.
    pub justification: String,
}

/// A removed block. If a write names a revision in which the block still existed, the write is
/// refused as stale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovedBlock {
    /// Name of the removed block.
    pub id: String,
    /// Version of the core that removed the block.
    pub version: u64,
}

/// The recursive summary at the beginning of the queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The summary's text; empty before the first eviction.
    pub content: String,
    /// Rendered cost of the summary, in tokens; 0 for an empty summary.
    pub token_estimate: u64,
    /// Revision of the summary, which grows by one with each new summary.
    pub revision: u64,
    /// Version of the core in which the summary last changed.
    pub changed_at_version: u64,
    /// Key of the stored core version (in `core_versions`) that contains the summary; the summary's
    /// edges begin at this document. `None` in a core that an earlier program version wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// Whether block tags in the summary are escaped when the window is rendered.
    #[serde(default, skip_serializing_if = "is_false")]
    pub escaped: bool,
    /// Position of the first message from which the summary was made. `None` in a summary of an
    /// earlier program version, which may have been made from any evicted message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seq: Option<u64>,
}

impl Core {
    /// Whether the summary was made from a message whose text retention has removed.
    pub fn summary_has_expired(&self) -> bool {
        let summary = &self.queue_head_summary;
        let first_seq = summary.first_seq.unwrap_or(1);
        !summary.content.is_empty() && self.expired.through_seq >= first_seq
    }
}

/// The queue, as a range of the agent's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// First seq in the queue.
    pub head_seq: u64,
    /// Seq that the next message gets.
    pub next_seq: u64,
    /// Number of messages in the queue.
    pub count: u64,
    /// Rendered cost of all messages in the queue, in tokens.
    pub tokens: u64,
    /// Version of the core in which the queue last changed.
    pub changed_at_version: u64,
    /// Seq of the newest tainted message that entered the queue; 0 if no tainted message did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tainted_seq: u64,
    /// Seq of the newest message in the queue with text from outside; 0 if there was none since the
    /// server began to record this.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub outside_seq: u64,
    /// Day of the queue's first message in the agent's zone, as `2026-05-05 Tue`. `None` in an
    /// empty queue, and in form 1 of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_on: Option<String>,
    /// Time of the newest message of the conversation, as `2026-05-05 Tue 09:14`. The next message
    /// shows its own time only if it differs. `None` before the first message, and in form 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// Whether the newest message of a user or of the assistant made tool calls. The next one then
    /// has a filler; see [`super::message::Message::frame_tokens`]. Only in the strict form.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_calls: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A tool call in the queue without a result. Chat formats refuse a tool call without a result, so
/// a placeholder message follows such a call in the window until the result arrives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// Id of the call without a result.
    pub id: String,
    /// Position of the message that contains the call.
    pub seq: u64,
    /// Rendered cost of the placeholder for the missing result, in tokens.
    pub token_estimate: u64,
    /// Whether a later tool call has the same id. If so, a result with this id answers the later
    /// call.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replaced: bool,
    /// Day of the message that contains the call, as `2026-05-05 Tue`; a result of another day
    /// shows its own day. `None` in form 1 of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
}

/// A current notice in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Kind of the notice: `pressure` or `spool`.
    pub kind: String,
    /// The text of the notice.
    pub content: String,
    /// Rendered cost of the notice, in tokens.
    pub token_estimate: u64,
    /// Ids of the entries of recall storage that a spool notice points to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<String>,
}

/// Head of the hash chain over an agent's messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// Chain value of the newest message (hex).
    pub head: String,
    /// Number of messages in the hash chain.
    pub length: u64,
}

/// Counts since the agent's creation, for information only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Number of times that the window's occupancy rose above the warning mark.
    pub warnings: u64,
    /// Number of evictions.
    pub flushes: u64,
    /// Number of evicted messages.
    pub evicted: u64,
    /// Number of recall searches that wrote a copy or a result list. The server's metrics count all
    /// recall searches.
    #[serde(default)]
    pub recall_searches: u64,
    /// Number of these searches that had a result.
    #[serde(default)]
    pub recall_hits: u64,
}

/// Earlier revisions of the core with their version numbers, newest last. They are stored as one
/// text (`rev=version rev=version …`), because every change writes all of them again and this text
/// is shorter than a list of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecentRevisions(String);

impl RecentRevisions {
    /// Adds a revision of the core and drops the oldest revisions beyond the number `kept`.
    pub fn push(&mut self, rev: &str, version: u64, kept: usize) {
        let known: Vec<&str> = self.0.split(' ').filter(|e| !e.is_empty()).collect();
        let surplus = (known.len() + 1).saturating_sub(kept);
        let mut text = known[surplus.min(known.len())..].join(" ");
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(rev);
        text.push('=');
        text.push_str(&version.to_string());
        self.0 = text;
    }

    /// Returns the version of the oldest known revision of the core; 0 if no revision is known.
    pub fn oldest_version(&self) -> u64 {
        let first = self.0.split(' ').next().and_then(|entry| entry.rsplit('=').next());
        first.and_then(|version| version.parse().ok()).unwrap_or(0)
    }

    /// Returns the version of a revision of the core, if the revision is known.
    pub fn version_of(&self, rev: &str) -> Option<u64> {
        let known =
            |entry: &&str| entry.strip_prefix(rev).is_some_and(|rest| rest.starts_with('='));
        self.0.split(' ').rev().find(known)?[rev.len() + 1..].parse().ok()
    }
}

impl Core {
    /// Returns the name that the digests of messages contain for the agent. This is the agent's
    /// name at its creation.
    pub fn sealed_as(&self) -> &str {
        self.sealed_as.as_deref().unwrap_or(&self.agent_id)
    }

    /// Returns, as a patch, the attributes that differ from the attributes of the core `before`. A
    /// changed sub-object is included as a whole.
    pub fn patch_since(&self, before: &Self) -> Map<String, Value> {
        let mut patch = Map::new();
        macro_rules! changed {
            ($($field:ident)*) => {$(
                if self.$field != before.$field {
                    let value = serde_json::to_value(&self.$field).expect("plain values are JSON");
                    patch.insert(stringify!($field).into(), value);
                }
            )*};
        }
        changed!(context_window encoding form window_clock token_budget system working_blocks removed_blocks queue_head_summary held queue open_calls notices
            chain counters heartbeat recent_revisions version updated_at last_message_ms archived expired forgotten run turns asked learned released salt tool_sets context engineer tools reserved outbound spending user names);
        patch
    }

    /// Returns which models may receive the agent's texts.
    pub fn outbound(&self) -> Outbound {
        self.outbound.unwrap_or_default()
    }

    /// Returns the tokens of the agent's prompts and answers today, and the agent's own limit.
    pub fn spending(&self) -> Spending {
        self.spending.clone().unwrap_or_default()
    }

    /// Returns the tools that take tokens of the window: those of the open run, else those of the
    /// caller.
    pub fn offered(&self) -> &Offered {
        self.reserved.as_ref().unwrap_or(&self.tools)
    }

    /// Returns the number of tokens of all placeholders for missing tool results.
    pub fn open_call_tokens(&self) -> u64 {
        self.open_calls.iter().flatten().map(|call| call.token_estimate).sum()
    }

    /// Returns the block with the given name.
    pub fn block(&self, id: &str) -> Option<&Block> {
        self.working_blocks.iter().find(|b| b.id == id)
    }

    /// Returns the length of the texts of all blocks together, in bytes.
    pub fn blocks_bytes(&self) -> u64 {
        self.working_blocks.iter().map(|block| block.content.len() as u64).sum()
    }

    /// Returns the version of the core that last wrote or removed the named block; 0 if unknown.
    pub fn block_changed_at(&self, id: &str) -> u64 {
        let removed = self.removed_blocks.iter().rev().find(|b| b.id == id).map(|b| b.version);
        self.block(id).map(|b| b.changed_at_version).or(removed).unwrap_or(0)
    }

    /// Returns the version of the current or a recent revision; `None` if the revision is unknown.
    pub fn version_of(&self, rev: &str) -> Option<u64> {
        if rev == self.rev {
            return Some(self.version);
        }
        self.recent_revisions.version_of(rev)
    }
}
