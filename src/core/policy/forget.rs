//! The request for a forget operation, the rows that the request concerns, and the rows of the next
//! step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::FORGET_ROWS;
use crate::memory::forget::{Forgetting, Phase, Quoted, QuotingVersion};
use crate::memory::message::Message;

/// A request for a forget operation, which names what to forget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgetAsked {
    /// Positions of the messages to forget.
    pub seqs: Vec<u64>,
    /// Ids of the messages to forget.
    pub ids: Vec<String>,
    /// Id of the archive's document to forget.
    pub doc_id: Option<String>,
    /// A text to forget; every message and every document that contains this text is forgotten.
    pub text: Option<String>,
    /// Whether blocks that quote the text to forget are also removed.
    pub blocks: bool,
    /// Whether the rows that would be removed or changed are counted.
    pub counted: bool,
    /// Whether the summary is made again from the messages that are left.
    pub renews: bool,
}

/// The rows that a request for a forget operation concerns.
#[derive(Clone, Debug, Default)]
pub struct ForgetFound {
    /// Messages to forget, in the order of the log. The list includes copies of these messages, and
    /// the calls or results that belong to them.
    pub messages: Vec<FoundMessage>,
    /// Ids of the archive's documents to forget.
    pub documents: Vec<String>,
    /// Names of the schedules to forget.
    pub schedules: Vec<String>,
    /// Keys of tool sets to forget.
    pub tool_sets: Vec<String>,
    /// Keys of context packs that contain the text to forget.
    pub packs: Vec<String>,
    /// The stored core versions in which a block or the system text contains the text to forget.
    pub versions: Vec<QuotingVersion>,
    /// Keys of stored answers that contain the text to forget.
    pub answers: Vec<String>,
    /// Keys of prompts whose options or notices contain the text to forget.
    pub prompts: Vec<String>,
    /// Texts that quote the text to forget and are in none of the rows that the other fields list.
    /// Blocks of the core that quote the text are always listed.
    pub quoted: Quoted,
    /// Whether the summary contains the text to forget verbatim.
    pub in_summary: bool,
    /// Whether a name that the core keeps contains the text to forget.
    pub in_names: bool,
    /// If the request asks for counts: the rows that would be removed or changed.
    pub preview: Option<ForgetPreview>,
}

/// The rows that a forget operation would remove or change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ForgetPreview {
    /// Whether the agent's current summary would be removed.
    pub summary: bool,
    /// Number of rows of each collection, without collections that stay as they are.
    pub places: BTreeMap<String, u64>,
}

impl ForgetFound {
    /// Returns whether the request concerns no row.
    pub fn is_empty(&self) -> bool {
        let beside = [&self.documents, &self.schedules, &self.tool_sets, &self.packs];
        self.messages.is_empty()
            && self.versions.is_empty()
            && beside.iter().all(|list| list.is_empty())
            && self.answers.is_empty()
            && self.prompts.is_empty()
            && self.quoted.blocks.is_empty()
            && !self.quoted.system
            && !self.in_summary
            && !self.in_names
    }
}

/// A message with tool calls or with the result of a call: its position and the ids of the calls.
#[derive(Clone, Debug, Deserialize)]
pub struct CallPlace {
    /// Position of the message with the tool call or the result.
    pub seq: u64,
    /// Ids of the calls in the message.
    pub calls: Vec<String>,
    /// Id of the call that the message answers.
    pub call_id: Option<String>,
}

impl From<&Message> for CallPlace {
    fn from(message: &Message) -> Self {
        Self {
            seq: message.seq,
            calls: message.tool_call_ids().map(str::to_owned).collect(),
            call_id: message.answers().map(str::to_owned),
        }
    }
}

