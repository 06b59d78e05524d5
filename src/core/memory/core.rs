//! The core of one agent as it lies in `core_memory`: system text, blocks, summary, queue marks, notices, chain head, budget, tools.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::archive::Archived;
use super::heartbeat::Heartbeat;
use super::prompt::{Asked, Learned};
use super::run::OpenRun;
use super::tokens::Encoding;

/// The document `core_memory/{scope}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Core {
    /// Document key: the agent, or `tenant:agent`.
    #[serde(rename = "_key")]
    pub key: String,
    /// Revision that the database gave; empty before the first write.
    #[serde(rename = "_rev", default, skip_serializing_if = "String::is_empty")]
    pub rev: String,
    /// Tenant of the agent; empty for the default one.
    pub tenant: String,
    /// Same as the key; what messages and events carry.
    pub agent_id: String,
    /// Form of this document, for migrations.
    pub schema_version: u32,
    /// Size of the window in tokens.
    pub context_window: u64,
    /// How tokens are counted.
    pub encoding: Encoding,
    /// Thresholds in tokens.
    pub token_budget: TokenBudget,
    /// System instructions.
    pub system: System,
    /// Working context.
    pub working_blocks: Vec<Block>,
    /// Blocks that were removed since the oldest revision remembered below.
    #[serde(default)]
    pub removed_blocks: Vec<RemovedBlock>,
    /// Recursive summary of what left the queue.
    pub queue_head_summary: Summary,
    /// Where the queue begins and ends on the agent's number line.
    pub queue: Queue,
    /// Calls of tools in the queue that have no result there, oldest first; none in a core that was
    /// last written before cores knew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_calls: Option<Vec<OpenCall>>,
    /// Standing notices, one per kind.
    pub notices: Vec<Notice>,
    /// Head of the hash chain over all messages.
    pub chain: Chain,
    /// What happened so far.
    pub counters: Counters,
    /// Chains of calls: limits and where they stand.
    #[serde(default)]
    pub heartbeat: Heartbeat,
    /// The last revisions and the versions they stood for, newest last.
    pub recent_revisions: RecentRevisions,
    /// Number of writes to this document.
    pub version: u64,
    /// When the agent was made.
    pub created_at: String,
    /// When this document was last written.
    pub updated_at: String,
    /// Milliseconds of the newest message's `created_at`; the next one is later.
    pub last_message_ms: u64,
    /// What the agent has in the archive.
    #[serde(default)]
    pub archived: Archived,
    /// What went by its age.
    #[serde(default)]
    pub expired: Expired,
    /// What was forgotten by request.
    #[serde(default)]
    pub forgotten: Forgotten,
    /// The run that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<OpenRun>,
    /// Prompts so far.
    #[serde(default)]
    pub turns: u64,
    /// The prompt that waits for its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// What was learned of the models that were asked, the one asked last at the end.
    #[serde(default)]
    pub learned: Vec<Learned>,
    /// Digests of the tool sets that were kept last, newest at the end.
    #[serde(default)]
    pub tool_sets: Vec<String>,
    /// What is offered to the model beside the messages.
    #[serde(default)]
    pub tools: Offered,
    /// Where it parted from another agent; none where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
    /// Tainted items that were released from quarantine, by their names' digests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<String>,
    /// The name under the digests of its messages, where an import gave the agent another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_as: Option<String>,
    /// Where it is about to go, and who moves it: until then nobody writes to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<Leaving>,
}

/// Where an agent is about to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// Who moves it.
    pub by: String,
    /// The place.
    pub to: String,
}

/// Where a branch begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Name of the agent that it parted from.
    pub parent: String,
    /// The last message that both have, on the parent's number line.
    pub seq: u64,
}

/// The tools that a model is offered with every request: they take room in its window like a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Offered {
    /// SHA-256 of their schemas (hex); empty when nothing is offered.
    pub digest: String,
    /// What they cost in the model's window, in tokens; 0 when nothing is offered.
    pub token_estimate: u64,
}

