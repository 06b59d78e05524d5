//! What is to be forgotten, what is found of it, and how a step of a forgetting finds things.

use serde::Deserialize;

use crate::memory::forget::{Forgetting, Quoted};

/// What is asked to be forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgetAsked {
    /// Places of messages.
    pub seqs: Vec<u64>,
    /// Ids of messages.
    pub ids: Vec<String>,
    /// A document of the archive.
    pub doc_id: Option<String>,
    /// A text: whatever holds it goes.
    pub text: Option<String>,
    /// Whether blocks that quote it go too.
    pub blocks: bool,
}

/// What is found of it.
#[derive(Clone, Debug, Default)]
pub struct ForgetFound {
    /// Messages, copies of them, and what they are paired with; by place.
    pub messages: Vec<FoundMessage>,
    /// Documents of the archive.
    pub documents: Vec<String>,
    /// Schedules by name.
    pub schedules: Vec<String>,
    /// Keys of sets of tools.
    pub tool_sets: Vec<String>,
    /// Keys of copies of texts that hold it in a block or in the system text.
    pub versions: Vec<String>,
    /// Keys of stored answers that hold it.
    pub answers: Vec<String>,
    /// Where it is quoted by what stays; blocks of the core, whether they stay or not.
    pub quoted: Quoted,
    /// Whether the summary holds it word by word.
    pub in_summary: bool,
}

impl ForgetFound {
    /// Whether there is nothing to forget.
    pub fn is_empty(&self) -> bool {
        let beside = [&self.documents, &self.schedules, &self.tool_sets, &self.versions];
        self.messages.is_empty()
            && beside.iter().all(|list| list.is_empty())
            && self.answers.is_empty()
            && self.quoted.blocks.is_empty()
            && !self.quoted.system
            && !self.in_summary
    }
}

/// A message as it is found.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FoundMessage {
    /// Its place.
    pub seq: u64,
    /// Its key.
    pub id: String,
    /// What it is to the queue.
    pub kind: String,
    /// Its digest.
    pub digest: String,
    /// Whether it stands in the thread of a client.
    pub thread: bool,
    /// Ids of the calls that it makes.
    pub calls: Vec<String>,
    /// The call that it answers.
    pub call_id: Option<String>,
    /// Runs of its text that are looked for elsewhere.
    pub runs: Vec<String>,
}

/// How it stands with a forgetting, and what its next step is about.
#[derive(Clone, Debug, Default)]
pub struct ForgetLook {
    /// The row; none: there is none of that key.
    pub row: Option<Forgetting>,
    /// Messages of the step.
    pub messages: Vec<StandingMessage>,
    /// Keys of the rows of the step.
    pub keys: Vec<String>,
    /// Where the next page begins; none: there is none.
    pub after: Option<String>,
}

/// A message that is about to be forgotten, as it stands.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct StandingMessage {
    /// Its key.
    pub id: String,
    /// Its place.
    pub seq: u64,
    /// What it is to the queue.
    pub kind: String,
    /// What it costs.
    pub token_estimate: u64,
    /// Whether its text is gone already.
    pub gone: bool,
    /// Whether an eviction logged it.
    pub folded: bool,
    /// Revision of the summary that stands for it since.
    pub summary_rev: Option<u64>,
}