/// Returns the positions of messages that must be removed together with the message at `seq`. For a
/// message with calls, these are the results. For a result, these are the message with its call,
/// and all results of that message's calls. A tool's result answers the last earlier call with the
/// result's id, because some runtimes reuse ids in each turn.
pub fn paired_with(seq: u64, places: &[CallPlace]) -> Vec<u64> {
    let Some(at) = places.iter().position(|one| one.seq == seq) else { return Vec::new() };
    let makes = |one: &&CallPlace, id: &String| one.calls.contains(id);
    let call = places[at]
        .call_id
        .as_ref()
        .and_then(|id| places[..at].iter().rposition(|one| makes(&one, id)));
    let results = |call: usize| {
        places[call].calls.iter().flat_map(move |id| {
            let behind = places[call + 1..].iter().take_while(move |one| !makes(one, id));
            behind.filter(move |one| one.call_id.as_ref() == Some(id)).map(|one| one.seq)
        })
    };
    let of_call = call.into_iter().flat_map(|call| results(call).chain([places[call].seq]));
    results(at).chain(of_call).filter(|other| *other != seq).collect()
}

/// A message to forget, as found by the request.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FoundMessage {
    /// Position of the message to forget.
    pub seq: u64,
    /// Key of the message to forget.
    pub id: String,
    /// Kind of the message to forget.
    pub kind: String,
    /// Digest of the message to forget.
    pub digest: String,
    /// Whether the message to forget is in a client's thread.
    pub thread: bool,
    /// Ids of the calls in the message to forget.
    pub calls: Vec<String>,
    /// Id of the call that the message to forget answers.
    pub call_id: Option<String>,
    /// Word sequences from the message's text, by which quotations in other texts are found.
    pub runs: Vec<String>,
}

/// The state of a forget operation, and the rows of the forget operation's next step.
#[derive(Clone, Debug, Default)]
pub struct ForgetLook {
    /// The forget operation's row; `None` if the key is unknown.
    pub row: Option<Forgetting>,
    /// Messages whose text the next step removes.
    pub messages: Vec<StandingMessage>,
    /// Keys of the rows that the next step removes.
    pub keys: Vec<String>,
    /// Start of the next page of rows; `None` after the last page.
    pub after: Option<String>,
}

impl ForgetLook {
    /// Whether the next step removes the last of the messages, and the summary with them, so that
    /// the summary is made again.
    pub fn renews_summary(&self, row: &Forgetting, head_seq: u64) -> bool {
        let last = row.phase == Phase::Messages && row.at + FORGET_ROWS >= row.items.len() as u64;
        let mut going = self.messages.iter().filter(|one| !one.gone);
        let goes =
            row.summary_from.is_some() || going.any(|one| one.summary_from(head_seq).is_some());
        row.renews && last && goes
    }
}

impl StandingMessage {
    /// Returns the first revision of the summary that may contain the message's text, given the
    /// first position of the queue; `None` if no summary may contain it.
    pub fn summary_from(&self, head_seq: u64) -> Option<u64> {
        let evicted = self.seq < head_seq && matches!(self.kind.as_str(), "turn" | "event");
        // If the message has no entry in recall storage, the first summary that includes the
        // message is unknown, so every summary may include it.
        evicted.then(|| self.summary_rev.filter(|_| self.folded).unwrap_or(0))
    }
}

/// A message to forget, as stored when the step begins.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct StandingMessage {
    /// Key of the message to forget.
    pub id: String,
    /// Position of the message to forget.
    pub seq: u64,
    /// Kind of the message to forget.
    pub kind: String,
    /// Rendered cost of the message, in tokens.
    pub token_estimate: u64,
    /// Cost of the lines around the copies of a search, which stay; 0 unless the message is the
    /// first of these copies.
    #[serde(default)]
    pub frame_tokens: u64,
    /// Whether the text of the message is already removed.
    pub gone: bool,
    /// Whether an eviction logged the message in recall storage.
    pub folded: bool,
    /// Revision of the first summary that includes the message.
    pub summary_rev: Option<u64>,
}