/// What went by the policy of retention, and up to where everything did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expired {
    /// Messages whose text went.
    pub messages: u64,
    /// Last seq up to which every text is gone.
    pub through_seq: u64,
    /// When that message was appended.
    pub through_at: String,
    /// Last version up to which the summaries in copies are gone.
    pub through_version: u64,
}

/// What was forgotten by request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// Messages whose text went.
    pub messages: u64,
}

/// 70/90/50 of the window, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBudget {
    /// From here on a pressure notice stands in the window.
    pub warning: u64,
    /// From here on the oldest messages are evicted.
    pub flush: u64,
    /// Down to here.
    pub target: u64,
    /// The window.
    pub max: u64,
}

/// System instructions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// The text.
    pub content: String,
    /// Its full rendered cost.
    pub token_estimate: u64,
    /// Version of the core in which it last changed.
    pub changed_at_version: u64,
}

/// A block of the working context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Name, unique within the agent.
    pub id: String,
    /// What it is for (`persona`, `human`, …); free text.
    pub role: String,
    /// The text.
    pub content: String,
    /// Its full rendered cost.
    pub token_estimate: u64,
    /// Pinned blocks count to the quarter of the window that pins may take.
    pub pinned: bool,
    /// Version of the core in which it last changed.
    pub changed_at_version: u64,
    /// Why tainted text stands in it; none of a block that holds none. Never rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taint: Option<BlockTaint>,
    /// Whether block markup in its text is escaped where it is rendered. False of a text without
    /// any, and of a copy from before there was escaping, which has to render as it did.
    #[serde(default, skip_serializing_if = "is_false")]
    pub escaped: bool,
}

impl Block {
    /// All that somebody wrote into it: its text, what it is for, and why tainted text stands in it.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let why = self.taint.as_ref().map(|taint| taint.justification.as_str());
        [self.content.as_str(), self.role.as_str()].into_iter().chain(why)
    }
}

/// Why tainted text stands in a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockTaint {
    /// The rules that it meets.
    pub rules: Vec<String>,
    /// Whether it shares a run of words with tainted text that was in view.
    pub shared: bool,
    /// What its writer said.
    pub justification: String,
}

/// A block that is gone: a writer who still saw it builds on something that changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovedBlock {
    /// Its name.
    pub id: String,
    /// Version of the core in which it went.
    pub version: u64,
}

/// The recursive summary at the head of the queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The text; empty before the first eviction.
    pub content: String,
    /// Its full rendered cost; 0 when it is empty.
    pub token_estimate: u64,
    /// Grows by one with each new summary.
    pub revision: u64,
    /// Version of the core in which it last changed.
    pub changed_at_version: u64,
    /// Key of its copy in `core_versions`, from which edges lead to what it was made of; none before there were such edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// As of a block.
    #[serde(default, skip_serializing_if = "is_false")]
    pub escaped: bool,
}

/// Marks of the queue on the agent's number line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// First seq that is still in the queue.
    pub head_seq: u64,
    /// Seq of the next message.
    pub next_seq: u64,
    /// Messages in the queue.
    pub count: u64,
    /// Their rendered cost together.
    pub tokens: u64,
    /// Version of the core in which it last changed.
    pub changed_at_version: u64,
    /// Seq of the newest tainted message that came into it; 0: none did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tainted_seq: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A call of a tool in the queue that has no result there. Chat formats refuse a call without one,
/// so a message stands in its place in the window until the result comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// Its id.
    pub id: String,
    /// Place of the message that makes it.
    pub seq: u64,
    /// Full rendered cost of what stands in the place of its result.
    pub token_estimate: u64,
    /// Whether a later call took its id over: a result answers that one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replaced: bool,
}

/// A standing notice in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// `pressure` or `spool`.
    pub kind: String,
    /// The text.
    pub content: String,
    /// Its full rendered cost.
    pub token_estimate: u64,
}

/// Head of the hash chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// Chain value of the newest message (hex).
    pub head: String,
    /// Messages under it.
    pub length: u64,
}

/// What happened so far; for people, not for decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Upward crossings of the warning threshold.
    pub warnings: u64,
    /// Evictions.
    pub flushes: u64,
    /// Messages evicted.
    pub evicted: u64,
    /// Recall searches that wrote (a copy, a page, a beat); those that only read are counted by the process.
    #[serde(default)]
    pub recall_searches: u64,
    /// Those among them that found something.
    #[serde(default)]
    pub recall_hits: u64,
}

/// Earlier revisions and the versions they stood for, newest last. One text (`rev=version rev=version …`) in the document: it is
/// written with every change, and a list of objects would cost more than the rest of a small change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecentRevisions(String);

impl RecentRevisions {
    /// Adds a revision; the oldest ones beyond `kept` go.
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

    /// The version of the oldest revision that is still known; 0 when none is.
    pub fn oldest_version(&self) -> u64 {
        let first = self.0.split(' ').next().and_then(|entry| entry.rsplit('=').next());
        first.and_then(|version| version.parse().ok()).unwrap_or(0)
    }

    /// The version that a revision stood for, if it is still known.
    pub fn version_of(&self, rev: &str) -> Option<u64> {
        let known =
            |entry: &&str| entry.strip_prefix(rev).is_some_and(|rest| rest.starts_with('='));
        self.0.split(' ').rev().find(known)?[rev.len() + 1..].parse().ok()
    }
}

impl Core {
    /// The name under the digests of its messages: what it was called when it was made.
    pub fn sealed_as(&self) -> &str {
        self.sealed_as.as_deref().unwrap_or(&self.agent_id)
    }

    /// Attributes of `self` that differ from `before`, as a patch for the document (sub-objects whole).
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
        changed!(context_window encoding token_budget system working_blocks removed_blocks queue_head_summary queue open_calls notices
            chain counters heartbeat recent_revisions version updated_at last_message_ms archived expired forgotten run turns asked learned released tool_sets tools);
        patch
    }

    /// What stands in the places of results that did not come yet, in tokens.
    pub fn open_call_tokens(&self) -> u64 {
        self.open_calls.iter().flatten().map(|call| call.token_estimate).sum()
    }

    /// The block of that name.
    pub fn block(&self, id: &str) -> Option<&Block> {
        self.working_blocks.iter().find(|b| b.id == id)
    }

    /// Version in which a block of that name was last written or removed; 0 when nothing remembered did either.
    pub fn block_changed_at(&self, id: &str) -> u64 {
        let removed = self.removed_blocks.iter().rev().find(|b| b.id == id).map(|b| b.version);
        self.block(id).map(|b| b.changed_at_version).or(removed).unwrap_or(0)
    }

    /// The version that a revision stood for, if the core still remembers it.
    pub fn version_of(&self, rev: &str) -> Option<u64> {
        if rev == self.rev {
            return Some(self.version);
        }
        self.recent_revisions.version_of(rev)
    }
}

#[cfg(test)]
mod tests {
    use super::RecentRevisions;

    #[test]
    fn the_newest_revisions_are_known_and_no_others() {
        let mut recent = RecentRevisions::default();
        for version in 1..=9 {
            recent.push(&format!("_a{version}---"), version, 4);
        }
        let known: Vec<Option<u64>> =
            (5..=9).map(|v| recent.version_of(&format!("_a{v}---"))).collect();
        assert_eq!(known, [None, Some(6), Some(7), Some(8), Some(9)]);
        assert_eq!((recent.oldest_version(), RecentRevisions::default().oldest_version()), (6, 0));
        assert_eq!(recent.version_of("_a"), None);
        assert_eq!(recent.version_of(""), None);
    }
}
